"""An agent that runs the lamps, fans and thermostats of one home."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from google.adk.agents import Agent

from .model import ScriptedModel
from .tools import TOOLS

INSTRUCTION = """You run the devices of one home.
Look a device up with a tool before you switch it; never guess what the home looks like.
Answer in the language of the user, in one sentence.

User name: {user_name?}
Favourite room: {favourite_room?}
"""


def create_agent(tools: Sequence[Callable[..., Any]] = TOOLS) -> Agent:
    """The agent with the given tools; the broken variant beside this package passes another set."""
    return Agent(
        name="home_automation",
        description="Runs the lamps, fans and thermostats of one home.",
        model=ScriptedModel(),
        instruction=INSTRUCTION,
        tools=list(tools),
    )


root_agent = create_agent()
