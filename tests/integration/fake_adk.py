"""A fake of ADK's REST servers: one app, sessions in memory, and each language's peculiarities."""

from __future__ import annotations

import asyncio
import contextlib
import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from adk_harness import started
from loopback import Answer, Request, loopback

from agent_eval_agents.adk_rest.agent import AdkRestAgent
from agent_eval_agents.driver import AgentSpec, DriverContext, RemoteOptions
from agent_eval_agents.http.failures import ServerProcess
from agent_eval_agents.sandbox import Sandbox
from agent_eval_scoring.core.limiter import Limiter
from agent_eval_scoring.core.masking import Masker

Turn = Callable[[Request, Answer], Awaitable[None]]
_SESSIONS = re.compile(r"/apps/weather/users/([^/]+)/sessions")
RUN_FIELDS = {"appName", "userId", "sessionId", "newMessage", "streaming", "stateDelta"}


def event(text: str = "", **more: Any) -> dict[str, Any]:
    content = {"content": {"role": "model", "parts": [{"text": text}]}} if text else {}
    return {"id": uuid.uuid4().hex, "invocationId": "i-1", "author": "weather", "actions": {}, **content, **more}


def parts(*members: dict[str, Any], **more: Any) -> dict[str, Any]:
    return event(content={"role": "model", "parts": list(members)}, **more)


CALL = {"functionCall": {"id": "c1", "name": "look_up", "args": {"city": "Oslo"}}}
RESPONSE = {"functionResponse": {"id": "c1", "name": "look_up", "response": {"degrees": 3}}}


@dataclass(kw_only=True)
class FakeAdk:
    """What the server does. Each language is a set of deviations from Python's."""

    turn: Turn
    prefix: str = ""
    apps: list[str] = field(default_factory=lambda: ["weather"])
    version: dict[str, str] | None = None
    ignores_state: bool = False
    strict: bool = False
    """Refuses unknown fields, as Go does."""
    apps_answer: Turn | None = None
    session_answer: Turn | None = None
    read_answer: Turn | None = None
    sessions: dict[str, dict[str, Any]] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    url: str = ""

    async def handle(self, request: Request, answer: Answer) -> None:
        if not request.target.startswith(f"{self.prefix}/"):
            await answer.send(404, b"404 page not found")
            return
        path = request.target.removeprefix(self.prefix)
        if path == "/list-apps":
            await (self.apps_answer(request, answer) if self.apps_answer else answer.json(self.apps))
        elif path == "/version" and self.version is not None:
            await answer.json(self.version)
        elif _SESSIONS.fullmatch(path):
            await (self.session_answer or self.create_session)(request, answer)
        elif match := re.fullmatch(r"/apps/weather/users/([^/]+)/sessions/(\w+)", path):
            assert self.sessions[match[2]]["userId"] == match[1]
            if request.method == "GET":
                await (self.read_answer(request, answer) if self.read_answer else answer.json(self.sessions[match[2]]))
                return
            assert request.method == "DELETE"
            self.deleted.append(match[2])
            await answer.json(None)
        elif path == "/run_sse":
            body = request.json
            if self.strict and not body.keys() <= RUN_FIELDS:
                await answer.send(400, b"json: unknown field")
            elif body["sessionId"] not in self.sessions:
                await answer.json({"detail": "Session not found"}, 404)
            else:
                assert body["streaming"] is False and body["newMessage"]["role"] == "user"
                await self.turn(request, answer)
        else:
            await answer.send(404, b"not here")

    async def create_session(self, request: Request, answer: Answer) -> None:
        assert request.json.keys() <= {"state"}
        match = _SESSIONS.fullmatch(request.target.removeprefix(self.prefix))
        assert match is not None
        state = {} if self.ignores_state else request.json["state"]
        name = f"s{len(self.sessions) + 1}"
        self.sessions[name] = {"id": name, "appName": "weather", "userId": match[1], "state": state}
        await answer.json(self.sessions[name])


def context(directory: Path, **remote: Any) -> DriverContext:
    return DriverContext(
        root=directory,
        python=None,
        requirements=None,
        interpreter=None,
        setup=None,
        installer={},
        sandbox=Sandbox(environment={}),
        masker=Masker(["s3cret-token"]),
        workers=1,
        cache_dir=directory,
        log_dir=directory,
        log=lambda _: None,
        limiter=Limiter(8),
        turn_timeout=60,
        remote=RemoteOptions(**remote),
    )


def agent_spec(source: str, context: DriverContext) -> AgentSpec:
    return AgentSpec(source=source, directory=None, working_directory=context.root, context=context)


@contextlib.asynccontextmanager
async def served(fake: FakeAdk) -> AsyncIterator[FakeAdk]:
    async with loopback(fake.handle) as server:
        fake.url = f"{server.url}{fake.prefix}"
        yield fake


@contextlib.asynccontextmanager
async def agent_of(
    fake: FakeAdk, directory: Path, *, app: str = "", process: ServerProcess | None = None, **remote: Any
) -> AsyncIterator[AdkRestAgent]:
    """A started agent of a running fake."""
    async with served(fake):
        agent = AdkRestAgent(agent_spec(f"{fake.url}#{app}", context(directory, **remote)), server=process)
        async with started(agent):
            yield agent


async def hang(request: Request, answer: Answer) -> None:
    await asyncio.sleep(600)
