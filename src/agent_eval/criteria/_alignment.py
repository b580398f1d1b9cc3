"""Lines up the calls that were expected with the calls that were made, so that a difference can be named.

This only explains; scores come from `calls`. The work is bounded for trajectories of thousands of calls.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from agent_eval.core.content import FunctionCall

_MOST_CANDIDATES = 64
"""Places that one expected call is tried at. Only a list of over 64 equal calls can be aligned less than best."""
_MOST_COMPARED = 40
"""Same-name calls that are compared argument by argument to find which one was meant."""
_DEEPEST = 50
"""Levels inside args that are looked at."""

Places = tuple[tuple[int, int], ...]
"""Pairs of 0-based positions: in the expected list, in the actual list."""


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """Every expected and every actual call stands in exactly one of these."""

    matched: Places
    """Same call, in order."""
    moved: Places
    """Same call, out of order."""
    changed: Places
    """Same tool, other args."""
    missing: tuple[int, ...]
    """Positions of expected calls that nothing stands for."""
    extra: tuple[int, ...]
    """Positions of actual calls that nothing asked for."""


def align(expected: Sequence[FunctionCall], actual: Sequence[FunctionCall], *, ignore_args: bool = False) -> Alignment:
    """Lines up two lists of calls.

    The longest common subsequence is matched first; then equal calls that are out of order; then calls of the same
    tool whose args differ, those that agree in most args first.
    """
    kinds = _kinds([*expected, *actual], ignore_args=ignore_args)
    wanted, made = kinds[: len(expected)], kinds[len(expected) :]
    matched = _in_order(wanted, made)
    used_expected, used_actual = {i for i, _ in matched}, {j for _, j in matched}
    left_expected = [i for i in range(len(wanted)) if i not in used_expected]
    left_actual = [j for j in range(len(made)) if j not in used_actual]

    moved = _take_pairs(left_expected, left_actual, wanted, made)
    changed: list[tuple[int, int]] = []
    for name in dict.fromkeys(expected[i].name for i in left_expected):
        ours = [i for i in left_expected if expected[i].name == name]
        theirs = [j for j in left_actual if actual[j].name == name]
        changed += _nearest(ours, theirs, expected, actual)
    gone_expected, gone_actual = {i for i, _ in changed}, {j for _, j in changed}
    return Alignment(
        matched=tuple(matched),
        moved=tuple(sorted(moved)),
        changed=tuple(sorted(changed)),
        missing=tuple(i for i in left_expected if i not in gone_expected),
        extra=tuple(j for j in left_actual if j not in gone_actual),
    )


def _kinds(calls: Sequence[FunctionCall], *, ignore_args: bool) -> list[int]:
    """A number for each call; calls that are the same (`calls.same_call`) have the same one."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault((call.name, None if ignore_args else _key(call.args)), len(numbers)) for call in calls]


def _key(value: Any, depth: int = 0) -> Hashable:
    """A hashable stand-in: equal for equal JSON values (`1 == 1.0 == True`, keys in any order)."""
    if depth > _DEEPEST:
        return "…"
    if isinstance(value, dict):
        return frozenset((key, _key(item, depth + 1)) for key, item in value.items())
    if isinstance(value, list):
        return tuple(_key(item, depth + 1) for item in value)
    return value if isinstance(value, Hashable) else repr(value)


def _in_order(wanted: Sequence[int], made: Sequence[int]) -> list[tuple[int, int]]:
    """A longest common subsequence (Hunt and Szymanski, 1977), after what both ends have in common."""
    shorter = min(len(wanted), len(made))
    head = 0
    while head < shorter and wanted[head] == made[head]:
        head += 1
    tail = 0
    while tail < shorter - head and wanted[-1 - tail] == made[-1 - tail]:
        tail += 1
    places: dict[int, list[int]] = {}
    for j in range(head, len(made) - tail):
        places.setdefault(made[j], []).append(j)

    ends: list[int] = []  # ends[k]: the smallest actual position at which a chain of k + 1 pairs ends
    chains: list[_Link] = []
    for i in range(head, len(wanted) - tail):
        for j in reversed(_near(places.get(wanted[i], []), i)):
            k = bisect_left(ends, j)
            link = _Link(pair=(i, j), before=chains[k - 1] if k else None)
            if k == len(ends):
                ends.append(j)
                chains.append(link)
            else:
                ends[k], chains[k] = j, link
    middle: list[tuple[int, int]] = []
    last = chains[-1] if chains else None
    while last is not None:
        middle.append(last.pair)
        last = last.before
    return [
        *((i, i) for i in range(head)),
        *reversed(middle),
        *((len(wanted) - k, len(made) - k) for k in range(tail, 0, -1)),
    ]


@dataclass(frozen=True, kw_only=True)
class _Link:
    pair: tuple[int, int]
    before: _Link | None


def _near(places: list[int], position: int) -> list[int]:
    """At most `_MOST_CANDIDATES` of ascending places, those around a position."""
    start = max(0, min(bisect_left(places, position) - _MOST_CANDIDATES // 2, len(places) - _MOST_CANDIDATES))
    return places[start : start + _MOST_CANDIDATES]


def _take_pairs(
    left_expected: list[int], left_actual: list[int], wanted: Sequence[int], made: Sequence[int]
) -> list[tuple[int, int]]:
    """Takes equal calls out of both lists, first come first served."""
    places: dict[int, list[int]] = {}
    for j in reversed(left_actual):
        places.setdefault(made[j], []).append(j)
    pairs = [(i, places[wanted[i]].pop()) for i in left_expected if places.get(wanted[i])]
    taken_expected, taken_actual = {i for i, _ in pairs}, {j for _, j in pairs}
    left_expected[:] = [i for i in left_expected if i not in taken_expected]
    left_actual[:] = [j for j in left_actual if j not in taken_actual]
    return pairs


def _nearest(
    ours: list[int], theirs: list[int], expected: Sequence[FunctionCall], actual: Sequence[FunctionCall]
) -> list[tuple[int, int]]:
    """Pairs calls of one tool: most equal args first, then nearest in place; by place when there are many."""
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
    """How many args agree; a name that only both have counts a little."""
    ours, theirs = expected.args or {}, actual.args or {}
    shared = ours.keys() & theirs.keys()
    return sum(1.0 if ours[name] == theirs[name] else 0.1 for name in shared)
