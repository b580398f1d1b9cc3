"""Turns the raw events of an ADK turn into an Invocation.

The rules of google-adk 2.13.0 apply to the events of any version, so that all versions are scored alike. An event is
the output of `event.model_dump(mode="json", exclude_none=True)`. Keys that our models do not have are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from pydantic import BaseModel, ValidationError

from agent_eval_agents.messages import AgentRequest, TurnFacts
from agent_eval_scoring.core.content import Blob, Content, FileData, FunctionCall, FunctionResponse
from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.invocation import (
    AgentDetails,
    AppDetails,
    EventError,
    Invocation,
    InvocationEvent,
    InvocationEvents,
    tool_calls,
)

Json = Mapping[str, Any]

_STRICT: dict[str, type[BaseModel]] = {
    "function_call": FunctionCall,
    "function_response": FunctionResponse,
    "inline_data": Blob,
    "file_data": FileData,
}
_USER = "user"
_DEFAULT_AUTHOR = "agent"


class MalformedEvent(AgentEvalError, ValueError):
    """An event that is not in ADK's format."""


def to_invocation(events: Sequence[Json], user_content: Content, facts: TurnFacts) -> Invocation:
    """Builds an invocation from a turn's events.

    Args:
        events: The turn's events in order, without the user's message.
        user_content: The message that was sent.
        facts: What the host measured.

    Raises:
        MalformedEvent: An event is not in ADK's format.
    """
    final: _Event | None = None
    recorded: list[_Event] = []
    errors: list[tuple[int, EventError]] = []
    read = [_Event(raw) for raw in events]
    for number, event in enumerate(read):
        if event.author.lower() == _USER:
            caller = answered_agent(events[:number], event.raw)
            if caller is None:
                continue
            event.author = caller
        if event.parts and event.is_final() and (final is None or not final.has_text() or event.has_text()):
            final = event
        if event.has_content() or event.raw.get("grounding_metadata") is not None:
            recorded.append(event)
        if (error := event.error()) is not None:
            errors.append((len(recorded), error))
    kept = [event is not final or event.calls for event in recorded]
    with_content = (keep and event.content is not None for keep, event in zip(kept, recorded, strict=True))
    before = list(accumulate(with_content, initial=0))
    return Invocation(
        invocation_id=next((str(event.raw["invocation_id"]) for event in read if event.raw.get("invocation_id")), ""),
        user_content=user_content,
        final_response=None if final is None else final.content,
        intermediate_data=InvocationEvents(
            invocation_events=[event.recorded(with_content=keep) for keep, event in zip(kept, recorded, strict=True)]
        ),
        creation_timestamp=facts.started_at,
        duration=_rounded(facts.duration),
        model_duration=_rounded(facts.model_duration),
        tool_duration=_rounded(facts.tool_duration),
        app_details=_app_details({event.author for event in read}, facts.requests),
        spans=facts.spans,
        errors=[error.model_copy(update={"after": before[place]}) for place, error in errors],
        node_output=final is None and bool(read) and read[-1].raw.get("output") is not None,
        lost_toolsets=facts.lost_toolsets,
        session_state=facts.state,
    )


def ending_error(events: Sequence[Json]) -> EventError | None:
    """The error that the last event of a turn reports instead of a content; None if it reports none.

    An event in the middle of a turn may be that of a node that is tried again, or of an agent that has a substitute.
    """
    last = next((_Event(raw) for raw in reversed(events) if str(raw.get("author", "")).lower() != _USER), None)
    return None if last is None or last.has_content() else last.error()


def answered_agent(before: Sequence[Json], event: Json) -> str | None:
    """The agent that made the call which an event of the user answers within its turn; None if it answers none.

    ADK stores the result of a sub-agent with `mode="task"` as the user's. What answers a long-running call is a message
    of the user, even in the same invocation.

    Args:
        before: The events of the turn so far.
        event: The event, which may be malformed, as may the others.
    """
    callers: dict[str, str] = {}
    for raw in before:
        waiting, author = raw.get("long_running_tool_ids"), str(raw.get("author") or _DEFAULT_AUTHOR)
        for part in _raw_parts(raw):
            call, response = part.get("function_call"), part.get("function_response")
            if isinstance(call, Mapping) and not (isinstance(waiting, list) and call.get("id") in waiting):
                callers[str(call.get("id"))] = author
            if isinstance(response, Mapping):
                callers.pop(str(response.get("id")), None)
    answers = [part.get("function_response") for part in _raw_parts(event)]
    callers = {call_id: author for call_id, author in callers.items() if author.lower() != _USER and call_id != "None"}
    agents = [callers.get(str(answer.get("id"))) if isinstance(answer, Mapping) else None for answer in answers]
    return agents[0] if agents and None not in agents else None


def _raw_parts(raw: Json) -> list[Json]:
    content = raw.get("content")
    parts = content.get("parts") if isinstance(content, Mapping) else None
    return [part for part in parts if isinstance(part, Mapping)] if isinstance(parts, list) else []


def calls_of(events: Sequence[Json]) -> list[FunctionCall]:
    """The tool calls of a turn that has not ended, as `tool_calls` gives them for its invocation."""
    try:
        return tool_calls(to_invocation(events, Content(), TurnFacts()).intermediate_data)
    except (MalformedEvent, ValidationError):
        return []  # The end of the turn reports it.


def _rounded(seconds: float | None) -> float | None:
    """Rounded to milliseconds, as in ADK."""
    return None if seconds is None else round(seconds, 3)


def _app_details(authors: set[str], requests: Sequence[AgentRequest]) -> AppDetails:
    """Details of the agents that called a model and wrote an event. An agent inside an AgentTool writes none."""
    details: dict[str, AgentDetails] = {}
    for request in requests:
        if request.agent in authors and request.agent not in details:
            details[request.agent] = AgentDetails(
                name=request.agent, instructions=request.instructions, tool_declarations=request.tools
            )
    return AppDetails(agent_details=details)


class _Event:
    """One raw event, with the properties that ADK's rules use."""

    def __init__(self, raw: Json) -> None:
        self.raw = raw
        self.actions = raw.get("actions") or {}
        if not isinstance(self.actions, Mapping):
            raise MalformedEvent("the actions of an event are malformed: they are not an object")
        self.author = str(raw.get("author") or _DEFAULT_AUTHOR)
        self.content = _content(raw.get("content"))
        self.parts = [] if self.content is None else self.content.parts or []
        self.calls = any(part.function_call is not None for part in self.parts)

    def is_final(self) -> bool:
        """`Event.is_final_response()` of google-adk 2.13.0."""
        if self.actions.get("skip_summarization") or self.raw.get("long_running_tool_ids"):
            return True
        if self.raw.get("partial") or self.calls:
            return False
        if self.raw.get("error_code"):
            return True
        answers = any(part.function_response is not None for part in self.parts)
        return not answers and self.parts[-1].code_execution_result is None

    def has_text(self) -> bool:
        return any(part.text for part in self.parts)

    def has_content(self) -> bool:
        return any(
            part.text or part.function_call or part.function_response or part.inline_data is not None
            for part in self.parts
        )

    def error(self) -> EventError | None:
        """What the event reports."""
        code, message = (str(self.raw.get(key) or "") for key in ("error_code", "error_message"))
        return EventError(author=self.author, code=code, message=message) if code or message else None

    def recorded(self, *, with_content: bool) -> InvocationEvent:
        """The event as stored in the invocation; without content if the final response has it."""
        try:
            return InvocationEvent(
                author=self.author,
                content=self.content if with_content else None,
                grounding_metadata=self.raw.get("grounding_metadata"),
                usage_metadata=self.raw.get("usage_metadata"),
                model_version=self.raw.get("model_version"),
                branch=self.raw.get("branch"),
            )
        except ValidationError as error:
            raise MalformedEvent(f"an event of {self.author} is malformed: {error}") from error


def _content(raw: Any) -> Content | None:
    if raw is None:
        return None
    try:
        parts = None if raw.get("parts") is None else [_part(part) for part in raw["parts"]]
        return Content.model_validate({"role": raw.get("role"), "parts": parts})
    except (ValidationError, AttributeError, TypeError) as error:
        raise MalformedEvent(f"the content of an event is malformed: {error}") from error


def _part(raw: Json) -> dict[str, Any]:
    return {key: _model_fields(value, _STRICT[key]) if key in _STRICT else value for key, value in raw.items()}


def _model_fields(raw: Any, model: type[BaseModel]) -> Any:
    """Only the fields that our model has."""
    if not isinstance(raw, Mapping):
        raise TypeError(f"a {model.__name__} is not an object")
    return {key: raw[key] for key in model.model_fields if key in raw}
