"""ADK agents in host processes of their own interpreters: sessions are spread over the hosts, and a host that dies
is replaced.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agent_eval_agents.adk._slots import Slot
from agent_eval_agents.adk.events import MalformedEvent, calls_of, ending_error, to_invocation
from agent_eval_agents.driver import AgentSpec
from agent_eval_agents.host import (
    ConnectionLost,
    HostProcess,
    HostSpec,
    MetricHosts,
    ModelOutages,
    ProtocolError,
    RemoteError,
    Turn,
    blame,
)
from agent_eval_agents.http.failures import reported
from agent_eval_agents.loading import RUNS_OF_A_PROCESS, cores, processes_for
from agent_eval_agents.messages import Stack, TurnFacts
from agent_eval_agents.protocol import AgentFailure, FailureKind, Owner, Session, SessionRequest
from agent_eval_agents.venv import (
    AgentInterpreter,
    Compiling,
    EnvironmentRequest,
    discard_damaged,
    ensure_environment,
)
from agent_eval_scoring.core.content import Content
from agent_eval_scoring.core.invocation import Invocation
from agent_eval_scoring.core.text import shorten

RETRY_OPTIONS: Mapping[str, Any] = {
    "attempts": 30,
    "initial_delay": 1.0,
    "exp_base": 2.0,
    "max_delay": 15.0,
    "http_status_codes": [408, 429, 500, 502, 503, 504],
}
"""Retries for the agent's model calls that configure none: fields of google-genai's HttpRetryOptions. The turn's
time usually ends them: the host makes no attempt that does not fit into it. (`adk eval` of google-adk 2.13.0 makes 7
attempts with 5 s doubling to 120 s: 275 s of pauses, longer than a turn.)"""
_STALLED = 0.5
"""Seconds, and as a share of the turn's time. If the host's event loop was blocked for longer than both, a turn that
timed out is run again in its own process, because any of the host's sessions may have blocked the loop."""
_STALLED_SHARE = 0.02
_AT_ONCE = 4
"""Sessions that a process has before there is another one."""
_IN_ALL = RUNS_OF_A_PROCESS
"""Sessions that it has had before there is a second one, unless both are forks."""
_LOAD_ATTEMPTS = 2
"""Failed replacements of a dead host after which no more are started."""


class AdkAgent:
    """An ADK agent in its own host processes."""

    def __init__(self, spec: HostSpec, outages: ModelOutages, *, workers: int | None = 1, runs: int = 1) -> None:
        """Describes the agent; nothing is started yet.

        Args:
            spec: How to start a host.
            outages: Tracks the models that the hosts call.
            workers: Host processes, at least 1. Each serves many sessions at once. None: one; a second one if it
                has had many, or as many as are useful if they are forks; and another one each time all of them are busy
                computing, up to the number of cores.
            runs: How many are planned.

        Raises:
            ValueError: `workers` is less than 1.
        """
        if workers is not None and workers < 1:
            raise ValueError(f"workers must be at least 1, not {workers}")
        self.outages = outages
        self._spec = dataclasses.replace(spec, outages=outages)
        name = spec.agent_path.rstrip("/").rsplit("/", 1)[-1]
        self._log_name = re.sub(r"[^A-Za-z0-9_.-]", "_", name) or "agent"
        self._numbers = itertools.count(1)
        self._keys = itertools.count(1)
        self._slots = [Slot() for _ in range(workers or 1)]
        self._most_slots = workers or cores()
        self._useful_slots = processes_for(runs)
        self._growing: asyncio.Task[None] | None = None
        self._alone: set[HostProcess] = set()
        self._failure: AgentFailure | None = None
        self._failed_loads = 0
        self._facts: dict[str, str] = {}
        self._closed = False

    @property
    def provenance(self) -> Mapping[str, str]:
        """Versions of the interpreter, google-adk and google-genai."""
        return {"driver": "adk", **{name: value for name, value in self._facts.items() if value}}

    async def start(self) -> None:
        """Starts every host.

        Raises:
            AgentFailure: The agent can't be loaded; `open` will raise the same failure.
        """
        results = await asyncio.gather(*map(self._host_of, self._slots), return_exceptions=True)
        if failures := [result for result in results if isinstance(result, BaseException)]:
            if isinstance(failures[0], AgentFailure):
                self._failure = self._failure or failures[0]
            raise failures[0]

    async def open(self, request: SessionRequest) -> AdkSession:
        """Opens a session on the host with the fewest sessions.

        Raises:
            AgentFailure: No host can be started, or the agent's model is down.
        """
        self.outages.check()
        if request.isolated:
            host = await self._new_host()
            self._alone.add(host)
        else:
            # In the background: this session begins at once, on a host that is there.
            if self._growing is None and self._needs_slot():
                self._growing = asyncio.create_task(self._add_slot())
            slot = min(self._slots, key=lambda slot: slot.load)
            # Sessions that wait for a host to start count, or all of them would choose the same one.
            slot.reserved += 1
            try:
                host = await self._host_of(slot)
            finally:
                slot.reserved -= 1
        host.sessions += 1
        host.served.append(request.case_id)
        return AdkSession(self, host, f"s{next(self._keys)}", request)

    def _needs_slot(self) -> bool:
        """Whether another host process is worth its start: waiting for models costs a process almost no time."""
        slots = len(self._slots)
        if slots >= self._most_slots:
            return False
        if slots < self._useful_slots and all(slot.is_fork for slot in self._slots):
            pays_off = all(slot.has_much_to_do(_AT_ONCE, 0) for slot in self._slots)
        else:
            pays_off = slots == 1 and self._slots[0].has_much_to_do(_AT_ONCE, _IN_ALL)
        return pays_off or all(slot.is_busy() for slot in self._slots)

    async def _add_slot(self) -> None:
        try:
            slot = Slot()
            slot.host = await self._new_host()
            self._slots.append(slot)
        except (AgentFailure, OSError):
            # Some agents work only once on a machine, e.g. because of a port. The others serve all sessions.
            self._most_slots = len(self._slots)
        finally:
            self._growing = None

    async def _host_of(self, slot: Slot) -> HostProcess:
        async with slot.lock:
            while slot.host is None or slot.host.exit is not None or slot.host.ending:
                if self._failure is not None:
                    raise self._failure.copy()
                try:
                    slot.host = await self._new_host()
                except AgentFailure as failure:
                    self._failed_loads += 1
                    # An agent that has never been loaded won't be the next time; one that has may have met a passing
                    # failure.
                    if not self._facts or self._failed_loads >= _LOAD_ATTEMPTS:
                        self._failure = failure
                        raise
                else:
                    self._failed_loads = 0
            return slot.host

    async def _new_host(self) -> HostProcess:
        host = await self._spec.loads.load(
            lambda: HostProcess.start(self._spec, f"{self._log_name}-{next(self._numbers)}")
        )
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
        """Removes a session that has ended; called by the session itself."""
        host = session.host
        host.sessions -= 1
        if host in self._alone:
            self._alone.discard(host)
            await host.close()
        elif host.exit is None:
            host.forget(session.key)

    async def close(self) -> None:
        """Ends all hosts. Never raises."""
        self._closed = True
        if self._growing is not None:
            self._growing.cancel()
            await asyncio.wait({self._growing})
        hosts = [slot.host for slot in self._slots if slot.host is not None] + list(self._alone)
        self._alone.clear()
        await asyncio.gather(*(host.close() for host in hosts), return_exceptions=True)


class AdkSession:
    """One conversation on one host."""

    shows_tool_calls = True
    """Always: the host forwards every event."""

    def __init__(self, agent: AdkAgent, host: HostProcess, key: str, request: SessionRequest) -> None:
        """Called by `AdkAgent.open`."""
        self.host = host
        self.key = key
        self._agent = agent
        self._request = request
        self._closed = False

    async def send(self, content: Content, *, timeout: float) -> Invocation:
        """Sends a turn; see `agents.protocol.Session.send`."""
        if self.host.exit is not None:
            # The host died while this session was between turns: another session caused it, unless there was none.
            raise self.host.died(collateral=not self._request.isolated)
        # Every turn carries the session's data: the host opens the session in the first turn, within its deadline.
        turn = self.host.begin(
            {
                "session": self.key,
                "app_name": self._request.app_name,
                "user_id": self._request.user_id,
                "session_id": self._request.session_id,
                "state": dict(self._request.state),
                **self._request.past,
                "content": content.model_dump(mode="json", exclude_none=True),
                "timeout": timeout,
            }
        )
        turn.place = self._request.place
        turn.tools = self._request.tools
        turn.calls_of = calls_of
        try:
            await asyncio.wait({turn.answer, turn.outage}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self.host.abandon(turn)
            raise
        if not turn.answer.done():
            # A turn that waits for an answer of its tape is late because of the tape, not of the agent.
            held = turn.tools.held() if turn.tools is not None else None
            if held is not None or turn.outage.done():
                self.host.abandon(turn)
                raise turn.outage.result() if turn.outage.done() or held is None else held
            late = await self._too_late(turn, timeout)
            raise _with_turn(late, turn, content, turn.waiting.so_far if turn.waiting else None)
        try:
            result = turn.answer.result()
        except RemoteError as error:
            data = blame.data_of(error)
            failure = blame.failed_turn(error, self.host.log.tail() or None, self.host.withheld)
            if failure.owner is Owner.AGENT:
                failure.raised = data.raised
            raise _with_turn(failure, turn, content, data.so_far) from None
        except (ConnectionLost, ProtocolError):
            await self.host.wait_ended()
            raise _with_turn(self.host.died(collateral=self._shared), turn, content) from None
        return self._invocation(turn, content, result)

    @property
    def _shared(self) -> bool:
        """Whether the process has had another session: what that left behind may still run."""
        return len(self.host.served) > 1

    def _invocation(self, turn: Turn, content: Content, result: Any) -> Invocation:
        if not turn.events:
            raise AgentFailure(
                "The agent ended the turn without a single event.",
                kind=FailureKind.NO_ANSWER,
                hint="Check that the root agent yields events for this input. A workflow without sub-agents doesn't.",
            )
        try:
            invocation = to_invocation(turn.events, content, TurnFacts.model_validate(result))
        except (MalformedEvent, ValidationError) as error:
            raise AgentFailure(
                f"The agent's process sent an answer that can't be read: {shorten(str(error), 600)}",
                kind=FailureKind.PROTOCOL,
                log_tail=self.host.log.tail() or None,
                hint="The agent writes to file descriptors that it does not own.",
                collateral=self._shared,
                served=self.host.served,
            ) from error
        asked = not turn.events[-1].get("unasked")
        if failure := reported(invocation, ending_error(turn.events), who="The agent's last event", asked=asked):
            failure.log_tail = self.host.log.tail() or None
            raise failure
        return invocation

    async def _too_late(self, turn: Turn, timeout: float) -> AgentFailure:
        """Ends a turn that timed out."""
        ended = await self.host.cancel(turn)
        waiting = turn.waiting
        blocked = not ended or (waiting is not None and waiting.stalled > max(_STALLED, timeout * _STALLED_SHARE))
        collateral = blocked and self._shared
        stack = Stack() if ended else await self.host.end_hung(ask=waiting is None)
        failure = blame.too_late(
            timeout, waiting, stopped=ended, at=stack.at, turn_limit=self._request.turn_limit or timeout
        )
        failure.traceback = failure.traceback or stack.where or None
        failure.log_tail = self.host.log.tail() or None
        failure.collateral, failure.served = collateral, self.host.served
        if failure.kind is FailureKind.DEADLINE:
            failure.waited = blame.waited_for(waiting, stack)
        # Where the loop was blocked, the silence may be ours: other runs must not be stopped for it.
        if failure.kind is FailureKind.PROVIDER and waiting is not None and not collateral:
            self._agent.outages.turn_was_late(turn.outage, waiting)
        return failure

    async def close(self) -> None:
        """Ends the session. Never raises, may be called twice."""
        if not self._closed:
            self._closed = True
            await self._agent.release(self)


def _with_turn(failure: AgentFailure, turn: Turn, content: Content, facts: TurnFacts | None = None) -> AgentFailure:
    """The failure with the turn as far as it went."""
    with contextlib.suppress(MalformedEvent, ValidationError):
        failure.unfinished = to_invocation(turn.events, content, facts or TurnFacts())
    return failure


class ManagedAdkAgent:
    """Implements `protocol.Agent`."""

    def __init__(self, spec: AgentSpec) -> None:
        self._spec = spec
        self._context = spec.context
        self._metrics: MetricHosts | None = None
        self._agent: AdkAgent | None = None
        self._interpreter: asyncio.Future[AgentInterpreter] | None = None
        self._environment: dict[str, str] = {}
        self._compiling: Compiling | None = None

    @property
    def provenance(self) -> Mapping[str, str]:
        """Versions of the interpreter and of the packages that explain a score, and the environment's origin."""
        return {**self._environment, **(self._agent.provenance if self._agent else {})}

    @property
    def metrics(self) -> MetricHosts:
        """Runs custom metrics in the agent's environment, in separate processes."""
        if self._metrics is None:
            self._metrics = MetricHosts(self._metrics_spec, name="metrics", timeout=self._context.turn_timeout)
        return self._metrics

    async def start(self) -> None:
        """Waits for `agent-setup`, gets the interpreter once, and starts the agent with it.

        Raises:
            AgentFailure: One of these steps failed.
        """
        if self._agent is None:
            self._agent = await self._create_agent()
        try:
            await self._agent.start()
        except AgentFailure:
            # What the cache has lost is not the pull request's fault.
            if not await discard_damaged(await self._get_interpreter(), self._context.log):
                raise
            await self._agent.close()
            await self._end_compiling()
            self._interpreter = None
            self._agent = await self._create_agent()
            await self._agent.start()

    async def _create_agent(self) -> AdkAgent:
        interpreter = await self._get_interpreter()
        self._environment = {**interpreter.versions, "environment": interpreter.origin}
        context = self._context
        outages = ModelOutages(turn_timeout=context.turn_timeout, limiter=context.limiter, log=context.log)
        spec = dataclasses.replace(self._host_spec(interpreter), retry=RETRY_OPTIONS)
        return AdkAgent(spec, outages, workers=context.workers, runs=self._spec.runs)

    async def _metrics_spec(self) -> HostSpec:
        return dataclasses.replace(self._host_spec(await self._get_interpreter()), role="metrics", described=None)

    def _host_spec(self, interpreter: AgentInterpreter) -> HostSpec:
        directory, source = self._spec.directory, self._spec.source
        root = self._context.root
        agent_path = source if directory is None else str((root / source).resolve())
        log_dir = self._context.log_dir / _log_folder(
            f"{agent_path}#{self._spec.sub_agent}" if self._spec.sub_agent else agent_path, root
        )
        log_dir.mkdir(parents=True, exist_ok=True)
        return HostSpec(
            python=interpreter.python,
            agent_path=agent_path,
            sub_agent=self._spec.sub_agent,
            root=root,
            working_directory=self._spec.working_directory,
            sandbox=interpreter.activate(self._context.sandbox),
            masker=self._context.masker,
            log_dir=log_dir,
            asks_for_tools=self._context.asks_for_tools,
            asks_for_models=self._context.asks_for_models,
            described=self._spec.described,
            loads=self._context.loads,
            parents=self._context.parents,
        )

    async def _get_interpreter(self) -> AgentInterpreter:
        if self._interpreter is None:
            # Agent and metrics may ask at the same time, and an environment is made once.
            self._interpreter = asyncio.ensure_future(self._make_interpreter())
        try:
            return await asyncio.shield(self._interpreter)
        except AgentFailure as failure:
            # Both the agent and its metrics may wait for it.
            raise failure.with_traceback(None) from None

    async def _make_interpreter(self) -> AgentInterpreter:
        context = self._context
        if context.setup is not None:
            await asyncio.shield(context.setup)
        if context.interpreter is not None:
            return context.interpreter
        request = EnvironmentRequest(
            start=self._spec.directory or context.root,
            root=context.root,
            python=context.python,
            requirements=context.requirements,
            installer=context.installer,
        )
        begun = None if context.begun is None else context.begun.take(request, context.log)
        interpreter = await (
            begun
            or ensure_environment(
                request, sandbox=context.sandbox, masker=context.masker, cache_dir=context.cache_dir, log=context.log
            )
        )
        self._compiling = await Compiling.begin(interpreter.place, context.sandbox.user)
        return interpreter

    async def open(self, request: SessionRequest) -> Session:
        """Opens a session; `start` must have succeeded.

        Raises:
            AgentFailure: The session can't be opened.
        """
        assert self._agent is not None
        return await self._agent.open(request)

    async def close(self) -> None:
        """Ends the processes of the agent and of its metrics."""
        if self._interpreter is not None and not self._interpreter.done():
            self._interpreter.cancel()
        # Reports ask for it after the end.
        self._environment = dict(self.provenance)
        await self._end_compiling()
        metrics, agent, self._metrics, self._agent = self._metrics, self._agent, None, None
        if metrics is not None:
            await metrics.close()
        if agent is not None:
            await agent.close()

    async def _end_compiling(self) -> None:
        compiling, self._compiling = self._compiling, None
        if compiling is not None:
            await compiling.close()


def _log_folder(agent_path: str, root: Path) -> str:
    """The folder's name: the agent's path in the repository, without special characters."""
    path = Path(agent_path)
    name = path.relative_to(root).as_posix() if path.is_relative_to(root) else agent_path
    name = root.name if name == "." else name
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", name.strip("/"))[-80:] or "agent"
