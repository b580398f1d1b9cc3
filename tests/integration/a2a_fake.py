"""A scripted A2A server on loopback, in both dialects."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from loopback import Answer, Request, loopback

from agent_eval_agents.a2a._dialect import V03, V1, Dialect

Json = dict[str, Any]
Step = Any
"""What a method answers: a result; `Error`; a list of results, sent as a stream; a callable that writes the answer."""
CONTEXT = "context-1"


@dataclass(frozen=True, kw_only=True)
class Error:
    code: int
    message: str = "it failed"


@dataclass(frozen=True, kw_only=True)
class Words:
    """Objects of one dialect."""

    dialect: Dialect

    def card(self, url: str, **more: Any) -> Json:
        common = {"name": "fake", "version": "7", "capabilities": {"streaming": True}, "skills": []}
        if self.dialect is V1:
            interface = {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
            return {**common, "supportedInterfaces": [interface], **more}
        return {**common, "url": url, "protocolVersion": "0.3.0", "preferredTransport": "JSONRPC", **more}

    def state(self, name: str) -> str:
        return f"TASK_STATE_{name.upper().replace('-', '_')}" if self.dialect is V1 else name

    def message(self, *parts: Any, role: str = "agent", **more: Any) -> Json:
        roles = {"agent": "ROLE_AGENT", "user": "ROLE_USER"}
        body = {
            "role": roles[role] if self.dialect is V1 else role,
            "messageId": "m",
            "parts": [self.part(part) for part in parts],
            **more,
        }
        return body if self.dialect is V1 else {"kind": "message", **body}

    def part(self, part: Any) -> Json:
        """A text, or an object with `data` and `metadata`."""
        content = {"text": part} if isinstance(part, str) else dict(part)
        return content if self.dialect is V1 else {"kind": "text" if "text" in content else "data", **content}

    def task(self, state: str, message: Json | None = None, *, task_id: str = "task-1", **more: Any) -> Json:
        status = {"state": self.state(state)} | ({} if message is None else {"message": message})
        return self.wrap("task", {"id": task_id, "contextId": CONTEXT, "status": status, **more})

    def bare_task(self, state: str, **more: Any) -> Json:
        """What GetTask answers: a task without a wrapper."""
        wrapped = self.task(state, **more)
        unwrapped: Json = wrapped.get("task", wrapped)
        return unwrapped

    def status(self, state: str, message: Json | None = None, **more: Any) -> Json:
        status = {"state": self.state(state)} | ({} if message is None else {"message": message})
        return self.wrap("statusUpdate", {"taskId": "task-1", "contextId": CONTEXT, "status": status, **more})

    def artifact(self, *parts: Any, artifact_id: str = "a", append: bool = False, **more: Any) -> Json:
        artifact = {"artifactId": artifact_id, "parts": [self.part(part) for part in parts], **more}
        return self.wrap(
            "artifactUpdate", {"taskId": "task-1", "contextId": CONTEXT, "artifact": artifact, "append": append}
        )

    def artifacts(self, *parts: Any, artifact_id: str = "a") -> list[Json]:
        return [{"artifactId": artifact_id, "parts": [self.part(part) for part in parts]}]

    def answer(self, *parts: Any) -> Json:
        """A message instead of a task."""
        return self.wrap("message", self.message(*parts, contextId=CONTEXT))

    def wrap(self, key: str, value: Json) -> Json:
        kind = {"statusUpdate": "status-update", "artifactUpdate": "artifact-update"}.get(key, key)
        return {key: value} if self.dialect is V1 else {"kind": kind, **value}


@dataclass(kw_only=True)
class FakeA2a:
    words: Words
    url: str = ""
    card: Any = None
    """None: the dialect's own."""
    script: dict[str, list[Step]] = field(default_factory=dict)
    """What each method answers, one after another; the last one stays. Methods by 1.0's names."""
    calls: list[tuple[str, Json]] = field(default_factory=list)
    """Methods, by 1.0's names, and params."""
    headers: list[dict[str, str]] = field(default_factory=list)

    async def handle(self, request: Request, answer: Answer) -> None:
        if request.method == "GET":
            if request.target != "/.well-known/agent-card.json":
                await answer.send(404, b"not found")
            elif callable(self.card):
                await self.card(answer)
            else:
                await answer.json(self.card or self.words.card(self.url))
            return
        dialect = self.words.dialect
        names = {dialect.send: V1.send, dialect.stream: V1.stream, dialect.get_task: V1.get_task}
        names[dialect.cancel_task] = V1.cancel_task
        method = names.get(request.json["method"], request.json["method"])
        self.calls.append((method, request.json["params"]))
        self.headers.append(request.headers)
        steps = self.script.get(method) or [Error(code=-32601, message="Method not found")]
        step = steps.pop(0) if len(steps) > 1 else steps[0]
        await self._answer(step, answer)

    async def _answer(self, step: Step, answer: Answer) -> None:
        if callable(step):
            await step(answer)
        elif isinstance(step, list):
            await answer.events(*(self._reply(each) for each in step))
        else:
            await answer.json(self._reply(step))

    def _reply(self, step: Step) -> Any:
        if isinstance(step, str):
            return step
        if isinstance(step, Error):
            return {"jsonrpc": "2.0", "id": "1", "error": {"code": step.code, "message": step.message}}
        if "OURS" in (text := json.dumps(step)):  # the last message's id
            step = json.loads(text.replace("OURS", self.messages()[-1]["messageId"]))
        return {"jsonrpc": "2.0", "id": "1", "result": step}

    def messages(self) -> list[Json]:
        """The messages that were sent."""
        return [params["message"] for method, params in self.calls if method in {V1.send, V1.stream}]


WORDS = {"1.0": Words(dialect=V1), "0.3": Words(dialect=V03)}
Writer = Callable[[Answer], Awaitable[None]]


def status_code(code: int, body: str = "", **headers: str) -> Writer:
    async def write(answer: Answer) -> None:
        await answer.send(code, body.encode(), **headers)

    return write


def hangs(*events: Any) -> Writer:
    """Sends some events, then nothing until the client closes the connection."""

    async def write(answer: Answer) -> None:
        await answer.events(*({"jsonrpc": "2.0", "id": "1", "result": event} for event in events))
        await answer.closed()

    return write


def breaks(*events: Any) -> Writer:
    """Sends some events, then resets the connection."""

    async def write(answer: Answer) -> None:
        await answer.events(*({"jsonrpc": "2.0", "id": "1", "result": event} for event in events))
        await asyncio.sleep(0.05)
        answer.reset()

    return write


@asynccontextmanager
async def fake_a2a(words: Words, **script: list[Step]) -> AsyncIterator[FakeA2a]:
    """A running server with a script."""
    fake = FakeA2a(words=words, script=script)
    async with loopback(fake.handle) as server:
        fake.url = server.url
        yield fake
