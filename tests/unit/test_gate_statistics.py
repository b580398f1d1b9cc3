"""The statistics of the comparison."""

from __future__ import annotations

import math
import random
import re
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from gate_play import TEN, Played, Story, by_score, play, story
from golden_files import check
from history_samples import TOKENS, case, comparable, compare, history_of, report
from hypothesis import given, settings
from hypothesis import strategies as st
from policy_texts import entry, valid_policy

from agent_eval.gate.regression.gathering import MoreEvidence, gather
from agent_eval.gate.stats import _screening as screening
from agent_eval.gate.stats._screening import Columns, Table, run_level_p, suite_p, suite_scores_p
from agent_eval.gate.stats.suspects import case_e, joint_e, p_of
from agent_eval.pipeline._regression import decision_report
from agent_eval_results.data.exact_tests import (
    dealt,
    detectable_drop,
    detectable_shift,
    exact_p,
    holm,
    pass_at_k,
    pass_hat_k,
    permutation_p,
    sequential_p,
    upper_tails,
    wilson,
)
from agent_eval_results.data.merging import merge
from agent_eval_results.data.report import CaseReport, RunScore
from agent_eval_results.report.phrases import suite_lines
from agent_eval_results.report.views import view_of

# The tests and intervals beside brute force and beside scipy.


def scipy_stats() -> Any:
    """Only the worker that needs it waits for its import."""
    import scipy.stats

    return scipy.stats


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def keep_their_level(p_values: Sequence[float], *levels: float) -> None:
    """At most a share a of them is a or less, and three standard deviations."""
    for level in levels:
        share = np.mean(np.array(p_values) <= level)
        assert share <= level + 3 * math.sqrt(level * (1 - level) / len(p_values))


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
    assert exact_p(5, 5, 0, 0) == exact_p(0, 0, 3, 5) == permutation_p([], [1.0], rng()) == 1.0


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
    keep_their_level(p_values, 0.01, 0.05, 0.2, 0.5)


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


# The suite's tests: exact where they say so, unmoved by order.

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
    steady, fallen, odd = Table(0, 1, 0, 10), Table(1, 1, 0, 10), Table(1, 2, 2, 10)
    cases = {steady: 40, fallen: 1, odd: 2, Table(1, 1, 3, 10): 4, Table(0, 1, 3, 10): 4}
    computed = suite_p(cases, rng())
    monkeypatch.setattr(screening, "_MOST_SUMS", 0)
    drawn = suite_p(cases, rng(2), draws=200_000)
    assert 0.0001 < computed < 0.1
    assert drawn == pytest.approx(computed, rel=0.6)
    assert drawn == suite_p(cases, rng(2), draws=200_000)


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
    keep_their_level(p_values, 0.015, 0.05, 0.2)


def test_screening__the_suite_of_scores_keeps_its_error_rate_and_sees_a_drop() -> None:
    values = rng(5)
    quiet, loud = [], []
    for trial in range(300):
        means = values.uniform(0.5, 0.9, 12)
        base = values.normal(means[:, None], 0.1, (12, 6))
        head = values.normal(means, 0.1)
        quiet.append(suite_scores_p([([h], list(b)) for h, b in zip(head, base, strict=True)], rng(trial)))
        loud.append(suite_scores_p([([h - 0.15], list(b)) for h, b in zip(head, base, strict=True)], rng(trial)))
    keep_their_level(quiet, 0.05, 0.2)
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


# Scores from 1 to 5, costs, and what is better when it is lower: from the reports to the words, through everything.

NAMES = [f"c{number}" for number in range(6)]
FIVE = "response_evaluation_score"
Make = Callable[[str, float, int], CaseReport]


def five(name: str, score: float, run: int) -> CaseReport:
    """A score from 1 to 5 that a model gave."""
    return case(name, scores=[score], metric=FIVE, threshold=3.0, first_run=run)


def tokens(name: str, count: float, run: int) -> CaseReport:
    return case(name, "1", tokens=[count], first_run=run)


def faults(name: str, count: float, run: int = 0) -> CaseReport:
    """A custom metric that itself says that it passes with at most two faults."""
    faulty = case(name, "1", first_run=run)
    status = "passed" if count <= 2 else "failed"
    metric = faulty.metrics[0].model_copy(
        update={"name": "faults", "threshold": 2.0, "runs": [RunScore(run=run, score=count, status=status)]}
    )
    runs = [faulty.runs[0].model_copy(update={"status": status})]
    [merged] = merge([faulty.model_copy(update={"metrics": [metric], "runs": runs})], min_pass_rate=1.0)
    return merged


def on_scale(make: Make, base: Sequence[float], head: float, policy: str, *only: str) -> Story:
    """A head that always gives this value, in some cases or in all, and otherwise the base's newest.

    Each case gave the base's values in an order of its own.
    """
    now = {name: head if name in only or not only else base[-1] for name in NAMES}
    before = {name: [*base[at:], *base[:at]] for at, name in enumerate(NAMES)}
    more = {name: [value] for name, value in now.items()}
    return Story(base=before, head=now, more=more, make=make, policy=policy, extra_runs=100)


FIVES = [4.5, 4.0, 4.8, 4.3, 4.6, 4.4, 4.1, 4.7, 4.2, 4.4]
ONES = [0.9, 0.88, 0.92, 0.9, 0.91, 0.89, 0.9, 0.9, 0.91, 0.9]
COUNTS = [1000.0, 1100.0, 900.0, 1050.0, 950.0, 1020.0, 980.0, 1010.0, 990.0, 1000.0]
FEW = [1.0, 1.2, 0.9, 1.1, 1.0, 0.8, 1.0, 1.2, 0.9, 1.0]
SCALES = {
    **{f"five, {to}": on_scale(five, FIVES, to, entry("max-drop = 0.5", FIVE)) for to in (3.2, 4.0)},
    "five, 3.2, and no entry": on_scale(five, FIVES, 3.2, ""),
    "five, 5.0": on_scale(five, FIVES, 5.0, entry("max-drop = 0", FIVE)),
    "five, 3.2 of one case": on_scale(five, FIVES, 3.2, entry("max-drop = 0.5", FIVE), "c0"),
    **{f"score, {to}": on_scale(by_score, ONES, to, entry("max-drop = 0.05")) for to in (0.7, 0.87)},
    **{f"tokens, {to}": on_scale(tokens, COUNTS, to, entry("max-drop = 0.2", TOKENS)) for to in (1150.0, 1500.0)},
    **{
        f"tokens, {to}, with a limit": on_scale(tokens, COUNTS, to, entry("max-drop = 0.2\nthreshold = 2000", TOKENS))
        for to in (1150.0, 1500.0)
    },
    "tokens, 500": on_scale(tokens, COUNTS, 500.0, entry("max-drop = 0", TOKENS)),
    "tokens, 500, more is better": on_scale(tokens, COUNTS, 500.0, entry('direction = "higher"', TOKENS)),
    "tokens, 2500 of one case": on_scale(tokens, COUNTS, 2500.0, entry("max-drop = 0.1", TOKENS), "c0"),
    **{f"faults, {to}": on_scale(faults, FEW, to, entry("max-drop = 0.1", "faults")) for to in (1.9, 0.1)},
    "faults, 1.1": on_scale(faults, FEW, 1.1, entry("max-drop = 0.2", "faults")),
    "faults, 0.1, more is better": on_scale(faults, FEW, 0.1, entry('direction = "higher"', "faults")),
}


def test_scales__the_right_side_and_the_right_scale_in_the_scores_own_unit() -> None:
    page = []
    for name, told in SCALES.items():
        played = play(told)
        view = view_of(report().model_copy(update={"decision": played.decision}))
        page += [f"# {name}", str(played), *suite_lines(view), ""]
    check("golden_scales.txt", "\n".join(page))


def test_scales__a_score_on_its_threshold_forgets_no_failure_of_the_base() -> None:
    # Two faults pass and don't show that three would fail; without that, three of two would be thought to pass.
    history = history_of(*(report(faults("c0", count), day=day) for day, count in enumerate([2.0, 3.0, 2.0, 2.0])))
    assert history.cases[0].outcomes == "1011"

    cases, more = [faults("c0", 2.0)], MoreEvidence(head=[faults("c0", 3.0, 1), faults("c0", 2.0, 2)])
    [evidence] = gather(cases, history, comparable(cases, history), valid_policy(""), num_runs=1, more=more).evidence
    assert evidence.metrics["pass"].base == (1.0, 0.0, 1.0, 1.0)
    assert evidence.metrics["pass"].head_confirm == (0.0, 1.0)


def test_scales__another_threshold_judges_what_is_better_when_lower_again() -> None:
    history = history_of(report(faults("c0", 1.0)))
    assert history.rules[0][0].direction == "lower"
    stricter = faults("c0", 3.0)
    stricter.metrics[0].threshold = 0.5
    [evidence] = gather([stricter], history, comparable([stricter], history), valid_policy(""), num_runs=1).evidence
    assert evidence.metrics["pass"].base == (0.0,)


def test_scales__a_lower_score_that_is_better_is_no_drop() -> None:
    base, head = report(faults("a", 1.0), faults("b", 1.0)), report(faults("a", 0.0), faults("b", 1.5))
    assert [drop.eval_id for drop in compare(head, base).drops] == ["b"]


# The bets on suspected regressions, and the test of whole columns: fair by chance, sharp where something changed.


@given(st.integers(0, 20), st.integers(0, 20), st.integers(1, 15))
def test_bets__are_fair_if_nothing_changed(base_failures: int, base_passes: int, runs: int) -> None:
    """The mean payoff over all results is 1, if the rate is as likely as the base's runs leave it."""
    failed, passed = base_failures + 0.5, base_passes + 0.5

    def log_beta(a: float, b: float) -> float:
        return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)

    mean = math.fsum(
        math.comb(runs, failures)
        * math.exp(log_beta(failed + failures, passed + runs - failures) - log_beta(failed, passed))
        * case_e(failures, runs, base_failures, base_failures + base_passes)
        for failures in range(runs + 1)
    )
    assert mean == pytest.approx(1, rel=1e-9)


def test_bets__pay_for_failures_and_cost_for_passes() -> None:
    assert case_e(0, 0, 3, 20) == 1.0
    for runs in range(1, 16):
        payoffs = [case_e(failures, runs, 1, 20) for failures in range(runs + 1)]
        assert payoffs == sorted(payoffs)
        assert payoffs[0] < 1, "without a fresh failure a case is never said to be worse"
    assert case_e(2, 2, 0, 20) > case_e(2, 2, 5, 20) > case_e(2, 2, 15, 20)


def test_bets__several_weak_drops_add_up_and_an_innocent_case_hides_no_broken_one() -> None:
    weak = case_e(3, 7, 1, 20)
    assert joint_e([weak]) < 20 < joint_e([weak] * 4)
    broken, innocent = case_e(7, 7, 0, 20), case_e(0, 2, 3, 20)
    assert joint_e([broken, *[innocent] * 5]) > 20
    assert joint_e([]) == 1.0
    assert joint_e([innocent, weak, broken]) == joint_e([broken, weak, innocent])
    assert p_of(joint_e([])) == 1.0


def test_bets__error_rate_with_the_least_patient_rule() -> None:
    """Looks after every run and rejects the first time that it can, on cases whose rates are drawn from the prior."""
    values, count, rejected = rng(11), 4000, 0
    for _ in range(count):
        rates = values.beta(0.5, 0.5, size=3)
        base = [int(values.binomial(10, rate)) for rate in rates]
        failures = np.cumsum(values.random((3, 15)) < rates[:, None], axis=1)
        rejected += any(
            joint_e(case_e(int(failures[case, made - 1]), made, base[case], 10) for case in range(3)) >= 20
            for made in range(1, 16)
        )
    assert rejected / count <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / count)


def columns(head: float, base: Sequence[float], cases: int) -> list[Columns]:
    """Of cases that are all alike."""
    return [Columns(head=(head,), base=tuple(base), records=tuple("abcdefghij"[: len(base)]))] * cases


def test_columns__a_whole_run_that_fails_is_one_observation() -> None:
    """Ten cases fail together in the head's run, and in one of nine stored runs: that is 2 of 10 columns."""
    base = [0.0, *[1.0] * 8]
    assert run_level_p(columns(0.0, base, 10), rng(), binary=True) == pytest.approx(2 / 10)
    assert run_level_p(columns(1.0, base, 10), rng(), binary=True) == 1.0
    scores = [value * 0.5 + 0.4 for value in base]
    assert run_level_p(columns(0.4, scores, 10), rng(), binary=False) == pytest.approx(2 / 10)


def test_columns__too_few_stored_columns_or_whole_cases_tell_nothing() -> None:
    unknown = [Columns(head=(0.0,), base=(1.0,) * 9, records=())] * 4
    for few in (columns(0.0, [1.0] * 3, 4), [], unknown):
        assert run_level_p(few, rng(), binary=True) == 0.0
    # A record of a single case does not leave out all of the others.
    odd = [*columns(0.0, [1.0] * 9, 9), Columns(head=(0.0,), base=(1.0,) * 10, records=(*"abcdefghi", "z"))]
    assert run_level_p(odd, rng(), binary=True) == pytest.approx(1 / 10)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32))
def test_columns__keep_the_level_whatever_the_cases_of_a_run_share(seed: int) -> None:
    """All permutations of the columns: at most a share a of them has a p-value of at most a."""
    values = rng(seed)
    table = (values.random((6, 5)) < 0.7) & (values.random(5) < 0.8)
    p_values = []
    for chosen in range(5):
        cases = [
            Columns(head=(float(row[chosen]),), base=tuple(map(float, np.delete(row, chosen))), records=tuple("abcd"))
            for row in table
        ]
        p_values.append(run_level_p(cases, values, binary=True))
    for level in sorted(set(p_values)):
        assert sum(value <= level + 1e-9 for value in p_values) / 5 <= max(level, 0.2) + 1e-9


# What is reported of a decision.


@pytest.mark.parametrize(
    ("base", "more", "flaky"), [("1101011011", "1101011011", (3, 10, "00000002")), (TEN, "1", None)]
)
def test_decision_report__how_flaky_a_case_is_and_since_when(
    base: str, more: str, flaky: tuple[int, int, str] | None
) -> None:
    compared = play(story(base, "0", more)).compared
    assert compared is not None
    report = decision_report(compared.decision, compared.gathered, compared.base)
    [lamp] = report.cases
    rate = lamp.flakiness
    assert (rate and (rate.failures, rate.runs, rate.since[:8])) == flaky, "what never failed there is not flaky there"
    assert [(runs.head_passed, runs.base_runs) for runs in report.runs] == [(2 if flaky else 4, 10)]


@pytest.mark.parametrize("stored", [1, 2, 3, 4])
@pytest.mark.parametrize("alpha", [0.05, 0.01])
@pytest.mark.parametrize("more", ["001", "00001", "000001"])
def test_decide__as_many_more_runs_of_the_base_as_it_says_do_decide(alpha: float, more: str, stored: int) -> None:
    def after(runs: str) -> Played:
        return play(story(runs, "0", more, extra_runs=100, policy=f"[[policy]]\nalpha = {alpha}\n"))

    thin = after("1" * stored)
    if thin.verdict.value == "failed":
        assert thin.verdict.reasons[0].code == "case-worse", "so many are enough already"
        return
    assert thin.verdict.value == "inconclusive"
    match = re.search(r"(\d+) more runs? of the base branch would decide", thin.verdict.reasons[0].message)
    assert match is not None

    passing = after("1" * (stored + int(match[1])))
    assert (passing.verdict.value, passing.verdict.reasons[0].code) == ("failed", "case-worse")
    flaky = after("1" * stored + ("011" * 9)[: int(match[1])])
    assert flaky.verdict.value == "passed"


@pytest.mark.parametrize("alpha", ["1e-17", "1e-30", "1e-300"])
def test_decide__error_rate_that_takes_more_runs_than_anybody_makes(alpha: str) -> None:
    played = play(story("1", "0", "001", extra_runs=100, policy=f"[[policy]]\nalpha = {alpha}\n"))
    assert played.verdict.value == "inconclusive"
    match = re.search(r"([\d,]+) more runs of the base branch would decide", played.verdict.reasons[0].message)
    assert match is not None and int(match[1].replace(",", "")) > 100
