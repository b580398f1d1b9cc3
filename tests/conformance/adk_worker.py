"""Runs inside an environment with google-adk[eval]: answers what it is asked, one JSON line for each question."""

import asyncio
import functools
import importlib
import inspect
import json
import os
import re
import sys
import types
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from google.adk.apps.app import App
from google.adk.evaluation import local_eval_service
from google.adk.evaluation.eval_case import ConversationScenario, EvalCase, Invocation
from google.adk.evaluation.eval_config import EvalConfig, get_eval_metrics_from_config
from google.adk.evaluation.eval_metrics import BaseCriterion, EvalMetric
from google.adk.evaluation.evaluation_generator import EvaluationGenerator
from google.adk.evaluation.metric_evaluator_registry import (
    DEFAULT_METRIC_EVALUATOR_REGISTRY,
    MetricEvaluatorRegistry,
    register_custom_metrics_from_config,
)
from google.adk.evaluation.simulation.llm_backed_user_simulator import LlmBackedUserSimulator
from google.adk.evaluation.simulation.pre_built_personas import get_default_persona_registry
from google.adk.evaluation.vertex_ai_eval_facade import _VertexAiEvalFacade
from google.adk.events.event import Event
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.models.registry import LLMRegistry
from google.adk.runners import Runner
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.genai.types import Content, HttpOptions, Part

SCRIPT: dict[str, list[str | None]] = {}
"""The judge's answers by the last marker of the prompt, one after the other; None is an exception."""
ASKED: Counter[str] = Counter()
A_KEY = {"GOOGLE_API_KEY": "not-a-key"}
"""The Vertex metrics want one when they are made."""

# --- scores


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


LLMRegistry.register(ScriptedJudge)
agentplatform = importlib.import_module("agentplatform")
Client = agentplatform.Client


def client_there(**options: Any) -> Any:
    """Google's SDK takes another address from code only."""
    if url := os.environ.get("GOOGLE_VERTEX_BASE_URL"):
        options["http_options"] = HttpOptions(base_url=url)
    return Client(**options)


agentplatform.Client = client_there  # type: ignore[attr-defined]  # Only this environment has it.


def score(request: dict[str, Any]) -> dict[str, Any]:
    """The score of a conversation.

    With `script`, judges answer what it says. With `service`, Vertex AI's scores are these. With `environ`, Google's
    SDK asks the service that is named there.
    """
    SCRIPT.clear()
    SCRIPT.update(request.get("script", {}))
    ASKED.clear()
    scores = iter(request.get("service", ()))

    def served(*_: Any, **__: Any) -> Any:
        return types.SimpleNamespace(summary_metrics=[types.SimpleNamespace(mean_score=next(scores))])

    service = _VertexAiEvalFacade._perform_eval if "environ" in request else served
    with (
        mock.patch.dict(os.environ, request.get("environ", A_KEY)),
        mock.patch.object(_VertexAiEvalFacade, "_perform_eval", service),
    ):
        return answered(lambda: evaluated(request))


def evaluated(request: dict[str, Any]) -> Any:
    actual, expected, scenario = turns(request["actual"]), turns(request["expected"]), request.get("scenario")
    if scenario is not None:
        scenario = ConversationScenario.model_validate(scenario)
    metric = EvalMetric(metric_name=request["metric"])
    if request["criterion"] is not None:
        criterion = BaseCriterion.model_validate(request["criterion"])
        metric = EvalMetric(metric_name=request["metric"], threshold=criterion.threshold, criterion=criterion)
    if "case_rubrics" in request:
        case = EvalCase.model_validate({"eval_id": "c", "conversation": [], "rubrics": request["case_rubrics"]})
        local_eval_service._copy_eval_case_rubrics_to_actual_invocations(case, actual)
        if expected is not None:
            local_eval_service._copy_invocation_rubrics_to_actual_invocations(expected, actual)
    return DEFAULT_METRIC_EVALUATOR_REGISTRY.get_evaluator(metric).evaluate_invocations(actual, expected, scenario)


def turns(raw: list[Any] | None) -> list[Any] | None:
    return None if raw is None else [Invocation.model_validate(turn) for turn in raw]


def answered(evaluate: Callable[[], Any]) -> dict[str, Any]:
    try:
        result = evaluate()
        if inspect.iscoroutine(result):
            result = asyncio.run(result)
    except (ValueError, RuntimeError) as error:
        return {"raised": type(error).__name__, "message": str(error)}
    of_turns = result.per_invocation_results
    return {
        "score": result.overall_score,
        "status": result.overall_eval_status.name,
        "details": details(result, "overall_"),
        "turns": [turn.score for turn in of_turns],
        "turn_statuses": [turn.eval_status.name for turn in of_turns],
        "turn_details": [details(turn) for turn in of_turns],
        "rubrics": [(rubric.rubric_id, rubric.score) for turn in of_turns for rubric in turn.rubric_scores or []],
        "calls": sum(ASKED.values()),
    }


def details(result: Any, prefix: str = "") -> dict[str, float]:
    measured = (getattr(result, f"{prefix}{kind}_details", None) for kind in ("token_usage", "duration"))
    return {name: value for one in measured if one for name, value in one.model_dump(exclude_none=True).items()}


def custom_scores(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Custom metrics of a config, whose functions are in `path`, as ADK itself has them evaluated."""
    sys.path.insert(0, request["path"])
    config = EvalConfig.model_validate(request["config"])
    registry = register_custom_metrics_from_config(config, MetricEvaluatorRegistry())
    evaluators = {metric.metric_name: registry.get_evaluator(metric) for metric in get_eval_metrics_from_config(config)}

    def one(item: dict[str, Any]) -> dict[str, Any]:
        evaluator = evaluators[item["metric"]]
        return answered(lambda: evaluator.evaluate_invocations(turns(item["actual"]), turns(item["expected"]), None))

    return [one(item) for item in request["inputs"]]


# --- events


def invocations(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Events as the host dumps them, with ADK's own invocation: of what the agent `shapes` does, and of given ones."""
    sys.path[:0] = [request["fixtures"], str(Path(request["program"]).parent)]
    fields = importlib.import_module("agent_eval_host.serving").EVENT_FIELDS
    dump = functools.partial(importlib.import_module("agent_eval_host.values").dump, include=fields)
    agent = importlib.import_module("shapes.agent").root_agent
    made = [(text, asyncio.run(run(agent, text))) for text in request["say"]]
    made += [("hi", [Event.model_validate(item) for item in events]) for events in request["events"]]
    return [{"raw": [dump(event) for event in events], "invocation": decoded(text, events)} for text, events in made]


async def run(agent: Any, text: str) -> list[Any]:
    sessions = InMemorySessionService()
    session = await sessions.create_session(app_name="app", user_id="u")
    runner = Runner(app=App.model_construct(name="app", root_agent=agent, plugins=[]), session_service=sessions)
    message = Content(role="user", parts=[Part(text=text)])
    return [event async for event in runner.run_async(user_id="u", session_id=session.id, new_message=message)]


def decoded(text: str, events: list[Any]) -> Any:
    content = Content(role="user", parts=[Part(text=text)])
    user = Event(author="user", invocation_id=events[0].invocation_id, content=content)
    (invocation,) = EvaluationGenerator.convert_events_to_eval_invocations([user, *events])
    return invocation.model_dump(mode="json", exclude_none=True)


def histories(request: dict[str, Any]) -> list[list[str]]:
    """What the model of the user simulator would see of conversations: without calls, and with them."""
    summarize = LlmBackedUserSimulator._summarize_conversation
    conversations = [[Event.model_validate(event) for event in events] for events in request["conversations"]]
    return [[summarize(events, calls) for calls in (False, True)] for events in conversations]


def personas(_: dict[str, Any]) -> dict[str, Any]:
    registered = get_default_persona_registry().get_registered_personas()
    return {persona.id: [behavior.model_dump() for behavior in persona.behaviors] for persona in registered}


def main() -> None:
    # ADK and its libraries print: keep our answers on a descriptor of their own.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for name in ("GOOGLE_API_KEY", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"):
        os.environ.pop(name, None)
    for line in sys.stdin:
        request = json.loads(line)
        answers.write(json.dumps(globals()[request.pop("ask")](request)) + "\n")
        answers.flush()


main()
