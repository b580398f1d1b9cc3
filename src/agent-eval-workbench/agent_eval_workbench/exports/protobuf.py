"""OTLP's JSON as protobuf, by opentelemetry-proto (the extra `otel`)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

_SERVICES = {"traces": ("trace", "ExportTraceService"), "logs": ("logs", "ExportLogsService")}
_IDS = ("traceId", "spanId", "parentSpanId")


def codec(signal: str) -> tuple[Callable[[Mapping[str, Any]], bytes], Callable[[bytes], dict[str, Any]]]:
    """What makes a request of JSON, and JSON of the answer, which raises ValueError if it is none.

    Raises:
        ImportError: opentelemetry-proto is not installed.
    """
    package, service = _SERVICES[signal]
    messages = import_module(f"opentelemetry.proto.collector.{package}.v1.{package}_service_pb2")
    json_format, message = import_module("google.protobuf.json_format"), import_module("google.protobuf.message")

    def encode(body: Mapping[str, Any]) -> bytes:
        request = getattr(messages, f"{service}Request")()
        data: bytes = json_format.ParseDict(_with_base64(body), request).SerializeToString()
        return data

    def decode(data: bytes) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = json_format.MessageToDict(getattr(messages, f"{service}Response").FromString(data))
        except message.DecodeError as error:
            raise ValueError(str(error)) from error
        return answer

    return encode, decode


def _with_base64(value: Any) -> Any:
    """OTLP's JSON has hex ids, where protobuf's JSON has base64."""
    if isinstance(value, dict):
        return {
            key: b64encode(bytes.fromhex(item)).decode() if key in _IDS else _with_base64(item)
            for key, item in value.items()
        }
    return [_with_base64(item) for item in value] if isinstance(value, list) else value
