"""Compares tool calls, and lists of them, by ADK's rules."""

from __future__ import annotations

from collections.abc import Sequence

from agent_eval.core.content import FunctionCall
from agent_eval.evalset.models import MatchType


def same_call(expected: FunctionCall, actual: FunctionCall, *, ignore_args: bool = False) -> bool:
    """Whether two calls are the same.

    Names must be equal, and args must be equal as Python objects: the order of keys doesn't matter, the order of
    lists does, `1 == 1.0 == true`, `"1" != 1`, and omitted args are not `{}`. Ids are ignored.
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
        match_type: EXACT requires the same calls in the same order; IN_ORDER the expected calls in their order, with
            any others between them; ANY_ORDER each expected call once, in any order.
        ignore_args: Compare names only.
    """
    if match_type is MatchType.EXACT:
        return len(expected) == len(actual) and all(
            same_call(left, right, ignore_args=ignore_args) for left, right in zip(expected, actual, strict=True)
        )
    if match_type is MatchType.IN_ORDER:
        rest = iter(actual)
        # `any` consumes `rest` up to the match, so the next expected call is searched only after it.
        return all(any(same_call(call, other, ignore_args=ignore_args) for other in rest) for call in expected)
    return count_matched(expected, actual, ignore_args=ignore_args) == len(expected)


def count_matched(
    expected: Sequence[FunctionCall], actual: Sequence[FunctionCall], *, ignore_args: bool = False
) -> int:
    """Size of the multiset intersection: a call that was made twice matches at most two expected calls."""
    left: dict[str | None, list[FunctionCall]] = {}
    for call in actual:
        left.setdefault(call.name, []).append(call)
    matched = 0
    for call in expected:
        candidates = left.get(call.name, [])
        for index, other in enumerate(candidates):
            if same_call(call, other, ignore_args=ignore_args):
                del candidates[index]
                matched += 1
                break
    return matched
