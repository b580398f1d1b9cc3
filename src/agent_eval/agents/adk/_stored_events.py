"""Events as ADK stores and serves them, in the form of the events that a host sends.

A session file, a database and ADK's servers have camelCase or snake_case keys. Only the keys that belong to ADK are
rewritten: arguments of tools, their responses and session state keep theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic.alias_generators import to_snake

from agent_eval.agents.adk._events import MalformedEvent

Json = Mapping[str, Any]


def snake_case_event(raw: object) -> dict[str, Any]:
    """An event with snake_case keys, as `to_invocation` reads it.

    Raises:
        MalformedEvent: It is not an event.
    """
    event = _keys(raw, "an event")
    for key, convert in _FIELDS.items():
        if event.get(key) is not None:
            event[key] = convert(event[key])
    return event


def _keys(raw: object, what: str) -> dict[str, Any]:
    if not isinstance(raw, Mapping):
        raise MalformedEvent(f"{what} is not an object")
    return {to_snake(key): value for key, value in raw.items()}


def _content(raw: object) -> dict[str, Any]:
    content = _keys(raw, "the content of an event")
    parts = content.get("parts")
    if parts is not None:
        if not isinstance(parts, list):
            raise MalformedEvent("the parts of an event are not a list")
        content["parts"] = [_part(part) for part in parts]
    return content


def _part(raw: object) -> dict[str, Any]:
    part = _keys(raw, "a part of an event")
    for key in ("function_call", "function_response", "inline_data", "file_data"):
        if part.get(key) is not None:
            part[key] = _keys(part[key], f"`{key}` of an event")
    return {key: value for key, value in part.items() if value is not None}


def _actions(raw: object) -> dict[str, Any]:
    return _keys(raw, "`actions` of an event")


def _deep(raw: object) -> Any:
    """All keys, of values that hold nothing of the agent's own."""
    if isinstance(raw, Mapping):
        return {to_snake(key): _deep(value) for key, value in raw.items()}
    return [_deep(item) for item in raw] if isinstance(raw, list) else raw


_FIELDS: Mapping[str, Callable[[object], Any]] = {
    "content": _content,
    "actions": _actions,
    "usage_metadata": _deep,
    "grounding_metadata": _deep,
}
