"""Parts of messages: ours as A2A has them, and A2A's as ADK's events have them."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agent_eval.agents.a2a._dialect import Dialect, Json
from agent_eval.core.content import Content, Part

_TYPED = ("function_call", "function_response", "executable_code", "code_execution_result")
_CALL_KEYS = frozenset({"id", "name", "args", "response"})
_EXACT = 2**53
"""From here on, a double does not hold every integer."""
_LARGEST = 2**63


class Numbers:
    """Restores integers in an answer of a dialect whose numbers are all floats."""

    def __init__(self, dialect: Dialect) -> None:
        """Begins with no number seen."""
        self._needed = dialect.numbers_are_floats
        self.lost_digits = False
        """A number was too large to be exact."""

    def restore(self, value: Any) -> Any:
        """The value with whole floats as integers, at any depth; equal to it by `==`."""
        if not self._needed:
            return value
        if isinstance(value, float):
            return self._number(value)
        if isinstance(value, Mapping):
            return {key: self.restore(each) for key, each in value.items()}
        return [self.restore(each) for each in value] if isinstance(value, list) else value

    def _number(self, value: float) -> int | float:
        if not math.isfinite(value) or not value.is_integer():
            return value
        self.lost_digits = self.lost_digits or abs(value) >= _EXACT
        return int(value) if abs(value) < _LARGEST else value


def read_parts(raw: Any, numbers: Numbers) -> tuple[list[dict[str, Any]], list[str]]:
    """A2A's parts as parts of an ADK event, and the ids of calls to long-running tools.

    Args:
        raw: The `parts` of a message or an artifact.
        numbers: Restores the numbers of data parts.
    """
    parts: list[dict[str, Any]] = []
    long_running: list[str] = []
    for each in raw if isinstance(raw, list) else ():
        if not isinstance(each, Mapping):
            continue
        metadata = each.get("metadata")
        metadata = metadata if isinstance(metadata, Mapping) else {}
        part = _read(each, metadata, numbers)
        if part is None:
            continue
        parts.append(part)
        call = part.get("function_call")
        if call is not None and metadata.get("adk_is_long_running") is True:
            long_running.append(str(call.get("id", "")))
    return parts, long_running


def _read(raw: Json, metadata: Json, numbers: Numbers) -> dict[str, Any] | None:
    if isinstance(raw.get("text"), str):
        thought = {"thought": True} if metadata.get("adk_thought") is True else {}
        return {"text": raw["text"], **thought}
    if "data" in raw:
        signature = metadata.get("adk_thought_signature")
        part = _data(numbers.restore(raw["data"]), metadata.get("adk_type"))
        return {**part, "thought_signature": signature} if isinstance(signature, str) else part
    file = raw["file"] if isinstance(raw.get("file"), Mapping) else raw
    mime_type = file.get("mimeType") or file.get("mediaType")
    name = file.get("name") or file.get("filename")
    facts = {"mime_type": mime_type, "display_name": name}
    facts = {key: value for key, value in facts.items() if isinstance(value, str)}
    data, uri = file.get("bytes", file.get("raw")), file.get("uri", file.get("url"))
    if isinstance(data, str):
        return {"inline_data": {"data": data, **facts}}
    return {"file_data": {"file_uri": uri, **facts}} if isinstance(uri, str) else None


def _data(data: Any, adk_type: Any) -> dict[str, Any]:
    """A data part: by its type (ADK), else by its shape (adk-rust), else as a JSON document."""
    if isinstance(data, Mapping):
        if adk_type in _TYPED:
            return {str(adk_type): _call(data) if str(adk_type).startswith("function") else dict(data)}
        for key in ("function_call", "function_response"):
            inner = data.get(key)
            if isinstance(inner, Mapping) and isinstance(inner.get("name"), str):
                return {key: _call({**inner, "id": inner.get("id", data.get("id"))})}
    document = json.dumps(data, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return {"inline_data": {"mime_type": "application/json", "data": base64.b64encode(document).decode()}}


def _call(data: Json) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key in _CALL_KEYS and value is not None}


def write_parts(content: Content, dialect: Dialect) -> list[Json]:
    """A user's message in a dialect. Kinds of parts that A2A doesn't have are left out."""
    return [written for part in content.iter_parts() if (written := _write(part, dialect)) is not None]


def _write(part: Part, dialect: Dialect) -> Json | None:
    if part.text is not None:
        return {"text": part.text} if dialect.flat else {"kind": "text", "text": part.text}
    if part.inline_data is not None:
        data = (part.inline_data.data or "").replace("-", "+").replace("_", "/")
        return _file("raw", "bytes", data, part.inline_data.mime_type, part.inline_data.display_name, dialect)
    if part.file_data is not None:
        uri = part.file_data.file_uri or ""
        return _file("url", "uri", uri, part.file_data.mime_type, part.file_data.display_name, dialect)
    for key in ("function_call", "function_response"):
        value = getattr(part, key)
        if value is not None:
            data = value.model_dump(mode="json", exclude_none=True)
            written: dict[str, Any] = {"data": data, "metadata": {"adk_type": key}}
            return written if dialect.flat else {"kind": "data", **written}
    return None


def _file(
    flat_key: str, key: str, value: str, mime_type: str | None, name: str | None, dialect: Dialect
) -> dict[str, Any]:
    names = ("mediaType", "filename") if dialect.flat else ("mimeType", "name")
    facts = {label: text for label, text in zip(names, (mime_type, name), strict=True) if text}
    return {flat_key: value, **facts} if dialect.flat else {"kind": "file", "file": {key: value, **facts}}


def responds(parts: Iterable[Json]) -> bool:
    """Whether a message holds the response of a tool."""
    return any((part.get("metadata") or {}).get("adk_type") == "function_response" for part in parts)


def text_of_parts(parts: Sequence[Json]) -> str:
    """The text of a message, in one line per part."""
    return "\n".join(part["text"] for part in parts if part.get("text"))
