"""Changes what a case expects, in the form and spelling that its file uses.

A case is a JSON value here, as in its file. The functions return a changed copy that shares all unchanged parts with
it, so that `evalset.json.patched_text` changes nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic.alias_generators import to_camel

from agent_eval_scoring.core import invocation
from agent_eval_scoring.core.content import Content, FunctionCall, FunctionResponse, Part
from agent_eval_scoring.core.masking import MASK
from agent_eval_workbench.authoring.choosing import call_key

Field = Literal["calls", "final", "intermediate"]
"""What a case expects of a turn: the tool calls, the answer, and what was said before the answer."""
FIELDS: tuple[Field, ...] = ("calls", "final", "intermediate")
LARGEST = 1_000_000
"""Characters of JSON of one accepted value."""


@dataclass(frozen=True, kw_only=True)
class NewTurn:
    """The new expectation of a turn."""

    actual: invocation.Invocation
    """What the agent did."""
    fields: frozenset[Field]
    """What of it is accepted."""
    calls: tuple[int, ...] | None = None
    """Positions of the accepted calls among the calls of `actual`; None for all."""
    ignore_args: bool = False
    """The criterion does not compare args: a call that is expected already keeps its args."""


def spelled(value: Mapping[str, Any], name: str) -> str:
    """The spelling of a key in an object: of camelCase if it has that or its other keys are so written."""
    camel = to_camel(name)
    if camel in value or name in value or camel == name:
        return camel if camel in value else name
    # Keys of one word are the same in both spellings, and say nothing.
    written = [key for key in value if key != key.lower() or "_" in key]
    return camel if written and all("_" not in key for key in written) else name


def get(value: Mapping[str, Any], name: str) -> Any:
    """The member of an object in either spelling; None if it is missing."""
    return value.get(spelled(value, name))


def accept_turns(case: Mapping[str, Any], turns: Mapping[int, NewTurn]) -> dict[str, Any]:
    """A case with new expectations.

    Args:
        case: The case as in its file.
        turns: By number of the turn, 0-based.
    """
    key = spelled(case, "conversation")
    conversation = [
        accept_turn(turn, turns[number]) if number in turns else turn for number, turn in enumerate(case[key])
    ]
    return {**case, key: conversation}


def accept_turn(turn: Mapping[str, Any], new: NewTurn) -> dict[str, Any]:
    """A turn with new expectations."""
    changed = dict(turn)
    if "final" in new.fields:
        changed = _with_answer(changed, new.actual.final_response)
    if {"calls", "intermediate"} & new.fields:
        changed = _with_steps(changed, new)
    return changed


def too_large(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether a changed field of a turn is larger than LARGEST."""
    # By identity: unchanged parts are shared, and a large file that was there before is no objection.
    return any(len(json.dumps(after[key])) > LARGEST for key in after if after[key] is not before.get(key))


def adds_masked(before: Any, after: Any) -> bool:
    """Whether a changed value has a masked secret that it did not have before."""
    present = set(_strings(before))
    return any(MASK in text for text in _strings(after) if text not in present)


def _strings(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            waiting += [*item, *item.values()]
        elif isinstance(item, list):
            waiting += item


def _with_answer(turn: dict[str, Any], answer: Content | None) -> dict[str, Any]:
    parts = [] if answer is None else [part for item in answer.iter_parts() if (part := _plain_part(item))]
    key = spelled(turn, "final_response")
    present = turn.get(key)
    if not parts:
        return {name: value for name, value in turn.items() if name != key}
    if present is None:
        role = (answer.role if answer is not None else None) or "model"
        return _inserted(turn, key, {"role": role, "parts": parts}, after=("user_content",))
    if _has_text(present) and [*parts[0]] == ["text"] and len(parts) == 1:
        # Keeps what the author has beside the text, e.g. a comment or a signature.
        parts = [{**present["parts"][0], **parts[0]}]
    return {**turn, key: {**present, "parts": parts}}


def _has_text(content: Mapping[str, Any]) -> bool:
    """Whether the content is one text, so that other members of its part can be kept."""
    parts = content.get("parts")
    return isinstance(parts, list) and len(parts) == 1 and isinstance(parts[0].get("text"), str)


def _plain_part(part: Part) -> dict[str, Any] | None:
    """A part without signatures and the like; None for a thought and for a call."""
    if part.thought:
        return None
    for name in ("text", "inline_data", "file_data"):
        value = getattr(part, name)
        if value is not None:
            return {name: value if isinstance(value, str) else value.model_dump(mode="json", exclude_none=True)}
    return None


def _with_steps(turn: dict[str, Any], new: NewTurn) -> dict[str, Any]:
    """The turn with new calls, and new intermediate responses if they are accepted."""
    key = spelled(turn, "intermediate_data")
    present = turn.get(key) or {}
    events = spelled(present, "invocation_events")
    if events in present:
        return {**turn, key: {**present, events: _events(present[events] or [], new)}}
    changed = dict(present)
    if "calls" in new.fields:
        changed = _with_calls(changed, new)
    if "intermediate" in new.fields:
        said = [[author, [{"text": text}]] for author, text in invocation.intermediate_responses(new.actual)]
        changed[spelled(changed, "intermediate_responses")] = said
    if key in turn:
        return {**turn, key: changed}
    return _inserted(turn, key, changed, after=("final_response", "user_content"))


def _with_calls(data: dict[str, Any], new: NewTurn) -> dict[str, Any]:
    uses, responses = spelled(data, "tool_uses"), spelled(data, "tool_responses")
    calls = _accepted_calls(new)
    changed = {**data, uses: _merged(data.get(uses) or [], calls, new.ignore_args)}
    # Only where the file has responses: they are mocks, or for the reader, and nothing compares them.
    if data.get(responses):
        changed[responses] = [_response(response) for response in _responses_to(calls, new.actual)]
    return changed


def _accepted_calls(new: NewTurn) -> list[FunctionCall]:
    calls = invocation.tool_calls(new.actual.intermediate_data)
    return calls if new.calls is None else [calls[place] for place in new.calls]


def _merged(present: Sequence[Mapping[str, Any]], calls: Sequence[FunctionCall], ignore_args: bool) -> list[Any]:
    """The calls; one that the file has already stays as it is, with its id."""
    left = [(call_key(FunctionCall.model_validate(item), ignore_args=ignore_args), item) for item in present]
    merged: list[Any] = []
    for call in calls:
        key = call_key(call, ignore_args=ignore_args)
        place = next((number for number, (other, _) in enumerate(left) if other == key), None)
        merged.append(_call(call) if place is None else left.pop(place)[1])
    return merged


def _call(call: FunctionCall) -> dict[str, Any]:
    args = {} if call.args is None else {"args": call.args}
    return {"name": call.name or "", **args}


def _response(response: FunctionResponse) -> dict[str, Any]:
    return {"name": response.name or "", "response": response.response or {}}


def _responses_to(calls: Sequence[FunctionCall], actual: invocation.Invocation) -> list[FunctionResponse]:
    """The responses to these calls, by id; without ids the responses of their tools."""
    ids, names = {call.id for call in calls if call.id}, {call.name for call in calls}
    return [
        response
        for response in invocation.tool_responses(actual.intermediate_data)
        if (response.id in ids if response.id and ids else response.name in names)
    ]


def _events(present: Sequence[Mapping[str, Any]], new: NewTurn) -> list[Any]:
    """The events of the turn, of those kinds that the file has: calls, responses, texts.

    Texts are taken over with the calls, because the order of both is one list.
    """
    kinds = {kind for event in present for part in _raw_parts(event) if (kind := _kind(part)) is not None}
    if "calls" in new.fields:
        kinds.add("function_call")
    if "intermediate" in new.fields:
        kinds.add("text")
    # By identity: two equal calls may be one that all runs made and one that only this run made.
    accepted = {id(call) for call in _accepted_calls(new)}
    responses = {id(response) for response in _responses_to(_accepted_calls(new), new.actual)}
    # ADK's last event repeats the final response.
    final = {part.text for part in new.actual.final_response.iter_parts()} if new.actual.final_response else set()
    events: list[dict[str, Any]] = []
    for author, parts in _recorded(new.actual):
        written: list[dict[str, Any]] = []
        for part in parts:
            if part.function_call is not None and "function_call" in kinds and id(part.function_call) in accepted:
                written.append({"function_call": _call(part.function_call)})
            elif part.function_response is not None and "function_response" in kinds:
                if id(part.function_response) in responses:
                    written.append({"function_response": _response(part.function_response)})
            elif part.text and not part.thought and "text" in kinds and part.text not in final:
                written.append({"text": part.text})
        if written:
            events.append({"author": author, "content": {"role": "model", "parts": written}})
    return _respelled(events, present)


def _recorded(actual: invocation.Invocation) -> Iterator[tuple[str, list[Part]]]:
    data = actual.intermediate_data
    if isinstance(data, invocation.InvocationEvents):
        for event in data.invocation_events:
            if event.content is not None:
                yield event.author, list(event.content.iter_parts())
    elif isinstance(data, invocation.IntermediateData):
        for call in data.tool_uses:
            yield "agent", [Part(function_call=call)]
        for response in data.tool_responses:
            yield "agent", [Part(function_response=response)]
        for author, parts in data.intermediate_responses:
            yield author, list(parts)


def _kind(part: Mapping[str, Any]) -> str | None:
    for name in ("function_call", "function_response", "text"):
        if part.get(name) is not None or part.get(to_camel(name)) is not None:
            return name
    return None


def _raw_parts(event: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = event.get("content") or {}
    return content.get("parts") or []


def _respelled(events: list[dict[str, Any]], present: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The events with the spelling of the present ones; an event that says the same stays as it is."""
    camel = any("functionCall" in part or "functionResponse" in part for event in present for part in _raw_parts(event))
    left = list(present)
    result: list[Any] = []
    for event in events:
        # So that the diff of the file shows what has changed and nothing else.
        same = next((item for item in left if _meaning(item) == _meaning(event)), None)
        if same is not None:
            left.remove(same)
            result.append(same)
            continue
        if camel:
            parts = [{to_camel(name): value for name, value in part.items()} for part in _raw_parts(event)]
            event = {**event, "content": {**event["content"], "parts": parts}}
        result.append(event)
    return result


def _meaning(event: Mapping[str, Any]) -> str:
    """Equal for events of one author with the same calls, responses and texts, whatever their ids."""
    content = Content.model_validate(event.get("content") or {})
    parts: list[Any] = []
    for part in content.iter_parts():
        if part.function_call is not None:
            parts.append(["call", part.function_call.name, part.function_call.args])
        elif part.function_response is not None:
            parts.append(["response", part.function_response.name, part.function_response.response])
        else:
            parts.append(part.text)
    return json.dumps([event.get("author"), parts], sort_keys=True)


def _inserted(turn: dict[str, Any], key: str, value: Any, *, after: Sequence[str]) -> dict[str, Any]:
    """The turn with a new member behind the first of the named ones that it has."""
    place = next((spelled(turn, name) for name in after if spelled(turn, name) in turn), None)
    changed: dict[str, Any] = {}
    for name, member in turn.items():
        changed[name] = member
        if name == place:
            changed[key] = value
    changed.setdefault(key, value)
    return changed
