"""The runs that the test of the whole suite compares. Pure.

A *column* is one run of every case. The screening has `num_runs` columns of the head. If it looks worse, each case gets
a fresh run, and if that looks worse too, another one. A suspected case has run again by then. Of these runs, only those
of a later round count as its fresh columns: a bad moment that made it fail may have lasted into the first round. If
only runs of the same day count, the base runs beside each fresh column.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent_eval.gate.stats.samples import Series

Pair = tuple[tuple[float, ...], tuple[float, ...]]
"""Values of head and base."""
FRESH_COLUMNS = 2
"""At most."""


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
