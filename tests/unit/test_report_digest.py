from __future__ import annotations

import pytest
from report_samples import RESPONSE, TRAJECTORY, case, crash, good, metric, outage, report, wrong_room

from agent_eval.report.difference import changes
from agent_eval.report.digest import (
    close_votes,
    findings,
    has_crashed,
    headline,
    metric_rows,
    not_run_groups,
    other_reasons,
    unjudged_groups,
    why,
)
from agent_eval.results.recording import RunError
from agent_eval.results.report import CaseReport, MetricReport, Reason, TurnEvidence


def error(owner: str = "agent", *, message: str = "boom", turn: int | None = 0) -> RunError:
    return RunError.model_validate({"kind": "agent-exception", "owner": owner, "message": message, "turn": turn})


def test_headline__one_case() -> None:
    assert headline(report("passed", [good("x")])) == "Passed: the only case"


def test_headline__inconclusive_by_errors_and_cases_not_run() -> None:
    assert headline(report("inconclusive", [outage(), good("x")])) == (
        "Inconclusive: 1 of 2 cases could not be judged, 1 passed"
    )
    stopped = report("inconclusive", [case("x", "not_run"), good("y")])
    assert headline(stopped) == "Inconclusive: 1 not run, 1 passed"


def test_headline__failed_with_everything() -> None:
    one = report("failed", [wrong_room(), outage(), case("x", "not_run"), case("y", "quarantined"), good("z")])
    assert headline(one) == "Failed: 1 of 5 cases, 1 could not be judged, 1 not run, 1 quarantined, 1 passed"


def test_headline__a_reason_stands_in_where_no_number_explains() -> None:
    reason = Reason(code="no-cases", message="nothing was gated\nmore")
    assert headline(report("failed", [], reasons=[reason])) == "Failed: nothing was gated"
    assert headline(report("invalid", [], reasons=[reason])) == "Invalid: nothing was gated; nothing was run"
    assert headline(report("inconclusive", [])) == "Inconclusive: no reason was recorded"


def test_other_reasons__are_those_that_the_headline_does_not_say() -> None:
    reasons = [Reason(code="failed", message="1 of 1 case"), Reason(code="x", message="min-pass-rate is 0.9")]
    assert other_reasons(report("failed", [wrong_room()], reasons=reasons)) == ["min-pass-rate is 0.9"]


def test_has_crashed__only_by_the_agent_s_own_fault() -> None:
    assert has_crashed(crash())
    assert not has_crashed(outage())
    assert not has_crashed(wrong_room())


def test_why__gives_each_finding_a_line_and_fills_up_with_differences() -> None:
    assert why(wrong_room()) == [
        f"{TRAJECTORY} 0.50, needs 1.00",
        'turn 2: set_temperature: room is "kitchen", expected "bedroom" (call 2)',
        f"{RESPONSE} 0.7996, needs 0.80",
    ]


def test_why__counts_findings_beyond_the_limit() -> None:
    many = case("x", "failed", *[metric(f"m{n}", 0.0, threshold=1.0) for n in range(5)])
    assert why(many) == ["m0 0.00, needs 1.00", "m1 0.00, needs 1.00", "and 3 more findings: m2, m3, m4"]
    assert why(many, 2) == ["m0 0.00, needs 1.00", "and 4 more findings: m1, m2, m3, m4"]


@pytest.mark.parametrize("others", [2, 4])
def test_why__among_many_findings_one_has_its_reason(others: int) -> None:
    names = [f"m{n}" for n in range(others)]
    one = case("x", "failed", rubrics(), *[metric(name, 0.0, threshold=1.0) for name in names])
    assert why(one) == [
        "rubric_based_tool_use_quality_v1 0.00, needs 0.50",
        "turn 1: polite: no (3:0): rude",
        f"and {others} more findings: {', '.join(names)}",
    ]
    assert len(why(one, 2)) == 2
    [only] = why(one, 1)
    assert only == f"rubric_based_tool_use_quality_v1 0.00, needs 0.50; and {others} more findings"


def test_findings__errors_of_several_runs_are_told_once() -> None:
    one = case("x", "failed", runs=3, errors={0: error(), 2: error(), 1: error(message="other", turn=None)})
    assert [(finding.summary, finding.lines) for finding in findings(one)] == [
        ("agent-exception in turn 1: boom", ("in runs 1, 3 of 3",)),
        ("agent-exception: other", ("in run 2 of 3",)),
    ]


def test_findings__a_mean_that_passes_does_not_hide_the_run_that_did_not() -> None:
    turn = TurnEvidence(
        turn=0, score=0.0, expected="a", actual="b", why=["0 of 1 expected call matched", "missing: a()"]
    )
    one = case(
        "x",
        "failed",
        metric(TRAJECTORY, 1.0, 0.0, 1.0, threshold=0.5, evidence={1: [turn]}),
        metric(RESPONSE, 0.9, 0.9, 0.9, threshold=0.5),
        runs=3,
        reason=Reason(code="pass-rate", message="2 of 3 runs passed"),
    )
    first, second = findings(one)
    assert first.summary == f"{TRAJECTORY} 0.67, needs 0.50, fell short in run 2 of 3"
    assert [turn.run for turn in first.turns] == [1]
    assert second.summary == "2 of 3 runs passed"
    assert findings(good("y")) == []


def test_findings__a_missing_measurement_is_not_hidden_by_the_others() -> None:
    one = case(
        "x",
        "errored",
        metric(RESPONSE, 0.9, None, threshold=0.5, reason=Reason(code="needs-reference", message="no reference")),
        runs=2,
    )
    assert findings(one)[0].summary == f"{RESPONSE} not evaluated in run 2 of 2: no reference"


def test_metric_rows__gating_ones_first_with_all_thresholds() -> None:
    other = case(
        "x", "failed", metric("tool_call_count_v1", 3.0, threshold=None), metric(TRAJECTORY, 0.2, threshold=0.5)
    )
    rows = metric_rows(report("failed", [other, wrong_room()]))
    assert [row.name for row in rows][:2] == [TRAJECTORY, RESPONSE]
    assert (rows[0].threshold, rows[0].score, rows[0].passed, rows[0].failed) == ("0.50 to 1.00", "0.35", 0, 2)
    assert (rows[2].name, rows[2].score) == ("tool_call_count_v1", "2.25")


def test_not_run_groups__by_reason() -> None:
    cases = [case(str(n), "not_run", reason=Reason(code="x", message="late" if n % 2 else "early")) for n in range(4)]
    groups = not_run_groups(report("inconclusive", [*cases, case("5", "not_run")]))
    assert [(reason, [one.eval_id for one in group]) for reason, group in groups] == [
        ("early", ["0", "2"]),
        ("late", ["1", "3"]),
        ("no reason was recorded", ["5"]),
    ]


def unjudged(name: str, *codes: str, why: str = "it is down") -> CaseReport:
    judged = [
        metric(f"m{at}", None, threshold=0.5, reason=Reason(code=code, message=why)) for at, code in enumerate(codes)
    ]
    return case(name, "errored", *judged, metric(RESPONSE, 0.9, threshold=0.5))


def test_unjudged_groups__tell_a_judges_trouble_once() -> None:
    cases = [
        unjudged("a", "judge-unavailable", "judge-unavailable", why="it is down (attempt 4)"),
        unjudged("b", "judge-unavailable", why="it is down (attempt 5)"),
        unjudged("c", "budget", why="20 calls are used up"),
        unjudged("d", "no-verdict"),
        unjudged("e", "judge-unavailable", "no-verdict"),
        outage(),
        good("x"),
    ]
    [(why_, group)] = unjudged_groups(cases)
    assert (why_, [one.eval_id for one in group]) == ("it is down (attempt 4)", ["a", "b"])
    [_, (why_, group)] = unjudged_groups([*cases, unjudged("f", "budget")])
    assert (why_, [one.eval_id for one in group]) == ("20 calls are used up", ["c", "f"])


@pytest.mark.parametrize(
    ("expected", "actual", "shown"),
    [
        ("a\nb\nc", "a\nx\nc", "  a\n- b\n+ x\n  c"),
        ("", "b", "- (nothing)\n+ b"),
        ("", "", "  (nothing)"),
        ("same", "same", "  same"),
        ("a\n" * 300, "b\n" * 300, "\n".join(["- a"] * 300 + ["+ b"] * 300)),
    ],
)
def test_changes(expected: str, actual: str, shown: str) -> None:
    assert changes(expected, actual, limit=10_000) == shown


def rubrics(*, close: int = 0, listed: int = 2) -> MetricReport:
    """A rubric criterion that failed on two rubrics of its only turn."""
    judged = metric("rubric_based_tool_use_quality_v1", 0.0, threshold=0.5)
    run = judged.runs[0]
    run.evidence = [TurnEvidence(turn=0, score=0.0, why=["polite: no (3:0): rude", "brief: no (3:2, close): long"])]
    run.details = {"judge": {"model": "m"}, "judgements": [{"close": number < close} for number in range(listed)]}
    return judged


def test_why__the_first_rubric_of_a_judge_is_no_count_to_leave_out() -> None:
    [summary, *details] = why(case("x", "failed", rubrics()))
    assert "rubric_based_tool_use_quality_v1" in summary
    assert details == ["turn 1: polite: no (3:0): rude", "turn 1: brief: no (3:2, close): long"]


def test_close_votes__are_counted_and_their_cases_named() -> None:
    assert close_votes([case("a", "failed", rubrics()), good("b")]) == []
    cases = [case(name, "failed", rubrics(close=close)) for name, close in [("a", 1), ("b", 0), ("c", 2)]]
    assert close_votes(cases) == [
        "rubric_based_tool_use_quality_v1: 3 of 6 verdicts were close, where one vote more could change them (a, c)"
    ]
    many = [case(f"c{number}", "failed", rubrics(close=1, listed=1)) for number in range(5)]
    assert close_votes(many)[0].endswith("(c0, c1, c2 and 2 more)")
    assert "5 of 5 verdicts were close" in close_votes(many)[0]


def test_what_the_policy_changed_is_told() -> None:
    costly = metric("token_usage_v1", 1200.0, threshold=900.0)
    costly.direction, costly.status, costly.runs[0].status = "lower", "failed", "failed"
    quiet = metric(RESPONSE, 0.4, threshold=0.5)
    quiet.blocking = False
    one = case("x", "failed", costly, quiet)

    assert [finding.summary for finding in findings(one)] == [
        "token_usage_v1 1200.00, needs at most 900.00",
        f"{RESPONSE} 0.40, needs 0.50 (it only informs)",
    ]
    assert [row.threshold for row in metric_rows(report("failed", [one]))] == ["at most 900.00", "0.50"]
