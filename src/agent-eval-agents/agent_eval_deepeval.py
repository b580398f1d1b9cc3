"""DeepEval's metrics as custom metrics of ADK: `agent_eval_deepeval.metric`.

One file that needs deepeval and google-adk, and nothing of agent-eval: it runs in the agent's environment, in
agent-eval's process for custom metrics and under `adk eval`. The criterion names the metric's class; its other fields
are the arguments of the class (docs/custom-metrics.md). Written for deepeval 3 and 4; tested with 4.3.1.
"""

from __future__ import annotations

import importlib.metadata
import inspect
import json
import os
import typing
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

# deepeval reads these when it is imported.
os.environ.update(
    DEEPEVAL_TELEMETRY_OPT_OUT="1",  # no PostHog, no Sentry
    DEEPEVAL_DISABLE_DOTENV="1",  # does not load .env
    DEEPEVAL_FILE_SYSTEM="READ_ONLY",  # writes no .deepeval
    DEEPEVAL_NO_INSPECT_PROMPT="1",
)
os.environ.pop("CONFIDENT_API_KEY", None)  # With it, results would be uploaded.

import deepeval.metrics
from deepeval.metrics import BaseConversationalMetric, BaseMetric
from deepeval.models import DeepEvalBaseLLM, LocalModel
from deepeval.test_case import ConversationalTestCase, LLMTestCase, ToolCall, Turn
from google.adk.evaluation.eval_metrics import EvalStatus
from google.adk.evaluation.eval_rubrics import RubricScore
from google.adk.evaluation.evaluator import EvaluationResult, PerInvocationResult
from pydantic import ConfigDict, TypeAdapter
from pydantic.errors import PydanticUserError

_JUDGE = "DEEPEVAL_JUDGE_"
_CONVERSATION = ("chatbot_role", "scenario", "expected_outcome", "user_description")
"""Fields of a criterion that describe a conversation."""
_TEXTS = ("context", "retrieval_context")
"""Fields of a criterion that replace what is taken from the conversation."""
_OURS = {"metric", "threshold", "include_intermediate_responses_in_final", *_TEXTS}
_LONGEST_REASON = 2_000


async def metric(
    eval_metric: Any, actual_invocations: list[Any], expected_invocations: list[Any] | None, conversation_scenario: Any
) -> EvaluationResult:
    """Scores turns with a metric of deepeval, or the conversation as a whole with a conversational one.

    The score is the mean over the turns; the metric passes if every turn passes. If a turn can't be scored (the judge
    does not answer, the turn lacks what the metric needs), nothing is: the status is NOT_EVALUATED.

    Raises:
        LookupError: deepeval has no such metric.
        TypeError: An argument is unknown or invalid; the message has the signature.
    """
    criterion = eval_metric.criterion
    fields = {**(criterion.model_extra or {}), "threshold": criterion.threshold}
    factory = _Factory(fields, default_name=eval_metric.metric_name)
    expected: Sequence[Any] = expected_invocations or [None] * len(actual_invocations)
    if issubclass(factory.cls, BaseConversationalMetric):
        case = _conversation(actual_invocations, conversation_scenario, fields)
        measured = [await measure(factory.make(), case)] * len(actual_invocations)
        # The reason is about the whole conversation: one turn shows it.
        measured[1:] = [(score, status, "") for score, status, _ in measured[1:]]
    else:
        cases = turn_cases(actual_invocations, expected, fields)
        measured = [await measure(factory.make(), case) for case in cases]
    turns = [
        PerInvocationResult(
            actual_invocation=actual,
            expected_invocation=reference,
            score=score,
            eval_status=status,
            rubric_scores=_rubrics(factory.cls, score, reason),
        )
        for (score, status, reason), actual, reference in zip(measured, actual_invocations, expected, strict=True)
    ]
    missing = next((reason for score, _, reason in measured if score is None), None)
    if missing is not None or not measured:
        return EvaluationResult(
            per_invocation_results=turns,
            overall_rubric_scores=_rubrics(factory.cls, None, missing or "There is no turn"),
        )
    scores = [score for score, _, _ in measured if score is not None]
    return EvaluationResult(
        overall_score=sum(scores) / len(scores),
        overall_eval_status=EvalStatus.PASSED
        if all(status is EvalStatus.PASSED for _, status, _ in measured)
        else EvalStatus.FAILED,
        per_invocation_results=turns,
    )


metric.version = f"deepeval {importlib.metadata.version('deepeval')}"  # type: ignore[attr-defined]
"""Scores of different versions are not compared: 4.3 turned the direction of three metrics around."""


async def measure(measuring: Any, case: Any) -> tuple[float | None, EvalStatus, str]:
    """Score, status and reason of a test case. Without a score, the reason says why."""
    try:
        await measuring.a_measure(case, _show_indicator=False)
    except Exception as error:  # the judge is unavailable, or its answer is unusable
        cause = error.__cause__ or error  # tenacity's RetryError does not say what failed
        return None, EvalStatus.NOT_EVALUATED, f"{type(cause).__name__}: {cause}"
    score = measuring.score
    if score is None or measuring.error:
        return None, EvalStatus.NOT_EVALUATED, str(measuring.error or "the metric has no score")
    status = EvalStatus.PASSED if measuring.success else EvalStatus.FAILED
    return float(score), status, str(measuring.reason or "")


def _rubrics(cls: type[Any], score: float | None, reason: str) -> list[RubricScore] | None:
    if not reason:
        return None
    return [RubricScore(rubric_id=cls.__name__, rationale=reason[:_LONGEST_REASON], score=score)]


class _Factory:
    """Makes a new metric object for each test case, because the objects keep state."""

    def __init__(self, fields: Mapping[str, Any], default_name: str) -> None:
        self.cls = _class(fields.get("metric"))
        self._parameters = {
            name: parameter
            for name, parameter in inspect.signature(self.cls).parameters.items()
            if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        }
        self._arguments = self._read(fields)
        name = self._parameters.get("name")
        if name is not None and name.default is name.empty:
            self._arguments.setdefault("name", default_name)
        if "threshold" in self._parameters:
            self._arguments["threshold"] = fields["threshold"]

    def _read(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        conversational = issubclass(self.cls, BaseConversationalMetric)
        hints = typing.get_type_hints(self.cls.__init__)
        arguments = {}
        for name, value in fields.items():
            if name in _OURS or (conversational and name in _CONVERSATION and name not in self._parameters):
                continue
            if name not in self._parameters:
                raise TypeError(f"{self.cls.__name__} has no argument `{name}`. {self._signature()}")
            arguments[name] = value if name == "model" else self._converted(name, value, hints.get(name, Any))
        return arguments

    def _converted(self, name: str, value: Any, hint: Any) -> Any:
        """A JSON value as the argument's type: names of parameters as enumerations, objects as models."""
        try:
            adapter = TypeAdapter(hint, config=ConfigDict(arbitrary_types_allowed=True))
        except (PydanticUserError, NameError):
            return value  # a type that only Python code can make
        try:
            return adapter.validate_python(value)
        except ValueError as error:
            raise TypeError(f"{self.cls.__name__}: `{name}` is invalid: {error}. {self._signature()}") from None

    def _signature(self) -> str:
        return f"Its signature is {self.cls.__name__}({', '.join(map(str, self._parameters.values()))})."

    def make(self) -> Any:
        """A new object.

        Raises:
            TypeError: The class refuses the arguments.
        """
        arguments = dict(self._arguments)
        if "model" in self._parameters:
            # Without a model, deepeval asks OpenAI, and refuses to start without its key.
            arguments["model"] = _judge(arguments.get("model"))
        try:
            return self.cls(**arguments)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{self.cls.__name__} refuses its arguments: {error}. {self._signature()}") from error


def _class(name: Any) -> type[Any]:
    metrics = {
        key: value
        for key, value in vars(deepeval.metrics).items()
        if inspect.isclass(value) and issubclass(value, (BaseMetric, BaseConversationalMetric))
    }
    if not isinstance(name, str) or name not in metrics:
        near = get_close_matches(str(name), metrics, n=3)
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        raise LookupError(f"The criterion's `metric` must be a class of deepeval.metrics, not {name!r}.{hint}")
    return metrics[name]


class _NoJudge(DeepEvalBaseLLM):
    """The model of a metric that asks none, e.g. ToolCorrectnessMetric."""

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        return None

    def generate(self, *args: Any, **kwargs: Any) -> str:
        raise RuntimeError(f"this metric asks a judge: set {_JUDGE}MODEL, {_JUDGE}BASE_URL and {_JUDGE}API_KEY")

    async def a_generate(self, *args: Any, **kwargs: Any) -> str:
        return self.generate()

    def get_model_name(self, *args: Any, **kwargs: Any) -> str:
        return "none"


def _judge(name: Any) -> DeepEvalBaseLLM:
    """The judge: any server with OpenAI's chat completions.

    Args:
        name: The criterion's `model`, which replaces DEEPEVAL_JUDGE_MODEL.
    """
    model = name or os.environ.get(f"{_JUDGE}MODEL")
    base_url = os.environ.get(f"{_JUDGE}BASE_URL")
    if not model or not base_url:
        return _NoJudge("none")
    return LocalModel(model=str(model), base_url=base_url, api_key=os.environ.get(f"{_JUDGE}API_KEY") or "none")


# --- Test cases --------------------------------------------------------------------------------------------------


def turn_cases(actual: Sequence[Any], expected: Sequence[Any], fields: Mapping[str, Any]) -> Iterator[LLMTestCase]:
    earlier: list[str] = []
    for invocation, reference in zip(actual, expected, strict=True):
        values = {
            "input": _text(invocation.user_content),
            "actual_output": _text(invocation.final_response),
            "expected_output": None
            if reference is None or reference.final_response is None
            else _text(reference.final_response),
            "tools_called": _tools(invocation),
            "expected_tools": None if reference is None else _tools(reference),
            "retrieval_context": [_json(response) for _, response in _responses(invocation)] or None,
            "context": list(earlier) or None,
            "completion_time": getattr(invocation, "duration", None),
            "metadata": _usage(invocation) or None,
            **{name: fields[name] for name in _TEXTS if name in fields},
        }
        yield LLMTestCase(**{name: value for name, value in values.items() if name in LLMTestCase.model_fields})
        earlier += [f"User: {values['input']}", f"Agent: {values['actual_output']}"]


def _conversation(actual: Sequence[Any], scenario: Any, fields: Mapping[str, Any]) -> ConversationalTestCase:
    turns = []
    for invocation in actual:
        responses = [_json(response) for _, response in _responses(invocation)]
        turns.append(Turn(role="user", content=_text(invocation.user_content)))
        turns.append(
            Turn(
                role="assistant",
                content=_text(invocation.final_response),
                tools_called=_tools(invocation),
                retrieval_context=responses or None,
            )
        )
    about = {name: fields[name] for name in _CONVERSATION if name in fields}
    if scenario is not None:
        about.setdefault("scenario", scenario.conversation_plan)
    if "context" in fields:
        about["context"] = fields["context"]
    return ConversationalTestCase(turns=turns, **about)


def _text(content: Any) -> str:
    return "\n".join(part.text for part in (content.parts if content else None) or () if part.text)


def _parts(invocation: Any, kind: str) -> Iterator[Any]:
    for event in getattr(invocation.intermediate_data, "invocation_events", None) or ():
        for part in (event.content.parts if event.content else None) or ():
            if (value := getattr(part, kind)) is not None:
                yield value


def _calls(invocation: Any) -> list[Any]:
    flat = getattr(invocation.intermediate_data, "tool_uses", None) or ()
    return [*flat, *_parts(invocation, "function_call")]


def _responses(invocation: Any) -> list[tuple[Any, Any]]:
    """The tool responses: the response object, and what it contains."""
    flat = getattr(invocation.intermediate_data, "tool_responses", None) or ()
    return [(value, value.response) for value in (*flat, *_parts(invocation, "function_response"))]


def _tools(invocation: Any) -> list[ToolCall]:
    """The calls, each with its response: of the same id, else the next one of the same tool."""
    responses = _responses(invocation)
    tools = []
    for call in _calls(invocation):
        match = next(
            (
                pair
                for pair in responses
                if (pair[0].id == call.id if call.id and pair[0].id else pair[0].name == call.name)
            ),
            None,
        )
        if match is not None:
            responses.remove(match)
        output = None if match is None else match[1]
        tools.append(ToolCall(name=call.name or "", input_parameters=dict(call.args or {}), output=output))
    return tools


def _usage(invocation: Any) -> dict[str, int]:
    """The tokens of the turn by Gemini's names."""
    counts: dict[str, int] = {}
    for event in getattr(invocation.intermediate_data, "invocation_events", None) or ():
        usage = getattr(event, "usage_metadata", None)
        for name in ("prompt_token_count", "candidates_token_count", "thoughts_token_count"):
            count = usage.get(name) if isinstance(usage, dict) else getattr(usage, name, None)
            if isinstance(count, int):
                counts[name] = counts.get(name, 0) + count
    return counts


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
