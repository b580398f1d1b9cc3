"""What a judge is shown of a conversation: the same things as in google-adk 2.13.0, laid out by us."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from agent_eval.core.content import Content, FunctionCall, FunctionResponse, text_of
from agent_eval.core.invocation import (
    AppDetails,
    IntermediateData,
    Invocation,
    InvocationEvent,
    InvocationEvents,
    tool_calls,
    tool_responses,
)

NO_TOOLS = "Agent has no tools."
NO_STEPS = "No intermediate steps were taken."
NO_GROUNDING = "No grounding metadata was provided."
NO_TEXT = "(no text)"


def as_json(value: Any) -> str:
    """JSON for a reader."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def without_nulls(value: Any) -> Any:
    """The value with keys that hold null left out, at every depth."""
    if isinstance(value, Mapping):
        return {key: without_nulls(one) for key, one in value.items() if one is not None}
    if isinstance(value, list | tuple):
        return [without_nulls(one) for one in value]
    return value


def answer_text(turn: Invocation, *, with_intermediate: bool = False) -> str:
    """The text of a turn's final response, "" for none.

    Args:
        turn: Expected or actual.
        with_intermediate: Put the texts on the way to it before it (`include_intermediate_responses_in_final`).
    """
    final = text_of(turn.final_response)
    if not with_intermediate:
        return final
    texts = [*_intermediate_texts(turn.intermediate_data), final]
    return "\n".join(text for text in texts if text)


def _intermediate_texts(data: IntermediateData | InvocationEvents | None) -> Iterator[str]:
    if isinstance(data, InvocationEvents):
        for event in data.invocation_events:
            yield text_of(event.content)
    elif data is not None:
        for _, parts in data.intermediate_responses:
            yield text_of(Content(parts=parts))


def instructions(details: AppDetails | None) -> str:
    """What each agent that made a model call in the turn was told; "" when nothing is known."""
    agents = details.agent_details if details else {}
    return "\n\n".join(f"{name}:\n{agent.instructions}" for name, agent in agents.items() if agent.instructions)


def tool_declarations(details: AppDetails | None) -> str:
    """The tools of each agent as JSON."""
    if details is None:
        return NO_TOOLS
    agents = {name: agent.tool_declarations for name, agent in details.agent_details.items()}
    return as_json(without_nulls({"tool_declarations": agents}))


def steps(data: IntermediateData | InvocationEvents | None) -> str:
    """The tool calls of a turn, each with its response, as JSON.

    A response belongs to the call with its id. Where ids are missing they pair by name and order; ADK would show the
    last response without an id under each of those calls.
    """
    calls = tool_calls(data)
    if not calls:
        return NO_STEPS
    pairs = zip(calls, _responses(calls, tool_responses(data)), strict=True)
    listed = [
        {
            "step": number,
            "tool_call": call.model_dump(exclude_none=True),
            "tool_response": "None" if response is None else response.model_dump(exclude_none=True),
        }
        for number, (call, response) in enumerate(pairs)
    ]
    return as_json({"tool_calls_and_response": listed})


def _responses(calls: Iterable[FunctionCall], responses: Sequence[FunctionResponse]) -> list[FunctionResponse | None]:
    by_id = {response.id: response for response in responses if response.id is not None}
    nameless = [response for response in responses if response.id is None]
    found: list[FunctionResponse | None] = []
    for call in calls:
        if call.id is not None:
            found.append(by_id.get(call.id))
            continue
        match = next((response for response in nameless if response.name in (call.name, None)), None)
        if match is not None:
            nameless.remove(match)
        found.append(match)
    return found


def grounding(events: Sequence[InvocationEvent]) -> str:
    """What searches and the like brought, as JSON."""
    entries = [
        {"step": number, "author": event.author, "grounding_metadata": without_nulls(event.grounding_metadata)}
        for number, event in enumerate(events)
        if event.grounding_metadata
    ]
    return as_json({"grounding_metadata": entries}) if entries else NO_GROUNDING


def events_of(turn: Invocation) -> list[InvocationEvent]:
    """The events of a turn; none in the older form of intermediate data."""
    data = turn.intermediate_data
    return data.invocation_events if isinstance(data, InvocationEvents) else []


def dialogue(turns: Sequence[Invocation]) -> str:
    """The whole conversation, a line for each text, tool call and tool output."""
    return "\n".join(line for number, turn in enumerate(turns, 1) for line in _turn_lines(turn, number))


def _turn_lines(turn: Invocation, number: int) -> Iterator[str]:
    if said := _spoken(turn.user_content):
        yield f"USER TURN {number}: {said}"
    events = events_of(turn)
    for event in events:
        role = "USER" if event.author.lower() == "user" else f"AGENT ({event.author})"
        if said := _spoken(event.content):
            yield f"{role} TURN {number}: {said}"
        for part in event.content.iter_parts() if event.content else ():
            if call := part.function_call:
                yield f"{role} TURN {number} (tool call): {call.name}({_compact(call.args)})"
            if response := part.function_response:
                yield f"{role} TURN {number} (tool output): {response.name} -> {_compact(response.response)}"
    if said := _spoken(turn.final_response):
        yield f"AGENT ({events[0].author if events else 'agent'}) TURN {number}: {said}"


def _spoken(content: Content | None) -> str:
    return " ".join(part.text for part in content.iter_parts() if part.text) if content else ""


def _compact(value: Mapping[str, Any] | None) -> str:
    return json.dumps(value or {}, ensure_ascii=False, default=str)


def all_instructions(turns: Sequence[Invocation]) -> str:
    """What each agent was told over all turns, each text once."""
    told = dict.fromkeys(
        f"Agent {name} instructions:\n{agent.instructions}"
        for turn in turns
        if turn.app_details
        for name, agent in turn.app_details.agent_details.items()
    )
    return "\n\n".join(told)


def all_tools(turns: Sequence[Invocation]) -> str:
    """The tools of each agent over all turns, a line each. A tool without function declarations is shown as it is."""
    lines: dict[str, None] = {}
    for turn in turns:
        for name, agent in (turn.app_details.agent_details if turn.app_details else {}).items():
            lines[f"Agent: {name}"] = None
            for tool in agent.tool_declarations:
                lines.update(dict.fromkeys(_tool_lines(tool)))
    return "\n".join(lines)


def _tool_lines(tool: Any) -> Iterator[str]:
    declared = None
    if isinstance(tool, Mapping):
        declared = tool.get("function_declarations") or tool.get("functionDeclarations")
    if not isinstance(declared, list):
        yield f"- {json.dumps(without_nulls(tool), ensure_ascii=False, default=str)}"
        return
    for function in declared:
        if isinstance(function, Mapping):
            yield f"- {function.get('name')}: {function.get('description')}"


def history(turns: Sequence[Invocation]) -> str:
    """The texts of a conversation: what the user said and what the agent finally answered."""
    said = []
    for turn in turns:
        if turn.user_content.parts:
            said.append(f"user: {text_of(turn.user_content)}")
        if turn.final_response is not None:
            said.append(f"{turn.final_response.role or 'model'}: {text_of(turn.final_response)}")
    return "\n\n".join(said)
