"""Custom metrics: functions that the config names (`custom_metrics`) and that run beside the agent, not here.

They are code of the pull request. What they return is believed only if it is a result that counts; one that raises,
hangs or returns something else fails its run (docs/custom-metrics.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_eval.agents.messages import Evaluated, ScoreTold
from agent_eval.agents.protocol import MetricCall, MetricFailure, MetricFailureKind
from agent_eval.core.content import text_of
from agent_eval.core.text import shorten
from agent_eval.criteria.base import Conversation, NotEvaluated, Result, Scored, TurnFinding
from agent_eval.results import RunError

NOT_EVALUATED = "custom-metric-not-evaluated"
"""The code where the function itself says that it could not evaluate."""
_MESSAGE, _LOG = 2_000, 4_000
"""Characters of a message, and of a traceback and of a log's end, that are kept."""
_RUBRICS, _RATIONALE = 20, 300


@dataclass(frozen=True, kw_only=True)
class CustomMetric:
    """Implements `Criterion`."""

    name: str
    threshold: float
    function: str
    """`code_config.name`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What else the criterion's object says."""

    async def score(self, conversation: Conversation) -> Result:
        """Has the function called with what ADK passes to it."""
        if conversation.metrics is None:
            return broken(no_environment(self.name))
        call = MetricCall(
            metric=self.name,
            function=self.function,
            criterion={"threshold": self.threshold, **_given(self.options)},
            actual=conversation.actual,
            expected=conversation.expected,
            scenario=conversation.case.conversation_scenario,
        )
        try:
            return self._read(await conversation.metrics.evaluate(call), conversation)
        except MetricFailure as failure:
            return broken(failure)

    def _read(self, told: Evaluated, conversation: Conversation) -> Result:
        if told.type != "EvaluationResult":
            return self._invalid(f"returned a {told.type} ({told.shown}), not ADK's EvaluationResult")
        if told.status == "NOT_EVALUATED":
            given = "" if told.score is None else f", with the score {_shown(told.score)}"
            return NotEvaluated(
                code=NOT_EVALUATED, message=f"`{self.function}` left overall_eval_status at NOT_EVALUATED{given}"
            )
        if told.status not in ("PASSED", "FAILED"):
            return self._invalid(f"gave the status {told.status}; a metric with a threshold is PASSED or FAILED")
        score = number(told.score)
        if score is None:
            return self._invalid(f"gave {_shown(told.score)} as overall_score, which is no finite number")
        if len(told.turns) != len(conversation.actual):
            return self._invalid(f"gave {len(told.turns)} per_invocation_results for {len(conversation.actual)} turns")
        rubrics = [_rubric(one.rubric_id, one.score, one.rationale) for one in told.rubrics[:_RUBRICS]]
        return Scored(
            score=score,
            passed=told.status == "PASSED",
            turn_scores=tuple(number(turn.score) for turn in told.turns),
            findings=tuple(
                _finding(index, turn, conversation) for index, turn in enumerate(told.turns) if turn.status == "FAILED"
            ),
            details={"function": self.function, **({"rubrics": rubrics} if rubrics else {})},
        )

    def _invalid(self, what: str) -> NotEvaluated:
        return broken(
            MetricFailure(
                f"`{self.function}` {what}",
                kind=MetricFailureKind.RESULT,
                hint="It must return an EvaluationResult with a finite overall_score, PASSED or FAILED as "
                "overall_eval_status, and a result for each turn (docs/custom-metrics.md).",
            )
        )


def no_environment(metric: str) -> MetricFailure:
    """What becomes of a custom metric where there is no agent whose environment it could run in."""
    return MetricFailure(
        f"`{metric}` runs in the agent's environment, and a recording has none",
        kind=MetricFailureKind.ENVIRONMENT,
        hint="Run the agent, or take the metric out of `criteria`.",
    )


def broken(failure: MetricFailure) -> NotEvaluated:
    """A failure as what a criterion says."""
    error = error_of(failure)
    return NotEvaluated(code=error.kind, message=error.message, error=error)


def error_of(failure: MetricFailure) -> RunError:
    """A failure as it stands in reports, cut to size."""
    return RunError(
        kind=str(failure.kind),
        owner="agent" if failure.owner.value == "agent" else "provider",
        message=shorten(failure.message, _MESSAGE),
        hint=failure.hint,
        traceback=shorten(failure.traceback, _LOG) if failure.traceback else None,
        log_tail=shorten(failure.log_tail, _LOG) if failure.log_tail else None,
    )


def number(value: Any) -> float | None:
    """A score that counts: a finite number, and not a truth value; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def _shown(value: Any) -> str:
    return "nothing" if value is None else shorten(str(value), 100)


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options without the one that our form adds to every criterion: not every ADK knows it."""
    return {
        name: value
        for name, value in options.items()
        if name != "include_intermediate_responses_in_final" or value is not False
    }


def _finding(index: int, turn: ScoreTold, conversation: Conversation) -> TurnFinding:
    expected: Sequence[Any] = conversation.expected or ()
    return TurnFinding(
        turn=index,
        score=number(turn.score),
        expected=text_of(expected[index].final_response) if index < len(expected) else "",
        actual=text_of(conversation.actual[index].final_response),
        why=tuple(
            ": ".join(part for part in (one.rubric_id, _shown(one.score), shorten(one.rationale, _RATIONALE)) if part)
            for one in turn.rubrics[:_RUBRICS]
        ),
    )


def _rubric(rubric_id: str, score: Any, rationale: str) -> dict[str, Any]:
    return {
        "rubric_id": shorten(rubric_id, 100),
        "score": number(score),
        "rationale": shorten(rationale, _RATIONALE),
    }
