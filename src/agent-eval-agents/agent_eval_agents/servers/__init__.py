"""The driver for servers that the gate starts itself: `server:NAME`, declared in `[servers.NAME]`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_eval_agents.adk_rest import shared_state
from agent_eval_agents.driver import AgentSpec, Driver

if TYPE_CHECKING:
    from agent_eval_agents.protocol import Agent

PREFIX = "server:"


def _create(spec: AgentSpec) -> Agent:
    from agent_eval_agents.servers._agent import ServerAgent

    return ServerAgent(spec, spec.context.remote.servers[spec.source])


DRIVER = Driver(
    prefix=PREFIX, runs_here=True, in_python=False, remote=True, repeatable=True, create=_create, check=shared_state
)
__all__ = ["DRIVER", "PREFIX"]
