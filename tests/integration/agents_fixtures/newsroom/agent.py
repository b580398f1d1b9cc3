"""One agent with all that a turn can have; the user's words choose the turn.

It has sub-agents, parallel calls, an AgentTool, a long-running tool, an MCP server, an artifact, state and parts of a
streamed answer. Its models report usage and model version. `Tromso` is planted in calls, responses, texts and answers,
but not in instructions and declarations, so that a judge can count it.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any

from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.sequential_agent import SequentialAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.mcp_tool import McpToolset
from google.adk.tools.mcp_tool.mcp_session_manager import StdioConnectionParams
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from mcp import StdioServerParameters

Steps = Mapping[int, Sequence[types.Part]]
"""What a model says, by the number of tool responses that it has got for the user's last word."""


def text(value: str, **more: Any) -> types.Part:
    return types.Part(text=value, **more)


def call(name: str, **args: Any) -> types.Part:
    return types.Part(function_call=types.FunctionCall(name=name, args=args))


class Scripted(BaseLlm):  # type: ignore[misc]
    """Says what its script has for the user's last word."""

    script: dict[str, Any]

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        said, responses = "", []
        for content in llm_request.contents:
            for part in content.parts or []:
                if part.text in self.script:
                    said, responses = part.text, []
                elif part.function_response:
                    responses.append(part.function_response)
        parts = [part.model_copy(deep=True) for part in self.script[said][len(responses)]]
        if said == "order" and responses:
            parts = [text(f"The order of the map is {responses[-1].response['status']}.")]
        if said == "forecast" and responses:
            yield LlmResponse(content=types.Content(role="model", parts=[text("Rain is")]), partial=True)
        grounding = types.GroundingMetadata(web_search_queries=["Tromso"]) if said == "ask" and responses else None
        yield LlmResponse(
            content=types.Content(role="model", parts=parts),
            usage_metadata=types.GenerateContentResponseUsageMetadata(
                prompt_token_count=100,
                candidates_token_count=20,
                thoughts_token_count=3,
                cached_content_token_count=50,
                tool_use_prompt_token_count=7,
            ),
            model_version="scripted-1",
            grounding_metadata=grounding,
        )


def scripted(script: Mapping[str, Steps]) -> Scripted:
    return Scripted(model="scripted", script=dict(script))


def look_up(city: str, tool_context: ToolContext) -> dict[str, str]:
    """Looks up the weather of a city."""
    weather = "sun" if city == "Oslo" else "rain"
    tool_context.state[f"seen_{city}"] = weather
    return {"city": city, "weather": weather}


def recall(tool_context: ToolContext) -> dict[str, Any]:
    """Recalls what was looked up: of the session's state."""
    seen = tool_context.state.to_dict()
    return {name: seen[name] for name in sorted(seen) if name.startswith("seen_")}


async def draw(title: str, tool_context: ToolContext) -> dict[str, str]:
    """Draws a picture, an artifact."""
    await tool_context.save_artifact("map.png", types.Part(inline_data=PICTURE))
    return {"title": title, "saved": "map.png"}


def order(item: str) -> dict[str, str]:
    """Orders something, which takes days."""
    return {"status": "pending", "item": item}


PICTURE = types.Blob(data=b"\xff\xfe\x00", mime_type="image/png")
LEAD: Mapping[str, Steps] = {
    "compare": {
        0: [text("I look both up."), call("look_up", city="Tromso"), call("look_up", city="Oslo")],
        2: [call("recall")],
        3: [text("Easy.", thought=True), text("Tromso has rain, Oslo has sun.")],
    },
    "ask": {0: [call("helper", request="Is there rain?")], 1: [text("The helper says: rain in Tromso.")]},
    "forecast": {0: [call("forecast", city="Tromso")], 1: [text("Rain is forecast for Tromso.")]},
    "draw": {0: [call("draw", title="Tromso")], 1: [types.Part(inline_data=PICTURE)]},
    "order": {0: [text("I order it."), call("order", item="map of Tromso")], 1: []},
    "report": {0: [call("transfer_to_agent", agent_name="desk")]},
    "transfer": {0: [call("transfer_to_agent", agent_name="specialist")]},
}
LOOKS_UP = {0: [text("Looking."), call("look_up", city="Bergen")], 1: [text("Notes: Tromso and Bergen have rain.")]}

server = StdioServerParameters(command=sys.executable, args=[str(Path(__file__).with_name("mcp_server.py"))])
helper = LlmAgent(
    name="helper",
    description="Helps.",
    model=scripted({"Is there rain?": {0: [call("look_up", city="Tromso")], 1: [text("Yes, in Tromso.")]}}),
    tools=[look_up],
)
desk = SequentialAgent(
    name="desk",
    description="Writes reports.",
    sub_agents=[
        LlmAgent(name="researcher", model=scripted({"report": LOOKS_UP}), tools=[look_up]),
        LlmAgent(
            name="writer",
            instruction="Write about {seen_Bergen} for {client?}.",
            model=scripted({"report": {0: [text("Report: rain in Tromso.")]}}),
        ),
    ],
)
specialist = LlmAgent(
    name="specialist",
    description="Knows more.",
    model=scripted({"transfer": LOOKS_UP, "again": {0: [text("Still the specialist of Tromso.")]}}),
    tools=[look_up],
)
root_agent = LlmAgent(
    name="lead",
    instruction="Lead the newsroom of {client?}.",
    model=scripted(LEAD),
    tools=[
        *(look_up, recall, draw, AgentTool(agent=helper), LongRunningFunctionTool(order)),
        McpToolset(connection_params=StdioConnectionParams(server_params=server, timeout=30)),
    ],
    sub_agents=[desk, specialist],
)
