"""The suspicious cases' test: exact, and valid whenever it is looked at."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_eval.gate.stats import _confirmation as confirmation
from agent_eval.gate.stats._confirmation import Trial, likelihood_ratio, pooled_p
from agent_eval.gate.stats.exact_tests import dealt, exact_p


@st.composite
def trials(draw: st.DrawFn, *, most: int = 8, complete: bool = False) -> Trial:
    planned, base_planned = draw(st.integers(1, most)), draw(st.integers(1, most))
    runs = planned if complete else draw(st.integers(0, planned))
    base_made = base_planned if complete else draw(st.integers(0, base_planned))
    return Trial(draw(st.integers(0, runs)), runs, planned, draw(st.integers(0, base_made)), base_made, base_planned)


@given(st.lists(trials(most=5, complete=True), min_size=1, max_size=3))
@settings(max_examples=60, deadline=None)
def test_confirmation__complete_trials_are_tested_exactly(drawn: list[Trial]) -> None:
    share = min(0.5, 2 / len(drawn))
    ways = []
    seen = 0
    for trial in drawn:
        failures = trial.failures + trial.base_failures
        low, logs, chances = confirmation._ratios(failures, trial.planned, trial.base_planned, share)
        seen += logs[trial.failures - low]
        ways.append(list(zip(logs, chances, strict=True)))
    counted = math.fsum(
        math.prod(chance for _, chance in way) for way in product(*ways) if sum(log for log, _ in way) >= seen
    )
    assert pooled_p(drawn) == pytest.approx(counted, rel=1e-9)


@given(trials(complete=True))
def test_confirmation__one_trial_is_fishers_but_for_ties(trial: Trial) -> None:
    exact = exact_p(trial.failures, trial.planned, trial.base_failures, trial.base_planned)
    assert trial.p_value == exact == trial.best_p_value
    assert pooled_p([trial]) >= exact * (1 - 1e-9)


@given(st.lists(trials(), min_size=1, max_size=4), st.data())
@settings(max_examples=150, deadline=None)
def test_confirmation__whatever_the_missing_runs_bring_the_p_value_was_not_too_small(
    drawn: list[Trial], data: st.DataObject
) -> None:
    complete = []
    for trial in drawn:
        more = data.draw(st.integers(0, trial.planned - trial.made))
        base_more = data.draw(st.integers(0, trial.base_planned - trial.base_made))
        complete.append(
            trial._replace(
                failures=trial.failures + more,
                made=trial.planned,
                base_failures=trial.base_failures + base_more,
                base_made=trial.base_planned,
            )
        )
    assert pooled_p(drawn) >= pooled_p(complete) * (1 - 1e-9)
    for before, after in zip(drawn, complete, strict=True):
        assert before.p_value >= after.p_value * (1 - 1e-9) >= before.best_p_value * (1 - 2e-9)


def test_confirmation__all_completions_of_small_trials() -> None:
    """The same, counted: every state of two cases, every way in which it can end."""
    other = Trial(2, 3, 3, 0, 3, 3)
    for runs in range(4):
        for failures in range(runs + 1):
            for base_failures in range(4):
                state = Trial(failures, runs, 3, base_failures, 3, 3)
                now = pooled_p([state, other])
                for more in range(3 - runs + 1):
                    end = state._replace(failures=failures + more, made=3)
                    assert now >= pooled_p([end, other]) * (1 - 1e-9)


@given(st.lists(trials(), min_size=2, max_size=5), st.randoms())
def test_confirmation__the_order_of_cases_does_not_matter(drawn: list[Trial], random: object) -> None:
    assert pooled_p(drawn[::-1]) == pooled_p(drawn)


def test_confirmation__error_rate_with_the_least_patient_rule() -> None:
    """Looks after every run and rejects the first time that it can, on cases of all kinds."""
    values = np.random.default_rng(11)
    rejected = 0
    count = 400
    for _ in range(count):
        rates = values.choice([0.02, 0.1, 0.3, 0.6], size=3)
        base = [int(values.binomial(10, rate)) for rate in rates]
        failures = values.random((3, 9)) < rates[:, None]
        for runs in range(1, 10):
            state = [Trial(int(failures[i, :runs].sum()), runs, 9, base[i], 10, 10) for i in range(3)]
            if pooled_p(state) <= 0.05:
                rejected += 1
                break
    assert rejected / count <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / count)


def test_confirmation__several_weak_drops_add_up() -> None:
    single = Trial(6, 15, 15, 0, 10, 10)
    assert single.p_value > 0.02
    assert pooled_p([single] * 3) < 0.003


def test_confirmation__an_innocent_case_hides_no_broken_one() -> None:
    broken, innocent = Trial(12, 12, 15, 0, 10, 10), Trial(0, 3, 15, 3, 10, 10)
    assert pooled_p([broken, *[innocent] * 5]) < 0.01


def test_confirmation__nothing_to_test() -> None:
    assert pooled_p([]) == 1.0
    assert pooled_p([Trial(0, 0, 15, 0, 10, 10)]) == 1.0


def test_confirmation__likelihood_ratios_have_mean_one() -> None:
    for failures in range(1, 12):
        _, logs, chances = confirmation._ratios(failures, 6, 6, 0.5)
        mean = math.fsum(
            math.exp(log / confirmation._STEPS) * chance for log, chance in zip(logs, chances, strict=True)
        )
        assert mean == pytest.approx(1, abs=0.02)
        assert list(logs) == sorted(logs)
        assert chances == dealt(failures, 6, 6)[1]


def test_confirmation__promise_falls_with_passes_and_rises_with_failures() -> None:
    first = likelihood_ratio(1, 0, 0, 0, 10)
    assert likelihood_ratio(1, 0, 6, 0, 10) < 1 < first < likelihood_ratio(1, 3, 3, 0, 10)
    assert likelihood_ratio(1, 0, 0, 8, 10) < likelihood_ratio(1, 0, 0, 2, 10) < first
