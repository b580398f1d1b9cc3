"""Asks the server that a message names, with the class of ADK that it names: `http URL`, or `http URL TOOL`."""

from __future__ import annotations

import functools
import importlib
from collections.abc import AsyncGenerator
from typing import Any

import httpx
from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from scripted_model import call, reply, scripted, text


def _imported(module: str) -> Any:
    """A module of ADK's, if the packages that it needs are installed."""
    try:
        return importlib.import_module(f"google.adk.{module}")
    except ImportError:
        return None


MCP = _imported("tools.mcp_tool.mcp_session_manager")
TOOLSET = _imported("tools.mcp_tool.mcp_toolset")
OPENAPI = _imported("tools.openapi_tool.openapi_spec_parser.openapi_toolset")
A2A = _imported("agents.remote_a2a_agent")


def _script(tool: str, said: str, count: int, request: Any) -> Any:
    """Calls the tool if it is offered, and says what came."""
    if count:
        return reply(text(f"got {request.contents[-1].parts[0].function_response.response}"))
    return reply(call(tool, text="hi")) if tool in request.tools_dict else reply(text("no tool"))


def _asking(tool: str, toolset: Any) -> Any:
    return LlmAgent(name="asking", model=scripted(functools.partial(_script, tool)), tools=[toolset])


def _mcp(parameters: Any, tool: str) -> Any:
    return _asking(tool, TOOLSET.McpToolset(connection_params=parameters))


def _stdio(command: str, tool: str = "echo") -> Any:
    program, *args = command.split(",")
    server = importlib.import_module("mcp").StdioServerParameters(command=program, args=args)
    return _mcp(MCP.StdioConnectionParams(server_params=server, timeout=15), tool)


def _http(url: str, tool: str = "echo") -> Any:
    return _mcp(MCP.StreamableHTTPConnectionParams(url=url, timeout=4, sse_read_timeout=4), tool)


def _sse(url: str, tool: str = "echo") -> Any:
    return _mcp(MCP.SseConnectionParams(url=url, timeout=4, sse_read_timeout=4), tool)


def _rest(url: str) -> Any:
    server, _, path = url.rpartition("/rest")
    operation = {
        "operationId": "echo",
        "parameters": [{"name": "text", "in": "query", "schema": {"type": "string"}}],
        "responses": {"200": {"description": "The text."}},
    }
    spec = {
        "openapi": "3.0.0",
        "info": {"title": "echo", "version": "1"},
        "servers": [{"url": server}],
        "paths": {f"/rest{path}": {"get": operation}},
    }
    more = {"allow_private_network_access": True}
    try:
        toolset = OPENAPI.OpenAPIToolset(spec_dict=spec, **more)
    except TypeError:  # before ADK refuses such addresses
        toolset = OPENAPI.OpenAPIToolset(spec_dict=spec)
    return _asking("echo", toolset)


class _WithoutTls(httpx.AsyncHTTPTransport):
    """ADK wants TLS for every remote agent that is not on loopback; the server has none."""

    async def handle_async_request(self, request: Any) -> Any:
        request.url = request.url.copy_with(scheme="http")
        return await super().handle_async_request(request)


def _a2a(url: str) -> Any:
    client = httpx.AsyncClient(transport=_WithoutTls(), timeout=4)
    return A2A.RemoteA2aAgent(name="remote", agent_card=url, httpx_client=client)


_KINDS = {"stdio": _stdio, "http": _http, "sse": _sse, "rest": _rest, "a2a": _a2a}


class Asking(BaseAgent):  # type: ignore[misc]
    async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Any, None]:
        kind, *place = ctx.user_content.parts[0].text.split()
        async for event in _KINDS[kind](*place).run_async(ctx):
            yield event


root_agent = Asking(name="root")
