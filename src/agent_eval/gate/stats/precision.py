"""Precision of a run: the minimum detectable drop. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import NormalDist

_NORMAL = NormalDist()


def detectable_drop(cases: Sequence[tuple[float, int, int]], alpha: float, power: float = 0.8) -> float | None:
    """The smallest equal drop of all cases that a test of their mean detects with the given power.

    A normal approximation: the d with d - z(alpha) * s(0) = z(power) * s(d), where s(d) is the standard error of the
    difference of the means if every case's pass rate is lower by d (binomial variances; for scores, with a variance
    independent of the mean, use `detectable_shift`).

    Args:
        cases: Failure rate, head runs and base runs of each case.
        alpha: One-sided error rate, 0 to 0.5.
        power: 0.5 to 1.

    Returns:
        0 to 1; None if not even a drop to 0 is detectable.
    """
    if not cases:
        return None
    groups = Counter(cases)

    def spread(drop: float) -> float:
        variances = []
        for (rate, head, base), count in groups.items():
            now = min(1.0, rate + drop)
            variances.append(count * (now * (1 - now) / head + rate * (1 - rate) / base))
        return math.sqrt(math.fsum(variances)) / len(cases)

    def reached(drop: float) -> float:
        return math.fsum(count * min(drop, 1 - rate) for (rate, _, _), count in groups.items()) / len(cases)

    bar = _NORMAL.inv_cdf(1 - alpha) * spread(0.0)
    z = _NORMAL.inv_cdf(power)
    low, high = 0.0, 1.0
    if reached(high) < bar + z * spread(high):
        return None
    for _ in range(40):
        middle = (low + high) / 2
        if reached(middle) >= bar + z * spread(middle):
            high = middle
        else:
            low = middle
    return high


def detectable_shift(error: float, alpha: float, power: float = 0.8) -> float:
    """The smallest shift of a mean with this standard error that a one-sided test at alpha detects with this power."""
    return (_NORMAL.inv_cdf(1 - alpha) + _NORMAL.inv_cdf(power)) * error
