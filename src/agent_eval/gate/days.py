"""Whether the base's records differ from each other by more than chance, and how far today is from all of them. Pure.

Dealing runs anew takes for granted that a run of today is like one of last week. On a bad day of the provider all cases
fail a little more often at once, and then it isn't. What the records of the base do among themselves shows how large
such shifts are: where they differ by more than chance, today is held against their spread as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

from agent_eval.gate.evidence import Series
from agent_eval.gate.precision import t_quantile

RARE = 0.01
"""The records differ if chance alone would make them do so no more often than this."""
_LEAST_RECORDS = 4
_NORMAL = NormalDist()


def shift_p(cases: Sequence[tuple[Sequence[float], Series]]) -> float | None:
    """One-sided p-value that today lies lower than the records' own spread explains.

    Each case is measured from its mean on the base. A record's shift is the mean of that over its cases. Whether the
    shifts are larger than the cases' own variances make them is tested by chi-squared (Wilson and Hilferty's
    approximation, 1931). If so, today's shift is one more draw from a normal distribution with the variance of the
    records' shifts, which gives a t test with one degree of freedom less than there are records.

    Args:
        cases: The head's runs of today, and the series with the base's stored runs and their records.

    Returns:
        None where the records don't differ noticeably, are fewer than four, or aren't known.
    """
    shifts: dict[str, list[float]] = {}
    noise: dict[str, list[float]] = {}
    today = []
    for head, series in cases:
        base, days = series.base, series.base_days
        if days is None or len(base) < _LEAST_RECORDS or not head:
            continue
        mean = math.fsum(base) / len(base)
        variance = math.fsum((value - mean) ** 2 for value in base) / (len(base) - 1)
        today.append(math.fsum(head) / len(head) - mean)
        for value, day in zip(base, days, strict=True):
            shifts.setdefault(day, []).append(value - mean)
            noise.setdefault(day, []).append(variance)
    most = max(map(len, shifts.values()), default=0)
    known = [day for day in shifts if 2 * len(shifts[day]) >= most]
    freedom = len(known) - 1
    if len(known) < _LEAST_RECORDS:
        return None
    means = {day: math.fsum(shifts[day]) / len(shifts[day]) for day in known}
    expected = {day: math.fsum(noise[day]) / len(noise[day]) ** 2 for day in known}
    if not all(expected.values()):
        return None
    squares = math.fsum(means[day] ** 2 / expected[day] for day in known)
    if _chi_squared_tail(squares, freedom) > RARE:
        return None
    spread = math.sqrt(math.fsum(value * value for value in means.values()) / freedom)
    distance = -math.fsum(today) / len(today) / (spread * math.sqrt(1 + 1 / len(known)))
    return _t_tail(distance, freedom)


def _chi_squared_tail(value: float, freedom: int) -> float:
    part = 2 / (9 * freedom)
    return 1 - _NORMAL.cdf(((value / freedom) ** (1 / 3) - (1 - part)) / math.sqrt(part))


def _t_tail(value: float, freedom: int) -> float:
    """P(t > value), by bisection of its quantile; 0.5 for what is not above 0."""
    if value <= 0:
        return 0.5
    low, high = 1e-9, 0.5 - 1e-9
    for _ in range(50):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if t_quantile(1 - middle, freedom) > value else (low, middle)
    return high
