"""One conversation: each turn is a task in the same context, or continues the task that waits for the user."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from typing import Any

from pydantic import ValidationError

from agent_eval.agents.a2a import _rpc
from agent_eval.agents.a2a._dialect import FINISHED, INTERRUPTED, Json
from agent_eval.agents.a2a._server import A2aServer
from agent_eval.agents.a2a._task import TaskReader, responds, write_parts
from agent_eval.agents.adk.events import MalformedEvent, to_invocation
from agent_eval.agents.http import MAX_EVENT, HttpFailure, Stream, TooLarge, failures, read_json, stream_with_retries
from agent_eval.agents.messages import TurnFacts
from agent_eval.agents.protocol import AgentFailure, FailureKind, SessionRequest
from agent_eval.core.content import Content
from agent_eval.core.invocation import Invocation
from agent_eval.core.text import first_line

_POLL_SECONDS = 2.0
_CANCEL_SECONDS = 5.0


class A2aSession:
    """Implements `protocol.Session`."""

    def __init__(self, server: A2aServer, request: SessionRequest) -> None:
        """For A2aAgent.open."""
        self._server = server
        self._request = request
        self._context_id: str | None = None
        self._waiting: TaskReader | None = None
        """The last turn, if its task waits for the user."""
        self._artifacts: dict[str, str] = {}
        """Those of that task."""
        self._unavailable: AgentFailure | None = None
        """Why the task that is polled can't be read at the moment."""

    @property
    def shows_tool_calls(self) -> bool:
        """Whether the server is known to show them; see docs/remote-agents.md."""
        return self._server.shows_calls

    async def send(self, content: Content, *, timeout: float) -> Invocation:
        """Sends a turn; see `agents.protocol.Session.send`."""
        started_at, begun = time.time(), time.perf_counter()
        until = asyncio.get_running_loop().time() + timeout
        message, reader = self._message(content)
        try:
            async with asyncio.timeout_at(until):
                await self._exchange(message, reader, until)
        except TimeoutError:
            await self._cancel(reader)
            raise self._unavailable or failures.too_late(timeout, _unfinished(reader)) from None
        except asyncio.CancelledError:
            self._server.in_background(self._cancel(reader))
            raise
        except RecursionError as error:
            raise _rpc.unreadable("it is nested too deeply") from error
        self._context_id = reader.context_id or self._context_id
        self._artifacts |= reader.artifacts
        self._waiting = reader if reader.state in INTERRUPTED else None
        self._server.note(reader)
        if reader.state in FINISHED - {"completed"}:
            raise _failed(reader)
        return _invocation(reader, content, TurnFacts(started_at=started_at, duration=time.perf_counter() - begun))

    def _message(self, content: Content) -> tuple[dict[str, Any], TaskReader]:
        """The params of the request, and the reader of its results."""
        card, waiting = self._server.card, self._waiting
        parts = write_parts(content, card.dialect)
        # A plain message does not answer ADK's newer executor. As in a host, it is a new turn of the conversation.
        if waiting is not None and waiting.wants_tool_response and waiting.has_open_calls and not responds(parts):
            waiting = None
        task_id = waiting.task_id if waiting is not None else None
        if task_id is None:
            self._artifacts = {}
        message_id = uuid.uuid4().hex
        reader = TaskReader(card.dialect, card.name, message_id, continues=None if task_id is None else self._artifacts)
        reader.task_id, reader.context_id = task_id, self._context_id
        message = card.dialect.message(parts, message_id=message_id, context_id=self._context_id, task_id=task_id)
        return message, reader

    async def _exchange(self, message: Json, reader: TaskReader, until: float) -> None:
        """Sends the message and reads until the turn has ended."""
        server = self._server
        streaming = server.streams
        try:
            await self._ask(message, reader, until, streaming=streaming)
        except _rpc.RpcError as error:
            if not (streaming and error.code in _rpc.NO_SUCH_METHOD and not reader.state):
                raise _rpc.failure(error) from error
            # The card promises streaming, and the server has none.
            server.streams = False
            try:
                await self._ask(message, reader, until, streaming=False)
            except _rpc.RpcError as other:
                raise _rpc.failure(other) from other
        except HttpFailure as error:
            if not reader.state or reader.task_id is None:
                raise await server.lost(error) from error
        if not reader.ended:
            reader.cut_short = True
            await self._poll(reader)

    async def _ask(self, message: Json, reader: TaskReader, until: float, *, streaming: bool) -> None:
        """Sends the message once and reads the answer.

        Raises:
            RpcError: The server answers with an error of JSON-RPC.
            HttpFailure: The connection broke.
        """
        dialect = self._server.card.dialect
        body = dialect.request(dialect.stream if streaming else dialect.send, message)
        accept = "text/event-stream" if streaming else "application/json"
        async with stream_with_retries(
            self._server.client,
            self._server.card.url,
            body=body,
            headers={**dialect.headers, "Accept": accept},
            until=until,
            place=self._request.place,
            limiter=self._server.limiter,
        ) as stream:
            try:
                await self._read(stream, reader)
            except TooLarge as error:
                raise _rpc.unreadable(str(error)) from error

    async def _read(self, stream: Stream, reader: TaskReader) -> None:
        if not stream.is_event_stream:
            reply = await stream.reply()
            self._server.admitted(reply)
            _take(_rpc.result_of(reply, self._server.process), reader)
            return
        if stream.status != 200:
            raise failures.unexpected_status(await stream.reply(), self._server.process)
        size = 0
        async for event in stream.events():
            size += len(event.data)
            if size > MAX_EVENT:
                raise _rpc.unreadable(f"it is larger than {MAX_EVENT / 1_000_000:g} MB")
            try:
                answer = read_json(event.data)
            except ValueError:
                raise _rpc.unreadable(f"an event is not JSON: {first_line(event.data, 200)}") from None
            _take(_rpc.result_in(answer), reader)
            if reader.ended:
                return

    async def _poll(self, reader: TaskReader) -> None:
        """Asks for the task until the turn has ended. The caller limits the time."""
        if reader.task_id is None:
            raise await self._server.lost(HttpFailure("the answer ended before the task had", reason="broken"))
        dialect = self._server.card.dialect
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            try:
                snapshot = await self._server.call(dialect.get_task, reader.task_id)
            except AgentFailure as failure:
                if failure.kind is not FailureKind.SERVER:
                    raise
                self._unavailable = failure
                continue
            self._unavailable = None
            reader.restart()
            _take(snapshot, reader)
            if reader.ended:
                return

    async def _cancel(self, reader: TaskReader) -> None:
        """Asks the server to stop a task. Best effort: it may be unable to."""
        if reader.task_id is None or reader.ended:
            return
        with contextlib.suppress(AgentFailure, TimeoutError):
            async with asyncio.timeout(_CANCEL_SECONDS):
                await self._server.call(self._server.card.dialect.cancel_task, reader.task_id)

    async def close(self) -> None:
        """Does nothing: A2A can't delete a conversation."""


def _take(result: Any, reader: TaskReader) -> None:
    if not reader.take(result):
        raise _rpc.unreadable(f"a result is neither a task nor a message: {first_line(repr(result), 200)}")


def _invocation(reader: TaskReader, content: Content, facts: TurnFacts) -> Invocation:
    events = reader.events()
    if not events:
        raise AgentFailure(
            f"The agent's server ended the task ({reader.state}) without an answer.",
            kind=FailureKind.NO_ANSWER,
            hint="The task has neither an artifact nor a message of the agent. See the server's log.",
        )
    try:
        return to_invocation(events, content, facts)
    except (MalformedEvent, ValidationError) as error:
        raise _rpc.unreadable(str(error)) from error


def _unfinished(reader: TaskReader) -> str:
    """What happened to a turn without an end: a server whose agent raises often breaks off, and leaves the task."""
    if not reader.cut_short:
        return ""
    return (
        f"The server's answer had ended before, while the task was `{first_line(reader.state, 50)}`, and so it stayed."
    )


def _failed(reader: TaskReader) -> AgentFailure:
    """The failure of a task that was not completed."""
    text, code = reader.failure
    if reader.state == "failed":
        return failures.agent_error(text, names=(code,) if code else (), by_words=not code)
    said = f": {first_line(text, 500).rstrip('.')}" if text else ""
    return AgentFailure(
        f"The agent's server {reader.state} the task{said}.",
        kind=FailureKind.EXCEPTION,
        hint="The server decides this; see its log." if reader.state == "canceled" else None,
    )
