"""Exact tests and intervals for small samples of runs, and the drop that they can detect. Pure.

The tests assume *exchangeability*: if nothing changed, the runs of one case on head and base have the same
distribution, so every assignment of them to the two sides is equally likely. The case's rate or score, and its relation
to other cases, does not matter. A day on which every run is worse violates this assumption.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from math import fsum
from statistics import NormalDist
from typing import TYPE_CHECKING

from agent_eval_results import CaseReport, PassRates

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_NORMAL = NormalDist()
_FEW = 8
"""Up to this many equal summands are convolved one by one, more by repeated squaring."""
_SAME = 1e-12
"""Sums that differ by at most this rounding error count as equal, which is conservative."""


@lru_cache(maxsize=16384)
def dealt(failures: int, head: int, base: int) -> tuple[int, tuple[float, ...]]:
    """The number of a case's failures on the head under random assignment: the hypergeometric distribution.

    Args:
        failures: Failed runs on both sides together.
        head: Runs of the head.
        base: Runs of the base.

    Returns:
        The smallest possible number, and the probabilities of it and the following numbers.
    """
    low = max(0, failures - base)
    ways = math.comb(head + base, failures)
    return low, tuple(
        math.comb(head, k) * math.comb(base, failures - k) / ways for k in range(low, min(failures, head) + 1)
    )


@lru_cache(maxsize=65536)
def exact_p(head_failures: int, head: int, base_failures: int, base: int) -> float:
    """One-sided exact p-value that the head fails more often: Fisher's exact test of one case.

    R. A. Fisher, The logic of inductive inference (1935). `scipy.stats.fisher_exact(..., alternative="greater")` and
    `scipy.stats.hypergeom.sf` give the same.

    Returns:
        The probability of at least this many failures on the head if nothing changed, 0 to 1; 1.0 if one side has no
        runs.
    """
    low, chances = dealt(head_failures + base_failures, head, base)
    return min(1.0, math.fsum(chances[head_failures - low :]))


def permutation_p(
    head: Sequence[float], base: Sequence[float], rng: np.random.Generator, *, exact: int = 20_000, draws: int = 9_999
) -> float:
    """One-sided permutation p-value that the head's mean is lower than the base's.

    All permutations are enumerated if there are at most `exact`. Otherwise at most `draws` random ones give a
    conservative estimate: with e exceedances among n draws it is (e+1)/(n+1)
    (B. Phipson, G. Smyth, Permutation p-values should never be zero, 2010), and the draws end at 20 exceedances with
    p = 20/n (J. Besag, P. Clifford, Sequential Monte Carlo p-values, 1991). Both are valid: P(p <= a) <= a.
    `scipy.stats.permutation_test` with the difference of means gives the same p-value if all are enumerated.
    """
    if not head or not base:
        return 1.0
    pool = sorted((*head, *base))
    bound = math.fsum(head) + _SAME
    # The permutation chooses the head's runs; the remaining ones are the base's.
    if math.comb(len(pool), len(head)) <= exact:
        sums = [math.fsum(chosen) for chosen in combinations(pool, len(head))]
        return sum(value <= bound for value in sums) / len(sums)
    import numpy as np

    values = np.array(pool)

    def exceed(count: int) -> NDArray[np.bool_]:
        order = rng.random((count, len(pool))).argsort(axis=1)[:, : len(head)]
        return np.asarray(values[order].sum(axis=1) <= bound)

    return sequential_p(exceed, draws=draws, width=len(pool))


def sequential_p(exceed: _Exceed, *, draws: int, width: int, enough: int = 20) -> float:
    """A Monte Carlo p-value that stops early if it is large (Besag and Clifford 1991).

    Args:
        exceed: Makes the given number of draws under the null hypothesis and returns which of them are at least as
            extreme as the observation.
        draws: The maximum number of draws; with fewer than `enough` exceedances p = (exceedances + 1) / (draws + 1).
        width: Numbers per draw; bounds the memory.
        enough: Exceedances at which to stop with p = enough / draws made.
    """
    drawn = exceeded = 0
    # Most p-values are large, which the first block shows; only small ones need all draws, in few calls of numpy.
    block = 64
    most = max(1, 2_000_000 // max(1, width))
    while drawn < draws:
        count = min(block, most, draws - drawn)
        hits = exceed(count)
        exceedances = int(hits.sum())
        if exceeded + exceedances >= enough:
            # The draws end with this one, as if they were made one by one: counted to the end of the block, p is
            # biased.
            position = [index for index, hit in enumerate(hits) if hit][enough - exceeded - 1]
            return enough / (drawn + position + 1)
        exceeded, drawn, block = exceeded + exceedances, drawn + count, block * 4
    return (exceeded + 1) / (drawn + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusts p-values for multiple testing (S. Holm, A simple sequentially rejective procedure, 1979).

    Returns:
        The adjusted p-values in the same order. If those of at most alpha count as significant, the family-wise error
        rate is at most alpha under any dependence.
    """
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(order):
        # Never less than a smaller one's: a test must not be rejected before the one with more evidence.
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted


def wilson(successes: int, runs: int, confidence: float = 0.95) -> tuple[float, float]:
    """A confidence interval for a rate, also near 0 and 1 (E. B. Wilson, Probable inference, 1927).

    Returns:
        Low and high, 0 to 1; (0, 1) without runs.
    """
    if not runs:
        return 0.0, 1.0
    z = _NORMAL.inv_cdf((1 + confidence) / 2)
    rate = successes / runs
    scale = 1 + z * z / runs
    centre = (rate + z * z / (2 * runs)) / scale
    half = z / scale * math.sqrt(rate * (1 - rate) / runs + z * z / (4 * runs * runs))
    return max(0.0, centre - half), min(1.0, centre + half)


def pass_at_k(passed: int, runs: int, k: int) -> float:
    """Unbiased estimate of the probability that at least one of k runs passes: 1 - C(n-c, k) / C(n, k).

    M. Chen et al., Evaluating large language models trained on code (2021), section 2.1.

    Raises:
        ValueError: k is not within 1..runs.
    """
    _check_k(k, runs)
    return 1 - math.comb(runs - passed, k) / math.comb(runs, k)


def pass_hat_k(passed: int, runs: int, k: int) -> float:
    """Unbiased estimate of the probability that all of k runs pass (pass^k): C(c, k) / C(n, k).

    S. Yao et al., tau-bench: a benchmark for tool-agent-user interaction (2024), section 4.

    Raises:
        ValueError: k is not within 1..runs.
    """
    _check_k(k, runs)
    return math.comb(passed, k) / math.comb(runs, k)


def _check_k(k: int, runs: int) -> None:
    if not 1 <= k <= runs:
        raise ValueError(f"k must be within 1 and the {runs} runs, not {k}")


def upper_tails(parts: Mapping[tuple[int, tuple[float, ...]], int]) -> tuple[int, Sequence[float]]:
    """The exact distribution of a sum of independent integers, by convolution.

    Args:
        parts: How often each summand occurs. A summand is its smallest value and the probabilities of this and the
            following values.

    Returns:
        The sum's smallest value, and P(sum >= value) for this and the following values.
    """
    import numpy as np

    low = 0
    sums = np.ones(1)
    for (start, chances), count in sorted(parts.items()):
        low += start * count
        part = np.array(chances)
        if count > _FEW:
            part, count = _power(part, count), 1
        for _ in range(count):
            sums = _convolved(sums, part)
    # Rounding errors of the convolutions can make a probability a little larger than 1.
    return low, np.minimum(1.0, np.cumsum(sums[::-1])[::-1]).tolist()


def _power(chances: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    result = None
    while count:
        if count & 1:
            result = chances if result is None else _convolved(result, chances)
        count >>= 1
        if count:
            chances = _convolved(chances, chances)
    assert result is not None
    return result


def _convolved(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    (places,) = second.nonzero()
    if 8 * len(places) > len(second):
        return np.convolve(first, second)
    # For a few distant values, adding one by one is faster and equally exact.
    result = np.zeros(len(first) + len(second) - 1)
    for place in places.tolist():
        result[place : place + len(first)] += second[place] * first
    return result


if TYPE_CHECKING:
    from typing import Protocol

    class _Exceed(Protocol):
        def __call__(self, count: int, /) -> NDArray[np.bool_]: ...


def pass_rates(cases: Sequence[CaseReport], num_runs: int) -> list[PassRates]:
    """pass@k and pass^k for k from 1 to `num_runs`, averaged over the cases.

    Runs without a result, quarantined and replayed cases don't count. Empty for `num_runs` 1, where both equal the
    pass rate.
    """
    if num_runs < 2:
        return []
    counts = []
    for case in cases:
        if not case.is_quarantined and not case.replayed:
            # Runs with higher numbers are extra ones. Only cases with a bad result get some, so they would lower the
            # rates.
            statuses = [run.status for run in case.runs if run.run < num_runs]
            counts.append((statuses.count("passed"), statuses.count("passed") + statuses.count("failed")))
    rates = []
    for k in range(1, num_runs + 1):
        with_k_runs = [(passed, runs) for passed, runs in counts if runs >= k]
        if with_k_runs:
            rates.append(
                PassRates(
                    k=k,
                    cases=len(with_k_runs),
                    any=fsum(pass_at_k(passed, runs, k) for passed, runs in with_k_runs) / len(with_k_runs),
                    all=fsum(pass_hat_k(passed, runs, k) for passed, runs in with_k_runs) / len(with_k_runs),
                )
            )
    return rates


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

    bar = -_NORMAL.inv_cdf(alpha) * spread(0.0)
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
    return (_NORMAL.inv_cdf(power) - _NORMAL.inv_cdf(alpha)) * error
