"""An agent whose servers the gate starts: sessions are spread over the servers, and one that dies is replaced. And the
process of such a server: start, wait until it answers, end.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import socket
from collections.abc import Mapping
from urllib.parse import quote

from agent_eval_agents.driver import AgentSpec, DriverContext, ServerSpec
from agent_eval_agents.host import HostLog, exit_description
from agent_eval_agents.http import HttpClient, HttpFailure, TooLarge, parse_url
from agent_eval_agents.protocol import Agent, AgentFailure, FailureKind, Session, SessionRequest
from agent_eval_agents.sandbox import kill_group
from agent_eval_scoring.core.content import Content
from agent_eval_scoring.core.invocation import Invocation


class ServerAgent:
    """Implements `protocol.Agent`."""

    metrics: None = None
    """Custom metrics need a Python environment of the agent."""

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
                # Agents share it: one that is cancelled must not end it for the others.
                await asyncio.shield(setup)
            starting = [self._running(slot) for slot in self._slots]
            # All starts end before the failure is raised: one that goes on would leave a server behind.
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
            # A run that is repeated after a crash must not meet what another session has left in a server.
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
                # A server that could not be started once would cost `ready_timeout` for each case.
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
            from agent_eval_agents.a2a.agent import A2aAgent

            return A2aAgent(spec, process=process)
        from agent_eval_agents.adk_rest.agent import AdkRestAgent

        return AdkRestAgent(spec, server=process)

    async def close(self) -> None:
        """Ends all servers. Never raises."""
        # A session that is being opened would start a server that nobody ends.
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


_LOG_LIMIT = 5_000_000
"""Bytes of each log."""
_POLL_SECONDS = 0.1
_ANSWER_SECONDS = 5.0
"""For one answer to a readiness check."""
_SETTLE_SECONDS = 1.0
"""For a process to end after its connection broke."""


class ServerProcess:
    """A running server (implements `http.failures.ServerProcess`). Create one with `start`."""

    def __init__(self, spec: ServerSpec, context: DriverContext, number: int) -> None:
        """Use `start`."""
        self._spec = spec
        name = "server.log" if number == 1 else f"server-{number}.log"
        self._log = HostLog(context.log_dir / spec.name / name, masker=context.masker, limit=_LOG_LIMIT)
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._closed = False
        port = _free_port()
        self.url = spec.url.replace("{port}", str(port))
        """Its address, with the port."""
        self._command = [argument.replace("{port}", str(port)) for argument in spec.command]
        self._environment = {"PORT": str(port)}

    @classmethod
    async def start(cls, spec: ServerSpec, context: DriverContext, number: int) -> ServerProcess:
        """Starts a server and waits until it answers.

        Args:
            spec: The server.
            context: The sandbox, the root and the logs.
            number: Distinguishes the logs of the servers of one agent, from 1.

        Raises:
            AgentFailure: It can't be started, ends, or does not answer in time.
        """
        server = cls(spec, context, number)
        try:
            await server._spawn(context)
            await server._wait_until_ready()
        except BaseException:
            await server.close()
            raise
        return server

    async def _spawn(self, context: DriverContext) -> None:
        directory = context.root / self._spec.directory
        try:
            self._process = await context.sandbox.start(self._command, cwd=directory, environment=self._environment)
        except OSError as error:
            why = error.strerror or str(error)
            what = (
                f"{why}: {self._command[0]}"
                if directory.is_dir()
                else f"its directory {self._spec.directory} does not exist"
            )
            raise AgentFailure(
                f"The server `{self._spec.name}` can't be started: {what}.",
                kind=FailureKind.SERVER_DOWN,
                hint=f"Check `command` and `directory` of [servers.{self._spec.name}] in agent-eval.toml, and that the "
                "agent's user can execute the program.",
            ) from error
        assert self._process.stdout is not None
        self._reading = asyncio.create_task(self._log.read(self._process.stdout))

    async def _wait_until_ready(self) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        client = HttpClient(parse_url(self.url))
        try:
            while not await self._is_ready(client):
                if (end := self.ended()) is not None:
                    # The last lines of its log say why.
                    await self._drain()
                    raise AgentFailure(
                        f"The server `{self._spec.name}` {end} before it was ready.",
                        kind=FailureKind.SERVER_DOWN,
                        log_tail=self.log_tail(),
                        hint="The end of its log says why. Check `command` and `directory` of "
                        f"[servers.{self._spec.name}] in agent-eval.toml: the port to listen on is {{port}}.",
                    )
                if loop.time() - begun > self._spec.ready_timeout:
                    raise self._not_ready(f"was not ready within {self._spec.ready_timeout:g} s")
                await asyncio.sleep(_POLL_SECONDS)
        finally:
            await client.close()

    async def _is_ready(self, client: HttpClient) -> bool:
        for path in self._spec.ready_paths:
            with contextlib.suppress(HttpFailure, TooLarge, TimeoutError):
                async with asyncio.timeout(_ANSWER_SECONDS):
                    reply = await client.request("GET", client.url.join(path))
                if 200 <= reply.status < 300:
                    return True
        return False

    def _not_ready(self, what: str) -> AgentFailure:
        return AgentFailure(
            f"The server `{self._spec.name}` {what}.",
            kind=FailureKind.SERVER_DOWN,
            log_tail=self.log_tail(),
            hint=f"It is ready when GET {' or '.join(self._spec.ready_paths)} below {self._spec.url} answers with 2xx "
            f"(`ready`, `ready_timeout` of [servers.{self._spec.name}]). The port to listen on is {{port}} in "
            "`command`, and the variable PORT.",
        )

    def log_tail(self) -> str | None:
        """The last lines of its log."""
        return self._log.tail() or None

    def ended(self) -> str | None:
        """How it ended, as a predicate; None while it runs."""
        code = None if self._process is None else self._process.returncode
        return None if code is None else exit_description(code)

    async def settle(self) -> None:
        """Waits at most a second for the end of a process whose connection broke."""
        if self._process is not None:
            with contextlib.suppress(TimeoutError):
                # The connection of a process that dies breaks before its end is known; then the end is the reason.
                await asyncio.wait_for(self._process.wait(), _SETTLE_SECONDS)
            if self._process.returncode is not None:
                await self._drain()

    async def _drain(self) -> None:
        """Reads the rest of the log of a process that has ended; one that it left behind may keep the log open."""
        if self._reading is not None:
            await asyncio.wait({self._reading}, timeout=_SETTLE_SECONDS)

    async def close(self) -> None:
        """Kills the process and everything in its group. Never raises, may be called twice."""
        if self._closed:
            return
        self._closed = True
        if self._process is not None:
            await kill_group(self._process)
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        self._log.close()


def _free_port() -> int:
    with socket.socket() as probe:
        # Another process may take it before the server does: then that one ends, and its log says why.
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
