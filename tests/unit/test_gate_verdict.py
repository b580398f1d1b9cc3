"""One verdict from many cases, and its exit code."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.gate.verdict import EXIT_CODES, decide, exit_code
from agent_eval.results._merge import WITHOUT_KEY
from agent_eval.results.report import CaseReport, CaseStatus, Reason, VerdictValue

STATUSES: tuple[CaseStatus, ...] = ("passed", "failed", "errored", "not_run", "quarantined")


def case(status: CaseStatus, code: str | None = None) -> CaseReport:
    reason = None if code is None else Reason(code=code, message="because")
    return CaseReport(case_id=f"a:{status}", file="a", eval_set_id="a", eval_id=status, status=status, reason=reason)


@given(st.lists(st.sampled_from(STATUSES), min_size=1))
def test_verdict__only_a_run_without_anything_wrong_passes(statuses: list[CaseStatus]) -> None:
    verdict = decide([case(status) for status in statuses])
    assert (verdict.value == "failed") == ("failed" in statuses)
    assert (verdict.value == "passed") == (not {"failed", "errored", "not_run"} & set(statuses))
    assert (verdict.value == "passed") == (verdict.reasons == ())


def test_verdict__reasons_name_failures_first_then_what_hit_most_cases() -> None:
    cases = [
        case("not_run", "run-timeout"),
        *[case("errored", "provider-unavailable")] * 3,
        case("failed", "below-threshold"),
        case("failed", "agent-crash"),
    ]
    verdict = decide(cases)
    assert verdict == decide(cases[::-1])
    assert [(reason.code, reason.data.get("phrase"), reason.data["count"]) for reason in verdict.reasons] == [
        ("failed", None, 2),
        ("provider-unavailable", "cases-errored", 3),
        ("run-timeout", "cases-not-run", 1),
    ]


@pytest.mark.parametrize(
    ("verdict", "on_inconclusive", "code"),
    [
        ("passed", "fail", 0),
        ("failed", "fail", 1),
        ("failed", "pass", 1),
        ("invalid", "fail", 2),
        ("invalid", "pass", 2),
        ("inconclusive", "fail", 3),
        ("inconclusive", "pass", 0),
    ],
)
def test_verdict__exit_codes(verdict: VerdictValue, on_inconclusive: Literal["fail", "pass"], code: int) -> None:
    assert exit_code(verdict, on_inconclusive, not_run=0) == code
    assert len(set(EXIT_CODES.values())) == 4


def test_verdict__a_gate_that_was_broken_off_never_says_0() -> None:
    assert exit_code("inconclusive", "pass", not_run=1) == 3


def test_what_has_no_key_is_done_without__unless_there_is_nothing_else() -> None:
    withheld = case("not_run", WITHOUT_KEY)

    assert decide([case("passed"), withheld]).value == "passed"
    assert decide([case("failed"), withheld]).value == "failed"
    assert decide([case("passed"), withheld, case("not_run", "run-timeout")]).value == "inconclusive"
    assert decide([withheld]).value == "inconclusive"
