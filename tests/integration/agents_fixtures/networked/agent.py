"""A Gemini agent whose tools open connections of their own; with HIDES_ERRORS it hides its model's errors."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from typing import Any

from google import genai
from google.adk.agents.llm_agent import LlmAgent
from google.adk.models.llm_response import LlmResponse
from google.genai import types


def connect(port: int) -> dict[str, Any]:
    """Connects."""
    socket.create_connection(("127.0.0.1", port), timeout=5).close()
    return {"connected": port}


async def ask_briefly(times: int) -> dict[str, Any]:
    """Asks a model, and does not wait for the answer."""
    client = genai.Client()
    for _ in range(times):
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(client.aio.models.generate_content(model="gemini-2.5-pro", contents="hello"), 0.2)
    return {"asked": times}


def hide(callback_context: Any, llm_request: Any, error: Exception) -> LlmResponse:
    return LlmResponse(content=types.Content(role="model", parts=[types.Part(text="I am sorry.")]))


root_agent = LlmAgent(
    name="networked",
    model="gemini-2.5-flash",
    tools=[connect, ask_briefly],
    on_model_error_callback=hide if os.environ.get("HIDES_ERRORS") else None,
)
