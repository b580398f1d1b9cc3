"""Custom metrics: functions named in `custom_metrics` that run in the agent's environment, not in this process.

They are code of the pull request, so their results are validated. A function that raises, hangs or returns anything
else fails its run (docs/custom-metrics.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from agent_eval_scoring.core.content import text_of
from agent_eval_scoring.core.problem import docs_page
from agent_eval_scoring.core.recording import RunError
from agent_eval_scoring.core.text import shorten
from agent_eval_scoring.criteria.base import Conversation, NotEvaluated, Result, Scored, TurnFinding
from agent_eval_scoring.evalset.metric_runner import (
    Evaluated,
    MetricCall,
    MetricFailure,
    MetricFailureKind,
    ScoreResult,
)

NOT_EVALUATED = "custom-metric-not-evaluated"
"""The code if the function itself reports that it could not evaluate."""
_MESSAGE, _LOG = 2_000, 4_000
"""Maximum length of a message, and of a traceback or log tail, in characters."""
_RUBRICS, _RATIONALE = 20, 600


@dataclass(frozen=True, kw_only=True)
class CustomMetric:
    """Implements `Criterion`."""

    name: str
    threshold: float
    function: str
    """`code_config.name`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The other fields of the criterion."""
    code: ClassVar[None] = None
    """It is imported."""

    async def score(self, conversation: Conversation) -> Result:
        """Calls the function with the arguments that ADK passes."""
        if conversation.metrics is None:
            return broken(no_environment(self.name))
        call = MetricCall(
            metric=self.name,
            function=self.function,
            criterion={"threshold": self.threshold, **_options(self.options)},
            actual=conversation.actual,
            expected=conversation.expected,
            scenario=conversation.case.conversation_scenario,
        )
        try:
            return self._read(await conversation.metrics.evaluate(call), conversation)
        except MetricFailure as failure:
            return broken(failure)

    def _read(self, evaluated: Evaluated, conversation: Conversation) -> Result:
        if evaluated.type != "EvaluationResult":
            place = f" ({shorten(evaluated.place, 200)})" if evaluated.place else ""
            return self._invalid(f"returned a {evaluated.type} ({evaluated.shown}), not ADK's EvaluationResult", place)
        if evaluated.status == "NOT_EVALUATED":
            score_note = "" if evaluated.score is None else f", with the score {_shown(evaluated.score)}"
            reason = next((rubric.rationale for rubric in evaluated.rubrics if rubric.rationale), "")
            message = f"`{self.function}` left overall_eval_status at NOT_EVALUATED{score_note}"
            return NotEvaluated(
                code=NOT_EVALUATED,
                message=shorten(f"{message}: {reason}" if reason else message, _MESSAGE),
                details=self._details(evaluated),
            )
        if evaluated.status not in ("PASSED", "FAILED"):
            return self._invalid(f"gave the status {evaluated.status}; a metric with a threshold is PASSED or FAILED")
        score = number(evaluated.score)
        if score is None:
            return self._invalid(f"gave {_shown(evaluated.score)} as overall_score, which is not a finite number")
        if len(evaluated.turns) != len(conversation.actual):
            return self._invalid(
                f"gave {len(evaluated.turns)} per_invocation_results for {len(conversation.actual)} turns"
            )
        return Scored(
            score=score,
            passed=evaluated.status == "PASSED",
            turn_scores=tuple(number(turn.score) for turn in evaluated.turns),
            findings=tuple(
                _finding(index, turn, conversation)
                for index, turn in enumerate(evaluated.turns)
                if turn.status == "FAILED"
            ),
            details=self._details(evaluated),
        )

    def _details(self, evaluated: Evaluated) -> dict[str, Any]:
        rubrics = [_rubric(rubric.rubric_id, rubric.score, rubric.rationale) for rubric in evaluated.rubrics[:_RUBRICS]]
        details: dict[str, Any] = {"function": self.function}
        if evaluated.version:
            details["version"] = shorten(evaluated.version, 100)
        return {**details, **({"rubrics": rubrics} if rubrics else {})}

    def _invalid(self, what: str, place: str = "") -> NotEvaluated:
        return broken(
            MetricFailure(
                f"`{self.function}`{place} {what}",
                kind=MetricFailureKind.RESULT,
                hint="It must return an EvaluationResult with a finite overall_score, PASSED or FAILED as "
                f"overall_eval_status, and a result for each turn ({docs_page('custom-metrics')}).",
            )
        )


def no_environment(metric: str) -> MetricFailure:
    """The failure of a custom metric without an agent's environment to run in."""
    return MetricFailure(
        f"`{metric}` runs in the agent's environment, which is not here",
        kind=MetricFailureKind.ENVIRONMENT,
        hint="Run the agent itself (`agent: DIRECTORY`), or remove the metric from `criteria`.",
    )


def broken(failure: MetricFailure) -> NotEvaluated:
    """A failure as the result of a criterion."""
    error = error_of(failure)
    return NotEvaluated(code=error.kind, message=error.message, error=error)


def error_of(failure: MetricFailure) -> RunError:
    """A failure as an error for reports, shortened."""
    return RunError(
        kind=str(failure.kind),
        owner="agent" if failure.owner.value == "agent" else "provider",
        message=shorten(failure.message, _MESSAGE),
        hint=failure.hint,
        traceback=shorten(failure.traceback, _LOG) if failure.traceback else None,
        log_tail=shorten(failure.log_tail, _LOG) if failure.log_tail else None,
    )


def number(value: Any) -> float | None:
    """The value if it is a finite number and not a boolean, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        score = float(value)
    except OverflowError:
        return None
    return score if math.isfinite(score) else None


def _shown(value: Any) -> str:
    return "nothing" if value is None else shorten(str(value), 100)


def _options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options without a default that our model adds to every criterion and that older ADK versions reject."""
    return {
        name: value
        for name, value in options.items()
        if name != "include_intermediate_responses_in_final" or value is not False
    }


def _finding(index: int, turn: ScoreResult, conversation: Conversation) -> TurnFinding:
    expected: Sequence[Any] = conversation.expected or ()
    return TurnFinding(
        turn=index,
        score=number(turn.score),
        expected=text_of(expected[index].final_response) if index < len(expected) else "",
        actual=text_of(conversation.actual[index].final_response),
        why=tuple(
            ": ".join(
                part for part in (rubric.rubric_id, _shown(rubric.score), shorten(rubric.rationale, _RATIONALE)) if part
            )
            for rubric in turn.rubrics[:_RUBRICS]
        ),
    )


def _rubric(rubric_id: str, score: Any, rationale: str) -> dict[str, Any]:
    return {"rubric_id": shorten(rubric_id, 100), "score": number(score), "rationale": shorten(rationale, _RATIONALE)}
