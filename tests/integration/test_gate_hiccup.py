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


@pytest.mark.parametrize("hiccups", [0, 2, 4, 6])
def test_hiccup__an_unchanged_pull_request_whose_first_calls_fail_passes(tmp_path: Path, hiccups: int) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    marks.chmod(0o777)
    root = tmp_path / "repository"
    repo = new_repo(root)
    repository = Repository(root=root)
    away_once = f"mark.name in {[str(number) for number in range(hiccups)]} and not mark.exists()"
    repo.write({"bot/__init__.py": "from . import agent\n", "bot/agent.py": agent(marks, away_once)})
    repository.evals(EVALS, CASES)
    for number in range(hiccups):
        (marks / str(number)).touch()
    base = repository.gate("run", "evals", "--num-runs", "10", output=tmp_path / "base")
    assert base.code == 0, base.err
    shutil.copy(tmp_path / "base" / "results.json", root / "evals" / "base.json")
    repo.commit({}, "The base branch, and what it did")
    repo.branch("pull-request")
    repo.commit({"notes.md": "Nothing of the agent.\n"}, "The pull request")
    for number in range(hiccups):
        (marks / str(number)).unlink()

    flags = ("run", "evals", "--baseline", "file:evals/base.json", "--base-ref", "main")
    done = repository.gate(*flags)

    assert done.code == 0, done.out + done.err
    assert done.report.decision is not None
    assert done.report.decision.outcome == "passed"
    fresh = {case.case_id: len(case.runs) for case in done.report.confirmations}
    assert all(fresh[f"{EVALS}:case{number}"] >= 2 for number in range(hiccups))

    if hiccups == 4:  # Where the head can't run again, nothing is seen again: that is no pass, and blocks nothing.
        for number in range(hiccups):
            (marks / str(number)).unlink()
        done = repository.gate(*flags, "--max-extra-runs", "0")
        assert done.report.decision is not None
        assert (done.code, done.report.decision.outcome) == (3, "inconclusive"), done.out + done.err


def test_hiccup__a_dependency_that_stays_away_blocks(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    marks.chmod(0o777)
    root = tmp_path / "repository"
    repo = new_repo(root)
    repository = Repository(root=root)
    repo.write({"bot/__init__.py": "from . import agent\n", "bot/agent.py": ECHO})
    repository.evals(EVALS, CASES)
    assert repository.gate("run", "evals", "--num-runs", "10", output=tmp_path / "base").code == 0
    shutil.copy(tmp_path / "base" / "results.json", root / "evals" / "base.json")
    repo.commit({}, "The base branch, and what it did")
    repo.branch("pull-request")
    repo.commit({"bot/agent.py": agent(marks, "mark.name in ['3', '4']")}, "The pull request")

    done = repository.gate("run", "evals", "--baseline", "file:evals/base.json", "--base-ref", "main")

    assert done.code == 1, done.out + done.err
    decision = done.report.decision
    assert decision is not None
    assert [reason.code for reason in decision.reasons if reason.blocking] == ["case-worse"]
    assert decision.reasons[0].case_ids == [f"{EVALS}:case3", f"{EVALS}:case4"]
    assert {case.case_id: len(case.runs) for case in done.report.confirmations} == {
        f"{EVALS}:case3": 3,
        f"{EVALS}:case4": 3,
    }
