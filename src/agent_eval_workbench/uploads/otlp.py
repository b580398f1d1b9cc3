"""Sends traces and log records by OTLP/HTTP with JSON, configured by OpenTelemetry's own variables.

https://opentelemetry.io/docs/specs/otel/protocol/exporter/
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import unquote

from agent_eval_workbench.uploads._client import Client, InvalidTarget, UploadError, checked_url

_PREFIX = "OTEL_EXPORTER_OTLP_"
_REJECTED = {"traces": "rejectedSpans", "logs": "rejectedLogRecords"}
_DEFAULT_TIMEOUT = 10.0


@dataclass(frozen=True, kw_only=True)
class OtlpTarget:
    """Where to send a signal."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    timeout: float
    """Seconds."""


def otlp_target(signal: Literal["traces", "logs"], environ: Mapping[str, str], endpoint: str | None) -> OtlpTarget:
    """The target of a signal.

    Args:
        signal: The signal.
        environ: OTEL_EXPORTER_OTLP_ENDPOINT, _HEADERS and _TIMEOUT (milliseconds), and the same for one signal, e.g.
            OTEL_EXPORTER_OTLP_TRACES_ENDPOINT.
        endpoint: `--endpoint`, which replaces the variable; the signal's path is appended.

    Raises:
        InvalidTarget: There is no endpoint, or a value is invalid.
    """
    own = f"{_PREFIX}{signal.upper()}_"
    if endpoint:
        url = f"{checked_url(endpoint, '--endpoint')}/v1/{signal}"
    elif value := environ.get(f"{own}ENDPOINT"):
        url = checked_url(value, f"{own}ENDPOINT")
    elif value := environ.get(f"{_PREFIX}ENDPOINT"):
        url = f"{checked_url(value, f'{_PREFIX}ENDPOINT')}/v1/{signal}"
    else:
        raise InvalidTarget(f"There is no endpoint. Set --endpoint or {_PREFIX}ENDPOINT, or write to --output.")
    name = f"{own}HEADERS" if environ.get(f"{own}HEADERS") else f"{_PREFIX}HEADERS"
    timeout = environ.get(f"{own}TIMEOUT") or environ.get(f"{_PREFIX}TIMEOUT") or ""
    if timeout and not (timeout.isdecimal() and 0 < int(timeout) <= 3_600_000):
        raise InvalidTarget(f"{_PREFIX}TIMEOUT must be a number of milliseconds from 1 to 3600000.")
    seconds = int(timeout) / 1000 if timeout else _DEFAULT_TIMEOUT
    return OtlpTarget(url=url, headers=_headers(environ.get(name, ""), name), timeout=seconds)


def _headers(text: str, name: str) -> dict[str, str]:
    """`key=value,key=value` with percent-encoded values (W3C Baggage without properties)."""
    headers = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        key, separator, value = pair.partition("=")
        if not separator or not key.strip():
            raise InvalidTarget(f"{name} must be `name=value,name=value`.")
        headers[key.strip()] = unquote(value.strip())
    return headers


def send_otlp(client: Client, target: OtlpTarget, signal: Literal["traces", "logs"], body: Mapping[str, Any]) -> None:
    """Sends one batch.

    Raises:
        UploadError: It was not accepted, or only in part.
    """
    answer = client.post(target.url, body)
    partial = answer.get("partialSuccess") or answer.get("partial_success")
    if isinstance(partial, dict):
        count = str(partial.get(_REJECTED[signal]) or "0")
        reason = client.safe(str(partial.get("errorMessage") or ""))
        if count != "0":
            because = f": {reason.rstrip('.')}" if reason else ""
            raise UploadError(f"{client.safe(target.url)} rejected {client.safe(count)} items{because}.")
