"""An agent that tries to get at what isn't its own, and answers with what it got hold of.

The tests copy it into a workspace as `evil/agent.py`; it runs inside the container, as the gate starts every agent.
Asked to wait, it waits until the other side's agent runs beside it, and tries to get at that, too.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator

from evil.attempts import attempts, others  # type: ignore[import-not-found]  # as the tests name the copies
from google.adk.agents import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events import Event
from google.genai import types


class Evil(BaseAgent):  # type: ignore[misc]  # google-adk is not in our own environment
    """Answers every message with the attempts that succeeded."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        waits = ctx.user_content.parts[0].text == "wait"
        them: list[int] = []
        until = time.monotonic() + 60
        while waits and not (them := others()) and time.monotonic() < until:
            await asyncio.sleep(0.05)
        got = attempts(them)
        if waits and not them:
            got["the other side"] = "was never there"
        text = json.dumps(got, default=str) if got else "nothing"
        print("GOT", text, flush=True)
        if waits:
            await asyncio.sleep(2)  # so that the other one can look at us too
        else:
            shout()
            text += "\n::error::in the answer\n##[error]in the answer"
        content = types.Content(role="model", parts=[types.Part(text=text)])
        yield Event(author=self.name, invocation_id=ctx.invocation_id, content=content)


def shout() -> None:
    """Says what a runner would take for commands."""
    for stream in (sys.stdout, sys.stderr):
        for line in ("::error::from the agent", "##[error]from the agent", "x ##[warning]from the agent"):
            print(line, file=stream, flush=True)
        print("::add-mask::passed", "::stop-commands::x", sep="\n", file=stream, flush=True)
    os.write(1, b"::set-output name=verdict::passed\n")
    subprocess.run(["echo", "::notice::from the agent"], check=False)


root_agent = Evil(name="evil")
