"""The words of the statistics, as people read them: they follow the plain numbers."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from comparison_samples import FOUND, decided, word_of
from report_samples import case, report

from agent_eval.report.phrases import change_label, suite_lines
from agent_eval.report.views.grouping import ChangeKind, View, view_of
from agent_eval.results.decision import CaseDecisionReport, CaseRunsReport, DecisionReport, SuiteTestReport
from agent_eval.results.origin import CaseWord


def seen(decision: DecisionReport) -> View:
    """A report with the decision on a case of this id."""
    made = report("failed", [case("a", "failed").model_copy(update={"case_id": "a"})])
    made.baseline, made.decision = FOUND, decision
    return view_of(made)


def kind_of(
    word: CaseWord,
    head: tuple[int, int],
    base: tuple[int, int],
    outcome: Literal["failed", "inconclusive"] = "failed",
    p_value: float | None = None,
) -> tuple[ChangeKind, str]:
    named = case("a", "failed").model_copy(update={"case_id": "a"})
    view = seen(decided(outcome, word_of(named, word, head, base, p_value=p_value)))
    return view.kind("a"), change_label(view.report.cases[0], view)[0]


@pytest.mark.parametrize(
    ("head", "p_value", "outcome", "kind", "label"),
    [
        ((0, 6), 0.001, "failed", "regression", "always fails"),
        ((0, 6), 0.001, "inconclusive", "suspected regression", "always fails, suspected regression"),
        ((1, 9), 0.04, "failed", "regression", "sometimes fails"),
        ((1, 9), 0.04, "inconclusive", "suspected regression", "sometimes fails, suspected regression"),
        ((4, 6), 0.2, "failed", "suspected regression", "sometimes fails, suspected regression"),
    ],
)
def test_case_words__what_fresh_runs_show_of_one_case_is_no_suspicion(
    head: tuple[int, int], p_value: float, outcome: Literal["failed", "inconclusive"], kind: ChangeKind, label: str
) -> None:
    assert kind_of("suspicious", head, (10, 10), outcome, p_value) == (kind, label)


@pytest.mark.parametrize("head", [(0, 1), (0, 3)])
def test_case_words__what_the_screening_alone_shows_is_a_suspicion(head: tuple[int, int]) -> None:
    """A case that failed at a bad moment and was not run again has no p-value, whatever the verdict."""
    assert kind_of("suspicious", head, (10, 10)) == ("suspected regression", "always fails, suspected regression")


def test_case_words__a_case_that_passes_whenever_it_runs_again_is_not_named() -> None:
    """The verdict rests on what fresh runs show: it can't be about a case that none of them shows."""
    means = {"head_mean": 1.0, "head_runs": 3, "base_mean": 1.0, "base_runs": 22}
    item = CaseDecisionReport(case_id="a", metric="pass", word="suspicious", again=True, **means)
    runs = CaseRunsReport(case_id="a", head_passed=3, head_runs=4, base_passed=22, base_runs=22)

    def kind(**more: Any) -> str:
        cases = [item.model_copy(update=more)]
        decision = DecisionReport(outcome="failed", alpha=0.05, cases=cases, runs=[runs])
        return seen(decision).kind("a")

    assert kind() == "passed again"
    assert kind(head_mean=2 / 3) == kind(lacks="budget") == kind(again=False) == "suspected regression"


def test_case_words__a_case_that_never_failed_on_main_is_not_flaky_there() -> None:
    assert kind_of("flaky as before", (6, 7), (10, 10))[0] == "passed again"
    assert kind_of("flaky as before", (6, 7), (8, 10))[0] == "flaky"


def test_case_words__numbers_from_a_strangers_file_cost_nothing() -> None:
    assert kind_of("suspicious", (1, 100_000), (100_000, 100_000))[0] == "suspected regression"
    with pytest.raises(ValueError, match="100000"):
        kind_of("suspicious", (1, 10**9), (1, 1))
    with pytest.raises(ValueError, match="more runs of 'a' passed than took place"):
        kind_of("suspicious", (5, 4), (1, 1))


def test_suite_lines__are_sentences_for_people_without_statistics() -> None:
    suite = SuiteTestReport(
        metric="pass", cases=9, drop=0.111, p_value=0.061, p_confirm=0.0004, p_adjusted=0.0008,
        minimum_detectable_drop=0.14,
    )  # fmt: skip
    lower = SuiteTestReport(metric="token_usage_v1", cases=2, drop=120.0, p_value=1.0, direction="lower")
    nothing = SuiteTestReport(metric="x", cases=0)
    decision = DecisionReport(outcome="failed", alpha=0.05, suites=[suite, lower, nothing], extra_runs=1)
    assert suite_lines(seen(decision)) == [
        "All 9 cases: 11.1 points fewer passes than on main. A difference like that happens by chance in 6.1% of "
        "unchanged pull requests. All of it together: at most 0.08%; the gate fails at 5%. Drops of the whole suite "
        "below about 14 points can go unseen.",
        "token_usage_v1 over both cases: 120.00 higher than on main.",
        "x over all 0 cases: nothing to compare.",
        "1 extra run was made to separate changes from chance.",
    ]
