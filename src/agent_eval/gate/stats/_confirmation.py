"""The suspicious cases: did they get worse, judged by fresh runs alone? Pure.

Which cases are suspicious is said by their screening runs, which then count for nothing. How many confirmation runs a
suspicious case is to have is fixed beforehand. A run of the head that was not made, because the case looks innocent
meanwhile or because the verdict is clear, counts as passed, one of the base as failed: a p-value is never smaller than
what it would be with all runs made. So stopping at any time, for any reason, costs no error.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from agent_eval.gate.stats.exact_tests import dealt, exact_p, upper_tails

_ODDS = (6.0, 20.0, 100.0)
"""By how much the odds of failing may have grown in a case that got worse: from 1% to 6%, to 17%, to 50%."""
_STEPS = 20
"""Log likelihood ratios are rounded to 1/20; the distribution of their sum stays exact."""
_DROPS = (0.3, 0.6)
"""Drops of the pass rate for which it is worth to go on."""


class Trial(NamedTuple):
    """The runs that count of one suspicious case. Unlike `Table` it knows of runs that are planned and not made."""

    failures: int
    made: int
    planned: int
    base_failures: int
    base_made: int
    base_planned: int

    @property
    def worst(self) -> int:
        """Failures of the base if all runs that were not made fail."""
        return self.base_failures + self.base_planned - self.base_made

    @property
    def p_value(self) -> float:
        """Exact and one-sided, valid whenever it is looked at."""
        return exact_p(self.failures, self.planned, self.worst, self.base_planned)

    @property
    def best_p_value(self) -> float:
        """The smallest p-value that is possible if all further runs speak against the head."""
        failures = self.failures + self.planned - self.made
        return exact_p(failures, self.planned, self.base_failures, self.base_planned)


@lru_cache(maxsize=65536)
def _ratios(failures: int, head: int, base: int, share: float) -> tuple[int, tuple[int, ...], tuple[float, ...]]:
    """For each way to deal: the log of the likelihood ratio "worse" to "unchanged", in steps, and its probability."""
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
    """By how much a dealt log ratio exceeds the one that was seen: its distribution, the worst over all missing runs.

    With more failures of the head both the ratio and its distribution move. For each way in which the missing runs
    could end there is a distribution of the difference; this is the smallest one that all of them stay below.
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
    """One-sided exact p-value that some of the suspicious cases got worse.

    The statistic is the log of the likelihood ratio of "each got worse with a probability of a half, or of 2/m when
    there are m > 4" to "none did", where worse means that the odds of failing are 6, 20 or 100 times what they were,
    given how many of the case's runs failed altogether (Fisher's noncentral hypergeometric distribution). So one case
    that is broken counts fully, and several that are somewhat worse add up. Its distribution when nothing changed is
    computed by convolution.

    Returns:
        0 to 1. Valid at any time: it is at least what it will be when all planned runs are made, however they end.
    """
    found = tuple(sorted(trials))
    return _pooled(found) if found else 1.0


@lru_cache(maxsize=65536)
def promise(screen_failures: int, failures: int, made: int, base_failures: int, base_made: int) -> float:
    """How much likelier the head's runs are if the case got worse than if it didn't; below 1 it gets no more runs.

    Only for choosing what to run: screening runs count here, and the base's rate is taken as known, both of which the
    test must not do.
    """
    rate = (base_failures + 0.3) / (base_made + 0.6)
    ratio = 0.0
    for drop in _DROPS:
        worse = min(rate + drop, 0.98)
        passed = ((1 - worse) / (1 - rate)) ** (made - failures)
        ratio += (worse / rate) ** (failures + screen_failures) * passed / len(_DROPS)
    return ratio
