"""Custom metrics that read all that a turn has: the share of turns with what was expected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from google.adk.evaluation.eval_case import get_all_tool_calls, get_all_tool_responses
from google.adk.evaluation.eval_metrics import EvalStatus
from google.adk.evaluation.evaluator import EvaluationResult, PerInvocationResult


def _result(scores: Sequence[float], actual: Sequence[Any]) -> EvaluationResult:
    return EvaluationResult(
        overall_score=sum(scores) / len(scores),
        overall_eval_status=EvalStatus.PASSED,
        per_invocation_results=[
            PerInvocationResult(actual_invocation=turn, score=score, eval_status=EvalStatus.PASSED)
            for turn, score in zip(actual, scores, strict=True)
        ],
    )


def _as_expected(read: Callable[[Any], Any], actual: Sequence[Any], expected: Sequence[Any]) -> EvaluationResult:
    pairs = zip(actual, expected, strict=True)
    return _result([float(read(turn) == read(reference)) for turn, reference in pairs], actual)


def _calls(turn: Any) -> Any:
    calls, responses = get_all_tool_calls(turn.intermediate_data), get_all_tool_responses(turn.intermediate_data)
    return [(call.name, call.args) for call in calls], [(response.name, response.response) for response in responses]


def _texts(turn: Any) -> Any:
    data = turn.intermediate_data
    said = getattr(data, "intermediate_responses", None) or [
        (event.author, event.content.parts) for event in getattr(data, "invocation_events", None) or () if event.content
    ]
    steps = [(author, part.text) for author, parts in said for part in parts if part.text]
    final = turn.final_response.parts if turn.final_response else []
    return steps, [(part.text, part.inline_data and part.inline_data.mime_type) for part in final if not part.thought]


def calls(_: Any, actual: Sequence[Any], expected: Sequence[Any], *__: Any) -> EvaluationResult:
    """Turns with the expected calls and responses."""
    return _as_expected(_calls, actual, expected)


def texts(_: Any, actual: Sequence[Any], expected: Sequence[Any], *__: Any) -> EvaluationResult:
    """Turns with the expected texts and authors, and with the expected answer."""
    return _as_expected(_texts, actual, expected)


def state(_: Any, actual: Sequence[Any], *__: Any) -> EvaluationResult:
    """How many instructions of a turn's agents have a value of the state in them."""
    shown = [[agent.instructions for agent in turn.app_details.agent_details.values()] for turn in actual]
    return _result([float(sum("Nora" in text or "rain" in text for text in turn)) for turn in shown], actual)


def states(_: Any, actual: Sequence[Any], *__: Any, session_states: Sequence[dict[str, Any]] = ()) -> EvaluationResult:
    """How many keys the session's state has after each turn."""
    return _result([float(len(state)) for state in session_states], actual)
