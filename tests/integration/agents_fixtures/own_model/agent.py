"""An agent whose model is code of its own, and never answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents.llm_agent import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse


class Deaf(BaseLlm):  # type: ignore[misc]
    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        await asyncio.Event().wait()
        yield LlmResponse()


root_agent = LlmAgent(name="own_model", model=Deaf(model="deaf"))
