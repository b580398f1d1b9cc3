"""Sends OpenTelemetry documents to a service: OTLP over HTTP."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import unquote

from agent_eval.commands import CliIO
from agent_eval.core.text import plural
from agent_eval_workbench.exports.client import Client, InvalidTarget, UploadError, checked_url
from agent_eval_workbench.exports.otlp import Batch

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


@dataclass(frozen=True, kw_only=True)
class Targets:
    """Where traces and log records go."""

    traces: OtlpTarget
    logs: OtlpTarget | None
    """None: no log records are sent."""


def targets(endpoint: str | None, scores: str, environ: Mapping[str, str]) -> Targets:
    """Reads the addresses.

    Raises:
        InvalidTarget: An address or a variable is invalid, or there is none.
    """
    return Targets(
        traces=otlp_target("traces", environ, endpoint),
        logs=otlp_target("logs", environ, endpoint) if scores == "logs" else None,
    )


def send_batches(batches: Iterator[Batch], to: Targets, io: CliIO) -> int:
    """Sends everything; after a failure the rest is not sent. Returns the exit code."""
    spans = records = 0
    with contextlib.ExitStack() as clients:
        traces = clients.enter_context(contextlib.closing(Client(to.traces.headers, timeout=to.traces.timeout)))
        logs = to.logs and clients.enter_context(contextlib.closing(Client(to.logs.headers, timeout=to.logs.timeout)))
        try:
            for batch in batches:
                send_otlp(traces, to.traces, "traces", batch.traces)
                spans += batch.spans
                if batch.logs is not None and logs and to.logs:
                    send_otlp(logs, to.logs, "logs", batch.logs)
                    records += batch.log_records
        except UploadError as error:
            hint = ""
            if spans and not records and to.logs:
                hint = " If the service takes traces only, use --scores events."
            io.log(f"agent-eval: {error}{hint} Sent before: {_sent(spans, records)}. The verdict is not affected.")
            return 1
        io.print_result(f"Sent {_sent(spans, records)} to {traces.safe(to.traces.url)}")
    return 0


def _sent(spans: int, records: int) -> str:
    return f"{plural(spans, 'span')} and {plural(records, 'score')}"
