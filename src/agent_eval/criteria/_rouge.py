"""ROUGE-1: the overlap of the words of two texts (Lin, 2004, https://aclanthology.org/W04-1013)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Rouge:
    """The overlap of a prediction with a reference. All scores are 0..1."""

    overlap: int
    """Size of the multiset intersection of both token lists."""
    reference_tokens: int
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
    overlap = (Counter(reference) & Counter(prediction)).total()
    return Rouge(overlap=overlap, reference_tokens=len(reference), prediction_tokens=len(prediction))
