"""Compares tool calls, and lists of them, by ADK's rules."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from functools import partial
from typing import Any

from agent_eval_scoring.core.content import FunctionCall
from agent_eval_scoring.criteria._argument_rules import RuledCall, settled
from agent_eval_scoring.criteria._sequences import in_any_order
from agent_eval_scoring.evalset.models import MatchType


class ArgsMatch(enum.Enum):
    """How the args of two calls of one tool are compared."""

    EXACT = "exact"
    """They must be equal as Python objects: the order of keys doesn't matter, the order of lists does,
    `1 == 1.0 == true`, `"1" != 1`, and omitted args are not `{}`."""
    SUBSET = "subset"
    """The actual args must contain the expected ones, see `contains`; omitted expected args allow any."""
    IGNORE = "ignore"


def args_match(*, ignore_args: bool = False, subset: bool = False) -> ArgsMatch:
    """The rule of a criterion's options."""
    return ArgsMatch.IGNORE if ignore_args else ArgsMatch.SUBSET if subset else ArgsMatch.EXACT


def same_call(expected: FunctionCall, actual: FunctionCall, *, args: ArgsMatch = ArgsMatch.EXACT) -> bool:
    """Whether the calls name the same tool and their args match, or a rule accepts them. Ids are ignored."""
    if expected.name != actual.name:
        return False
    if args is ArgsMatch.IGNORE or (args is ArgsMatch.SUBSET and expected.args is None):
        return True
    actual_args = settled(expected, actual)
    return contains(expected.args, actual_args or {}) if args is ArgsMatch.SUBSET else expected.args == actual_args


def many_fit(expected: Sequence[FunctionCall], args: ArgsMatch) -> bool:
    """Whether different calls can fit one expected call, so that which one it gets decides what the others get."""
    return args is ArgsMatch.SUBSET or any(isinstance(call, RuledCall) for call in expected)


def contains(expected: Any, actual: Any) -> bool:
    """Whether an actual value has everything of the expected one.

    Objects may have further keys, at any depth; lists must have as many items, each of which is compared so.
    """
    if isinstance(expected, dict) and isinstance(actual, dict):
        return all(key in actual and contains(value, actual[key]) for key, value in expected.items())
    if isinstance(expected, list) and isinstance(actual, list):
        return len(expected) == len(actual) and all(map(contains, expected, actual))
    return bool(expected == actual)


def match_calls(
    expected: Sequence[FunctionCall],
    actual: Sequence[FunctionCall],
    *,
    match_type: MatchType = MatchType.EXACT,
    args: ArgsMatch = ArgsMatch.EXACT,
) -> bool:
    """Whether the calls of a turn match the expected ones (google-adk 2.13.0, measured).

    Args:
        expected: The calls of the eval file.
        actual: The calls that the agent made.
        match_type: EXACT requires the same calls in the same order; IN_ORDER the expected calls in their order, with
            any others between them; ANY_ORDER each expected call once, in any order.
        args: How args are compared.
    """
    if match_type is MatchType.EXACT:
        return len(expected) == len(actual) and all(
            same_call(left, right, args=args) for left, right in zip(expected, actual, strict=True)
        )
    if match_type is MatchType.IN_ORDER:
        rest = iter(actual)
        # `any` consumes `rest` up to the match, so the next expected call is searched only after it.
        return all(any(same_call(call, other, args=args) for other in rest) for call in expected)
    return count_matched(expected, actual, args=args) == len(expected)


def count_matched(
    expected: Sequence[FunctionCall], actual: Sequence[FunctionCall], *, args: ArgsMatch = ArgsMatch.EXACT
) -> int:
    """Number of pairs of the same call: a call that was made twice matches at most two expected calls."""
    if many_fit(expected, args):
        return len(in_any_order(expected, actual, partial(same_call, args=args)))
    left: dict[str | None, list[FunctionCall]] = {}
    for call in actual:
        left.setdefault(call.name, []).append(call)
    matched = 0
    for call in expected:
        candidates = left.get(call.name, [])
        for index, other in enumerate(candidates):
            if same_call(call, other, args=args):
                del candidates[index]
                matched += 1
                break
    return matched
