"""An agent with a tool of each kind, for its servers: numbers, a long-running call, waiting, failures.

The user's message selects what it does.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from google.adk.agents import Agent
from google.adk.models.llm_response import LlmResponse
from google.adk.tools import LongRunningFunctionTool
from google.genai import types

sys.path.insert(0, str(Path(__file__).parents[1]))
from scripted_model import call, reply, scripted, text


def roll_die(sides: int) -> dict[str, Any]:
    """Rolls a die."""
    return {"result": sides - 2, "fair": True, "share": 0.5}


def book(account: int) -> dict[str, Any]:
    """Books something."""
    return {"account": account}


async def wait(seconds: float) -> dict[str, Any]:
    """Waits."""
    await asyncio.sleep(seconds)
    return {}


def approve(reason: str) -> dict[str, Any]:
    """Asks a person; the answer comes later."""
    return {"status": "pending"}


def script(asked: str, answered: int, request: Any) -> LlmResponse:
    """The next event of the agent's model."""
    if asked == "roll":
        first = reply(text("One moment."), call("roll_die", sides=10))
        return reply(text("It is 8.")) if answered else first
    if asked == "book":
        return reply(text("Booked.")) if answered else reply(call("book", account=9007199254740993))
    if asked == "think":
        return reply(types.Part(text="hm", thought=True), text("42"))
    if asked == "raise":
        raise ValueError("the agent is broken")
    if asked == "quota":
        return LlmResponse(error_code="RESOURCE_EXHAUSTED", error_message="no quota left")
    if asked.startswith("wait"):
        seconds = float(asked.removeprefix("wait") or 30)
        return reply(text("Done.")) if answered else reply(call("wait", seconds=seconds))
    if asked == "approve":
        if not answered:
            return reply(call("approve", reason="why not"))
        response = request.contents[-1].parts[-1].function_response.response
        return reply(text(f"Approval is {response['status']}."))
    if asked == "count":
        users = [content for content in request.contents if content.role == "user"]
        return reply(text(f"{len(users)} messages."))
    return reply(text(f"You said {asked or 'nothing'}."))


root_agent = Agent(
    name="dice",
    description="Rolls dice.",
    model=scripted(script),
    tools=[roll_die, book, wait, LongRunningFunctionTool(approve)],
)
