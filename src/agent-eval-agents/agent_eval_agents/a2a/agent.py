"""An agent behind A2A: its card, what its sessions share, and its sessions.

Each turn is a task in the same context, or continues the task that waits for the user.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Coroutine, Mapping
from typing import Any

from pydantic import ValidationError

from agent_eval_agents.a2a._dialect import (
    CARD_PATHS,
    FINISHED,
    INTERRUPTED,
    NO_SUCH_METHOD,
    AgentCard,
    BadCard,
    Json,
    RpcError,
    failure,
    read_card,
    result_in,
    result_of,
    unreadable,
)
from agent_eval_agents.a2a._task import TaskReader, responds, write_parts
from agent_eval_agents.adk.events import MalformedEvent, to_invocation
from agent_eval_agents.driver import AgentSpec
from agent_eval_agents.http import (
    MAX_EVENT,
    HttpClient,
    HttpFailure,
    Reply,
    Stream,
    TooLarge,
    failures,
    first_reply,
    origin_of,
    parse_url,
    stream_with_retries,
)
from agent_eval_agents.http.failures import ServerProcess
from agent_eval_agents.messages import TurnFacts
from agent_eval_agents.protocol import AgentFailure, AgentRefused, FailureKind, Session, SessionRequest
from agent_eval_scoring.core.content import Content
from agent_eval_scoring.core.invocation import Invocation
from agent_eval_scoring.core.problem import docs_page
from agent_eval_scoring.core.recording import Owner
from agent_eval_scoring.core.text import first_line
from agent_eval_scoring.net.retry import UNPROCESSED

_POLL_SECONDS = 2.0
_CANCEL_SECONDS = 5.0


class A2aAgent:
    """Implements `protocol.Agent`."""

    metrics: None = None
    """Custom metrics need the agent's code."""

    def __init__(self, spec: AgentSpec, *, process: ServerProcess | None = None) -> None:
        """Opens no connection yet.

        Args:
            spec: Its source is the server's URL: the one above the agent card.
            process: The server's process, if the gate started it. It never gets the workflow's headers.
        """
        context = spec.context
        self._url = parse_url(spec.source)
        self.client = HttpClient(
            self._url,
            headers=context.remote.headers if process is None else None,
            environ=context.remote.environ,
            masker=context.masker,
        )
        self._context = context
        self.limiter = context.limiter
        self.process = process
        self._card: AgentCard | None = None
        self._starting = asyncio.Lock()
        self.streams = False
        """Whether turns are sent as streams; False once a server has refused one."""
        self.shows_calls = False
        """Whether the server is known to show its agent's tool calls."""
        self._reached = False
        self._warned = False
        self._background: set[asyncio.Task[None]] = set()

    @property
    def card(self) -> AgentCard:
        """The agent card; `start` must have succeeded."""
        assert self._card is not None
        return self._card

    @property
    def provenance(self) -> Mapping[str, str]:
        """The server's URL, the agent's name and version, and the dialect."""
        facts = {"driver": "a2a", "url": self._url.base}
        if (card := self._card) is not None:
            facts |= {"agent": card.name, "version": card.version, "a2a": card.dialect.version}
        return {name: value for name, value in facts.items() if value}

    async def start(self) -> None:
        """Reads the agent card.

        Raises:
            AgentFailure: The server does not answer.
            AgentRefused: It refuses access, or has no usable card.
        """
        async with self._starting:
            if self._card is None:
                self._card = card = await self._read_card()
                self.streams, self.shows_calls = card.streaming, card.shows_calls

    async def _read_card(self) -> AgentCard:
        url = self._url.base
        for path in CARD_PATHS:
            try:
                reply = await first_reply(
                    self.client, path, server=self.process, secrets_withheld=self._context.remote.secrets_withheld
                )
            except TooLarge as error:
                raise failures.refused(f"The agent card of {url} can't be used: {error}.") from None
            # Servers before A2A 0.3 have the card at another path.
            if reply.status != 404:
                break
        else:
            raise failures.refused(
                f"The agent at {url} has no agent card at {CARD_PATHS[0]} (HTTP 404).",
                "Name the URL above the card, e.g. `a2a:http://127.0.0.1:8000/a2a/APP` for `adk api_server --a2a`.",
            )
        if reply.status != 200:
            raise failures.unexpected_status(reply, self.process)
        try:
            card = read_card(reply.json, self._url)
        except BadCard as error:
            is_html = reply.json is None and reply.text.lstrip().startswith("<")
            raise failures.refused(
                f"The agent at {url}{path} can't be used: {'it answers with HTML' if is_html else error}.",
                f"Name the URL above an agent card. ADK's REST interface is `adk:`. {docs_page('remote-agents')}",
            ) from None
        # A card may name any server: the workflow's credentials would be sent where it says.
        if self.client.has_headers and origin_of(card.url) != self._url.origin:
            raise failures.refused(
                f"The agent card of {url} sends requests to {origin_of(card.url)}, to which `agent-headers` do not go.",
                "Name that server in `agent`, or correct the URL in the agent card.",
            )
        return card

    async def open(self, request: SessionRequest) -> Session:
        """Opens a session. The server makes the conversation with the first message."""
        return A2aSession(self, request)

    def note(self, reader: TaskReader) -> None:
        """Takes in what a turn shows about the server."""
        self.shows_calls = self.shows_calls or reader.shows_calls
        if reader.lost_digits and not self._warned:
            self._warned = True
            self._context.log(
                f"[a2a-large-number] {first_line(self.card.name, 100)}: a number beyond 2^53 may have lost digits, "
                "because A2A 1.0 sends numbers as doubles. Pass such ids as strings."
            )

    def in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs something that a cancelled turn can't wait for. `close` waits for it."""
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def admitted(self, reply: Reply) -> None:
        """Checks the status of an answer.

        Raises:
            AgentFailure: The server has no capacity, or refuses access to a job without secrets.
            AgentRefused: The server has refused access from the beginning. Cards are often open to everyone.
        """
        if reply.status in UNPROCESSED:
            raise failures.overloaded(reply, 0.0, 1)
        refusal = failures.not_admitted(
            reply,
            self.card.url,
            has_headers=self.client.has_headers,
            secrets_withheld=self._context.remote.secrets_withheld,
        )
        if refusal is not None and not self._reached:
            raise refusal
        self._reached = True

    async def lost(self, error: HttpFailure) -> AgentFailure | AgentRefused:
        """The failure of a request without an answer."""
        # The card was there, but requests go to another address, which may be wrong.
        if not self._reached and error.reason != "broken":
            return failures.not_reached(error, f"{self.card.url} (from its agent card)", self.process)
        if self.process is not None:
            await self.process.settle()
        return failures.lost(error.message, self.process)

    async def call(self, method: str, task_id: str) -> Any:
        """Calls a method with a task's id.

        Raises:
            AgentFailure: The call failed.
        """
        dialect = self.card.dialect
        try:
            reply = await self.client.request(
                "POST", self.card.url, body=dialect.request(method, {"id": task_id}), headers=dialect.headers
            )
            self.admitted(reply)
            return result_of(reply, self.process)
        except HttpFailure as error:
            raise await self.lost(error) from error
        except TooLarge as error:
            raise unreadable(str(error)) from error
        except RpcError as error:
            raise failure(error) from error

    async def close(self) -> None:
        """Ends all connections. Never raises."""
        await asyncio.gather(*self._background, return_exceptions=True)
        await self.client.close()


class A2aSession:
    """Implements `protocol.Session`."""

    def __init__(self, agent: A2aAgent, request: SessionRequest) -> None:
        """For A2aAgent.open."""
        self._agent = agent
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
        return self._agent.shows_calls

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
            # Its own cancellation would end the request to cancel the task.
            self._agent.in_background(self._cancel(reader))
            raise
        except RecursionError as error:
            raise unreadable("it is nested too deeply") from error
        self._context_id = reader.context_id or self._context_id
        self._artifacts |= reader.artifacts
        self._waiting = reader if reader.state in INTERRUPTED else None
        self._agent.note(reader)
        if reader.state in FINISHED - {"completed"}:
            raise _failed(reader)
        return _invocation(reader, content, TurnFacts(started_at=started_at, duration=time.perf_counter() - begun))

    def _message(self, content: Content) -> tuple[dict[str, Any], TaskReader]:
        """The params of the request, and the reader of its results."""
        card, waiting = self._agent.card, self._waiting
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
        agent = self._agent
        streaming = agent.streams
        try:
            await self._ask(message, reader, until, streaming=streaming)
        except RpcError as error:
            # Once a result has come, the message was taken: sent again, the agent would do its work twice.
            if not (streaming and error.code in NO_SUCH_METHOD and not reader.state):
                raise failure(error) from error
            # The card promises streaming, and the server has none.
            agent.streams = False
            try:
                await self._ask(message, reader, until, streaming=False)
            except RpcError as other:
                raise failure(other) from other
        except HttpFailure as error:
            # With a task's id nothing is lost: the server goes on, and the task can be asked for.
            if not reader.state or reader.task_id is None:
                raise await agent.lost(error) from error
        if not reader.ended:
            reader.cut_short = True
            await self._poll(reader)
        elif streaming and reader.is_silent and reader.task_id is not None:
            # A stream may lack what the task has: fasta2a 2.1.1 leaves out artifacts that a worker only stores.
            try:
                snapshot = await agent.call(agent.card.dialect.get_task, reader.task_id)
            except AgentFailure as error:
                if error.owner is Owner.PROVIDER:  # Nobody knows what the task has.
                    raise
                return  # The server keeps no tasks: the stream's end is all that there is.
            reader.restart()
            _take(snapshot, reader)

    async def _ask(self, message: Json, reader: TaskReader, until: float, *, streaming: bool) -> None:
        """Sends the message once and reads the answer.

        Raises:
            RpcError: The server answers with an error of JSON-RPC.
            HttpFailure: The connection broke.
        """
        dialect = self._agent.card.dialect
        body = dialect.request(dialect.stream if streaming else dialect.send, message)
        accept = "text/event-stream" if streaming else "application/json"
        async with stream_with_retries(
            self._agent.client,
            self._agent.card.url,
            body=body,
            headers={**dialect.headers, "Accept": accept},
            until=until,
            place=self._request.place,
            limiter=self._agent.limiter,
        ) as stream:
            try:
                await self._read(stream, reader)
            except TooLarge as error:
                raise unreadable(str(error)) from error

    async def _read(self, stream: Stream, reader: TaskReader) -> None:
        if not stream.is_event_stream:
            reply = await stream.reply()
            self._agent.admitted(reply)
            _take(result_of(reply, self._agent.process), reader)
            return
        if stream.status != 200:
            raise failures.unexpected_status(await stream.reply(), self._agent.process)
        size = 0
        async for event in stream.events():
            # Each event is bounded, and a stream of them may be endless.
            size += len(event.data)
            if size > MAX_EVENT:
                raise unreadable(f"it is larger than {MAX_EVENT / 1_000_000:g} MB")
            if event.json is None:
                raise unreadable(f"an event is not JSON: {first_line(event.data, 200)}")
            _take(result_in(event.json), reader)
            if reader.ended:
                return

    async def _poll(self, reader: TaskReader) -> None:
        """Asks for the task until the turn has ended. The caller limits the time."""
        if reader.task_id is None:
            raise await self._agent.lost(HttpFailure("the answer ended before the task had", reason="broken"))
        dialect = self._agent.card.dialect
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            try:
                snapshot = await self._agent.call(dialect.get_task, reader.task_id)
            except AgentFailure as failure:
                # An outage in between may pass: the turn's time ends it, and then says what the last one was.
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
                await self._agent.call(self._agent.card.dialect.cancel_task, reader.task_id)

    async def close(self) -> None:
        """Does nothing: A2A can't delete a conversation."""


def _take(result: Any, reader: TaskReader) -> None:
    if not reader.take(result):
        raise unreadable(f"a result is neither a task nor a message: {first_line(repr(result), 200)}")


def _invocation(reader: TaskReader, content: Content, facts: TurnFacts) -> Invocation:
    events = reader.events()
    if not events:
        raise _without_answer(reader)
    try:
        invocation = to_invocation(events, content, facts)
    except (MalformedEvent, ValidationError) as error:
        raise unreadable(str(error)) from error
    if invocation.final_response is None and not reader.shows_calls:
        raise _without_answer(reader, invocation)
    return invocation


def _without_answer(reader: TaskReader, invocation: Invocation | None = None) -> AgentFailure:
    failure = AgentFailure(
        f"The agent's server ended the task ({reader.state}) without an answer.",
        kind=FailureKind.NO_ANSWER,
        hint="The task has neither an artifact nor a message at its end: what the agent says while it works is no "
        "answer. See the server's log.",
    )
    failure.unfinished = invocation
    return failure


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
        return failures.agent_error(text, names=(code,))
    said = f": {first_line(text, 500).rstrip('.')}" if text else ""
    return AgentFailure(
        f"The agent's server {reader.state} the task{said}.",
        kind=FailureKind.EXCEPTION,
        hint="The server decides this; see its log." if reader.state == "canceled" else None,
    )
