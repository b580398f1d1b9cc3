"""Sends the batches of `agent-eval export otlp`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from agent_eval.commands import CliIO
from agent_eval.core.text import plural
from agent_eval_workbench.exports import Batch
from agent_eval_workbench.uploads import Client, OtlpTarget, UploadError, otlp_target, send_otlp


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
