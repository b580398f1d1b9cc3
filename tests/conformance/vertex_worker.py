"""Runs in an environment with google-adk[eval]: scores through Google's own SDK, at the service of its environment."""

import importlib
import json
import os
import sys
import warnings
from typing import Any

warnings.filterwarnings("ignore")

from google.adk.evaluation.eval_case import Invocation  # noqa: E402
from google.adk.evaluation.eval_metrics import BaseCriterion, EvalMetric  # noqa: E402
from google.adk.evaluation.metric_evaluator_registry import DEFAULT_METRIC_EVALUATOR_REGISTRY  # noqa: E402
from google.genai import types  # noqa: E402

agentplatform = importlib.import_module("agentplatform")
Client = agentplatform.Client


def client_there(**options: Any) -> Any:
    """The SDK takes another address from code only."""
    return Client(http_options=types.HttpOptions(base_url=os.environ["GOOGLE_VERTEX_BASE_URL"]), **options)


agentplatform.Client = client_there  # type: ignore[attr-defined]  # Only this environment has it.


def answer(request: dict[str, Any]) -> dict[str, Any]:
    os.environ.pop("GOOGLE_API_KEY", None)
    os.environ.update(request["environ"])
    actual = [Invocation.model_validate(turn) for turn in request["actual"]]
    expected = request["expected"]
    if expected is not None:
        expected = [Invocation.model_validate(turn) for turn in expected]
    criterion = BaseCriterion(threshold=request["threshold"])
    metric = EvalMetric(metric_name=request["metric"], threshold=criterion.threshold, criterion=criterion)
    try:
        result = DEFAULT_METRIC_EVALUATOR_REGISTRY.get_evaluator(metric).evaluate_invocations(actual, expected, None)
    except ValueError as error:
        return {"raised": str(error)}
    return {
        "score": result.overall_score,
        "status": result.overall_eval_status.name,
        "turns": [turn.score for turn in result.per_invocation_results],
        "rubrics": [
            {"id": rubric.rubric_id, "score": rubric.score, "rationale": rubric.rationale}
            for turn in result.per_invocation_results
            for rubric in turn.rubric_scores or []
        ],
    }


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        answers.write(json.dumps(answer(json.loads(line))) + "\n")
        answers.flush()


main()
