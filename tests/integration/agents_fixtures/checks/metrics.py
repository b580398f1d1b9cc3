"""Custom metrics, good and bad."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

from google.adk.evaluation.conversation_scenarios import ConversationScenario
from google.adk.evaluation.eval_case import Invocation, get_all_tool_calls, get_all_tool_responses
from google.adk.evaluation.eval_metrics import EvalMetric, EvalStatus
from google.adk.evaluation.evaluator import EvaluationResult, PerInvocationResult

calls: list[str] = []


def said(invocation: Invocation) -> str:
    return (invocation.final_response.parts[0].text or "") if invocation.final_response else ""


def result(scores: list[float], passed: list[bool], actual: list[Invocation]) -> EvaluationResult:
    def status(good: bool) -> EvalStatus:
        return EvalStatus.PASSED if good else EvalStatus.FAILED

    return EvaluationResult(
        overall_score=sum(scores) / len(scores),
        overall_eval_status=status(all(passed)),
        per_invocation_results=[
            PerInvocationResult(actual_invocation=item, score=score, eval_status=status(good))
            for item, score, good in zip(actual, scores, passed, strict=True)
        ],
    )


def polite(
    eval_metric: EvalMetric,
    actual: list[Invocation],
    expected: list[Invocation] | None,
    scenario: ConversationScenario | None,
) -> EvaluationResult:
    """The share of turns with one of the config's words in it."""
    print(f"polite is called for {eval_metric.metric_name}")
    assert eval_metric.threshold is None
    assert eval_metric.criterion is not None
    assert all(isinstance(item, Invocation) for item in [*actual, *(expected or [])])
    assert scenario is None
    words = eval_metric.criterion.words  # type: ignore[attr-defined]
    scores = [1.0 if any(word in said(item) for word in words) else 0.0 for item in actual]
    return result(scores, [score >= eval_metric.criterion.threshold for score in scores], actual)


async def brief(eval_metric: EvalMetric, actual: list[Invocation], *_: Any) -> EvaluationResult:
    """How many characters an answer has: fewer are better."""
    await asyncio.sleep(0.01)
    scores = [float(len(said(item))) for item in actual]
    return result(scores, [score <= eval_metric.criterion.threshold for score in scores], actual)


def hears_all(eval_metric: EvalMetric, actual: list[Invocation], *_: Any) -> EvaluationResult:
    """Calls, responses and texts before the answer, as the digits of a number."""
    scores = []
    for item in actual:
        calls, responses = get_all_tool_calls(item.intermediate_data), get_all_tool_responses(item.intermediate_data)
        assert [call.args for call in calls] == [{"room": "hall"}]
        assert [response.response for response in responses] == [{"on": True}]
        events = getattr(item.intermediate_data, "invocation_events", None)
        if events is not None:
            texts = [part.text for event in events if event.content for part in event.content.parts if part.text]
        else:
            texts = [part.text for _, parts in item.intermediate_data.intermediate_responses for part in parts]
        scores.append(float(100 * len(calls) + 10 * len(responses) + len(texts)))
    return result(scores, [True for _ in scores], actual)


def raises(*_: Any) -> EvaluationResult:
    raise ValueError("the metric is broken\n::error::and hostile")


def not_a_number(_: Any, actual: list[Invocation], *__: Any) -> EvaluationResult:
    return result([float("nan")], [True], actual)


def a_dict(*_: Any) -> dict[str, float]:
    return {"score": 1.0}


def shrugs(_: Any, actual: list[Invocation], *__: Any) -> EvaluationResult:
    return EvaluationResult(overall_score=1.0)


def exits(*_: Any) -> None:
    raise SystemExit(0)


def hangs(*_: Any) -> None:
    while True:
        time.sleep(0.05)


async def waits(*_: Any) -> None:
    await asyncio.sleep(600)


def leaves(*_: Any) -> None:
    os._exit(3)


def counts(_: Any, actual: list[Invocation], *__: Any) -> EvaluationResult:
    """Whether this process has run an agent: then its modules would be there."""
    import sys

    calls.append("once")
    alone = "faults.agent" not in sys.modules
    return result([1.0 if alone else 0.0], [alone], actual)


not_callable = 5
