"""A killed run continues where it stopped, and pays for nothing twice."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from gate_runs import Done, Repository, repository_in, wait_until

CASES = {f"case {number}": f"say {number}" for number in range(4)}


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    with repository_in(tmp_path / "repo", "counted") as made:
        yield made


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs.txt"


def paid(runs: Path) -> list[str]:
    return sorted(runs.read_text(encoding="utf-8").splitlines())


def run(repository: Repository, runs: Path, *arguments: str) -> Done:
    return repository.gate("run", *arguments, environment={"RUNS_FILE": str(runs)})


def interrupted(repository: Repository, runs: Path, number: signal.Signals) -> None:
    """A run that is ended when all but the last case are recorded, and the last one has begun."""
    process = repository.start("run", environment={"RUNS_FILE": str(runs)})
    repository.wait_for_runs(len(CASES))
    wait_until(lambda: len(paid(runs)) == len(CASES) + 1)  # It may be in a second process, which has to load the agent.
    os.kill(process.pid, number)
    repository.finish(process, timeout=30)


@pytest.mark.parametrize("number", [pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGKILL])
def test_resume__it_finishes_without_running_again_what_is_done(
    repository: Repository, runs: Path, number: signal.Signals
) -> None:
    if number == signal.SIGTERM:  # The agent's directory is the repository itself, so what we write lies inside it.
        for path in (repository.root / "counted").iterdir():
            path.rename(repository.root / path.name)
    repository.evals("evals/some.test.json", {**CASES, "slow": "wait:1.5"})
    interrupted(repository, runs, number)
    assert paid(runs) == sorted([*CASES.values(), "wait:1.5"])
    wait_until(lambda: repository.left_behind() == [], seconds=10)
    done = run(repository, runs, "--resume")
    assert done.code == 0, done.out + done.err
    assert done.statuses == dict.fromkeys([*CASES, "slow"], "passed")
    assert paid(runs) == sorted([*CASES.values(), "wait:1.5", "wait:1.5"]), "only what was missing ran"
    done.check_files()
    assert len(done.recordings) == 5
    assert "4 runs taken from the journal of an earlier run" in done.out
    assert not (done.output / "journal.jsonl").exists()

    if number == signal.SIGTERM:
        assert run(repository, runs, "--resume").code == 0
        assert len(paid(runs)) == 6 + 5, "a run that is complete leaves nothing to resume"
