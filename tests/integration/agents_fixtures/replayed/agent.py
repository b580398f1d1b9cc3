"""An agent that asks its tool about two rooms. tests/crossings/test_replay_crossing.py writes its constants."""

import sys
from pathlib import Path

from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.sequential_agent import SequentialAgent
from google.adk.tools.agent_tool import AgentTool
from scripted_model import call, reply, scripted, text

from . import tools  # noqa: F401
from .tools import *  # noqa: F403

WHERE = "the agent"
ROOMS = ["hall", "kitchen"]
INSTRUCTION = "The lamp is {lamp?}."


def blocks(tool, args, tool_context):
    return {"now": "off"}


def renames(tool, args, tool_context):
    args["room"] = "attic"


def changes(tool, args, tool_context, tool_response):
    return {"now": "off"}


BEFORE = AFTER = None


def mcp(script, value, **options):
    from google.adk.tools.mcp_tool import McpToolset
    from google.adk.tools.mcp_tool.mcp_session_manager import StdioConnectionParams
    from mcp import StdioServerParameters

    file = str(Path(__file__).with_name(script))
    server = StdioServerParameters(command=sys.executable, args=["-S", file, value], **options)
    return McpToolset(connection_params=StdioConnectionParams(server_params=server, timeout=30))


def talk(said, count, request):
    """Calls the tool for each room, and finds the lamp off if an answer or the state says so."""
    if count < len(ROOMS):
        return reply(call("switch", room=ROOMS[count]))
    parts = [part for content in request.contents for part in content.parts or []]
    answers = [part.function_response.response for part in parts if part.function_response]
    is_off = "off" in str(answers) or "lamp is off" in str(request.config.system_instruction)
    return reply(text("It is off." if is_off or "error" in str(answers) else "It is on."))


def once(name, **args):
    return scripted(lambda said, count, request: reply(text("It is on.")) if count else reply(call(name, **args)))


def relay(said, count, request):
    """Says what the agent below its tool said."""
    if not count:
        return reply(call("desk", request="switch"))
    return reply(text("It is on." if "It is on" in str(request.contents[-1]) else "It is off."))


def desk(tool, name="desk"):
    return LlmAgent(
        name=name,
        description="Switches lamps.",
        model=scripted(talk),
        instruction=INSTRUCTION,
        tools=[tool],
        before_tool_callback=BEFORE,
        after_tool_callback=AFTER,
    )


def create(tool, healthy):
    """The agent whose desk has the tool; `healthy` is for a second agent, whose tool has the same name."""
    if WHERE == "AgentTool":
        return LlmAgent(name="front", model=scripted(relay), tools=[AgentTool(agent=desk(tool))])
    if WHERE == "sub-agent":
        return LlmAgent(name="front", model=once("transfer_to_agent", agent_name="desk"), sub_agents=[desk(tool)])
    if WHERE == "second of a sequence":
        return SequentialAgent(name="front", sub_agents=[desk(healthy, "first"), desk(tool)])
    return desk(tool)
