"""A bad moment of the pull request's first runs, end to end: what fresh runs do not show again blocks nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from base_repos import new_repo
from dead_or_alive import ECHO, IN_A_TURN
from gate_runs import Repository

pytestmark = pytest.mark.slow

CASES = {f"case{number}": f"Say the number {number}." for number in range(20)}
EVALS = "evals/bot.evalset.json"


def agent(marks: Path, failing: str) -> str:
    """Its dependency is away in the first call of some cases, or in every one: a file remembers that it was called."""
    turn = f"""
        mark = Path({str(marks)!r}) / text.split()[-1].rstrip(".")
        if {failing}:
            mark.touch()
            text = "My calendar does not answer."
"""
    text = ECHO.replace(IN_A_TURN, IN_A_TURN + turn.removeprefix("\n"))
    return text.replace("from google.adk.agents", "from pathlib import Path\n\nfrom google.adk.agents", 1)


def pull_request(root: Path, base: str, head: str, missing: list[int]) -> Repository:
    """A change of the agent, with the base branch's results beside it; these cases have not been called yet."""
    repo, repository, marks = new_repo(root / "repository"), Repository(root=root / "repository"), root / "marks"
    marks.mkdir()
    marks.chmod(0o777)
    repo.write({"bot/__init__.py": "from . import agent\n", "bot/agent.py": base})
    repository.evals(EVALS, CASES)
    for number in missing:
        (marks / str(number)).touch()
    done = repository.gate("run", "evals", "--num-runs", "10", output=root / "base")
    assert done.code == 0, done.err
    shutil.copy(root / "base" / "results.json", repo.root / "evals" / "base.json")
    repo.commit({}, "The base branch, and what it did")
    repo.branch("pull-request")
    repo.commit({"bot/agent.py": head, "notes.md": "New.\n"}, "The pull request")
    forget(root, missing)
    return repository


def forget(root: Path, cases: list[int]) -> None:
    """Lets the agent's first call of these cases be the first one."""
    for number in cases:
        (root / "marks" / str(number)).unlink()


COMPARED = ("run", "evals", "--baseline", "file:evals/base.json", "--base-ref", "main")


@pytest.mark.parametrize("hiccups", [2, 6])
def test_hiccup__an_unchanged_pull_request_whose_first_calls_fail_passes(tmp_path: Path, hiccups: int) -> None:
    away_once = f"mark.name in {[str(number) for number in range(hiccups)]} and not mark.exists()"
    same = agent(tmp_path / "marks", away_once)
    repository = pull_request(tmp_path, same, same, [*range(hiccups)])

    done = repository.gate(*COMPARED)

    assert done.code == 0, done.out + done.err
    assert done.report.decision is not None and done.report.decision.outcome == "passed"
    fresh = {case.case_id: len(case.runs) for case in done.report.confirmations}
    assert all(fresh[f"{EVALS}:case{number}"] >= 2 for number in range(hiccups))

    if hiccups == 6:  # Where the head can't run again, nothing is seen again: that is no pass, and blocks nothing.
        forget(tmp_path, [*range(hiccups)])
        done = repository.gate(*COMPARED, "--max-extra-runs", "0")
        assert done.report.decision is not None
        assert (done.code, done.report.decision.outcome) == (3, "inconclusive"), done.out + done.err


def test_hiccup__a_dependency_that_stays_away_blocks(tmp_path: Path) -> None:
    broken = agent(tmp_path / "marks", "mark.name in ['3', '4']")

    done = pull_request(tmp_path, ECHO, broken, []).gate(*COMPARED)

    assert done.code == 1, done.out + done.err
    decision = done.report.decision
    assert decision is not None
    assert [reason.code for reason in decision.reasons if reason.blocking] == ["case-worse"]
    worse = [f"{EVALS}:case3", f"{EVALS}:case4"]
    assert decision.reasons[0].case_ids == worse
    assert {case.case_id: len(case.runs) for case in done.report.confirmations} == dict.fromkeys(worse, 3)
