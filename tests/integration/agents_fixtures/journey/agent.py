"""An agent with everything that decides what a model is asked; journey_runs.py is its model.

Parallel branches in a sequence, an AgentTool, a transfer, callbacks around models and tools, an answer that is streamed
by the model's class, an output schema, state and a file in the instruction, an artifact, an MCP server.
"""

import os
import sys
from pathlib import Path
from typing import Any

from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.parallel_agent import ParallelAgent
from google.adk.agents.sequential_agent import SequentialAgent
from google.adk.models.google_llm import Gemini
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.mcp_tool import McpToolset
from google.adk.tools.mcp_tool.mcp_session_manager import StdioConnectionParams
from google.genai import types
from mcp import StdioServerParameters
from pydantic import BaseModel, PrivateAttr

from .tools import Desk, fare, look_up
from .words import ASSISTANT, tidy

HERE = Path(__file__).parent
STYLE = (HERE / "house_style.txt").read_text(encoding="utf-8")


def _count_connections(event: str, args: tuple[Any, ...]) -> None:
    if event in {"socket.connect", "socket.getaddrinfo"} and (log := os.environ.get("RUNS_FILE")):
        with open(log, "a", encoding="utf-8") as file:
            file.write(f"{event}\n")


sys.addaudithook(_count_connections)


class Streaming(Gemini):
    """Streams, whatever it is asked for."""

    async def generate_content_async(self, llm_request, stream=False):
        async for response in super().generate_content_async(llm_request, stream=True):
            yield response


class Hidden(Gemini):
    """Keeps what it got for itself, as LiteLlm does."""

    _additional_args: dict[str, Any] = PrivateAttr(default_factory=dict)

    def __init__(self, model: str, **more: Any) -> None:
        super().__init__(model=model)
        self._additional_args = more

    async def generate_content_async(self, llm_request, stream=False):
        llm_request.config.temperature = self._additional_args["temperature"]
        async for response in super().generate_content_async(llm_request, stream):
            yield response


async def adds_logo(callback_context, llm_request):
    """Shows the model the picture of the session."""
    if (artifact := await callback_context.load_artifact("logo.png")) is not None:
        llm_request.contents[-1].parts.append(artifact)


def tidies(callback_context, llm_response):
    """Tidies what the model said."""
    for part in (llm_response.content and llm_response.content.parts) or []:
        if part.text:
            part.text = tidy(part.text)
    return llm_response


async def saves_logo(callback_context):
    """Gives the session its picture."""
    if callback_context.state.get("has_logo") is None:
        picture = types.Blob(data=(HERE / "logo.bin").read_bytes(), mime_type="image/png")
        await callback_context.save_artifact("logo.png", types.Part(inline_data=picture))
        callback_context.state["has_logo"] = True


def capitalizes(tool, args, tool_context):
    """Writes cities as the tools know them."""
    if "city" in args:
        args["city"] = args["city"].title()


def labels(tool, args, tool_context, tool_response):
    """Adds to an answer."""
    if isinstance(tool_response, dict) and "ticket" in tool_response:
        return {**tool_response, "unit": "NOK"}
    return None


class Journey(BaseModel):
    """What the last agent answers."""

    summary: str
    changes: int


def server(script: str) -> McpToolset:
    started = StdioServerParameters(command=sys.executable, args=[str(HERE / script)])
    return McpToolset(connection_params=StdioConnectionParams(server_params=started, timeout=30))


currency = LlmAgent(
    name="currency",
    description="Knows currencies.",
    model=Hidden(model="gemini-2.5-flash-currency", temperature=0.1),
    instruction="Name the currency.",
    tools=[fare],
)
north = LlmAgent(
    name="north",
    description="Plans the way through the north.",
    model=Streaming(model="gemini-2.5-flash-north"),
    instruction="Plan the northern way.",
    tools=[look_up, server("stations.py")],
    after_tool_callback=labels,
)
south = LlmAgent(
    name="south",
    description="Plans the way through the south.",
    model="gemini-2.5-flash-south",
    instruction="Plan the southern way.",
    tools=[fare],
)
ways = ParallelAgent(name="ways", sub_agents=[north, south])
merge = LlmAgent(
    name="merge",
    description="Compares the ways.",
    model="gemini-2.5-flash-merge",
    instruction="Compare the ways.",
    output_schema=Journey,
    disallow_transfer_to_parent=True,
    disallow_transfer_to_peers=True,
)
planner = SequentialAgent(name="planner", description="Plans journeys.", sub_agents=[ways, merge])
desk = Desk("Oslo")
root_agent = LlmAgent(
    name="assistant",
    model=Gemini(model="gemini-2.5-flash-assistant"),
    instruction=ASSISTANT + STYLE,
    generate_content_config=types.GenerateContentConfig(temperature=0.2, max_output_tokens=500),
    tools=[*(look_up, fare, desk.rooms, AgentTool(agent=currency)), server("mcp_server.py")],
    sub_agents=[planner],
    before_agent_callback=saves_logo,
    before_model_callback=adds_logo,
    after_model_callback=tidies,
    before_tool_callback=capitalizes,
    after_tool_callback=labels,
)
