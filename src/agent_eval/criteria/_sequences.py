"""Edit distance and longest common subsequence of two sequences, bit-parallel on Python's integers.

One operation on an integer handles a whole row of the textbook's table, so 20,000 by 20,000 items take about a second.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass


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
    ours, theirs = Counter(_ngrams(reference, size)), Counter(_ngrams(prediction, size))
    return Rouge(overlap=(ours & theirs).total(), reference_tokens=ours.total(), prediction_tokens=theirs.total())


def _ngrams(tokens: Sequence[str], size: int) -> Iterable[Hashable]:
    return tokens if size == 1 else zip(*(tokens[start:] for start in range(size)), strict=False)


def rouge_l(reference: Sequence[str], prediction: Sequence[str]) -> Rouge:
    """Compares two lists of tokens by their longest common subsequence."""
    return Rouge(
        overlap=common_length(reference, prediction),
        reference_tokens=len(reference),
        prediction_tokens=len(prediction),
    )
