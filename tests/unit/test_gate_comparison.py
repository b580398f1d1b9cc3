"""Head against base: what is compared, what is listed apart, and that nothing else gives a delta."""

from __future__ import annotations

import time
from collections import Counter

import history_samples
import pytest
from history_samples import compare, said
from hypothesis import given
from hypothesis import strategies as st
from report_samples import RESPONSE, TRAJECTORY, case, crash, good, metric, outage, report

from agent_eval.results.comparison import CaseComparison, Change, ComparisonReport
from agent_eval.results.report import CaseReport, CaseStatus, CaseUsageReport, MetricReport, Reason, RunReport


def known(eval_id: str, status: CaseStatus, *metrics: MetricReport, content: str = "", **more: object) -> CaseReport:
    """A case that tells what it asks."""
    report = case(eval_id, status, *metrics, **more)  # type: ignore[arg-type]
    report.fingerprint = content or f"asks-{eval_id}"
    for each in report.metrics:
        each.fingerprint = each.fingerprint or f"measures-{each.name}"
    return report


def scored(eval_id: str, score: float | None, *, threshold: float = 0.8, **more: object) -> CaseReport:
    status: CaseStatus = "errored" if score is None else "passed" if score >= threshold else "failed"
    return known(eval_id, status, metric(RESPONSE, score, threshold=threshold), **more)  # type: ignore[arg-type]


def run_of(*cases: CaseReport, **changes: object) -> RunReport:
    return report("passed", list(cases)).model_copy(update=changes)


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


def test_compare__twins_are_not_taken_for_renamed_unless_their_names_tell() -> None:
    twins = [scored(name, 0.9, content="x", file="tests/a.test.json") for name in ("one", "two")]
    moved = [scored(name, 0.9, content="x", file="tests/b.test.json") for name in ("one", "two")]
    others = [scored(name, 0.9, content="x", file="tests/b.test.json") for name in ("three", "four")]
    assert Counter(change.change for change in compare(run_of(*moved), run_of(*twins)).cases) == {"renamed": 2}
    apart = compare(run_of(*others), run_of(*twins))
    assert Counter(change.change for change in apart.cases) == {"added": 2, "removed": 2}


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


@pytest.mark.parametrize(
    ("head", "base", "note", "of_response"),
    [
        (
            with_judge(0.2, "gemini-3"),
            with_judge(0.9, "gemini-2"),
            f"{RESPONSE} fails, and its judge is another one than on the base",
            "its judge is gemini-3, on the base gemini-2",
        ),
        (
            with_judge(0.9, "g", "one"),
            with_judge(0.8, "g", "two"),
            None,
            "its options, or what its judge is asked, have changed since the base",
        ),
        (
            known("a", "failed", GOOD, NO_CALLS),
            known("a", "passed", GOOD),
            f"{TRAJECTORY} fails, and it is no criterion on the base",
            None,
        ),
        (
            known("a", "passed", GOOD),
            known("a", "failed", GOOD, NO_CALLS),
            f"{TRAJECTORY} failed on the base, and it is no criterion any more",
            None,
        ),
        (
            known("a", "passed", WITHOUT_KEY, CALLS),
            known("a", "failed", LOW, CALLS),
            f"{RESPONSE} failed on the base, and it was not evaluated on one of the sides",
            "it was not evaluated",
        ),
    ],
    ids=["another judge", "other options", "a new criterion", "a removed criterion", "without a key"],
)
def test_compare__what_is_not_measured_alike_is_not_held_against_a_case(
    head: CaseReport, base: CaseReport, note: str | None, of_response: str | None
) -> None:
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
        report = case(name, draw(st.sampled_from(STATUSES)), *metrics)
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
    mirrored: dict[Change, Change] = {
        "newly_failing": "fixed",
        "fixed": "newly_failing",
        "added": "removed",
        "removed": "added",
    }
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
    assert len({change.case_id for change in comparison.cases if change.change != "removed"}) == len(
        [change for change in comparison.cases if change.change != "removed"]
    )
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
    return history_samples.report(history_samples.case("coin", scores=scores), day=day, num_runs=len(scores))


def against(head: RunReport, *days: RunReport) -> ComparisonReport:
    return compare(head, days[-1], history_samples.history_of(*days))


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
    days = coin(1.0), coin(0.0, day=1)
    history = history_samples.history_of(*days) if what != "none" else None
    head = coin(1.0)
    if history is not None and what == "other content":
        head.cases[0].fingerprint = days[1].cases[0].fingerprint = "other"
    elif history is not None:
        history.scoring_version += 1
    comparison = compare(head, days[1], history)
    assert (comparison.pass_rate.base, comparison.base_records) == (0.0, 1)
