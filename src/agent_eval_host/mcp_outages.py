"""MCP servers over HTTP that fail. ADK goes on without their tools, and the answers would be held against the agent."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from agent_eval_host.errors import causes, http_status
from agent_eval_host.model_errors import address_of, cause_of, is_transport
from agent_eval_host.turns import Turn, current_turn
from agent_eval_host.values import LONGEST_MESSAGE, cut

_REQUESTS = (("mcp_toolset", "McpToolset", "get_tools"), ("mcp_tool", "McpTool", "_run_async_impl"))
"""Modules, classes and methods of ADK that ask an MCP server."""
_TIMED_OUT = 408
"""The code of an error that the client of MCP makes itself, when a server doesn't answer."""
_TEMPORARY = frozenset({401, 403, 408, 425, 429})


def watch() -> None:
    """Makes turns record which servers fail. Call it when the agent has been loaded."""
    for module, name, method in _REQUESTS:
        cls = getattr(sys.modules.get(f"google.adk.tools.mcp_tool.{module}"), name, None)
        if cls is not None and method in vars(cls):
            setattr(cls, method, _watched(vars(cls)[method]))


def lost(turn: Turn) -> tuple[str, str] | None:
    """The code and the message of a turn in which servers were lost: its answers say nothing about the agent."""
    if not turn.lost_servers:
        return None
    reasons = {server: why for (server, _), why in turn.lost_servers.items()}
    servers = ", ".join(f"{server} ({why})" for server, why in reasons.items())
    return "server-unavailable", f"The agent's MCP server did not answer: {servers}."


def _watched(body: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(body)
    async def ask(asking: Any, *args: Any, **options: Any) -> Any:
        turn, server = current_turn(), _server_of(asking)
        if not server:
            return await body(asking, *args, **options)
        # Another call that is answered, maybe at the same time, does not make up for this one.
        request = server, f"{getattr(asking, 'name', '')} {options.get('args')}"
        turn.asking_servers[request] = time.monotonic()
        try:
            result = await body(asking, *args, **options)
        except Exception as error:
            if (why := _outage(error)) is not None:
                turn.lost_servers[request] = why
            raise
        else:
            turn.lost_servers.pop(request, None)
            return result
        finally:
            turn.asking_servers.pop(request, None)

    return ask


def _server_of(asking: Any) -> str:
    """The server's address; "" if it is a program of the repository, or runs on this machine as a part of the job."""
    manager = getattr(asking, "_mcp_session_manager", None)
    url = getattr(getattr(manager, "_connection_params", None), "url", None)
    if not isinstance(url, str):
        return ""
    host = urlsplit(url).hostname
    if not host or host in ("localhost", "::1") or host.startswith("127."):
        return ""
    return address_of(url)


def _outage(error: Exception) -> str | None:
    """Why a server could not be asked; None if it has answered, or was asked for something that it does not know."""
    chain = list(causes(error))
    for cause in chain:
        status = http_status(cause)
        code = getattr(getattr(cause, "error", None), "code", None)
        if status is not None:
            return f"HTTP {status}" if status in _TEMPORARY or status >= 500 else None
        if code is not None:
            return "no answer in time" if code == _TIMED_OUT else None
    failures = [cause for cause in chain if is_transport(cause)]
    return cut(cause_of(failures[-1]), LONGEST_MESSAGE) if failures else None
