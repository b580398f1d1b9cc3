"""Runs in an ADK environment: talks to the example agent, and leaves sessions and traces in every form that ADK has."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import shutil
import socket
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[2] / "examples"
APP = "home_automation"
TALKS: dict[str, list[str]] = {
    "s-lamps": ["Turn off the lamp in the bedroom", "Turn it on again"],
    "s-fans": ["Which devices are in the kitchen?"],
}
STATE = {"user_name": "Mina", "favourite_room": "garage", "user:tier": "gold", "turns": 0}


async def talk(service: Any) -> list[dict[str, Any]]:
    """Has both conversations, and returns the sessions as ADK writes them."""
    from google.adk.runners import Runner
    from google.genai import types

    root_agent = importlib.import_module("home_automation.agent").root_agent
    runner = Runner(app_name=APP, agent=root_agent, session_service=service)
    sessions = []
    for session_id, messages in TALKS.items():
        await service.create_session(app_name=APP, user_id="u1", session_id=session_id, state=dict(STATE))
        for number, text in enumerate(messages, 1):
            message = types.Content(role="user", parts=[types.Part(text=text)])
            run = runner.run_async(
                user_id="u1", session_id=session_id, new_message=message, state_delta={"turns": number}
            )
            async for _ in run:
                pass
        session = await service.get_session(app_name=APP, user_id="u1", session_id=session_id)
        sessions.append(json.loads(session.model_dump_json(by_alias=True, exclude_none=True)))
    return sessions


def write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


async def databases(out: Path) -> None:
    """A database by each session service that this version has."""
    with suppress(ImportError):
        from google.adk.sessions.sqlite_session_service import SqliteSessionService

        await talk(SqliteSessionService(str(out / "session.db")))
        return
    from google.adk.sessions import DatabaseSessionService

    await talk(DatabaseSessionService(db_url=f"sqlite:///{out / 'database.db'}"))


def otlp(spans: list[Any]) -> dict[str, Any]:
    """Spans as OTLP JSON, written after the protocol's JSON mapping."""

    def value(item: Any) -> dict[str, Any]:
        if isinstance(item, bool):
            return {"boolValue": item}
        if isinstance(item, int):
            return {"intValue": str(item)}
        if isinstance(item, float):
            return {"doubleValue": item}
        if isinstance(item, (list, tuple)):
            return {"arrayValue": {"values": [value(part) for part in item]}}
        return {"stringValue": str(item)}

    listed = [
        {
            "traceId": f"{span.context.trace_id:032x}",
            "spanId": f"{span.context.span_id:016x}",
            **({"parentSpanId": f"{span.parent.span_id:016x}"} if span.parent else {}),
            "name": span.name,
            "kind": 1,
            "startTimeUnixNano": str(span.start_time),
            "endTimeUnixNano": str(span.end_time),
            "attributes": [{"key": key, "value": value(item)} for key, item in (span.attributes or {}).items()],
        }
        for span in spans
    ]
    return {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [{"scope": {}, "spans": listed}]}]}


async def sessions_and_traces(out: Path) -> None:
    """Session JSON; the spans as OTLP JSON and JSON Lines, in ADK's SQLite database, and as the list of `adk web`."""
    import opentelemetry.trace
    from google.adk.sessions import InMemorySessionService
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    memory = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    with suppress(ImportError):
        from google.adk.telemetry.sqlite_span_exporter import SqliteSpanExporter

        provider.add_span_processor(SimpleSpanProcessor(SqliteSpanExporter(db_path=str(out / "spans.db"))))
    opentelemetry.trace.set_tracer_provider(provider)
    for session in await talk(InMemorySessionService()):
        write(out / f"{session['id']}.session.json", session)
    spans = list(memory.get_finished_spans())
    write(out / "otlp.json", otlp(spans))
    lines = [json.dumps(otlp([span])) for span in spans]
    (out / "otlp.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with suppress(ImportError):
        from google.adk.telemetry._web_ui import ui_telemetry_from_otel

        # The server's endpoint answers with this list, of one session.
        write(out / "debug.json", [json.loads(span.model_dump_json()) for span in ui_telemetry_from_otel(spans, [])])


async def conformance(folder: Path) -> None:
    """The same conversations by `adk conformance record` of a real server, with and without streaming."""
    import uvicorn
    from google.adk.cli.conformance import cli_record
    from google.adk.cli.fast_api import get_fast_api_app

    for name, texts in TALKS.items():
        messages = [{"text": text, "state_delta": {"turns": number}} for number, text in enumerate(texts, 1)]
        spec = {"description": name, "agent": APP, "initial_state": STATE, "user_messages": messages}
        (folder / name).mkdir(parents=True)
        write(folder / name / "spec.yaml", spec)
    agents = tempfile.mkdtemp(dir=folder.parent)  # The server writes beside the agents.
    shutil.copytree(EXAMPLES / APP, Path(agents) / APP)
    plugin = "google.adk.cli.plugins.recordings_plugin.RecordingsPlugin"
    app = get_fast_api_app(agents_dir=agents, web=False, extra_plugins=[plugin])
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    listener = socket.create_server(("127.0.0.1", 0))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:
        await asyncio.sleep(0.05)
    client = cli_record.AdkWebServerClient
    cli_record.AdkWebServerClient = lambda: client(f"http://127.0.0.1:{listener.getsockname()[1]}")
    for mode in getattr(cli_record, "StreamingMode", ("once",)):
        if mode == "once":  # 1.18.0
            await cli_record.run_conformance_record([folder])
        elif mode.value in {None, "sse"}:
            await cli_record.run_conformance_record([folder], mode)
    server.should_exit = True
    await serving
    shutil.rmtree(agents)


async def main(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    await databases(out)
    await sessions_and_traces(out)


if __name__ == "__main__":
    sys.path.insert(0, str(EXAMPLES))
    importlib.import_module("google.adk.runners")
    child = os.fork()  # The two record spans differently, and share the imports.
    asyncio.run(main(Path(sys.argv[1])) if child else conformance(Path(sys.argv[1]) / "conformance"))
    if child:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
