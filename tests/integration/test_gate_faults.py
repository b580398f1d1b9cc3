"""Whatever the agent does: the gate ends in time, says whose fault it is, and keeps the results of the others."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from gate_runs import Repository, patience, repository_in

GOOD = {f"good {number}": f"say {number}" for number in range(3)}


@pytest.fixture
def new_hosts(tmp_path: Path) -> Iterator[Repository]:
    """For tests of how hosts are watched; test_adk_faults.py and test_runner_execution.py have more of them."""
    with repository_in(tmp_path, "faults", new_hosts=True) as made:
        yield made


def test_faults__crashes_exceptions_and_floods_hurt_only_their_own_case(repository: Repository) -> None:
    repository.agent("faults")
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
