"""Spans of agents, as short as they can be."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from typing import Any

Span = dict[str, Any]
_NUMBERS = itertools.count(1)


def span(
    name: str, *, own: str = "", parent: str = "", start: int = 1, end: int | None = None, **attributes: Any
) -> Span:
    """A span; two underscores in the name of an attribute stand for a dot."""
    return {
        "name": name,
        "spanId": own or f"s{next(_NUMBERS)}",
        "traceId": "t1",
        "parentSpanId": parent,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + 1 if end is None else end),
        "attributes": {key.replace("__", "."): value for key, value in attributes.items()},
    }


def said(role: str, text: str) -> Span:
    """A message of a text."""
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def used(name: str, args: Any, **more: Any) -> Span:
    """A message with a call of a tool; None for arguments that were not recorded."""
    part = {"type": "tool_call", "name": name, **({} if args is None else {"arguments": args}), **more}
    return {"role": "assistant", "parts": [part]}


def chat(
    asked: Sequence[Any] | None, answered: Sequence[Any] | None, *, start: int = 1, end: int | None = None
) -> list[Span]:
    """A model call with its messages."""
    made = span("chat m", start=start, end=end, gen_ai__operation__name="chat")
    for key, messages in (("gen_ai.input.messages", asked), ("gen_ai.output.messages", answered)):
        made["attributes"] |= {} if messages is None else {key: json.dumps(messages)}
    return [made]


def tool(name: str, args: Any, result: Any, *, start: int, id: str = "") -> Span:
    """The span of a tool."""
    made = span(f"execute_tool {name}", start=start, gen_ai__operation__name="execute_tool", gen_ai__tool__name=name)
    made["attributes"] |= {"gen_ai.tool.call.arguments": json.dumps(args)}
    made["attributes"] |= (
        {} if result is None else {"gen_ai.tool.call.result": result if isinstance(result, str) else json.dumps(result)}
    )
    made["attributes"] |= {"gen_ai.tool.call.id": id} if id else {}
    return made


def completed(events: Iterable[tuple[str, dict[str, Any]]]) -> Span:
    """A model call whose messages are events."""
    return {**span("chat m", gen_ai__operation__name="chat"), "events": list(events)}


def details(asked: Any, answered: Any) -> tuple[str, dict[str, Any]]:
    """The event with all messages of a model call."""
    values = {"gen_ai.input.messages": json.dumps(asked), "gen_ai.output.messages": json.dumps(answered)}
    return "gen_ai.client.inference.operation.details", values


def flat(key: str, asked: Any, to: str, answered: Any, *, message: str = "message.") -> list[Span]:
    """A model call whose messages are one attribute for each value, as in OpenInference."""
    made = span("llm", openinference__span__kind="LLM")
    for prefix, messages in ((key, asked), (to, answered)):
        for number, one in enumerate(messages):
            for name, value in one.items():
                made["attributes"] |= dict(_flattened(f"{prefix}.{number}.{message}{name}", value))
    return [made]


def _flattened(key: str, value: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _flattened(f"{key}.{name}", item)
    elif isinstance(value, list):
        inner = {"tool_calls": "tool_call.", "contents": "message_content.", "content": "message_content."}
        last = key.rpartition(".")[2]
        for number, item in enumerate(value):
            for name, one in item.items():
                place = key if last != "content" else f"{key}s"
                yield from _flattened(f"{place}.{number}.{inner[last]}{name}", one)
    elif value is not None:
        yield key, value


def traced(trace_id: str, spans: Iterable[Span]) -> list[Span]:
    """The spans in another trace."""
    return [{**one, "traceId": trace_id} for one in spans]


def session(session_id: str, spans: Sequence[Span], *, otlp: bool = False) -> Any:
    """The spans with a session's id; or all of them as OTLP JSON, each in a resource of its own."""
    if not otlp:
        return [{**one, "attributes": {**one["attributes"], "session.id": session_id}} for one in spans]
    logs = [one["log"] for one in spans if "log" in one]
    spans = [one for one in spans if "log" not in one]
    records = [
        {
            "traceId": spans[0]["traceId"],
            "spanId": spans[0]["spanId"],
            "timeUnixNano": number,
            "eventName": name,
            "body": _value(body),
        }
        for number, (name, body) in enumerate(logs)
    ]
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _pairs(one.get("resource", {}))},
                "scopeSpans": [{"spans": [{
                    **{key: value for key, value in one.items() if key != "resource"},
                    "attributes": _pairs(one["attributes"]),
                    "events": [{"name": name, "attributes": _pairs(values)} for name, values in one.get("events", [])],
                }]}],
            }
            for one in spans
        ],
        **({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]} if logs else {}),
    }  # fmt: skip


def _pairs(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return {"kvlistValue": {"values": _pairs(value)}}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(item) for item in value]}}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}
