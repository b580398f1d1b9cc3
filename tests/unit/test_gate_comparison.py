"""A run compared with the base branch's."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

import pytest
from gate_play import Story, play
from history_samples import FILE, SCORE, case, comparable, compare, history_of, report, said
from hypothesis import given
from hypothesis import strategies as st
from policy_texts import entry, quarantine, valid_policy
from report_samples import RESPONSE, TRAJECTORY, crash, good, metric, outage
from report_samples import case as scored_case
from report_samples import report as scored_report

from agent_eval.gate import diff
from agent_eval.gate.history.records import extend
from agent_eval.gate.pairing import pair_up
from agent_eval.gate.policy import MOST_DAYS
from agent_eval.gate.policy_checks import check_policy
from agent_eval.gate.regression import comparable_cases
from agent_eval.gate.regression.gathering import Gathered, MoreEvidence, gather
from agent_eval.gate.regression.rescoring import apply_policy
from agent_eval.gate.regression.retrial import ERROR_RUNS, FAILURES, RUNS, Retrial, is_constant_error, outcomes
from agent_eval.gate.stats.decision import MetricRule, Rules
from agent_eval.gate.stats.samples import PASS, Series
from agent_eval.results.comparison import CaseComparison, Change, ComparisonReport
from agent_eval.results.history import HistoryReport
from agent_eval.results.recording import RunError
from agent_eval.results.report import (
    CaseReport,
    CaseStatus,
    CaseUsageReport,
    MetricReport,
    Reason,
    RunReport,
    SelectionReport,
    TargetReport,
)

# Head against base: what is compared, what is listed apart, and that nothing else gives a delta.


def known(eval_id: str, status: CaseStatus, *metrics: MetricReport, content: str = "", **more: object) -> CaseReport:
    """A case that tells what it asks."""
    report = scored_case(eval_id, status, *metrics, **more)  # type: ignore[arg-type]
    report.fingerprint = content or f"asks-{eval_id}"
    for each in report.metrics:
        each.fingerprint = each.fingerprint or f"measures-{each.name}"
    return report


def scored(eval_id: str, score: float | None, *, threshold: float = 0.8, **more: object) -> CaseReport:
    status: CaseStatus = "errored" if score is None else "passed" if score >= threshold else "failed"
    return known(eval_id, status, metric(RESPONSE, score, threshold=threshold), **more)  # type: ignore[arg-type]


def run_of(*cases: CaseReport, **changes: object) -> RunReport:
    return scored_report("passed", list(cases)).model_copy(update=changes)


def only(comparison: ComparisonReport) -> CaseComparison:
    (change,) = comparison.cases
    return change


def test_compare__a_case_that_passed_and_fails_is_newly_failing() -> None:
    comparison = compare(run_of(scored("a", 0.5), scored("b", 0.9)), run_of(scored("a", 1.0), scored("b", 0.9)))
    change = only(comparison)
    assert (change.eval_id, change.change, change.head, change.base) == ("a", "newly_failing", "failed", "passed")
    (row,) = change.metrics
    assert (row.name, row.score.head, row.score.base, row.score.delta) == (RESPONSE, 0.5, 1.0, -0.5)
    assert (comparison.compared, comparison.unchanged) == (2, 1)
    assert (comparison.pass_rate.head, comparison.pass_rate.base) == (0.5, 1.0)
    (mean,) = comparison.metrics
    assert (mean.cases, mean.score.head, mean.score.base) == (2, 0.7, 0.95)
    assert mean.note is None


def test_compare__a_metric_that_only_informs_explains_no_failure() -> None:
    informs = metric(TRAJECTORY, 0.0, threshold=1.0).model_copy(update={"blocking": False})

    def of(score: float, measures: str) -> CaseReport:
        status: CaseStatus = "passed" if score > 0.8 else "failed"
        other = informs.model_copy(update={"fingerprint": measures})
        return known("a", status, metric(RESPONSE, score, threshold=0.8), other)

    assert only(compare(run_of(of(0.9, "new")), run_of(of(0.1, "old")))).change == "fixed"


def test_compare__added_removed_and_changed_give_no_delta() -> None:
    head = run_of(scored("new", 0.1), scored("edited", 0.2, content="other words"), scored("same", 0.9))
    base = run_of(scored("gone", 0.1), scored("edited", 0.9), scored("same", 0.9))
    comparison = compare(head, base)
    changes = [(change.eval_id, change.change, change.head, change.base, change.metrics) for change in comparison.cases]
    assert changes == [
        ("new", "added", "failed", None, []),
        ("edited", "changed", "failed", "passed", []),
        ("gone", "removed", None, "failed", []),
    ]
    assert comparison.compared == comparison.unchanged == comparison.metrics[0].cases == 1
    assert comparison.pass_rate.delta == 0


def test_compare__a_renamed_case_is_compared_with_its_former_self() -> None:
    head = run_of(scored("lamp_off", 0.3, content="x"), scored("fan", 0.9, content="y", file="tests/new.test.json"))
    base = run_of(scored("lamp", 0.9, content="x"), scored("fan", 0.9, content="y", file="tests/old.test.json"))
    comparison = compare(head, base)
    lamp, fan = comparison.cases
    assert (lamp.change, lamp.renamed_from) == ("newly_failing", base.cases[0].case_id)
    assert (fan.change, fan.renamed_from) == ("renamed", "tests/old.test.json:fan")
    assert comparison.unchanged == 1


@pytest.mark.parametrize("other", ["errored", "not_run", "quarantined"])
def test_compare__a_side_without_a_result_gives_no_delta(other: CaseStatus) -> None:
    failing, odd = scored("a", 0.1), known("a", other, metric(RESPONSE, 0.4, threshold=0.8))
    for head, base in ((failing, odd), (odd, failing), (odd, odd)):
        comparison = compare(run_of(head), run_of(base))
        change = only(comparison)
        assert change.change == "unjudged"
        assert change.note
        assert comparison.pass_rate.head is None
        if other != "quarantined":
            assert comparison.metrics[0].cases == 0
            assert comparison.metrics[0].score.delta is None
            assert said(comparison.metrics[0].note) == "the case could not be evaluated on one of the sides"


def test_compare__an_outage_is_not_a_failure_and_a_crash_is() -> None:
    failing = run_of(*(item.model_copy(update={"fingerprint": "f"}) for item in (outage(), crash())))
    fine = run_of(*(item.model_copy(update={"status": "passed", "metrics": []}) for item in failing.cases))
    assert [change.change for change in compare(failing, fine).cases] == ["unjudged", "newly_failing"]
    assert [change.change for change in compare(fine, failing).cases] == ["unjudged", "fixed"]


def with_judge(score: float, judge: str, fingerprint: str = "") -> CaseReport:
    report = scored("a", score)
    report.metrics[0].judge = judge
    report.metrics[0].fingerprint = fingerprint or f"asked of {judge}"
    return report


GOOD, LOW = metric(RESPONSE, 0.9, threshold=0.8), metric(RESPONSE, 0.2, threshold=0.8)
WITHOUT_KEY = metric(RESPONSE, None, threshold=0.8, reason=Reason(code="no-key", message="no key"))
CALLS, NO_CALLS = metric(TRAJECTORY, 1.0, threshold=1.0), metric(TRAJECTORY, 0.0, threshold=1.0)


PASSES, NEW_FAILS = known("a", "passed", GOOD), known("a", "failed", GOOD, NO_CALLS)
UNLIKE: dict[str, tuple[CaseReport, CaseReport, str | None, str | None]] = {
    "another judge": (
        with_judge(0.2, "gemini-3"),
        with_judge(0.9, "gemini-2"),
        f"{RESPONSE} fails, and its judge is another one than on the base",
        "its judge is gemini-3, on the base gemini-2",
    ),
    "other options": (
        with_judge(0.9, "g", "one"),
        with_judge(0.8, "g", "two"),
        None,
        "its options, or what its judge is asked, have changed since the base",
    ),
    "a new criterion": (NEW_FAILS, PASSES, f"{TRAJECTORY} fails, and it is no criterion on the base", None),
    "a removed criterion": (
        PASSES,
        NEW_FAILS,
        f"{TRAJECTORY} failed on the base, and it is no criterion any more",
        None,
    ),
    "without a key": (
        known("a", "passed", WITHOUT_KEY, CALLS),
        known("a", "failed", LOW, CALLS),
        f"{RESPONSE} failed on the base, and it was not evaluated on one of the sides",
        "it was not evaluated",
    ),
}


@pytest.mark.parametrize("what", UNLIKE)
def test_compare__what_is_not_measured_alike_is_not_held_against_a_case(what: str) -> None:
    head, base, note, of_response = UNLIKE[what]
    comparison = compare(run_of(head), run_of(base))
    assert [(change.change, said(change.note)) for change in comparison.cases] == [("unjudged", note)] * bool(note)
    [row] = [row for row in comparison.metrics if row.name == RESPONSE]
    assert said(row.note) == of_response
    assert (row.score.delta is None, row.cases) == ((True, 0) if of_response else (False, 1))


def test_compare__other_rules_make_all_scores_incomparable() -> None:
    comparison = compare(run_of(scored("a", 0.2)), run_of(scored("a", 0.9), scoring_version=0))
    assert only(comparison).change == "unjudged"
    assert comparison.metrics[0].score.delta is None
    message = "The base was scored by other rules (scoring version 0, now 1): no scores are compared."
    assert comparison.notes[0].message == message


def test_compare__another_threshold_is_reported() -> None:
    head, base = scored("a", 0.85, threshold=0.9), scored("a", 0.85, threshold=0.8)
    comparison = compare(run_of(head), run_of(base))
    change = only(comparison)
    assert change.change == "newly_failing"
    assert said(change.metrics[0].note) == "needs 0.9, on the base 0.8"
    assert [*map(said, comparison.notes)] == [f"The threshold of {RESPONSE} was raised from 0.8 to 0.9 (1 case)."]
    assert (comparison.metrics[0].threshold, comparison.metrics[0].base_threshold) == (0.9, 0.8)


def test_compare__files_without_fingerprints_are_compared_by_name_with_a_note() -> None:
    old = run_of(good("a"), good("b"))
    comparison = compare(run_of(scored("a", 0.1), good("b")), old)
    assert [change.change for change in comparison.cases] == ["newly_failing"]
    assert [*map(said, comparison.notes)] == [
        "2 cases were compared by name alone: one of the results does not say what was asked."
    ]


def test_compare__costs_tokens_and_seconds() -> None:
    head = run_of(scored("a", 0.9, runs=2, duration=3.0), scored("new", 0.9, duration=99.0))
    base = run_of(scored("a", 0.9, duration=1.0))
    head.cases[0].runs[0].usage.output_tokens = 164
    head.case_usage = [
        CaseUsageReport(case_id="a", purpose=purpose, model="m", calls=3, cost=cost)
        for purpose, cost in (("agent", 0.25), ("safety_v1", 0.5), ("agent-again", 9.0), ("agent-base", 9.0))
    ]
    base.case_usage = [CaseUsageReport(case_id="a", purpose="agent", model="m", calls=3, cost=None)]
    comparison = compare(head, base)
    assert (comparison.duration.head, comparison.duration.base) == (3.0, 1.0)
    assert (comparison.tokens.head, comparison.tokens.base) == (926.0, 876.0)
    assert (comparison.cost.head, comparison.cost.base) == (0.75, None)


def test_compare__largest_drops_of_what_still_passes() -> None:
    head = run_of(*(scored(f"c{n}", 1 - n / 100) for n in range(15)))
    base = run_of(*(scored(f"c{n}", 1.0) for n in range(15)))
    comparison = compare(head, base)
    assert comparison.cases == []
    assert [drop.eval_id for drop in comparison.drops] == [f"c{n}" for n in range(14, 4, -1)]
    assert comparison.drops[0].score.delta == pytest.approx(-0.14)


def test_compare__how_often_cases_ran_is_reported() -> None:
    comparison = compare(run_of(scored("a", 0.9), num_runs=3, min_pass_rate=0.5), run_of(scored("a", 0.9), num_runs=1))
    assert [*map(said, comparison.notes)] == [
        "Each case ran 3 times now and once on the base.",
        "min-pass-rate is 0.5 now and was 1 on the base.",
    ]


@pytest.mark.nightly
def test_compare__thousands_of_cases() -> None:
    head, base = (
        run_of(*(scored(f"c{n}", 0.5 if (n + shift) % 10 == 0 else 0.9) for n in range(3_000))) for shift in (0, 1)
    )
    start = time.process_time()
    comparison = compare(head, base)
    assert time.process_time() - start < 3
    assert len(comparison.cases) == 600


STATUSES: list[CaseStatus] = ["passed", "failed", "errored", "not_run", "quarantined"]


@st.composite
def runs(draw: st.DrawFn) -> RunReport:
    cases = []
    for name in draw(st.lists(st.sampled_from("abcdef"), unique=True)):
        content = draw(st.sampled_from(["", "x", "y", name]))
        metrics = []
        for metric_name in draw(st.lists(st.sampled_from(["m", "n"]), unique=True)):
            score = metric(
                metric_name,
                draw(st.sampled_from([None, 0.0, 0.5, 1.0])),
                threshold=draw(st.sampled_from([None, 0.5, 0.8])),
            )
            score.judge = draw(st.sampled_from([None, "g"]))
            score.fingerprint = draw(st.sampled_from(["", "o", "p"]))
            metrics.append(score)
        report = scored_case(name, draw(st.sampled_from(STATUSES)), *metrics)
        report.fingerprint = content
        cases.append(report)
    return run_of(*cases, num_runs=draw(st.sampled_from([1, 3])))


@given(runs())
def test_compare__a_run_with_itself_has_no_change(run: RunReport) -> None:
    comparison = compare(run, run)
    assert {change.change for change in comparison.cases} <= {"still_failing", "unjudged"}
    assert comparison.compared == len(run.cases)
    assert all(row.score.delta in {None, 0.0} for row in comparison.metrics)
    assert {comparison.pass_rate.delta, comparison.duration.delta, comparison.tokens.delta} <= {None, 0.0}
    assert comparison.drops == []


@given(runs(), runs())
def test_compare__both_directions_agree(left: RunReport, right: RunReport) -> None:
    there, back = compare(left, right), compare(right, left)
    pairs: list[tuple[Change, Change]] = [("newly_failing", "fixed"), ("added", "removed")]
    mirrored = {one: other for pair in pairs for one, other in (pair, pair[::-1])}
    forth = Counter(mirrored.get(change.change, change.change) for change in there.cases)
    again = Counter(change.change for change in back.cases)
    same: list[Change] = ["added", "removed", "changed", "still_failing"]
    assert {name: forth[name] for name in same} == {name: again[name] for name in same}
    # What counts as newly failing needs one criterion that both sides measure; fixed needs all of them.
    flips: list[Change] = ["newly_failing", "fixed", "unjudged", "renamed"]
    assert sum(forth[name] for name in flips) == sum(again[name] for name in flips)
    assert there.compared == back.compared
    assert there.unchanged == back.unchanged
    for row in there.metrics:
        for mirror in back.metrics:
            if row.name == mirror.name and row.score.delta is not None and mirror.score.delta is not None:
                assert row.score.delta == pytest.approx(-mirror.score.delta) or row.cases != mirror.cases


@given(runs(), runs())
def test_compare__every_case_is_in_one_place(left: RunReport, right: RunReport) -> None:
    comparison = compare(left, right)
    present = [change.case_id for change in comparison.cases if change.change != "removed"]
    assert len({*present}) == len(present)
    fresh = sum(change.change in {"added", "changed"} for change in comparison.cases)
    assert comparison.compared + fresh == len(left.cases)
    for change in comparison.cases:
        if change.change in {"added", "removed", "changed"} or {change.head, change.base} & {"errored", "not_run"}:
            assert all(row.score.delta is None for row in change.metrics)
    stored = comparison.model_dump_json()
    assert ComparisonReport.model_validate_json(stored).model_dump_json() == stored


def test_comparison__remarks_of_older_files_have_only_their_text() -> None:
    stored = compare(run_of(scored("a", 0.9)), run_of(scored("a", 0.9))).model_dump(mode="json")
    stored["metrics"][0]["note"] = "Each case ran twice."
    stored["notes"] = ["Each case ran twice."]
    older = ComparisonReport.model_validate(stored)
    assert [said(older.notes[0]), said(older.metrics[0].note)] == ["Each case ran twice."] * 2


# -- the base's numbers are means over its stored runs, not those of one run


def coin(*scores: float, day: int = 0) -> RunReport:
    return report(case("coin", scores=scores), day=day, num_runs=len(scores))


def against(head: RunReport, *days: RunReport) -> ComparisonReport:
    return compare(head, days[-1], history_of(*days))


def test_stored_means__the_base_is_a_mean_of_its_runs() -> None:
    comparison = against(coin(1.0), *(coin(score, day=day) for day, score in enumerate((1.0, 0.0, 1.0, 0.0))))
    assert comparison.pass_rate.head == 1.0
    assert comparison.pass_rate.base == 0.5, "the last run alone would say 0"
    assert comparison.metrics[0].score.base == 0.5
    assert comparison.base_records == 4
    assert [change.change for change in comparison.cases] == ["fixed"], "what became of a case is its last run's word"


@pytest.mark.parametrize(("min_pass_rate", "base"), [(1.0, 0.5), (0.6, 1.0)])
def test_stored_means__several_runs_of_one_day_are_one_verdict(min_pass_rate: float, base: float) -> None:
    days = coin(1.0, 1.0, 0.0), coin(1.0, 1.0, 1.0, day=1).model_copy(update={"min_pass_rate": min_pass_rate})
    assert against(coin(1.0), *days).pass_rate.base == base


def test_stored_means__rounding_in_the_store_is_no_change() -> None:
    score = 0.912345678
    assert against(coin(score), coin(score), coin(score, day=1)).metrics[0].score.delta == 0


@pytest.mark.parametrize("what", ["other content", "other version", "none"])
def test_stored_means__stored_runs_that_say_nothing_are_left_out(what: str) -> None:
    head, *days = coin(1.0), coin(1.0), coin(0.0, day=1)
    history = history_of(*days)
    if what == "other content":
        head.cases[0].fingerprint = days[1].cases[0].fingerprint = "other"
    history.scoring_version += what == "other version"
    comparison = compare(head, days[1], None if what == "none" else history)
    assert (comparison.pass_rate.base, comparison.base_records) == (0.0, 1)


# One matcher of head and base cases, for the comparison and for the statistics; and what a selection leaves out.


def asks(file: str, eval_id: str, content: str) -> CaseReport:
    return scored(eval_id, 1.0, content=content, file=file)


def run(cases: Sequence[CaseReport], selection: SelectionReport | None = None) -> RunReport:
    return run_of(*cases, selection=selection)


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
    """All of these cases have the same content: twins are renamed only if their names tell."""
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


# What the statistics are given: both sides judged alike, and only what both have measured.


def base_of(*days: Sequence[CaseReport], num_runs: int = 1) -> HistoryReport:
    return history_of(*(report(*cases, day=day, num_runs=num_runs) for day, cases in enumerate(days)))


def gathered(
    head: Sequence[CaseReport], base: HistoryReport, text: str = "", num_runs: int = 1, **more: Any
) -> Gathered:
    policy = valid_policy(text)
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
    old = base_of([case("a", "1")]).model_copy(update={"scoring_version": 0})
    for base in (base_of([]), old):
        assert gathered([case("a", "0")], base).evidence == ()


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
    base = base_of([case("a", scores=[0.8])])
    text = f"max-quarantined = 1\n{entry(f'threshold = {threshold}')}{quarantine(':a', '2999-01-01')}"
    result = gathered([case("a", scores=[0.6])], base, text)
    assert [retrial.kind for retrial in result.retrials] == kinds


def test_gathering__a_metric_that_is_gone_is_no_improvement() -> None:
    base = base_of([with_second(case("a", scores=[0.9]), 0.0)])
    assert base.cases[0].outcomes == "0"
    assert series(gathered([case("a", scores=[0.9])], base)).base == (1.0,)


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


# What can't be compared with the base runs again before it blocks.

BASE = {f"c{index}": "1" * 20 for index in range(9)}
HEAD = dict.fromkeys(BASE, "1")


@pytest.mark.parametrize("what", ["new", "changed", "new metric"])
@pytest.mark.parametrize(("again", "verdict", "spent"), [("0", "failed", 6), ("1", "passed", 6), ("01", "passed", 12)])
def test_retrial__a_case_that_can_not_be_compared_blocks_only_if_it_fails_again(
    what: str, again: str, verdict: str, spent: int
) -> None:
    failing = {
        "new": case("x", "0"),
        "changed": case("x", "0", fingerprint="another question"),
        "new metric": case("x", "0", metric="another_score", measures="m2"),
    }[what]
    base = BASE if what == "new" else {**BASE, "x": "1" * 20}
    played = play(Story(base=base, head=HEAD, heads=[failing], more={"x": again}))

    assert played.verdict.value == verdict
    assert 0 < played.spent <= spent
    if verdict == "passed":
        assert "failed-at-first" in played.notes
    else:
        assert played.verdict.reasons[0].code in {"not-comparable", "metric-not-comparable"}


def test_retrial__without_runs_it_is_undecided_and_not_green() -> None:
    played = play(Story(base=BASE, head=HEAD, heads=[case("x", "0")], extra_runs=0))
    assert (played.verdict.value, [reason.code for reason in played.verdict.reasons]) == ("inconclusive", ["budget"])


@pytest.mark.parametrize(("base", "again", "verdict"), [("0" * 10, "1", "passed"), ("0" * 10, "x", "failed")])
def test_retrial__an_agent_error_on_a_case_that_always_fails_on_the_base(base: str, again: str, verdict: str) -> None:
    """It gets no confirmation, since there is nothing to compare, and blocked at once."""
    played = play(Story(base={**BASE, "x": base}, head={**HEAD, "x": "x"}, more={"x": again}))
    assert played.verdict.value == verdict
    assert 0 < played.spent <= ERROR_RUNS


def test_retrial__a_file_of_broken_new_cases_does_not_use_up_the_budget() -> None:
    news = [case(f"n{index}", "0") for index in range(30)]
    played = play(
        Story(base=BASE, head=HEAD, heads=news, more={new_case.eval_id: "0" for new_case in news}, extra_runs=400)
    )
    assert played.verdict.value == "failed"
    assert played.spent <= 30 * 6
    assert len(played.verdict.blocking) == 30


def test_retrial__a_tolerant_pass_rate_is_kept() -> None:
    runs = (True,) * 12 + (False,) * 3
    strict, tolerant = (Retrial(case_id="a", kind="case", failed=runs, min_pass_rate=rate) for rate in (1.0, 0.2))
    assert (strict.outcome, tolerant.outcome) == ("again", "gone")


def test_retrial__nine_new_cases_of_thirty_are_rarely_red() -> None:
    """Pass rates of the mixed suite; the whole gate's error rate is in docs/statistics.md."""
    draw = random.Random(3)
    red = 0
    for _ in range(2000):
        rates = draw.choices((1.0, 0.95, 0.8, 0.5), (60, 20, 15, 5), k=9)
        failing = [rate for rate in rates if draw.random() >= rate]
        tried = [
            Retrial(case_id=str(at), kind="case", failed=tuple(draw.random() >= rate for _ in range(RUNS)))
            for at, rate in enumerate(failing)
        ]
        early = [all(retrial.failed[:6]) for retrial in tried]
        red += any(early) or any(sum(retrial.failed) >= FAILURES for retrial in tried)
        assert set(outcomes(tried).values()) <= {"again", "gone"}
    assert red / 2000 <= 0.04


@pytest.mark.parametrize(("again", "broken"), [("0", True), ("01", False)])
def test_quarantine__a_case_that_breaks_entirely_is_reported_first(again: str, broken: bool) -> None:
    story = Story(
        base={**BASE, "x": "1101" * 5},
        head={**HEAD, "x": "0"},
        more={"x": again},
        policy=f"max-quarantined = 0.2\n{quarantine(':x')}",
    )
    played = play(story)
    assert played.verdict.value == "passed"
    assert ("quarantined-broken" in played.notes) is broken
    if broken:
        assert played.verdict.notes[0].code == "quarantined-broken"
        assert f"{FILE}:x" in played.verdict.notes[0].message


@pytest.mark.parametrize(("days", "codes"), [(MOST_DAYS, []), (MOST_DAYS + 1, ["quarantine-too-long"])])
def test_quarantine__an_end_far_away_is_refused(days: int, codes: list[str]) -> None:
    today = date(2026, 11, 21)
    policy = valid_policy(quarantine(":x", (today + timedelta(days=days)).isoformat()))
    findings = check_policy(policy, [], today=today)
    assert [finding.code for finding in findings if finding.code.startswith("quarantine")] == codes


@pytest.mark.parametrize(
    ("messages", "constant"),
    [
        (["KeyError: 'garage'"] * 3, True),
        (["KeyError: 'garage'"] * 2, False),
        (["no <Tool object at 0x7f12ab>", "no <Tool object at 0x99>", "no <Tool object at 0x0>"], True),
        ([f"port {4321 * n} of 123e4567-e89b-12d3-a456-42661417400{n}" for n in (1, 2, 3)], True),
        (["HTTP 500", "HTTP 404", "HTTP 500"], False),
    ],
)
def test_is_constant_error__compares_kind_and_message_without_ids(messages: list[str], constant: bool) -> None:
    broken = case("x", "x" * len(messages))
    for run, message in zip(broken.runs, messages, strict=True):
        run.error = RunError(kind="agent-exception", owner="agent", message=message)

    assert is_constant_error([broken]) == constant
    assert not is_constant_error([broken, case("x", "1", first_run=9)])
    assert not is_constant_error([broken, case("x", "c", first_run=9)])
    assert is_constant_error([broken, case("x", "p", first_run=9)]) == constant  # An outage says nothing.
