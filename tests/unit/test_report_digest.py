from __future__ import annotations

from report_samples import RESPONSE, TRAJECTORY, case, crash, good, metric, outage, report, rubrics, wrong_room

from agent_eval.report.views._findings import findings
from agent_eval.report.views.digest import close_vote_notes, has_crashed, metric_rows, not_run_groups
from agent_eval.results.report import Reason


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
