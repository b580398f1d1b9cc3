"""The test of the suspected regressions, based on confirmation runs alone. Pure.

The screening runs select the suspected regressions and then don't count. The number of confirmation runs of a case is
fixed in advance. A planned run that was not made (the case looks unchanged by now, or the verdict is clear) counts as
passed on the head and as failed on the base. The p-value is therefore never smaller than with all runs made, and
stopping at any time, for any reason, does not increase the error rate.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from agent_eval.gate.stats.exact_tests import dealt, exact_p, upper_tails

_ODDS = (6.0, 20.0, 100.0)
"""Odds ratios of failing for a case that got worse: from 1% to 6%, to 17%, to 50%."""
_STEPS = 20
"""Log likelihood ratios are rounded to 1/20; the distribution of their sum stays exact."""
_DROPS = (0.3, 0.6)
"""Drops of the pass rate that justify more runs."""


class Trial(NamedTuple):
    """The confirmation runs of one case, made and planned."""

    failures: int
    made: int
    planned: int
    base_failures: int
    base_made: int
    base_planned: int

    @property
    def worst(self) -> int:
        """Failures of the base if all missing runs fail."""
        return self.base_failures + self.base_planned - self.base_made

    @property
    def p_value(self) -> float:
        """One-sided exact p-value, valid at any time."""
        return exact_p(self.failures, self.planned, self.worst, self.base_planned)

    @property
    def best_p_value(self) -> float:
        """The smallest p-value that the missing runs can lead to."""
        failures = self.failures + self.planned - self.made
        return exact_p(failures, self.planned, self.base_failures, self.base_planned)


@lru_cache(maxsize=65536)
def _ratios(failures: int, head: int, base: int, share: float) -> tuple[int, tuple[int, ...], tuple[float, ...]]:
    """For each possible number of head failures: its log likelihood ratio ("worse" to "unchanged") and probability."""
    low, chances = dealt(failures, head, base)
    ratios = [0.0] * len(chances)
    for odds in _ODDS:
        powers = [odds**index for index in range(len(chances))]
        scale = math.fsum(power * chance for power, chance in zip(powers, chances, strict=True))
        for index, power in enumerate(powers):
            ratios[index] += power / scale / len(_ODDS)
    return low, tuple(round(_STEPS * math.log(1 - share + share * ratio)) for ratio in ratios), chances


@lru_cache(maxsize=65536)
def _excess(trial: Trial, share: float) -> tuple[int, tuple[float, ...]]:
    """The distribution of the permuted minus the observed log ratio, in the worst case of all missing runs.

    More failures of the head change both the ratio and its distribution. Each possible result of the missing runs gives
    one distribution of the difference; this function returns their smallest common upper bound.
    """
    tails: dict[int, float] = {}
    steps = []
    for more in range(trial.planned - trial.made + 1):
        for fewer in range(trial.base_planned - trial.base_made + 1):
            seen = trial.failures + more
            low, logs, chances = _ratios(seen + trial.worst - fewer, trial.planned, trial.base_planned, share)
            steps.append([(log - logs[seen - low], chance) for log, chance in zip(logs, chances, strict=True)])
    values = sorted({value for step in steps for value, _ in step}, reverse=True)
    for step in steps:
        above, index = 0.0, len(step) - 1
        for value in values:  # the ratio grows with the failures on the head, so a step is sorted
            while index >= 0 and step[index][0] >= value:
                above += step[index][1]
                index -= 1
            tails[value] = max(tails.get(value, 0.0), above)
    lowest = values[-1]
    spread = [0.0] * (values[0] - lowest + 1)
    before = 0.0
    for value in values:
        spread[value - lowest] = tails[value] - before
        before = tails[value]
    return lowest, tuple(spread)


@lru_cache(maxsize=4096)
def _pooled(trials: tuple[Trial, ...]) -> float:
    share = min(0.5, 2 / len(trials))
    start, tails = upper_tails(Counter(_excess(trial, share) for trial in trials))
    if start > 0:
        return 1.0
    return tails[-start] if -start < len(tails) else 0.0


def pooled_p(trials: Iterable[Trial]) -> float:
    """One-sided exact p-value that some of the suspected regressions got worse.

    The statistic is the log likelihood ratio of "each case got worse with probability 1/2, or 2/m for m > 4 cases" to
    "no case got worse". Worse means that the odds of failing grew by a factor of 6, 20 or 100, given the total number
    of failed runs of the case (Fisher's noncentral hypergeometric distribution). One broken case thus counts fully, and
    several slightly worse cases add up. The null distribution is computed by convolution.

    Returns:
        0 to 1. Valid at any time: at least the p-value with all planned runs made, whatever their results.
    """
    ordered = tuple(sorted(trials))
    return _pooled(ordered) if ordered else 1.0


@lru_cache(maxsize=65536)
def likelihood_ratio(screen_failures: int, failures: int, made: int, base_failures: int, base_made: int) -> float:
    """The likelihood ratio of "the case got worse" to "it did not"; below 1 the case gets no more runs.

    Only for selecting runs: it includes screening runs and takes the base's rate as exact, which would invalidate a
    test.
    """
    rate = (base_failures + 0.3) / (base_made + 0.6)
    ratio = 0.0
    for drop in _DROPS:
        worse = min(rate + drop, 0.98)
        passed = ((1 - worse) / (1 - rate)) ** (made - failures)
        ratio += (worse / rate) ** (failures + screen_failures) * passed / len(_DROPS)
    return ratio
