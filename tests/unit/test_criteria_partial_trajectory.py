"""`tool_trajectory_partial`, and args that are a subset."""

from __future__ import annotations

from typing import Any

import pytest
from remark_samples import lines

from agent_eval.core.content import FunctionCall, user_message
from agent_eval.core.invocation import IntermediateData, Invocation
from agent_eval.criteria import Conversation, NotEvaluated, Scored, build
from agent_eval.evalset.models import CRITERION_MODELS, EvalCase, MatchType
from agent_eval.evalset.parse import criterion

Calls = list[FunctionCall]


def call(name: str, **args: Any) -> FunctionCall:
    return FunctionCall(name=name, args=args)


A, B, C = call("a"), call("b"), call("c")


async def run(
    *turns: tuple[Calls, Calls], metric: str = "tool_trajectory_partial", threshold: float = 1.0, **options: Any
) -> Scored:
    """The result for turns of expected and actual calls."""
    expected, actual = (
        [
            Invocation(user_content=user_message("?"), intermediate_data=IntermediateData(tool_uses=pair[side]))
            for pair in turns
        ]
        for side in (0, 1)
    )
    model = CRITERION_MODELS[metric].model_validate({"threshold": threshold, **options})
    case = EvalCase(eval_id="c", conversation=expected)
    conversation = Conversation(case=case, actual=actual, expected=expected)
    result = await build(criterion(metric, model)).score(conversation)
    assert isinstance(result, Scored), result
    return result


async def score(expected: Calls, actual: Calls, **options: Any) -> float | None:
    return (await run((expected, actual), **options)).score


async def test_partial_trajectory__score() -> None:
    assert await score([], []) == 1
    assert await score([A], []) == 0
    assert await score([], [A]) == 0
    assert await score([A, B], [A, C, B]) == pytest.approx(2 / 3)
    assert await score([A, B], [B, A]) == 0.5
    assert await score([A, B], [B, A], strict_order=False) == 1
    assert await score([A], [A, A, A, A]) == 0.25
    extra = [call("f", x=1)], [call("f", x=1, y=2)]
    assert await score(*extra) == 1
    assert await score(*extra, strict_args=True) == 0
    assert (await run(([A], [A]), ([A, B], [A]), threshold=0.5)).score == 0.75


@pytest.mark.parametrize("strict_args", [False, True])
async def test_partial_trajectory__omitted_args_allow_any(strict_args: bool) -> None:
    assert await score([FunctionCall(name="f")], [call("f", x=1)], strict_args=strict_args) == 1
    assert await score([call("f")], [FunctionCall(name="f")], strict_args=False) == 1


async def test_partial_trajectory__findings() -> None:
    expected = [call("find", room="bedroom"), call("turn_on", device="lamp", level=3), call("log")]
    actual = [call("turn_on", device="fan", level=3, fast=True), call("find", room="bedroom", floor=1), call("beep")]

    shown = (
        "1 of 3 calls matched (3 expected, 3 made)",
        "matched: find",
        'turn_on(device): expected "lamp", got "fan" (expected as call 2, was call 1)',
        "missing: log() (expected as call 3)",
        "extra: beep() (call 3)",
    )
    variants: list[dict[str, Any]] = [{}, {"strict_order": False}]
    for options in variants:
        assert lines((await run((expected, actual), **options)).findings[0].why) == shown
    assert lines((await run((expected, actual), strict_args=True)).findings[0].why) == (
        "0 of 3 calls matched (3 expected, 3 made)",
        "find(floor): not expected, got 1 (expected as call 1, was call 2)",
        'turn_on(device): expected "lamp", got "fan" (expected as call 2, was call 1)',
        "turn_on(fast): not expected, got true (expected as call 2, was call 1)",
        *shown[-2:],
    )
    assert lines((await run(([], [A]), threshold=0.5)).findings[0].why) == (
        "0 of 1 calls matched (0 expected, 1 made)",
        "extra: a()",
    )
    passing = await run(([A, B], [A]), threshold=0.5)
    assert (passing.score, passing.findings) == (0.5, ())


async def test_partial_trajectory__too_deep() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    turn = Invocation(
        user_content=user_message("?"),
        intermediate_data=IntermediateData.model_construct(tool_uses=[call("f", x=deep)]),
    )
    config = criterion("tool_trajectory_partial", CRITERION_MODELS["tool_trajectory_partial"](threshold=1))
    case = EvalCase.model_construct(eval_id="c", conversation=[turn])

    result = await build(config).score(Conversation(case=case, actual=[turn], expected=[turn]))

    assert isinstance(result, NotEvaluated)
    assert result.code == "too-deep"


@pytest.mark.parametrize("match_type", MatchType)
async def test_args_match_subset__for_each_match_type(match_type: MatchType) -> None:
    options: dict[str, Any] = {"metric": "tool_trajectory_avg_score", "match_type": match_type, "args_match": "subset"}
    expected = [call("f", x=1), FunctionCall(name="g")]
    actual = [call("f", x=1, note="n"), call("g", y=[1])]

    assert await score(expected, actual, **options) == 1
    assert await score(expected, actual, **{**options, "args_match": "exact"}) == 0
    assert await score(expected, [*actual, C], **options) == (0 if match_type is MatchType.EXACT else 1)
    assert await score(expected, actual[::-1], **options) == (1 if match_type is MatchType.ANY_ORDER else 0)
    assert await score(expected, [call("f", note="n"), call("g")], **options) == 0
    greedy_fails = [call("f"), call("f", x=1)], [call("f", x=1), call("f", x=2)]
    assert await score(*greedy_fails, **options) == (1 if match_type is MatchType.ANY_ORDER else 0)

    result = await run((expected, [call("f", x=2, note="n"), call("g", z=1)]), **options)
    assert lines(result.findings[0].why) == ("1 of 2 expected calls matched", "f(x): expected 1, got 2 (call 1)")
