"""When two tool calls are the same, and when a list of calls matches another."""

from __future__ import annotations

from collections.abc import Sequence

from agent_eval.core.content import FunctionCall
from agent_eval.evalset.models import MatchType


def same_call(expected: FunctionCall, actual: FunctionCall, *, ignore_args: bool = False) -> bool:
    """Whether two calls count as the same, by ADK's rule.

    The names are equal and the args are equal as Python objects: the order of keys doesn't matter, the order of
    lists does, `1 == 1.0 == true`, `"1" != 1`, and omitted args are not `{}`. Ids are not looked at.
    """
    return expected.name == actual.name and (ignore_args or bool(expected.args == actual.args))


def match_calls(
    expected: Sequence[FunctionCall],
    actual: Sequence[FunctionCall],
    *,
    match_type: MatchType = MatchType.EXACT,
    ignore_args: bool = False,
) -> bool:
    """Whether the calls of a turn match the expected ones (google-adk 2.13.0, measured).

    Args:
        expected: The calls of the eval file.
        actual: The calls that the agent made.
        match_type: EXACT wants the same calls in the same order; IN_ORDER wants the expected ones in their order,
            with any others between them; ANY_ORDER wants each expected call once, in whatever order.
        ignore_args: Compare names only.
    """
    if match_type is MatchType.EXACT:
        return len(expected) == len(actual) and all(
            same_call(one, other, ignore_args=ignore_args) for one, other in zip(expected, actual, strict=True)
        )
    if match_type is MatchType.IN_ORDER:
        rest = iter(actual)
        # `any` consumes `rest` up to the match, so the next expected call looks only behind it.
        return all(any(same_call(one, other, ignore_args=ignore_args) for other in rest) for one in expected)
    return count_matched(expected, actual, ignore_args=ignore_args) == len(expected)


def count_matched(
    expected: Sequence[FunctionCall], actual: Sequence[FunctionCall], *, ignore_args: bool = False
) -> int:
    """How many calls the two lists share as multisets: a call made twice matches two expected ones at most."""
    left: dict[str | None, list[FunctionCall]] = {}
    for call in actual:
        left.setdefault(call.name, []).append(call)
    matched = 0
    for one in expected:
        candidates = left.get(one.name, [])
        for index, other in enumerate(candidates):
            if same_call(one, other, ignore_args=ignore_args):
                del candidates[index]
                matched += 1
                break
    return matched
