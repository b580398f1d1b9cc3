"""An agent whose tools call a server that counts; the user's words choose what it calls."""

from __future__ import annotations

import os
import sys
import urllib.request
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.loop_agent import LoopAgent
from google.adk.agents.parallel_agent import ParallelAgent
from google.adk.apps.app import App
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from scripted_model import call, reply, scripted, text


class NoRooms(Exception):
    """An exception of the agent, whose arguments are not its message."""

    def __init__(self, hotel: str, *, nights: int) -> None:
        super().__init__(f"{hotel} has no room for {nights} nights")


def ask_server(path: str) -> str:
    """The server's answer: a number that counts its requests."""
    with urllib.request.urlopen(f"{os.environ['COUNTER_URL']}/{path}", timeout=10) as answer:
        return str(answer.read().decode())


def book(room: str, tool_context: ToolContext, nights: int = 1) -> dict[str, Any]:
    """Books a room."""
    number = ask_server("book")
    tool_context.state["booked"] = [*tool_context.state.get("booked", []), room]
    return {"room": room, "nights": nights, "booking": number}


def booked(tool_context: ToolContext) -> list[str]:
    """Lists the booked rooms: of the session's state."""
    ask_server("booked")
    return list(tool_context.state.get("booked", []))


def broken(how: str) -> str:
    """Raises."""
    ask_server("broken")
    if how == "own":
        raise NoRooms("Ritz", nights=3)
    raise ValueError(f"broken: {how}")


def stop(tool_context: ToolContext) -> dict[str, str]:
    """Ends the loop."""
    ask_server("stop")
    tool_context.actions.escalate = True
    return {"stopped": "yes"}


def form(tool_context: ToolContext) -> dict[str, str]:
    """Shows a form."""
    ask_server("form")
    tool_context.actions.skip_summarization = True
    return {"form": "shown"}


def hand_over(tool_context: ToolContext) -> dict[str, str]:
    """Hands over to the colleague."""
    ask_server("hand_over")
    tool_context.actions.transfer_to_agent = "colleague"
    return {"handed": "over"}


def raw() -> bytes:
    """An answer that JSON can't carry."""
    ask_server("raw")
    return b"\x00\xff"


def leak(key: str) -> dict[str, str]:
    """Gives secrets away."""
    return {"value": os.environ["JOB_SECRET"], "within": f"a {os.environ['JOB_SECRET']} b", "token": "abc"}


def pay(amount: int) -> dict[str, int]:
    """Needs a confirmation first."""
    ask_server("pay")
    return {"paid": amount}


def guard(tool: Any, args: dict[str, Any], tool_context: Any) -> dict[str, Any] | None:
    """The agent's own guard: one room is never booked."""
    print(f"guard {tool.name}", flush=True)
    return {"refused": args["room"]} if args.get("room") == "forbidden" else None


def mark(tool: Any, args: dict[str, Any], tool_context: Any, tool_response: Any) -> dict[str, Any] | None:
    """The agent's own change of an answer."""
    print(f"after {tool.name}", flush=True)
    return (
        {**tool_response, "checked": True} if isinstance(tool_response, dict) and "booking" in tool_response else None
    )


def comfort(tool: Any, args: dict[str, Any], tool_context: Any, error: Exception) -> dict[str, Any] | None:
    """The agent's own answer for an error."""
    print(f"error {type(error).__module__}.{type(error).__name__} {error}", flush=True)
    return None if "really" in str(error) else {"sorry": str(error), "kind": type(error).__name__}


class Priced:
    """A mixin, which ADK's classes know nothing of."""

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:
        return {"price": ask_server("price"), "room": args["room"]}


class Price(Priced, BaseTool):  # type: ignore[misc]
    """A tool with a class of its own, one object for all sessions."""

    def __init__(self) -> None:
        super().__init__(name="price", description="The price of a room.")

    def _get_declaration(self) -> types.FunctionDeclaration:
        room = types.Schema(type=types.Type.STRING)
        parameters = types.Schema(type=types.Type.OBJECT, properties={"room": room})
        return types.FunctionDeclaration(name=self.name, description=self.description, parameters=parameters)


CALLS: dict[str, list[list[types.Part]]] = {
    "book": [[call("book", room="blue")], [call("booked")]],
    "twice": [[call("book", room="blue")], [call("book", room="blue", nights=2)], [call("book", room="blue")]],
    "parallel": [[call("book", room="a"), call("book", room="b"), call("book", room="a")], [call("booked")]],
    "forbidden": [[call("book", room="forbidden")]],
    "broken": [[call("broken", how="lock")], [call("broken", how="own")]],
    "really broken": [[call("broken", how="really")]],
    "form": [[call("form")]],
    "hand over": [[call("hand_over")]],
    "price": [[call("price", room="red")]],
    "missing": [[call("book")]],
    "leak": [[call("leak", key=os.environ.get("JOB_SECRET", ""))]],
    "raw": [[call("raw")]],
    "pay": [[call("pay", amount=3)]],
    "mcp": [[call("load_memory", city="Oslo")]],
}


def script(said: str, count: int, request: Any) -> Any:
    """The calls of the user's word, step by step."""
    steps, done = CALLS.get(said, []), 0
    for step in steps:
        if done == count:
            return reply(*step)
        done += len(step)
    return reply(text(f"Done: {said}."))


def mcp_tools() -> list[Any]:
    from google.adk.tools.mcp_tool import McpToolset
    from google.adk.tools.mcp_tool.mcp_session_manager import StdioConnectionParams
    from mcp import StdioServerParameters

    server = StdioServerParameters(
        command=os.environ.get("MCP_COMMAND", sys.executable),
        args=[str(Path(__file__).with_name("mcp_server.py"))],
        env={"COUNTER_URL": os.environ["COUNTER_URL"]},
    )
    connection = StdioConnectionParams(server_params=server, timeout=30)
    return [McpToolset(connection_params=connection, tool_filter=["load_memory"])]


clerk = LlmAgent(
    name="clerk",
    model=scripted(script),
    instruction="Book rooms.",
    tools=[
        *(book, booked, broken, form, hand_over, leak, raw, Price()),
        FunctionTool(pay, require_confirmation=True),
        *mcp_tools(),
    ],
    before_tool_callback=guard,
    after_tool_callback=mark,
    on_tool_error_callback=comfort,
    sub_agents=[LlmAgent(name="colleague", model=scripted(lambda *_: reply(text("The colleague speaks."))))],
)


def once(name: str, args: dict[str, Any], answer: str) -> Any:
    """Calls one tool, then answers."""
    return scripted(lambda said, count, request: reply(text(answer)) if count else reply(call(name, **args)))


def desk(name: str, room: str) -> LlmAgent:
    return LlmAgent(name=name, model=once("book", {"room": room}, f"{name} booked."), tools=[book])


options = {"include_plugins": False} if "include_plugins" in AgentTool.__init__.__annotations__ else {}
office = LlmAgent(
    name="office",
    model=once("helper", {"request": "book"}, "The helper booked."),
    tools=[AgentTool(agent=desk("helper", "green"), **options)],
)
loop = LoopAgent(
    name="loop", sub_agents=[LlmAgent(name="looper", model=once("stop", {}, "never"), tools=[stop])], max_iterations=3
)
both = ParallelAgent(name="both", sub_agents=[desk("left", "left"), desk("right", "right")])
CHOICES = {"office": office, "loop": loop, "both": both}


class Router(BaseAgent):  # type: ignore[misc]
    async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Any, None]:
        said = "".join(part.text or "" for part in ctx.user_content.parts)
        async for event in CHOICES.get(said, clerk).run_async(ctx):
            yield event


class Audit(BasePlugin):  # type: ignore[misc]
    """A plugin of the app."""

    async def before_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any) -> None:
        print(f"audit {tool.name}", flush=True)


root_agent = Router(name="router", sub_agents=[clerk, office, loop, both])
app = App(name="toolbox", root_agent=root_agent, plugins=[Audit(name="audit")])
