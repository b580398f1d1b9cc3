"""Which runs are compared when the suite is looked at as a whole. Pure.

The first look takes the screening runs. Where it is on the brink, a second one takes one more run of each case as well.
Where only runs of the same day may be compared and the base was not run beside the screening, a look at the runs of
other days says whether two fresh runs of everything on both sides are worth their price; only these are then compared.
"""

from __future__ import annotations

from agent_eval.gate.stats.evidence import Series

Pair = tuple[tuple[float, ...], tuple[float, ...]]
"""Values of head and base."""
_ALONE = 2
"""Runs per side of a look that can't use the screening."""


def first_look(series: Series, *, fresh_only: bool) -> Pair:
    """The screening runs of the head, and what they are compared with; the base's may be empty."""
    return series.head_screen, series.base_screen if fresh_only else (*series.base, *series.base_screen)


def second_look(series: Series, *, fresh_only: bool) -> Pair:
    """The same with the runs that `missing` asked for."""
    if fresh_only and not series.base_screen:
        return series.head_confirm[:_ALONE], series.base_confirm[:_ALONE]
    head, base = first_look(series, fresh_only=fresh_only)
    return (*head, *series.head_confirm[:1]), (*base, *series.base_confirm[:1]) if fresh_only else base


def missing(series: Series, *, fresh_only: bool) -> tuple[int, int]:
    """How many more runs of head and base a second look needs."""
    if fresh_only and not series.base_screen:
        return max(0, _ALONE - len(series.head_confirm)), max(0, _ALONE - len(series.base_confirm))
    return max(0, 1 - len(series.head_confirm)), max(0, 1 - len(series.base_confirm)) if fresh_only else 0
