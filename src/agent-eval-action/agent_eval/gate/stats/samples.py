"""Samples: the runs of each case on both sides, as plain numbers. Pure.

There are four kinds of runs with different uses. *Screening* runs of the head select the suspected regressions.
*Confirmation* runs of the head, made afterwards, decide whether they got worse. *Stored* runs of the base branch are
from earlier days; *fresh* ones run beside the head's confirmation runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal


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
    before: Literal["", "suspicious", "blocked"] = ""
    """The case's result in the pull request's previous attempt. It raises suspicion, but its runs don't count."""
    threshold: float | None = None
    """The score that a run must reach to pass; None for the `pass` series, where 1.0 is a pass."""

    def __post_init__(self) -> None:
        """Checks the lengths.

        Raises:
            ValueError: `base_days` is not as long as `base`, or `head_rounds` not as long as `head_confirm`.
        """
        if len(self.head_rounds) != len(self.head_confirm):
            raise ValueError(f"head_rounds has {len(self.head_rounds)} entries for {len(self.head_confirm)} runs")
        if self.base_days and len(self.base_days) != len(self.base):
            raise ValueError(f"base_days has {len(self.base_days)} entries for {len(self.base)} runs")

    @property
    def screened(self) -> tuple[float, ...]:
        """The runs that raise suspicion: a result of the previous attempt counts as one that failed."""
        return (*self.head_screen, 0.0) if self.before else self.head_screen

    @cached_property
    def is_binary(self) -> bool:
        """Whether all values are zeros and ones."""
        return _BINARY.issuperset(
            (*self.head_screen, *self.head_confirm, *self.base, *self.base_screen, *self.base_confirm)
        )


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


Pair = tuple[tuple[float, ...], tuple[float, ...]]
"""Values of head and base."""
FRESH_COLUMNS = 2
"""Most fresh columns of the test of the whole suite.

A *column* is one run of every case. The screening has `num_runs` columns of the head. If it looks worse, each case gets
a fresh run, and if that looks worse too, another one. A suspected case has run again by then. Of these runs, only those
of a later round count as its fresh columns: a bad moment that made it fail may have lasted into the first round. If
only runs of the same day count, the base runs beside each fresh column.
"""


def first_look(series: Series, *, fresh_only: bool) -> Pair:
    """The screening runs of the head and the comparable base runs, which may be empty."""
    return series.head_screen, series.base_screen if fresh_only else (*series.base, *series.base_screen)


def fresh_look(series: Series, columns: Sequence[float], *, fresh_only: bool) -> Pair:
    """The head's fresh columns alone, and the comparable base runs."""
    _, base = first_look(series, fresh_only=fresh_only)
    return tuple(columns), (*base, *series.base_confirm[: len(columns)]) if fresh_only else base


def both_looks(series: Series, columns: Sequence[float], *, fresh_only: bool) -> Pair:
    """The head's screening runs and fresh columns, and the comparable base runs."""
    head, base = fresh_look(series, columns, fresh_only=fresh_only)
    return (*series.head_screen, *head), base


def later_runs(series: Series, *, confirmed: bool) -> tuple[float, ...]:
    """The head's fresh runs that can be columns.

    Args:
        series: The runs of one case.
        confirmed: Whether the first of them were made since the screening looked worse.
    """
    first = series.head_rounds[0] if confirmed and series.head_rounds else None
    return tuple(
        value for value, number in zip(series.head_confirm, series.head_rounds, strict=True) if number != first
    )
