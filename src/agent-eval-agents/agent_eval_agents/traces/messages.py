"""Messages in the spans of a trace, whichever framework and convention wrote them, in one form."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from agent_eval_agents.traces.place import UnusableConversation
from agent_eval_agents.traces.spans import SHORTENED, Span, parsed
from agent_eval_scoring.evalset.json import parse_value

_DEEPEST = 6
"""Levels of lists and wrappers around the parts of a message."""


@dataclass(kw_only=True)
class Call:
    """A tool call that a model asked for, or that a tool's span shows."""

    id: str = ""
    name: str
    args: Mapping[str, Any] | None
    """None if they were not recorded."""
    response: Mapping[str, Any] | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Equal calls have equal keys; ids differ between the messages and the spans of tools."""
        return self.name, json.dumps(self.args, sort_keys=True, default=str)


@dataclass(kw_only=True)
class Response:
    """What a tool answered."""

    id: str = ""
    name: str = ""
    value: Mapping[str, Any]


@dataclass(kw_only=True)
class Message:
    """One message of a model call."""

    role: str = ""
    """`user`, `assistant`, `tool` or `system`."""
    texts: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    responses: list[Response] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Its texts."""
        return "\n".join(self.texts)


_ROLES = {"human": "user", "ai": "assistant", "model": "assistant", "function": "tool", "developer": "system"}
_PLACEHOLDERS = ("<elided>", "<REDACTED>", "__REDACTED__")
"""What google-adk, semantic conventions and OpenInference write instead of a content."""
_TEXT_TYPES = ("text", "input_text", "output_text", "message", None)
_CALL_TYPES = ("tool_call", "function_call", "tool_use", "server_tool_call")
_RESPONSE_TYPES = ("tool_call_response", "function_call_output", "tool_result", "server_tool_call_response")


def inputs(span: Span) -> list[Message]:
    """The messages that a span was given, oldest first; none if it has none.

    Raises:
        UnusableConversation: They can't be read.
    """
    return _messages(span, "input", ("gen_ai.input.messages", "pydantic_ai.all_messages"))


def outputs(span: Span) -> list[Message]:
    """The messages that a span answered; none if it has none.

    Raises:
        UnusableConversation: They can't be read.
    """
    said = _messages(span, "choice", ("gen_ai.output.messages",))
    chunks = [message for message in said[:-1] if not message.calls]
    if chunks and "".join(message.text for message in chunks) == said[-1].text:
        # What was streamed, and the whole.
        return [message for message in said if message.calls or message is said[-1]]
    return said


def _messages(span: Span, kind: Literal["input", "choice"], keys: Sequence[str]) -> list[Message]:
    """Of the first vocabulary that has some."""
    key = next((key for key in keys if span.attributes.get(key) is not None), None)
    found: Any = None if key is None else span.json(key)
    if key is not None and not isinstance(found, list):
        raise UnusableConversation(span.place, f"The attribute `{key}` is not a list of messages.")
    role, prefixes, request, contents = _VOCABULARY[kind]
    if found is None:
        found = next((flat for prefix in prefixes if (flat := _flattened(span, prefix))), None)
    if found is None and isinstance(whole := span.json(request), Mapping):
        found = whole.get(contents) if kind == "input" else [whole.get(contents)]
    if isinstance(found, list):
        said = [_read(span, item, role) for item in found if isinstance(item, Mapping)]
        if kind == "input" and not all(message.texts or message.calls or message.responses for message in said):
            # OpenInference leaves out parts that it does not know, e.g. of the Responses API; the value has them.
            whole = _of_value(span, "input.value", role="")
            told = {text for message in whole for text in message.texts}
            return whole if whole and all(told.issuperset(message.texts) for message in said) else said
        return said
    return [message for name, message in _said_in_events(span) if name == kind]


_VOCABULARY = {
    "input": ("", ("llm.input_messages", "gen_ai.prompt"), "gcp.vertex.agent.llm_request", "contents"),
    "choice": ("assistant", ("llm.output_messages", "gen_ai.completion"), "gcp.vertex.agent.llm_response", "content"),
}
"""Of inputs and outputs: the default role, OpenInference's and OpenLLMetry's attributes, ADK's older schema."""


def root_input(span: Span) -> list[Message]:
    """What the outermost span of a turn was given; also its `input.value` (OpenInference) and VeADK's `gen_ai.input`.

    Raises:
        UnusableConversation: It can't be read.
    """
    return inputs(span) or _of_value(span, "gen_ai.input", "input.value", role="user")


def root_output(span: Span) -> list[Message]:
    """What the outermost span of a turn answered; also its `output.value` (OpenInference), VeADK's `gen_ai.output`, and
    `final_result` (Pydantic AI).

    Raises:
        UnusableConversation: It can't be read.
    """
    return outputs(span) or _of_value(span, "gen_ai.output", "final_result", "output.value", role="assistant")


def tool_name(span: Span) -> str:
    """The name of a tool's span; "" if none of its attributes says it."""
    veadk = span.value("gen_ai.tool.input")
    named = veadk.get("name") if isinstance(veadk, Mapping) else None
    of_span = span.name.removeprefix("execute_tool ") if span.name.startswith("execute_tool ") else ""
    return str(named or span.text("gen_ai.tool.name", "tool.name", "traceloop.entity.name") or of_span)


def tool_arguments(span: Span) -> Mapping[str, Any]:
    """The arguments of a tool's span.

    Raises:
        UnusableConversation: They were not recorded, or can't be read.
    """
    veadk = span.value("gen_ai.tool.input")
    if isinstance(veadk, Mapping):
        return _arguments(span, veadk.get("parameters"))
    key = next((key for key in _ARGUMENTS if span.attributes.get(key) is not None), None)
    if key is not None:
        return _arguments(span, span.json(key) if key in _STRICT else span.value(key))
    said = (item.get("content") for name, item in span.events if name == "gen_ai.tool.message")
    args = next((content for content in said if content is not None), None)
    if args is None:
        raise without_contents([span], NO_ARGUMENTS)
    return _arguments(span, args)


_STRICT = ("gen_ai.tool.call.arguments", "gcp.vertex.agent.tool_call_args", "tool_arguments")
_ARGUMENTS = (*_STRICT, "input.value", "traceloop.entity.input")
_RESULTS = (
    "gen_ai.tool.call.result", "gcp.vertex.agent.tool_response", "tool_response", "gen_ai.tool.output", "output.value",
    "traceloop.entity.output",
)  # fmt: skip
NO_ARGUMENTS = "The trace does not contain the arguments of a tool call."
_CAPTURE = (
    (
        "openinference.",
        "Unset `OPENINFERENCE_HIDE_INPUTS`, `OPENINFERENCE_HIDE_OUTPUTS` and the like where the agent runs.",
    ),
    ("invocation", "Run the agent without `ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS=false`."),
    ("logfire.", "Set `include_content=True` in the agent's `InstrumentationSettings`."),
    ("traceloop.", "Run the agent with `TRACELOOP_TRACE_CONTENT=true`."),
    ("", "Run the agent with `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY`."),
)
"""Beginnings of attributes by which a framework is known, and how it records contents."""


def without_contents(spans: Sequence[Span], message: str) -> UnusableConversation:
    """What a trace lacks, and how its framework records it."""
    keys = {key for span in spans for key in span.attributes} | {spans[0].name}
    hint = next(hint for prefix, hint in _CAPTURE if any(key.startswith(prefix) for key in keys))
    return UnusableConversation(spans[0].place, message, hint)


def tool_result(span: Span) -> Mapping[str, Any] | None:
    """What a tool's span answered; None if it does not say it."""
    value = parsed(next((span.attributes[key] for key in _RESULTS if span.attributes.get(key) is not None), None))
    if value is None:
        value = next((parsed(item.get("message")) for name, item in span.events if name == "gen_ai.choice"), None)
    if value is None:
        return None if span.error is None else {"error": span.error or "the tool failed"}
    if isinstance(value, Mapping) and isinstance(value.get("data"), Mapping):
        value = value["data"]  # A message of LangChain.
    if isinstance(value, Mapping) and {"name", "response"} <= value.keys():
        value = value["response"]
    elif isinstance(value, Mapping) and value.get("type") == "tool":
        value = {"error": value.get("content")} if value.get("status") == "error" else value.get("content")
    answer = _answer(value)
    # Some frameworks write the exception's text as the result, and only the status says that it is one.
    if span.error is not None and "error" not in answer:
        return {"error": _plain(value) or span.error or "the tool failed"}
    return answer


def _answer(value: Any) -> dict[str, Any]:
    """A tool's answer as an object, as google-adk makes one of other values."""
    value = parsed(value)
    if isinstance(value, Mapping):
        return dict(value)
    texts = _plain(value)
    return {"result": texts if texts is not None else value}


def _plain(value: Any) -> str | None:
    """The text of a text, or of a list of nothing but texts and text parts."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(item, str) or _is_text(item) for item in value):
        return "\n".join(item if isinstance(item, str) else str(item.get("text")) for item in value)
    return None


def _is_text(item: object) -> bool:
    return isinstance(item, Mapping) and isinstance(item.get("text"), str) and set(item) <= {"text", "type"}


def _flattened(span: Span, prefix: str) -> list[Any]:
    """The messages in attributes as `PREFIX.0.message.content` (OpenInference) or `PREFIX.0.content` (OpenLLMetry)."""
    tree: dict[Any, Any] = {}
    for key, value in span.attributes.items():
        if key.startswith(f"{prefix}."):
            steps, below = key[len(prefix) + 1 :].split("."), tree
            for step in steps[:-1]:
                inner = below.setdefault(step, {})
                # `a.0` and `a.0.b` can't both be: the shorter one was first.
                if not isinstance(inner, dict):
                    break
                below = inner
            else:
                below.setdefault(steps[-1], value)
    nested = _lists(tree)
    items = nested if isinstance(nested, list) else []
    return [item.get("message", item) for item in items if isinstance(item, Mapping)]


def _lists(value: Any) -> Any:
    """The objects whose keys are numbers as lists, in their order."""
    if not isinstance(value, dict):
        return value
    # Sorted as numbers: message 10 comes after message 9, and one may be missing where an exporter has dropped it.
    if value and all(re.fullmatch(r"\d{1,6}", str(key)) for key in value):
        return [_lists(value[key]) for key in sorted(value, key=int)]
    return {key: _lists(item) for key, item in value.items()}


def _said_in_events(span: Span) -> Iterator[tuple[str, Message]]:
    """The messages of span events and log records, old and new: `choice`, or another name, and the message."""
    for name, attributes in span.events:
        if name == "gen_ai.client.inference.operation.details":
            for key, kind in (("gen_ai.input.messages", "input"), ("gen_ai.output.messages", "choice")):
                said = span.json(key, attributes.get(key)) if attributes.get(key) is not None else []
                yield from ((kind, _read(span, item)) for item in said if isinstance(item, Mapping))
        elif name in _CONTENTS:
            key, kind, role = _CONTENTS[name]
            values = span.whole(key, attributes.get(key))
            yield from ((kind, _read(span, item, role)) for item in (values if isinstance(values, list) else [values]))
        elif name == "gen_ai.choice":
            message = span.whole(name, attributes.get("message", attributes.get("content")))
            yield "choice", _read(span, message, "assistant")
        elif (match := re.fullmatch(r"gen_ai\.(system|user|assistant|tool)\.message", name)) is not None:
            content = span.whole(name, attributes.get("content"))
            yield "input", _read(span, {**attributes, "content": content}, match[1])


_CONTENTS = {
    "gen_ai.content.prompt": ("gen_ai.prompt", "input", "user"),
    "gen_ai.content.completion": ("gen_ai.completion", "choice", "assistant"),
}


def _of_value(span: Span, *keys: str, role: str) -> list[Message]:
    """The messages in a value of any form; none if it has no form that is known."""
    value = span.value(*keys)
    if isinstance(value, Mapping):
        value = next((value[key] for key in _WRAPPED if value.get(key)), value)
    if isinstance(value, Mapping) and not {"content", "parts", "contents", "data", "text"} & value.keys():
        return []
    messages = value if isinstance(value, list) else [value]
    return [_read(span, message, role) for message in messages if message]


_WRAPPED = ("messages", "new_message", "content", "input", "output", "query", "question", "answer", "response")


def _read(span: Span, value: Any, role: str = "") -> Message:
    """One message."""
    if isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) and value[0] in _KNOWN_ROLES:
        value = {"role": value[0], "content": value[1]}  # A pair of LangChain.
    message = Message(role=role)
    if isinstance(value, Mapping):
        value = _unwrapped(value)
        said = str(value.get("role") or (value.get("type") if value.get("type") in _ROLES else "") or role)
        message.role = _ROLES.get(said, said)
    _parts(span, value, message, 0)
    if message.role == "tool" and not message.responses and isinstance(value, Mapping):
        answer = value.get("content") if value.get("content") is not None else message.text
        call_id = str(value.get("tool_call_id") or value.get("id") or "")
        message.responses.append(Response(id=call_id, name=str(value.get("name") or ""), value=_answer(answer)))
    if message.role == "tool":
        message.texts = []
    return message


_KNOWN_ROLES = {"user", "assistant", "system", "tool", *_ROLES}


def _unwrapped(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """A message of LangChain without what is around it: `{"type": "ai", "data": ...}`, `{"lc": 1, "kwargs": ...}`."""
    for key in ("data", "kwargs"):
        inner = value.get(key)
        if isinstance(inner, Mapping) and ("type" in value or "lc" in value):
            return {"type": value.get("type"), **inner}
    return value


def _parts(span: Span, value: Any, message: Message, depth: int) -> None:
    """Adds what a message, a part, or a list of parts says."""
    if isinstance(value, str):
        message.texts += [value] if value and value not in _PLACEHOLDERS else []
    elif depth > _DEEPEST:
        return
    elif isinstance(value, list):
        for item in value:
            _parts(span, item, message, depth + 1)
    elif isinstance(value, Mapping):
        _part(span, value, message, depth)


def _part(span: Span, part: Mapping[str, Any], message: Message, depth: int) -> None:
    kind = part.get("type")
    # A thought is no answer: criteria would compare it with the expected one.
    if part.get("thought") or kind in ("reasoning", "thinking"):
        return
    inner = next((part[key] for key in _CALL_KEYS if isinstance(part.get(key), Mapping)), None)
    answer = next((part[key] for key in _RESPONSE_KEYS if isinstance(part.get(key), Mapping)), None)
    if inner is not None or kind in _CALL_TYPES:
        message.calls += _calls(span, part if inner is None else inner)
        return
    if answer is not None or kind in _RESPONSE_TYPES:
        message.responses.append(_response(part if answer is None else answer))
        return
    for key in ("parts", "contents", "content", "text"):
        if part.get(key) is not None and (
            key not in ("text", "content") or kind in _TEXT_TYPES or kind in _ROLES or part.get("role")
        ):
            _parts(span, part[key] if key != "content" else _parts_of(part[key]), message, depth + 1)
            break
    for call in part.get("tool_calls") or () if isinstance(part.get("tool_calls"), list) else ():
        message.calls += _calls(span, call.get("tool_call", call) if isinstance(call, Mapping) else {})
    nested = part.get("message_content")
    if isinstance(nested, Mapping):
        _parts(span, nested, message, depth + 1)


def _parts_of(value: Any) -> Any:
    """Parts that are JSON in a text; a text that happens to be other JSON stays a text."""
    items = parsed(value)
    return items if isinstance(items, list) and items and all(map(_is_part, items)) else value


def _is_part(item: object) -> bool:
    if not isinstance(item, Mapping) or _is_text(item):
        return isinstance(item, Mapping)
    named = any(key in item for key in (*_CALL_KEYS, *_RESPONSE_KEYS))
    return named or item.get("type") in (*_TEXT_TYPES[:-1], *_CALL_TYPES, *_RESPONSE_TYPES)


_CALL_KEYS = ("function_call", "functionCall", "toolUse", "tool_call")
_RESPONSE_KEYS = ("function_response", "functionResponse", "toolResult")


def _calls(span: Span, raw: Mapping[str, Any]) -> Iterable[Call]:
    inner = raw.get("function")
    function = inner if isinstance(inner, Mapping) else raw
    name = function.get("name")
    if not isinstance(name, str) or not name:
        return
    key = next((key for key in ("arguments", "args", "input", "parameters") if key in function), None)
    lacks_them = key is None and function is raw and raw.get("type") is not None  # OpenInference leaves out `{}`.
    args = None if lacks_them else _arguments(span, function.get(key or "args"))
    yield Call(id=_id(raw), name=name, args=args)


def _arguments(span: Span, value: Any) -> Mapping[str, Any]:
    # Arguments that were left out must not be scored as if the agent had passed none.
    if value in _PLACEHOLDERS:
        raise without_contents([span], NO_ARGUMENTS)
    if isinstance(value, str) and value.strip():
        try:
            value = parse_value(value)
        except ValueError as error:
            message = f"The arguments of a tool call are not JSON: {error}."
            raise UnusableConversation(span.place, message, SHORTENED) from error
    if not isinstance(value or {}, Mapping):
        raise UnusableConversation(span.place, "The tool call has no name, or its arguments are not an object.")
    return dict(value or {})


def _response(raw: Mapping[str, Any]) -> Response:
    value = next((raw[key] for key in ("response", "result", "output", "content") if raw.get(key) is not None), None)
    answer = _answer(value)
    # ADK's convention, by which criteria and causes know a failed call.
    if raw.get("status") == "error" or raw.get("is_error"):
        answer = {"error": answer.get("result", answer)}
    return Response(id=_id(raw), name=str(raw.get("name") or ""), value=answer)


def _id(raw: Mapping[str, Any]) -> str:
    keys = ("call_id", "tool_call_id", "toolUseId", "tool_use_id", "id")
    return str(next((raw[key] for key in keys if raw.get(key)), ""))


def last_user(messages: Sequence[Message]) -> tuple[str, Sequence[Message]]:
    """The last text of the user among messages, and the messages after it; "" and all of them without any."""
    for number in range(len(messages) - 1, -1, -1):
        if messages[number].role == "user" and messages[number].text.strip():
            return messages[number].text, messages[number + 1 :]
    return "", messages
