"""A run of a plan: with an agent whose messages say how it behaves, its journal, and its scores."""

from __future__ import annotations

import asyncio
import dataclasses
import gzip
import json
import re
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import golden_files
import pytest
import recording_samples
from recording_samples import recording
from runner_doubles import EchoAgent, TalkativeUser, endless, execution, planned, run, session_input, statuses, turn

from agent_eval.runner.execution import Progress
from agent_eval.runner.journal import Journal
from agent_eval.runner.plan import PlannedCase
from agent_eval.runner.scoring import report_not_run, report_run
from agent_eval_agents.protocol import AgentFailure, FailureKind, Owner
from agent_eval_results import CaseReport, MetricReport, Reason, RunError, write_lines
from agent_eval_scoring.core.content import FunctionCall, model_message, text_of, user_message
from agent_eval_scoring.core.invocation import IntermediateData, Invocation
from agent_eval_scoring.core.limiter import Limiter
from agent_eval_scoring.core.recording import Recording
from agent_eval_scoring.criteria._final_state import FinalState
from agent_eval_scoring.criteria._responses import ResponseMatch
from agent_eval_scoring.criteria._trajectory import ToolTrajectory
from agent_eval_scoring.criteria.base import (
    Conversation,
    Criterion,
    NotEvaluated,
    Relabelled,
    Result,
    Scored,
    TurnFinding,
)
from agent_eval_scoring.criteria.registry import INFORMATIONAL
from agent_eval_scoring.evalset.models.schema import EvalCase

# The runner with an agent whose messages say how it behaves.


def error_of(report: CaseReport, run: int = 0) -> RunError:
    error = report.runs[run].error
    assert error is not None
    return error


def shown(reports: list[CaseReport]) -> Iterator[str]:
    for report in reports:
        yield f"  {report.eval_id}: {report.status}, {report.reason and report.reason.model_dump_json()}"
        for each in report.runs:
            error = each.error and each.error.model_dump(exclude_defaults=True)
            if error and len(error.get("traceback", "")) > 99:
                error["traceback"] = len(error["traceback"])
            yield f"    {each.run_id}: {each.status}, {each.turns} turns, {each.attempts} attempts, {error}"


async def outcome(folder: Path, cases: list[PlannedCase], agents: dict[str, EchoAgent], **options: Any) -> list[str]:
    """What is reported of a run, the sessions that it opened, and its bill; in order, if one is run at a time."""
    bill: list[str] = []
    progress: list[Progress] = []
    ready = execution(folder, cases, agents=agents, **options)
    ready.bill = lambda recording: bill.append(f"{recording.eval_id} {len(recording.invocations)}")
    ready.on_progress = progress.append
    async with asyncio.timeout(20):
        lines = [*shown(await ready.run())]
    ready.journal.close()
    opened = []
    for agent in agents.values():
        assert (agent.in_flight, agent.closed) == (0, sum(each.eval_id != "closed-door" for each in agent.opened))
        for request in agent.opened:
            facts = (request.app_name, request.user_id, request.session_id, request.state, request.isolated)
            opened.append(f"{request.eval_id}#{request.run} {facts}")
        agent.opened.clear()
        agent.closed = 0
    order = list if options.get("concurrency") == 1 else sorted
    lines += [f"  opened: {line}" for line in order(opened)]
    assert [state.done for state in progress] == list(range(1, len(progress) + 1))
    last = (
        f"{progress[-1].done} of {progress[-1].total}, {dict(sorted(progress[-1].counts.items()))}" if progress else ""
    )
    return [*lines, f"  reused {ready.reused}, bill: {', '.join(sorted(bill))}; {last}"]


CASES = [planned("one"), planned("three", "a", "b", "c"), planned("two", "a", "b")]
ONE_BY_ONE: dict[str, Any] = {"concurrency": 1, "fail_fast": True}
MINE = session_input(state={"room": "kitchen"}, session_id="mine")
DYING = [planned("innocent", "bystander"), planned("guilty", "crash"), planned("bystander", "first", "bystander")]
RUNS: dict[str, tuple[list[PlannedCase], dict[str, Any]]] = {
    "each as often as asked": ([planned("slow", "sleep:0.1"), planned("two turns", "one", "two")], {"num_runs": 3}),
    "the heaviest first": (CASES, {"concurrency": 1}),
    "except with fail-fast": (CASES, ONE_BY_ONE),
    "a session of its own": ([planned("given", session_input=MINE), planned("plain")], {}),
    "errors": ([planned("agent", "raise"), planned("world", "outage"), planned("closed-door"), planned("good")], {}),
    "a process that dies with others": (DYING, {}),
    "too long": (
        [planned("quick"), planned("hangs", "hang"), planned("never")],
        {"run_timeout": 0.6, "concurrency": 1},
    ),
    # A case has not failed for sure until its last run.
    "all runs count": (
        [planned("first", "flaky"), planned("later")],
        {**ONE_BY_ONE, "min_pass_rate": 0.6, "num_runs": 3},
    ),
    # Half of the runs would be enough, but the mean is 0.5 of 0.9.
    "and their mean": (
        [planned("first", "learning"), planned("later")],
        {**ONE_BY_ONE, "min_pass_rate": 0.5, "num_runs": 2},
    ),
}


async def test_execution__what_becomes_of_a_run(tmp_path: Path) -> None:
    lines = []
    for number, (name, (cases, options)) in enumerate(RUNS.items()):
        agents = {"agent": EchoAgent(first_runs_fail=1)}
        lines += [name, *await outcome(tmp_path / str(number), cases, agents, **options)]
    for owner in (Owner.AGENT, Owner.PROVIDER):
        refuses = AgentFailure("ImportError: no", kind=FailureKind.IMPORT, owner=owner, log_tail="the log")
        agents = {"broken": EchoAgent(refuses=refuses), "agent": EchoAgent(start_seconds=0.05)}
        cases = [planned("one", agent="broken"), planned("good")]
        lines += ["an agent that can't start", *await outcome(tmp_path / owner, cases, agents, num_runs=2)]
        agents["broken"].refuses = None
        lines += ["by now it can", *await outcome(tmp_path / owner, cases, agents, num_runs=2, resume=True)]
    cases = [planned("bad", "raise"), planned("rest")]
    for options in (ONE_BY_ONE, {**ONE_BY_ONE, "resume": True}):
        lines += ["fail-fast again", *await outcome(tmp_path / "fast", cases, {"agent": EchoAgent()}, **options)]
    golden_files.check("golden_runs.txt", "\n".join(lines) + "\n")


async def test_execution__nothing_is_left_over_of_a_run(tmp_path: Path) -> None:
    before = asyncio.all_tasks()
    await run(tmp_path, [planned("one", "hang"), planned("two")], turn_timeout=0.05)
    stopped = execution(tmp_path, [planned("one", "hang")])
    asyncio.get_running_loop().call_later(0.05, stopped.stop.set)
    await stopped.run()
    stopped.journal.close()
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("concurrency", [1, 3, 8])
async def test_execution__never_more_at_once_than_allowed(tmp_path: Path, concurrency: int) -> None:
    agent = EchoAgent()
    cases = [planned(str(number), f"sleep:{0.001 * (number % 4)}") for number in range(24)]
    await run(tmp_path, cases, agents={"agent": agent}, concurrency=concurrency)
    assert agent.most == concurrency
    assert agent.in_flight == 0


async def test_execution__keeps_whether_tool_calls_are_visible(tmp_path: Path) -> None:
    ready = execution(tmp_path, [planned("plain")], agents={"agent": EchoAgent(shows_tool_calls=False)})
    await ready.run()
    recording = ready.journal.recording("a.test.json:plain#1")
    ready.journal.close()
    assert recording is not None and not recording.calls_visible


async def test_case_timeout__names_its_limit_the_turns_and_the_user_who_did_not_stop(tmp_path: Path) -> None:
    cases = [endless("talks", "sleep:0.05")]
    model = TalkativeUser(seconds=0.01, says="sleep:0.05")
    reports = await run(tmp_path, cases, model=model, case_timeout=1.5)
    error = error_of(reports[0])
    assert (error.kind, error.owner) == ("deadline", "agent")
    assert re.match(
        r"The case did not end within case-timeout \(1\.5 s\): \d+ turns? ended \(0\.\d s for the simulated user\), "
        r"and the simulated user had not ended the conversation",
        error.message,
    )
    assert "max_allowed_invocations" in (error.hint or "")


async def test_case_timeout__that_the_simulated_user_took_is_not_the_agents(tmp_path: Path) -> None:
    reports = await run(tmp_path, [endless("slow user")], model=TalkativeUser(seconds=30), case_timeout=0.5)
    error = error_of(reports[0])
    assert (error.kind, error.owner) == ("simulator-deadline", "provider")
    assert " s for the simulated user); most of the time was spent waiting for" in error.message

    run_on = execution(tmp_path, [endless("cut", "x")], model=TalkativeUser(seconds=0.6, says="hang"), case_timeout=1.0)
    reports = await run_on.run()
    recording = run_on.journal.recording("a.test.json:cut#1")
    run_on.journal.close()
    assert error_of(reports[0]).kind == "simulator-deadline"
    assert recording is not None
    assert [text_of(turn.user_content) for turn in recording.all_turns] == ["x", "hang"], "it is shown and paid for"


async def test_case_timeout__in_the_middle_of_a_turn_says_what_that_turn_waited_for(tmp_path: Path) -> None:
    agent = EchoAgent()
    cases = [planned("hangs", "fine", "hang"), planned("long", *["sleep:0.1"] * 10), planned("good")]
    reports = await run(tmp_path, cases, agents={"agent": agent}, turn_timeout=60, case_timeout=0.4)
    assert statuses(reports) == {"hangs": "failed", "long": "failed", "good": "passed"}
    assert agent.sent.count("sleep:0.1") < 6
    error = error_of(reports[0])
    assert (error.kind, error.owner, error.turn, reports[0].runs[0].turns) == ("deadline", "agent", 1, 1)
    assert reports[0].metrics == [], "an error is no score"
    assert error.message.startswith(
        "The case did not end within case-timeout (0.4 s): 1 turn ended. Turn 2: More than "
    )


@pytest.mark.parametrize("limiter", [Limiter(2), Limiter(64, start=2)], ids=["fixed", "growing"])
async def test_execution__fail_fast_stops_at_the_first_failure(tmp_path: Path, limiter: Limiter) -> None:
    agent = EchoAgent()
    cases = [planned("bad", wrong=True), planned("in flight", "hang"), *(planned(f"late {n}") for n in range(20))]
    ready = execution(tmp_path, cases, agents={"agent": agent}, fail_fast=True, concurrency=limiter.most)
    ready.limiter = limiter
    async with asyncio.timeout(10):
        reports = await ready.run()
    ready.journal.close()
    by_case = statuses(reports)
    assert by_case.pop("bad") == "failed"
    assert set(by_case.values()) == {"not_run"}
    assert len(agent.opened) == 2, "not one more is begun, also while a run is scored"
    assert reports[5].reason == Reason(code="fail-fast", message="a.test.json:bad failed, and fail-fast is on")


async def test_execution__progress_counts_every_run_and_many_runs_need_few_tasks(tmp_path: Path) -> None:
    states: list[tuple[Progress, int]] = []
    cases = [planned("bad", "raise"), *(planned(str(number)) for number in range(60))]
    run = execution(tmp_path, cases, num_runs=5, concurrency=4)
    run.on_progress = lambda state: states.append((state, len(asyncio.all_tasks())))
    await run.run()
    run.journal.close()
    assert [state.done for state, _ in states] == list(range(1, 306))
    assert {state.total for state, _ in states} == {305}
    assert states[-1][0].counts == {"passed": 300, "failed": 5}
    assert max(tasks for _, tasks in states) < 4 * 5 + 10


async def test_execution__stopping_keeps_what_is_done(tmp_path: Path) -> None:
    cases = [planned("quick", "one", "two"), planned("hangs", "first", "hang"), planned("never")]
    run = execution(tmp_path, cases, concurrency=1)
    billed: dict[str, int] = {}
    run.bill = lambda recording: billed.update({recording.eval_id: len(recording.invocations)})
    asyncio.get_running_loop().call_later(0.1, run.stop.set)
    async with asyncio.timeout(3):
        reports = await run.run()
    assert statuses(reports) == {"quick": "passed", "hangs": "not_run", "never": "not_run"}
    assert [report.reason.code for report in reports if report.reason] == ["stopped", "stopped"]
    assert billed == {"quick": 2, "hangs": 1}, "the turn that had ended has cost something, too"
    assert list(run.journal.lines(["a.test.json:quick#1", "a.test.json:hangs#1"])) == [
        (tmp_path / "journal.jsonl").read_bytes()
    ]
    run.journal.close()


async def test_execution__a_bug_of_ours_is_no_result(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="a bug of the driver"):
        await run(tmp_path, [planned("hangs", "hang"), planned("bug", "bug")])


async def test_execution__resuming_runs_only_what_is_missing(tmp_path: Path) -> None:
    cases = [planned("good"), planned("bad", "raise"), planned("world", "outage"), planned("hangs", "hang")]
    cases.append(planned("changed"))
    first = execution(tmp_path, cases)
    asyncio.get_running_loop().call_later(0.5, first.stop.set)
    earlier = statuses(await first.run())
    first.journal.close()
    assert earlier == {"good": "passed", "bad": "failed", "world": "errored", "hangs": "not_run", "changed": "passed"}
    cases[-1] = planned("changed", fingerprint="of another agent")
    agent = EchoAgent()
    again = execution(tmp_path, cases, agents={"agent": agent}, resume=True, turn_timeout=0.4)
    later = await again.run()
    again.journal.close()
    assert sorted(request.eval_id for request in agent.opened) == ["changed", "hangs", "world"]
    assert again.reused == 2
    assert statuses(later) == {**earlier, "hangs": "failed"}
    # With more time, or on a machine that is less busy, it may end.
    agent = EchoAgent()
    more = execution(tmp_path, cases, agents={"agent": agent}, resume=True, turn_timeout=0.5)
    await more.run()
    more.journal.close()
    assert sorted(request.eval_id for request in agent.opened) == ["hangs", "world"]


@dataclasses.dataclass
class SlowJudge:
    """A criterion that waits for a model."""

    name: str = "slow"
    threshold: float = 0.5

    async def score(self, conversation: Conversation) -> Scored:
        await asyncio.sleep(0.2)
        return Scored(score=1.0)


async def test_execution__resuming_asks_judges_about_several_runs_at_once(tmp_path: Path) -> None:
    cases = [planned(f"case_{number}") for number in range(30)]
    await run(tmp_path, cases)
    begun = time.monotonic()
    judged = [dataclasses.replace(case, criteria=(SlowJudge(),)) for case in cases]
    reports = await run(tmp_path, judged, resume=True)
    assert statuses(reports) == {case.case.eval_id: "passed" for case in cases}
    assert time.monotonic() - begun < 3, "one after the other takes 6 seconds"


async def test_execution__one_budget_of_two_executions_ends_both(tmp_path: Path) -> None:
    """Head and base run at the same time: what one of them spends, the other can't spend again."""
    paid: list[str] = []
    broke = RunError(kind="budget", owner="gate", message="used up")
    limiter = Limiter(1)
    executions = []
    for side in ("head", "base"):
        one = execution(tmp_path / side, [planned(f"{side}_{number}") for number in range(4)])
        one.limiter = limiter
        one.bill = lambda recording: paid.append(recording.case_id)
        one.used_up = lambda: broke if len(paid) >= 3 else None
        executions.append(one)

    reports = await asyncio.gather(*(one.run() for one in executions))

    ran = [report.status for side in reports for report in side]
    assert (len(paid), ran.count("passed"), ran.count("not_run")) == (3, 3, 5)
    assert all(report.runs[0].error == broke for side in reports for report in side if report.status == "not_run")
    for one in executions:
        one.journal.close()


# What a killed run leaves behind, and how much of it can be trusted.


OUTAGE = RunError(kind="provider-unavailable", owner="provider", message="503")
CRASH = RunError(kind="agent-crash", owner="agent", message="It left")


def answered(name: str, *, answer: str = "hi", error: RunError | None = None) -> Recording:
    turn = Invocation(user_content=user_message("hello"), final_response=model_message(answer))
    return recording_samples.recording(name, turn, run_id=f"{name}#1", case_id=name, error=error)


def nested(depth: int) -> Recording:
    args: dict[str, object] = {}
    for _ in range(depth):
        args = {"a": args}
    call = IntermediateData(tool_uses=[FunctionCall(name="t", args=args)])
    turn = Invocation(user_content=user_message("hello"), final_response=model_message("hi"), intermediate_data=call)
    return recording_samples.recording("deep", turn, run_id="deep#1", case_id="deep")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out" / "journal.jsonl"


@pytest.mark.parametrize("depth", [200, 250, 400])
def test_journal__what_is_nested_too_deeply_is_neither_read_nor_resumed(path: Path, depth: int) -> None:
    journal = Journal(path, resume=False)
    journal.add(nested(depth))
    journal.add(answered("one"))
    assert Recording.model_validate_json(path.read_bytes().splitlines()[-1]) == answered("one"), "on disk at once"
    kept = journal.recording("deep#1")
    assert kept is None or kept.invocations == []
    assert journal.recording("one#1") == answered("one")
    journal.close()
    later = Journal(path, resume=True)
    assert later.reuse("deep#1", "f") is None
    assert later.reuse("one#1", "f") == answered("one")
    later.close()


def line_of(recording: Recording) -> bytes:
    return recording.model_dump_json(exclude_unset=True, exclude_none=True).encode() + b"\n"


ONE, TWO, THREE = (line_of(answered(name)) for name in ("one", "two", "three"))
BROKEN = (
    *(b"{not json\n", b"[1]\n", b'{"run_id": "x"}\n', b"\xff\n", b"[" * 100_000 + b"\n", b"1" * 5_000 + b"\n"),
    b'{"run_id": "x", "fingerprint": "f", "error": "no"}\n',
)
DOWN, CRASHED = (line_of(answered(name, error=error)) for name, error in (("one", OUTAGE), ("two", CRASH)))
NEWER = b'{"run_id": "four#1", "fingerprint": "f", "schema_version": "9"}\n'
OTHER = THREE.replace(b'"f"', b'"of another agent"')


@pytest.mark.parametrize(
    ("content", "reused", "damaged"),
    [
        (ONE + TWO[:-10], "one", None),  # Nothing but the end of a process that was killed.
        *((ONE + broken + THREE, "one", 2) for broken in BROKEN),  # Nothing behind such a line is trusted.
        (DOWN + CRASHED + THREE + line_of(answered("three", error=OUTAGE)) + NEWER, "two", None),
        (TWO + ONE + OTHER, "one two", None),
    ],
)
def test_journal__what_is_reused_and_reported(path: Path, content: bytes, reused: str, damaged: int | None) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    with closing(Journal(path, resume=True)) as journal:
        assert journal.damaged_line == damaged
        names = [name for name in ("one", "two", "three", "four") if journal.reuse(f"{name}#1", "f")]
        assert names == reused.split()
        lines = journal.lines(f"{name}#1" for name in ("four", "missing", "three", "one", "two"))
        assert [json.loads(line)["eval_id"] for line in lines] == names, "in the order that is asked for"
        journal.add(answered("three", answer="again"))
    with closing(Journal(path, resume=True)) as later:
        assert later.reuse("three#1", "f") == answered("three", answer="again")
    fresh = Journal(path, resume=False)
    assert fresh.reuse("one#1", "f") is None
    assert path.read_bytes() == b"", "it starts over"
    fresh.close(remove=True)
    assert not path.exists()


def test_journal__recordings_have_no_time_stamp(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_lines(tmp_path / name, [b'{"one": 1}\n', b'{"two": 2}\n'])
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert gzip.decompress((tmp_path / "a").read_bytes()) == b'{"one": 1}\n{"two": 2}\n'


# A recording becomes scores: what is kept of it, and how small.


@dataclass(frozen=True, kw_only=True)
class Fixed:
    """A criterion with a fixed result."""

    result: Result
    name: str = "fixed"
    threshold: float | None = 0.5

    async def score(self, conversation: Conversation) -> Result:
        return self.result


def scored_case(*criteria: Criterion, turns: int = 1) -> PlannedCase:
    asked = [turn(f"question {n} " + "q" * 1_000) for n in range(turns)]
    return replace(planned("one"), case=EvalCase(eval_id="one", conversation=asked), criteria=criteria)


def recorded(of: PlannedCase, *answers: str, error: RunError | None = None) -> Recording:
    turns = (Invocation(user_content=user_message("q"), final_response=model_message(answer)) for answer in answers)
    return recording("one", *turns, file=of.file, case_id=of.case_id, run_id=of.run_id(0), error=error)


async def scored(*criteria: Criterion, turns: int = 1) -> CaseReport:
    of = scored_case(*criteria, turns=turns)
    return await report_run(of, recorded(of, *["answer"] * turns))


@pytest.mark.parametrize(
    ("result", "threshold", "status", "score"),
    [
        (Scored(score=0.5), 0.5, "passed", 0.5),
        (Scored(score=0.5 - 2**-54), 0.5, "failed", 0.5 - 2**-54),  # without a tolerance, as in ADK
        (Scored(score=0.0), 0.0, "passed", 0.0),
        (Scored(score=None), 0.5, "not_evaluated", None),
        (NotEvaluated(code="no-turns", message="m"), 0.5, "not_evaluated", None),
        (Scored(score=3.0), None, "informational", 3.0),
        (Scored(score=None), None, "informational", None),
        (NotEvaluated(code="no-turns", message="m"), None, "not_evaluated", None),
    ],
)
async def test_scoring__statuses(result: Result, threshold: float | None, status: str, score: float | None) -> None:
    report = await scored(Fixed(result=result, threshold=threshold))
    run_score = report.metrics[0].runs[0]
    assert (run_score.status, run_score.score) == (status, score)
    assert (run_score.reason is not None) == (isinstance(result, NotEvaluated) or status == "not_evaluated")


async def test_scoring__equal_metrics_are_one() -> None:
    scores = (0.0, -0.0, 1.0, 1, None)
    results = [Scored(score=score, passed=passed) for score in scores for passed in (None, True)]
    results += [Scored(score=1.0, turn_scores=(1.0, 1.0)), Scored(score=1.0, details={"n": 1})]
    criteria = [Fixed(result=each, threshold=threshold) for each in results for threshold in (0.5, None)]
    of = scored_case(*criteria)
    known: dict[Any, MetricReport] = {}
    first, second = [await report_run(of, recorded(of, "answer"), known=known) for _ in range(2)]
    alone = await report_run(of, recorded(of, "answer"))
    assert first.model_dump_json() == second.model_dump_json() == alone.model_dump_json()
    same = [one is other for one, other in zip(first.metrics, second.metrics, strict=True)]
    assert same == [not criterion.result.details for criterion in criteria]
    assert len({id(each) for each in first.metrics}) == len(criteria)


LONG = ("w" * 10_000,) * 1_000


async def test_scoring__evidence_is_small_whatever_was_said() -> None:
    findings = tuple(
        TurnFinding(turn=n, score=n / 100 if n < 40 else None, expected="e" * 100_000, actual="a" * 100_000, why=LONG)
        for n in reversed(range(42))
    )
    report = await scored(Fixed(result=Scored(score=0.2, findings=findings)), turns=42)
    evidence = report.metrics[0].runs[0].evidence
    worst = [*range(8), 40, 41]  # Those without a score weigh most.
    assert [turn_evidence.turn for turn_evidence in evidence] == worst, "the ten worst turns, in their order"
    assert evidence[0].why[-1] == Reason.of("further-lines", more=980)
    assert len(evidence[0].user) == 300
    assert evidence[0].user.startswith("question 0 ")
    assert len(evidence[0].expected) == len(evidence[0].actual) == 1_500
    assert len(report.model_dump_json()) < 150_000
    fine = TurnFinding(turn=0, score=0.9, expected="e", actual="a")
    passed = await scored(Fixed(result=Scored(score=0.9, findings=(fine,))))
    assert passed.metrics[0].runs[0].evidence == []


async def test_report_run__tool_calls_that_are_not_visible_are_not_missing() -> None:
    criteria: list[Criterion] = [
        ToolTrajectory(threshold=1.0),
        Relabelled(name="strict", threshold=1.0, criterion=ToolTrajectory(threshold=1.0)),
    ]
    of = scored_case(*criteria, ResponseMatch(threshold=0.0), *INFORMATIONAL)
    recording = recorded(of, "expected answer")

    visible = await report_run(of, recording)
    hidden = await report_run(of, recording.model_copy(update={"calls_visible": False}))

    assert [metric.runs[0].score for metric in visible.metrics][:2] == [1.0, 1.0]
    assert hidden.status == "errored"
    reasons = {metric.name: metric.runs[0].reason for metric in hidden.metrics}
    assert {name for name, reason in reasons.items() if reason and reason.code == "calls-not-visible"} == {
        "tool_trajectory_avg_score",
        "strict",
        "tool_call_count_v1",
        "inference_call_count_v1",
    }
    assert {metric.name: metric.status for metric in hidden.metrics}["response_match_score"] != "not_evaluated"


async def test_report_run__a_state_that_is_not_known_is_no_mistake_of_the_agent() -> None:
    of = scored_case(FinalState(threshold=1.0), ResponseMatch(threshold=0.0))
    of = replace(of, case=of.case.model_copy(update={"final_session_state": {"room": "attic"}}))
    report = await report_run(of, recorded(of, "answer"))
    reason = report.metrics[0].runs[0].reason
    assert reason is not None and (report.status, reason.code) == ("errored", "state-not-visible")


async def test_scoring__an_unfinished_turn_changes_nothing() -> None:
    of = scored_case(ResponseMatch(threshold=0.5), ToolTrajectory(threshold=1.0), *INFORMATIONAL, turns=2)
    error = RunError(kind="agent-exception", owner="agent", message="boom", turn=1)
    recording = recorded(of, "answer", error=error)
    before = await report_run(of, recording)
    recording.unfinished = Invocation(user_content=user_message("q"), final_response=model_message("answer"))
    assert await report_run(of, recording) == before


def test_scoring__what_was_not_run_says_why() -> None:
    error = RunError(kind="stopped", owner="gate", message="Stopped")
    report = report_not_run(scored_case(), 2, error)
    assert (report.status, report.runs[0].run, report.runs[0].error) == ("not_run", 2, error)


async def test_scoring__final_session_state_is_not_compared_without_its_criterion() -> None:
    of = planned("one", "hello")
    other = replace(of, case=of.case.model_copy(update={"final_session_state": {"room": "kitchen"}}))
    assert (await report_run(of, recorded(of, "hello"))) == (await report_run(other, recorded(other, "hello")))
    assert (await report_run(other, recorded(other, "hello"))).status == "passed"
