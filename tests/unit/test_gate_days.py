"""Records that differ by more than chance, and today beside them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from agent_eval.gate import days
from agent_eval.gate.days import shift_p
from agent_eval.gate.decision import Budget, Decision, Rules
from agent_eval.gate.evidence import PASS, CaseEvidence, Series
from agent_eval.gate.sequential import next_step

RECORDS = tuple(f"r{number}" for number in range(10))


def suite(values: np.random.Generator, cases: int, sd: float, today: float | None = None) -> list[Series]:
    """Cases of all kinds, with a shift of each day in logits."""
    logits = values.normal(2.0, 1.0, (cases, 1))
    shifts = values.normal(0, sd, 10)
    base = values.random((cases, 10)) < 1 / (1 + np.exp(-(logits + shifts)))
    shift = values.normal(0, sd) if today is None else today
    head = values.random((cases, 1)) < 1 / (1 + np.exp(-(logits + shift)))
    return [
        Series(head_screen=(float(now[0]),), base=tuple(map(float, then)), base_days=RECORDS)
        for now, then in zip(head, base, strict=True)
    ]


def p_of(found: list[Series]) -> float | None:
    return shift_p([(one.head_screen, one) for one in found])


def test_like_days_are_seldom_called_different() -> None:
    values = np.random.default_rng(1)
    called = sum(p_of(suite(values, 40, 0.0)) is not None for _ in range(500))
    assert called / 500 <= days.RARE + 3 * math.sqrt(days.RARE / 500)


def test_different_days_are_noticed_and_today_is_one_of_them() -> None:
    values = np.random.default_rng(2)
    found = [p_of(suite(values, 200, 0.6)) for _ in range(200)]
    noticed = np.array([p for p in found if p is not None])
    assert len(noticed) > 180
    # The t test is approximate (a day's shift in logits is not quite one in points), and one-sided.
    assert np.mean(noticed <= 0.05) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / len(noticed))
    assert np.mean(noticed <= 0.05) > 0


def test_a_drop_beyond_all_days_is_seen() -> None:
    values = np.random.default_rng(3)
    found = [p_of(suite(values, 200, 0.4, today=-3.0)) for _ in range(20)]
    assert all(p < 0.01 for p in found if p is not None)
    assert any(p is not None for p in found)


def test_what_is_not_known_guards_nothing() -> None:
    values = np.random.default_rng(4)
    found = suite(values, 200, 1.0)
    assert p_of(found) is not None
    assert shift_p([(one.head_screen, Series(base=one.base)) for one in found]) is None
    few = [Series(base=one.base[:3], base_days=RECORDS[:3]) for one in found]
    assert shift_p([((1.0,), one) for one in few]) is None
    assert shift_p([]) is None
    assert shift_p([((1.0,), Series(base=(1.0,) * 10, base_days=RECORDS))] * 5) is None


def test_the_gate_says_so_and_is_harder_to_alarm() -> None:
    values = np.random.default_rng(5)
    found = suite(values, 300, 0.8, today=-0.8)
    outcomes = {}
    for known in (True, False):
        evidence = [
            CaseEvidence(
                case_id=f"c{number}",
                metrics={PASS: one if known else Series(head_screen=one.head_screen, base=one.base)},
            )
            for number, one in enumerate(found)
        ]
        decision = next_step(evidence, Rules(), Budget(extra_runs=0))
        assert isinstance(decision, Decision)
        outcomes[known] = decision
    assert outcomes[False].outcome == "failed"
    assert outcomes[True].outcome != "failed"
    assert "days-differ" in [reason.code for reason in outcomes[True].reasons]
    assert not [reason for reason in outcomes[True].reasons if reason.code == "days-differ" and reason.blocking]


def test_where_days_differ_suspicious_cases_are_not_taken_together() -> None:
    """Several that are a little worse at once are what a bad day looks like."""
    values = np.random.default_rng(5)
    together = {}
    found = suite(values, 300, 0.8, today=0.0)
    for known in (True, False):
        evidence = []
        for number, one in enumerate(found):
            again = (0.0,) * 7 + (1.0,) * 8 if not one.head_screen[0] and sum(one.base) >= 9 else ()
            record = RECORDS if known else None
            series = Series(head_screen=one.head_screen, base=one.base, base_days=record, head_confirm=again)
            evidence.append(CaseEvidence(case_id=f"c{number}", metrics={PASS: series}))
        assert sum(bool(one.metrics[PASS].head_confirm) for one in evidence) >= 3
        decision = next_step(evidence, Rules(), Budget(extra_runs=0))
        assert isinstance(decision, Decision)
        together[known] = decision.suites[0].p_confirm or 0.0
    assert together[False] < 0.025 < together[True]


@pytest.mark.parametrize("freedom", [3, 9, 20])
def test_tails_are_scipys(freedom: int) -> None:
    for value in (0.5, 1.5, 2.5, 4.0):
        assert days._t_tail(value, freedom) == pytest.approx(scipy.stats.t.sf(value, freedom), rel=0.02)
        assert days._chi_squared_tail(value * freedom, freedom) == pytest.approx(
            scipy.stats.chi2.sf(value * freedom, freedom), abs=0.006
        )
    assert days._t_tail(-1.0, freedom) == 0.5
