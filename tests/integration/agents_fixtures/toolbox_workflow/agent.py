"""A workflow of google-adk 2 that runs a tool as a node."""

from __future__ import annotations

import os
import urllib.request
from typing import Any

from google.adk.tools.function_tool import FunctionTool
from google.adk.workflow import Workflow


def book(room: str) -> dict[str, Any]:
    """Books a room."""
    with urllib.request.urlopen(f"{os.environ['COUNTER_URL']}/book", timeout=10) as answer:
        return {"room": room, "booking": answer.read().decode()}


def show(node_input: Any) -> str:
    """Shows the booking."""
    return f"booked {node_input['room']} as {node_input['booking']}"


root_agent = Workflow(name="bookings", edges=[("START", FunctionTool(book), show)])
