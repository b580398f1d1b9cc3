"""An agent with many kinds of model calls: of a sub-agent, an AgentTool, parallel agents, a class of its own."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.parallel_agent import ParallelAgent
from google.adk.agents.sequential_agent import SequentialAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.google_llm import Gemini
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from pydantic import BaseModel, PrivateAttr

MODEL = "gemini-2.5-flash"


class Report(BaseModel):
    """What `merge` answers."""

    summary: str
    stars: int = int(os.environ.get("STARS", "3"))


def said(*parts: types.Part, **more: Any) -> LlmResponse:
    """A response whose content is of the class that ADK makes of a stream."""
    return LlmResponse(content=types.ModelContent(list(parts)), **more)


class Own(BaseLlm):  # type: ignore[misc]
    """Streams by itself. Says what the last word of the conversation asks for."""

    tone: str = "calm"
    api_key: str = "key-of-the-model"
    _arguments: dict[str, Any] = PrivateAttr(default_factory=dict)
    _lock: Any = PrivateAttr(default_factory=threading.Lock)
    _calls: int = PrivateAttr(default=0)

    def __init__(self, model: str, **arguments: Any) -> None:
        super().__init__(model=model)
        self._arguments = arguments

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        self._calls += 1
        print(f"own model asked: {self.model}", flush=True)
        word = last_word(llm_request)
        if word == "fail":
            raise ValueError("the model is broken")
        if word == "wait":
            await asyncio.Event().wait()
        if word == "nothing":
            return
        yield said(types.Part(text="Partly "), partial=True)
        yield said(
            types.Part(text="think", thought=True, thought_signature=b"\xff\x00sign"),
            types.Part(text=f"Partly {word}."),
            custom_metadata={"kept": None, "odd": object() if word == "odd" else 1},
            usage_metadata=types.GenerateContentResponseUsageMetadata(prompt_token_count=7, candidates_token_count=2),
        )
        if word == "again":
            yield said(types.Part(text="And more."))


class Polite(Own):
    """Asks the class above it."""

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        async for response in super().generate_content_async(llm_request, stream):
            yield response


class Far(Polite):
    """As far as the host can see, code of an installed package, as that of LiteLLM."""


Far.__module__ = "http.client"


def last_word(llm_request: Any) -> str:
    """The user's, not what ADK relays of other agents."""
    texts = [part.text for content in llm_request.contents for part in content.parts or () if part.text]
    return str(next(text for text in reversed(texts) if not text.startswith(("For context", "["))))


def look_up(city: str, days: int = 1) -> dict[str, Any]:
    """Looks up the weather."""
    return {"city": city, "days": days, "weather": None}


async def consult(topic: str, tool_context: ToolContext) -> dict[str, Any]:
    """Asks a model by itself."""
    request = LlmRequest(model=MODEL, contents=[types.Content(role="user", parts=[types.Part(text=topic)])])
    return {"said": [r.content.parts[0].text async for r in Gemini(model=MODEL).generate_content_async(request)]}


def decorate(callback_context: Any, llm_response: Any) -> None:
    """Sees each answer, and changes it."""
    print(f"after {callback_context.agent_name}", flush=True)
    for part in llm_response.content.parts or [] if llm_response.content else []:
        if part.text and not part.thought:
            part.text += "!"


def thinks(callback_context: Any) -> None:
    """Blocks the event loop until another thread has asked a model, if the user says `thread`."""

    async def think() -> None:
        request = LlmRequest(model="own-2", contents=[types.Content(role="user", parts=[types.Part(text="think")])])
        async for response in Own("own-2").generate_content_async(request):
            print(f"thought {response.partial}", flush=True)

    if callback_context.user_content.parts[0].text == "thread":
        thread = threading.Thread(target=contextvars.copy_context().run, args=(asyncio.run, think()))
        thread.start()
        thread.join()


def by_itself(name: str, model: Any, **more: Any) -> LlmAgent:
    return LlmAgent(
        name=name,
        model=model,
        instruction=f"You are {name}.",
        description=f"The {name}.",
        after_model_callback=decorate,
        disallow_transfer_to_parent=True,
        disallow_transfer_to_peers=True,
        **more,
    )


helper = by_itself("helper", MODEL)
desk = SequentialAgent(
    name="desk",
    description="Writes reports.",
    sub_agents=[
        ParallelAgent(name="both", sub_agents=[by_itself("left", MODEL), by_itself("right", MODEL)]),
        by_itself("merge", MODEL, output_schema=Report),
    ],
)
own = by_itself(
    "own", Polite("own-1", temperature=float(os.environ.get("OWN_TEMPERATURE", "0.5")), api_base="http://x")
)

far = by_itself("far", Far("far-1"))

root_agent = LlmAgent(
    name="front",
    model=Gemini(model=MODEL, retry_options=types.HttpRetryOptions(attempts=1)),
    instruction="You are front.",
    before_agent_callback=thinks,
    after_model_callback=decorate,
    tools=[look_up, consult, AgentTool(helper)],
    sub_agents=[desk, own, far],
    generate_content_config=types.GenerateContentConfig(
        temperature=float(os.environ.get("TEMPERATURE", "0.25")),
        stop_sequences=["END"],
        labels={"team": "label-of-the-team"},
        http_options=types.HttpOptions(headers={"x-token": "header-of-the-agent"}, timeout=9_000),
    ),
)
