"""Runs inside an environment with google-adk[eval]: scores what it is sent, with a judge that follows a script."""

import asyncio
import inspect
import json
import os
import re
import sys
import types
import warnings
from collections import Counter
from typing import Any

warnings.filterwarnings("ignore")
os.environ["GOOGLE_API_KEY"] = "not-a-key"  # The Vertex metrics want one when they are made; nothing is called.
for name in ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"):
    os.environ.pop(name, None)

from google.adk.evaluation import local_eval_service  # noqa: E402
from google.adk.evaluation.eval_case import ConversationScenario, EvalCase, Invocation  # noqa: E402
from google.adk.evaluation.eval_metrics import BaseCriterion, EvalMetric  # noqa: E402
from google.adk.evaluation.metric_evaluator_registry import DEFAULT_METRIC_EVALUATOR_REGISTRY  # noqa: E402
from google.adk.evaluation.vertex_ai_eval_facade import _VertexAiEvalFacade  # noqa: E402
from google.adk.models.base_llm import BaseLlm  # noqa: E402
from google.adk.models.llm_response import LlmResponse  # noqa: E402
from google.adk.models.registry import LLMRegistry  # noqa: E402
from google.genai.types import Content, Part  # noqa: E402

SCRIPT: dict[str, list[str | None]] = {}
"""Answers by the last marker of the prompt, one after the other; None is an exception."""
ASKED: Counter[str] = Counter()
SERVICE: list[float | None] = []
"""What the remote service answers, one after the other."""


class ScriptedJudge(BaseLlm):  # type: ignore[misc]  # google-adk is in the worker's environment only
    @classmethod
    def supported_models(cls) -> list[str]:
        return [r"scripted-judge"]

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        prompt = llm_request.contents[0].parts[0].text
        key = re.findall(r"@@[\w.]+@@", prompt)[-1]
        answer = SCRIPT[key][ASKED[key]]
        ASKED[key] += 1
        if answer is None:
            raise RuntimeError("scripted failure")
        yield LlmResponse(content=Content(role="model", parts=[Part(text=answer)]))


def service(self: Any, dataset: Any, metrics: Any) -> Any:
    score = SERVICE.pop(0)
    return types.SimpleNamespace(summary_metrics=[types.SimpleNamespace(mean_score=score)])


LLMRegistry.register(ScriptedJudge)
_VertexAiEvalFacade._perform_eval = service


def answer(request: dict[str, Any]) -> dict[str, Any]:
    SCRIPT.clear()
    SCRIPT.update(request.get("script", {}))
    SERVICE[:] = request.get("service", [])
    ASKED.clear()
    actual = [Invocation.model_validate(turn) for turn in request["actual"]]
    expected, scenario = request.get("expected"), request.get("scenario")
    if expected is not None:
        expected = [Invocation.model_validate(turn) for turn in expected]
    if scenario is not None:
        scenario = ConversationScenario.model_validate(scenario)
    criterion = BaseCriterion.model_validate(request["criterion"])
    metric = EvalMetric(metric_name=request["metric"], threshold=criterion.threshold, criterion=criterion)
    try:
        case = EvalCase.model_validate({"eval_id": "c", "conversation": [], "rubrics": request.get("case_rubrics")})
        local_eval_service._copy_eval_case_rubrics_to_actual_invocations(case, actual)
        if expected is not None:
            local_eval_service._copy_invocation_rubrics_to_actual_invocations(expected, actual)
        result = DEFAULT_METRIC_EVALUATOR_REGISTRY.get_evaluator(metric).evaluate_invocations(
            actual, expected, scenario
        )
        if inspect.iscoroutine(result):
            result = asyncio.run(result)
    except (ValueError, RuntimeError) as error:
        return {"raised": type(error).__name__, "message": str(error)}
    return {
        "score": result.overall_score,
        "status": result.overall_eval_status.name,
        "turns": [turn.score for turn in result.per_invocation_results],
        "calls": sum(ASKED.values()),
    }


def main() -> None:
    # ADK and its libraries print: keep our answers on a descriptor of their own.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        answers.write(json.dumps(answer(json.loads(line))) + "\n")
        answers.flush()


main()
