"""A Gemini agent that streams its answers, and whose tool `research` streams one from a model by itself.

With SLOW_READER it does not go on reading a stream that has begun.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from typing import Any

from google import genai
from google.adk.agents.llm_agent import LlmAgent
from google.adk.models.google_llm import Gemini
from google.adk.models.llm_response import LlmResponse


class Streaming(Gemini):  # type: ignore[misc]
    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        async for response in super().generate_content_async(llm_request, stream=True):
            if os.environ.get("SLOW_READER"):
                await asyncio.sleep(3600)
            yield response


async def research(topic: str) -> str:
    """Asks another model."""
    stream = await genai.Client().aio.models.generate_content_stream(model="gemini-2.5-pro", contents=topic)
    return "".join([chunk.text or "" async for chunk in stream])


root_agent = LlmAgent(name="streams", model=Streaming(model="gemini-2.5-flash"), tools=[research])
