"""ROUGE-1: how many words two texts share (Lin, 2004, https://aclanthology.org/W04-1013)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Rouge:
    """How a prediction overlaps with a reference. All scores are 0..1."""

    overlap: int
    """Tokens that both have; a token counts as often as the text that has it less often."""
    reference_tokens: int
    prediction_tokens: int

    @property
    def precision(self) -> float:
        """The share of the prediction that the reference has; 0 for an empty prediction."""
        return self.overlap / max(self.prediction_tokens, 1)

    @property
    def recall(self) -> float:
        """The share of the reference that the prediction has; 0 for an empty reference."""
        return self.overlap / max(self.reference_tokens, 1)

    @property
    def f_measure(self) -> float:
        """The harmonic mean of both, 0 when both are 0; computed as rouge_score 0.1.2 does, to the last bit."""
        precision, recall = self.precision, self.recall
        return 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0


def rouge1(reference: Sequence[str], prediction: Sequence[str]) -> Rouge:
    """Compares two lists of tokens as bags of words."""
    wanted = Counter(reference)
    given = Counter(prediction)
    overlap = sum(min(count, given[token]) for token, count in wanted.items())
    return Rouge(overlap=overlap, reference_tokens=len(reference), prediction_tokens=len(prediction))
