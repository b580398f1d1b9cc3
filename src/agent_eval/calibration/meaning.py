"""What a label says: pass or fail, a word of the judge's own, or a number on the metric's scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agent_eval.calibration.choosing import Chosen, scale_of
from agent_eval.criteria.judged import RUBRIC_SCALE as YES_AND_NO

Kind = Literal["verdict", "score"]
"""Whether labels say pass or fail, or give a number on the metric's scale."""

_PASS_AND_FAIL: Mapping[str, float] = {"pass": 1.0, "fail": 0.0}
_BINARY = {0.0, 1.0}


@dataclass(frozen=True, kw_only=True)
class Label:
    """One opinion of people."""

    line: int
    """1-based, in the label file."""
    id: str | None
    subject: str
    """The rubric's id; "" for the response as a whole."""
    word: str
    """As written."""
    verdict: float | None
    """1 passes, 0 fails; None: the label says a score only."""
    score: float | None
    """On the metric's scale; None: the label says pass or fail only."""
    note: str = ""

    def value(self, kind: Kind) -> float:
        """What is compared with the judge."""
        value = self.verdict if kind == "verdict" else self.score
        assert value is not None
        return value


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """What labels on one kind of thing can say."""

    words: Mapping[str, float]
    """The judge's own words, and what they count."""
    low: float
    high: float
    fractions: bool = True
    """Whether numbers between the words make sense."""

    def read(self, raw: Any) -> tuple[float | None, float | None] | None:
        """What a label means.

        Returns:
            What it says as a verdict and as a score, at least one of them; None: nothing.
        """
        binary = set(self.words.values()) == _BINARY
        if isinstance(raw, str):
            word = raw.strip().lower()
            if word in _PASS_AND_FAIL:
                return _PASS_AND_FAIL[word], _PASS_AND_FAIL[word] if binary else None
            score = self.words.get(word)
            return None if score is None else (score if binary else None, score)
        if isinstance(raw, bool) or not isinstance(raw, int | float) or not self.low <= raw <= self.high:
            return None
        verdict = float(raw) if binary and raw in _BINARY else None
        return (verdict, float(raw)) if self.fractions or verdict is not None else None

    @property
    def hint(self) -> str:
        """What to write."""
        words = ", ".join(f"`{word}`" for word in {**_PASS_AND_FAIL, **self.words})
        numbers = f"a number from {self.low:g} to {self.high:g}" if self.fractions else "0 or 1"
        return f"Write one of {words}, or {numbers}."


def vocabulary(chosen: Chosen, *, rubric: bool) -> Vocabulary:
    """What labels can say.

    Args:
        chosen: The criterion.
        rubric: Whether they are about a rubric, or about the response as a whole.
    """
    if rubric:
        return Vocabulary(words=YES_AND_NO, low=0.0, high=1.0, fractions=False)
    low, high = chosen.span
    return Vocabulary(words=scale_of(chosen.metric), low=low, high=high)


def odd_one_out(labels: Sequence[Label]) -> tuple[int, str] | None:
    """The first label that can't be counted together with those before it, by its number, and why; None: all can."""
    if not labels:
        return None
    first = labels[0]
    for number, label in enumerate(labels):
        if bool(label.subject) is not bool(first.subject):
            about = [f"about {'a rubric' if one.subject else 'the whole response'}" for one in (label, first)]
            return number, f"This label is {about[0]}, that of line {first.line} {about[1]}."
    only = next((label for label in labels if label.verdict is None or label.score is None), None)
    if only is None:
        return None
    for number, label in enumerate(labels):
        # What says a score only can't meet what says pass or fail only.
        if (label.score is None) if only.verdict is None else (label.verdict is None):
            kinds = [f"says {'pass or fail' if one.score is None else 'a score'}" for one in (label, only)]
            return number, f"This label {kinds[0]}, that of line {only.line} {kinds[1]}."
    return None
