"""Servers that ADK's own tools and agents ask, and that fail: of MCP over HTTP, of OpenAPI tools, of remote agents.

ADK goes on without what they would have said, and the answers would be held against the agent.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agent_eval_host import exchanges as requests
from agent_eval_host.errors import causes, http_status
from agent_eval_host.exchanges import Exchange, Exchanges, address_of, is_loopback
from agent_eval_host.model_errors import cause_of, is_transport
from agent_eval_host.tool_sources import server_of
from agent_eval_host.turns import AskedServer, Turn, current_turn
from agent_eval_host.values import LONGEST_MESSAGE, cut, text_of

_REQUESTS = (
    ("tools.mcp_tool.mcp_toolset", "McpToolset", "get_tools"),
    ("tools.mcp_tool.mcp_tool", "McpTool", "_run_async_impl"),
    ("tools.openapi_tool.openapi_spec_parser.rest_api_tool", "RestApiTool", "call"),
    ("agents.remote_a2a_agent", "RemoteA2aAgent", "_run_async_impl"),
)
"""Modules, classes and methods of ADK that ask a server."""
_LATE = "no answer in time"
_NO_ANSWER = {408: _LATE, -32_001: _LATE, -32_000: "connection closed without an answer"}
"""Codes of errors that the clients of MCP make themselves, if the server has not sent them."""
_LONGEST_NAME = 200
_MOST_SENT = 100
"""Requests of a session that are remembered."""
_TEMPORARY = frozenset({401, 403, 408, 425, 429})


def watch() -> None:
    """Makes turns record which servers fail. Call it when the agent has been loaded."""
    requests.watch()
    toolset = importlib.import_module("google.adk.tools.base_toolset").BaseToolset
    toolset.get_tools_with_prefix = _reporting(toolset.get_tools_with_prefix)
    for module, name, method in _REQUESTS:
        cls = getattr(sys.modules.get(f"google.adk.{module}"), name, None)
        if cls is not None and method in vars(cls):
            wrapped = _watched_stream if name == "RemoteA2aAgent" else _watched
            setattr(cls, method, wrapped(vars(cls)[method]))


def _reporting(body: Callable[..., Any]) -> Callable[..., Any]:
    """Records which toolsets have raised: ADK logs it, and goes on without their tools."""

    @functools.wraps(body)
    async def get_tools_with_prefix(toolset: Any, context: Any = None) -> Any:
        try:
            return await body(toolset, context)
        except Exception as error:
            agent, name = text_of(getattr(context, "agent_name", "")), _name_of(toolset)
            current_turn().lost_toolsets[agent, name] = error
            raise

    return get_tools_with_prefix


def _name_of(toolset: Any) -> str:
    """The class of a toolset; of MCP also the program, or the address."""
    known = dict(server_of(toolset))
    place = known.get("server.command") or known.get("server.url") or ""
    words = [place if "://" not in place else address_of(place), *(known.get(f"server.args[{n}]") for n in range(2))]
    # Without directories: those of the base branch's agent are others, and all are long.
    names = (Path(word).name if Path(word).is_absolute() else word for word in map(str, filter(None, words)))
    server = " ".join(names)
    return cut(f"{type(toolset).__name__} ({server})" if server else type(toolset).__name__, _LONGEST_NAME)


def lost(turn: Turn) -> tuple[str, str] | None:
    """The code and the message of a turn in which servers were lost: its answers say nothing about the agent."""
    if not turn.lost_servers:
        return None
    kinds = {asked.kind for asked, _ in turn.lost_servers.values()}
    reasons = {asked.address: why for asked, why in turn.lost_servers.values()}
    servers = ", ".join(f"{server} ({why})" for server, why in reasons.items())
    kind = kinds.pop() if len(kinds) == 1 else "server"
    return "server-unavailable", f"The agent's {kind} did not answer: {servers}."


@contextlib.contextmanager
def _asking(
    turn: Turn, request: tuple[str, str], asked: AskedServer, sent: Callable[[], list[Exchange]] = list
) -> Iterator[None]:
    """Records whether a request is answered; `sent` gets what was sent for it in an older session."""
    # Another call that is answered, maybe at the same time, does not make up for this one.
    turn.asking_servers[request] = asked
    why = None
    try:
        yield
    except Exception as error:
        exchanges = [*sent(), *filter(None, [asked.exchanges.last])]
        failed = (each for each in reversed(exchanges) if each.failed)
        why = _outage(error, next(failed, exchanges[-1] if exchanges else None))
        raise
    else:
        # ADK's MCP tools raise what goes wrong. Its other tools and agents make an answer of it.
        last = asked.exchanges.last
        why = _failure(last) if last is not None and last.failed and not asked.server else None
    finally:
        del turn.asking_servers[request]
        if why is not None and asked.address:
            turn.lost_servers[request] = asked, why
        elif sys.exc_info()[0] is None:
            turn.lost_servers.pop(request, None)


def _watched(body: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(body)
    async def ask(asking: Any, *args: Any, **options: Any) -> Any:
        manager = getattr(asking, "_mcp_session_manager", None)
        server = _server_of(asking)
        if manager is not None and not server:
            return await body(asking, *args, **options)
        session = None if manager is None else vars(manager).setdefault("_agent_eval_session", deque(maxlen=_MOST_SENT))
        asked = AskedServer("server" if manager is None else "MCP server", Exchanges(session), server)
        request = server, f"{getattr(asking, 'name', '')} {options.get('args')}"

        def sent() -> list[Exchange]:
            later = (each for each in session or () if each.began >= asked.began)
            return [each for each in later if _is_for(each, asking, options)]

        token = requests.log.set(asked.exchanges)
        try:
            with _asking(current_turn(), request, asked, sent):
                return await body(asking, *args, **options)
        finally:
            requests.log.reset(token)

    return ask


def _is_for(exchange: Exchange, asking: Any, options: dict[str, Any]) -> bool:
    """Whether a request of MCP is the one of a toolset for its tools, or of a tool."""
    if (tool := getattr(asking, "_mcp_tool", None)) is None:
        return exchange.message.get("method") == "tools/list"
    params = exchange.message.get("params") or {}
    return params.get("name") == tool.name and (params.get("arguments") or {}) == (options.get("args") or {})


def _watched_stream(body: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(body)
    async def ask(agent: Any, *args: Any, **options: Any) -> Any:
        asked, outer = AskedServer("server", Exchanges(), ""), requests.log.get()
        async with contextlib.aclosing(body(agent, *args, **options)) as events:
            with _asking(current_turn(), (agent.name, ""), asked):
                while True:
                    requests.log.set(asked.exchanges)
                    try:
                        event = await anext(events, None)
                    finally:  # What gets the events makes requests of its own.
                        requests.log.set(outer)
                    if event is None:
                        break
                    yield event

    return ask


def _server_of(asking: Any) -> str:
    """The address of an MCP server; "" if it is a program of the repository, or runs here as a part of the job."""
    manager = getattr(asking, "_mcp_session_manager", None)
    url = getattr(getattr(manager, "_connection_params", None), "url", None)
    if not isinstance(url, str):
        return ""
    return "" if is_loopback(urlsplit(url).hostname or "") else address_of(url)


def _failure(exchange: Exchange) -> str | None:
    """Why a request has no answer; None if the server does not know, or does not like, what it was asked for."""
    if exchange.error is not None:
        return _cause(exchange.error) if is_transport(exchange.error) else None
    return _of_status(exchange.status or 0)


def _of_status(status: int) -> str | None:
    return f"HTTP {status}" if status in _TEMPORARY or status >= 500 else None


def _cause(error: BaseException) -> str:
    why = cause_of(error)
    return _LATE if why.partition(":")[0] in ("TimeoutError", "ReadTimeout") else cut(why, LONGEST_MESSAGE)


def _outage(error: Exception, exchange: Exchange | None = None) -> str | None:
    """Why a server could not be asked; None if it has answered, or was asked for something that it does not know.

    Args:
        error: What the request raised.
        exchange: What was sent, and what came back; None if that is unknown.
    """
    if exchange is not None and exchange.failed:
        return _failure(exchange)
    chain = list(causes(error))
    for cause in chain:
        status = http_status(cause)
        code = getattr(getattr(cause, "error", None), "code", None)
        if status is not None:
            return _of_status(status)
        if code is not None:
            return None if exchange is not None and exchange.is_refused else _NO_ANSWER.get(code)
    failures = [cause for cause in chain if is_transport(cause)]
    return _cause(failures[-1]) if failures else None
