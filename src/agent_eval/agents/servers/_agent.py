"""An agent whose servers the gate starts: sessions are spread over the servers, and one that dies is replaced."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote

from agent_eval.agents.driver import AgentSpec, ServerSpec
from agent_eval.agents.protocol import Agent, AgentFailure, FailureKind, Session, SessionRequest
from agent_eval.agents.servers._process import ServerProcess

if TYPE_CHECKING:
    from agent_eval.core.content import Content
    from agent_eval.core.invocation import Invocation


class ServerAgent:
    """Implements `protocol.Agent`."""

    def __init__(self, spec: AgentSpec, server: ServerSpec) -> None:
        """Starts nothing yet.

        Args:
            spec: The agent.
            server: Its server.
        """
        self._spec = spec
        self._server = server
        self._numbers = itertools.count(1)
        self._slots = [_Slot() for _ in range(spec.context.workers or 1)]
        self._failure: AgentFailure | None = None
        self._provenance: Mapping[str, str] = {}

    @property
    def provenance(self) -> Mapping[str, str]:
        """What the driver of the protocol says, without the address, which is another one in each run."""
        facts = {name: value for name, value in self._provenance.items() if name != "url"}
        version = {"version": self._server.version} if self._server.version else {}
        return {**facts, "server": self._server.name, **version}

    @property
    def metrics(self) -> None:
        """Custom metrics need a Python environment of the agent."""
        return None

    async def start(self) -> None:
        """Waits for `agent-setup`, and starts every server.

        Raises:
            AgentFailure: A server can't be started; `open` will raise the same failure.
            AgentRefused: A server is configured wrongly.
        """
        if self._failure is not None:
            raise self._failure.copy()
        try:
            if (setup := self._spec.context.setup) is not None:
                await asyncio.shield(setup)
            starting = [self._running(slot) for slot in self._slots]
            results = await asyncio.gather(*starting, return_exceptions=True)
            for error in results:
                if isinstance(error, BaseException):
                    raise error
        except AgentFailure as failure:
            self._failure = failure
            raise

    async def open(self, request: SessionRequest) -> Session:
        """Opens a session on the server with the fewest sessions.

        Raises:
            AgentFailure: A server that had died can't be started again.
        """
        if request.isolated:
            slot = _Slot(only_one=True)
        else:
            slot = min(self._slots, key=lambda slot: slot.sessions)
        slot.sessions += 1
        try:
            session = await (await self._running(slot)).open(request)
        except BaseException:
            slot.sessions -= 1
            await slot.ended()
            raise
        return _ServerSession(session, slot)

    async def _running(self, slot: _Slot) -> Agent:
        async with slot.lock:
            if slot.process is None or slot.process.ended() is not None:
                if self._failure is not None:
                    raise self._failure.copy()
                await slot.close()
                slot.process = await ServerProcess.start(self._server, self._spec.context, next(self._numbers))
                try:
                    slot.agent = self._agent_of(slot.process)
                    await slot.agent.start()
                except BaseException:
                    await slot.close()
                    raise
                self._provenance = slot.agent.provenance
            assert slot.agent is not None, "set with the process"
            return slot.agent

    def _agent_of(self, process: ServerProcess) -> Agent:
        app = f"#{quote(self._server.app, safe='')}" if self._server.app else ""
        spec = dataclasses.replace(self._spec, source=f"{process.url}{app}", directory=None)
        if self._server.protocol == "a2a":
            from agent_eval.agents.a2a.agent import A2aAgent

            return A2aAgent(spec, process=process)
        from agent_eval.agents.adk_rest.agent import AdkRestAgent

        return AdkRestAgent(spec, server=process)

    async def close(self) -> None:
        """Ends all servers. Never raises."""
        self._failure = self._failure or AgentFailure("The agent was closed.", kind=FailureKind.CRASH)
        await asyncio.gather(*(slot.close() for slot in self._slots), return_exceptions=True)


class _Slot:
    """One of the agent's servers, which is started again after it died."""

    def __init__(self, *, only_one: bool = False) -> None:
        self.lock = asyncio.Lock()
        self.process: ServerProcess | None = None
        self.agent: Agent | None = None
        self.sessions = 0
        self._only_one = only_one

    async def ended(self) -> None:
        """A session has ended."""
        if self._only_one:
            await self.close()

    async def close(self) -> None:
        agent, process = self.agent, self.process
        self.agent = self.process = None
        if agent is not None:
            await agent.close()
        if process is not None:
            await process.close()


class _ServerSession:
    """A session of a slot (implements `protocol.Session`)."""

    def __init__(self, session: Session, slot: _Slot) -> None:
        self._session = session
        self._slot: _Slot | None = slot

    @property
    def shows_tool_calls(self) -> bool:
        """See `protocol.Session`."""
        return self._session.shows_tool_calls

    async def send(self, content: Content, *, timeout: float) -> Invocation:
        """See `protocol.Session.send`."""
        return await self._session.send(content, timeout=timeout)

    async def close(self) -> None:
        """Ends the session, and the server that was started for it alone. Never raises, may be called twice."""
        slot, self._slot = self._slot, None
        if slot is not None:
            await self._session.close()
            slot.sessions -= 1
            await slot.ended()
