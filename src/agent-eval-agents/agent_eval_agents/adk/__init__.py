"""The driver for ADK agents: starts host processes, sends them turns, and converts their events to invocations."""

from agent_eval_agents.driver import AgentSpec, Driver
from agent_eval_agents.protocol import Agent


def _create(spec: AgentSpec) -> Agent:
    from agent_eval_agents.adk._driver import ManagedAdkAgent

    return ManagedAdkAgent(spec)


DRIVER = Driver(prefix="", runs_here=True, in_python=True, repeatable=True, replays_tools=True, create=_create)
__all__ = ["DRIVER"]
