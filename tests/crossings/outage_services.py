"""The services of a run, servers that work until their outage: models, a remote agent, an MCP server."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import re
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from fake_adk import FakeAdk, event
from fake_gemini import Answer as ModelAnswer
from fake_gemini import FakeGemini, Fault, GenerateRequest
from judged_gate import MORE, Judge
from loopback import Answer, Request, loopback

Fails = int | Literal["reset", "gone", "hang", "cut-json", "empty"]
WRONG = "Lyon."
"""What the agent answers in the cases that it gets wrong; the judge is against it."""
SLOW = 1.0
"""Seconds of an answer that is slow, and within every limit but that of the MCP server's connection."""
_MIX: tuple[Fails | None, ...] = (429, 429, 429, 503, "reset", None, None, None, None, None)
"""Of ten requests, three are answered with 429 and one with 503, and one is dropped."""
_FAILS: Mapping[str, Fails] = {
    "refused": "gone", "dead proxy": "gone", "hang": "hang", "cut JSON": "cut-json", "{}": "empty"
}  # fmt: skip


@dataclass(kw_only=True)
class Outage:
    """When a service fails, and how."""

    kind: str
    begins: Literal["at once", "when a case runs again", "on base"]
    begun: bool = False
    _asked: Counter[str] = field(default_factory=Counter)
    _failed: int = 0

    def of(self, said: str, *, on_base: bool = False) -> Fails | None:
        """What a request gets instead of an answer; None for its answer.

        Args:
            said: What it says; `Say the word X.` once in each run of a case, or else it begins no outage.
            on_base: Whether it belongs to the base branch's agent.
        """
        word = re.search(r"Say the word (\w+)", said)
        if word is not None:
            self._asked[word[1]] += 1
            self.begun |= self.begins == "when a case runs again" and self._asked[word[1]] > 1
        if not (self.begun or self.begins == "at once" or on_base) or self.kind in {"latency", "DNS"}:
            return None
        if self.kind == "mix":
            self._failed += 1
            return _MIX[self._failed % len(_MIX)]
        return _FAILS.get(self.kind) or int(self.kind)

    @property
    def latency(self) -> float | None:
        """Seconds before each answer."""
        return SLOW if self.kind == "latency" else None


@contextlib.contextmanager
def model(outage: Outage | None, *, judges: bool = False, users: bool = False) -> Iterator[str]:
    """A Gemini: the agent's, which repeats what it is told, that of judges, or that of simulated users and a judge."""
    judge = Judge()

    def script(request: GenerateRequest) -> ModelAnswer | Fault:
        said = request.user_texts[-1]
        judged = "responseJsonSchema" in request.body["generationConfig"] if users else False
        asked = "" if judged or (users and MORE in said) else said
        spared = judged and outage is not None and outage.kind == "mix"  # Calls of one user come one after another.
        fails = outage.of(asked, on_base="(base)" in said) if outage and not spared else None
        if fails is not None:
            return Fault(kind=fails, retry_after=0 if isinstance(fails, int) else None)
        wrong = "(wrong)" in request.instruction and "worse" in said
        answer = judge(request) if judges or users else ModelAnswer.text(WRONG if wrong else said)
        return dataclasses.replace(answer, latency=outage.latency if outage else None)

    with FakeGemini(script) as server:
        yield server.url


@contextlib.contextmanager
def closed() -> Iterator[str]:
    """An address at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    yield f"http://127.0.0.1:{port}"


class Remote:
    """An agent behind ADK's REST interface, which repeats what it is told."""

    def __init__(self, outage: Outage | None, *, wrong: bool, cases: int) -> None:
        self._outage = outage
        self._wrong = wrong
        self._cases = cases
        self._fake = FakeAdk(turn=self._turn)
        self._sessions = 0

    async def handle(self, request: Request, answer: Answer, gone: Callable[[], None]) -> None:
        if request.method == "POST" and self._outage:
            runs = request.target == "/run_sse"
            self._sessions += not runs
            fails = self._outage.of("" if runs else f"Say the word session{self._sessions % self._cases}.")
            if fails is not None:
                await fail(fails, answer, gone, stream=runs)
                return
            await asyncio.sleep(self._outage.latency or 0)
        await self._fake.handle(request, answer)

    async def _turn(self, request: Request, answer: Answer) -> None:
        said = request.json["newMessage"]["parts"][0]["text"]
        await answer.events(event(WRONG if self._wrong and "worse" in said else said))


class Mcp:
    """An MCP server over HTTP (Streamable HTTP, answers in JSON), with one tool."""

    def __init__(self, outage: Outage | None) -> None:
        self._outage = outage
        self._listed = 0

    async def handle(self, request: Request, answer: Answer, gone: Callable[[], None]) -> None:
        if request.method != "POST":
            await answer.send(405 if request.method == "GET" else 200, b"")
            return
        body = request.json
        method = body["method"]
        if self._outage:
            fails = self._outage.of(str(body["params"]["arguments"]) if method == "tools/call" else "")
            if fails is not None:
                await fail(fails, answer, gone)
                return
            await asyncio.sleep(self._outage.latency or 0)
        if "id" not in body:
            await answer.send(202, b"")
            return
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": body.get("params", {}).get("protocolVersion", ""),
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "echo", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "echo", "inputSchema": _ECHO, "description": "Repeats a text."}]},
        }
        if method == "tools/call":
            text = body["params"]["arguments"]["text"]
            results[method] = {"content": [{"type": "text", "text": text}]}
        await answer.json({"jsonrpc": "2.0", "id": body["id"], "result": results.get(method, {})})


_ECHO = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


async def fail(fails: Fails, answer: Answer, gone: Callable[[], None], *, stream: bool = False) -> None:
    """Fails a request; of a stream, the half of an event is all that comes."""
    if fails == "gone":
        gone()
        answer.reset()
    elif fails == "reset":
        answer.reset()
    elif fails == "hang":
        await answer.closed()
    elif fails == "cut-json" and stream:
        await answer.events('data: {"author": "wea')
    elif isinstance(fails, int):
        await answer.send(fails, b"", retry_after="0")
    else:
        await answer.send(
            200, b"{}" if fails == "empty" else b'{"jsonrpc": "2.0", "res', content_type="application/json"
        )


@contextlib.contextmanager
def serving(service: Remote | Mcp) -> Iterator[str]:
    """Runs a service in a thread of its own, on all addresses of this machine; also as an HTTP proxy to itself."""
    begun, url = threading.Event(), ""
    loop = asyncio.new_event_loop()
    ended = asyncio.Event()

    async def serve() -> None:
        nonlocal url

        async def handle(request: Request, answer: Answer) -> None:
            target = urlsplit(request.target)
            inner = dataclasses.replace(request, target=target.path)
            await service.handle(inner, answer, server.stop)

        async with loopback(handle) as server:
            url = server.url
            begun.set()
            await ended.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    assert begun.wait(10)
    try:
        yield url
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(10)
        loop.close()
