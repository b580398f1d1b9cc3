"""The tests and intervals beside brute force and beside scipy."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_eval.gate.stats.exact_tests import (
    dealt,
    exact_p,
    holm,
    pass_at_k,
    pass_hat_k,
    permutation_p,
    sequential_p,
    upper_tails,
    wilson,
)
from agent_eval.gate.stats.precision import detectable_drop, detectable_shift


def scipy_stats() -> Any:
    """Only the worker that needs it waits for its import."""
    import scipy.stats

    return scipy.stats


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


@given(st.integers(1, 40), st.integers(1, 40), st.data())
@settings(max_examples=60, deadline=None)
def test_statistics__the_exact_test_is_fishers(head: int, base: int, data: st.DataObject) -> None:
    k, b = data.draw(st.integers(0, head)), data.draw(st.integers(0, base))
    fisher = scipy_stats().fisher_exact(np.array([[k, head - k], [b, base - b]]), alternative="greater")
    assert exact_p(k, head, b, base) == pytest.approx(fisher.pvalue, rel=1e-9)
    if head * base <= 30:
        scores = [0.0] * k + [1.0] * (head - k), [0.0] * b + [1.0] * (base - b)
        assert permutation_p(*scores, rng()) == pytest.approx(fisher.pvalue), "of zeros and ones"


def test_statistics__a_side_without_runs_says_nothing() -> None:
    assert exact_p(5, 5, 0, 0) == 1.0
    assert exact_p(0, 0, 3, 5) == 1.0
    assert permutation_p([], [1.0], rng()) == 1.0


@given(st.integers(0, 12), st.integers(1, 6), st.integers(1, 6))
def test_statistics__deals_are_a_distribution(failures: int, head: int, base: int) -> None:
    failures = min(failures, head + base)
    low, chances = dealt(failures, head, base)
    assert math.fsum(chances) == pytest.approx(1)
    mean = math.fsum((low + index) * chance for index, chance in enumerate(chances))
    assert mean == pytest.approx(failures * head / (head + base))


# Multiples of 1/16: their sums are the same in every order, so that scipy sees the ties that there are.
scores = st.lists(st.sampled_from([0.0, 0.125, 0.25, 0.4375, 0.5, 0.875, 1.0]), min_size=1, max_size=4)


@given(scores, scores)
@settings(max_examples=30, deadline=None)
def test_statistics__permutations_of_scores_are_scipys(head: list[float], base: list[float]) -> None:
    def lower(head: list[float], base: list[float]) -> float:
        return math.fsum(head) / len(head) - math.fsum(base) / len(base)

    ours = permutation_p(head, base, rng())
    if len(head) > 1 and len(base) > 1:
        theirs = scipy_stats().permutation_test(
            (head, base), lower, vectorized=False, alternative="less", n_resamples=999
        )
        assert ours == pytest.approx(theirs.pvalue)
    assert ours == permutation_p(head[::-1], base[::-1], rng(7))


@pytest.mark.parametrize("seed", range(5))
def test_statistics__drawn_permutations_are_near_the_counted_ones(seed: int) -> None:
    values = random.Random(seed)
    head = [values.gauss(0.55, 0.2) for _ in range(6)]
    base = [values.gauss(0.7, 0.2) for _ in range(8)]
    exact = permutation_p(head, base, rng())
    drawn = permutation_p(head, base, rng(seed), exact=0)
    # 9,999 draws, or 20 exceedances if they come sooner: a relative error of 1/sqrt(20) is one sigma.
    assert drawn == pytest.approx(exact, rel=0.9, abs=0.001)
    assert drawn == permutation_p(head, base, rng(seed), exact=0)
    assert permutation_p([0.0] * 10, [1.0] * 10, rng(), exact=0, draws=99) == 1 / 100, "it is never zero"


def test_statistics__drawn_p_values_keep_their_error_rate() -> None:
    """P(p <= a) <= a, for the early end as for the late one."""
    values = rng(3)
    p_values = []
    for _ in range(600):
        level = values.random()
        p_values.append(sequential_p(lambda count, level=level: values.random(count) <= level, draws=399, width=1))
    for alpha in (0.01, 0.05, 0.2, 0.5):
        share = np.mean(np.array(p_values) <= alpha)
        assert share <= alpha + 3 * math.sqrt(alpha * (1 - alpha) / len(p_values))


def test_statistics__the_early_end_counts_draws_until_the_twentieth_hit() -> None:
    hits = iter([True, False] * 200)

    def exceed(count: int) -> np.ndarray:
        return np.array([next(hits) for _ in range(count)])

    assert sequential_p(exceed, draws=999, width=1) == 20 / 39


p_values = st.lists(st.floats(0, 1), min_size=1, max_size=8)


@given(p_values)
def test_statistics__holm_is_closed_testing_with_bonferroni(values: list[float]) -> None:
    """An adjusted value is the largest of Bonferroni's over all subsets that contain it."""
    assert holm([]) == []
    adjusted = holm(values)
    for index in range(len(values)):
        others = [position for position in range(len(values)) if position != index]
        worst = max(
            min(1.0, (size + 1) * min(values[item] for item in (*subset, index)))
            for size in range(len(values))
            for subset in combinations(others, size)
        )
        assert adjusted[index] == pytest.approx(worst)


@given(st.integers(0, 50), st.integers(1, 50))
def test_statistics__wilson_is_scipys(successes: int, runs: int) -> None:
    successes = min(successes, runs)
    theirs = scipy_stats().binomtest(successes, runs).proportion_ci(0.95, "wilson")
    assert wilson(successes, runs) == pytest.approx((theirs.low, theirs.high), abs=1e-12)
    assert wilson(0, 0) == (0.0, 1.0)


@given(st.integers(1, 9), st.data())
def test_statistics__pass_at_k_counts_samples(runs: int, data: st.DataObject) -> None:
    passed, k = data.draw(st.integers(0, runs)), data.draw(st.integers(1, runs))
    results = [True] * passed + [False] * (runs - passed)
    samples = list(combinations(results, k))
    assert pass_at_k(passed, runs, k) == pytest.approx(sum(map(any, samples)) / len(samples))
    assert pass_hat_k(passed, runs, k) == pytest.approx(sum(map(all, samples)) / len(samples))


@pytest.mark.parametrize("k", [0, 4])
@pytest.mark.parametrize("rate", [pass_at_k, pass_hat_k])
def test_statistics__k_has_a_range(k: int, rate: Callable[[int, int, int], float]) -> None:
    with pytest.raises(ValueError, match="within 1 and the 3 runs"):
        rate(1, 3, k)


def test_statistics__sums_are_counted() -> None:
    die = (1, (1 / 6,) * 6)
    low, tails = upper_tails({die: 3})
    rolls = [sum(roll) for roll in product(range(1, 7), repeat=3)]
    assert low == 3
    for value in range(3, 19):
        assert tails[value - low] == pytest.approx(sum(roll >= value for roll in rolls) / 216)


def test_statistics__long_sums_are_close_and_on_the_safe_side() -> None:
    """A binomial distribution of 12,000 summands, and what three values far apart give."""
    low, tails = upper_tails({(0, (0.7, 0.3)): 12_000})
    for value in (3400, 3600, 3700, 3900):
        exact = scipy_stats().binom.sf(value - 1, 12_000, 0.3)
        assert exact - 1e-12 <= tails[value - low] <= exact + 2e-10
    far = (0, (0.5, *[0.0] * 40, 0.5))
    low, tails = upper_tails({far: 5})
    assert tails[41 * 3] == pytest.approx(scipy_stats().binom.sf(2, 5, 0.5))


def test_statistics__the_detectable_drop_is_seen_four_times_out_of_five() -> None:
    cases = [(0.05, 1, 10)] * 200
    drop = detectable_drop(cases, 0.05)
    assert drop is not None
    values = rng(5)
    bar = scipy_stats().norm.ppf(0.95) * math.sqrt(200 * 0.05 * 0.95 * 1.1) / 200
    head = values.binomial(200, 0.05 + drop, 4000) / 200
    base = values.binomial(2000, 0.05, 4000) / 2000
    assert np.mean(head - base > bar) == pytest.approx(0.8, abs=0.04)


def test_statistics__more_runs_see_smaller_drops() -> None:
    drops = [detectable_drop([(0.1, runs, 10)] * 30, 0.025) or 0.0 for runs in (5, 2, 1)]
    assert 0 < drops[0] < drops[1] < drops[2]
    assert detectable_drop([], 0.05) is detectable_drop([(0.9, 1, 1)], 0.05) is None
    assert detectable_shift(0.1, 0.05) == pytest.approx(0.1 * (1.6449 + 0.8416), abs=1e-4)
