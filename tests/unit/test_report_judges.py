"""Who judged, told in the report."""

from __future__ import annotations

from report_samples import case, metric

from agent_eval.report.judges import backends
from agent_eval.results.report import MetricReport


def test_backends__are_told_for_the_metrics_that_have_two() -> None:
    def judged_by(name: str, **details: str) -> MetricReport:
        judged = metric(name, 0.0, threshold=0.5)
        judged.runs[0].details = {"judge": {"model": "m"}, **details}
        return judged

    assert backends([case("a", "failed", judged_by("final_response_match_v2"))]) == []
    cases = [
        case("a", "failed", judged_by("safety_v1", backend="vertex")),
        case("b", "failed", judged_by("multi_turn_task_success_v1", backend="vertex")),
        case("c", "failed", judged_by("response_evaluation_score", backend="judge")),
        case("d", "failed", judged_by("safety_v1", backend="vertex")),
    ]
    assert backends(cases) == [
        "safety_v1, multi_turn_task_success_v1: judged by Vertex AI's evaluation service",
        "response_evaluation_score: judged by m, not by Vertex AI as in ADK",
    ]
