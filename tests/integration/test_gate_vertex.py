"""The gate with Vertex AI's evaluation service beside a judge: one run, both on loopback."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fake_gemini import FakeGemini
from fake_gemini.evaluation import EvaluationRequest, FakeEvaluation
from gate_runs import repository_in
from judged_gate import KEY, Judge, answers, criteria, everything_written, judged_run

VERTEX = {"threshold": 0.6, "backend": "vertex"}


def verdict(request: EvaluationRequest) -> Mapping[str, Any]:
    if request.metric == "safety_v1":
        return {"score": 0 if "Lyon" in json.dumps(request.instance) else 1, "explanation": "as @octocat said"}
    met = {"evaluatedRubric": {"rubricId": "names the capital"}, "verdict": True, "reasoning": "It does."}
    return {"score": 0.5, "rubricVerdicts": [met, {"evaluatedRubric": {"rubricId": "is kind"}}]}


def test_each_metric__is_judged_by_the_model_it_names_and_the_report_says_so(tmp_path: Path) -> None:
    with (
        repository_in(tmp_path / "repo") as repository,
        FakeGemini(Judge()) as judge,
        FakeEvaluation(script=verdict) as service,
    ):
        criteria(
            repository,
            "multi_turn_trajectory_quality_v1",
            more={"safety_v1": VERTEX, "multi_turn_task_success_v1": VERTEX},
        )
        answers(repository, {"good": "Paris.", "bad": ["Paris.", "Lyon."]})
        done = judged_run(
            repository,
            judge,
            environment=service.environ(tmp_path / "account.json"),
        )

    assert (done.code, done.statuses) == (1, {"good": "failed", "bad": "failed"}), done.err
    scores = {
        (case.eval_id, metric.name): (metric.score, metric.runs[0].details["backend"])
        for case in done.report.cases
        for metric in case.metrics
        if metric.status != "informational"
    }
    assert scores == {
        ("good", "safety_v1"): (1.0, "vertex"),
        ("bad", "safety_v1"): (0.5, "vertex"),
        ("good", "multi_turn_task_success_v1"): (0.5, "vertex"),
        ("bad", "multi_turn_task_success_v1"): (0.5, "vertex"),
        ("good", "multi_turn_trajectory_quality_v1"): (1.0, "judge"),
        ("bad", "multi_turn_trajectory_quality_v1"): (0.0, "judge"),
    }
    bills = {bill.model: (bill.calls, bill.input_tokens, bill.cost) for bill in done.report.model_usage}
    assert bills["vertex-eval"] == (5, None, None)
    assert bills["gemini-2.5-flash"][0] == judge.stats.requests == 6
    assert (len(service.received), service.refused) == (5, [])
    for notice in (
        "safety_v1, multi_turn_task_success_v1: judged by Vertex AI's evaluation service",
        "multi_turn_trajectory_quality_v1: judged by gemini-2.5-flash, not by Vertex AI as in ADK",
    ):
        assert notice in done.report.notices
    summary = (done.output / "summary.md").read_text(encoding="utf-8")
    assert "is kind: not met" in summary and "names the capital" not in summary
    assert "@octocat" not in summary, "what the service says is a stranger's text as well"
    assert KEY.encode() not in everything_written(done)
    assert b"fake-token" not in everything_written(done)
    done.check_files()
