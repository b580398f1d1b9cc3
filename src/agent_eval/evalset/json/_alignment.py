"""Which item of a list an item of the changed list is made of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any

_COMPARED = 2_500
"""The most pairs of items that are compared; beyond, items are paired by their place."""


def canonical(value: Any) -> str:
    """A text that equal JSON values have in common, and others do not. 1, 1.0 and true differ."""
    return json.dumps(value, sort_keys=True)


def aligned(old: list[Any], new: list[Any]) -> list[int | None]:
    """For each item of `new`, the index of the item of `old` that it is or replaces; None for an additional one.

    The indices ascend. Where items were replaced and others removed or added beside them, those are paired that are
    most alike.
    """
    matcher = SequenceMatcher(None, [*map(canonical, old)], [*map(canonical, new)], autojunk=False)
    sources: list[int | None] = []
    for _, start, end, new_start, new_end in matcher.get_opcodes():
        pairs = _paired(old[start:end], new[new_start:new_end])
        sources += [None if index is None else start + index for index in pairs]
    return sources


def _paired(old: list[Any], new: list[Any]) -> list[int | None]:
    """For each item of `new`, the index of an item of `old`; as many as possible have one."""
    shorter, longer = (old, new) if len(old) < len(new) else (new, old)
    places = _places(shorter, longer)
    if longer is old:
        return [*places]
    indices = {place: index for index, place in enumerate(places)}
    return [indices.get(place) for place in range(len(new))]


def _places(shorter: list[Any], longer: list[Any]) -> list[int]:
    """An index of `longer` for each item of `shorter`: ascending, with the most in common, the first of equal ones."""
    spare = len(longer) - len(shorter)
    if not spare or len(shorter) * (spare + 1) > _COMPARED:
        return [*range(len(shorter))]
    left, right = [set(_leaves(item)) for item in shorter], [set(_leaves(item)) for item in longer]
    # totals[i][k]: the most that the items of `shorter` from i on have in common, if k items of `longer` are skipped
    # before; taken[i][k]: the same, if the next item of `longer` is not skipped.
    totals = [[0.0] * (spare + 1) for _ in range(len(shorter) + 1)]
    taken = [[0.0] * (spare + 1) for _ in shorter]
    for index in reversed(range(len(shorter))):
        for skipped in reversed(range(spare + 1)):
            taken[index][skipped] = _likeness(left[index], right[index + skipped]) + totals[index + 1][skipped]
            totals[index][skipped] = max(taken[index][skipped:])
    places, skipped = [], 0
    for index in range(len(shorter)):
        while taken[index][skipped] < totals[index][skipped]:
            skipped += 1
        places.append(index + skipped)
    return places


def _likeness(first: set[Any], second: set[Any]) -> float:
    """The share of leaves that two values have in common, from 0 to 1."""
    return 2 * len(first & second) / ((len(first) + len(second)) or 1)


def _leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """The scalars and empty containers in a value, with their paths."""
    if not isinstance(value, dict | list) or not value:
        yield path, canonical(value)
        return
    for step, child in value.items() if isinstance(value, dict) else enumerate(value):
        yield from _leaves(child, (*path, step))
