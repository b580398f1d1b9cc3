"""The bets on suspected regressions, and the test of whole columns: fair by chance, sharp where something changed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_eval.gate.stats._screening import Columns, run_level_p
from agent_eval.gate.stats.bets import case_e, joint_e, p_of


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
    rng = np.random.default_rng(11)
    count, rejected = 4000, 0
    for _ in range(count):
        rates = rng.beta(0.5, 0.5, size=3)
        base = [int(rng.binomial(10, rate)) for rate in rates]
        failures = np.cumsum(rng.random((3, 15)) < rates[:, None], axis=1)
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
    rng = np.random.default_rng(0)
    assert run_level_p(columns(0.0, base, 10), rng, binary=True) == pytest.approx(2 / 10)
    assert run_level_p(columns(1.0, base, 10), rng, binary=True) == 1.0
    scores = [value * 0.5 + 0.4 for value in base]
    assert run_level_p(columns(0.4, scores, 10), rng, binary=False) == pytest.approx(2 / 10)


def test_columns__too_few_stored_columns_or_whole_cases_tell_nothing() -> None:
    rng = np.random.default_rng(0)
    unknown = [Columns(head=(0.0,), base=(1.0,) * 9, records=())] * 4
    for few in (columns(0.0, [1.0] * 3, 4), [], unknown):
        assert run_level_p(few, rng, binary=True) == 0.0
    # A record of a single case does not leave out all of the others.
    odd = [*columns(0.0, [1.0] * 9, 9), Columns(head=(0.0,), base=(1.0,) * 10, records=(*"abcdefghi", "z"))]
    assert run_level_p(odd, rng, binary=True) == pytest.approx(1 / 10)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32))
def test_columns__keep_the_level_whatever_the_cases_of_a_run_share(seed: int) -> None:
    """All permutations of the columns: at most a share a of them has a p-value of at most a."""
    rng = np.random.default_rng(seed)
    table = (rng.random((6, 5)) < 0.7) & (rng.random(5) < 0.8)
    p_values = []
    for chosen in range(5):
        cases = [
            Columns(head=(float(row[chosen]),), base=tuple(map(float, np.delete(row, chosen))), records=tuple("abcd"))
            for row in table
        ]
        p_values.append(run_level_p(cases, rng, binary=True))
    for level in sorted(set(p_values)):
        assert sum(value <= level + 1e-9 for value in p_values) / 5 <= max(level, 0.2) + 1e-9
