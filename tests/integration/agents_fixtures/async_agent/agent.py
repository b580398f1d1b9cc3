import asyncio
import contextlib
from typing import Any

from google.adk.agents.llm_agent import LlmAgent
from scripted_model import reply, scripted, text

asyncio.run(asyncio.sleep(0))  # a module may do so: `adk eval` imports outside of a loop


async def get_agent_async() -> tuple[Any, Any]:
    await asyncio.sleep(0)
    agent = LlmAgent(name="made_later", model=scripted(lambda said, count, request: reply(text("made later"))))
    return agent, contextlib.AsyncExitStack()
