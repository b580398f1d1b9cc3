"""An ADK agent that gets its own interpreter when it starts."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path

from agent_eval.agents.adk._driver import RETRY_OPTIONS, AdkAgent
from agent_eval.agents.driver import AgentSpec
from agent_eval.agents.host import HostSpec, MetricHosts, ModelOutages
from agent_eval.agents.protocol import AgentFailure, Session, SessionRequest
from agent_eval.agents.venv import AgentInterpreter, EnvironmentRequest, discard_damaged, ensure_environment


class ManagedAdkAgent:
    """Implements `protocol.Agent`."""

    def __init__(self, spec: AgentSpec) -> None:
        self._spec = spec
        self._context = spec.context
        self._metrics: MetricHosts | None = None
        self._agent: AdkAgent | None = None
        self._interpreter: asyncio.Future[AgentInterpreter] | None = None
        self._environment: dict[str, str] = {}

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
            if not await discard_damaged(await self._get_interpreter(), self._context.log):
                raise
            await self._agent.close()
            self._interpreter = None
            self._agent = await self._create_agent()
            await self._agent.start()

    async def _create_agent(self) -> AdkAgent:
        interpreter = await self._get_interpreter()
        self._environment = {**interpreter.versions, "environment": interpreter.origin}
        outages = ModelOutages(turn_timeout=self._context.turn_timeout, limiter=self._context.limiter)
        spec = dataclasses.replace(self._host_spec(interpreter), retry=RETRY_OPTIONS)
        return AdkAgent(spec, outages, workers=self._context.workers)

    async def _metrics_spec(self) -> HostSpec:
        return dataclasses.replace(self._host_spec(await self._get_interpreter()), role="metrics")

    def _host_spec(self, interpreter: AgentInterpreter) -> HostSpec:
        directory, source = self._spec.directory, self._spec.source
        agent_path = source if directory is None else str(directory.resolve())
        root = self._context.root
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
            opened=self._spec.opened,
        )

    async def _get_interpreter(self) -> AgentInterpreter:
        if self._interpreter is None:
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
        return await ensure_environment(
            request, sandbox=context.sandbox, masker=context.masker, cache_dir=context.cache_dir, log=context.log
        )

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
        if self._metrics is not None:
            await self._metrics.close()
        if self._agent is not None:
            await self._agent.close()


def _log_folder(agent_path: str, root: Path) -> str:
    """The folder's name: the agent's path in the repository, without special characters."""
    path = Path(agent_path)
    name = path.relative_to(root).as_posix() if path.is_relative_to(root) else agent_path
    name = root.name if name == "." else name
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", name.strip("/"))[-80:] or "agent"
