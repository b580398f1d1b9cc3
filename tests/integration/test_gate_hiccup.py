"""A bad moment of the pull request's first runs, end to end: what fresh runs do not show again blocks nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from base_repos import new_repo
from dead_or_alive import ECHO, IN_A_TURN
from gate_runs import Done, Repository

CASES = {f"case{number}": f"Say the number {number}." for number in range(20)}
EVALS, HICCUPS = "evals/bot.evalset.json", range(6)


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


@pytest.mark.slow
def test_hiccup__an_unchanged_pull_request_whose_first_calls_fail_passes(tmp_path: Path) -> None:
    repo, repository, marks = new_repo(tmp_path / "repo"), Repository(root=tmp_path / "repo"), tmp_path / "marks"
    marks.mkdir()
    marks.chmod(0o777)
    away_once = f"mark.name in {[str(number) for number in HICCUPS]} and not mark.exists()"
    repo.write({"bot/__init__.py": "from . import agent\n", "bot/agent.py": agent(marks, away_once)})
    repository.evals(EVALS, CASES)
    for number in HICCUPS:
        (marks / str(number)).touch()
    base = repository.gate("run", "evals", "--num-runs", "10", output=tmp_path / "base")
    assert base.code == 0, base.err
    shutil.copy(base.output / "results.json", repo.root / "evals" / "base.json")
    repo.commit({}, "The base branch, and what it did")
    repo.branch("pull-request")
    repo.commit({"notes.md": "Nothing of the agent.\n"}, "The pull request")

    def compared(*arguments: str) -> Done:
        for number in HICCUPS:
            (marks / str(number)).unlink()
        return repository.gate("run", "evals", "--baseline", "file:evals/base.json", "--base-ref", "main", *arguments)

    done = compared()
    assert done.report.decision is not None
    assert (done.code, done.report.decision.outcome) == (0, "passed"), done.out + done.err
    fresh = {case.case_id: len(case.runs) for case in done.report.confirmations}
    assert all(fresh[f"{EVALS}:case{number}"] >= 2 for number in HICCUPS)

    # Where the head can't run again, nothing is seen again: that is no pass, and blocks nothing.
    unconfirmed = compared("--max-extra-runs", "0")
    assert unconfirmed.report.decision is not None
    assert (unconfirmed.code, unconfirmed.report.decision.outcome) == (3, "inconclusive"), unconfirmed.err
