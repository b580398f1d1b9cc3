"""An agent as most are: a Gemini model, an instruction, two tools."""

from __future__ import annotations

from google.adk.agents import Agent

from .tools import get_forecast, get_local_time

root_agent = Agent(
    name="gemini_weather",
    model="gemini-2.5-flash",
    description="Tells the weather and the time in a few cities.",
    instruction="Answer questions about the weather and the local time. Ask the tools, never guess.",
    tools=[get_forecast, get_local_time],
)
