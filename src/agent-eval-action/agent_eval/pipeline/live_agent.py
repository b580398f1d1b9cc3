"""One agent, started as for a run, for callers that talk to it without a plan."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from agent_eval.pipeline.context import RunContext, open_agents, prepare
from agent_eval.pipeline.early import NotIsolated, open_isolation
from agent_eval_agents.protocol import Agent, AgentRefused
from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.limiter import Limiter
from agent_eval_scoring.core.problem import Problem, has_error

if TYPE_CHECKING:
    from agent_eval.settings import Settings
    from agent_eval_agents.discovery import AgentChoices


class AgentUnavailable(AgentEvalError):
    """The agent can't be started as it is configured. Nothing was asked."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(problem.message for problem in problems))
        self.problems = tuple(problems)


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
    [path] = {choice.path for choice in choices.by_file.values()}
    with contextlib.ExitStack() as stack:
        try:
            isolation = stack.enter_context(open_isolation(settings, context, runs_here=choices.runs_here))
        except NotIsolated as refused:
            raise AgentUnavailable(refused.problems) from refused
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
