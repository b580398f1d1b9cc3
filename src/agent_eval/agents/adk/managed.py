"""An ADK agent from its directory alone: gets its interpreter when it is started, then runs in it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agent_eval.agents.adk._driver import LOG_LIMIT, START_TIMEOUT, AdkAgent
from agent_eval.agents.host import HostSpec, MetricHosts
from agent_eval.agents.metric_protocol import MetricRunner
from agent_eval.agents.protocol import AgentFailure, Capabilities, Session, SessionRequest
from agent_eval.agents.sandbox import Sandbox
from agent_eval.agents.venv import AgentInterpreter, EnvironmentRequest, discard_damaged, ensure_environment
from agent_eval.core.masking import Masker


@dataclass(kw_only=True)
class ManagedAdkAgent:
    """Implements `protocol.Agent`."""

    agent_path: str
    """An absolute directory, or a dotted module."""
    request: EnvironmentRequest
    sandbox: Sandbox
    masker: Masker
    workers: int
    cache_dir: Path
    log_dir: Path
    log: Callable[[str], None]
    on_throttle: Callable[[], None]
    on_answer: Callable[[], None] = lambda: None
    interpreter: AgentInterpreter | None = None
    """The one that `request.python` names, if it has been checked."""
    working_directory: Path | None = None
    """Where its processes start; None for the root."""
    setup: asyncio.Future[None] | None = None
    """What must have ended before, shared by all agents of a run."""
    turn_timeout: float = 180.0
    """Seconds that a turn, or a call of a custom metric, may take."""
    _agent: AdkAgent | None = None
    _metrics: MetricHosts | None = None
    _interpreter: asyncio.Future[AgentInterpreter] | None = None
    _origin: dict[str, str] = field(default_factory=dict)

    @property
    def capabilities(self) -> Capabilities:
        """Nothing before it has started."""
        return self._agent.capabilities if self._agent else Capabilities()

    @property
    def provenance(self) -> Mapping[str, str]:
        """Versions of the interpreter and of the packages that explain a score, and where they come from."""
        return {**self._origin, **(self._agent.provenance if self._agent else {})}

    async def start(self) -> None:
        """Waits for the set-up, gets the interpreter and starts the agent in it. The interpreter is got once.

        Raises:
            AgentFailure: One of them failed.
        """
        if self._agent is None:
            self._agent = self._agent_in(await self._get_interpreter())
        try:
            await self._agent.start()
        except AgentFailure:
            interpreter = await self._get_interpreter()
            if not await discard_damaged(interpreter, self.log):
                raise
            await self._agent.close()
            self._interpreter = None
            self._agent = self._agent_in(await self._get_interpreter())
            await self._agent.start()

    def _agent_in(self, interpreter: AgentInterpreter) -> AdkAgent:
        self._origin = {**interpreter.versions, "environment": interpreter.origin}
        return AdkAgent(
            python=interpreter.python,
            agent_path=self.agent_path,
            root=self.request.root,
            working_directory=self.working_directory,
            sandbox=interpreter.activate(self.sandbox),
            masker=self.masker,
            workers=self.workers,
            log_dir=self._log_folder(),
            on_throttle=self.on_throttle,
            on_answer=self.on_answer,
            turn_timeout=self.turn_timeout,
        )

    def _log_folder(self) -> Path:
        path, root = Path(self.agent_path), self.request.root
        name = path.relative_to(root).as_posix() if path.is_relative_to(root) else self.agent_path
        name = root.name if name == "." else name
        folder = self.log_dir / (re.sub(r"[^A-Za-z0-9_.-]+", "_", name.strip("/"))[-80:] or "agent")
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    async def _get_interpreter(self) -> AgentInterpreter:
        if self._interpreter is None:
            self._interpreter = asyncio.ensure_future(self._make_interpreter())
        try:
            return await asyncio.shield(self._interpreter)
        except AgentFailure as failure:
            # Two may wait for it: the agent and its metrics.
            raise failure.with_traceback(None) from None

    async def _make_interpreter(self) -> AgentInterpreter:
        if self.setup is not None:
            await asyncio.shield(self.setup)
        if self.interpreter is not None:
            return self.interpreter
        return await ensure_environment(
            self.request, sandbox=self.sandbox, masker=self.masker, cache_dir=self.cache_dir, log=self.log
        )

    @property
    def metrics(self) -> MetricRunner:
        """Runs custom metrics in the agent's environment, in processes of their own."""
        if self._metrics is None:
            self._metrics = MetricHosts(self._metrics_spec, name="metrics", timeout=self.turn_timeout)
        return self._metrics

    async def _metrics_spec(self) -> HostSpec:
        interpreter = await self._get_interpreter()
        return HostSpec(
            python=interpreter.python,
            agent_path=self.agent_path,
            root=self.request.root,
            working_directory=self.working_directory,
            sandbox=interpreter.activate(self.sandbox),
            masker=self.masker,
            log_dir=self._log_folder(),
            log_limit=LOG_LIMIT,
            start_timeout=START_TIMEOUT,
            retry={},
            role="metrics",
        )

    async def open(self, request: SessionRequest) -> Session:
        """Opens a session; `start` must have succeeded.

        Raises:
            AgentFailure: It could not be opened.
        """
        assert self._agent is not None
        return await self._agent.open(request)

    async def close(self) -> None:
        """Ends the agent's processes, and those of its metrics."""
        if self._interpreter is not None and not self._interpreter.done():
            self._interpreter.cancel()
        if self._metrics is not None:
            await self._metrics.close()
        if self._agent is not None:
            await self._agent.close()
