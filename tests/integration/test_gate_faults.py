"""Whatever the agent does: the gate ends in time, says whose fault it is, and keeps the results of the others."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from gate_runs import Repository, patience, repository_in, wait_until

GOOD = {f"good {number}": f"say {number}" for number in range(3)}


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    with repository_in(tmp_path, "faults") as made:
        yield made


@pytest.fixture
def new_hosts(tmp_path: Path) -> Iterator[Repository]:
    """The same for tests of how hosts are watched."""
    with repository_in(tmp_path, "faults", new_hosts=True) as made:
        yield made


def test_faults__crashes_exceptions_and_floods_hurt_only_their_own_case(repository: Repository) -> None:
    bad = {"leaves": "os._exit", "segfault": "abort", "raises": "raise", "exits": "sys.exit"}
    repository.evals("evals/faults.evalset.json", {**GOOD, **bad, "flood": "flood:30000000"})
    done = repository.gate("run")
    assert done.code == 1, done.out + done.err
    assert done.seconds < 60 * patience()
    assert done.statuses == {**dict.fromkeys(GOOD, "passed"), **dict.fromkeys(bad, "failed"), "flood": "passed"}
    done.check_files()
    kinds = {case.eval_id: case.reason.code for case in done.report.cases if case.reason}
    assert kinds == {
        "leaves": "agent-crash",
        "segfault": "agent-crash",
        "raises": "agent-exception",
        "exits": "agent-crash",
    }
    errors = {case.eval_id: case.runs[0].error for case in done.report.cases}
    assert "exited with code 7" in errors["leaves"].message  # type: ignore[union-attr]
    assert "ValueError: the tool is broken" in (errors["raises"].traceback or "")  # type: ignore[union-attr]
    assert errors["raises"].raised.symbol == "fail"  # type: ignore[union-attr]
    turns = {each.eval_id: (len(each.invocations), each.unfinished is not None) for each in done.recordings}
    assert turns == {**dict.fromkeys((*GOOD, "flood"), (1, False)), **dict.fromkeys(bad, (0, True))}
    raised = next(each for each in done.recordings if each.eval_id == "raises").unfinished
    assert [span.raised for span in raised.spans][1:] == [errors["raises"].raised]  # type: ignore[union-attr]
    logs = list((done.output / "logs").rglob("*.log"))
    assert logs
    assert sum(path.stat().st_size for path in logs) < 20_000_000
    assert repository.left_behind() == []
    assert not (done.output / "journal.jsonl").exists(), "nothing is left to resume"


@pytest.mark.slow
def test_faults__an_endless_loop_fails_alone(new_hosts: Repository) -> None:
    new_hosts.evals("evals/loop.test.json", {**GOOD, "loops": "loop", "waits": "sleep:600"})
    done = new_hosts.gate("run", "--turn-timeout", "5")
    assert done.code == 1, done.out + done.err
    assert done.seconds < 60 * patience()
    assert done.statuses == {**dict.fromkeys(GOOD, "passed"), "loops": "failed", "waits": "failed"}
    done.check_files()
    reports = {case.eval_id: case for case in done.report.cases}
    for name in ("loops", "waits"):
        reason = reports[name].reason
        assert reason is not None
        assert reason.code == "deadline"
    error = reports["loops"].runs[0].error
    assert error is not None
    assert "while True:" in (error.traceback or "")
    assert new_hosts.left_behind() == []


@pytest.mark.slow
def test_faults__agents_that_cannot_be_loaded_fail_their_cases_and_no_others(repository: Repository) -> None:
    words = {"broken_import": "ModuleNotFoundError", "exits_at_import": "exit", "nothing": "root_agent"}
    repository.agent(*words)
    repository.evals("evals/good.test.json", GOOD)
    mapping = '[agents]\n"good.*" = "faults"\n'
    for agent in words:
        repository.evals(f"evals/{agent}.test.json", {f"{agent} 1": "say 1", f"{agent} 2": "say 2"})
        mapping += f'"{agent}.*" = "{agent}.agent"\n'
    (repository.root / "agent-eval.toml").write_text(mapping, encoding="utf-8")
    done = repository.gate("run")
    assert done.code == 1, done.out + done.err
    failed = {f"{agent} {number}": "failed" for agent in words for number in (1, 2)}
    assert done.statuses == {**dict.fromkeys(GOOD, "passed"), **failed}
    assert done.seconds < 60 * patience()
    done.check_files()
    for case in done.report.cases:
        if case.status == "failed":
            assert case.reason is not None and case.reason.code == "agent-import"
            error = case.runs[0].error
            assert error is not None
            assert words[case.eval_id.split()[0]] in error.message + (error.traceback or "") + (error.log_tail or "")
    assert repository.left_behind() == []


@pytest.mark.slow
def test_faults__a_host_that_is_killed_from_outside(repository: Repository) -> None:
    repository.evals("evals/kill.test.json", {**GOOD, "victim": "sleep:60"})
    begun = time.monotonic()
    process = repository.start("run")
    journal = repository.root / "agent-eval-results" / "journal.jsonl"
    wait_until(lambda: journal.exists() and journal.read_bytes().count(b"\n") == len(GOOD))
    (host,) = repository.hosts()
    os.kill(host, signal.SIGKILL)
    done = repository.finish(process, begun=begun, timeout=60, output=None)
    # It was the only session, so it is to blame: with others in flight it would have had a second try.
    assert done.statuses == {**dict.fromkeys(GOOD, "passed"), "victim": "failed"}
    assert done.code == 1
    done.check_files()
    error = done.report.cases[-1].runs[0].error
    assert error is not None
    assert "SIGKILL" in error.message
    assert repository.left_behind() == []


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="it finds them in /proc")
def test_faults__an_agent_that_kills_its_hosts_in_each_run(new_hosts: Repository) -> None:
    new_hosts.evals("evals/kill.test.json", {"first": "kill-hosts", "second": "kill-hosts", "third": "kill-hosts"})
    done = new_hosts.gate("run", "--workers", "3")
    assert done.code == 1, done.out + done.err
    assert done.seconds < 60 * patience()
    assert set(done.statuses.values()) == {"failed"}
    # One may be killed by another one while it loads.
    assert {case.reason.code for case in done.report.cases if case.reason} <= {"agent-crash", "agent-import"}
    assert new_hosts.left_behind() == []


@pytest.mark.slow
def test_faults__only_the_guilty_one_of_many_in_flight_fails(repository: Repository) -> None:
    waiting = {f"in flight {number}": "sleep:1.5" for number in range(3)}
    repository.evals("evals/many.test.json", {**waiting, "guilty": ["sleep:0.3", "os._exit"]})
    done = repository.gate("run")
    assert done.statuses == {**dict.fromkeys(waiting, "passed"), "guilty": "failed"}, done.out + done.err
    assert done.code == 1
    attempts = {case.eval_id: case.runs[0].attempts for case in done.report.cases}
    assert attempts == dict.fromkeys([*waiting, "guilty"], 2)
    done.check_files()
    assert repository.left_behind() == []


@pytest.mark.slow
def test_faults__the_run_takes_too_long(new_hosts: Repository) -> None:
    new_hosts.evals("evals/slow.test.json", {"good": "say hi", "slow": "sleep:600", "stubborn": "stubborn"})
    limit = round(8 * patience())  # The good case needs a host: six seconds on a busy machine.
    done = new_hosts.gate("run", "--run-timeout", str(limit))
    assert done.seconds < limit + 22 * patience()
    assert done.statuses == {"good": "passed", "slow": "not_run", "stubborn": "not_run"}, done.out + done.err
    assert done.code == 3
    assert {case.reason.code for case in done.report.cases if case.reason} == {"run-timeout"}
    done.check_files()
    assert (done.output / "journal.jsonl").exists()
    assert new_hosts.left_behind() == []
