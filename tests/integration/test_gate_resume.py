"""A killed run continues where it stopped, and pays for nothing twice."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from base_repos import Repo
from gate_runs import Done, Repository, repository_in, wait_until
from recorded_evals import AGENT, write_evals

from agent_eval.pipeline import RunContext, detect_ci_context, pipeline
from agent_eval.runner import Progress
from agent_eval.settings import read_settings

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


def test_resume__after_a_stop_between_the_last_run_and_the_comparison(tmp_path: Path) -> None:
    """The runs were paid for, and the verdict still needs them."""
    write_evals(tmp_path, "evals/a.test.json", {"c1": ["lamp"], "c2": ["fan"]})
    repo = Repo(tmp_path)
    repo.git("init", "-q", "-b", "main")
    repo.commit({})
    settings, problems = read_settings(tmp_path)
    settings = replace(settings, agent=AGENT, baseline="file:base.json")
    ci, more = detect_ci_context(settings, {})
    assert [*problems, *more] == []
    context = RunContext(environ={}, ci=ci)
    recorded = asyncio.run(pipeline.run(replace(settings, baseline="none"), context))
    shutil.copy(recorded.files["results-file"], tmp_path / "base.json")

    def stop_at_the_end(progress: Progress) -> None:
        if progress.done == progress.total:
            context.stop.set()

    stopped = asyncio.run(pipeline.run(settings, replace(context, progress=stop_at_the_end))).report
    assert [case.status for case in stopped.cases] == ["passed", "failed"]
    assert [reason.code for reason in stopped.reasons][-1] == "not-compared"
    context.stop.clear()
    done = asyncio.run(pipeline.run(replace(settings, resume=True), context)).report

    assert done.comparison is not None
    assert "2 runs taken from the journal of an earlier run" in done.notices
    assert not (settings.output / "journal.jsonl").exists()
