"""Spans of a trace from their carriers: OTLP JSON with spans and log records, or one span after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from agent_eval_agents.traces.place import Place, UnusableConversation
from agent_eval_scoring.evalset.json import parse_value

SHORTENED = (
    "An exporter may have shortened it (`OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT`, `OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT`)."
)
_BEGINNINGS = ('{"', '[{"', '[["')
"""Of texts that are JSON, whole or cut."""
Event = tuple[str, Mapping[str, Any]]
"""A span event, or a log record of the span: its name, and its attributes with those of its body."""


@dataclass(frozen=True, kw_only=True)
class Span:
    """One span."""

    name: str
    span_id: str
    trace_id: str
    parent_id: str | None
    """None for the root of a trace."""
    start: int
    """Unix time in nanoseconds."""
    end: int
    """The same; the start if it is unknown."""
    place: Place
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """Its own, and of its resource what names a conversation or a case."""
    events: Sequence[Event] = ()
    """In order of time."""
    error: str | None = None
    """The message of its status if that is an error; None if it is not."""

    def text(self, *keys: str) -> str | None:
        """The first of these attributes with a non-empty text; None without any."""
        values = (self.attributes.get(key) for key in keys)
        return next((value for value in values if isinstance(value, str) and value), None)

    def value(self, *keys: str) -> Any:
        """The first of these attributes, parsed if it is JSON in a text, else as it is; None without any.

        Raises:
            UnusableConversation: It is JSON that was cut.
        """
        key = next((key for key in keys if self.attributes.get(key) is not None), None)
        return None if key is None else self.whole(key, self.attributes[key])

    def whole(self, key: str, value: Any) -> Any:
        """A value, parsed as by `value`."""
        found = parsed(value)
        # Parsed in vain although it looks like JSON: an exporter has cut it, and half an object must not be scored as a
        # text.
        return self.json(key, value) if isinstance(found, str) and found.startswith(_BEGINNINGS) else found

    def json(self, key: str, value: Any = None) -> Any:
        """An attribute that must be JSON if it is a text.

        Raises:
            UnusableConversation: It is other text.
        """
        value = self.attributes.get(key) if value is None else value
        if not isinstance(value, str):
            return value
        try:
            return parse_value(value)
        except ValueError as error:
            message = f"The attribute `{key}` is not JSON: {error}."
            raise UnusableConversation(self.place, message, SHORTENED) from error


_DEEPEST = 500
"""Levels of spans that are looked at: traces of agents have about ten, and a damaged one can have a loop."""


def above(span: Span, by_id: Mapping[str, Span]) -> list[Span]:
    """The ancestors of a span, the nearest first."""
    found: dict[str, Span] = {}
    while (parent := by_id.get(span.parent_id or "")) is not None and len(found) < _DEEPEST:
        # A damaged trace may have a loop.
        if parent.span_id in found:
            break
        found[parent.span_id] = span = parent
    return list(found.values())


def parsed(value: Any) -> Any:
    """The value of JSON in a text, if the text is an object or a list; any other value as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        with suppress(ValueError):
            return parse_value(value)
    return value


@dataclass(frozen=True, kw_only=True)
class LogRecord:
    """A log record of a span, e.g. with a message of its model call."""

    trace_id: str
    span_id: str
    time: int
    event: Event


def is_otlp(value: object) -> bool:
    """Whether a JSON value is OTLP JSON of traces or logs."""
    keys = ("resourceSpans", "resource_spans", "resourceLogs", "resource_logs")
    return isinstance(value, Mapping) and any(key in value for key in keys)


def is_span(value: object) -> bool:
    """Whether a JSON value is a span: of OTLP, as OpenTelemetry's SDK prints it, or as VeADK and `adk web` write it."""
    if not isinstance(value, Mapping) or "name" not in value:
        return False
    context = value.get("context")
    # The SDK for Python prints both ids in `context`; OTLP has them in the span.
    ids = context if isinstance(context, Mapping) else value
    return bool({"span_id", "spanId"} & ids.keys() and {"trace_id", "traceId"} & ids.keys())


def spans_of(values: Iterable[tuple[Any, Place]]) -> list[Span]:
    """The spans of OTLP JSON and of single spans, with their log records as events.

    Raises:
        UnusableConversation: One is malformed.
    """
    spans: list[Span] = []
    logs: dict[tuple[str, str], list[LogRecord]] = {}
    for value, place in values:
        if is_span(value):
            spans.append(_single_span(value, place))
            continue
        spans += _otlp_spans(value, place)
        for record in _otlp_logs(value, place):
            logs.setdefault((record.trace_id, record.span_id), []).append(record)
    return [_with_logs(span, logs.get((span.trace_id, span.span_id), ())) for span in spans] if logs else spans


def _with_logs(span: Span, records: Sequence[LogRecord]) -> Span:
    ordered = sorted(records, key=lambda record: record.time)
    return replace(span, events=(*span.events, *(record.event for record in ordered))) if records else span


_OF_RESOURCE = ("session.id", "gen_ai.conversation.id", "agent_eval.case.id", "agentevals.eval.case.id", "user.id")


def _otlp_spans(value: Mapping[str, Any], place: Place) -> Iterator[Span]:
    """See https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding."""
    for resource, at in _items(value, place, "resourceSpans", "resource_spans"):
        described = resource.get("resource")
        known = _otlp_attributes(_either(described, "attributes") or [], at) if isinstance(described, Mapping) else {}
        shared = {key: known[key] for key in _OF_RESOURCE if key in known}
        scopes = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans")
        for scope, below in _items(resource, at, *scopes):
            for raw, where in _items(scope, below, "spans"):
                yield _single_span(raw, where, shared)


def _otlp_logs(value: Mapping[str, Any], place: Place) -> Iterator[LogRecord]:
    for resource, at in _items(value, place, "resourceLogs", "resource_logs"):
        for scope, below in _items(resource, at, "scopeLogs", "scope_logs"):
            for raw, where in _items(scope, below, "logRecords", "log_records"):
                attributes = _otlp_attributes(_either(raw, "attributes") or [], where)
                body = _otlp_value(raw.get("body"))
                name = _either(raw, "eventName", "event_name") or attributes.get("event.name") or ""
                time = _time(_either(raw, "timeUnixNano", "time_unix_nano")) or 0
                # Newer instrumentations write the message into attributes, older ones into the body.
                body = parsed(body)
                yield LogRecord(
                    trace_id=str(_either(raw, "traceId", "trace_id") or ""),
                    span_id=str(_either(raw, "spanId", "span_id") or ""),
                    time=time,
                    event=(str(name), {**attributes, **(body if isinstance(body, Mapping) else {})}),
                )


def _single_span(value: Mapping[str, Any], place: Place, shared: Mapping[str, Any] | None = None) -> Span:
    """A span in OTLP, as OpenTelemetry's SDK for Python prints it (`to_json`), or as VeADK and `adk web` write it."""
    context = value.get("context")
    ids = context if isinstance(context, Mapping) else value
    span_id, trace_id = _either(ids, "spanId", "span_id"), _either(ids, "traceId", "trace_id")
    parent = _either(value, "parentSpanId", "parent_span_id", "parent_id")
    name = value.get("name")
    attributes = _attributes(value, place)
    start = _time(_either(value, "startTimeUnixNano", "start_time_unix_nano", "start_time"))
    if not isinstance(name, str) or start is None:
        raise UnusableConversation(place, "The span lacks a name or a start time, or its attributes are no object.")
    # 0 or a list would make spans of different traces one.
    if not span_id or not trace_id or any(isinstance(one, bool | list | dict) for one in (span_id, trace_id)):
        raise UnusableConversation(place, "The span has no span id or no trace id.")
    return Span(
        name=name,
        span_id=str(span_id),
        trace_id=str(trace_id),
        parent_id=str(parent) if parent else None,
        start=start,
        end=_time(_either(value, "endTimeUnixNano", "end_time_unix_nano", "end_time")) or start,
        attributes={**(shared or {}), **attributes},
        events=_events(value.get("events"), place),
        error=_error(value.get("status")),
        place=place,
    )


def _attributes(value: Mapping[str, Any], place: Place) -> Mapping[str, Any]:
    attributes = value.get("attributes") or {}
    # OTLP has a list of keys and values; the SDK, VeADK and `adk web` write an object.
    is_otlp_span = "startTimeUnixNano" in value or isinstance(attributes, list)
    if is_otlp_span:
        return _otlp_attributes(attributes or [], place)
    if not isinstance(attributes, Mapping):
        raise UnusableConversation(place, "The span lacks a name or a start time, or its attributes are no object.")
    return attributes


def _events(events: object, place: Place) -> tuple[Event, ...]:
    items = [item for item in events if isinstance(item, Mapping)] if isinstance(events, list) else []
    return tuple((str(item.get("name") or ""), _attributes(item, place)) for item in items)


def _error(status: object) -> str | None:
    """The status in OTLP (2, STATUS_CODE_ERROR), and as the SDK prints it (ERROR)."""
    if not isinstance(status, Mapping) or str(_either(status, "code", "status_code")) not in (
        "2",
        "STATUS_CODE_ERROR",
        "ERROR",
    ):
        return None
    return str(_either(status, "message", "description") or "")


def _time(value: object) -> int | None:
    """Nanoseconds; of a number, of its text, or of a date."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    elif isinstance(value, str) and "T" in value:
        with suppress(ValueError, OverflowError):
            value = datetime.fromisoformat(value).timestamp() * 1e9
    is_time = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**64
    return int(value) if is_time else None  # type: ignore[call-overload]


def _either(value: Mapping[str, Any], *keys: str) -> Any:
    return next((value[key] for key in keys if value.get(key) is not None), None)


def _items(value: Mapping[str, Any], place: Place, *keys: str) -> Iterator[tuple[Mapping[str, Any], Place]]:
    """The objects of a list, each with its place."""
    key = next((key for key in keys if value.get(key) is not None), keys[0])
    items = value.get(key) or []
    where = replace(place, path=(*place.path, key))
    if not isinstance(items, list):
        raise UnusableConversation(where, f"`{key}` is not a list.")
    for number, item in enumerate(items):
        at = replace(where, path=(*where.path, number))
        if not isinstance(item, Mapping):
            raise UnusableConversation(at, f"An item of `{key}` is not an object.")
        yield item, at


def _otlp_attributes(attributes: object, place: Place) -> dict[str, Any]:
    if not isinstance(attributes, list):
        raise UnusableConversation(place, "The span's `attributes` are not a list, as in OTLP JSON.")
    pairs = [item for item in attributes if isinstance(item, Mapping) and isinstance(item.get("key"), str)]
    return {item["key"]: _otlp_value(item.get("value")) for item in pairs}


def _otlp_value(value: object) -> Any:
    """A value of OTLP's AnyValue; integers of 64 bits are texts there."""
    if not isinstance(value, Mapping):
        return None
    for key, item in value.items():
        match key:
            case "stringValue" | "string_value" | "boolValue" | "bool_value" | "doubleValue" | "double_value":
                return item
            # protobuf's JSON writes 64 bits as a text.
            case "intValue" | "int_value":
                text = str(item)
                return int(text) if len(text) < 21 and text.removeprefix("-").isdecimal() else None
            case "arrayValue" | "array_value" if isinstance(item, Mapping):
                values = item.get("values")
                return [_otlp_value(inner) for inner in values] if isinstance(values, list) else []
            case "kvlistValue" | "kvlist_value" if isinstance(item, Mapping):
                pairs = item.get("values")
                inner = [pair for pair in pairs if isinstance(pair, Mapping)] if isinstance(pairs, list) else []
                return {str(pair.get("key")): _otlp_value(pair.get("value")) for pair in inner}
    return None
