"""ROUGE-N and ROUGE-L: the overlap of the words of two texts (Lin, 2004, https://aclanthology.org/W04-1013)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from agent_eval.criteria._sequences import common_length


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
