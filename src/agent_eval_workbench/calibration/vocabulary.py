"""The labels that people may give: words of the criterion, pass or fail, numbers, levels of a graded rubric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_PASS_FAIL: Mapping[str, float] = {"pass": 1.0, "fail": 0.0}
_BINARY = {0.0, 1.0}


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """The labels that one criterion or rubric allows."""

    words: Mapping[str, float]
    """The judge's own words with their scores."""
    low: float
    high: float
    fractions: bool = True
    """Whether numbers between `low` and `high` are allowed."""
    graded: bool = False
    """Whether the words are the numbers of levels, and neither `pass` nor a score is allowed."""

    def read(self, raw: Any) -> tuple[float | None, float | None] | None:
        """The label as verdict and as score, at least one of them; None if it is not allowed."""
        if self.graded:
            number = f"{raw:g}" if isinstance(raw, int | float) and not isinstance(raw, bool) else str(raw).strip()
            score = self.words.get(number)
            return None if score is None else (None, score)
        binary = set(self.words.values()) == _BINARY
        if isinstance(raw, str):
            word = raw.strip().lower()
            if word in _PASS_FAIL:
                return _PASS_FAIL[word], _PASS_FAIL[word] if binary else None
            score = self.words.get(word)
            return None if score is None else (score if binary else None, score)
        if isinstance(raw, bool) or not isinstance(raw, int | float) or not self.low <= raw <= self.high:
            return None
        verdict = float(raw) if binary and raw in _BINARY else None
        return (verdict, float(raw)) if self.fractions or verdict is not None else None

    @property
    def hint(self) -> str:
        """The allowed labels, as a sentence."""
        if self.graded:
            return f"The rubric has levels: write the number of one, 1 to {len(self.words)}."
        words = ", ".join(f"`{word}`" for word in {**_PASS_FAIL, **self.words})
        numbers = f"a number from {self.low:g} to {self.high:g}" if self.fractions else "0 or 1"
        return f"Write one of {words}, or {numbers}."
