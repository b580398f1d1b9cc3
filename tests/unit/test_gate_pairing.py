"""One matcher of head and base cases, for the comparison and for the statistics; and what a selection leaves out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from history_samples import compare, said
from report_samples import case, metric, report

from agent_eval.gate import diff
from agent_eval.gate.history.records import extend
from agent_eval.gate.pairing import pair_up
from agent_eval.gate.regression import comparable_cases
from agent_eval.results.history import HistoryReport
from agent_eval.results.report import CaseReport, RunReport, SelectionReport, TargetReport


def asks(file: str, eval_id: str, content: str) -> CaseReport:
    report = case(eval_id, "passed", metric("response_match_score", 1.0, threshold=0.8), file=file)
    report.fingerprint = content
    report.metrics[0].fingerprint = "measures"
    return report


def run(cases: Sequence[CaseReport], selection: SelectionReport | None = None) -> RunReport:
    return report("passed", list(cases)).model_copy(update={"selection": selection})


def selected(*targets: str, exclude: Sequence[str] = ()) -> SelectionReport:
    named = [target.partition(":") for target in targets]
    return SelectionReport(
        targets=[TargetReport(path=path, ids=ids.split(",") if ids else []) for path, _, ids in named],
        exclude=list(exclude),
    )


def matched(
    head: RunReport, base: RunReport, history: HistoryReport | None = None
) -> tuple[dict[str, str | None], dict[str, str]]:
    """Renamed cases by the comparison, and by the statistics."""
    history = history or extend(None, base)
    pairing = pair_up(head.cases, base.cases, head.selection, base.selection, history.cases)
    compared = {case.case_id: case.renamed_from for case in diff.compare(head, base, pairing, history).cases}
    comparable = comparable_cases(head.cases, history, pairing.stored)
    return (
        {case_id: name for case_id, name in compared.items() if name is not None},
        {case_id: pair.history.case_id for case_id, pair in comparable.items() if pair.history.case_id != case_id},
    )


@pytest.mark.parametrize(
    ("head", "base", "pairs"),
    [
        ([("new", "a"), ("new", "b")], [("old", "a"), ("old", "b")], {"new:a": "old:a", "new:b": "old:b"}),
        ([("new", "a")], [("old", "z")], {"new:a": "old:z"}),
        ([("new", "a"), ("new", "b")], [("old", "y"), ("old", "z")], {}),
        ([("new", "a"), ("new", "b")], [("old", "a"), ("old", "z")], {"new:a": "old:a", "new:b": "old:z"}),
        ([("f", "a"), ("f", "b")], [("f", "a")], {}),
        ([("f", "b")], [("f", "a"), ("g", "a")], {}),
    ],
)
def test_match__comparison_and_statistics_agree(
    head: list[tuple[str, str]], base: list[tuple[str, str]], pairs: dict[str, str]
) -> None:
    """All of these cases have the same content."""
    head_run, base_run = (run([asks(file, eval_id, "same") for file, eval_id in side]) for side in (head, base))
    assert matched(head_run, base_run) == (pairs, pairs)


SUITE = [
    asks(file, eval_id, f"{file} {eval_id}")
    for file in ("evals/a.test.json", "evals/deep/b.test.json", "other/c.test.json")
    for eval_id in ("x", "y")
]


@pytest.mark.parametrize(
    ("selection", "here"),
    [
        (selected("evals/a.test.json"), {"evals/a.test.json:x", "evals/a.test.json:y"}),
        (selected("evals:x"), {"evals/a.test.json:x", "evals/deep/b.test.json:x"}),
        (selected("evals/*.test.json:[xz]"), {"evals/a.test.json:x"}),
        (selected(".", exclude=["deep/", "/other"]), {"evals/a.test.json:x", "evals/a.test.json:y"}),
        (
            selected("evals/deep/**", "**/c.*", exclude=["other"]),
            {f"evals/deep/b.test.json:{item}" for item in "xy"},
        ),
        (selected("other", "other/c.test.json:x"), {"other/c.test.json:x"}),
    ],
)
def test_compare__selection_leaves_the_rest_alone(selection: SelectionReport, here: set[str]) -> None:
    head = run([entry for entry in SUITE if entry.case_id in here], selection)
    comparison = compare(head, run(SUITE))
    left = len(SUITE) - len(here)
    what = "1 case" if left == 1 else f"{left} cases"
    assert (comparison.cases, comparison.compared) == ([], len(here))
    assert [*map(said, comparison.notes)] == [
        f"{what} of the base branch not compared: this run is limited by paths or patterns."
    ]
    # What is missing inside of the selection is still reported.
    missing = sorted(here)[0]
    fewer = run([entry for entry in head.cases if entry.case_id != missing], selection)
    assert [(entry.case_id, entry.change) for entry in compare(fewer, run(SUITE)).cases] == [(missing, "removed")]


def test_match__case_outside_of_the_selection_was_not_renamed() -> None:
    head = run([asks("new.test.json", "a", "same")], selected("new.test.json"))
    base = run([asks("old.test.json", "a", "same")])
    assert matched(head, base) == ({}, {})
    assert matched(head.model_copy(update={"selection": None}), base)[0] == {"new.test.json:a": "old.test.json:a"}


def test_match__comparison_and_statistics_agree_where_the_last_run_was_limited() -> None:
    """Stored runs have a case that the base's last run left out: which of the two was renamed is unknown to both."""
    history = extend(None, run([asks("old", "y", "same"), asks("old", "z", "same")]))
    base = run([asks("old", "y", "same")], selected("old:y"))
    assert matched(run([asks("new", "a", "same")]), base, history) == ({}, {})
    assert matched(run([asks("new", "z", "same")]), base, history) == ({}, {"new:z": "old:z"})


def test_compare__case_that_the_base_did_not_select_is_not_new() -> None:
    comparison = compare(run(SUITE), run(SUITE[:2], selected("evals/a.test.json")))
    assert {(change.change, said(change.note)) for change in comparison.cases} == {
        ("unjudged", "was not part of the base branch's run")
    }
    assert len(comparison.cases) == 4


def test_extend__run_of_a_selection_keeps_the_rest() -> None:
    history = extend(None, run(SUITE))
    item = run(SUITE[:1], selected("evals/a.test.json:x")).model_copy(update={"started_at": 1_800_000_000.0})
    assert {case.case_id for case in extend(history, item).cases} == {case.case_id for case in SUITE}
