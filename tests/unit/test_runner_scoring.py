"""A recording becomes scores: what is kept of it, and how small."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from recording_samples import recording
from runner_doubles import planned, turn

from agent_eval.core.content import model_message, user_message
from agent_eval.core.invocation import Invocation
from agent_eval.criteria._responses import ResponseMatch
from agent_eval.criteria._trajectory import ToolTrajectory
from agent_eval.criteria.base import Conversation, Criterion, NotEvaluated, Relabelled, Result, Scored, TurnFinding
from agent_eval.criteria.registry import INFORMATIONAL
from agent_eval.evalset.models.schema import EvalCase
from agent_eval.results.reason import Reason
from agent_eval.results.recording import Recording, RunError
from agent_eval.results.report import CaseReport
from agent_eval.runner.plan import PlannedCase
from agent_eval.runner.scoring import report_not_run, report_run


@dataclass(frozen=True, kw_only=True)
class Fixed:
    """A criterion with a fixed result."""

    result: Result
    name: str = "fixed"
    threshold: float | None = 0.5

    async def score(self, conversation: Conversation) -> Result:
        return self.result


def case(*criteria: Criterion, turns: int = 1) -> PlannedCase:
    asked = [turn(f"question {n} " + "q" * 1_000) for n in range(turns)]
    return replace(planned("one"), case=EvalCase(eval_id="one", conversation=asked), criteria=criteria)


def recorded(of: PlannedCase, *answers: str, error: RunError | None = None) -> Recording:
    turns = (Invocation(user_content=user_message("q"), final_response=model_message(answer)) for answer in answers)
    return recording("one", *turns, file=of.file, case_id=of.case_id, run_id=of.run_id(0), error=error)


async def scored(*criteria: Criterion, turns: int = 1) -> CaseReport:
    of = case(*criteria, turns=turns)
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
        (NotEvaluated(code="no-turns", message="m"), None, "informational", None),
    ],
)
async def test_scoring__statuses(result: Result, threshold: float | None, status: str, score: float | None) -> None:
    report = await scored(Fixed(result=result, threshold=threshold))
    run_score = report.metrics[0].runs[0]
    assert (run_score.status, run_score.score) == (status, score)
    assert (run_score.reason is not None) == (isinstance(result, NotEvaluated) or status == "not_evaluated")


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
        Relabelled(name="strict", criterion=ToolTrajectory(threshold=1.0)),
    ]
    of = case(*criteria, ResponseMatch(threshold=0.0), *INFORMATIONAL)
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


async def test_scoring__an_unfinished_turn_changes_nothing() -> None:
    of = case(ResponseMatch(threshold=0.5), ToolTrajectory(threshold=1.0), *INFORMATIONAL, turns=2)
    error = RunError(kind="agent-exception", owner="agent", message="boom", turn=1)
    recording = recorded(of, "answer", error=error)
    before = await report_run(of, recording)
    recording.unfinished = Invocation(user_content=user_message("q"), final_response=model_message("answer"))
    assert await report_run(of, recording) == before


def test_scoring__what_was_not_run_says_why() -> None:
    error = RunError(kind="stopped", owner="gate", message="Stopped")
    report = report_not_run(case(), 2, error)
    assert (report.status, report.runs[0].run, report.runs[0].error) == ("not_run", 2, error)


async def test_scoring__final_session_state_is_not_compared() -> None:
    of = planned("one", "hello")
    other = replace(of, case=of.case.model_copy(update={"final_session_state": {"room": "kitchen"}}))
    assert (await report_run(of, recorded(of, "hello"))) == (await report_run(other, recorded(other, "hello")))
    assert (await report_run(other, recorded(other, "hello"))).status == "passed"
