"""Tools whose answers differ from call to call: each has a ticket."""

import asyncio
import json
import os
import random
from pathlib import Path
from typing import Any

from google.adk.tools.tool_context import ToolContext


async def _work(name: str) -> str:
    """Takes a moment, leaves a trace, and gives a ticket."""
    if log := os.environ.get("RUNS_FILE"):
        with open(log, "a", encoding="utf-8") as file:
            file.write(f"tool {name}\n")
    await asyncio.sleep(random.uniform(0, float(os.environ.get("TOOL_SECONDS", "0.03"))))
    return f"ticket {random.randrange(10**9)}"


async def look_up(city: str, tool_context: ToolContext, days: int = 1) -> dict[str, Any]:
    """Looks up the weather of a city."""
    tool_context.state["seen"] = city
    return {"city": city, "weather": "rain", "days": days, "ticket": await _work("look_up")}


async def fare(city: str) -> dict[str, Any]:
    """Says what a ticket costs."""
    prices = json.loads(Path(__file__).with_name("fares.json").read_text(encoding="utf-8"))
    return {"price": prices[city], "ticket": await _work("fare")}


class Desk:
    """An object with a tool."""

    def __init__(self, town: str) -> None:
        self.town = town

    async def rooms(self, nights: int) -> dict[str, Any]:
        """Looks for a room."""
        return {"town": self.town, "nights": nights, "ticket": await _work("rooms")}
