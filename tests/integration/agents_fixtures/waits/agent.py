"""An agent without a model or a tool that waits for ever, in the way that the user asks for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents.base_agent import BaseAgent
from google.adk.events.event import Event
from google.genai import types


async def wait_for_nothing() -> None:
    await asyncio.Event().wait()


class Waits(BaseAgent):  # type: ignore[misc]
    async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Event, None]:
        match ctx.user_content.parts[0].text.split(":"):
            case ["wait"]:
                await wait_for_nothing()
            case ["task"]:
                await asyncio.gather(asyncio.create_task(wait_for_nothing()))
            case ["block", seconds]:
                time.sleep(float(seconds))
            case ["sleep", seconds]:
                await asyncio.sleep(float(seconds))
        content = types.Content(role="model", parts=[types.Part(text="done")])
        yield Event(author=self.name, invocation_id=ctx.invocation_id, content=content)


root_agent = Waits(name="waits")
