"""Which group of the report lists a case, and with which sentence."""

from __future__ import annotations

from typing import Literal

import pytest
from comparison_samples import pull_request
from report_samples import RESPONSE, case, metric

from agent_eval.report.phrases import case_details
from agent_eval.report.phrases._headline import headline
from agent_eval.report.views import view_of
from agent_eval.results.decision import CaseDecisionReport, DecisionReport
from agent_eval.results.origin import CaseWord as Word
from agent_eval.results.report import CaseReport, RunReport


def failing(eval_id: str) -> CaseReport:
    return case(eval_id, "failed", metric(RESPONSE, 0.2, threshold=0.8))


def passing(eval_id: str) -> CaseReport:
    return case(eval_id, "passed", metric(RESPONSE, 0.9, threshold=0.8))


def decided(head: list[CaseReport], base: list[CaseReport], **words: Word) -> RunReport:
    """A report with a word for each case that is named."""
    actual = {item.eval_id: item.case_id for item in head}
    cases = [
        CaseDecisionReport(case_id=actual[name], metric="pass", word=word, evidence="") for name, word in words.items()
    ]
    return pull_request("failed", head, base, decision=DecisionReport(outcome="failed", alpha=0.05, cases=cases))


def groups_of(report: RunReport) -> dict[str, list[str]]:
    """The names in each group that has any."""
    actual = view_of(report).groups
    return {name: [item.eval_id for item in group] for name, group in vars(actual).items() if group}


def test_grouping__by_the_comparison_alone() -> None:
    head = [failing("broke"), failing("still"), passing("repaired"), passing("fine"), failing("new")]
    report = pull_request("failed", head, [passing("broke"), failing("still"), failing("repaired"), passing("fine")])

    assert groups_of(report) == {"worse": ["broke"], "failed": ["new"], "still": ["still"], "better": ["repaired"]}


def test_the_gates_word_counts_more__the_worst_first() -> None:
    names = ("lower", "gone", "noise", "dropped")
    head = [failing("lower"), failing("gone"), failing("noise"), passing("dropped")]
    report = decided(
        head, [passing(name) for name in names], lower="worse", gone="broken", noise="flaky as before", dropped="worse"
    )

    assert groups_of(report) == {"worse": ["gone", "lower", "dropped"], "flaky": ["noise"]}


@pytest.mark.parametrize("word", [None, "flaky as before"])
def test_what_blocks_is_reported_as_worse__whatever_its_runs_look_like(word: Word | None) -> None:
    words: dict[str, Word] = {} if word is None else {"a": word}
    report = decided([failing("a")], [failing("a")], **words)
    assert "worse" not in groups_of(report)

    report.gate, report.blocking = "regressions", [report.cases[0].case_id]

    assert groups_of(report) == {"worse": ["a"]}


@pytest.mark.parametrize("gate", ["thresholds", "both"])
@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        (None, "Blocks the merge: 1 of 2 cases fails as on main"),
        ("flaky as before", "Blocks the merge: 1 of 2 cases fails no more often than on main"),
    ],
)
def test_grouping__a_case_that_blocks_by_its_threshold_alone_is_no_regression(
    gate: Literal["thresholds", "both"], word: Word | None, sentence: str
) -> None:
    words: dict[str, Word] = {} if word is None else {"a": word}
    report = decided([failing("a"), passing("b")], [failing("a"), passing("b")], **words)
    report.gate, report.blocking = gate, [report.cases[0].case_id]

    assert groups_of(report) == {"failed": ["a"]}
    assert headline(view_of(report)) == sentence


@pytest.mark.parametrize("status", ["errored", "quarantined", "not_run"])
def test_grouping__what_was_not_judged_is_in_no_group_of_what_was(status: str) -> None:
    sample_case = failing("a").model_copy(update={"status": status})
    report = decided([sample_case], [passing("a")], a="worse")
    report.blocking = [sample_case.case_id]

    assert groups_of(report) == ({} if status == "not_run" else {status: ["a"]})


def test_grouping__the_smallest_p_value_of_the_screening_is_reported_as_it_is() -> None:
    """Of 9,999 deals it is 1 in 10,000."""
    report = decided([failing("a"), failing("b")], [passing("a"), passing("b")], a="worse", b="worse")
    assert report.decision is not None
    report.decision.cases[0].p_value, report.decision.cases[1].p_value = 0.0001, 0.00009
    view = view_of(report)

    assert [lines for _, lines in case_details(view)] == [
        ["chance alone does this to at most 0.01% of unchanged cases"],
        ["chance alone does this to at most 0.01% of unchanged cases"],
    ]
