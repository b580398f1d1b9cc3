"""What of a run of the base becomes history, and what is dropped when something changes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from history_samples import FILE, SCORE, TOKENS, case, report
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from agent_eval.gate.history import KEEP_ROWS, excerpt
from agent_eval.gate.history._stored_runs import stored
from agent_eval.gate.history.records import extend, join, unfit
from agent_eval.gate.pairing import pair_up
from agent_eval.results.history import HistoryReport
from agent_eval.results.recording import Usage
from agent_eval.results.report import CaseReport, ModelUsageReport, RunReport


def history_of(*reports: RunReport, keep: int = 10) -> HistoryReport:
    history = None
    for added in reports:
        history = extend(history, added, keep)
    assert history is not None
    return HistoryReport.model_validate_json(history.model_dump_json())


def column(history: HistoryReport, eval_id: str = "a") -> tuple[str, list[int], dict[str, str]]:
    """A case's outcomes, the days that they are from, and its scores by metric."""
    [history_case] = [candidate for candidate in history.cases if candidate.case_id == f"{FILE}:{eval_id}"]
    days = [(history.records[int(number)].run_id or 0) - 1000 for number in history_case.records.split()]
    return (
        history_case.outcomes,
        days,
        {history.metrics[int(key)].name: text for key, text in history_case.scores.items()},
    )


def test_history__runs_accumulate_with_the_records_that_they_are_from() -> None:
    history = history_of(*[report(case("a", outcome), day=day) for day, outcome in enumerate("101x1")])

    assert column(history) == ("101x1", [0, 1, 2, 3, 4], {SCORE: "1 0 1 - 1"})
    assert [record.commit[:8] for record in history.records] == [f"{day:08x}" for day in range(5)]
    assert history.records[2].recorded_at == 1_790_000_000 + 2 * 86_400


def test_history_keep__counts_records_and_not_runs() -> None:
    history = history_of(*[report(case("a", "110"), day=day, num_runs=3) for day in range(5)], keep=2)

    assert column(history)[:2] == ("110110", [3, 3, 3, 4, 4, 4])
    assert len(history.records) == 2


def test_history_keep__a_case_that_was_left_out_of_some_records_keeps_older_ones() -> None:
    history = history_of(
        *[report(*([case("a", "1")] if day in {1, 3} else []), case("b", "1"), day=day) for day in range(4)], keep=2
    )

    assert column(history)[1] == [1, 3]
    assert column(history, "b")[1] == [2, 3]


def test_history__several_runs_of_a_day() -> None:
    assert column(history_of(report(case("a", "10"), num_runs=2)))[:2] == ("10", [0, 0])


@pytest.mark.parametrize(
    "broken_off",
    [
        report(case("a", "1"), case("b", "-"), day=1),
        report(case("a", "1-", min_pass_rate=0), day=1, num_runs=2),
        report(day=1),
        report(case("a", "0"), day=1, pull_request=7),
        report(case("a", "0"), day=1).model_copy(update={"verdict": "invalid"}),
    ],
    ids=["killed", "a run of a case", "empty", "pull request", "invalid"],
)
def test_history__nothing_of_a_run_that_was_broken_off_enters(broken_off: RunReport) -> None:
    before = history_of(report(case("a", "1")))

    assert unfit(broken_off)
    assert extend(before, broken_off) == before
    assert extend(None, broken_off).cases == []


def test_history__a_run_that_errored_is_no_failure_and_no_run() -> None:
    history = history_of(report(case("a", "1p0"), case("b", "p"), num_runs=3))

    assert column(history) == ("10", [0, 0], {SCORE: "1 0"})
    assert [stored_case.case_id for stored_case in history.cases] == [f"{FILE}:a"]


def test_history__a_run_that_a_metric_could_not_judge_keeps_its_other_scores() -> None:
    history = history_of(report(case("a", "?1", tokens=[900.0, 800.0]), num_runs=2))

    assert column(history) == ("?1", [0, 0], {SCORE: "- 1", TOKENS: "900 800"})


def test_history__runs_that_were_made_to_confirm_are_no_fair_sample() -> None:
    assert column(history_of(report(case("a", "01111"), num_runs=1)))[0] == "0"


def test_history__a_run_that_is_there_is_not_added_twice() -> None:
    item = report(case("a", "1"))
    again = report(case("a", "0")).model_copy(deep=True)
    assert again.origin is not None
    again.origin.run_attempt = 2

    assert extend(extend(None, item), item) == extend(None, item)
    assert column(history_of(item, again))[0] == "10", "another attempt is another run"


def test_history__another_content_restarts_the_history_of_that_case_only() -> None:
    history = history_of(
        report(case("a", "1"), case("b", "1")),
        report(case("a", "0", fingerprint="other"), case("b", "1"), day=1),
    )

    assert column(history, "a")[:2] == ("0", [1])
    assert column(history, "b")[:2] == ("11", [0, 1])


def test_history__a_renamed_case_keeps_its_runs() -> None:
    history = history_of(report(case("a", "1")), report(case("z", "0", fingerprint="content of a"), day=1))
    assert column(history, "z")[:2] == ("10", [0, 1])


def test_history__two_cases_of_the_same_content_are_not_mixed_up() -> None:
    same = {"fingerprint": "same"}
    history = history_of(
        report(case("a", "1", **same), case("b", "0", **same)),  # type: ignore[arg-type]
        report(case("c", "1", **same), case("d", "1", **same), day=1),  # type: ignore[arg-type]
    )
    assert column(history, "c")[0] == "1"


def test_history__another_judge_drops_that_metric_alone() -> None:
    history = history_of(
        report(case("a", "1", tokens=[900.0])), report(case("a", "0", tokens=[800.0], measures="m2"), day=1)
    )
    # The old run's verdict was the old judge's: nobody knows what the new one would say.
    assert column(history) == ("?0", [0, 1], {SCORE: "- 0", TOKENS: "900 800"})


def test_history__another_threshold_judges_the_stored_runs_again() -> None:
    history = history_of(report(case("a", scores=[0.6])), report(case("a", scores=[0.9], threshold=0.7), day=1))
    assert column(history) == ("01", [0, 1], {SCORE: ".6 .9"})


def test_history__a_case_that_a_run_left_out_is_remembered_for_a_while() -> None:
    first = report(case("a", "1"), case("b", "1"))
    some = [report(case("b", "1"), day=day) for day in range(1, 12)]

    assert column(history_of(first, *some[:9]), "a")[0] == "1"
    assert [stored_case.case_id for stored_case in history_of(first, *some).cases] == [f"{FILE}:b"]


def test_history__scores_of_another_scoring_version_are_not_kept() -> None:
    old = report(case("a", "1")).model_copy(update={"scoring_version": 0})
    assert column(history_of(old, report(case("a", "0"), day=1)))[0] == "0"


def test_two_pushes_at_once__one_may_be_lost_and_none_is_mixed_up() -> None:
    base = history_of(report(case("a", "1")))
    left, right = extend(base, report(case("a", "0"), day=1)), extend(base, report(case("a", "1"), day=2))

    assert (column(left)[:2], column(right)[:2]) == (("10", [0, 1]), ("11", [0, 2]))
    assert column(join(left, right))[:2] == ("101", [0, 1, 2])


def test_history__join_takes_each_run_once_in_any_order() -> None:
    reports = [report(case("a", outcome), case("b", outcome), day=day) for day, outcome in enumerate("10110")]
    whole = history_of(*reports)
    parts = [history_of(*reports[:3]), history_of(*reports[2:4]), history_of(*reports[3:])]

    joined = join(join(parts[0], parts[1]), parts[2])
    assert column(joined) == column(whole)
    assert column(joined, "b") == column(whole, "b")
    other = join(history_of(report(case("z", "1"))), parts[2])
    assert [stored_case.case_id for stored_case in other.cases] == [f"{FILE}:a", f"{FILE}:b", f"{FILE}:z"]


@given(st.floats(0, 1))
def test_history__a_stored_score_never_rises(score: float) -> None:
    assert score - 0.0001 - 1e-9 <= stored(score) <= score + 1e-10
    assert stored(stored(score)) == stored(score)


@pytest.mark.parametrize("text", ["0.29", "0.57", "0.8", "1", "0.0001", "0.3333"])
def test_history__four_digits_are_kept_as_they_are(text: str) -> None:
    assert stored(float(text)) == float(text)


@given(st.lists(st.floats(0, 1) | st.floats(1, 1e6), min_size=1, max_size=8))
def test_history__what_is_written_is_read_as_it_was_stored(scores: Sequence[float]) -> None:
    history = history_of(report(case("a", scores=scores, threshold=0.5), num_runs=len(scores)))
    assert [float(text) for text in column(history)[2][SCORE].split()] == [stored(score) for score in scores]


@pytest.mark.parametrize(
    "damage",
    [
        {"outcomes": "1"},
        {"outcomes": "1!"},
        {"records": "0 7"},
        {"records": "0"},
        {"records": "0 -1"},
        {"scores": {"0": "1"}},
        {"scores": {"0": "1 nan"}},
        {"scores": {"0": "1 one"}},
        {"scores": {"9": "1 1"}},
        {"scores": {"x": "1 1"}},
        {"rules": 5},
        {"rules": -1},
    ],
)
def test_history__a_history_whose_columns_do_not_fit_is_refused(damage: dict[str, object]) -> None:
    data = history_of(report(case("a", "1")), report(case("a", "1"), day=1)).model_dump()
    HistoryReport.model_validate(data)
    data["cases"][0] |= damage
    with pytest.raises(ValidationError):
        HistoryReport.model_validate(data)


def unscored(eval_id: str, runs: str) -> CaseReport:
    """As the gate writes a case of which every run ended with an error: without metrics."""
    unscored_case = case(eval_id, runs)
    unscored_case.metrics = []
    return unscored_case


def test_extend__a_run_in_which_the_agent_answered_in_no_case_is_not_kept() -> None:
    dead = report(unscored("a", "i"), unscored("b", "i"), day=2)
    before, after = (report(case("a", "1"), case("b", run), day=day) for run, day in (("0", 1), ("1", 3)))
    history = history_of(before, dead, after)

    assert column(history, "a") == ("11", [1, 3], {SCORE: "1 1"})
    assert column(history, "b") == ("01", [1, 3], {SCORE: "0 1"})
    assert history_of(dead).cases == []


def test_extend__the_only_case_of_an_agent_may_be_flaky__but_not_where_it_can_not_start() -> None:
    alive = report(case("a", "1"), day=1)
    assert column(history_of(alive, report(unscored("a", "x"), day=2)))[0] == "1x"
    assert column(history_of(alive, report(unscored("a", "i"), day=2)))[0] == "1"


def test_extend__a_case_without_scores_keeps_those_before_and_how_they_were_judged() -> None:
    fine = case("b", "1")
    history = history_of(report(case("a", "10"), fine, day=1, num_runs=2), report(unscored("a", "x"), fine, day=2))

    assert column(history, "a") == ("10x", [1, 1, 2], {SCORE: "1 0 -"})
    assert history.cases[0].rules is not None


# -- trend


def test_trend__a_row_says_what_was_measured_then() -> None:
    def day(number: int, *cases: CaseReport) -> RunReport:
        made = report(*cases, day=number)
        for at, case_report in enumerate(made.cases):
            case_report.runs[0].duration = float(at + 1)
            case_report.runs[0].usage = Usage(input_tokens=100 * (at + 1), output_tokens=None)
            case_report.metrics[0].judge = "some-judge"
        usage = ModelUsageReport(model="some-judge", calls=3, cost=0.25)
        return made.model_copy(update={"provenance": {"adk (a)": "2.13.0", "python (a)": "3"}, "model_usage": [usage]})

    first = [case("a", "1"), case("b", "0"), case("c", "x"), case("d", "?")]
    history = history_of(day(0, *first), day(1, *first), day(2, case("a", "1", threshold=0.9), case("e", "1")))

    row, same, other = history.trend
    assert (row.cases, row.passed, row.failed, row.broke, row.unknown) == (4, 1, 1, 1, 1)
    assert (row.means, row.judges, row.adk, row.cost) == ({SCORE: 0.5}, ["some-judge"], "2.13.0", 0.25)
    assert (row.p50, row.p95, row.tokens) == (2.0, 3.0, 200.0), "the run that was not evaluated does not count"
    assert (row.commit, row.run_id) == (history.records[0].commit, 1000)
    assert row.suite == same.suite != other.suite
    assert len(row.model_dump_json(exclude_defaults=True)) < 500


def test_trend__has_the_pass_rate_of_the_report() -> None:
    """A quarantined case that failed is no part of either."""
    made = report(case("a", "1"), case("b", "0"), case("c", "0"), day=0)
    made.cases[2].status = "quarantined"
    [row] = history_of(made).trend
    assert row.quarantined == 1
    assert made.totals.pass_rate == row.passed / (row.passed + row.failed + row.broke) == 0.5


def test_trend__it_outlives_the_columns_and_other_scoring_versions() -> None:
    days = [report(case("a", "1"), day=day) for day in range(KEEP_ROWS + 5)]
    history = history_of(*days, keep=1)
    assert [row.run_id for row in history.trend] == [1000 + day for day in range(5, KEEP_ROWS + 5)]
    assert len(history.records) == 1
    assert extend(history, days[7], 1) == history, "an old run that comes again is not new"
    assert extend(history, report(case("a", "0"), day=999, pull_request=3), 1).trend == history.trend

    rescored = report(case("a", "0"), day=500).model_copy(update={"scoring_version": history.scoring_version + 1})
    later = extend(history, rescored, 1)
    assert [row.scoring_version - history.scoring_version for row in later.trend[-2:]] == [0, 1]
    assert len(later.records) == 1 and len(later.trend) == KEEP_ROWS
    assert [row.run_id for row in join(history, later).trend] == [row.run_id for row in later.trend]


def test_trend__joined_histories_have_each_run_once_in_order() -> None:
    days = [report(case("a", "1"), day=day) for day in range(4)]
    joined = join(history_of(*days[:3]), history_of(*days[1:]))
    assert [row.run_id for row in joined.trend] == [1000, 1001, 1002, 1003]


def test_excerpt__outcomes_of_the_cases_that_were_run_by_their_present_ids() -> None:
    history = history_of(report(case("a", "1"), case("b", "0"), case("c", "1"), case("gone", "1")))
    renamed = case("new_b", "1", fingerprint="content of b")
    head = [case("a", "1"), renamed, case("c", "1", fingerprint="edited")]
    kept = excerpt(history, pair_up(head, (), history=history.cases).stored, with_scores={f"{FILE}:a"})
    assert [(item.case_id, item.outcomes, bool(item.scores)) for item in kept.cases] == [
        (f"{FILE}:a", "1", True),
        (f"{FILE}:new_b", "0", False),
    ]
    assert HistoryReport.model_validate_json(kept.model_dump_json()) == kept
    assert kept.trend == history.trend
