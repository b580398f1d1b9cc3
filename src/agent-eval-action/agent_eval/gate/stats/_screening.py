"""The tests of the suite: all cases of one metric together. Pure.

Every case is a stratum: runs are permuted between head and base within a case, never across cases. The statistic is the
weighted sum of the head's failures. A failure has more weight in a case that never failed on the base than in one that
fails half of its runs. The weights depend only on what permutations preserve (how many runs of the case failed on both
sides together), so the test is exact.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from agent_eval_results.data.exact_tests import dealt, permutation_p, sequential_p, upper_tails

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_EXPECTED_DROP = 0.1
"""The weights are optimal if the failure rate of every case increases by this much."""
_STEPS = 8
"""Weights are rounded to multiples of 1/8, so that the statistic is an integer; its distribution stays exact."""
_MOST_SUMS = 4_096
"""With more values of the statistic than this, its distribution is sampled, not computed."""
_MOST_DEALS = 20_000
"""With more permutations of scores than this, they are sampled."""
_LEAST_NOISE = 0.05
"""Added to the standard deviation of a case's scores, so that the weight of a constant score stays finite."""


class Table(NamedTuple):
    """Runs of one case by side and result."""

    head_failures: int
    head: int
    base_failures: int
    base: int


@lru_cache(maxsize=4096)
def _weight(failures: int, runs: int) -> int:
    """The log odds ratio of the expected drop, in steps."""
    before = (failures + 0.3) / (runs + 0.6)
    after = min(before + _EXPECTED_DROP, 0.97)
    return max(1, round(_STEPS * (math.log(after / before) - math.log((1 - after) / (1 - before)))))


@lru_cache(maxsize=4096)
def _part(failures: int, head: int, base: int) -> tuple[int, tuple[float, ...]]:
    """The distribution of a case's contribution to the statistic."""
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
        tables: Number of cases by their runs. Cases without runs on one side are ignored.
        rng: Used only if the distribution is too large to compute.
        draws: The maximum number of random permutations.

    Returns:
        Exact by convolution if the statistic has at most 4,096 values; otherwise sampled (`sequential_p`).
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

    The statistic is the sum over the cases of the head's mean minus the pooled mean, in units of the case's standard
    deviation (both sides together, plus 0.05).

    Args:
        cases: Values of head and base of each case, with the tolerance already added to the head's values.
        rng: Samples the permutations.
        draws: The maximum number of permutations; None: 9,999, or 1,999 for more than 2,000 cases.

    Returns:
        Exact if there are at most 20,000 permutations; otherwise a conservative Monte Carlo p-value (`sequential_p`).
    """
    import numpy as np

    shapes: dict[tuple[int, int], list[list[float]]] = {}
    for head, base in cases:
        if head and base:
            # Sorted within and across cases: the result for a seed must not depend on the order.
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


class Columns(NamedTuple):
    """Values of one case, aligned with those of the other cases."""

    head: tuple[float, ...]
    """A value a column."""
    base: tuple[float, ...]
    """Stored runs."""
    records: tuple[str, ...]
    """The record of each stored run; empty if unknown."""


_LEAST_COLUMNS = 4
"""With fewer stored columns, the test of whole columns could show nothing."""


def run_level_p(cases: Sequence[Columns], rng: np.random.Generator, *, binary: bool) -> float:
    """One-sided p-value that the head's columns are worse than the stored ones, each taken as a whole.

    A column is one run of every case, and is reduced to one number: its weighted failures, with the weights of the
    suite's test, or its standardized scores. These numbers are permuted between the sides (`permutation_p`). The test
    is exact whatever makes the cases of one run fail together, and weak, since a few columns are all that it has.

    Args:
        cases: The values. Stored columns that most cases lack are left out, and then the cases that lack one.
        rng: Used only if there are too many columns to enumerate.
        binary: Whether the values are zeros and ones.

    Returns:
        0 to 1; 0.0 if that leaves fewer than four stored columns or half of the cases.
    """
    rows = [(case.head, _by_column(case)) for case in cases if case.head and case.base]
    width = min((len(head) for head, _ in rows), default=0)
    counts = Counter(name for _, base in rows for name in base)
    names = sorted(name for name, count in counts.items() if 2 * count > len(rows))
    whole = [(head, base) for head, base in rows if all(name in base for name in names)]
    if len(names) < _LEAST_COLUMNS or 2 * len(whole) < len(rows) or not width:
        return 0.0
    head_sums, base_sums = [0.0] * width, [0.0] * len(names)
    for head, base in whole:
        stored = [base[name] for name in names]
        factor = _factor((*head[:width], *stored), binary=binary)
        head_sums = [total + factor * value for total, value in zip(head_sums, head, strict=False)]
        base_sums = [total + factor * value for total, value in zip(base_sums, stored, strict=True)]
    return permutation_p(head_sums, base_sums, rng)


def _by_column(case: Columns) -> dict[tuple[str, int], float]:
    """The stored values by record and number within it."""
    seen: Counter[str] = Counter()
    values = {}
    for record, value in zip(case.records, case.base, strict=False):
        values[record, seen[record]] = value
        seen[record] += 1
    return values


def _factor(values: Sequence[float], *, binary: bool) -> float:
    """What a case's values are multiplied with before columns are added up."""
    if binary:
        failures = sum(not value for value in values)
        return _weight(failures, len(values)) if 0 < failures < len(values) else 0.0
    mean = math.fsum(values) / len(values)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
    return 1 / (spread + _LEAST_NOISE)
