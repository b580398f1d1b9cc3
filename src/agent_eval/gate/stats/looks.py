"""The runs that the interim analyses of the whole suite compare. Pure.

The first interim analysis uses the screening runs. If it is borderline, a second one adds one more run of each case.
If only runs of the same day count and the base was not screened today, a test of stored runs decides whether two fresh
runs of every case on both sides are worth their cost; the analysis then compares only these.
"""

from __future__ import annotations

from agent_eval.gate.stats.samples import Series

Pair = tuple[tuple[float, ...], tuple[float, ...]]
"""Values of head and base."""
_ALONE = 2
"""Runs per side of an analysis without screening runs."""


def first_look(series: Series, *, fresh_only: bool) -> Pair:
    """The screening runs of the head and the comparable base runs, which may be empty."""
    return series.head_screen, series.base_screen if fresh_only else (*series.base, *series.base_screen)


def second_look(series: Series, *, fresh_only: bool) -> Pair:
    """The runs of the first analysis and those that `missing` requested."""
    if fresh_only and not series.base_screen:
        return series.head_confirm[:_ALONE], series.base_confirm[:_ALONE]
    head, base = first_look(series, fresh_only=fresh_only)
    return (*head, *series.head_confirm[:1]), (*base, *series.base_confirm[:1]) if fresh_only else base


def missing(series: Series, *, fresh_only: bool) -> tuple[int, int]:
    """How many more runs of head and base the second interim analysis needs."""
    if fresh_only and not series.base_screen:
        return max(0, _ALONE - len(series.head_confirm)), max(0, _ALONE - len(series.base_confirm))
    return max(0, 1 - len(series.head_confirm)), max(0, 1 - len(series.base_confirm)) if fresh_only else 0
