"""Turns with calls and answers, and what criteria make of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from remark_samples import lines

from agent_eval_scoring.core.content import FunctionCall, model_message, user_message
from agent_eval_scoring.core.invocation import IntermediateData, Invocation
from agent_eval_scoring.criteria.base import Conversation, Result, Scored
from agent_eval_scoring.criteria.registry import build
from agent_eval_scoring.evalset.models import CRITERION_MODELS, EvalCase
from agent_eval_scoring.evalset.parse import criterion

Turns = Sequence[Invocation]


def call(name: str, **args: Any) -> FunctionCall:
    return FunctionCall(name=name, args=args)


A, B, C = call("a", x=1), call("b", y=2), call("c")


def turn(*calls: FunctionCall, text: str | None = None) -> Invocation:
    return Invocation(
        user_content=user_message("u"),
        final_response=None if text is None else model_message(text),
        intermediate_data=IntermediateData(tool_uses=list(calls)),
    )


async def score(
    metric: str, actual: Turns, expected: Turns | None, *, threshold: float = 1.0, **options: Any
) -> Result:
    model = CRITERION_MODELS[metric].model_validate({"threshold": threshold, **options})
    built = build(criterion(metric, model))
    assert (built.name, built.threshold) == (metric, threshold)
    case = EvalCase(eval_id="c", conversation=[])
    return await built.score(Conversation(case=case, actual=actual, expected=expected))


async def scored(*arguments: Any, **options: Any) -> Scored:
    result = await score(*arguments, **options)
    assert isinstance(result, Scored), result
    return result


async def in_ways(ways: Mapping[str, tuple[str, dict[str, Any]]], actual: Invocation, expected: Invocation) -> str:
    """Each score of a turn and its reasons, with the ways (a metric with options) that have it."""
    results: dict[str, list[str]] = {}
    for way, (metric, options) in ways.items():
        result = await score(metric, [actual], [expected], **options)
        if isinstance(result, Scored):
            assert len(result.findings) == (result.score != 1), way
            shown = [f"{result.score:.4g}", *(why for finding in result.findings for why in lines(finding.why))]
        else:
            shown = [result.code]
        results.setdefault("\n    ".join(shown), []).append(way)
    return "".join(f"  {'; '.join(ways)}: {shown}\n" for shown, ways in results.items())
