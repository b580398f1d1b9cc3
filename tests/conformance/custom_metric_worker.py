"""Runs inside an environment with google-adk[eval]: custom metrics as ADK itself has them evaluated."""

import asyncio
import inspect
import json
import os
import sys
import warnings

warnings.filterwarnings("ignore")

from google.adk.evaluation.eval_case import Invocation  # noqa: E402
from google.adk.evaluation.eval_config import EvalConfig, get_eval_metrics_from_config  # noqa: E402
from google.adk.evaluation.metric_evaluator_registry import (  # noqa: E402
    MetricEvaluatorRegistry,
    register_custom_metrics_from_config,
)


async def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.path.insert(0, sys.argv[1])
    asked = json.load(sys.stdin)
    config = EvalConfig.model_validate(asked["config"])
    registry = register_custom_metrics_from_config(config, MetricEvaluatorRegistry())
    metrics = {metric.metric_name: metric for metric in get_eval_metrics_from_config(config)}
    results: list[dict[str, object]] = []
    for item in asked["inputs"]:
        actual, expected = ([Invocation.model_validate(turn) for turn in item[key]] for key in ("actual", "expected"))
        evaluator = registry.get_evaluator(metrics[item["metric"]])
        try:
            result = evaluator.evaluate_invocations(actual, expected, None)
            if inspect.isawaitable(result):
                result = await result
        except Exception as error:
            results.append({"raised": type(error).__name__})
            continue
        results.append(
            {
                "score": result.overall_score,
                "status": result.overall_eval_status.name,
                "turns": [turn.score for turn in result.per_invocation_results],
            }
        )
    answers.write(json.dumps(results))
    answers.flush()


asyncio.run(main())
