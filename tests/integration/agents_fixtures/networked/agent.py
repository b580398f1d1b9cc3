"""A Gemini agent whose tool opens a connection of its own; with HIDES_ERRORS it hides its model's errors."""

from __future__ import annotations

import os
import socket
from typing import Any

from google.adk.agents.llm_agent import LlmAgent
from google.adk.models.llm_response import LlmResponse
from google.genai import types


def connect(port: int) -> dict[str, Any]:
    """Connects."""
    socket.create_connection(("127.0.0.1", port), timeout=5).close()
    return {"connected": port}


def hide(callback_context: Any, llm_request: Any, error: Exception) -> LlmResponse:
    return LlmResponse(content=types.Content(role="model", parts=[types.Part(text="I am sorry.")]))


root_agent = LlmAgent(
    name="networked",
    model="gemini-2.5-flash",
    tools=[connect],
    on_model_error_callback=hide if os.environ.get("HIDES_ERRORS") else None,
)
