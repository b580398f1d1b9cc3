from __future__ import annotations

from report_samples import RESPONSE, TRAJECTORY, case, crash, good, metric, outage, report, rubrics, wrong_room

from agent_eval.report.digest import (
    close_votes,
    has_crashed,
    headline,
    metric_rows,
    not_run_groups,
    other_reasons,
    unjudged_groups,
)
from agent_eval.report.findings import findings
from agent_eval.results.report import CaseReport, Reason


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
