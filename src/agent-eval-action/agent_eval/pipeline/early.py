"""What a run starts before it is planned: the isolation of its agent, and the import of google-adk or the making of its
environment; also one agent without a run, for callers that talk to it without a plan.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent_eval.pipeline.context import (
    Early,
    Found,
    RunContext,
    agent_places,
    cache_of,
    masker_of,
    open_agents,
    prepare,
)
from agent_eval_agents import sandbox
from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.limiter import Limiter
from agent_eval_scoring.core.problem import Problem, has_error
from agent_eval_scoring.core.process import Begun

if TYPE_CHECKING:
    from agent_eval.settings import Settings
    from agent_eval_agents.discovery import AgentChoices
    from agent_eval_agents.protocol import Agent

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
    """Starts what an agent needs: the import of google-adk with `agent-python`, else its environment. Ends it if no one
    did.

    It is what the run would start later, with the same rights. An interpreter is started before the files are read, and
    has no code of the repository; building an environment may, so the files are without mistakes then.
    """
    with contextlib.ExitStack() as apart:
        early = None
        # The run meets it again and reports it, if it has an agent; a full disk as well.
        with contextlib.suppress(NotIsolated, OSError):
            if settings.agent_python:
                early = await _start_interpreter(settings, context, apart)
            elif _installs_first(settings, context):
                from agent_eval.pipeline._files import find

                context = dataclasses.replace(context, found=Found(begun=Begun(), files=find(settings)))
                early = await _begin_environment(settings, context, apart)
        context = dataclasses.replace(context, early=early)
        try:
            yield context
        finally:
            if early is not None:
                await _end(early, context)


async def _start_interpreter(settings: Settings, context: RunContext, apart: contextlib.ExitStack) -> Early | None:
    names = [name for name in (settings.agent, *settings.agents.values()) if name is not None]
    if settings.agent_python is None or settings.agent_setup or any(":" in name for name in names):
        return None
    from agent_eval_agents.venv import likely_start

    root = settings.root.resolve()
    isolation = apart.enter_context(open_isolation(settings, context, runs_here=True))
    masker = masker_of(settings.agent_headers, settings.agent_env, context.environ)
    if (likely := likely_start(settings.agent_python, root, isolation.sandbox)) is not None:
        context.parents.begin(likely[0], root, likely[1], masker)
        await asyncio.sleep(0)  # It starts now, before the rest of this is imported.
    from agent_eval_agents.venv import EnvironmentRequest, checked_interpreter

    request = EnvironmentRequest(start=root, root=root, python=settings.agent_python)
    probe = asyncio.create_task(checked_interpreter(request, isolation, masker))
    await asyncio.sleep(0)  # And its process now.
    return Early(isolation=isolation, apart=apart, interpreter=probe)


def _installs_first(settings: Settings, context: RunContext) -> bool:
    """Whether a run without mistakes surely needs the environment of its first agent, and nothing before it."""
    about = context.ci
    from_elsewhere = settings.resume or settings.merges or settings.shard is not None or settings.tape_mode != "live"
    from_queue = about.activity.kind == "record" and about.event.name == "push" and about.forge is not None
    return not (settings.agent_setup or from_elsewhere or from_queue)


async def _begin_environment(settings: Settings, context: RunContext, apart: contextlib.ExitStack) -> Early | None:
    assert context.found is not None
    suite, choices = context.found.files
    first = next((choice for choice in choices.by_file.values() if choice.in_python), None)
    if first is None or has_error([*suite.problems, *choices.problems]):
        return None
    from agent_eval_agents.venv import BegunEnvironment, EnvironmentRequest, unreachable

    root = settings.root.resolve()
    isolation = apart.enter_context(open_isolation(settings, context, runs_here=True))
    if has_error(unreachable(agent_places(settings, choices), root, isolation)):
        return Early(isolation=isolation, apart=apart)
    request = EnvironmentRequest(
        start=first.directory(root) or root,
        root=root,
        requirements=settings.agent_requirements,
        installer=sandbox.installer_environment(context.environ),
    )
    try:
        cache = cache_of(settings, context.environ, isolation)
    except PermissionError:  # The run reports it.
        return Early(isolation=isolation, apart=apart)
    masker = masker_of(settings.agent_headers, settings.agent_env, context.environ)
    begun = BegunEnvironment(request, sandbox=isolation.sandbox, masker=masker, cache_dir=cache)
    apart.callback(begun.cancel)  # Before the isolation ends, here or in the run.
    await asyncio.sleep(0)  # It begins now.
    return Early(isolation=isolation, apart=apart, environment=begun)


async def _end(early: Early, context: RunContext) -> None:
    if early.environment is not None:
        await early.environment.close()
    if early.interpreter is None:
        return
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
