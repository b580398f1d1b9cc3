"""`tool_trajectory_partial`, args that are a subset, and the matching behind both."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from remark_samples import lines

from agent_eval.core.content import FunctionCall, user_message
from agent_eval.core.invocation import IntermediateData, Invocation
from agent_eval.criteria import Conversation, NotEvaluated, Scored, build
from agent_eval.criteria._sequences import in_any_order, in_order
from agent_eval.criteria.calls import ArgsMatch, contains, count_matched, match_calls, same_call
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

    result = await run((expected, actual))
    assert lines(result.findings[0].why) == (
        "1 of 3 calls matched (3 expected, 3 made)",
        "matched: find",
        'turn_on(device): expected "lamp", got "fan" (expected as call 2, was call 1)',
        "missing: log() (expected as call 3)",
        "extra: beep() (call 3)",
    )
    assert lines((await run((expected, actual), strict_args=True)).findings[0].why) == (
        "0 of 3 calls matched (3 expected, 3 made)",
        "find(floor): not expected, got 1 (expected as call 1, was call 2)",
        'turn_on(device): expected "lamp", got "fan" (expected as call 2, was call 1)',
        "turn_on(fast): not expected, got true (expected as call 2, was call 1)",
        "missing: log() (expected as call 3)",
        "extra: beep() (call 3)",
    )
    assert lines((await run((expected, actual), strict_order=False)).findings[0].why) == (
        "1 of 3 calls matched (3 expected, 3 made)",
        "matched: find",
        'turn_on(device): expected "lamp", got "fan" (expected as call 2, was call 1)',
        "missing: log() (expected as call 3)",
        "extra: beep() (call 3)",
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


VALUES = st.recursive(
    st.sampled_from([1, 1.0, True, "1", None, 0]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xy"), inner, max_size=2),
    max_leaves=4,
)
CALLS = st.builds(
    FunctionCall,
    name=st.sampled_from("ab"),
    args=st.none() | st.dictionaries(st.sampled_from("xy"), VALUES, max_size=2),
)
LISTS = st.lists(CALLS, max_size=6)
SUBSET = ArgsMatch.SUBSET


def fits(expected: FunctionCall, actual: FunctionCall) -> bool:
    return same_call(expected, actual, args=SUBSET)


@given(VALUES, VALUES, VALUES)
def test_contains__reflexive_transitive_and_implied_by_equality(first: Any, second: Any, third: Any) -> None:
    assert contains(first, first)
    assert contains(first, second) or first != second
    assert contains(first, third) or not (contains(first, second) and contains(second, third))


@given(LISTS, LISTS, st.sampled_from(MatchType))
def test_subset__accepts_what_equality_accepts(expected: Calls, actual: Calls, match_type: MatchType) -> None:
    exact = match_calls(expected, actual, match_type=match_type)

    assert match_calls(expected, actual, match_type=match_type, args=SUBSET) or not exact
    assert count_matched(expected, actual, args=SUBSET) >= count_matched(expected, actual)


@given(LISTS, LISTS)
def test_matching__is_the_largest(expected: Calls, actual: Calls) -> None:
    """Compared with every assignment of expected to actual calls."""
    longer = [*actual, *[None] * len(expected)]
    best, best_ordered = 0, 0
    if len(expected) <= 3 and len(actual) <= 4:
        for order in itertools.permutations(range(len(longer)), len(expected)):
            pairs = [(i, j) for i, j in enumerate(order) if (other := longer[j]) and fits(expected[i], other)]
            best = max(best, len(pairs))
            if [j for _, j in pairs] == sorted(j for _, j in pairs):
                best_ordered = max(best_ordered, len(pairs))
        assert len(in_any_order(expected, actual, fits)) == best
        assert len(in_order(expected, actual, fits)) == best_ordered
    for ours in (in_order, in_any_order):
        pairs = ours(expected, actual, fits)
        assert len({i for i, _ in pairs}) == len({j for _, j in pairs}) == len(pairs)
        assert all(fits(expected[i], actual[j]) for i, j in pairs)
        assert pairs == sorted(pairs)
    assert [j for _, j in in_order(expected, actual, fits)] == sorted(j for _, j in in_order(expected, actual, fits))


def test_matching__many_equal_calls_take_no_time() -> None:
    assert len(in_any_order([A] * 1_500, [A] * 1_000, fits)) == 1_000
    assert len(in_order([A] * 300, [A] * 3_000 + [B] * 30_000, fits)) == 300


def test_matching__numbers_that_python_does_not_print() -> None:
    huge = [call("f", x=10**5_000), call("f", x=10**5_001)]
    assert in_order(huge, huge, fits) == in_any_order(huge, huge, fits) == [(0, 0), (1, 1)]
