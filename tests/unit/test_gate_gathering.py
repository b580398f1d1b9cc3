"""What the statistics are given: both sides judged alike, and only what both have measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from history_samples import FILE, SCORE, case, comparable, history_of, report
from policy_texts import policy_of

from agent_eval.gate.regression.gathering import Gathered, MoreEvidence, gather
from agent_eval.gate.regression.rescoring import apply_policy
from agent_eval.gate.stats.decision import MetricRule, Rules
from agent_eval.gate.stats.samples import PASS, Series
from agent_eval.results.history import HistoryReport
from agent_eval.results.report import CaseReport


def base_of(*days: Sequence[CaseReport], num_runs: int = 1) -> HistoryReport:
    return history_of(*(report(*cases, day=day, num_runs=num_runs) for day, cases in enumerate(days)))


def gathered(
    head: Sequence[CaseReport], base: HistoryReport, text: str = "", num_runs: int = 1, **more: Any
) -> Gathered:
    policy, problems = policy_of(text)
    assert problems == []
    cases = apply_policy(head, policy, min_pass_rate=1.0)
    return gather(cases, base, comparable(cases, base), policy, num_runs=num_runs, **more)


def series(gathered_input: Gathered, metric: str = PASS) -> Series:
    [evidence] = gathered_input.evidence
    return evidence.metrics[metric]


def test_gathering__passes_of_both_sides_with_the_days_of_the_base() -> None:
    base = base_of([case("a", "1")], [case("a", "0")], [case("a", "x")])
    result = gathered([case("a", "1x0", first_run=0)], base, num_runs=3)

    assert series(result) == Series(head_screen=(1.0, 0.0, 0.0), base=(1.0, 0.0, 0.0), base_days=("0", "1", "2"))
    assert result.rules.metrics == {PASS: MetricRule()}
    assert result.rules.cases == {}


def test_gathering__a_base_of_today_is_distinguished_and_runs_that_errored_are_left_out() -> None:
    result = gathered([case("a", "p0")], base_of([case("a", "1p")], num_runs=2), num_runs=2, same_day=True)
    assert series(result) == Series(head_screen=(0.0,), base_screen=(1.0,))


@pytest.mark.parametrize(
    "head",
    [
        case("new", "0"),
        case("a", "0", fingerprint="other"),
        case("a", "0", measures="m2"),
        case("a", "-"),
        case("a", "p"),
    ],
    ids=["new", "changed", "another judge", "not run", "errored"],
)
def test_gathering__what_can_not_be_compared_is_for_the_thresholds(head: CaseReport) -> None:
    assert gathered([head], base_of([case("a", "1")])).evidence == ()


def test_gathering__without_comparable_runs_nothing_can() -> None:
    assert gathered([case("a", "0")], base_of([])).evidence == ()
    old = base_of([case("a", "1")]).model_copy(update={"scoring_version": 0})
    assert gathered([case("a", "0")], old).evidence == ()


def test_gathering__a_renamed_case_is_compared_with_itself() -> None:
    base = base_of([case("a", "1")])
    renamed = case("z", "0", fingerprint="content of a")

    # Which name a fresh run of the base has depends on whose eval files it used.
    for name in ("a", "z"):
        fresh = [case(name, "1", fingerprint="content of a")]
        result = gathered([renamed], base, more=MoreEvidence(base=fresh))
        assert result.comparable[f"{FILE}:z"].history.case_id == f"{FILE}:a"
        assert (series(result).base, series(result).base_confirm) == ((1.0,), (1.0,))


def with_second(report: CaseReport, *scores: float) -> CaseReport:
    """The case with a second gating metric, `safety_v1`."""
    second = case(report.eval_id, scores=scores, metric="safety_v1")
    runs = [
        run.model_copy(update={"status": "failed" if "failed" in {run.status, other.status} else "passed"})
        for run, other in zip(report.runs, second.runs, strict=True)
    ]
    return report.model_copy(update={"metrics": [*report.metrics, *second.metrics], "runs": runs})


def test_gathering__extra_runs_are_judged_by_the_policy_and_by_the_heads_thresholds() -> None:
    text = entry("threshold = 0.9")
    base = base_of([case("a", scores=[0.95])])
    more = [case("a", scores=[0.8], first_run=1)]
    others = [case("a", scores=[0.92, 0.8], first_run=1, threshold=0.7)]

    result = gathered([case("a", scores=[0.8])], base, text, more=MoreEvidence(head=more, base=others))

    assert (series(result).head_screen, series(result).head_confirm) == ((0.0,), (0.0,))
    assert series(result).base_confirm == (1.0, 0.0)


@pytest.mark.parametrize(("threshold", "kinds"), [(0.7, ["quarantined"]), (0.9, [])])
def test_gathering__a_quarantined_case_broke_only_if_the_base_reaches_todays_threshold(
    threshold: float, kinds: list[str]
) -> None:
    held = f'[[quarantine]]\ncase = "{FILE}:a"\nreason = "slow"\nowner = "@alice"\nexpires = 2999-01-01\n'
    base = base_of([case("a", scores=[0.8])])
    result = gathered(
        [case("a", scores=[0.6])], base, f"max-quarantined = 1\n{entry(f'threshold = {threshold}')}{held}"
    )
    assert [retrial.kind for retrial in result.retrials] == kinds


def test_gathering__a_metric_that_is_gone_is_no_improvement() -> None:
    base = base_of([with_second(case("a", scores=[0.9]), 0.0)])
    assert base.cases[0].outcomes == "0"
    assert series(gathered([case("a", scores=[0.9])], base)).base == (1.0,)


def entry(says: str, metric: str = SCORE) -> str:
    return f'[[policy]]\nmetric = "{metric}"\n{says}\n'


def test_gathering__a_score_is_compared_where_an_entry_names_it() -> None:
    base = base_of([case("a", scores=[0.91239])], [case("a", scores=[0.8])])
    result = gathered([case("a", scores=[0.70009])], base, entry("max-drop = 0.05"))

    # Rounded alike: else every score would be better than the same one stored.
    assert series(result, SCORE) == Series(head_screen=(0.7,), base=(0.9123, 0.8), base_days=("0", "1"), threshold=0.5)
    assert result.rules.cases == {f"{FILE}:a": {SCORE: MetricRule(max_drop=0.05)}}


def test_gathering__rules_of_the_policy() -> None:
    text = '[[policy]]\nalpha = 0.01\n[[policy]]\ncases = ":b"\nblocking = false\n'
    text += '[[policy]]\ncases = ":c"\nmax-drop = 0.1\n'
    text += entry("alpha = 0.2\nblocking = false")
    base = base_of([case(name, "1") for name in "abc"])

    rules = gathered([case(name, "1") for name in "abc"], base, text, rules=Rules(confirm_on_base="never")).rules

    assert (rules.alpha, rules.confirm_on_base, rules.metrics) == (0.01, "never", {PASS: MetricRule()})
    rule = MetricRule(alpha=0.2, blocking=False)
    assert rules.cases == {
        f"{FILE}:a": {SCORE: rule},
        f"{FILE}:b": {PASS: MetricRule(blocking=False), SCORE: rule},
        f"{FILE}:c": {PASS: MetricRule(max_drop=0.1), SCORE: MetricRule(alpha=0.2, blocking=False, max_drop=0.1)},
    }


def test_gathering__a_metric_that_only_informs_does_not_fail_a_case_on_either_side() -> None:
    base = base_of([case("a", "0")])
    result = gathered([case("a", "0")], base, entry("blocking = false"))
    assert (series(result).head_screen, series(result).base) == ((1.0,), (1.0,))


def test_gathering__what_is_comparable_without_any_gating_metric() -> None:
    bare = case("a", "1").model_copy(update={"metrics": []})
    assert set(comparable([bare], base_of([bare]))) == {f"{FILE}:a"}
