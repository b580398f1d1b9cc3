"""Compares metrics: which scores are comparable, and their means over the comparable cases. Pure."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from agent_eval_results import CaseReport, Delta, MetricComparison, MetricReport, Move, Reason

_MOST_DROPS = 10
_SAME = 1e-9
"""Scores that differ by at most this rounding error are equal."""

Fate = Literal["comparable", "options", "judge", "scoring", "unmeasured", "unjudged", "new", "gone", "replayed"]
"""Whether a metric's two scores may be compared, or why not."""


def fate_note(fate: Fate, head: MetricReport | None = None, base: MetricReport | None = None) -> Reason | None:
    """Why two scores can't be compared; None for comparable ones."""
    if fate == "comparable":
        return None
    if fate == "judge" and head is not None and base is not None:
        return Reason.of("judge-differs", models=[head.judge or "none", base.judge or "none"])
    if fate == "unmeasured" and head is not None:
        return Reason.of("unmeasured", side="here" if head.score is None else "base")
    return Reason.of(_NOTES[fate])


_NOTES: Mapping[Fate, str] = {
    "judge": "judge-differs",
    "options": "options-differ",
    "scoring": "scoring-differs",
    "unmeasured": "unmeasured",
    "unjudged": "side-unjudged",
    "new": "new-criterion",
    "gone": "criterion-gone",
    "replayed": "was-replayed",
}


def alike(score: float | None, other: float | None) -> bool:
    """Whether two scores are the same, or both missing."""
    return score == other if score is None or other is None else abs(score - other) <= _SAME


@dataclass(kw_only=True)
class _Row:
    """A metric over the cases so far."""

    cases: int = 0
    head: float = 0.0
    base: float = 0.0
    thresholds: set[float | None] = field(default_factory=set)
    base_thresholds: set[float | None] = field(default_factory=set)
    moved: Counter[tuple[float, float]] = field(default_factory=Counter)
    """Number of cases with another threshold than on the base branch, by (base, head)."""
    left_out: dict[str, list[Reason]] = field(default_factory=dict)
    """Why cases can't be compared: equal reasons, one for each case."""


@dataclass(kw_only=True)
class MetricTable:
    """Accumulates metrics over the cases."""

    same_scoring: bool
    """Whether both sides were scored by the same rules."""
    _rows: dict[str, _Row] = field(default_factory=dict)
    _dropped: list[tuple[float, CaseReport, MetricReport, float]] = field(default_factory=list)

    def add(
        self, case: CaseReport, old: CaseReport, head: MetricReport, base: MetricReport | None, *, judged: bool
    ) -> Fate:
        """Adds a metric of a case.

        Args:
            case: The case on the head.
            old: The case on the base branch.
            head: The metric on the head.
            base: The metric of that name on the base branch.
            judged: Whether the case has a result on both sides.

        Returns:
            Whether the two scores may be compared.
        """
        row = self._rows.setdefault(head.name, _Row())
        row.thresholds.add(head.threshold)
        if base is not None:
            row.base_thresholds.add(base.threshold)
            if base.threshold is not None and head.threshold is not None and base.threshold != head.threshold:
                row.moved[base.threshold, head.threshold] += 1
        fate = self._fate(head, base) if judged else "unjudged"
        if fate == "comparable" and head.name == "invocation_duration_v1" and case.replayed:
            fate = "replayed"  # No model took its time.
        if fate == "new" and base is None and any(run.error is not None for run in old.runs):
            fate = "unmeasured"  # A run that broke off has no scores.
        if (note := fate_note(fate, head, base)) is not None:
            row.left_out.setdefault(str(note), []).append(note)
            return fate
        assert base is not None
        assert head.score is not None
        assert base.score is not None
        row.cases += 1
        row.head += head.score
        row.base += base.score
        if case.passed and old.passed and head.threshold is not None:
            drop = head.score - base.score if head.direction == "lower" else base.score - head.score
            if drop > _SAME:
                self._dropped.append((drop, case, head, base.score))
        return fate

    def _fate(self, head: MetricReport, base: MetricReport | None) -> Fate:
        if base is None or (head.threshold is not None and base.threshold is None):
            return "new"
        if not self.same_scoring:
            return "scoring"
        if head.judge != base.judge:
            return "judge"
        if head.fingerprint and base.fingerprint and head.fingerprint != base.fingerprint:
            return "options"
        if head.score is None or base.score is None or "not_evaluated" in {head.status, base.status}:
            return "unmeasured"
        return "comparable"

    def rows(self) -> list[MetricComparison]:
        """The head's metrics, in order of appearance."""
        return [
            MetricComparison(
                name=name,
                cases=row.cases,
                score=Delta(head=row.head / row.cases, base=row.base / row.cases) if row.cases else Delta(),
                threshold=_only(row.thresholds),
                base_threshold=_only(row.base_thresholds),
                not_compared=sum(map(len, row.left_out.values())),
                note=_left_out(row),
            )
            for name, row in self._rows.items()
        ]

    def drops(self) -> list[Move]:
        """The largest drops of scores that still pass, the largest first."""
        return [
            Move(
                case_id=case.case_id,
                file=case.file,
                eval_id=case.eval_id,
                name=metric.name,
                score=Delta(head=metric.score, base=base),
            )
            for _, case, metric, base in heapq.nlargest(_MOST_DROPS, self._dropped, key=lambda entry: entry[0])
        ]

    def notes(self) -> Iterator[Reason]:
        """The changed thresholds."""
        for name, row in self._rows.items():
            for (base, head), count in row.moved.most_common(3):
                yield Reason.of("threshold-moved", metric=name, here=head, there=base, count=count)


def _only(thresholds: set[float | None]) -> float | None:
    return next(iter(thresholds)) if len(thresholds) == 1 else None


def _left_out(row: _Row) -> Reason | None:
    """The most frequent reason, and how many cases have others."""
    ordered = sorted(row.left_out.values(), key=len, reverse=True)
    if not ordered:
        return None
    first, *others = ordered
    return Reason.of("left-out", because=first[0], count=len(first), more=sum(map(len, others)), total=row.cases)
