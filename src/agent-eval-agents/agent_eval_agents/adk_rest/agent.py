"""An agent behind ADK's REST interface, and its conversations.

Requests have the form that all of ADK's servers accept. Python 2.13.0 was measured; Go, TypeScript, Java, Kotlin and
Rust were read (docs/remote-agents.md). Sessions are created without an id, and a run has only the fields that Go
accepts.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from agent_eval_agents import http
from agent_eval_agents.adk.events import MalformedEvent, ending_error, to_invocation
from agent_eval_agents.adk_rest._normalise import merged, normalised
from agent_eval_agents.driver import AgentSpec
from agent_eval_agents.messages import AgentRequest, TurnFacts
from agent_eval_agents.protocol import (
    AgentFailure,
    AgentRefused,
    EnvironmentFailure,
    FailureKind,
    Session,
    SessionRequest,
)
from agent_eval_scoring.core.content import Content
from agent_eval_scoring.core.invocation import Invocation
from agent_eval_scoring.core.limiter import Place
from agent_eval_scoring.core.problem import Problem
from agent_eval_scoring.core.selectors import nearby
from agent_eval_scoring.core.text import first_line, shorten
from agent_eval_scoring.evalset.models import SeededEvent
from agent_eval_scoring.net.retry import NO_ACCESS

_OPTIONAL_SECONDS = 60.0
"""For answers that a run does not depend on. The first question about an app imports its agent, which takes seconds: if
it were given up, a judge would see the agent's instructions on a quick machine only."""
_DELETE_SECONDS = 5.0
_UNSAVED = "temp:"
"""Prefix of state that ADK keeps for one turn only."""


class AdkRestAgent:
    """Implements `protocol.Agent`."""

    metrics: None = None
    """Custom metrics need a Python environment of the agent."""

    def __init__(self, spec: AgentSpec, *, server: http.failures.ServerProcess | None = None) -> None:
        """Sends nothing yet.

        Args:
            spec: Its source is the server's URL with any prefix; the fragment names the app, if there are several.
            server: The server's process, if the gate started it. It never gets the workflow's headers.
        """
        url, context = http.parse_url(spec.source), spec.context
        remote = context.remote
        self._url = url
        self.options = remote
        self.client = http.HttpClient(
            url, headers=remote.headers if server is None else None, environ=remote.environ, masker=context.masker
        )
        self._limiter = context.limiter
        self.server = server
        self._name = url.fragment
        self.requests: list[AgentRequest] = []
        """Instructions and tools of the app's agents; empty if the server does not say them."""
        self.root = ""
        """The root agent; the app's name if the server does not say it."""
        self.admitted = False
        """Whether the server has created a session: then its headers were right, and may have expired."""
        self._started = False
        self._version: Mapping[str, str] = {}
        self._failure: AgentFailure | None = None

    @property
    def provenance(self) -> Mapping[str, str]:
        """The address, and what the server says about its version."""
        names = {"version": "adk", "language": "language", "language_version": "language-version"}
        facts = {ours: first_line(self._version[theirs]) for theirs, ours in names.items() if theirs in self._version}
        return {"driver": "adk-rest", "url": self._url.base, "app": self._name, **facts}

    async def start(self) -> None:
        """Checks that the server serves the app. Repeating it is cheap.

        Raises:
            AgentFailure: The server does not run, or is unavailable.
            AgentRefused: The URL, the credentials or the app are wrong.
        """
        if self._failure is not None:
            raise self._failure.copy()
        if self._started:
            return
        try:
            self._name = self._chosen(await self._apps())
        except AgentFailure as failure:
            self._failure = failure
            raise
        self._version, self.requests = await asyncio.gather(self._get_version(), self._get_requests())
        self._started = True

    @property
    def explains_exceptions(self) -> bool:
        """Whether the server says when a turn ended with an exception. Java's and Kotlin's just end the stream."""
        return self._version.get("language", "").lower() == "python"

    def log_tail(self) -> str | None:
        """The last lines of the server's log, if it is ours."""
        return self.server.log_tail() if self.server is not None else None

    async def _apps(self) -> list[str]:
        """The apps that the server lists."""
        try:
            reply = await http.first_reply(
                self.client, "/list-apps", server=self.server, secrets_withheld=self.options.secrets_withheld
            )
        except http.TooLarge as error:
            raise self._not_adk(str(error)) from error
        apps = reply.json
        if reply.status != 200 or not isinstance(apps, list) or not all(isinstance(app, str) for app in apps):
            raise self._not_adk(f"HTTP {reply.status} and no list of names for GET /list-apps")
        return apps

    def _not_adk(self, why: str) -> Exception:
        return http.failures.refused(
            f"The server at {self._url.base} does not serve ADK's REST interface: {why}.",
            "Check host and port. If its paths have a prefix, add it to the URL: `/api` for adk-go and adk-rust.",
        )

    def _chosen(self, apps: list[str]) -> str:
        listed = ", ".join(first_line(app, 100) for app in apps[:20]) or "none"
        if self._name in apps:
            return self._name
        if self._name:
            close = (nearby(self._name, apps, 1) or apps[:1] or ["APP"])[0]
            raise http.failures.refused(
                f"The server at {self._url.base} has no app `{self._name}`. Its apps: {listed}.",
                f"Write e.g. `adk:{self._url.base}#{first_line(close, 100)}`.",
            )
        if len(apps) == 1:
            return apps[0]
        hint = f"Name one, e.g. `adk:{self._url.base}#{first_line(apps[0], 100)}`." if apps else None
        raise http.failures.refused(f"The server at {self._url.base} has {len(apps)} apps: {listed}.", hint)

    async def open(self, request: SessionRequest) -> Session:
        """Describes a session; the first turn opens it on the server, within its time."""
        if self._failure is not None:
            raise self._failure.copy()
        if not self._started:
            raise EnvironmentFailure("The agent was not started.")
        as_given = self.options.user_ids == "as-given"
        # State with the prefixes `user:` and `app:` is shared by the sessions of a user.
        # A slash would end the segment of the path, even as %2F, for servers that decode the path first (Python's).
        user = request.user_id if as_given else f"{request.user_id.replace('/', '_')}-{secrets.token_hex(4)}"
        return RestSession(self, request, user)

    async def close(self) -> None:
        """Closes the connections."""
        await self.client.close()

    # -- requests, in the form that all servers accept

    async def _get_version(self) -> dict[str, str]:
        """What `GET /version` says; empty for servers without it. Never raises."""
        answer = await self._optional("/version")
        return {key: value for key, value in answer.items() if isinstance(value, str)}

    async def _get_requests(self) -> list[AgentRequest]:
        """The instructions and tools of the app's agents (`app-info`, experimental); empty if unknown. Never raises."""
        info = await self._optional(f"/apps/{quote(self._name, safe='')}/app-info")
        self.root = str(info.get("rootAgentName") or info.get("root_agent_name") or self._name)
        agents = info.get("agents")
        if not isinstance(agents, dict):
            return []
        return [
            AgentRequest(
                agent=str(facts.get("name") or name),
                instructions=facts["instruction"] if isinstance(facts.get("instruction"), str) else "",
                tools=facts["tools"] if isinstance(facts.get("tools"), list) else [],
            )
            for name, facts in agents.items()
            if isinstance(facts, dict)
        ]

    async def _optional(self, path: str) -> dict[str, Any]:
        try:
            async with asyncio.timeout(_OPTIONAL_SECONDS):
                reply = await self.client.request("GET", self.client.url.join(path))
        except (http.HttpFailure, http.TooLarge, TimeoutError):
            return {}
        answer = reply.json
        return answer if reply.status == 200 and isinstance(answer, dict) else {}

    def create_session(
        self,
        user: str,
        state: Mapping[str, Any],
        events: Sequence[SeededEvent] = (),
        *,
        until: float,
        place: Place | None,
    ) -> AbstractAsyncContextManager[http.Stream]:
        """`POST /apps/APP/users/USER/sessions`; see `stream_with_retries`."""
        url = self.client.url.join(f"{self._user_path(user)}/sessions")
        past = {"events": [self._past(event) for event in events]} if events else {}
        return self._ask("POST", url, {"state": dict(state), **past}, until, place)

    def _past(self, event: SeededEvent) -> dict[str, Any]:
        content = event.content.model_dump(mode="json", exclude_none=True, by_alias=True)
        return {"author": self.root if event.author == "model" else event.author, "content": content}

    def get_session(
        self, user: str, session: str, *, until: float, place: Place | None
    ) -> AbstractAsyncContextManager[http.Stream]:
        """`GET /apps/APP/users/USER/sessions/ID`; see `stream_with_retries`."""
        return self._ask("GET", self._session_url(user, session), None, until, place)

    async def delete_session(self, user: str, session: str) -> http.Reply:
        """`DELETE /apps/APP/users/USER/sessions/ID`."""
        return await self.client.request("DELETE", self._session_url(user, session))

    def _session_url(self, user: str, session: str) -> str:
        return self.client.url.join(f"{self._user_path(user)}/sessions/{quote(session, safe='')}")

    def run(
        self, user: str, session: str, message: Content, *, until: float, place: Place | None
    ) -> AbstractAsyncContextManager[http.Stream]:
        """`POST /run_sse`; see `stream_with_retries`."""
        content = message.model_dump(mode="json", exclude_none=True, by_alias=True)
        body = {
            "appName": self._name,
            "userId": user,
            "sessionId": session,
            "newMessage": {**content, "role": "user"},
            "streaming": False,  # adk-rust's default is true
        }
        return self._ask("POST", self.client.url.join("/run_sse"), body, until, place, "text/event-stream")

    def _ask(
        self, method: str, url: str, body: Any, until: float, place: Place | None, accept: str = "application/json"
    ) -> AbstractAsyncContextManager[http.Stream]:
        client, limiter, headers = self.client, self._limiter, {"Accept": accept}
        return http.stream_with_retries(
            client, url, method=method, body=body, headers=headers, until=until, limiter=limiter, place=place
        )

    def _user_path(self, user: str) -> str:
        return f"/apps/{quote(self._name, safe='')}/users/{quote(user, safe='')}"


class RestSession:
    """Implements `protocol.Session`."""

    shows_tool_calls = True
    """Events hold them."""

    def __init__(self, agent: AdkRestAgent, request: SessionRequest, user: str) -> None:
        """Called by `AdkRestAgent.open`."""
        self._agent = agent
        self._request = request
        self._user = user
        self._id: str | None = None
        self._turns = 0
        self._closed = False

    async def send(self, content: Content, *, timeout: float) -> Invocation:
        """Sends a turn; see `agents.protocol.Session.send`. Cancelling closes the connection, which ends the turn."""
        started_at, begun = time.time(), time.monotonic()
        try:
            async with asyncio.timeout(timeout):
                until = asyncio.get_running_loop().time() + timeout
                if self._id is None:
                    self._id = await self._create(until)
                events = await self._run(content, until)
            duration = time.monotonic() - begun
            state = await self._state(self._id) if self._request.reads_state else None
        except TimeoutError:
            why = f"there was no answer within {timeout:g} s"
            late = http.failures.no_session(why, self._agent.server) if self._id is None else None
            raise late or http.failures.too_late(timeout) from None
        except http.HttpFailure as error:
            if self._agent.server is not None:
                await self._agent.server.settle()
            raise http.failures.lost(error.message, self._agent.server) from error
        except http.TooLarge as error:
            raise _unreadable(str(error)) from error
        self._turns += 1
        facts = TurnFacts(started_at=started_at, duration=duration, requests=list(self._agent.requests), state=state)
        return self._invocation(events, content, facts)

    async def _state(self, session: str) -> dict[str, Any] | None:
        """The session's state; None if the server does not show it.

        Read, and not summed up of the events: what `user:` and `app:` had before is part of it. A server that fails is
        not one that shows no state: then the run fails, as for a turn.
        """
        agent, until = self._agent, asyncio.get_running_loop().time() + _OPTIONAL_SECONDS
        asking = agent.get_session(self._user, session, until=until, place=self._request.place)
        try:
            async with asyncio.timeout_at(until), asking as stream:
                reply = await stream.reply()
        except http.TooLarge:
            return None
        except TimeoutError:
            what = f"it did not show the session's state within {_OPTIONAL_SECONDS:g} s"
            raise http.failures.lost(what, agent.server) from None
        if (reply.status >= 500 and reply.status != HTTPStatus.NOT_IMPLEMENTED) or reply.status in NO_ACCESS:
            raise http.failures.unexpected_status(reply, agent.server)
        state = reply.json.get("state") if reply.status == 200 and isinstance(reply.json, dict) else None
        if not isinstance(state, dict):
            return None
        return {key: value for key, value in state.items() if not key.startswith(_UNSAVED)}

    async def _create(self, until: float) -> str:
        agent, state = self._agent, dict(self._request.state)
        events = self._request.events
        async with agent.create_session(self._user, state, events, until=until, place=self._request.place) as stream:
            reply = await stream.reply()
        client = agent.client
        refused = http.failures.not_admitted(
            reply, client.url.base, has_headers=client.has_headers, secrets_withheld=agent.options.secrets_withheld
        )
        if refused is not None and not agent.admitted:  # The list of apps is open on some servers.
            raise refused
        if reply.status == 404 and "/" in self._user:
            raise _not_in_a_path(client.url.base, self._user)
        if not 200 <= reply.status < 300:
            raise http.failures.unexpected_status(reply, agent.server, "when a session was created")
        agent.admitted = True
        session = reply.json
        if not isinstance(session, dict) or not isinstance(session.get("id"), str):
            what = "a new session without an id"
            raise http.failures.no_session(f"it sent {what}", agent.server) or _unreadable(what)
        # A server that ignores the state would run another case, and score it: its echo shows what it took.
        echo = _without_nulls(session.get("state") or {})
        kept = {key: value for key, value in _without_nulls(state).items() if not key.startswith(_UNSAVED)}
        ignored = [key for key, value in kept.items() if not isinstance(echo, dict) or echo.get(key) != value]
        if ignored:
            raise _state_ignored(client.url.base, ignored, self._request.case_id)
        if len(session.get("events") or ()) < len(events):
            raise _history_ignored(client.url.base, self._request.case_id)
        return str(session["id"])

    async def _run(self, content: Content, until: float) -> list[dict[str, Any]]:
        assert self._id is not None
        agent = self._agent
        async with agent.run(self._user, self._id, content, until=until, place=self._request.place) as stream:
            # In the first turn 404 may be the app's or the path's; later the session was there.
            if stream.status == 404 and self._turns:
                raise AgentFailure(
                    "The agent's server lost the session between two turns (HTTP 404).",
                    kind=FailureKind.CRASH,
                    log_tail=agent.log_tail(),
                    hint="Does it have several instances without a shared session service? Or was it restarted?",
                )
            if stream.status != 200:
                raise http.failures.unexpected_status(await stream.reply(), agent.server)
            return await self._events(stream)

    async def _events(self, stream: http.Stream) -> list[dict[str, Any]]:
        raw: list[dict[str, Any]] = []
        if stream.is_event_stream:
            try:
                async for line in stream.events():
                    if line.data:
                        self._take(_object(line), raw, is_error=line.event == "error")
            except RecursionError:
                raise _unreadable("an event that is nested too deeply") from None
        else:  # a proxy that collects the events
            reply = await stream.reply()
            answer = reply.json
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
        # The code of an event with a content is not that of the exception.
        code = "" if last.get("content") else last.get("error_code")
        names = tuple(str(name) for name in (details.get("error_type"), code) if name)
        trace = details.get("stacktrace")
        return http.failures.agent_error(
            message, names=names, traceback=trace if isinstance(trace, str) else None, server=self._agent.server
        )

    def _invocation(self, events: list[dict[str, Any]], content: Content, facts: TurnFacts) -> Invocation:
        if not events:
            raise self._no_answer("The agent's server ended the turn without a single event.")
        try:
            invocation = to_invocation(events, content, facts)
        except MalformedEvent as error:
            raise _unreadable(str(error)) from error
        server = self._agent.server
        if failure := http.failures.reported(invocation, ending_error(events), server=server, who="The agent's server"):
            raise failure
        if not self._agent.explains_exceptions and _ends_with_calls(events):
            raise self._no_answer("The agent's server ended the stream after tool calls, without an answer.")
        if not self._agent.requests:
            return invocation.model_copy(update={"app_details": None})
        return invocation

    def _no_answer(self, message: str) -> AgentFailure:
        return AgentFailure(
            message,
            kind=FailureKind.NO_ANSWER,
            log_tail=self._agent.log_tail(),
            hint="The servers of adk-java and adk-kotlin do that if the agent raises an exception: see their log.",
        )

    async def close(self) -> None:
        """Deletes the session on the server. Never raises, may be called twice."""
        if self._closed or self._id is None or self._agent.options.keep_sessions:
            return
        self._closed = True
        with contextlib.suppress(http.HttpFailure, http.TooLarge, TimeoutError):
            async with asyncio.timeout(_DELETE_SECONDS):
                await self._agent.delete_session(self._user, self._id)


def _object(event: http.ServerSentEvent) -> dict[str, Any]:
    if not isinstance(event.json, dict):
        raise _unreadable(f"an event that is not a JSON object: {shorten(event.data, 200)}")
    return event.json


def _not_in_a_path(server: str, user: str) -> AgentRefused:
    return http.failures.refused(
        f"The server at {server} can't create a session of the user `{first_line(user, 100)}` (HTTP 404), because of "
        "the `/` in the user id.",
        "Change `session_input.user_id`, or remove `as-given` from `remote-sessions`.",
    )


def _state_ignored(server: str, keys: list[str], case: str) -> AgentRefused:
    return AgentRefused(
        Problem(
            code="remote-state-ignored",
            message=f"The server at {server} does not take over the state of a session: "
            f"{', '.join(f'`{key}`' for key in sorted(keys)[:5])} of {case or 'a case'} is missing or different there, "
            "so the case would test something else.",
            hint="Update the server's ADK (older versions of adk-kotlin ignore the state), or remove "
            "`session_input.state`.",
        )
    )


def _history_ignored(server: str, case: str) -> AgentRefused:
    return AgentRefused(
        Problem(
            code="remote-state-ignored",
            message=f"The server at {server} does not take over the history of a session, so {case or 'a case'} would "
            "test something else.",
            hint="Update the server's ADK, or leave out cases with a history.",
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
    # These end a turn with a call on purpose.
    if last.get("long_running_tool_ids") or (last.get("actions") or {}).get("skip_summarization"):
        return False
    parts = (last.get("content") or {}).get("parts") or []
    return any("function_call" in part or "function_response" in part for part in parts)
