"""Runs inside an environment with google-adk: what ADK itself makes of a turn's events.

Reads `{"fixtures": DIR, "program": DIR, "say": [text], "events": [[event]]}` from stdin. Writes to the file that it is
given, for each text and for each list of events, `{"raw": [event as the host dumps it], "invocation": ADK's}`.
"""

import asyncio
import functools
import importlib
import json
import sys
from pathlib import Path
from typing import Any

from google.adk.apps.app import App
from google.adk.evaluation.evaluation_generator import EvaluationGenerator
from google.adk.events.event import Event
from google.adk.runners import Runner
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.genai import types


async def run(agent: Any, text: str) -> list[Any]:
    sessions = InMemorySessionService()
    session = await sessions.create_session(app_name="app", user_id="u")
    app = App.model_construct(name="app", root_agent=agent, plugins=[])
    runner = Runner(app=app, session_service=sessions)
    message = types.Content(role="user", parts=[types.Part(text=text)])
    return [event async for event in runner.run_async(user_id="u", session_id=session.id, new_message=message)]


def decoded(dump: Any, events: list[Any], text: str) -> dict[str, Any]:
    user = Event(
        author="user",
        invocation_id=events[0].invocation_id,
        content=types.Content(role="user", parts=[types.Part(text=text)]),
    )
    raw = [dump(event) for event in events]
    (invocation,) = EvaluationGenerator.convert_events_to_eval_invocations([user, *events])
    return {"raw": raw, "invocation": invocation.model_dump(mode="json", exclude_none=True)}


def main() -> None:
    request = json.load(sys.stdin)
    sys.path[:0] = [request["fixtures"], str(Path(request["program"]).parent)]
    fields = importlib.import_module("agent_eval_host.serving").EVENT_FIELDS
    dump = functools.partial(importlib.import_module("agent_eval_host.values").dump, include=fields)
    shapes = importlib.import_module("shapes.agent")
    answers = [decoded(dump, asyncio.run(run(shapes.root_agent, text)), text) for text in request["say"]]
    answers += [decoded(dump, [Event.model_validate(item) for item in events], "hi") for events in request["events"]]
    Path(sys.argv[1]).write_text(json.dumps(answers), encoding="utf-8")


if __name__ == "__main__":
    main()
