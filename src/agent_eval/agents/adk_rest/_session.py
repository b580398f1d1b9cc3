"""One conversation with an agent behind ADK's REST interface."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_eval.agents.adk.events import MalformedEvent, to_invocation
from agent_eval.agents.adk_rest._normalise import merged, normalised
from agent_eval.agents.http import HttpFailure, Stream, TooLarge, failures, read_json
from agent_eval.agents.messages import AgentRequest, TurnFacts
from agent_eval.agents.protocol import AgentFailure, AgentRefused, FailureKind, SessionRequest
from agent_eval.core.problem import Problem, Severity
from agent_eval.core.text import first_line, shorten

if TYPE_CHECKING:
    from agent_eval.agents.adk_rest._api import RestApi
    from agent_eval.core.content import Content
    from agent_eval.core.invocation import Invocation

_DELETE_SECONDS = 5.0
_UNSAVED = "temp:"
"""Prefix of state that ADK keeps for one turn only."""


@dataclass(kw_only=True)
class RestApp:
    """One app of a server, as its sessions need it."""

    api: RestApi
    name: str
    server: failures.ServerProcess | None
    """The server's process, if the gate started it."""
    requests: Sequence[AgentRequest]
    """Instructions and tools of the app's agents; empty if the server does not say them."""
    explains_exceptions: bool
    """Whether the server says when a turn ended with an exception. Java's and Kotlin's just end the stream."""
    keeps_sessions: bool
    """Whether sessions stay on the server."""
    secrets_withheld: bool
    """See `RemoteOptions`."""
    admitted: bool = False
    """Whether the server has created a session: then its headers were right, and may have expired."""

    def log_tail(self) -> str | None:
        """The last lines of the server's log, if it is ours."""
        return self.server.log_tail() if self.server is not None else None


class RestSession:
    """Implements `protocol.Session`."""

    def __init__(self, app: RestApp, request: SessionRequest, user: str) -> None:
        """Called by `AdkRestAgent.open`."""
        self._app = app
        self._request = request
        self._user = user
        self._id: str | None = None
        self._turns = 0
        self._closed = False

    @property
    def shows_tool_calls(self) -> bool:
        """True: events hold them."""
        return True

    async def send(self, content: Content, *, timeout: float) -> Invocation:
        """Sends a turn; see `agents.protocol.Session.send`. Cancelling closes the connection, which ends the turn."""
        started_at, begun = time.time(), time.monotonic()
        try:
            async with asyncio.timeout(timeout):
                until = asyncio.get_running_loop().time() + timeout
                if self._id is None:
                    self._id = await self._create(until)
                events = await self._run(content, until)
        except TimeoutError:
            why = f"there was no answer within {timeout:g} s"
            late = failures.no_session(why, self._app.server) if self._id is None else None
            raise late or failures.too_late(timeout) from None
        except HttpFailure as error:
            if self._app.server is not None:
                await self._app.server.settle()
            raise failures.lost(error.message, self._app.server) from error
        except TooLarge as error:
            raise _unreadable(str(error)) from error
        self._turns += 1
        facts = TurnFacts(started_at=started_at, duration=time.monotonic() - begun, requests=list(self._app.requests))
        return self._invocation(events, content, facts)

    async def _create(self, until: float) -> str:
        app, state = self._app, dict(self._request.state)
        async with app.api.create_session(
            app.name, self._user, state, until=until, place=self._request.place
        ) as stream:
            reply = await stream.reply()
        client = app.api.client
        refused = failures.not_admitted(
            reply, client.url.base, has_headers=client.has_headers, secrets_withheld=app.secrets_withheld
        )
        if refused is not None and not app.admitted:  # The list of apps is open on some servers.
            raise refused
        if reply.status == 404 and "/" in self._user:
            raise _not_in_a_path(client.url.base, self._user)
        if not 200 <= reply.status < 300:
            raise failures.unexpected_status(reply, app.server, "when a session was created")
        app.admitted = True
        session = reply.json()
        if not isinstance(session, dict) or not isinstance(session.get("id"), str):
            what = "a new session without an id"
            raise failures.no_session(f"it sent {what}", app.server) or _unreadable(what)
        echo = _without_nulls(session.get("state") or {})
        kept = {key: value for key, value in _without_nulls(state).items() if not key.startswith(_UNSAVED)}
        ignored = [key for key, value in kept.items() if not isinstance(echo, dict) or echo.get(key) != value]
        if ignored:
            raise _state_ignored(client.url.base, ignored, self._request.case_id)
        return str(session["id"])

    async def _run(self, content: Content, until: float) -> list[dict[str, Any]]:
        assert self._id is not None
        app = self._app
        async with app.api.run(
            app.name, self._user, self._id, content, until=until, place=self._request.place
        ) as stream:
            if stream.status == 404 and self._turns:
                raise AgentFailure(
                    "The agent's server lost the session between two turns (HTTP 404).",
                    kind=FailureKind.CRASH,
                    log_tail=app.log_tail(),
                    hint="Does it have several instances without a shared session service? Or was it restarted?",
                )
            if stream.status != 200:
                raise failures.unexpected_status(await stream.reply(), app.server)
            return await self._events(stream)

    async def _events(self, stream: Stream) -> list[dict[str, Any]]:
        raw: list[dict[str, Any]] = []
        if stream.is_event_stream:
            async for line in stream.events():
                if line.data:
                    self._take(_object(line.data), raw, is_error=line.event == "error")
        else:  # a proxy that collects the events
            reply = await stream.reply()
            answer = reply.json()
            for event in answer if isinstance(answer, list) else [answer]:
                if not isinstance(event, dict):
                    raise _unreadable(f"neither events nor a JSON list of them: {shorten(reply.text, 200)}")
                self._take(event, raw)
        return merged(raw)

    def _take(self, line: Mapping[str, Any], events: list[dict[str, Any]], *, is_error: bool = False) -> None:
        """Adds an event.

        Raises:
            AgentFailure: The line is the error that ended the turn.
        """
        if is_error or ("error" in line and "author" not in line):
            raise self._reported(line, events)
        if "author" not in line and "content" not in line:
            # Not even an empty event: without this, a proxy's error page in JSON would be an answer without calls.
            text = json.dumps(line, ensure_ascii=False)
            raise _unreadable(f"an event with neither an author nor content: {shorten(text, 200)}")
        events.append(normalised(line))

    def _reported(self, line: Mapping[str, Any], events: list[dict[str, Any]]) -> AgentFailure:
        details = line.get("error_details")
        details = details if isinstance(details, Mapping) else {}
        error = line.get("error", line.get("message", ""))
        message = str(details.get("error_message") or (error if isinstance(error, str) else json.dumps(error)))
        last = events[-1] if events else {}
        code = "" if last.get("content") else last.get("error_code")
        names = tuple(str(name) for name in (details.get("error_type"), code) if name)
        trace = details.get("stacktrace")
        return failures.agent_error(
            message,
            names=names,
            traceback=trace if isinstance(trace, str) else None,
            server=self._app.server,
            by_words=not names,
        )

    def _invocation(self, events: list[dict[str, Any]], content: Content, facts: TurnFacts) -> Invocation:
        if not events:
            raise self._no_answer("The agent's server ended the turn without a single event.")
        try:
            invocation = to_invocation(events, content, facts)
        except MalformedEvent as error:
            raise _unreadable(str(error)) from error
        if not self._app.explains_exceptions and _ends_with_calls(events):
            raise self._no_answer("The agent's server ended the stream after tool calls, without an answer.")
        if not self._app.requests:
            return invocation.model_copy(update={"app_details": None})
        return invocation

    def _no_answer(self, message: str) -> AgentFailure:
        return AgentFailure(
            message,
            kind=FailureKind.NO_ANSWER,
            log_tail=self._app.log_tail(),
            hint="The servers of adk-java and adk-kotlin do that if the agent raises an exception: see their log.",
        )

    async def close(self) -> None:
        """Deletes the session on the server. Never raises, may be called twice."""
        if self._closed or self._id is None or self._app.keeps_sessions:
            return
        self._closed = True
        with contextlib.suppress(HttpFailure, TooLarge, TimeoutError):
            async with asyncio.timeout(_DELETE_SECONDS):
                await self._app.api.delete_session(self._app.name, self._user, self._id)


def _object(data: str) -> dict[str, Any]:
    try:
        value = read_json(data)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise _unreadable(f"an event that is not a JSON object: {shorten(data, 200)}")
    return value


def _not_in_a_path(server: str, user: str) -> AgentRefused:
    return failures.refused(
        f"The server at {server} can't create a session of the user `{first_line(user, 100)}` (HTTP 404), because of "
        "the `/` in the user id.",
        "Change `session_input.user_id`, or remove `as-given` from `remote-sessions`.",
    )


def _state_ignored(server: str, keys: list[str], case: str) -> AgentRefused:
    return AgentRefused(
        Problem(
            severity=Severity.ERROR,
            code="remote-state-ignored",
            message=f"The server at {server} does not take over the state of a session: "
            f"{', '.join(f'`{key}`' for key in sorted(keys)[:5])} of {case or 'a case'} is missing or different there, "
            "so the case would test something else.",
            hint="Update the server's ADK (older versions of adk-kotlin ignore the state), or remove "
            "`session_input.state`.",
        )
    )


def _without_nulls(value: Any) -> Any:
    """A JSON value without null members, which some servers leave out."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _unreadable(what: str) -> AgentFailure:
    return AgentFailure(
        f"The agent's server sent something that can't be read: {shorten(what, 600)}.",
        kind=FailureKind.PROTOCOL,
        hint="Check that the URL is that of an ADK server, and that no proxy changes its answers.",
    )


def _ends_with_calls(events: list[dict[str, Any]]) -> bool:
    """Whether the last event is a tool call or a response that no answer follows, and none of them is still open."""
    last = events[-1]
    if last.get("long_running_tool_ids") or (last.get("actions") or {}).get("skip_summarization"):
        return False
    parts = (last.get("content") or {}).get("parts") or []
    return any("function_call" in part or "function_response" in part for part in parts)
