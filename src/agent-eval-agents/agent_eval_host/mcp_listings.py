"""The tools of MCP servers: observed, or made of recorded declarations."""

from __future__ import annotations

import contextvars
import functools
import importlib
from collections.abc import Callable
from typing import Any

from agent_eval_host.values import text_of

server_answers: contextvars.ContextVar[list[Any] | None] = contextvars.ContextVar("agent_eval_listing", default=None)
"""Gets what an MCP server answers while ADK asks for its tools."""


def observe_listings(session: Any) -> None:
    """Copies what MCP servers answer to ADK's requests for their tools."""
    body = session.list_tools

    @functools.wraps(body)
    async def list_tools(*args: Any, **options: Any) -> Any:
        result = await body(*args, **options)
        answers = server_answers.get()
        if answers is not None:
            answers.append([tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in result.tools])
        return result

    session.list_tools = list_tools


class _RecordedServer:
    """Stands for the connections to an MCP server, and for a connection: all it can do is to list tools."""

    def __init__(self, declarations: list[Any]) -> None:
        self._declarations = declarations

    async def create_session(self, **_: Any) -> _RecordedServer:
        return self

    async def list_tools(self) -> Any:
        types = importlib.import_module("mcp.types")
        return types.ListToolsResult(tools=[types.Tool.model_validate(tool) for tool in self._declarations])

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") or name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None  # ADK's bookkeeping of its connections


async def declared_tools(toolset: Any, run: Callable[..., Any], declarations: list[Any]) -> Any:
    """The tools that ADK makes of recorded declarations, with the filters and options of the toolset.

    Only a call that runs connects to the server; a provider of headers may need credentials, too.
    """
    server = _RecordedServer(declarations)
    double = object.__new__(type(toolset))
    vars(double).update(vars(toolset), _mcp_session_manager=server, _header_provider=None)
    vars(double)["_tool_list_cache_ttl_seconds"] = None
    tools = await run(double)
    for tool in tools:
        if getattr(tool, "_mcp_session_manager", None) is server:
            tool._mcp_session_manager = toolset._mcp_session_manager
            tool._header_provider = getattr(toolset, "_header_provider", None)
    return tools


def place_of(toolset: Any, context: Any) -> str:
    """Names a toolset: its agent, and its number among the toolsets of the agent."""
    agent = getattr(getattr(context, "_invocation_context", None), "agent", None)
    toolsets = [each for each in getattr(agent, "tools", ()) if hasattr(each, "get_tools")]
    number = next((number for number, each in enumerate(toolsets, 1) if each is toolset), 0)
    return f"{text_of(getattr(agent, 'name', ''))}/{number}"
