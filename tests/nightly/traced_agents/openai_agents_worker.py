"""The OpenAI Agents SDK, traced by OpenInference."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import nullcontext, suppress
from typing import Any

import talks
from agents import Agent, ModelResponse, Runner, SQLiteSession, Usage, function_tool
from agents.models.interface import Model
from agents.tracing import generation_span
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from openinference.instrumentation import using_session
from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor


class Scripted(Model):
    """Answers as `talks.answer` says, with the span that the SDK's own models make."""

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> ModelResponse:
        items = [{"role": "user", "content": input}] if isinstance(input, str) else list(input)
        last = max(number for number, item in enumerate(items) if item.get("role") == "user")
        results = [item for item in items[last:] if item.get("type") == "function_call_output"]
        reply = talks.answer(str(items[last]["content"]), results)
        with generation_span(input=items, model="scripted") as span:
            if isinstance(reply, str):
                part = ResponseOutputText(text=reply, type="output_text", annotations=[])
                message = {"id": "m", "role": "assistant", "status": "completed", "type": "message"}
                output: list[Any] = [ResponseOutputMessage.model_validate({**message, "content": [part]})]
                span.span_data.output = [{"role": "assistant", "content": reply}]
            else:
                output = [
                    ResponseFunctionToolCall(
                        name=name,
                        arguments=json.dumps(args),
                        call_id=f"call-{len(items)}-{number}",
                        type="function_call",
                    )
                    for number, (name, args) in enumerate(reply)
                ]
                functions = [(call.call_id, {"name": call.name, "arguments": call.arguments}) for call in output]
                calls = [{"id": call_id, "type": "function", "function": called} for call_id, called in functions]
                span.span_data.output = [{"role": "assistant", "content": None, "tool_calls": calls}]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


@function_tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return talks.weather(city)


async def main() -> None:
    OpenAIAgentsInstrumentor().instrument(tracer_provider=talks.provider(), exclusive_processor=True)
    expert = Agent(name="expert", instructions=talks.EXPERT, model=Scripted())

    @function_tool
    async def ask_expert(question: str) -> str:
        """What an expert says."""
        return str((await Runner.run(expert, question)).final_output)

    agent = Agent(name="weather", instructions=talks.INSTRUCTION, model=Scripted(), tools=[get_weather, ask_expert])
    for name, messages in talks.TALKS.items():
        session = SQLiteSession(name)
        for text in messages:
            with suppress(talks.Failure), nullcontext() if "no-session" in sys.argv else using_session(name):
                await Runner.run(agent, text, session=session)


asyncio.run(main())
