"""Strands Agents with its own spans."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import talks
from strands import Agent, tool
from strands.models import Model


class Scripted(Model):
    """Answers as `talks.answer` says, in chunks."""

    def update_config(self, **_: Any) -> None: ...

    def get_config(self) -> dict[str, Any]:
        return {"model_id": "scripted"}

    async def structured_output(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError
        yield

    async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        texts = [
            message["role"] == "user" and any("text" in part for part in message["content"]) for message in messages
        ]
        asked = [number for number, is_text in enumerate(texts) if is_text]
        results = [part for message in messages[asked[-1] :] for part in message["content"] if "toolResult" in part]
        reply = talks.answer(messages[asked[-1]]["content"][0]["text"], results)
        yield {"messageStart": {"role": "assistant"}}
        if isinstance(reply, str):
            yield {"contentBlockStart": {"start": {}}}
            for word in reply.split(" "):
                yield {"contentBlockDelta": {"delta": {"text": word + (" " if not reply.endswith(word) else "")}}}
            yield {"contentBlockStop": {}}
        else:
            for number, (name, args) in enumerate(reply):
                use = {"name": name, "toolUseId": f"call-{len(messages)}-{number}"}
                yield {"contentBlockStart": {"start": {"toolUse": use}}}
                yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(args)}}}}
                yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if isinstance(reply, str) else "tool_use"}}
        usage = {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 1}}}


@tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return talks.weather(city)


@tool
def ask_expert(question: str) -> str:
    """What an expert says."""
    return str(Agent(model=Scripted(), system_prompt=talks.EXPERT, name="expert", callback_handler=None)(question))


talks.provider()
for name, messages in talks.TALKS.items():
    agent = Agent(
        model=Scripted(),
        tools=[get_weather, ask_expert],
        system_prompt=talks.INSTRUCTION,
        name="weather",
        callback_handler=None,
        trace_attributes={} if "no-session" in sys.argv else {"session.id": name},
    )
    for text in messages:
        with suppress(talks.Failure):
            agent(text)
