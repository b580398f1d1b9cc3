"""Metrics of agents-cli that are code: `evaluate(instance)`, run apart from this process as other custom metrics are.

The instance is what `agents-cli eval grade` makes of a case and of its traces (google-agents-cli 1.11.0): the keys of
the case without `responses`, and the agent's events in `agent_data`, without those that have no content.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agent_eval_scoring.core.content import Content, text_of
from agent_eval_scoring.core.invocation import Invocation, InvocationEvents, contents_of
from agent_eval_scoring.core.recording import RunError
from agent_eval_scoring.core.text import shorten
from agent_eval_scoring.criteria.base import Conversation, NotEvaluated, Result, Scored, TurnFinding
from agent_eval_scoring.criteria.custom import broken, no_environment, number
from agent_eval_scoring.evalset.metric_runner import Evaluated, MetricCall, MetricFailure, MetricFailureKind

_MESSAGE = 2_000
NO_RESPONSE = "no-response"
"""The code if the agent said nothing, as agents-cli reports it for its local metrics."""


@dataclass(frozen=True, kw_only=True)
class CodeMetric:
    """Implements `Criterion`."""

    name: str
    threshold: float | None
    function: str
    """Where its code is, for messages."""
    code: str
    direction: Literal["higher", "lower", "none"] = "higher"

    async def score(self, conversation: Conversation) -> Result:
        """Calls the function."""
        if conversation.metrics is None:
            return broken(no_environment(self.name))
        instance = instance_of(conversation)
        if "response" not in instance:
            message = "The agent gave no text, so there is nothing to score"
            error = RunError(kind=NO_RESPONSE, owner="agent", message=message)
            return NotEvaluated(code=NO_RESPONSE, message=message, error=error)
        call = MetricCall(metric=self.name, function=self.function, code=self.code, instance=instance)
        try:
            return self._read(await conversation.metrics.evaluate(call), conversation)
        except MetricFailure as failure:
            return broken(failure)

    def _read(self, evaluated: Evaluated, conversation: Conversation) -> Result:
        score = number(evaluated.score)
        if evaluated.type != "score" or score is None:
            shown = shorten(evaluated.shown, 300)
            return broken(
                MetricFailure(
                    f"`{self.name}` returned {shown}, which is no score",
                    kind=MetricFailureKind.RESULT,
                    hint='Return a finite number, or {"score": NUMBER, "explanation": TEXT}.',
                )
            )
        passed = None
        if self.threshold is not None:
            passed = score <= self.threshold if self.direction == "lower" else score >= self.threshold
        why = shorten(evaluated.explanation, _MESSAGE)
        last = len(conversation.actual) - 1
        expected = conversation.expected
        finding = TurnFinding(
            turn=last,
            score=score,
            expected=text_of(expected[last].final_response) if expected else "",
            actual=text_of(conversation.actual[last].final_response),
            why=(why,) if why else (),
        )
        details = {"function": self.function, **({"explanation": why} if why else {})}
        return Scored(score=score, passed=passed, findings=() if passed else (finding,), details=details)


def instance_of(conversation: Conversation) -> dict[str, Any]:
    """What `evaluate` is given; without `response` if no event has a text."""
    case, turns = conversation.case.dataset_case, conversation.actual
    # For a case of ADK's format, whose criteria may name such a function: its last turn, after the others.
    value = {} if case is None else case.model_dump(mode="json", exclude_none=True, exclude={"responses"})
    data: dict[str, Any] = value.pop("agent_data", {})
    events = [event for turn in turns for event in _events(turn)]
    if (scenario := conversation.case.conversation_scenario) is not None:
        value["prompt"] = {"role": "user", "parts": [{"text": scenario.starting_prompt}]}
        past: list[dict[str, Any]] = [
            {"turn_index": number, "turn_id": f"turn_{number}", "events": [_event("user", turn.user_content), *said]}
            for number, turn in enumerate(turns)
            for said in [list(_events(turn))]
        ]
    else:
        past = data.get("turns") or [{"turn_index": 0, "turn_id": "turn_0", "events": []}]
        root = events[0]["author"] if events else "model"
        for turn in past:
            kept = [event for event in turn.get("events", ()) if event.get("content")]
            turn["events"] = [{**event, "author": root} if event.get("author") == "model" else event for event in kept]
        past[-1]["events"] += events
    value["agent_data"] = {"turns": past}
    if agents := _agents(turns) or data.get("agents"):
        value["agent_data"]["agents"] = agents
    if (response := _response(events)) is not None:
        value["response"] = response
    return value


def _events(turn: Invocation) -> Iterator[dict[str, Any]]:
    """What the agent said in a turn, in order, with its final response."""
    data, final = turn.intermediate_data, turn.final_response
    said: list[tuple[str, Content | None]] = []
    if isinstance(data, InvocationEvents):
        said = [(event.author, event.content) for event in data.invocation_events]
    elif data is not None:
        said = [(event.author, Content(role="model", parts=list(parts))) for event, parts in contents_of(data)]
    if final is not None and not any(content == final for _, content in said):
        # The event of the final response has no content of its own, unless it also calls a tool.
        place = max((at for at, (_, content) in enumerate(said) if content is None), default=len(said))
        author = said[min(place, len(said) - 1)][0] if said else ""
        said[place : place + 1] = [(author, final)]
    for author, content in said:
        if content is not None and content.parts:
            yield _event(author or "model", content)


def _event(author: str, content: Content) -> dict[str, Any]:
    value = content.model_dump(mode="json", exclude_none=True)
    for part in value.get("parts", ()):
        part.pop("thought_signature", None)
    return {"author": author, "content": value}


def _response(events: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    for event in reversed(events):
        texts = [part["text"] for part in event["content"].get("parts", ()) if part.get("text")]
        if texts and event["author"] != "user":
            return {"role": event["content"].get("role") or "model", "parts": [{"text": "".join(texts)}]}
    return None


def _agents(turns: Sequence[Invocation]) -> dict[str, Any]:
    """The agents that asked a model, as `app-info` describes them."""
    described = {}
    for turn in turns:
        for name, agent in (turn.app_details.agent_details if turn.app_details else {}).items():
            facts = {"instruction": agent.instructions, "tools": agent.tool_declarations}
            described[name] = {"agent_id": name, "agent_type": "LlmAgent", **facts}
    return described
