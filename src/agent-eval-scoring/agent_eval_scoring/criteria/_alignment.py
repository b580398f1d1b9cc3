"""Aligns expected with actual tool calls, to explain differences. Scores come from `calls`.

The work is bounded for trajectories of thousands of calls.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial

from agent_eval_scoring.core.content import FunctionCall
from agent_eval_scoring.criteria._sequences import Pairs, Same, common_pairs, in_any_order, in_order, key_of
from agent_eval_scoring.criteria.calls import ArgsMatch, many_fit, same_call

_MOST_COMPARED = 40
"""Maximum number of calls of one tool that are compared argument by argument."""

Places = tuple[tuple[int, int], ...]
"""Pairs of 0-based positions: in the expected list, in the actual list."""


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """Each expected and each actual call is in exactly one of these."""

    matched: Places
    """Same call, in order."""
    moved: Places
    """Same call, out of order."""
    changed: Places
    """Same tool, other args."""
    missing: tuple[int, ...]
    """Positions of expected calls without an actual one."""
    extra: tuple[int, ...]
    """Positions of actual calls without an expected one."""


def align(
    expected: Sequence[FunctionCall],
    actual: Sequence[FunctionCall],
    *,
    args: ArgsMatch = ArgsMatch.EXACT,
    ordered: bool = True,
) -> Alignment:
    """Aligns two lists of calls.

    First the longest common subsequence is matched; then the same calls that are out of order; then calls of the same
    tool with different args, those with most equal args first.

    Args:
        expected: The calls of the eval file.
        actual: The calls that the agent made.
        args: How args are compared.
        ordered: For SUBSET and rules of args: False matches as many calls as possible in any order, and none is out
            of order.
    """
    same = partial(same_call, args=args)
    if many_fit(expected, args):
        return aligned(expected, actual, (in_order if ordered else in_any_order)(expected, actual, same), same)
    if len(expected) == len(actual) and all(map(same, expected, actual)):
        return Alignment(matched=tuple(enumerate(range(len(actual)))), moved=(), changed=(), missing=(), extra=())
    kinds = _kinds([*expected, *actual], ignore_args=args is ArgsMatch.IGNORE)
    expected_keys, actual_keys = kinds[: len(expected)], kinds[len(expected) :]
    matched = common_pairs(expected_keys, actual_keys)
    moved = _equal_pairs(*_left(matched, expected, actual), expected_keys, actual_keys)
    return _completed(expected, actual, matched, moved)


def aligned(expected: Sequence[FunctionCall], actual: Sequence[FunctionCall], matched: Pairs, same: Same) -> Alignment:
    """Completes an alignment.

    Args:
        expected: The calls of the eval file.
        actual: The calls that the agent made.
        matched: The pairs that count.
        same: Finds the pairs that don't count because they are out of order.
    """
    left_expected, left_actual = _left(matched, expected, actual)
    pairs = in_any_order([expected[i] for i in left_expected], [actual[j] for j in left_actual], same)
    return _completed(expected, actual, matched, [(left_expected[i], left_actual[j]) for i, j in pairs])


def _left(pairs: Pairs, *lists: Sequence[object]) -> tuple[list[int], list[int]]:
    """The positions of both lists that are in no pair."""
    expected, actual = ({*range(len(each))} for each in lists)
    return sorted(expected - {i for i, _ in pairs}), sorted(actual - {j for _, j in pairs})


def _completed(
    expected: Sequence[FunctionCall], actual: Sequence[FunctionCall], matched: Pairs, moved: Pairs
) -> Alignment:
    left_expected, left_actual = _left([*matched, *moved], expected, actual)
    changed: Pairs = []
    for name in dict.fromkeys(expected[i].name for i in left_expected):
        ours = [i for i in left_expected if expected[i].name == name]
        theirs = [j for j in left_actual if actual[j].name == name]
        changed += _nearest(ours, theirs, expected, actual)
    missing, extra = _left([*matched, *moved, *changed], expected, actual)
    return Alignment(
        matched=tuple(matched),
        moved=tuple(sorted(moved)),
        changed=tuple(sorted(changed)),
        missing=tuple(missing),
        extra=tuple(extra),
    )


def _kinds(calls: Sequence[FunctionCall], *, ignore_args: bool) -> list[int]:
    """A number for each call; calls that are the same (`calls.same_call`) have the same number."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault((call.name, None if ignore_args else key_of(call.args)), len(numbers)) for call in calls]


def _equal_pairs(
    left_expected: Sequence[int], left_actual: Sequence[int], expected_keys: Sequence[int], actual_keys: Sequence[int]
) -> list[tuple[int, int]]:
    """Pairs of equal calls, in order."""
    places: dict[int, list[int]] = {}
    for j in reversed(left_actual):
        places.setdefault(actual_keys[j], []).append(j)
    return [(i, places[expected_keys[i]].pop()) for i in left_expected if places.get(expected_keys[i])]


def _nearest(
    ours: list[int], theirs: list[int], expected: Sequence[FunctionCall], actual: Sequence[FunctionCall]
) -> list[tuple[int, int]]:
    """Pairs calls of one tool: most equal args first, then by distance; by position alone if there are many."""
    if len(ours) > _MOST_COMPARED or len(theirs) > _MOST_COMPARED:
        return list(zip(ours, theirs, strict=False))
    ranked = sorted((-_likeness(expected[i], actual[j]), abs(i - j), i, j) for i in ours for j in theirs)
    pairs: list[tuple[int, int]] = []
    free_ours, free_theirs = set(ours), set(theirs)
    for _, _, i, j in ranked:
        if i in free_ours and j in free_theirs:
            free_ours.remove(i)
            free_theirs.remove(j)
            pairs.append((i, j))
    return pairs


def _likeness(expected: FunctionCall, actual: FunctionCall) -> float:
    """The number of equal args; an arg that both have with different values counts 0.1."""
    ours, theirs = expected.args or {}, actual.args or {}
    shared = ours.keys() & theirs.keys()
    return sum(1.0 if ours[name] == theirs[name] else 0.1 for name in shared)
