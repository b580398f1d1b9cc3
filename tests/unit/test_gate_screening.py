"""The suite's tests: exact where they say so, unmoved by order."""

from __future__ import annotations

import math
import random
import statistics
from collections import Counter
from collections.abc import Sequence
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_eval.gate.stats import _screening as screening
from agent_eval.gate.stats._screening import Table, suite_p, suite_scores_p


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


tables = st.lists(
    st.tuples(st.integers(1, 2), st.integers(1, 3)).flatmap(
        lambda runs: st.builds(
            Table, st.integers(0, runs[0]), st.just(runs[0]), st.integers(0, runs[1]), st.just(runs[1])
        )
    ),
    min_size=1,
    max_size=4,
)


@given(tables)
@settings(max_examples=60, deadline=None)
def test_screening__the_suite_counts_all_deals_of_all_cases(tables: list[Table]) -> None:
    weights = [
        screening._weight(table.head_failures + table.base_failures, table.head + table.base) for table in tables
    ]
    seen = sum(weight * table.head_failures for weight, table in zip(weights, tables, strict=True))
    deals = []
    for table in tables:
        failures = table.head_failures + table.base_failures
        runs = [1] * failures + [0] * (table.head + table.base - failures)
        deals.append([sum(deal) for deal in combinations(runs, table.head)])
    sums = [sum(w * k for w, k in zip(weights, deal, strict=True)) for deal in product(*deals)]
    assert suite_p(Counter(tables), rng()) == pytest.approx(sum(value >= seen for value in sums) / len(sums))


def test_screening__drawn_and_computed_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    p_values = {
        Table(0, 1, 0, 10): 40,
        Table(1, 1, 0, 10): 1,
        Table(1, 1, 3, 10): 4,
        Table(1, 2, 2, 10): 2,
        Table(0, 1, 3, 10): 4,
    }
    computed = suite_p(p_values, rng())
    monkeypatch.setattr(screening, "_MOST_SUMS", 0)
    drawn = suite_p(p_values, rng(2), draws=200_000)
    assert 0.0001 < computed < 0.1
    assert drawn == pytest.approx(computed, rel=0.6)
    assert drawn == suite_p(p_values, rng(2), draws=200_000)


def test_screening__a_case_without_runs_on_a_side_says_nothing() -> None:
    some = {Table(1, 1, 0, 10): 2, Table(0, 1, 1, 10): 3}
    assert suite_p({**some, Table(1, 1, 0, 0): 50, Table(0, 0, 3, 5): 50}, rng()) == suite_p(some, rng())


def test_screening__the_suite_keeps_its_error_rate() -> None:
    values = rng(4)
    p_values = []
    for _ in range(1500):
        rates = values.choice([0.0, 0.05, 0.2, 0.5], size=20)
        head, base = values.binomial(1, rates), values.binomial(10, rates)
        cases = Counter(Table(int(k), 1, int(b), 10) for k, b in zip(head, base, strict=True))
        p_values.append(suite_p(cases, rng()))
    for alpha in (0.015, 0.05, 0.2):
        assert np.mean(np.array(p_values) <= alpha) <= alpha + 3 * math.sqrt(alpha * (1 - alpha) / len(p_values))


def test_screening__the_suite_of_scores_keeps_its_error_rate_and_sees_a_drop() -> None:
    values = rng(5)
    quiet, loud = [], []
    for trial in range(300):
        means = values.uniform(0.5, 0.9, 12)
        base = values.normal(means[:, None], 0.1, (12, 6))
        head = values.normal(means, 0.1)
        quiet.append(suite_scores_p([([h], list(b)) for h, b in zip(head, base, strict=True)], rng(trial)))
        loud.append(suite_scores_p([([h - 0.15], list(b)) for h, b in zip(head, base, strict=True)], rng(trial)))
    for alpha in (0.05, 0.2):
        assert np.mean(np.array(quiet) <= alpha) <= alpha + 3 * math.sqrt(alpha * (1 - alpha) / len(quiet))
    assert np.mean(np.array(loud) <= 0.05) > 0.95


@pytest.mark.parametrize("runs", [1, 3])
def test_screening__the_order_of_cases_and_runs_does_not_matter(runs: int) -> None:
    values = random.Random(3)
    cases = [([values.random() for _ in range(runs)], [values.random() for _ in range(6)]) for _ in range(15)]
    first = suite_scores_p(cases, rng(9))
    for _ in range(5):
        values.shuffle(cases)
        shuffled = [(values.sample(head, len(head)), values.sample(base, len(base))) for head, base in cases]
        assert suite_scores_p(shuffled, rng(9)) == first


def counted_scores_p(cases: Sequence[tuple[Sequence[float], Sequence[float]]]) -> float:
    """By going through all deals of all cases."""
    deals = []
    for head, base in cases:
        pool = [*head, *base]
        unit = statistics.pstdev(pool) + screening._LEAST_NOISE
        mean = statistics.fmean(pool)
        # The first way to choose is the one that was seen.
        deals.append([(statistics.fmean(deal) - mean) / unit for deal in combinations(pool, len(head))])
    sums = [math.fsum(deal) for deal in product(*deals)]
    return sum(value <= sums[0] + 1e-9 for value in sums) / len(sums)


small_scores = st.lists(st.sampled_from([0.1, 0.3, 0.35, 0.8, 1.0]), min_size=1, max_size=3)


@given(st.lists(st.tuples(small_scores, small_scores), min_size=1, max_size=3))
@settings(max_examples=60, deadline=None)
def test_screening__a_small_suite_of_scores_counts_all_deals(cases: list[tuple[list[float], list[float]]]) -> None:
    assert suite_scores_p(cases, rng()) == pytest.approx(counted_scores_p(cases))
    assert suite_scores_p([], rng()) == 1.0


@pytest.mark.parametrize(
    "cases",
    [
        [([0.2, 0.4], [0.5, 0.9, 0.3, 0.8]), ([0.6], [0.7, 0.65, 0.9])],
        [([0.0, 0.0], [0.0, 1.0, 1.0, 1.0])],  # Judges give few different scores, so ties are the rule.
    ],
)
def test_screening__scores_of_several_runs_are_drawn_without_replacement(
    cases: list[tuple[list[float], list[float]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = suite_scores_p(cases, rng())
    monkeypatch.setattr(screening, "_MOST_DEALS", 0)
    drawn = suite_scores_p(cases, rng(1), draws=20_000)
    assert drawn != counted
    assert drawn == pytest.approx(counted, rel=0.7)
