"""An agent that notes every turn outside of its process: what was paid for, whatever became of the gate."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from google.adk.agents.llm_agent import LlmAgent
from scripted_model import call, reply, scripted, text


async def wait(seconds: float) -> dict[str, Any]:
    """Waits."""
    await asyncio.sleep(seconds)
    return {"waited": seconds}


def script(said: str, count: int, request: Any) -> Any:
    word, _, value = said.partition(":")
    if not count:
        with open(os.environ["RUNS_FILE"], "a", encoding="utf-8") as file:
            file.write(said + "\n")
        if word == "wait":
            return reply(call("wait", seconds=float(value)))
        if word == "secret":
            print("printed", os.environ["JOB_SECRET"], flush=True)
            return reply(text(f"it is {os.environ['JOB_SECRET']}"))
        if word == "secret-raise":
            raise ValueError("it is " + os.environ["JOB_SECRET"])
    return reply(text(said))


root_agent = LlmAgent(name="counted", model=scripted(script), tools=[wait])
