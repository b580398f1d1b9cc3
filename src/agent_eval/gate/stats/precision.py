"""Precision of a run: confidence intervals of means, and the minimum detectable drop. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import NormalDist

_NORMAL = NormalDist()


def mean_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float] | None:
    """Student's t interval of a mean; None with fewer than two values."""
    count = len(values)
    if count < 2:
        return None
    mean = math.fsum(values) / count
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    reach = t_quantile((1 + confidence) / 2, count - 1) * math.sqrt(variance / count)
    return mean - reach, mean + reach


def t_quantile(probability: float, freedom: int) -> float:
    """A quantile of Student's t distribution.

    Closed forms for one and two degrees of freedom; from three on G. W. Hill's approximation (Algorithm 396, 1970),
    whose error is below 0.0001 for the usual probabilities.

    Args:
        probability: Above 0.5.
        freedom: Degrees of freedom, at least 1.
    """
    if freedom == 1:
        return math.tan(math.pi * (probability - 0.5))
    tail = 2 * (1 - probability)
    if freedom == 2:
        return math.sqrt(2 / (tail * (2 - tail)) - 2)
    a = 1 / (freedom - 0.5)
    b = 48 / (a * a)
    c = ((20700 * a / b - 98) * a - 16) * a + 96.36
    d = ((94.5 / (b + c) - 3) / b + 1) * math.sqrt(a * math.pi / 2) * freedom
    y = (d * tail) ** (2 / freedom)
    if y > 0.05 + a:
        x = _NORMAL.inv_cdf(tail / 2)
        y = x * x
        if freedom < 5:
            c += 0.3 * (freedom - 4.5) * (x + 0.6)
        c += (((0.05 * d * x - 5) * x - 7) * x - 2) * x + b
        y = (((((0.4 * y + 6.3) * y + 36) * y + 94.5) / c - y - 3) / b + 1) * x
        y = math.expm1(a * y * y)
    else:
        y = (
            (1 / (((freedom + 6) / (freedom * y) - 0.089 * d - 0.822) * (freedom + 2) * 3) + 0.5 / (freedom + 4)) * y
            - 1
        ) * (freedom + 1) / (freedom + 2) + 1 / y
    return math.sqrt(freedom * y)


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
