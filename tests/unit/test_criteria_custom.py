"""What a custom metric returned, and what it counts for."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import pytest
from recording_samples import recording
from runner_doubles import planned

from agent_eval.agents.messages import Evaluated
from agent_eval.agents.protocol import MetricCall, MetricFailure, MetricFailureKind, Owner
from agent_eval.core.content import model_message, user_message
from agent_eval.core.invocation import Invocation
from agent_eval.criteria.base import Conversation, NotEvaluated, Scored
from agent_eval.criteria.custom import CustomMetric
from agent_eval.results.report import CaseReport
from agent_eval.runner.scoring import report_run

METRIC = CustomMetric(
    name="polite",
    threshold=0.5,
    function="checks.polite",
    options={"words": ["please"], "include_intermediate_responses_in_final": False},
)
CASE = planned("one", "hello", "thanks", fingerprint="f")
TURNS = [Invocation(user_content=user_message("hello"), final_response=model_message(text)) for text in ("a", "b")]
GOOD: dict[str, Any] = {
    "type": "EvaluationResult",
    "score": 0.75,
    "status": "PASSED",
    "turns": [{"score": 1.0, "status": "PASSED"}, {"score": 0.5, "status": "PASSED"}],
}


@dataclass(kw_only=True)
class Runner:
    """Answers what the test says."""

    result: dict[str, Any]
    failure: MetricFailure | None = None
    calls: list[MetricCall] = field(default_factory=list)

    async def prepare(self, function: str) -> None:
        """Nothing to prepare."""

    async def evaluate(self, call: MetricCall) -> Evaluated:
        self.calls.append(call)
        if self.failure is not None:
            raise self.failure
        return Evaluated.model_validate(self.result)


async def scored(runner: Runner | None) -> Scored | NotEvaluated:
    case = CASE.case
    return await METRIC.score(Conversation(case=case, actual=TURNS, expected=case.conversation, metrics=runner))


async def reported(runner: Runner) -> CaseReport:
    changed = type(CASE)(**{**vars(CASE), "criteria": (METRIC,)})
    return await report_run(changed, recording("one", *TURNS, file=CASE.file), runner)


async def test_custom_metric__call() -> None:
    runner = Runner(result=GOOD)
    await scored(runner)

    [call] = runner.calls
    assert (call.metric, call.function) == ("polite", "checks.polite")
    assert call.criterion == {"threshold": 0.5, "words": ["please"]}
    assert call.actual == TURNS
    assert call.expected == CASE.case.conversation


@pytest.mark.parametrize(
    ("score", "status", "outcome"), [(0.75, "PASSED", "passed"), (0.75, "FAILED", "failed"), (0, "PASSED", "passed")]
)
async def test_custom_metric__status_decides(score: float, status: str, outcome: str) -> None:
    case = await reported(Runner(result={**GOOD, "score": score, "status": status}))

    assert (case.status, case.metrics[0].runs[0].status, case.metrics[0].runs[0].score) == (outcome, outcome, score)


async def test_custom_metric__failed_turns_are_findings() -> None:
    rubrics = [{"rubric_id": "greets", "score": 0.0, "rationale": "no <b>greeting</b>"}]
    turns = [{"score": 1.0, "status": "PASSED"}, {"score": 0.0, "status": "FAILED", "rubrics": rubrics}]
    result = await scored(Runner(result={**GOOD, "status": "FAILED", "turns": turns, "rubrics": rubrics}))

    assert isinstance(result, Scored)
    [finding] = result.findings
    assert (finding.turn, finding.score, finding.actual, finding.expected) == (1, 0.0, "b", "thanks")
    assert finding.why == ("greets: 0.0: no <b>greeting</b>",)
    assert result.details["rubrics"] == rubrics


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "dict", "shown": "{'score': 1.0}"},
        *({"score": score} for score in (None, True, "nan", "0.5", math.inf, math.nan, [1.0], 10**400)),
        {"status": "INFORMATIONAL"},
        {"status": ""},
        {"turns": []},
        {"turns": [*GOOD["turns"], GOOD["turns"][0]]},
    ],
)
async def test_custom_metric__invalid_result_fails_the_run(wrong: dict[str, Any]) -> None:
    case = await reported(Runner(result={**GOOD, **wrong}))

    [score] = case.metrics[0].runs
    assert (case.status, score.status, score.score) == ("failed", "not_evaluated", None)
    assert score.error is not None
    assert (score.error.kind, score.error.owner) == ("custom-metric-invalid-result", "agent")
    assert "checks.polite" in score.error.message


async def test_custom_metric__not_evaluated() -> None:
    rubrics = [{"rubric_id": "GEval", "rationale": "ConnectionError: the judge is down"}]
    result = await scored(Runner(result={**GOOD, "score": None, "status": "NOT_EVALUATED", "rubrics": rubrics}))
    assert isinstance(result, NotEvaluated)
    assert result.message.endswith("NOT_EVALUATED: ConnectionError: the judge is down")

    case = await reported(Runner(result={**GOOD, "status": "NOT_EVALUATED"}))

    assert (case.status, case.metrics[0].runs[0].error) == ("errored", None)
    assert case.metrics[0].runs[0].reason is not None
    assert "with the score 0.75" in case.metrics[0].runs[0].reason.message


@pytest.mark.parametrize(("owner", "status"), [(Owner.AGENT, "failed"), (Owner.PROVIDER, "errored")])
async def test_custom_metric__owner_of_a_failure(owner: Owner, status: str) -> None:
    failure = MetricFailure(
        "it broke", kind=MetricFailureKind.EXCEPTION, owner=owner, traceback="File x", log_tail="printed", hint="do"
    )
    case = await reported(Runner(result=GOOD, failure=failure))

    error = case.metrics[0].runs[0].error
    assert error is not None
    assert (case.status, error.traceback, error.log_tail, error.hint) == (status, "File x", "printed", "do")


async def test_custom_metric__no_environment() -> None:
    result = await scored(None)

    assert isinstance(result, NotEvaluated)
    assert result.code == "custom-metric-environment"


async def test_report_run__scores_of_another_version_of_the_function_have_another_fingerprint() -> None:
    first, same, newer, without = [
        (await reported(Runner(result={**GOOD, "version": version}))).metrics[0].fingerprint
        for version in ("deepeval 4.2.0", "deepeval 4.2.0", "deepeval 4.3.1", "")
    ]

    assert first == same
    assert len({first, newer, without}) == 3
