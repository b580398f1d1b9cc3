"""All cases of one metric together: did the suite get worse, judged by the screening runs alone? Pure.

Every case is a stratum: its runs of head and base are dealt anew among themselves, never across cases. The statistic
adds up the head's failures, each weighted by how surprising it is: in a case that never failed on the base a failure
says more than in one that fails every other time. The weights depend only on what dealing leaves as it is (how many
runs of the case failed, on both sides together), so the test is exact.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from agent_eval.gate.stats.exact_tests import dealt, sequential_p, upper_tails

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_EXPECTED_DROP = 0.1
"""The weights are best for a suite whose cases all fail this much more often."""
_STEPS = 8
"""Weights are rounded to 1/8 to make the statistic a whole number; its distribution stays exact."""
_MOST_SUMS = 4_096
"""Above this many values of the statistic its distribution is drawn, not computed."""
_MOST_DEALS = 20_000
"""The same for the ways to deal scores."""
_LEAST_NOISE = 0.05
"""Added to the standard deviation of a case's scores in its weight: a case that never varied isn't infinitely sure."""


class Table(NamedTuple):
    """Runs of one case by side and result."""

    head_failures: int
    head: int
    base_failures: int
    base: int


@lru_cache(maxsize=4096)
def _weight(failures: int, runs: int) -> int:
    """The log of the odds ratio that a drop would make, in whole steps."""
    before = (failures + 0.3) / (runs + 0.6)
    after = min(before + _EXPECTED_DROP, 0.97)
    return max(1, round(_STEPS * (math.log(after / before) - math.log((1 - after) / (1 - before)))))


@lru_cache(maxsize=4096)
def _part(failures: int, head: int, base: int) -> tuple[int, tuple[float, ...]]:
    """The distribution of a case's share in the statistic."""
    low, chances = dealt(failures, head, base)
    weight = _weight(failures, head + base)
    spread = [0.0] * ((len(chances) - 1) * weight + 1)
    spread[::weight] = chances
    return low * weight, tuple(spread)


@lru_cache(maxsize=256)
def _tails(groups: tuple[tuple[tuple[int, int, int], int], ...]) -> tuple[int, Sequence[float]]:
    parts: Counter[tuple[int, tuple[float, ...]]] = Counter()
    for group, count in groups:
        parts[_part(*group)] += count
    return upper_tails(parts)


def suite_p(tables: Mapping[Table, int], rng: np.random.Generator, *, draws: int = 9_999) -> float:
    """One-sided p-value that the suite fails more often on the head.

    Args:
        tables: How many cases have these runs. Cases without runs on one of the sides say nothing.
        rng: Used only where the distribution is too large to compute.
        draws: The most random deals.

    Returns:
        Exact by convolution when the statistic has at most 4,096 values; otherwise drawn (`sequential_p`).
    """
    groups: Counter[tuple[int, int, int]] = Counter()
    seen = size = 0
    for table, count in tables.items():
        failures = table.head_failures + table.base_failures
        if 0 < failures < table.head + table.base and table.head and table.base:
            groups[failures, table.head, table.base] += count
            weight = _weight(failures, table.head + table.base)
            seen += count * weight * table.head_failures
            size += count * weight * min(failures, table.head)
    if size <= _MOST_SUMS:
        low, tails = _tails(tuple(sorted(groups.items())))
        return tails[seen - low]
    import numpy as np

    def exceed(count: int) -> NDArray[np.bool_]:
        total = np.zeros(count, dtype=np.int64)
        for (failures, head, base), cases in sorted(groups.items()):
            low, chances = dealt(failures, head, base)
            split = rng.multinomial(cases, np.array(chances) / math.fsum(chances), size=count)
            total += _weight(failures, head + base) * (split @ np.arange(low, low + len(chances)))
        return np.asarray(total >= seen)

    return sequential_p(exceed, draws=draws, width=20 * len(groups))


def suite_scores_p(
    cases: Sequence[tuple[Sequence[float], Sequence[float]]], rng: np.random.Generator, *, draws: int | None = None
) -> float:
    """One-sided p-value that the suite's scores are lower on the head: a permutation test stratified by case.

    The statistic is the sum over the cases of head minus pool, in units of the case's own standard deviation (of both
    sides together, plus 0.05).

    Args:
        cases: Values of head and base of each case, the tolerance already added to the head's.
        rng: Deals the values.
        draws: The most deals; None: 9,999, and 1,999 for more than 2,000 cases.

    Returns:
        Exact when there are at most 20,000 ways to deal; otherwise a Monte Carlo p-value that is never too small
        (`sequential_p`).
    """
    import numpy as np

    shapes: dict[tuple[int, int], list[list[float]]] = {}
    for head, base in cases:
        if head and base:
            # Sorted within and across cases: neither order may change what the same seed gives.
            shapes.setdefault((len(head), len(base)), []).append([*sorted(head), *sorted(base)])
    pools: list[tuple[int, NDArray[np.float64]]] = []
    seen = 0.0
    for (count, _), rows in sorted(shapes.items()):
        values = np.array(sorted(rows))
        values -= values.mean(axis=1, keepdims=True)
        values /= count * (values.std(axis=1, keepdims=True) + _LEAST_NOISE)
        seen += float(values[:, :count].sum())
        pools.append((count, values))
    if not pools:
        return 1.0
    bound = seen + 1e-9
    if math.prod(math.comb(values.shape[1], runs) ** len(values) for runs, values in pools) <= _MOST_DEALS:
        sums = np.zeros(1)
        for runs, values in pools:
            for pool in values:
                deals = [math.fsum(deal) for deal in combinations(pool.tolist(), runs)]
                sums = np.add.outer(sums, deals).ravel()
        return float((sums <= bound).mean())

    def exceed(count: int) -> NDArray[np.bool_]:
        total = np.zeros(count)
        for head, values in pools:
            rows = np.arange(len(values))
            if head == 1:
                total += values[rows, rng.integers(values.shape[1], size=(count, len(values)))].sum(axis=1)
            else:
                order = rng.random((count, *values.shape)).argpartition(head - 1, axis=2)[:, :, :head]
                total += values[rows[:, None], order].sum(axis=(1, 2))
        return np.asarray(total <= bound)

    number = sum(len(values) for _, values in pools)
    width = sum(values.size for _, values in pools)
    return sequential_p(exceed, draws=draws or (9_999 if number <= 2_000 else 1_999), width=width)
