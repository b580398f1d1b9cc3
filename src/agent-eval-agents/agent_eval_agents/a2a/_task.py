"""From a task to a turn: what the server says about one task, in order, as ADK events; and parts of messages: ours as
A2A has them, and A2A's as ADK's events have them.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_eval_agents.a2a._dialect import (
    ADK_EXTENSION,
    FINISHED,
    INTERRUPTED,
    V1,
    Dialect,
    Json,
    is_agent,
    payload,
    state_of,
)
from agent_eval_scoring.core.content import Content, Part

_CALLS = ("function_call", "function_response")
_PROGRESS, _CLOSING, _RESULT = range(3)
"""A message about the work, e.g. of the state `working`; the message with which the task ended or began to wait; what
A2A calls the result: an artifact, or a message instead of a task."""
_JOINED = "joined"
"""Marks a part of a chunk: a text continues the text before it."""


@dataclass(kw_only=True, eq=False)
class _Entry:
    """A message of the agent, or an artifact."""

    event: dict[str, Any]
    """As ADK's `event.model_dump(mode="json", exclude_none=True)`."""
    event_id: str | None = None
    is_replaced: bool = False
    """Its artifact was sent again."""
    rank: int = _PROGRESS
    """What it is to the task."""

    @property
    def parts(self) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = self.event["content"]["parts"]
        return parts

    @property
    def has_calls(self) -> bool:
        return any(key in part for part in self.parts for key in _CALLS)


class TaskReader:
    """Reads the results of one request."""

    def __init__(
        self, dialect: Dialect, author: str, message_id: str, *, continues: Mapping[str, str] | None = None
    ) -> None:
        """Begins with no result.

        Args:
            dialect: The server's.
            author: The author of messages that name none.
            message_id: The user's message of this turn.
            continues: The `artifacts` of the earlier turns of the task that the message continues, whose history begins
                with those turns. None: the message begins a task.
        """
        self._numbers = Numbers(dialect)
        self._author = author
        self._message_id = message_id
        self._continues = continues is not None
        self._earlier = continues or {}
        self.artifacts: dict[str, str] = {}
        """The task's artifacts by id, as JSON."""
        self._entries: list[_Entry] = []
        self._by_parts: dict[str, _Entry] = {}
        """The last entry with the same parts."""
        self._by_artifact: dict[str, _Entry] = {}
        self._is_adk = False
        self.task_id: str | None = None
        self.context_id: str | None = None
        self.state = ""
        """The task's; `completed` for a message instead of a task; empty before the first result."""
        self.cut_short = False
        """Whether the answer ended before the turn, so that the task is polled."""
        self.wants_tool_response = False
        """ADK's newer executor: a waiting task takes only the response of the tool that it waits for."""
        self._status_text = ""
        self._error_code = ""
        self._waits_in_stream = False

    # -- reading

    def take(self, result: Any) -> bool:
        """Reads a result of JSON-RPC.

        Returns:
            Whether it is one of the protocol's objects.
        """
        read = payload(result)
        if read is None:
            return False
        kind, value = read
        self._note(value, kind)
        if kind == "task":
            self._task(value)
        elif kind == "message":
            self.state = self.state or "completed"
            self._add(value, _metadata(value), _RESULT)
        elif kind == "status":
            self._status(value, _metadata(value), final=value.get("final"))
        elif isinstance(artifact := value.get("artifact"), Mapping):
            self._artifact(artifact, {**_metadata(value), **_metadata(artifact)}, append=value.get("append") is True)
        return True

    @property
    def ended(self) -> bool:
        """Whether the turn has ended: the task is finished, or waits for the user."""
        return self.state in FINISHED or (self.state in INTERRUPTED and not self._waits_in_stream)

    @property
    def is_silent(self) -> bool:
        """Whether the task was completed, and nothing that came can be its answer."""
        return self.state == "completed" and not self.shows_calls and all(e.rank == _PROGRESS for e in self._entries)

    def restart(self) -> None:
        """Forgets the messages and artifacts so far: the next result is the whole task."""
        self._entries.clear()
        self._by_parts.clear()
        self._by_artifact.clear()

    def _note(self, value: Json, kind: str) -> None:
        task_id = value.get("id") if kind == "task" else value.get("taskId")
        self.task_id = task_id if isinstance(task_id, str) and task_id else self.task_id
        context_id = value.get("contextId")
        self.context_id = context_id if isinstance(context_id, str) and context_id else self.context_id
        extension = _metadata(value).get(ADK_EXTENSION)
        if isinstance(extension, Mapping) and extension.get("adk_agent_executor_v2") is True:
            self.wants_tool_response = True

    def _task(self, task: Json) -> None:
        for message in self._new_messages(task.get("history")):
            self._add(message, _metadata(message))
        for artifact in _objects(task.get("artifacts")):
            self._artifact(artifact, _metadata(artifact))
        # The metadata of a task is that of its last update.
        error_code = _metadata(task).get("adk_error_code")
        self._status(task, {} if error_code is None else {"adk_error_code": error_code})

    def _new_messages(self, history: Any) -> Iterator[Json]:
        """The agent's messages of this turn: after ours; without ours, all of a new task."""
        messages = list(_objects(history))
        # Some servers leave our message out of the history, others repeat that of earlier turns.
        ours = [number for number, message in enumerate(messages) if message.get("messageId") == self._message_id]
        if ours:
            messages = messages[ours[-1] + 1 :]
        elif self._continues:
            messages = []
        return filter(is_agent, messages)

    def _status(self, update: Json, metadata: Json, final: Any = None) -> None:
        state = state_of(update) or self.state
        if state != self.state:  # What closed the state before was about the work.
            self._status_text = ""
            for entry in self._entries:
                entry.rank -= entry.rank == _CLOSING
        self.state = state
        self._waits_in_stream = final is False
        status = update.get("status")
        message = status.get("message") if isinstance(status, Mapping) else None
        if not isinstance(message, Mapping):
            return
        metadata = {**metadata, **_metadata(message)}
        if is_agent(message):
            ends = state in FINISHED | INTERRUPTED
            entry = self._add(message, metadata, _CLOSING if ends else _PROGRESS)
            self._status_text = text_of_parts(entry.parts) if ends else ""
        self._error_code = str(metadata.get("adk_error_code") or self._error_code)

    def _artifact(self, artifact: Json, metadata: Json, *, append: bool = False) -> None:
        artifact_id = str(artifact.get("artifactId", ""))
        same = self._by_artifact.get(artifact_id)
        if append and same is not None:
            same.parts.extend({**part, _JOINED: True} for part in read_parts(artifact.get("parts"), self._numbers)[0])
            return
        text = json.dumps(artifact.get("parts"), sort_keys=True)
        # A task that goes on is sent with the artifacts of its earlier turns.
        if self._earlier.get(artifact_id) == text:
            return
        self.artifacts[artifact_id] = text
        if same is not None:
            same.is_replaced = True
        self._by_artifact[artifact_id] = self._add(artifact, metadata, _RESULT)

    def _add(self, source: Json, metadata: Json, rank: int = _PROGRESS) -> _Entry:
        """Adds a message or an artifact, unless the last entry says the same: ADK sends the answer as both."""
        parts, long_running = read_parts(source.get("parts"), self._numbers)
        event_id = metadata.get("adk_event_id")
        self._is_adk = self._is_adk or any(key.startswith("adk_") for key in metadata)
        key = json.dumps(parts, sort_keys=True)
        same = self._by_parts.get(key)
        if parts and same is not None and not same.is_replaced:
            # Equal texts further apart may well be said twice; directly after each other they are one message in two
            # forms.
            repeated = same is self._entries[-1] and None in (event_id, same.event_id)
            same_event = event_id is not None and same.event_id == event_id
            if repeated or same_event or _has_ids(parts):
                same.rank = max(same.rank, rank)
                return same
        entry = _Entry(
            event=self._event(parts, long_running, metadata),
            event_id=event_id if isinstance(event_id, str) else None,
            rank=rank,
        )
        self._entries.append(entry)
        self._by_parts[key] = entry
        return entry

    def _event(self, parts: list[dict[str, Any]], long_running: list[str], metadata: Json) -> dict[str, Any]:
        # A2A has no roles of parts. In ADK, tool responses are the user's.
        role = "user" if parts and all("function_response" in part for part in parts) else "model"
        event: dict[str, Any] = {
            "author": _text(metadata.get("adk_author")) or self._author,
            "content": {"role": role, "parts": parts},
        }
        event |= {"invocation_id": metadata["adk_invocation_id"]} if "adk_invocation_id" in metadata else {}
        for key in ("usage_metadata", "grounding_metadata"):
            value = _object(metadata.get(f"adk_{key}"))
            event |= {} if value is None else {key: self._numbers.restore(value)}
        actions = _object(metadata.get("adk_actions")) or {}
        event |= {"actions": {"skip_summarization": True}} if actions.get("skipSummarization") is True else {}
        return event | ({"long_running_tool_ids": long_running} if long_running else {})

    # -- results

    @property
    def lost_digits(self) -> bool:
        """A number of the answer was too large for A2A 1.0."""
        return self._numbers.lost_digits

    @property
    def shows_calls(self) -> bool:
        """The server is ADK's, or showed a call."""
        return self._is_adk or any(entry.has_calls for entry in self._entries)

    @property
    def failure(self) -> tuple[str, str]:
        """The text and the code of a task that failed; both may be empty."""
        return self._status_text, self._error_code

    @property
    def has_open_calls(self) -> bool:
        """Whether long-running tools were called."""
        return any(entry.event.get("long_running_tool_ids") for entry in self._entries)

    def events(self) -> list[dict[str, Any]]:
        """The turn's events, for `to_invocation`.

        The final response is the last artifact with a text, else the message that ended the task, else the data of an
        artifact or of that message as JSON. A server that shows calls sends events, whose last text counts if there is
        no artifact.
        """
        entries = self._in_place()
        for entry in entries:
            entry.event["content"]["parts"] = _joined(entry.parts)
        own = [entry for entry in entries if not entry.has_calls and entry.rank > _PROGRESS]
        if not any(text_of_parts(entry.parts) for entry in own):
            for entry in own if not self.shows_calls else ():
                entry.event["content"]["parts"] = [_as_text(part) for part in entry.parts]
        least = max((entry.rank for entry in own if text_of_parts(entry.parts)), default=_CLOSING)
        if least == _RESULT or not self.shows_calls:
            for entry in entries:
                if entry.rank < least:
                    entry.event["partial"] = True  # Not a final response for ADK's rules.
        return [entry.event for entry in entries if entry.parts or entry.event.get("grounding_metadata")]

    def _in_place(self) -> list[_Entry]:
        """The entries in the order of the agent's events.

        ADK's newer executor takes calls to long-running tools out of their events, whose messages stay without parts,
        and sends them at the end of the turn.
        """
        entries = [entry for entry in self._entries if not entry.is_replaced]
        last = entries[-1] if entries else None
        if last is None or last.event_id is not None or "long_running_tool_ids" not in last.event:
            return entries
        empty = [number for number, entry in enumerate(entries) if not entry.parts and entry.event_id is not None]
        calls = [part for part in last.parts if "function_call" in part]
        responses = [part for part in last.parts if "function_call" not in part]
        if len(empty) != (2 if responses else 1):
            return entries  # Several such calls: their order among the other events is not known.
        for number, parts in zip(empty, (calls, responses), strict=False):
            event = entries[number].event
            ids = last.event["long_running_tool_ids"] if parts is calls else []
            entries[number].event = {**event, **self._event(parts, ids, {}), "author": event["author"]}
        return entries[:-1]


def _joined(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The parts of an artifact without the marks of chunks."""
    whole: list[dict[str, Any]] = []
    texts: list[str] = []
    for part in parts:
        content = {key: value for key, value in part.items() if key != _JOINED}
        if _JOINED in part and texts and "text" in part and part.get("thought") == whole[-1].get("thought"):
            texts.append(part["text"])
            continue
        if texts:
            whole[-1]["text"] = "".join(texts)
        whole.append(content)
        texts = [content["text"]] if "text" in content else []
    if texts:
        whole[-1]["text"] = "".join(texts)
    return whole


def _as_text(part: dict[str, Any]) -> dict[str, Any]:
    """A JSON document as a text that is the same for the same data; any other part as it is."""
    inline = part.get("inline_data", {})
    if inline.get("mime_type") != "application/json":
        return part
    try:
        document = json.loads(base64.b64decode(inline["data"]))
    except (ValueError, RecursionError):  # a file of the agent
        return part
    return {"text": json.dumps(Numbers(V1).restore(document), ensure_ascii=False, sort_keys=True)}


def _has_ids(parts: list[dict[str, Any]]) -> bool:
    """Whether parts hold a call or a response with an id, so that equal parts are the same message."""
    return any(part.get(key, {}).get("id") for part in parts for key in _CALLS)


def _metadata(value: Json) -> Json:
    metadata = value.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


def _objects(value: Any) -> Iterator[Json]:
    return (each for each in value if isinstance(each, Mapping)) if isinstance(value, list) else iter(())


def _object(value: Any) -> Json | None:
    """A JSON object, which ADK's older executor may write as a text."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, Mapping) else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


_TYPED = ("function_call", "function_response", "executable_code", "code_execution_result")
_CALL_KEYS = frozenset({"id", "name", "args", "response"})
_EXACT = 2**53
"""From here on, a double does not hold every integer."""
_LARGEST = 2**63


class Numbers:
    """Restores integers in an answer of a dialect whose numbers are all floats."""

    def __init__(self, dialect: Dialect) -> None:
        """Begins with no number seen."""
        self._needed = dialect.flat
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
        # Eval files have the URL-safe alphabet, as google-genai writes it; A2A wants the standard one.
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
