"""The policy's thresholds and quarantines, applied to cases that are scored already."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from history_samples import FILE, SCORE, TOKENS, case, report
from policy_texts import policy_of

from agent_eval.api import EngineOutcome
from agent_eval.gate.regression.rescoring import apply_policy, quarantine_notes
from agent_eval.pytest_plugin._outcomes import outcome_in
from agent_eval.report.phrases import text
from agent_eval.results.report import CaseReport, MetricReport


def applied(text: str, *cases: CaseReport, min_pass_rate: float = 1.0) -> list[CaseReport]:
    policy, problems = policy_of(text)
    assert problems == []
    return apply_policy(cases, policy, min_pass_rate=min_pass_rate)


def metric(judged: CaseReport, name: str = SCORE) -> MetricReport:
    return next(candidate for candidate in judged.metrics if candidate.name == name)


def entry(says: str, metric: str = SCORE) -> str:
    return f'[[policy]]\nmetric = "{metric}"\n{says}\n'


@pytest.mark.parametrize("policy", ["", entry("max-drop = 0.1"), entry("threshold = 0.5")])
def test_apply_policy__without_other_rules_the_cases_are_the_same(policy: str) -> None:
    unchanged = case("a", "10")
    assert applied(policy, unchanged)[0] is unchanged


@pytest.mark.parametrize(
    ("threshold", "status", "runs"),
    [
        (0.5, "passed", ["passed", "passed"]),
        (0.65, "failed", ["failed", "passed"]),
        (0.9, "failed", ["failed", "failed"]),
    ],
)
def test_apply_policy__another_threshold_judges_runs_metric_and_case(
    threshold: float, status: str, runs: list[str]
) -> None:
    before = case("a", scores=[0.6, 0.8], threshold=0.7)
    metric(before).runs[0].turn_scores = [0.2, 1.0]

    [after] = applied(entry(f"threshold = {threshold}"), before)

    assert (after.status, [run.status for run in after.runs]) == (status, runs)
    assert [run.status for run in metric(after).runs] == runs
    assert (metric(after).threshold, metric(after).runs[0].turn_scores) == (threshold, [0.2, 1.0])
    assert (before.status, metric(before).threshold) == ("failed", 0.7), "the cases are not changed"


def test_apply_policy__a_metric_that_does_not_block_is_shown_and_fails_nothing() -> None:
    after, unmeasured, broke = applied(entry("blocking = false"), case("a", "0"), case("b", "?"), case("c", "x"))

    assert (after.status, after.reason) == ("passed", None)
    assert (metric(after).status, metric(after).blocking) == ("failed", False)
    assert [run.status for run in after.runs] == ["passed"]
    assert (case("b", "?").status, unmeasured.status) == ("errored", "passed")
    assert broke.status == "failed", "an error of the agent still fails"
    own = case("d", scores=[0.9])
    metric(own).runs[0].status = "failed"  # A custom metric may decide against its score.
    assert metric(applied(entry("blocking = false"), own)[0]).runs[0].status == "failed"


@pytest.mark.parametrize(
    ("says", "status", "direction"),
    [
        ("threshold = 1000", "passed", "lower"),
        ("threshold = 900", "passed", "lower"),
        ("threshold = 899", "failed", "lower"),
        ('threshold = 901\ndirection = "higher"', "failed", "higher"),
    ],
)
def test_apply_policy__what_costs_may_have_a_limit(says: str, status: str, direction: str) -> None:
    [after] = applied(entry(says, TOKENS), case("a", "11", tokens=[800.0, 1000.0]), min_pass_rate=0)
    assert after.status == status
    assert (metric(after, TOKENS).status, metric(after, TOKENS).direction) == (status, direction)
    side = "above" if direction == "lower" else "below"
    assert (text(after.reason) if after.reason else "") == f"{side} the threshold: {TOKENS}" * (status == "failed")
    unknown = case("b", "1", tokens=[900.0])
    metric(unknown, TOKENS).runs[0].score = None
    [after] = applied(entry(says, TOKENS), unknown)
    assert after.status == "errored" and after.reason is not None
    assert text(after.reason).startswith(f"{TOKENS} could not be evaluated: the agent reports no value of it")


def test_apply_policy__only_the_cases_that_are_meant() -> None:
    text = entry('cases = ":a*"\nthreshold = 0.9')
    after = applied(text, case("a1", scores=[0.8]), case("b", scores=[0.8]))
    assert [rescored.status for rescored in after] == ["failed", "passed"]


def test_apply_policy__a_renamed_case_keeps_the_configured_threshold_if_that_is_stricter() -> None:
    policy, _ = policy_of(entry('cases = ":new"\nthreshold = 0.1'))
    policy = replace(policy, renamed={f"{FILE}:new": (FILE, "old")})
    [after] = apply_policy([case("new", scores=[0.3], threshold=0.5)], policy, min_pass_rate=1.0)
    assert (metric(after).threshold, after.status) == (0.5, "failed")


HELD = '[[quarantine]]\ncase = ":a*"\nreason = "slow clock"\nowner = "@alice"\nexpires = 2027-01-31\n'


@pytest.mark.parametrize(
    ("runs", "did"),
    [
        ("1", "it passed"),
        ("0", f"it failed (below the threshold: {SCORE})"),
        ("x", "it failed (KeyError: 'garage')"),
        ("p", "it was not evaluated (503)"),
    ],
)
def test_apply_policy__a_quarantined_case_is_reported_with_what_it_did(runs: str, did: str) -> None:
    [after] = applied(HELD, case("a", runs))
    assert after.status == "quarantined"
    assert after.reason is not None and after.reason.code == "quarantined"
    assert text(after.reason) == f"{did}; quarantined until 2027-01-31 by @alice: slow clock"
    assert (after.metrics, after.runs) == (case("a", runs).metrics, case("a", runs).runs)


def test_apply_policy__notices_about_quarantines() -> None:
    after = applied(HELD, case("a1", "0"), case("a2", "1"), case("a3", "-"), case("b", "0"))
    assert [rescored.status for rescored in after] == ["quarantined", "quarantined", "not_run", "failed"]
    assert [note.data for note in quarantine_notes(after)] == [{"phrase": "quarantined-cases", "count": 1, "total": 2}]
    assert [note.data["count"] for note in quarantine_notes(after[1:])] == [0]
    assert quarantine_notes([case("b", "0")]) == []
    often = applied(HELD, case("a", "110", scores=[0.9, 0.9, 0.4], min_pass_rate=0.6), min_pass_rate=0.6)
    assert [note.data["count"] for note in quarantine_notes(often)] == [0], "it passed"
    engine = EngineOutcome(exit_code=0, report=report(*often), console="", log="", output=Path())
    assert outcome_in(engine, f"{FILE}:a").kind == "pass"


def test_apply_policy__thresholds_and_quarantine_together() -> None:
    [after] = applied(entry("threshold = 0.9") + HELD, case("a", scores=[0.8]))
    assert after.reason is not None and after.reason.data["because"].code == "below-threshold"
