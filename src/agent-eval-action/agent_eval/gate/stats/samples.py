"""Samples: the runs of each case on both sides, as plain numbers. Pure.

There are four kinds of runs with different uses. *Screening* runs of the head select the suspected regressions.
*Confirmation* runs of the head, made afterwards, decide whether they got worse. *Stored* runs of the base branch are
from earlier days; *fresh* ones run beside the head's confirmation runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from agent_eval_results import PASS


@dataclass(frozen=True, kw_only=True)
class Series:
    """The values of one case and metric, one per evaluated run. Runs without a result are omitted."""

    head_screen: tuple[float, ...] = ()
    """The head's ordinary runs (`num_runs`). Higher is better: costs are negated."""
    head_confirm: tuple[float, ...] = ()
    """The head's extra runs, in chronological order."""
    head_rounds: tuple[int, ...] = ()
    """The round of each value of `head_confirm`; as long as it. Runs of one round are made at the same time, so one bad
    moment can make all of them fail."""
    base: tuple[float, ...] = ()
    """The base branch's stored runs, newest last."""
    base_screen: tuple[float, ...] = ()
    """Today's base runs of every case, made beside `head_screen` (`baseline: rerun`)."""
    base_confirm: tuple[float, ...] = ()
    """Today's base runs of suspected regressions, made beside `head_confirm`."""
    base_days: tuple[str, ...] = ()
    """The record (commit or run id) of each value of `base`; as long as `base`, or empty if unknown."""
    before: bool = False
    """Whether the pull request's previous push raises suspicion. Its runs don't count."""
    earlier: int = 0
    """Values of `head_confirm` that were there before this attempt asked for any (`CaseEvidence.continued`)."""
    threshold: float | None = None
    """The score that a run must reach to pass; None for the `pass` series, where 1.0 is a pass."""

    @property
    def screened(self) -> tuple[float, ...]:
        """The runs that raise suspicion: a result of the previous push counts as one that failed."""
        return (*self.head_screen, 0.0) if self.before else self.head_screen

    @cached_property
    def is_binary(self) -> bool:
        """Whether all values are zeros and ones."""
        return _BINARY.issuperset(
            (*self.head_screen, *self.head_confirm, *self.base, *self.base_screen, *self.base_confirm)
        )


EARLIER, SCREENED = -2, -1
"""The rounds of what earlier attempts of the same commit have run, and of this attempt's screening after them."""
_BINARY = frozenset((0.0, 1.0))


def failed(values: Sequence[float]) -> int:
    """The number of failed runs in a series of zeros and ones."""
    return values.count(0.0)


def is_red(base: Sequence[float]) -> bool:
    """Whether the base has runs and none of them passed."""
    return bool(base) and not any(base)


@dataclass(frozen=True, kw_only=True)
class CaseEvidence:
    """All samples of one case."""

    case_id: str
    metrics: Mapping[str, Series] = field(default_factory=dict)
    """By metric; `PASS` is the case's own pass or fail."""
    earlier: tuple[Series, ...] = ()
    """Pass or fail in earlier attempts of the same commit, oldest first; without screening runs that are its own."""

    @property
    def continued(self) -> CaseEvidence:
        """The runs as if all attempts were one: this attempt continues where the first one stopped.

        All runs since the first screening are fresh, this attempt's screening included. Those of earlier attempts count
        as one round, so that this attempt must see a regression as well.
        """
        if not self.earlier:
            return self
        (first, *others), own = self.earlier, self.metrics[PASS]
        before = (*first.head_confirm, *(run for each in others for run in (*each.head_screen, *each.head_confirm)))
        screened = own.head_screen if first.head_screen else ()
        series = replace(
            own,
            head_screen=first.head_screen or own.head_screen,
            head_confirm=(*before, *screened, *own.head_confirm),
            head_rounds=(*[EARLIER] * len(before), *[SCREENED] * len(screened), *own.head_rounds),
            base_confirm=(*(run for each in self.earlier for run in each.base_confirm), *own.base_confirm),
            earlier=len(before) + len(screened),
        )
        return replace(self, metrics={**self.metrics, PASS: series})


Pair = tuple[tuple[float, ...], tuple[float, ...]]
"""Values of head and base."""
FRESH_COLUMNS = 2
"""Most fresh columns of the test of the whole suite.

A *column* is one run of every case. The screening has `num_runs` columns of the head. If it looks worse, each case gets
a fresh run, and if that looks worse too, another one. After earlier attempts, the screening is fresh as well. A
suspected case has run again by then. Of these runs, only those of a later round count as its fresh columns: a bad
moment that made it fail may have lasted into the first round. If only runs of the same day count, the base runs beside
each fresh column.
"""


def look(series: Series, columns: Sequence[float] = (), *, screened: bool = True, fresh_only: bool) -> Pair:
    """The head's screening runs, its fresh columns, or both, and the comparable base runs, which may be empty."""
    head = (*series.head_screen, *columns) if screened else tuple(columns)
    if fresh_only:
        return head, (*series.base_screen, *series.base_confirm[: len(columns)])
    return head, (*series.base, *series.base_screen)


def later_runs(series: Series, *, confirmed: bool) -> tuple[float, ...]:
    """The head's fresh runs that can be columns.

    Args:
        series: The runs of one case.
        confirmed: Whether the first of them were made since the screening looked worse.
    """
    first = series.head_rounds[0] if confirmed and series.head_rounds else EARLIER
    return tuple(
        value
        for value, number in zip(series.head_confirm, series.head_rounds, strict=True)
        if number not in {EARLIER, first}
    )
