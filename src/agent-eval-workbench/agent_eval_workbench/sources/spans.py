"""Spans of a trace from their carriers: OTLP JSON, lists of spans (VeADK, `adk web`), rows of ADK's span database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agent_eval_workbench.sources.conversation import Place, UnusableConversation


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
    place: Place
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def text(self, *keys: str) -> str | None:
        """The first of these attributes with a non-empty text; None without any."""
        values = (self.attributes.get(key) for key in keys)
        return next((value for value in values if isinstance(value, str) and value), None)


def is_otlp(value: object) -> bool:
    """Whether a JSON value is OTLP JSON."""
    return isinstance(value, Mapping) and ("resourceSpans" in value or "resource_spans" in value)


def is_span(value: object) -> bool:
    """Whether a JSON value is a span as VeADK and `adk web` write it."""
    return isinstance(value, Mapping) and {"name", "span_id", "trace_id"} <= value.keys()


def otlp_spans(value: Mapping[str, Any], place: Place) -> Iterator[Span]:
    """The spans of OTLP JSON (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding).

    Raises:
        UnusableConversation: It is malformed.
    """
    for resource, at in _items(value, place, "resourceSpans", "resource_spans"):
        scopes = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans")
        for scope, below in _items(resource, at, *scopes):
            for raw, where in _items(scope, below, "spans"):
                attributes = _either(raw, "attributes") or []
                yield _span(
                    where,
                    name=raw.get("name"),
                    span_id=_either(raw, "spanId", "span_id"),
                    trace_id=_either(raw, "traceId", "trace_id"),
                    parent_id=_either(raw, "parentSpanId", "parent_span_id"),
                    start=_either(raw, "startTimeUnixNano", "start_time_unix_nano"),
                    attributes=_otlp_attributes(attributes, where),
                )


def listed_span(value: Mapping[str, Any], place: Place) -> Span:
    """A span as VeADK's `save_tracing_file` and `adk web` write it.

    Raises:
        UnusableConversation: It is malformed.
    """
    return _span(
        place,
        name=value.get("name"),
        span_id=value.get("span_id"),
        trace_id=value.get("trace_id"),
        parent_id=value.get("parent_span_id"),
        start=_either(value, "start_time", "start_time_unix_nano"),
        attributes=value.get("attributes") or {},
    )


def _span(
    place: Place, *, name: object, span_id: object, trace_id: object, parent_id: object, start: object, attributes: Any
) -> Span:
    if isinstance(start, str) and start.isascii() and start.isdigit() and len(start) < 20:
        start = int(start)
    is_time = isinstance(start, int | float) and 0 <= start < 2**64
    if not isinstance(name, str) or not is_time or not isinstance(attributes, Mapping):
        raise UnusableConversation(place, "The span lacks a name or a start time, or its attributes are no object.")
    if (
        not span_id
        or not trace_id
        or isinstance(span_id, bool | list | dict)
        or isinstance(trace_id, bool | list | dict)
    ):
        raise UnusableConversation(place, "The span has no span id or no trace id.")
    return Span(
        name=name,
        span_id=str(span_id),
        trace_id=str(trace_id),
        parent_id=str(parent_id) if parent_id else None,
        start=int(start),  # type: ignore[call-overload]
        attributes=attributes,
        place=place,
    )


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
