"""What every renderer shows: numbers, findings, turns, groups, and the notes beside them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import pytest
from comparison_samples import FOUND, NOT_IMPORTED, decided, pull_request, word_of
from golden_files import check
from hypothesis import given
from hypothesis import strategies as st
from remark_samples import notes
from report_samples import RESPONSE, TRAJECTORY, case, crash, good, metric, outage, report, rubrics, turn_of, wrong_room

from agent_eval_results.data.conversation import ConversationReport, StepReport, TurnReport
from agent_eval_results.data.decision import CaseDecisionReport, CaseRunsReport, DecisionReport, SuiteTestReport
from agent_eval_results.data.origin import CaseStatus, CaseWord, GateMode
from agent_eval_results.data.report import CaseReport, CaseUsageReport, MetricReport, Reason, RunReport, TurnEvidence
from agent_eval_results.outcome import Trend, has_cause, has_crashed
from agent_eval_results.report.phrases import case_details, change_label, suite_lines
from agent_eval_results.report.phrases._headline import headline
from agent_eval_results.report.renderers import summary_markdown
from agent_eval_results.report.views._usage import bill, case_usage_report, saved_votes, usage_line, usage_report
from agent_eval_results.report.views.case import case_view, findings, first_difference, reason_lines, rows
from agent_eval_results.report.views.digest import (
    MetricRow,
    backend_notes,
    close_vote_notes,
    metric_rows,
    missing_verdict_notes,
    not_run_groups,
    truncation_notes,
)
from agent_eval_results.report.views.grouping import View, view_of
from agent_eval_results.report.views.numbers import (
    count_text,
    duration_text,
    measurement_text,
    percent_text,
    score_text,
    threshold_text,
)
from agent_eval_scoring.core.recording import RunError
from agent_eval_scoring.models.protocol import ModelUsage
from agent_eval_scoring.models.usage import UsageEntry

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
def test_score_text__never_crosses_the_threshold_which_is_exact(value: float, threshold: float) -> None:
    assert float(threshold_text(threshold)) == threshold
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


def test_findings__a_metric_without_a_result_is_not_called_wrong() -> None:
    silent = metric("rubrics", None, threshold=0.5, evidence={0: [NO_SCORE]}, reason=MISSING_VOTE)
    summary = summary_markdown(report("failed", [case("x", "failed", metric("m", 0.0, threshold=1.0), silent)]))
    assert "\u274c rubrics" not in summary


def test_first_difference__is_what_failed_and_not_what_could_not_be_evaluated() -> None:
    silent = metric("rubrics", None, threshold=0.5, reason=MISSING_VOTE)

    assert first_difference(case("x", "failed", silent, metric("m", 0.0, threshold=1.0))).startswith("m 0.00")


# A case turn by turn, as every renderer shows it.


RUBRIC = "rubric_based_final_response_quality_v1"


MISSING_VOTE = Reason(code="judge-missing-votes", message="1 of 3 votes is missing")
NO_SCORE = TurnEvidence(turn=0, score=None, user="Hello!", expected="polite", actual="Hm.", why=notes("1 of 3 votes"))


def error(message: str = "boom", turn: int | None = 0) -> RunError:
    return RunError(kind="agent-exception", owner="agent", message=message, turn=turn)


def said(turn: int = 0, user: str = "Lamp off.") -> TurnReport:
    steps = [StepReport(call='find_devices(room="bedroom")', responses=['{"devices": []}'])]
    return TurnReport(turn=turn, user=user, steps=steps, answer="No such lamp.")


def talked(eval_id: str, score: MetricReport, *turns: TurnReport, run: int = 0, runs: int = 1) -> CaseReport:
    talk = ConversationReport(run=run, turns=list(turns), turns_left_out=2) if turns else None
    return case(eval_id, "failed", score, runs=runs, conversation=talk)


def odd_cases() -> Iterator[CaseReport]:
    """Cases with something that only a part of the views shows, by what that is."""
    for others in (0, 2, 4):
        low = [metric(f"m{n}", 0.0, threshold=1.0) for n in range(others)]
        yield case(f"rubrics and {others} others", "failed", rubrics(), *low)
    yield case("no reasons", "failed", *low)
    errors = {0: error(), 2: error(), 1: error("other", None)}
    yield case("errors of several runs are reported once", "failed", runs=3, errors=errors)
    partly = metric(TRAJECTORY, 1.0, 0.0, 1.0, threshold=0.5, evidence={1: [turn_of("u", "a", "b", "missing: a()")]})
    reason = Reason(code="pass-rate", message="2 of 3 runs passed")
    fine = metric(RESPONSE, *[0.9] * 3, threshold=0.5)
    yield case("a mean does not hide the run that fell short", "failed", partly, fine, runs=3, reason=reason)
    missing = metric(RESPONSE, 0.9, None, threshold=0.5, reason=Reason(code="x", message="no reference"))
    yield case("nor a missing measurement", "errored", missing, runs=2)
    silent = metric("rubrics", None, threshold=0.5, evidence={0: [NO_SCORE]}, reason=MISSING_VOTE)
    why = Reason(code="not-evaluated", message="rubrics could not be evaluated")
    yield case("without a result, said once", "errored", silent, runs=2, reason=why)
    yield case("without a result, failed", "failed", silent.model_copy(update={"status": "failed"}))
    costly = metric("token_usage_v1", 1200.0, threshold=900.0)
    costly.direction, costly.status, costly.runs[0].status = "lower", "failed", "failed"
    yield case(
        "of the policy", "failed", costly, metric(RESPONSE, 0.4, threshold=0.5).model_copy(update={"blocking": False})
    )
    demand = {0: [evidence(expected="polite: The answer is polite.")]}
    yield talked("a rubric says what it demands", metric(RUBRIC, 0.25, threshold=0.8, evidence=demand), said())
    late = metric(RESPONSE, 0.25, threshold=0.8, evidence={0: [evidence(4)]})
    yield talked("turns that say why come first", late, *(said(number, f"user {number}") for number in range(6)))
    off = metric(RESPONSE, 1.0, 0.25, threshold=0.8, evidence={1: [evidence(why=("far off",))]})
    yield talked("what lowered the score of another run stays a finding", off, said(), runs=2)
    weak = metric(
        RESPONSE, 0.9, 0.9, threshold=0.8, evidence={run: [evidence(why=(f"few in run {run}",))] for run in (0, 1)}
    )
    passed = talked("a weak turn of a passed case is that of the run shown", weak, said(), run=1, runs=2)
    yield passed.model_copy(update={"status": "passed"})
    kept = evidence(expected="The lamp is off.", why=("1 of 4 words",))
    yield talked("of an older version", metric(RESPONSE, 0.25, threshold=0.8, evidence={0: [kept]}))


def unexplained() -> CaseReport:
    """An error, and scores that say more."""
    both = wrong_room().changed(eval_id="an error beside scores")
    both.runs[0].error = NOT_IMPORTED
    return both


def test_cases__their_reasons_findings_metrics_and_turns() -> None:
    """UPDATE_GOLDEN=1 writes them."""
    lines = []
    for each in (*odd_cases(), crash(), outage(), wrong_room(), unexplained(), good("fine")):
        lines.append(f"{each.eval_id}:")
        lines.append(f"  crashed: {has_crashed(each)}, its cause says more: {has_cause(each)}")
        lines += [f"  in {most} lines: {reason_lines(each, most)}" for most in (1, 2, 3)]
        lines += [f"  finding: {one.summary} {list(one.lines)} {len(one.turns)}" for one in findings(each)]
        for row in metric_rows(report("failed", [each])):
            lines.append(f"  metric: {row.name} {row.score}, needs {row.threshold}: {row.passed} {row.failed}")
        if (view := case_view(each, turns=2)) is not None:
            lines += [f"  shown: {one.summary} {list(one.lines)}" for one in view.findings]
            for turn in view.turns:
                lines.append(f"  {view.title(turn)}, {view.turns_left_out} left out")
                lines += [f"    {row.kind}: {row.text}" for row in rows(turn)]
    check("golden_cases.txt", "\n".join(lines) + "\n")


def evidence(turn: int = 0, *, expected: str = "", why: tuple[str, ...] = ("bad",)) -> TurnEvidence:
    return TurnEvidence(turn=turn, score=0.25, expected=expected, actual="No such lamp.", why=notes(*why))


def test_rows__forged_results_are_cut_to_size() -> None:
    turn = said(user="u" * 100_000).model_copy(
        update={
            "steps": [StepReport(call="c" * 10_000, responses=["r" * 10_000]) for _ in range(1_000)],
            "answer": "a" * 100_000,
            "expected_calls": ["e" * 10_000] * 1_000,
        }
    )
    many = evidence(why=tuple("w" * 10_000 for _ in range(1_000)))
    view = case_view(talked("lamp", metric(RESPONSE, 0.25, threshold=0.8, evidence={0: [many]}), turn))
    assert view is not None

    actual = list(rows(view.turns[0], text=500, code=200, steps=3, details=2))

    assert len(actual) == 1 + 3 * 2 + 1 + 3 + 1 + 1 + 3
    assert ("said", "[… and 997 more steps]") in [(row.kind, row.text) for row in actual]
    assert max(len(row.text) for row in actual) <= 500


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


def grouped() -> Iterator[tuple[str, RunReport]]:
    """Reports whose groups depend on the comparison, the gate's words, what blocks, and what was not judged."""
    head = [failing("broke"), failing("still"), passing("repaired"), passing("fine"), failing("new")]
    base = [passing("broke"), failing("still"), failing("repaired"), passing("fine")]
    yield "by the comparison alone", pull_request("failed", head, base)
    names = ("lower", "gone", "noise", "dropped")
    head = [failing("lower"), failing("gone"), failing("noise"), passing("dropped")]
    told: dict[str, CaseWord] = {"lower": "worse", "gone": "broken", "noise": "flaky as before", "dropped": "worse"}
    yield "the gate's word counts more, the worst first", with_words(head, [passing(name) for name in names], **told)
    words: Sequence[dict[str, CaseWord]] = ({}, {"a": "flaky as before"})
    gates: Sequence[GateMode | None] = ("regressions", "thresholds", "both", None)
    for word, gate in itertools.product(words, gates):
        made = with_words([failing("a"), passing("b")], [failing("a"), passing("b")], **word)
        if gate is not None:  # By its threshold alone it is no regression.
            made.gate, made.blocking = gate, [made.cases[0].case_id]
        yield f"{word.get('a', 'no word')}, {gate and f'blocks with gate {gate}'}", made
    statuses: Sequence[CaseStatus] = ("errored", "quarantined", "not_run")
    for status in statuses:
        made = with_words([failing("a").changed(status=status)], [passing("a")], a="worse")
        made.blocking = [made.cases[0].case_id]
        yield f"what was not judged is in no group of what was: {status}", made
    made = with_words([failing("a"), failing("b")], [passing("a"), passing("b")], a="worse", b="worse")
    assert made.decision is not None
    made.decision.cases[0].p_value, made.decision.cases[1].p_value = 0.0001, 0.00009
    yield "of 9,999 deals the smallest p is 1 in 10,000", made


def test_grouping__of_the_cases() -> None:
    """UPDATE_GOLDEN=1 writes it."""
    lines = []
    for name, made in grouped():
        view = view_of(made)
        groups = {group: [item.eval_id for item in of_it] for group, of_it in vars(view.groups).items() if of_it}
        lines += [f"{name}: {groups}", f"    {headline(view)}", *(f"    {shown}" for _, shown in case_details(view))]
    check("golden_groups.txt", "\n".join(lines) + "\n")


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
) -> tuple[Trend, str]:
    named = case("a", "failed").model_copy(update={"case_id": "a"})
    view = seen(decided(outcome, word_of(named, word, head, base, p_value=p_value)))
    return view.outcomes["a"].trend, change_label(view.report.cases[0], view)[0]


def fresh(**more: Any) -> str:
    """What is said of a case that passed whenever it ran again: the verdict rests on what fresh runs show."""
    means = {"head_mean": 1.0, "head_runs": 3, "base_mean": 1.0, "base_runs": 22}
    item = CaseDecisionReport(case_id="a", metric="pass", word="suspicious", again=True, **means)
    runs = CaseRunsReport(case_id="a", head_passed=3, head_runs=4, base_passed=22, base_runs=22)
    cases = [item.model_copy(update=more)]
    return seen(DecisionReport(outcome="failed", alpha=0.05, cases=cases, runs=[runs])).outcomes["a"].trend


def test_case_words__by_what_fresh_runs_show() -> None:
    """UPDATE_GOLDEN=1 writes them. A case that was not run again has no p-value, whatever the verdict."""
    words: Sequence[CaseWord] = ("suspicious", "flaky as before")
    heads, bases = ((0, 1), (0, 3), (0, 6), (1, 9), (4, 6), (6, 7)), ((10, 10), (8, 10))
    outcomes: Sequence[Literal["failed", "inconclusive"]] = ("failed", "inconclusive")
    lines = []
    for word, head, base in itertools.product(words, heads, bases):
        lines.append(f"{word}, {head[0]} of {head[1]} runs passed, {base[0]} of {base[1]} on main")
        for outcome, p_value in itertools.product(outcomes, (None, 0.001, 0.04, 0.2)):
            lines.append(f"    {outcome}, p {p_value}: {': '.join(kind_of(word, head, base, outcome, p_value))}")
    facts: Sequence[dict[str, Any]] = ({}, {"head_mean": 2 / 3}, {"lacks": "budget"}, {"again": False})
    lines += [f"passed whenever it ran again {each}: {fresh(**each)}" for each in facts]
    check("golden_case_words.txt", "\n".join(lines) + "\n")


def test_case_words__numbers_from_a_strangers_file_cost_nothing() -> None:
    assert kind_of("suspicious", (1, 100_000), (100_000, 100_000))[0] == "suspected regression"
    with pytest.raises(ValueError, match="100000"):
        kind_of("suspicious", (1, 10**9), (1, 1))
    with pytest.raises(ValueError, match="more runs of 'a' passed than took place"):
        kind_of("suspicious", (5, 4), (1, 1))


# The notes on judges in the report.


def judged_by(name: str, judge: object, score: float | None = 0.0, **details: object) -> MetricReport:
    return metric(name, score, threshold=0.5, details={"judge": judge, **details})


def without_verdicts(score: float | None, *verdicts: str | None) -> MetricReport:
    return judged_by("rubrics", None, score, judgements=[{"verdict": word} for word in verdicts])


def led(name: str, *reasons: str | None) -> CaseReport:
    """A conversation of a simulated user, whose runs ended for these reasons."""
    sample_case = case(name, "passed", runs=len(reasons))
    for run, reason in zip(sample_case.runs, reasons, strict=True):
        run.stop_reason = reason
    return sample_case


def cost_of(*costs: tuple[str, float | None]) -> str:
    made = report("passed", [])
    made.case_usage = [
        CaseUsageReport(case_id="c", purpose=purpose, model="m", calls=1, cost=cost) for purpose, cost in costs
    ]
    return bill(made)


def every_note() -> Iterator[tuple[str, object]]:
    """What is said beside the scores, by what it is about."""
    m, n = {"model": "m", "saved": 2}, {"model": "n", "saved": 0}
    yield "no other backend", backend_notes([case("a", "failed", judged_by("final_response_match_v2", m))])
    vertex = ("safety_v1", "multi_turn_task_success_v1", "safety_v1")
    backends = [judged_by(name, m, backend="vertex") for name in vertex]
    backends.append(judged_by("response_evaluation_score", m, backend="judge"))
    yield "backends", backend_notes([case(str(at), "failed", one) for at, one in enumerate(backends)])
    of_package = judged_by("of_a_package", "what it likes")
    votes = [judged_by("safety_v1", m), judged_by("o", n), of_package]
    saved = saved_votes([case("a", "passed", *votes), case("b", "passed", *votes)])
    yield "saved votes", (saved["m"], saved["n"])
    usage = ModelUsage(input_tokens=1000, output_tokens=20, cached_tokens=800, thought_tokens=5)
    entry = UsageEntry(case_id="f:a", purpose="safety_v1", model="m", calls=3, cached_replies=1, usage=usage, cost=0.25)
    unpriced = UsageEntry(model="m", calls=9, usage=ModelUsage(input_tokens=1000, output_tokens=20))
    yield "usage", [usage_line(usage_report(each, votes)) for each in (entry, unpriced) for votes in (0, 3)]
    yield "usage of a case", case_usage_report(entry).model_dump(exclude_defaults=True)
    yield "every verdict", missing_verdict_notes([case("a", "passed", without_verdicts(1.0, "yes", "no"))])
    yield (
        "no score: its reason says so",
        missing_verdict_notes([case("a", "errored", without_verdicts(None, "yes", None))]),
    )
    lacking = [
        case("a", "passed", without_verdicts(1.0, "yes", None, None)),
        case("b", "passed", without_verdicts(1.0, None)),
    ]
    yield "verdicts that could change nothing", missing_verdict_notes(lacking)
    yield "no close votes", close_vote_notes([case("a", "failed", rubrics()), good("b")])
    close = [case(name, "failed", rubrics(close=close)) for name, close in [("a", 1), ("b", 0), ("c", 2)]]
    yield "close votes", close_vote_notes(close)
    yield "many", close_vote_notes([case(f"c{number}", "failed", rubrics(close=1, listed=1)) for number in range(5)])
    yield "ended by themselves", truncation_notes([led("a", None), led("b", "stop-signal")])
    limited = [led("a", "stop-signal", "turn-limit"), led("b", "turn-limit", "turn-limit"), led("fixed turns", None)]
    yield "ended by their limit", truncation_notes(limited)
    yield "nothing spent", cost_of()
    yield "of one", cost_of(("agent", 0.31))
    yield "of all", cost_of(("agent", 0.31), ("agent-again", 0.03), ("safety_v1", 0.05), ("hallucinations_v1", 0.03))
    yield "of users", cost_of(("agent", None), ("user-simulator", 1.5))
    yield "no price", cost_of(("agent", None))
    late = [case(str(n), "not_run", reason=Reason(code="x", message="late" if n % 2 else "early")) for n in range(4)]
    groups = not_run_groups(report("inconclusive", [*late, case("5", "not_run")]))
    yield "not run", [(reason, [item.eval_id for item in group]) for reason, group in groups]
    numbers = metric("tool_call_count_v1", 3.0, threshold=None)
    other = case("x", "failed", numbers, metric(TRAJECTORY, 0.2, threshold=0.5))
    yield (
        "metrics",
        [
            f"{row.name} {row.score}, needs {row.threshold}"
            for row in metric_rows(report("failed", [other, wrong_room()]))
        ],
    )
    suite = SuiteTestReport(
        metric="pass", cases=9, drop=0.111, p_value=0.061, p_confirm=0.0004, p_adjusted=0.0008,
        minimum_detectable_drop=0.14,
    )  # fmt: skip
    lower = SuiteTestReport(metric="token_usage_v1", cases=2, drop=120.0, p_value=1.0, direction="lower")
    suites = [suite, lower, SuiteTestReport(metric="x", cases=0)]
    yield "suites", suite_lines(seen(DecisionReport(outcome="failed", alpha=0.05, suites=suites, extra_runs=1)))


def test_notes__beside_the_scores() -> None:
    """UPDATE_GOLDEN=1 writes them."""
    lines = []
    for name, said_of_it in every_note():
        lines.append(f"{name}:")
        lines += [f"  {line!r}" for line in (said_of_it if isinstance(said_of_it, list) else [said_of_it])]
    check("golden_notes.txt", "\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("thresholds", "failed", "at_most", "said"),
    [
        ((0.8,), 0, False, "needs 0.80"),
        ((0.8,), 1, False, "1 of 9 cases below 0.80"),
        ((0.6, 0.8), 2, False, "2 of 9 cases below thresholds of 0.60 to 0.80"),
        ((900.0,), 9, True, "9 of 9 cases above 900.00"),
    ],
)
def test_metric_row__says_how_many_cases_do_not_reach_what_they_need(
    thresholds: tuple[float, ...], failed: int, at_most: bool, said: str
) -> None:
    counts = {"passed": 9 - failed, "failed": failed, "not_evaluated": 0, "informational": 0}
    row = MetricRow(name="metric", thresholds=thresholds, mean=0.5, at_most=at_most, **counts)
    assert row.needed == said
