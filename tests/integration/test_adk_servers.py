"""Whose fault it is that a server of the agent's tools fails: MCP (both transports, both versions of `mcp`), OpenAPI.

The addresses are this machine's. `0.0.0.0` is none of its loopback, so that what listens there is no part of the job.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import host_forks
import pytest
from adk_envs import REFERENCE, adk_python, packages_python
from adk_harness import running, say
from golden_files import check
from loopback import Answer, Request, loopback

from agent_eval_agents.protocol import AgentFailure
from agent_eval_scoring.core.content import text_of

pytestmark = pytest.mark.slow  # Requests that nobody answers take four seconds.
STATUSES = ("400", "401", "403", "404", "408", "425", "429", "500", "502", "503", "529")
BROKEN = ("reset", "hang", "cut-json", "cut-stream")
ANSWERS = ("ok", "tool-error", "rpc-error", "rpc-error-with-400", "not-mcp")
_TOOL = {
    "name": "echo",
    "description": "Repeats.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
}

_CARD = {
    "name": "remote", "description": "Repeats.", "version": "1", "protocolVersion": "0.3.0", "capabilities": {},
    "skills": [], "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
}  # fmt: skip
_INTERFACE = {"protocolBinding": "JSONRPC", "protocolVersion": "1.0"}


def _reply(body: dict[str, Any], how: str) -> dict[str, Any]:
    """The answer of a server that works; `how` it answers the call of a tool."""
    results: dict[str, Any] = {
        "initialize": {
            "protocolVersion": body.get("params", {}).get("protocolVersion", ""),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "echo", "version": "1"},
        },
        "tools/list": {"tools": [_TOOL]},
        "tools/call": {"content": [{"type": "text", "text": "hi"}], "isError": how == "tool-error"},
    }
    answer = {"jsonrpc": "2.0", "id": body["id"]}
    if body["method"] not in results or (body["method"] == "tools/call" and how.startswith("rpc-error")):
        # The code is also one that clients make themselves when a connection is lost.
        return {**answer, "error": {"code": -32000, "message": "The scale is not calibrated"}}
    return {**answer, "result": results[body["method"]]}


async def _respond(answer: Answer, how: str, value: dict[str, Any]) -> None:
    if how.isdigit():
        await answer.send(int(how), b"busy", content_type="text/plain")
    elif how == "reset":
        answer.reset()
    elif how == "hang":
        await asyncio.sleep(60)
    elif how == "cut-json":
        await answer.head(200, content_type="application/json", content_length="500")
        await answer.raw(b'{"jsonrpc": "2.0", "res')
    elif how == "cut-stream":
        await answer.head(200, content_type="text/event-stream")
        await answer.raw(b"event: message\ndata: {")
    elif how == "not-mcp":
        await answer.send(200, b"<h1>Welcome</h1>", content_type="text/html")
    else:
        await answer.json(value, 400 if how.endswith("-400") else 200)


@asynccontextmanager
async def servers() -> AsyncIterator[tuple[str, int]]:
    """Servers by path: `/http/call/503` and `/sse/list/reset` are of MCP, and fail when they are asked so.

    And the port of one that does not know TLS.
    """
    streams: dict[str, asyncio.Queue[str]] = {}

    async def handle(request: Request, answer: Answer) -> None:
        kind, when, how, *session = request.target.split("?")[0].strip("/").split("/")
        if kind == "rest":
            await _respond(answer, how, {"text": "hi"})
            return
        if kind == "a2a":
            url = f"https://{request.headers['host']}/a2a/{when}/{how}"
            card = {**_CARD, "url": url, "supportedInterfaces": [{**_INTERFACE, "url": url}]}
            is_card = request.method == "GET"
            value = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "It broke"}}
            await _respond(answer, how if is_card == (when == "card") else "ok", card if is_card else value)
            return
        if kind == "sse" and request.method == "GET":
            if when == "list":
                await _respond(answer, how, {})
                return
            name = str(len(streams))
            queue = streams[name] = asyncio.Queue()
            await answer.head(200, content_type="text/event-stream")
            await answer.raw(f"event: endpoint\ndata: {request.target}/{name}\n\n".encode())
            while event := await queue.get():
                await answer.raw(f"event: message\ndata: {event}\n\n".encode())
            return
        body = request.json if request.method == "POST" else {}
        if "id" not in body:
            await answer.send({"POST": 202, "GET": 405}.get(request.method, 200), b"")
            return
        value, fails = _reply(body, how), when == "list" or body["method"] == "tools/call"
        if not session:
            await _respond(answer, how if fails else "ok", value)
        elif not fails or how in {"ok", "tool-error", "rpc-error"}:
            await answer.send(202, b"")
            await streams[session[0]].put(json.dumps(value))
        elif how == "cut-stream":
            await answer.send(202, b"")
            await streams[session[0]].put("")
        else:
            await _respond(answer, how, value)

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async with loopback(handle) as server, await asyncio.start_server(refuse, "127.0.0.1") as plain:
        yield server.url, plain.sockets[0].getsockname()[1]


def _cells(url: str, plain: int) -> dict[str, str]:
    """What is asked, by its name in the golden file."""
    elsewhere = url.replace("127.0.0.1", "0.0.0.0")
    cells = {}
    for kind in ("http", "sse"):
        for how in (*STATUSES, *BROKEN):
            if (kind, how) != ("sse", "cut-json"):
                cells[f"{kind} list {how}"] = f"{kind} {elsewhere}/{kind}/list/{how}"
                cells[f"{kind} call {how}"] = f"{kind} {elsewhere}/{kind}/call/{how}"
        for how in ANSWERS if kind == "http" else ("ok", "tool-error", "rpc-error"):
            cells[f"{kind} call {how}"] = f"{kind} {elsewhere}/{kind}/call/{how}"
        cells[f"{kind} refused"] = f"{kind} http://0.0.0.0:9/{kind}"
        cells[f"{kind} unknown host"] = f"{kind} http://nowhere.invalid/{kind}"
        cells[f"{kind} no TLS"] = f"{kind} https://0.0.0.0:{plain}/{kind}"
        cells[f"{kind} of the job, list 503"] = f"{kind} {url}/{kind}/list/503"
        cells[f"{kind} of the job, call 503"] = f"{kind} {url}/{kind}/call/503"
    return cells


def _rest_cells(url: str) -> dict[str, str]:
    elsewhere = url.replace("127.0.0.1", "0.0.0.0")
    cells = {f"rest {how}": f"rest {elsewhere}/rest/call/{how}" for how in (*STATUSES, "reset", "cut-json", "ok")}
    cells["rest refused"] = "rest http://0.0.0.0:9/rest/call/ok"
    cells["rest of the job, 503"] = f"rest {url}/rest/call/503"
    return cells


def _a2a_cells(url: str) -> dict[str, str]:
    elsewhere = url.replace("http://127.0.0.1", "https://0.0.0.0")
    hows = (*STATUSES, "reset", "hang", "cut-json", "ok")
    cells = {f"a2a {when} {how}": f"a2a {elsewhere}/a2a/{when}/{how}" for when in ("card", "send") for how in hows}
    cells["a2a refused"] = "a2a https://0.0.0.0:9/card"
    return {**cells, "a2a of the job, 503": f"a2a {url}/a2a/send/503"}


async def _outcome(agent: Any, text: str) -> str:
    try:
        said = text_of((await say(agent, text, timeout=20)).final_response)
    except AgentFailure as error:
        return f"{error.owner}: {error.kind}: " + re.sub(r":\d{4,}", ":PORT", error.message)
    if not said:
        return "no answer"
    return "answered: " + (
        "no tool"
        if said == "no tool"
        else "with its result"
        if "'isError': False" in said or "'text': 'hi'}" in said
        else "with an error"
    )


async def _outcomes(agent: Any, cells: dict[str, str]) -> str:
    shown = []
    names = list(cells)
    for first in range(0, len(names), 20):  # at the same time: no request counts for another one's call
        part = names[first : first + 20]
        said = await asyncio.gather(*(_outcome(agent, cells[name]) for name in part))
        shown += [f"{name}: {outcome}" for name, outcome in zip(part, said, strict=True)]
    return "\n".join(shown) + "\n"


@pytest.mark.parametrize("mcp", ["1.30.0", "2.3.0"])
async def test_servers__of_mcp(mcp: str, tmp_path: Path) -> None:
    python = packages_python(f"adk-{REFERENCE}-mcp-{mcp}", f"google-adk=={REFERENCE}", f"mcp=={mcp}")
    async with servers() as (url, plain), running("servers", tmp_path / "logs", python=python) as agent:
        check(f"golden_servers/mcp-{mcp[0]}.txt", await _outcomes(agent, _cells(url, plain)))


@pytest.mark.parametrize("version", ["1.18.0", REFERENCE])
async def test_servers__of_openapi_tools(version: str, tmp_path: Path) -> None:
    python = host_forks.command(adk_python(version))
    async with servers() as (url, _), running("servers", tmp_path / "logs", python=python) as agent:
        check(f"golden_servers/openapi-{version}.txt", await _outcomes(agent, _rest_cells(url)))


async def test_servers__of_remote_agents(tmp_path: Path) -> None:
    python = packages_python(f"adk-{REFERENCE}-crossing", f"google-adk[a2a]=={REFERENCE}", "mcp<2")
    async with servers() as (url, _), running("servers", tmp_path / "logs", python=python) as agent:
        check("golden_servers/a2a.txt", await _outcomes(agent, _a2a_cells(url)))
