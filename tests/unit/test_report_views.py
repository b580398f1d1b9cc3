"""What every renderer shows: numbers, findings, turns, groups, and the notes beside them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

import pytest
from comparison_samples import FOUND, decided, pull_request, word_of
from golden_files import check
from hypothesis import given
from hypothesis import strategies as st
from remark_samples import notes
from report_samples import RESPONSE, TRAJECTORY, case, crash, good, metric, outage, report, rubrics, turn_of, wrong_room

from agent_eval.models.protocol import ModelUsage
from agent_eval.models.usage import UsageEntry
from agent_eval.report.phrases import case_details, change_label, suite_lines
from agent_eval.report.phrases._headline import headline
from agent_eval.report.phrases._judge_notes import backend_notes, missing_verdict_notes, truncation_notes
from agent_eval.report.renderers import summary_markdown
from agent_eval.report.views._usage import bill, case_usage_report, saved_votes, usage_line, usage_report
from agent_eval.report.views.case import CaseView, case_view, findings, reason_lines, rows
from agent_eval.report.views.digest import close_vote_notes, has_crashed, metric_rows, not_run_groups
from agent_eval.report.views.grouping import ChangeKind, View, view_of
from agent_eval.report.views.numbers import (
    count_text,
    duration_text,
    measurement_text,
    percent_text,
    score_text,
    threshold_text,
)
from agent_eval.results.conversation import ConversationReport, StepReport, TurnReport
from agent_eval.results.decision import CaseDecisionReport, CaseRunsReport, DecisionReport, SuiteTestReport
from agent_eval.results.origin import CaseWord
from agent_eval.results.recording import RunError
from agent_eval.results.report import CaseReport, CaseUsageReport, MetricReport, Reason, RunReport, TurnEvidence

unit = st.floats(0, 1, allow_nan=False)


def test_numbers__text() -> None:
    """UPDATE_GOLDEN=1 writes them."""
    values = (
        *(-1, 0.0, 1e-9, 0.0004, 0.004, 0.0849, 1 / 3, 0.5, 0.7949, 0.795, 0.7996, 0.79999999999, 0.8, 0.8004, 0.8746),
        *(0.875, 0.876, 11 / 12, 0.996, 0.9996, 0.9999, 1 - 1e-12, 1, 1.25, 2.5, 3.9999, 4.25, 9.94, 9.96, 59.6, 125),
        *(1250, 3599.7, 3720, 12345.0),
    )
    optional: Mapping[str, Callable[[float | None], str]] = {
        **{f"score, needs {limit}": partial(score_text, threshold=limit) for limit in (None, 0.8, 0.875, 4.0)},
        **{text.__name__: text for text in (threshold_text, percent_text, count_text)},
        **{name: partial(measurement_text, name) for name in ("invocation_duration_v1", "token_usage_v1")},
    }
    lines = [f"duration {value}: {duration_text(value)}\n" for value in values]
    for name, text in optional.items():
        lines += [f"{name} {value}: {text(value)}\n" for value in (None, *values)]
    lines.append(f"no number: {score_text(math.nan, 0.8)}\n")
    check("golden_numbers.txt", "".join(lines))


@given(unit, unit)
def test_score_text__never_crosses_the_threshold(value: float, threshold: float) -> None:
    shown = score_text(value, threshold)
    if shown[0] == "<":
        assert value < float(shown[1:])
    elif shown[0] == ">":
        assert value > float(shown[1:])
    else:
        assert (float(shown) >= threshold) == (value >= threshold)
        assert abs(float(shown) - value) <= 0.005 + 1e-12
        assert (float(shown) == 1.0) == (value == 1.0)
        assert (float(shown) == 0.0) == (value == 0.0)


@given(unit)
def test_threshold_text__is_exact(value: float) -> None:
    assert float(threshold_text(value)) == value


def error(owner: str = "agent", *, message: str = "boom", turn: int | None = 0) -> RunError:
    return RunError.model_validate({"kind": "agent-exception", "owner": owner, "message": message, "turn": turn})


@pytest.mark.parametrize("others", [2, 4])
def test_why__among_many_findings_one_has_its_reason(others: int) -> None:
    names = [f"m{n}" for n in range(others)]
    low = [metric(name, 0.0, threshold=1.0) for name in names]
    result = case("x", "failed", rubrics(), *low)
    judged, more = "rubric_based_tool_use_quality_v1 0.00, needs 0.50", f"and {others} more findings"
    assert reason_lines(result) == [judged, "turn 1: polite: no (3:0): rude", f"{more}: {', '.join(names)}"]
    assert len(reason_lines(result, 2)) == 2
    assert reason_lines(result, 1) == [f"{judged}; {more}"]
    assert reason_lines(case("x", "failed", rubrics()))[2:] == ["turn 1: brief: no (3:2, close): long"]
    unexplained = reason_lines(case("x", "failed", *low, *low), 2)
    assert unexplained == [
        "m0 0.00, needs 1.00",
        f"and {2 * others - 1} more findings: {', '.join([*names, *names][1:])}",
    ]


def test_findings__errors_of_several_runs_are_reported_once() -> None:
    sample_case = case("x", "failed", runs=3, errors={0: error(), 2: error(), 1: error(message="other", turn=None)})
    assert [(finding.summary, finding.lines) for finding in findings(sample_case)] == [
        ("agent-exception in turn 1: boom", ("in runs 1, 3 of 3",)),
        ("agent-exception: other", ("in run 2 of 3",)),
    ]


def test_findings__a_mean_that_passes_does_not_hide_the_run_that_did_not() -> None:
    turn = turn_of("u", "a", "b", "missing: a()")
    low = metric(TRAJECTORY, 1.0, 0.0, 1.0, threshold=0.5, evidence={1: [turn]})
    reason = Reason(code="pass-rate", message="2 of 3 runs passed")
    sample_case = case("x", "failed", low, metric(RESPONSE, *[0.9] * 3, threshold=0.5), runs=3, reason=reason)
    first, second = findings(sample_case)
    assert first.summary == f"{TRAJECTORY} 0.67, needs 0.50, fell short in run 2 of 3"
    assert (first.run, len(first.turns)) == (1, 1)
    assert second.summary == "2 of 3 runs passed"
    assert findings(good("y")) == []


def test_findings__a_missing_measurement_is_not_hidden_by_the_others() -> None:
    partly = metric(RESPONSE, 0.9, None, threshold=0.5, reason=Reason(code="needs-reference", message="no reference"))
    assert (
        findings(case("x", "errored", partly, runs=2))[0].summary
        == f"{RESPONSE} not evaluated in run 2 of 2: no reference"
    )


def test_findings__a_metric_without_a_result_says_so_once_and_is_not_called_wrong() -> None:
    reason = Reason(code="judge-missing-votes", message="1 of 3 votes is missing")
    turn = TurnEvidence(turn=0, score=None, user="Hello!", expected="polite", actual="Hm.", why=notes("1 of 3 votes"))
    silent = metric("rubrics", None, threshold=0.5, evidence={0: [turn]}, reason=reason)
    broken = silent.model_copy(update={"status": "failed"})
    several = case(
        "x", "errored", silent, runs=2, reason=Reason(code="not-evaluated", message="rubrics could not be evaluated")
    )

    [once] = findings(case("x", "failed", broken))
    assert (once.summary, once.lines) == ("rubrics not evaluated: 1 of 3 votes is missing", ("turn 1: 1 of 3 votes",))
    assert [item.summary for item in findings(several)] == ["rubrics not evaluated: 1 of 3 votes is missing"]
    summary = summary_markdown(report("failed", [case("x", "failed", metric("m", 0.0, threshold=1.0), silent)]))
    assert "\u274c rubrics" not in summary


def test_has_crashed__only_by_the_agent_s_own_fault() -> None:
    assert has_crashed(crash())
    assert not has_crashed(outage())
    assert not has_crashed(wrong_room())


def test_metric_rows__gating_ones_first_with_all_thresholds() -> None:
    numbers = metric("tool_call_count_v1", 3.0, threshold=None)
    other = case("x", "failed", numbers, metric(TRAJECTORY, 0.2, threshold=0.5))
    rows = metric_rows(report("failed", [other, wrong_room()]))
    assert [row.name for row in rows][:2] == [TRAJECTORY, RESPONSE]
    assert (rows[0].threshold, rows[0].score, rows[0].passed, rows[0].failed) == ("0.50 to 1.00", "0.35", 0, 2)
    assert (rows[2].name, rows[2].score) == ("tool_call_count_v1", "2.25")


def test_not_run_groups__by_reason() -> None:
    cases = [case(str(n), "not_run", reason=Reason(code="x", message="late" if n % 2 else "early")) for n in range(4)]
    groups = not_run_groups(report("inconclusive", [*cases, case("5", "not_run")]))
    assert [(reason, [item.eval_id for item in group]) for reason, group in groups] == [
        ("early", ["0", "2"]),
        ("late", ["1", "3"]),
        ("no reason was recorded", ["5"]),
    ]


def test_close_votes__are_counted_and_their_cases_named() -> None:
    assert close_vote_notes([case("a", "failed", rubrics()), good("b")]) == []
    cases = [case(name, "failed", rubrics(close=close)) for name, close in [("a", 1), ("b", 0), ("c", 2)]]
    assert close_vote_notes(cases) == [
        "rubric_based_tool_use_quality_v1: 3 of 6 verdicts were close, where one vote more could change them (a, c)"
    ]
    many = [case(f"c{number}", "failed", rubrics(close=1, listed=1)) for number in range(5)]
    assert close_vote_notes(many)[0].endswith("(c0, c1, c2 and 2 more)")
    assert "5 of 5 verdicts were close" in close_vote_notes(many)[0]


def test_digest__what_the_policy_changed_is_reported() -> None:
    costly = metric("token_usage_v1", 1200.0, threshold=900.0)
    costly.direction, costly.status, costly.runs[0].status = "lower", "failed", "failed"
    quiet = metric(RESPONSE, 0.4, threshold=0.5)
    quiet.blocking = False
    sample_case = case("x", "failed", costly, quiet)

    assert [finding.summary for finding in findings(sample_case)] == [
        "token_usage_v1 1200.00, needs at most 900.00",
        f"{RESPONSE} 0.40, needs 0.50 (it only informs)",
    ]
    assert [row.threshold for row in metric_rows(report("failed", [sample_case]))] == ["at most 900.00", "0.50"]


# A case turn by turn, as every renderer shows it.


RUBRIC = "rubric_based_final_response_quality_v1"


def said(turn: int = 0, **facts: object) -> TurnReport:
    return TurnReport.model_validate(
        {
            "turn": turn,
            "user": "Lamp off.",
            "steps": [StepReport(call='find_devices(room="bedroom")', responses=['{"devices": []}'])],
            "answer": "No such lamp.",
            **facts,
        }
    )


def evidence(turn: int = 0, *, expected: str = "", why: tuple[str, ...] = ("bad",)) -> TurnEvidence:
    return TurnEvidence(turn=turn, score=0.25, expected=expected, actual="No such lamp.", why=notes(*why))


def failed_lamp(conversation: ConversationReport | None, *evidences: TurnEvidence, name: str = RESPONSE) -> CaseReport:
    sample_case = case("lamp", "failed", metric(name, 0.25, threshold=0.8, evidence={0: list(evidences)}))
    sample_case.conversation = conversation
    return sample_case


def shown(view: CaseView | None, **limits: int) -> list[list[tuple[str, str]]]:
    assert view is not None
    return [[(row.kind, row.text) for row in rows(turn, **limits)] for turn in view.turns]


def test_case_view__a_rubric_says_what_it_demands() -> None:
    demand = "polite: The answer is polite."
    failed_case = failed_lamp(ConversationReport(run=0, turns=[said()]), evidence(expected=demand), name=RUBRIC)

    [turn] = shown(case_view(failed_case))

    assert turn[-3:] == [("verdict", f"{RUBRIC} 0.25"), ("expected answer", demand), ("detail", "bad")]


def test_case_view__turns_that_say_why_come_before_the_others() -> None:
    turns = [said(number, user=f"user {number}") for number in range(6)]
    view = case_view(failed_lamp(ConversationReport(run=0, turns=turns, turns_left_out=2), evidence(4)), turns=2)

    assert view is not None
    assert [turn.number for turn in view.turns] == [1, 5]
    assert view.turns_left_out == 6
    assert view.title(view.turns[1]) == "turn 5"


def test_case_view__what_lowered_the_score_of_another_run_stays_a_finding() -> None:
    sample_case = case(
        "lamp", "failed", metric(RESPONSE, 1.0, 0.25, threshold=0.8, evidence={1: [evidence(why=("far off",))]}), runs=2
    )
    sample_case.conversation = ConversationReport(run=0, turns=[said()])
    view = case_view(sample_case)

    assert view is not None
    assert view.title(view.turns[0]) == "turn 1 of run 1"
    assert "turn 1: far off" in view.findings[0].lines
    assert view.turns[0].remarks == ()


def test_case_view__a_weak_turn_of_a_passed_case_is_that_of_the_run_shown() -> None:
    low = {run: [evidence(why=(f"few words in run {run}",))] for run in (0, 1)}
    passed = case("lamp", "passed", metric(RESPONSE, 0.9, 0.9, threshold=0.8, evidence=low), runs=2)
    passed.conversation = ConversationReport(run=1, turns=[said()])
    view = case_view(passed)

    assert view is not None
    assert [remark.details for remark in view.turns[0].remarks] == [("few words in run 1",)]


def test_case_view__results_of_an_older_version_show_what_the_criteria_kept() -> None:
    failed_case = failed_lamp(None, evidence(expected="The lamp is off.", why=("1 of 4 words",)))

    assert shown(case_view(failed_case)) == [
        [
            ("verdict", "response_match_score 0.25"),
            ("expected answer", "The lamp is off."),
            ("actual", "No such lamp."),
            ("detail", "1 of 4 words"),
        ]
    ]


def test_rows__forged_results_are_cut_to_size() -> None:
    steps = [StepReport(call="c" * 10_000, responses=["r" * 10_000]) for _ in range(1_000)]
    turn = said(user="u" * 100_000, steps=steps, answer="a" * 100_000, expected_calls=["e" * 10_000] * 1_000)
    many = evidence(why=tuple("w" * 10_000 for _ in range(1_000)))
    view = case_view(failed_lamp(ConversationReport(run=0, turns=[turn]), many))

    [actual] = shown(view, text=500, code=200, steps=3, details=2)

    assert len(actual) == 1 + 3 * 2 + 1 + 3 + 1 + 1 + 3
    assert ("said", "[… and 997 more steps]") in actual
    assert max(len(text) for _, text in actual) <= 500


# Which group of the report lists a case, and with which sentence.


def failing(eval_id: str) -> CaseReport:
    return case(eval_id, "failed", metric(RESPONSE, 0.2, threshold=0.8))


def passing(eval_id: str) -> CaseReport:
    return case(eval_id, "passed", metric(RESPONSE, 0.9, threshold=0.8))


def with_words(head: list[CaseReport], base: list[CaseReport], **words: CaseWord) -> RunReport:
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
    report = with_words(
        head, [passing(name) for name in names], lower="worse", gone="broken", noise="flaky as before", dropped="worse"
    )

    assert groups_of(report) == {"worse": ["gone", "lower", "dropped"], "flaky": ["noise"]}


@pytest.mark.parametrize("word", [None, "flaky as before"])
def test_what_blocks_is_reported_as_worse__whatever_its_runs_look_like(word: CaseWord | None) -> None:
    words: dict[str, CaseWord] = {} if word is None else {"a": word}
    report = with_words([failing("a")], [failing("a")], **words)
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
    gate: Literal["thresholds", "both"], word: CaseWord | None, sentence: str
) -> None:
    words: dict[str, CaseWord] = {} if word is None else {"a": word}
    report = with_words([failing("a"), passing("b")], [failing("a"), passing("b")], **words)
    report.gate, report.blocking = gate, [report.cases[0].case_id]

    assert groups_of(report) == {"failed": ["a"]}
    assert headline(view_of(report)) == sentence


@pytest.mark.parametrize("status", ["errored", "quarantined", "not_run"])
def test_grouping__what_was_not_judged_is_in_no_group_of_what_was(status: str) -> None:
    sample_case = failing("a").model_copy(update={"status": status})
    report = with_words([sample_case], [passing("a")], a="worse")
    report.blocking = [sample_case.case_id]

    assert groups_of(report) == ({} if status == "not_run" else {status: ["a"]})


def test_grouping__the_smallest_p_value_of_the_screening_is_reported_as_it_is() -> None:
    """Of 9,999 deals it is 1 in 10,000."""
    report = with_words([failing("a"), failing("b")], [passing("a"), passing("b")], a="worse", b="worse")
    assert report.decision is not None
    report.decision.cases[0].p_value, report.decision.cases[1].p_value = 0.0001, 0.00009
    view = view_of(report)

    assert [lines for _, lines in case_details(view)] == [
        ["chance alone does this to at most 0.01% of unchanged cases"],
        ["chance alone does this to at most 0.01% of unchanged cases"],
    ]


# The words of the statistics, as people read them: they follow the plain numbers.


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


# The notes on judges in the report.


def test_backends__are_shown_for_the_metrics_that_have_two() -> None:
    def judged_by(name: str, **details: str) -> MetricReport:
        return metric(name, 0.0, threshold=0.5, details={"judge": {"model": "m"}, **details})

    assert backend_notes([case("a", "failed", judged_by("final_response_match_v2"))]) == []
    cases = [
        case("a", "failed", judged_by("safety_v1", backend="vertex")),
        case("b", "failed", judged_by("multi_turn_task_success_v1", backend="vertex")),
        case("c", "failed", judged_by("response_evaluation_score", backend="judge")),
        case("d", "failed", judged_by("safety_v1", backend="vertex")),
    ]
    assert backend_notes(cases) == [
        "safety_v1, multi_turn_task_success_v1: judged by Vertex AI's evaluation service",
        "response_evaluation_score: judged by m, not by Vertex AI as in ADK",
    ]


def test_saved_votes__are_counted_by_model_and_reported() -> None:
    def judged(name: str, judge: object) -> MetricReport:
        return metric(name, 1.0, threshold=0.5, details={"judge": judge})

    cases = [
        case("a", "passed", judged("safety_v1", {"model": "m", "saved": 2}), metric("match", 1.0, threshold=0.5)),
        case("b", "passed", judged("safety_v1", {"model": "m", "saved": 1}), judged("o", {"model": "n", "saved": 0})),
        case("c", "passed", judged("of_a_package", "what it likes")),
    ]

    saved = saved_votes(cases)

    assert (saved["m"], saved["n"]) == (3, 0)
    entry = UsageEntry(model="m", calls=9, usage=ModelUsage(input_tokens=1000, output_tokens=20))
    line = "m: 9 calls, 3 further votes not needed, 1,000 tokens in, 20 out, no price known"
    assert usage_line(usage_report(entry, saved["m"])) == line
    assert "saved" not in usage_line(usage_report(entry))


def test_a_rubric_without_a_verdict__is_reported_beside_the_score() -> None:
    def judged(score: float | None, *verdicts: str | None) -> MetricReport:
        return metric("rubrics", score, threshold=0.5, details={"judgements": [{"verdict": word} for word in verdicts]})

    assert missing_verdict_notes([case("a", "passed", judged(1.0, "yes", "no"))]) == []
    assert missing_verdict_notes([case("a", "errored", judged(None, "yes", None))]) == [], "its reason says so"
    cases = [case("a", "passed", judged(1.0, "yes", None, None)), case("b", "passed", judged(1.0, None))]
    assert missing_verdict_notes(cases) == [
        "rubrics: no verdict on 3 things that could not change whether the case passes (a, b)"
    ]


def test_what_was_spent__by_case_and_criterion() -> None:
    usage = ModelUsage(input_tokens=1000, output_tokens=20, cached_tokens=800, thought_tokens=5)
    entry = UsageEntry(case_id="f:a", purpose="safety_v1", model="m", calls=3, cached_replies=1, usage=usage, cost=0.25)

    spent = case_usage_report(entry)
    assert (spent.case_id, spent.purpose, spent.model, spent.calls, spent.cached_replies, spent.cost) == (
        *("f:a", "safety_v1", "m", 3, 1, 0.25),
    )
    names = ("input_tokens", "output_tokens", "cached_tokens", "thought_tokens")
    assert [getattr(spent, name) for name in names] == [1000, 20, 800, 5]


def test_conversations_that_their_limit_ended__are_named() -> None:
    def led(name: str, *reasons: str | None) -> CaseReport:
        sample_case = case(name, "passed", runs=len(reasons))
        for run, reason in zip(sample_case.runs, reasons, strict=True):
            run.stop_reason = reason
        return sample_case

    assert truncation_notes([led("a", None), led("b", "stop-signal")]) == []
    cases = [led("a", "stop-signal", "turn-limit"), led("b", "turn-limit", "turn-limit"), led("fixed turns", None)]
    assert truncation_notes(cases) == ["3 of 4 simulated conversations ended at max_allowed_invocations (a, b)"]


@pytest.mark.parametrize(
    ("costs", "text"),
    [
        ([], ""),
        ([("agent", 0.31)], "$0.31 (agent)"),
        (
            [("agent", 0.31), ("agent-again", 0.03), ("safety_v1", 0.05), ("hallucinations_v1", 0.03)],
            "$0.42 (agent $0.31, runs again $0.03, judges $0.08)",
        ),
        ([("agent", None), ("user-simulator", 1.5)], "$1.50 (simulated users; no price is known for m)"),
        ([("agent", None)], "no price is known for m"),
    ],
)
def test_bill__sum_and_parts(costs: list[tuple[str, float | None]], text: str) -> None:
    made = report("passed", [])
    made.case_usage = [
        CaseUsageReport(case_id="c", purpose=purpose, model="m", calls=1, cost=cost) for purpose, cost in costs
    ]
    assert bill(made) == text
