"""The driver for ADK agents: sessions spread over host processes, and what becomes of them when one fails."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agent_eval.agents.adk._events import MalformedEvent, to_invocation
from agent_eval.agents.host import (
    ConnectionLost,
    HostProcess,
    HostSpec,
    ModelOutages,
    ProtocolError,
    RemoteError,
    Turn,
    blame,
)
from agent_eval.agents.messages import Stack, TurnFacts
from agent_eval.agents.protocol import AgentFailure, Capabilities, FailureKind, SessionRequest
from agent_eval.agents.sandbox import Sandbox
from agent_eval.core.content import Content
from agent_eval.core.invocation import Invocation
from agent_eval.core.masking import Masker
from agent_eval.core.text import shorten

RETRY_OPTIONS: Mapping[str, Any] = {
    "attempts": 30,
    "initial_delay": 1.0,
    "exp_base": 2.0,
    "max_delay": 15.0,
    "http_status_codes": [408, 429, 500, 502, 503, 504],
}
"""For the agent's model calls when they have no retries. Mostly the turn's time ends them: the host makes no attempt
that does not fit into it. (`adk eval` of google-adk 2.13.0 makes 7 attempts with 5 s doubling to 120 s: 275 s of
pauses, more than a turn has.)"""
START_TIMEOUT = 120.0
"""Seconds that a host has to load what it runs."""
LOG_LIMIT = 5_000_000
"""Bytes of each log."""
_STALLED = 0.5
"""Seconds, and as a share of the turn's time: a turn that lost more than both because something blocked the host's
event loop is run again apart from the others, since it may have been any of them."""
_STALLED_SHARE = 0.02
_LOAD_ATTEMPTS = 2
"""How often a replacement for a dead host may fail to start before no more are started."""


class AdkAgent:
    """An ADK agent in host processes of its own."""

    def __init__(
        self,
        *,
        python: Sequence[str],
        agent_path: str,
        root: Path,
        working_directory: Path | None = None,
        sandbox: Sandbox,
        masker: Masker,
        workers: int = 1,
        log_dir: Path,
        start_timeout: float = START_TIMEOUT,
        on_throttle: Callable[[], None] = lambda: None,
        on_answer: Callable[[], None] = lambda: None,
        turn_timeout: float = 180.0,
        log_limit: int = LOG_LIMIT,
        retry_options: Mapping[str, Any] = RETRY_OPTIONS,
    ) -> None:
        """Describes the agent; nothing is started yet.

        Args:
            python: The command of the interpreter that has google-adk and what the agent needs.
            agent_path: The absolute path of the agent's directory, or a dotted module.
            root: The repository's root.
            working_directory: Where the hosts run; None for the root.
            sandbox: How processes are started.
            masker: Applied to everything that the hosts say or print.
            workers: Host processes, at least 1. Each serves many sessions at once.
            log_dir: An existing directory for the hosts' logs.
            start_timeout: Seconds that a host has to load the agent.
            on_throttle: Called whenever a model call is answered with 429 or 503, also if it is repeated by itself.
            on_answer: Called whenever a model call is answered otherwise.
            turn_timeout: Seconds that a turn may take; how long a model may give no answer follows from it.
            log_limit: Bytes of each log.
            retry_options: Fields of google-genai's HttpRetryOptions, for model calls that have none.

        Raises:
            ValueError: `workers` is less than 1.
        """
        if workers < 1:
            raise ValueError(f"workers must be at least 1, not {workers}")
        self.outages = ModelOutages(turn_timeout=turn_timeout, on_throttle=on_throttle, on_answer=on_answer)
        self._spec = HostSpec(
            python=python,
            agent_path=agent_path,
            root=root,
            working_directory=working_directory,
            sandbox=sandbox,
            masker=masker,
            log_dir=log_dir,
            log_limit=log_limit,
            start_timeout=start_timeout,
            retry=retry_options,
            outages=self.outages,
        )
        name = agent_path.rstrip("/").rsplit("/", 1)[-1]
        self._log_name = re.sub(r"[^A-Za-z0-9_.-]", "_", name) or "agent"
        self._numbers = itertools.count(1)
        self._keys = itertools.count(1)
        self._slots = [_Slot() for _ in range(workers)]
        self._alone: set[HostProcess] = set()
        self._failure: AgentFailure | None = None
        self._failed_loads = 0
        self._facts: dict[str, str] = {}
        self._closed = False

    @property
    def capabilities(self) -> Capabilities:
        """What the driver can do."""
        return Capabilities(state=True, app_details=True)

    @property
    def provenance(self) -> Mapping[str, str]:
        """Versions of the interpreter, google-adk and google-genai."""
        return {"driver": "adk", **{name: value for name, value in self._facts.items() if value}}

    async def start(self) -> None:
        """Starts every host.

        Raises:
            AgentFailure: The agent can't be loaded; `open` will say the same.
        """
        results = await asyncio.gather(*(self._host_of(slot) for slot in self._slots), return_exceptions=True)
        failures = [result for result in results if isinstance(result, BaseException)]
        if failures:
            if isinstance(failures[0], AgentFailure):
                self._failure = self._failure or failures[0]
            raise failures[0]

    async def open(self, request: SessionRequest) -> AdkSession:
        """Opens a session on the host with the fewest.

        Raises:
            AgentFailure: There is no host and none can be started, or the agent's model is down.
        """
        self.outages.check()
        if request.isolated:
            host = await self._new_host()
            self._alone.add(host)
        else:
            slot = min(self._slots, key=lambda slot: slot.load)
            slot.reserved += 1
            try:
                host = await self._host_of(slot)
            finally:
                slot.reserved -= 1
        host.sessions += 1
        host.opened += 1
        return AdkSession(self, host, f"s{next(self._keys)}", request)

    async def _host_of(self, slot: _Slot) -> HostProcess:
        async with slot.lock:
            while slot.host is None or slot.host.death is not None or slot.host.ending:
                if self._failure is not None:
                    raise _again(self._failure)
                try:
                    slot.host = await self._new_host()
                except AgentFailure as failure:
                    self._failed_loads += 1
                    if not self._facts or self._failed_loads >= _LOAD_ATTEMPTS:
                        self._failure = failure
                        raise
                else:
                    self._failed_loads = 0
            return slot.host

    async def _new_host(self) -> HostProcess:
        host = await HostProcess.start(self._spec, f"{self._log_name}-{next(self._numbers)}")
        if self._closed:
            await host.close()
            raise AgentFailure("The agent was closed.", kind=FailureKind.CRASH)
        self._facts = {
            "python": host.python or "",
            "adk": host.loaded.adk,
            "google-genai": host.loaded.genai,
            "agent": host.loaded.agent,
        }
        return host

    async def release(self, session: AdkSession) -> None:
        """Takes a session back; for the session's own use."""
        host = session.host
        host.sessions -= 1
        if host in self._alone:
            self._alone.discard(host)
            await host.close()
        elif host.death is None:
            host.forget(session.key)

    async def close(self) -> None:
        """Ends all hosts. Never raises."""
        self._closed = True
        hosts = [slot.host for slot in self._slots if slot.host is not None] + list(self._alone)
        self._alone.clear()
        await asyncio.gather(*(host.close() for host in hosts), return_exceptions=True)


class _Slot:
    """A place for a host."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.host: HostProcess | None = None
        self.reserved = 0

    @property
    def load(self) -> int:
        """Sessions on it or about to come."""
        return self.reserved + (self.host.sessions if self.host is not None and self.host.death is None else 0)


def _again(failure: AgentFailure) -> AgentFailure:
    """The same failure for another session: raising one exception in many tasks would mix their tracebacks."""
    return AgentFailure(
        failure.message,
        kind=failure.kind,
        owner=failure.owner,
        traceback=failure.traceback,
        log_tail=failure.log_tail,
        hint=failure.hint,
        collateral=failure.collateral,
    )


class AdkSession:
    """One conversation, in one host."""

    def __init__(self, agent: AdkAgent, host: HostProcess, key: str, request: SessionRequest) -> None:
        """For AdkAgent.open."""
        self.host = host
        self.key = key
        self._agent = agent
        self._request = request
        self._closed = False

    async def send(self, content: Content, *, timeout: float) -> Invocation:
        """Sends a turn; see `agents.protocol.Session.send`."""
        if self.host.death is not None:
            # It died while this session waited for its next turn: another one's doing, unless there was no other.
            raise self.host.died(collateral=not self._request.isolated)
        shared, opened = self.host.sessions > 1, self.host.opened
        # The session's facts travel with every turn; the host opens it with the first one, inside the turn's deadline.
        turn = self.host.begin(
            {
                "session": self.key,
                "app_name": self._request.app_name,
                "user_id": self._request.user_id,
                "session_id": self._request.session_id,
                "state": dict(self._request.state),
                "content": content.model_dump(mode="json", exclude_none=True),
                "timeout": timeout,
            },
            place=self._request.place,
        )
        try:
            await asyncio.wait({turn.answer, turn.outage}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self.host.abandon(turn)
            raise
        finally:
            self._agent.outages.ended(turn.outage)
        if not turn.answer.done():
            if turn.outage.done():
                self.host.abandon(turn)
                raise turn.outage.result()
            raise await self._too_late(turn, timeout, shared=shared or self.host.opened > opened)
        try:
            result = turn.answer.result()
        except RemoteError as error:
            raise blame.failed_turn(error, self.host.log.tail() or None, self.host.withheld) from None
        except (ConnectionLost, ProtocolError):
            collateral = self.host.sessions > 1
            await self.host.wait_ended()
            raise self.host.died(collateral=collateral) from None
        return self._invocation(turn, content, result)

    def _invocation(self, turn: Turn, content: Content, result: Any) -> Invocation:
        if not turn.events:
            raise AgentFailure(
                "The agent ended the turn without a single event.",
                kind=FailureKind.NO_ANSWER,
                hint="See that the root agent yields events for this input: a workflow without sub-agents yields none.",
            )
        try:
            return to_invocation(turn.events, content, TurnFacts.model_validate(result))
        except (MalformedEvent, ValidationError) as error:
            raise AgentFailure(
                f"The agent's process sent an answer that can't be read: {shorten(str(error), 600)}",
                kind=FailureKind.PROTOCOL,
                log_tail=self.host.log.tail() or None,
                hint="Something in the agent writes to file descriptors that are not its own.",
            ) from error

    async def _too_late(self, turn: Turn, timeout: float, *, shared: bool) -> AgentFailure:
        """Ends a turn whose time is up; `shared` if another session was there at any time of it."""
        ended = await self.host.cancel(turn)
        waiting = turn.waiting
        blocked = not ended or (waiting is not None and waiting.stalled > max(_STALLED, timeout * _STALLED_SHARE))
        collateral = blocked and shared
        stack = Stack() if ended else await self.host.end_hung(ask=waiting is None)
        failure = blame.too_late(
            timeout, waiting, stopped=ended, at=stack.at, turn_limit=self._request.turn_limit or timeout
        )
        failure.traceback = failure.traceback or stack.where or None
        failure.log_tail = self.host.log.tail() or None
        failure.collateral = collateral
        if failure.kind is FailureKind.PROVIDER and waiting is not None and not collateral:
            self._agent.outages.turn_was_late(turn.outage, waiting)
        return failure

    async def close(self) -> None:
        """Ends the session. Never raises, may be called twice."""
        if not self._closed:
            self._closed = True
            await self._agent.release(self)
