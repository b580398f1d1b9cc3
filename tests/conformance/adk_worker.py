"""Runs inside an environment with google-adk[eval]: scores what it is sent, one JSON line for each."""

import asyncio
import inspect
import json
import os
import sys
import warnings
from typing import Any

warnings.filterwarnings("ignore")

from google.adk.evaluation.eval_case import Invocation  # noqa: E402
from google.adk.evaluation.eval_metrics import BaseCriterion, EvalMetric  # noqa: E402
from google.adk.evaluation.metric_evaluator_registry import DEFAULT_METRIC_EVALUATOR_REGISTRY  # noqa: E402


def details(result: Any, prefix: str = "") -> dict[str, float]:
    actual: dict[str, float] = {}
    for kind in ("token_usage_details", "duration_details"):
        value = getattr(result, prefix + kind, None)
        if value is not None:
            actual.update(value.model_dump(exclude_none=True))
    return actual


def answer(request: dict[str, Any]) -> dict[str, Any]:
    metric = EvalMetric(metric_name=request["metric"])
    if request["criterion"] is not None:
        criterion = BaseCriterion.model_validate(request["criterion"])
        metric = EvalMetric(metric_name=request["metric"], threshold=criterion.threshold, criterion=criterion)
    actual = [Invocation.model_validate(turn) for turn in request["actual"]]
    expected = request["expected"]
    if expected is not None:
        expected = [Invocation.model_validate(turn) for turn in expected]
    evaluator = DEFAULT_METRIC_EVALUATOR_REGISTRY.get_evaluator(metric)
    try:
        result = evaluator.evaluate_invocations(actual, expected, None)
        if inspect.iscoroutine(result):
            result = asyncio.run(result)
    except (ValueError, RecursionError) as error:
        return {"raised": type(error).__name__, "message": str(error)}
    return {
        "score": result.overall_score,
        "status": result.overall_eval_status.name,
        "details": details(result, "overall_"),
        "turns": [
            {"score": turn.score, "status": turn.eval_status.name, "details": details(turn)}
            for turn in result.per_invocation_results
        ],
    }


def main() -> None:
    # ADK and its libraries print: keep our answers on a descriptor of their own.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        answers.write(json.dumps(answer(json.loads(line))) + "\n")
        answers.flush()


main()
