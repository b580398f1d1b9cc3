"""The notes on judges in the report."""

from __future__ import annotations

import pytest
from report_samples import case, metric, report

from agent_eval.models.protocol import ModelUsage
from agent_eval.models.usage import UsageEntry
from agent_eval.report.phrases._judge_notes import backend_notes, missing_verdict_notes, truncation_notes
from agent_eval.report.views._usage import bill, case_usage_report, saved_votes, usage_line, usage_report
from agent_eval.results.report import CaseReport, CaseUsageReport, MetricReport


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
