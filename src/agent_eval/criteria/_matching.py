"""Pairs expected with actual tool calls by any relation, in order or not.

Equality of args is transitive, and `calls` and `_alignment` rely on that. That the expected args are a subset of the
actual ones is not: the call that fits one expected call may be the only one that fits another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence

from agent_eval.core.content import FunctionCall
from agent_eval.criteria._sequences import subsequence_rows

Same = Callable[[FunctionCall, FunctionCall], bool]
"""Whether an actual call (second) fits an expected one (first)."""
Pairs = list[tuple[int, int]]
"""Positions in the expected and in the actual list, ascending by the first."""


def _candidates(expected: Sequence[FunctionCall], actual: Sequence[FunctionCall], same: Same) -> list[list[int]]:
    """For each expected call the positions of the actual calls that fit. Repeated calls are compared once."""
    places: dict[str | None, dict[Hashable, list[int]]] = {}
    for position, call in enumerate(actual):
        places.setdefault(call.name, {}).setdefault(_key(call, position), []).append(position)
    fitting: dict[Hashable, list[int]] = {}
    keys = [(call.name, _key(call, position)) for position, call in enumerate(expected)]
    for key, call in zip(keys, expected, strict=True):
        if key not in fitting:
            groups = places.get(call.name, {}).values()
            fitting[key] = sorted(place for group in groups if same(call, actual[group[0]]) for place in group)
    return [fitting[key] for key in keys]


def _key(call: FunctionCall, position: int) -> Hashable:
    """Equal only for calls with equal args."""
    try:
        return repr(call.args)
    except ValueError:  # A number of over 4,300 digits.
        return position


def in_order(expected: Sequence[FunctionCall], actual: Sequence[FunctionCall], same: Same) -> Pairs:
    """A longest list of pairs in which both positions ascend: a longest common subsequence."""
    masks: dict[int, int] = {}
    for i, places in enumerate(_candidates(expected, actual, same)):
        for place in places:
            masks[place] = masks.get(place, 0) | 1 << i
    columns = sorted(masks)
    rows = list(subsequence_rows(len(expected), (masks[place] for place in columns)))

    def length(i: int, j: int) -> int:
        return i - (rows[j] & ((1 << i) - 1)).bit_count()

    pairs: Pairs = []
    i, j = len(expected), len(columns)
    while i and j:
        if length(i, j) == length(i, j - 1):
            j -= 1
        elif length(i, j) == length(i - 1, j):
            i -= 1
        else:
            i, j = i - 1, j - 1
            pairs.append((i, columns[j]))
    return pairs[::-1]


def in_any_order(expected: Sequence[FunctionCall], actual: Sequence[FunctionCall], same: Same) -> Pairs:
    """As many pairs as possible: a maximum matching of a bipartite graph, by augmenting paths (Berge, 1957)."""
    candidates = _candidates(expected, actual, same)
    owner: dict[int, int] = {}
    visited: set[int] = set()
    for i in range(len(expected)):
        if _augment(i, candidates, owner, visited):
            visited.clear()
        # What a failed search visited has no free end, and the following searches need not visit it again.
    return sorted((i, j) for j, i in owner.items())


def _augment(start: int, candidates: Sequence[Sequence[int]], owner: dict[int, int], visited: set[int]) -> bool:
    """Gives an expected call an actual one, moving others to other calls if necessary; False if that is impossible."""
    reached_from: dict[int, int] = {}
    queue = deque([start])
    while queue:
        i = queue.popleft()
        for j in candidates[i]:
            if j in visited:
                continue
            visited.add(j)
            reached_from[j] = i
            if j in owner:
                queue.append(owner[j])
                continue
            _flip(j, start, reached_from, owner)
            return True
    return False


def _flip(free: int, start: int, reached_from: dict[int, int], owner: dict[int, int]) -> None:
    """Reassigns the calls on the path from `start` to a free actual call."""
    previous = {i: j for j, i in owner.items()}
    j = free
    while True:
        i = reached_from[j]
        owner[j] = i
        if i == start:
            return
        j = previous[i]
