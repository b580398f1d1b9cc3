"""Pydantic AI with its own spans."""

from __future__ import annotations

import sys
from typing import Any

import talks
from pydantic_ai import Agent, ModelRetry
from pydantic_ai.capabilities.instrumentation import Instrumentation
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.instrumented import InstrumentationSettings


def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    parts = [part for message in messages for part in message.parts]
    last = max(number for number, part in enumerate(parts) if isinstance(part, UserPromptPart))
    results = [part for part in parts[last:] if isinstance(part, ToolReturnPart | RetryPromptPart)]
    reply = talks.answer(str(parts[last].content), results)
    if isinstance(reply, str):
        return ModelResponse(parts=[TextPart(reply)])
    return ModelResponse(parts=[ToolCallPart(name, args) for name, args in reply])


def get_weather(city: str) -> str:
    """The weather in a city."""
    try:
        return talks.weather(city)
    except ValueError as error:
        raise ModelRetry(str(error)) from error


async def ask_expert(question: str) -> str:
    """What an expert says."""
    return (await expert.run(question)).output


version = int(sys.argv[2]) if len(sys.argv) > 2 else None
more = {} if version is None else {"version": version}
settings = InstrumentationSettings(tracer_provider=talks.provider(), **more)
traced = {"capabilities": [Instrumentation(settings)]}
expert = Agent(FunctionModel(scripted), name="expert", instructions=talks.EXPERT, **traced)
tools = [get_weather, ask_expert]
agent = Agent(FunctionModel(scripted), name="weather", instructions=talks.INSTRUCTION, tools=tools, **traced)
for messages in talks.TALKS.values():
    history: list[Any] = []
    for text in messages:
        try:
            history = agent.run_sync(text, message_history=history).all_messages()
        except talks.Failure:
            pass
