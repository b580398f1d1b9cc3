"""Events of ADK's REST servers as `adk/events.py` reads them: snake_case keys, parts in their wrappers, no nulls.

Python, Go, TypeScript, Java and Kotlin write camelCase. Rust writes snake_case, and parts without a wrapper. Only known
keys are renamed, and nothing inside data of the agent: `args`, `response`, `custom_metadata`, `state_delta`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Json = dict[str, Any]

_EVENT_KEYS = (
    "id", "invocation_id", "author", "branch", "timestamp", "content", "partial", "turn_complete", "error_code",
    "error_message", "finish_reason", "grounding_metadata", "usage_metadata", "model_version", "long_running_tool_ids",
    "actions", "output",
)  # fmt: skip
_ACTIONS = (
    "skip_summarization", "transfer_to_agent", "escalate", "state_delta", "rewind_before_invocation_id", "compaction",
)  # fmt: skip
_PART_KEYS = (
    "text", "thought", "function_call", "function_response", "inline_data", "file_data", "executable_code",
    "code_execution_result", "thought_signature", "video_metadata", "media_resolution", "part_metadata", "tool_call",
    "tool_response",
)  # fmt: skip
_IN_PARTS: Mapping[str, Sequence[str]] = {
    "function_call": ("id", "name", "args", "partial_args", "will_continue"),
    "function_response": ("id", "name", "response", "parts", "scheduling", "will_continue"),
    "inline_data": ("data", "mime_type", "display_name"),
    "file_data": ("file_uri", "mime_type", "display_name"),
    "executable_code": ("id", "code", "language"),
    "code_execution_result": ("id", "outcome", "output"),
    "video_metadata": ("start_offset", "end_offset", "fps"),
}
_WRAPPERS = frozenset(_PART_KEYS) - {"text", "thought", "function_response"}


@functools.cache
def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def normalised(raw: Mapping[str, Any]) -> Json:
    """An event in the form of the adk driver. Values of unexpected types stay as they are, for its checks."""
    event = _known(raw, _EVENT_KEYS)
    if isinstance(event.get("content"), Mapping):
        event["content"] = _content(event["content"])
    if isinstance(event.get("actions"), Mapping):
        event["actions"] = _known(event["actions"], _ACTIONS)
    for name in ("usage_metadata", "grounding_metadata"):
        if name in event:
            event[name] = _renamed(event[name])
    return event


def merged(events: Iterable[Json]) -> list[Json]:
    """The events without partial ones, and without the second half of an event that the server split in two.

    ADK's Python server sends an event with content and artifacts as two with one id, the second without content.
    """
    result: list[Json] = []
    for event in events:
        if event.get("partial"):
            continue
        if result and event.get("id") and event["id"] == result[-1].get("id"):
            if "content" not in event:
                continue
            if "content" not in result[-1]:
                result[-1] = event
                continue
        result.append(event)
    return result


def _known(raw: Mapping[str, Any], names: Sequence[str]) -> Json:
    """The known keys that have a value. If both spellings are present, camelCase counts, as in ADK."""
    values = {}
    for name in names:
        camel = raw.get(_camel(name))
        value = raw.get(name) if camel is None else camel
        if value is not None:
            values[name] = value
    return values


def _content(raw: Mapping[str, Any]) -> Json:
    content = _known(raw, ("role", "parts"))
    parts = content.get("parts")
    if isinstance(parts, list):
        bare = not any(
            isinstance(part, Mapping) and (part.keys() & _WRAPPERS or part.keys() & set(map(_camel, _WRAPPERS)))
            for part in parts
        )
        content["parts"] = [_part(part, bare=bare) if isinstance(part, Mapping) else part for part in parts]
    return content


def _part(raw: Mapping[str, Any], *, bare: bool) -> Json:
    if bare:
        raw = _wrapped(raw)
    part = _known(raw, _PART_KEYS)
    for name, keys in _IN_PARTS.items():
        if isinstance(part.get(name), Mapping):
            part[name] = _known(part[name], keys)
    if part.get("text") == "" and len(part) > 1:
        del part["text"]  # Go and Java write empty texts beside a call.
    return part


def _wrapped(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """A part of adk-rust in ADK's form; any other part as it is."""
    if isinstance(raw.get("thinking"), str):
        return {"text": raw["thinking"], "thought": True}
    if isinstance(raw.get("name"), str) and "args" in raw:
        return {"function_call": {name: raw[name] for name in ("name", "args", "id") if name in raw}}
    response = raw.get("function_response")
    if isinstance(response, Mapping) and "id" in raw:
        return {"function_response": {"id": raw["id"], **response}}
    return raw


def _renamed(value: Any) -> Any:
    """Google's metadata: fixed fields only, so that every key is renamed."""
    if isinstance(value, Mapping):
        return {_snake(key): _renamed(item) for key, item in value.items() if item is not None}
    return [_renamed(item) for item in value] if isinstance(value, list) else value


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])[A-Z]", lambda match: f"_{match[0].lower()}", name)
