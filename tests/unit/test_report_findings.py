from __future__ import annotations

import pytest
from remark_samples import notes
from report_samples import RESPONSE, TRAJECTORY, case, good, metric, report, rubrics, turn_of

from agent_eval.report.renderers import summary_markdown
from agent_eval.report.views._findings import findings, reason_lines
from agent_eval.results.recording import RunError
from agent_eval.results.report import Reason, TurnEvidence


def error(owner: str = "agent", *, message: str = "boom", turn: int | None = 0) -> RunError:
    return RunError.model_validate({"kind": "agent-exception", "owner": owner, "message": message, "turn": turn})


def test_why__counts_findings_beyond_the_limit() -> None:
    many = case("x", "failed", *[metric(f"m{n}", 0.0, threshold=1.0) for n in range(5)])
    assert reason_lines(many) == ["m0 0.00, needs 1.00", "m1 0.00, needs 1.00", "and 3 more findings: m2, m3, m4"]
    assert reason_lines(many, 2) == ["m0 0.00, needs 1.00", "and 4 more findings: m1, m2, m3, m4"]


@pytest.mark.parametrize("others", [2, 4])
def test_why__among_many_findings_one_has_its_reason(others: int) -> None:
    names = [f"m{n}" for n in range(others)]
    result = case("x", "failed", rubrics(), *[metric(name, 0.0, threshold=1.0) for name in names])
    assert reason_lines(result) == [
        "rubric_based_tool_use_quality_v1 0.00, needs 0.50",
        "turn 1: polite: no (3:0): rude",
        f"and {others} more findings: {', '.join(names)}",
    ]
    assert len(reason_lines(result, 2)) == 2
    [only] = reason_lines(result, 1)
    assert only == f"rubric_based_tool_use_quality_v1 0.00, needs 0.50; and {others} more findings"


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
    assert [turn.run for turn in first.turns] == [1]
    assert second.summary == "2 of 3 runs passed"
    assert findings(good("y")) == []


def test_findings__a_missing_measurement_is_not_hidden_by_the_others() -> None:
    partly = metric(RESPONSE, 0.9, None, threshold=0.5, reason=Reason(code="needs-reference", message="no reference"))
    assert (
        findings(case("x", "errored", partly, runs=2))[0].summary
        == f"{RESPONSE} not evaluated in run 2 of 2: no reference"
    )


def test_why__the_first_rubric_of_a_judge_is_no_count_to_leave_out() -> None:
    [summary, *details] = reason_lines(case("x", "failed", rubrics()))
    assert "rubric_based_tool_use_quality_v1" in summary
    assert details == ["turn 1: polite: no (3:0): rude", "turn 1: brief: no (3:2, close): long"]


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
