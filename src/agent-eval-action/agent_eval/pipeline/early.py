"""What a run starts before it has read its files: the isolation of its agent, and the import of google-adk; also one
agent without a run, for callers that talk to it without a plan.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent_eval.pipeline.context import Early, RunContext, masker_of, open_agents, prepare
from agent_eval_agents import sandbox
from agent_eval_agents.loading import cores
from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.limiter import Limiter
from agent_eval_scoring.core.problem import Problem, has_error

if TYPE_CHECKING:
    from agent_eval.settings import Settings
    from agent_eval_agents.discovery import AgentChoices
    from agent_eval_agents.protocol import Agent

_AT_ONCE = 3
"""Processes that compute at the start: the import of google-adk, the probe of its interpreter, and this one."""
_PROBE_SECONDS = 1.0
_END_SECONDS = 2.0
"""For the end of what was started early and not needed."""


class AgentUnavailable(AgentEvalError):
    """The agent can't be started as it is configured. Nothing was asked."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(problem.message for problem in problems))
        self.problems = tuple(problems)


class NotIsolated(AgentUnavailable):
    """The agent can't be isolated as required; nothing was started."""


@contextlib.asynccontextmanager
async def starting_early(settings: Settings, context: RunContext) -> AsyncIterator[RunContext]:
    """Starts what an agent of `agent-python` needs, if the settings say which one that is; ends it if no one did.

    It is what the run would start later, with the same rights, and has no code of the repository.
    """
    names = [name for name in (settings.agent, *settings.agents.values()) if name is not None]
    with contextlib.ExitStack() as apart:
        early = None
        if settings.agent_python and not settings.agent_setup and not any(":" in name for name in names):
            from agent_eval_agents.venv import likely_start

            with contextlib.suppress(NotIsolated):  # The run reports it, if it has an agent.
                root = settings.root.resolve()
                isolation = apart.enter_context(open_isolation(settings, context, runs_here=True))
                masker = masker_of(settings.agent_headers, settings.agent_env, context.environ)
                if (likely := likely_start(settings.agent_python, root, isolation.sandbox)) is not None:
                    context.parents.begin(likely[0], root, likely[1], masker)
                    await asyncio.sleep(0)  # It starts now, before the rest of this is imported.
                from agent_eval_agents.venv import EnvironmentRequest, checked_interpreter

                request = EnvironmentRequest(start=root, root=root, python=settings.agent_python)
                probe = asyncio.create_task(checked_interpreter(request, isolation, masker))
                early = Early(isolation=isolation, apart=apart, interpreter=probe)
                # And its process now. A third that computes would delay the import, for which the run waits longest.
                await asyncio.wait({probe}, timeout=_PROBE_SECONDS if cores() < _AT_ONCE else 0)
        try:
            yield dataclasses.replace(context, early=early)
        finally:
            if early is not None:
                ending = {early.interpreter, asyncio.create_task(context.parents.close())}
                for _ in range(2):  # The second time out of waiting for a process whose children hold its output.
                    early.interpreter.cancel()
                    _, ending = await asyncio.wait(ending, timeout=_END_SECONDS)
                    if not ending:
                        break
                for task in ending:
                    task.cancel()


def isolate(
    settings: Settings, context: RunContext, apart: contextlib.ExitStack, *, runs_here: bool
) -> sandbox.Isolation:
    """As `open_isolation`, until `apart` ends; the one that has been opened early if there is one.

    Raises:
        NotIsolated: As there.
    """
    if runs_here and context.early is not None:
        apart.push(context.early.apart.pop_all())
        return context.early.isolation
    return apart.enter_context(open_isolation(settings, context, runs_here=runs_here))


@contextlib.contextmanager
def open_isolation(
    settings: Settings, context: RunContext, *, runs_here: bool, name: str | None = None, reachable: Sequence[Path] = ()
) -> Iterator[sandbox.Isolation]:
    """Isolates the agents of a checkout from us.

    Args:
        settings: As they hold for the checkout.
        context: The run's context.
        runs_here: Whether there is an agent with a process here.
        name: Another account than the one that the machine keeps for agents.
        reachable: What other agents of the run need, which must not be closed to them either.

    Raises:
        NotIsolated: Isolation is required and not possible.
    """
    if not runs_here:
        yield sandbox.NO_PROCESS
        return
    cache = [] if settings.cache_dir is None else [settings.root / settings.cache_dir]
    environ, left_out = sandbox.without_github_identity(context.environ, settings.agent_env)
    with sandbox.isolated(
        environ,
        root=settings.root,
        output_dir=settings.output,
        allow=sandbox.allow_list(settings.agent_env),
        reachable=[*cache, *reachable],
        name=name or sandbox.AGENT_USER,
    ) as isolation:
        if has_error(isolation.problems):
            raise NotIsolated(isolation.problems)
        yield dataclasses.replace(isolation, problems=(*isolation.problems, *left_out))


@contextlib.asynccontextmanager
async def open_live_agent(settings: Settings, context: RunContext, choices: AgentChoices) -> AsyncIterator[Agent]:
    """Starts an agent with the isolation, the environment, and the masking of a run.

    Args:
        settings: The output directory receives the logs of the agent's processes.
        context: The environment, and where lines are logged.
        choices: Without problems, and with one agent.

    Raises:
        AgentUnavailable: Isolation is required and not possible, or the agent is configured wrongly.
        AgentFailure: The agent fails when it starts.
    """
    from agent_eval_agents.protocol import AgentRefused

    [path] = {choice.path for choice in choices.by_file.values()}
    with contextlib.ExitStack() as stack:
        isolation = stack.enter_context(open_isolation(settings, context, runs_here=choices.runs_here))
        prepared = await prepare(settings, context, choices, isolation, until=time.monotonic() + settings.run_timeout)
        if has_error(prepared.problems):
            raise AgentUnavailable(prepared.problems)
        for problem in [*isolation.problems, *prepared.problems]:
            context.log(f"agent-eval: {problem.message}")
        limiter = Limiter.of(settings.concurrency, remote=choices.remote)
        async with open_agents(settings, context, choices, isolation, limiter, prepared) as agents:
            try:
                await agents[path].start()
                yield agents[path]
            except AgentRefused as refused:
                raise AgentUnavailable([refused.problem]) from refused
