"""Edit distance and longest common subsequence of two sequences, and pairs of tool calls, in order or not.

The first two are bit-parallel on Python's integers: one operation handles a whole row of the textbook's table, so
20,000 by 20,000 items take about a second.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_eval_scoring.core.content import FunctionCall

_DEEPEST = 50
"""Maximum depth at which values are compared."""


def _positions(items: Sequence[Hashable]) -> dict[Hashable, int]:
    """For each distinct item a bit mask of its positions."""
    masks: dict[Hashable, int] = {}
    for index, item in enumerate(items):
        masks[item] = masks.get(item, 0) | 1 << index
    return masks


def edit_distance(left: Sequence[Hashable], right: Sequence[Hashable]) -> int:
    """The least number of insertions, deletions and replacements of single items (Levenshtein, 1966).

    The algorithm is Myers' ("A fast bit-vector algorithm for approximate string matching", J. ACM 46, 1999) in the
    form of Hyyrö ("A bit-vector algorithm for computing Levenshtein and Damerau edit distances", 2003).
    """
    # The masks below need at least one bit.
    if not left or not right:
        return max(len(left), len(right))
    masks = _positions(left)
    everything, last = (1 << len(left)) - 1, 1 << (len(left) - 1)
    rises, falls, distance = everything, 0, len(left)
    for item in right:
        equal = masks.get(item, 0)
        diagonal = (((equal & rises) + rises) ^ rises) | equal | falls
        up = (falls | ~(diagonal | rises)) & everything
        down = rises & diagonal
        distance += bool(up & last) - bool(down & last)
        up = (up << 1 | 1) & everything
        down = down << 1 & everything
        rises = (down | ~(diagonal | up)) & everything
        falls = up & diagonal
    return distance


def common_length(left: Sequence[Hashable], right: Sequence[Hashable]) -> int:
    """The length of the longest common subsequence."""
    masks = _positions(left)
    # Only the last row is kept: all of them would be 20,000 integers of 20,000 bits.
    [last] = deque(subsequence_rows(len(left), (masks.get(item, 0) for item in right)), maxlen=1)
    return len(left) - last.bit_count()


def subsequence_rows(size: int, masks: Iterable[int]) -> Iterator[int]:
    """The table of longest common subsequences (Hyyrö, "Bit-parallel LCS-length computation revisited", 2004).

    Args:
        size: Number of items of the left sequence.
        masks: For each item of the right sequence a bit mask of the left positions that match it, by any relation.

    Yields:
        A row before the right sequence, and one after each of its items. The zeros among its lowest `i` bits are the
        length of the longest subsequence that the first `i` left items and the right items up to here have in common.
    """
    everything = row = (1 << size) - 1
    yield row
    for mask in masks:
        equal = row & mask
        row = ((row + equal) | (row - equal)) & everything
        yield row


@dataclass(frozen=True, kw_only=True)
class Rouge:
    """The overlap of a prediction with a reference. All scores are 0..1."""

    overlap: int
    """What both have: the size of the multiset intersection, or the length of the longest common subsequence."""
    reference_tokens: int
    """Tokens, or n-grams of tokens."""
    prediction_tokens: int

    @property
    def precision(self) -> float:
        """The share of the prediction's tokens in the reference; 0 for an empty prediction."""
        return self.overlap / max(self.prediction_tokens, 1)

    @property
    def recall(self) -> float:
        """The share of the reference's tokens in the prediction; 0 for an empty reference."""
        return self.overlap / max(self.reference_tokens, 1)

    @property
    def f_measure(self) -> float:
        """Harmonic mean of both, 0 if both are 0; the order of operations is that of rouge_score 0.1.2."""
        precision, recall = self.precision, self.recall
        return 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0


def rouge1(reference: Sequence[str], prediction: Sequence[str]) -> Rouge:
    """Compares two lists of tokens as bags of words."""
    return rouge_n(reference, prediction, 1)


def rouge_n(reference: Sequence[str], prediction: Sequence[str], size: int) -> Rouge:
    """Compares two lists of tokens as bags of n-grams, as rouge_score 0.1.2 does.

    Args:
        reference: The tokens of the expected text.
        prediction: The tokens of the actual text.
        size: The number of tokens of an n-gram.
    """
    if reference == prediction:
        count = max(len(reference) - size + 1, 0)
        return Rouge(overlap=count, reference_tokens=count, prediction_tokens=count)
    ours, theirs = Counter(_ngrams(reference, size)), Counter(_ngrams(prediction, size))
    return Rouge(overlap=(ours & theirs).total(), reference_tokens=ours.total(), prediction_tokens=theirs.total())


def _ngrams(tokens: Sequence[str], size: int) -> Iterable[Hashable]:
    return tokens if size == 1 else zip(*(tokens[start:] for start in range(size)), strict=False)


def rouge_l(reference: Sequence[str], prediction: Sequence[str]) -> Rouge:
    """Compares two lists of tokens by their longest common subsequence."""
    return Rouge(
        overlap=common_length(reference, prediction), reference_tokens=len(reference), prediction_tokens=len(prediction)
    )


Same = Callable[[FunctionCall, FunctionCall], bool]
"""Whether an actual call (second) fits an expected one (first).

Equality of args is transitive, and `calls` and `_alignment` rely on that. That the expected args are a subset of the
actual ones is not: the call that fits one expected call may be the only one that fits another.
"""
Pairs = list[tuple[int, int]]
"""Positions in the expected and in the actual list, ascending by the first."""


def _candidates(expected: Sequence[FunctionCall], actual: Sequence[FunctionCall], same: Same) -> list[list[int]]:
    """For each expected call the positions of the actual calls that fit. Repeated calls are compared once."""
    places: dict[str | None, dict[Hashable, list[int]]] = {}
    for position, call in enumerate(actual):
        # By name first: calls of different tools never fit, and need no comparison of args.
        places.setdefault(call.name, {}).setdefault(_key(call, position), []).append(position)
    fitting: dict[Hashable, list[int]] = {}
    keys = [(call.name, _key(call, position)) for position, call in enumerate(expected)]
    for key, call in zip(keys, expected, strict=True):
        if key not in fitting:
            groups = places.get(call.name, {}).values()
            fitting[key] = sorted(place for group in groups if same(call, actual[group[0]]) for place in group)
    return [fitting[key] for key in keys]


def _key(call: FunctionCall, position: int) -> Hashable:
    """Equal only for calls with equal args, and rules for them."""
    try:
        # repr and not JSON: args may hold what JSON has no text for, and 1 and true must not share a key before `same`
        # decides.
        return repr((call.args, getattr(call, "rules", ())))
    except ValueError:  # A number of over 4,300 digits.
        return position


def in_order(expected: Sequence[FunctionCall], actual: Sequence[FunctionCall], same: Same) -> Pairs:
    """A longest list of pairs in which both positions ascend: a longest common subsequence."""
    masks: dict[int, int] = {}
    for i, places in enumerate(_candidates(expected, actual, same)):
        for place in places:
            masks[place] = masks.get(place, 0) | 1 << i
    return _common_pairs(len(expected), dict(sorted(masks.items())))


def common_pairs(left: Sequence[Hashable], right: Sequence[Hashable]) -> Pairs:
    """The positions of a longest common subsequence in both sequences."""
    masks = _positions(left)
    return _common_pairs(len(left), {place: masks[item] for place, item in enumerate(right) if item in masks})


def _common_pairs(size: int, masks: Mapping[int, int]) -> Pairs:
    """The pairs of a longest common subsequence.

    Args:
        size: Number of items of the left sequence.
        masks: By position in the right sequence, ascending, a bit mask of the left positions that match it, if any do.
    """
    columns = list(masks)
    rows = list(subsequence_rows(size, masks.values()))

    def length(i: int, j: int) -> int:
        return i - (rows[j] & ((1 << i) - 1)).bit_count()

    pairs: Pairs = []
    i, j = size, len(columns)
    while i and j:
        # Later calls of the agent are skipped first, so that an expected call is paired with the earliest that fits.
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
    return matching(_candidates(expected, actual, same))


def key_of(value: Any, depth: int = 0) -> Hashable:
    """A hashable key: equal for equal JSON values (`1 == 1.0 == True`, keys in any order)."""
    if depth > _DEEPEST:
        return "…"
    if isinstance(value, dict):
        return frozenset((key, key_of(item, depth + 1)) for key, item in value.items())
    if isinstance(value, list):
        return tuple(key_of(item, depth + 1) for item in value)
    return value if isinstance(value, Hashable) else repr(value)


def matching(candidates: Sequence[Sequence[int]]) -> Pairs:
    """As many pairs of a position and one of its candidates as possible, each candidate in one."""
    owner: dict[int, int] = {}
    visited: set[int] = set()
    for i in range(len(candidates)):
        if _augment(i, candidates, owner, visited):
            visited.clear()
        # What a failed search visited has no free end, and the following searches need not visit it again.
    return sorted((i, j) for j, i in owner.items())


def _augment(start: int, candidates: Sequence[Sequence[int]], owner: dict[int, int], visited: set[int]) -> bool:
    """Gives an expected call an actual one, moving others to other calls if necessary; False if that is impossible."""
    reached_from: dict[int, int] = {}
    # A queue and not recursion: a path may be as long as there are calls.
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
