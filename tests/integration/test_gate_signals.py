"""A gate that gets a signal leaves complete, valid results of what it had, and no process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from gate_runs import MARK, Done, Repository, patience, repository_in, wait_until

QUICK = {f"quick {number}": f"say {number}" for number in range(3)}
CASES = {**QUICK, "hangs": "sleep:600", "blocks": "block:600"}


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    with repository_in(tmp_path, "faults") as made:
        made.evals("evals/slow.test.json", CASES)
        yield made


def under_way(repository: Repository, *arguments: str) -> subprocess.Popen[str]:
    """A gate whose quick cases are done and whose agent hangs."""
    process = repository.start("run", "--concurrency", "2", *arguments, environment={"CI": ""})
    repository.wait_for_runs(len(QUICK))
    return process


def end(repository: Repository, process: subprocess.Popen[str], number: signal.Signals) -> Done:
    os.kill(process.pid, number)
    return repository.finish(process, timeout=30)


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, *(pytest.param(each, marks=pytest.mark.slow) for each in (signal.SIGINT, signal.SIGHUP))]
)
def test_signal__leaves_complete_results(repository: Repository, number: signal.Signals) -> None:
    done = end(repository, under_way(repository), number)
    # GitHub sends SIGINT, SIGTERM after 7.5 s and SIGKILL 2.5 s later (actions/runner, ProcessInvoker.cs).
    assert done.seconds < 7 * patience()
    assert done.code == 3, done.out + done.err
    assert done.statuses == {**dict.fromkeys(QUICK, "passed"), "hangs": "not_run", "blocks": "not_run"}
    done.check_files()
    assert {case.reason.code for case in done.report.cases if case.reason} == {"stopped"}
    assert "--resume" in done.out + (done.output / "summary.md").read_text(encoding="utf-8")
    assert (done.output / "journal.jsonl").exists()
    assert repository.left_behind() == []


@pytest.mark.slow
def test_signal__a_second_one_leaves_complete_results(repository: Repository) -> None:
    process = under_way(repository)
    os.kill(process.pid, signal.SIGINT)
    time.sleep(0.05)
    done = end(repository, process, signal.SIGTERM)
    assert done.code == 3
    done.check_files()
    assert repository.left_behind() == []


@pytest.mark.slow
def test_signal__while_tools_are_recorded_advises_nothing_that_is_refused(repository: Repository) -> None:
    done = end(repository, under_way(repository, "--record", "all"), signal.SIGTERM)
    assert done.code == 3, done.out + done.err
    assert "continues from there with --resume" not in done.out + (done.output / "summary.md").read_text("utf-8")


@pytest.fixture
def silent_index(repository: Repository) -> Iterator[Mapping[str, str]]:
    """An index of packages that accepts and never answers; the environment that leads there."""
    (repository.root / "requirements.txt").write_text("google-adk==2.13.0\n", encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as server:
        index = f"http://127.0.0.1:{server.getsockname()[1]}/simple"
        yield {"UV_DEFAULT_INDEX": index, "UV_INDEX_URL": index, "NO_PROXY": "127.0.0.1"}


@pytest.mark.slow
def test_sigkill__ends_the_installer(repository: Repository, tmp_path: Path, silent_index: Mapping[str, str]) -> None:
    cache = ("--cache-dir", str(tmp_path / "cache"), "--agent-env", f"+{MARK}")
    process = repository.start("run", *cache, python=False, environment=silent_index)
    wait_until(lambda: any("pip install" in command for command in repository.left_behind()), seconds=60)
    process.kill()
    process.communicate(timeout=60)
    wait_until(lambda: repository.left_behind() == [], seconds=20)


@pytest.mark.slow
@pytest.mark.parametrize("words", ["agent-setup", "environment"])
def test_signal__before_the_agent_runs(
    repository: Repository, tmp_path: Path, silent_index: Mapping[str, str], words: str
) -> None:
    """While its environment is made, or when that has been made by `agent-setup`."""
    setup = ("--agent-setup", "sleep 600") if words == "agent-setup" else ("--cache-dir", str(tmp_path / "cache"))
    process = repository.start("run", *setup, python=False, environment=silent_index)
    assert process.stderr is not None
    seen = ""
    while words not in seen:
        line = process.stderr.readline()
        assert line, seen
        seen += line
    time.sleep(0.3)

    done = end(repository, process, signal.SIGTERM)

    assert done.seconds < 7 * patience()
    assert done.code == 3, done.out + done.err
    assert set(done.statuses.values()) == {"not_run"}
    done.check_files()
    assert repository.left_behind() == []
