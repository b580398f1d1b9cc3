"""google-adk with its own spans, or (argument openinference) with OpenInference's."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

import talks
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools.agent_tool import AgentTool
from google.genai import types


class Scripted(BaseLlm):
    """Answers as `talks.answer` says."""

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        parts = [(content.role, part) for content in llm_request.contents for part in content.parts]
        last = max(number for number, (role, part) in enumerate(parts) if role == "user" and part.text)
        results = [part for _, part in parts[last:] if part.function_response]
        reply = talks.answer(parts[last][1].text, results)
        if isinstance(reply, str):
            made = [types.Part(text=reply)]
        else:
            made = [types.Part(function_call=types.FunctionCall(name=name, args=args)) for name, args in reply]
        yield LlmResponse(content=types.Content(role="model", parts=made))


def get_weather(city: str) -> dict[str, str]:
    """The weather in a city."""
    try:
        return {"weather": talks.weather(city)}
    except ValueError as error:
        return {"error": str(error)}


model = Scripted(model="scripted")
expert = LlmAgent(name="ask_expert", description="An expert.", model=model, instruction=talks.EXPERT)
tools = [get_weather, AgentTool(expert)]
root_agent = LlmAgent(name="weather", model=model, instruction=talks.INSTRUCTION, tools=tools)


async def main() -> None:
    provider = talks.provider()
    if "openinference" in sys.argv:
        from openinference.instrumentation.google_adk import GoogleADKInstrumentor

        GoogleADKInstrumentor().instrument(tracer_provider=provider)
    runner = InMemoryRunner(root_agent, app_name="weather")
    for name, messages in talks.TALKS.items():
        await runner.session_service.create_session(app_name="weather", user_id="u", session_id=name)
        for text in messages:
            message = types.Content(role="user", parts=[types.Part(text=text)])
            with suppress(talks.Failure):
                async for _ in runner.run_async(user_id="u", session_id=name, new_message=message):
                    pass


if __name__ == "__main__":
    asyncio.run(main())
