"""Runs the functions of agents-cli for agents without a Python environment of ours: recorded, remote, or others."""

from __future__ import annotations

from typing import Any

from agent_eval_agents.adk._driver import ManagedAdkAgent
from agent_eval_agents.driver import AgentSpec
from agent_eval_agents.host import MetricHosts
from agent_eval_agents.protocol import Agent


class WithFunctions:
    """An agent, and the environment of its repository. Implements `protocol.Agent`."""

    def __init__(self, agent: Agent, spec: AgentSpec) -> None:
        """Starts nothing yet."""
        self._agent = agent
        self._code = ManagedAdkAgent(spec)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._agent, name)

    @property
    def metrics(self) -> MetricHosts:
        """Runs the functions."""
        return self._code.metrics

    async def close(self) -> None:
        """Ends the processes of both."""
        await self._code.close()
        await self._agent.close()
