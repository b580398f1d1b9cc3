"""The driver for agents behind A2A (docs/remote-agents.md): speaks JSON-RPC in the dialects 0.3 and 1.0."""

from __future__ import annotations

import re
from pathlib import Path

from agent_eval_agents.driver import AgentSpec, Driver
from agent_eval_agents.protocol import Agent
from agent_eval_scoring.core.problem import Problem, Severity

A2A = "a2a:"
"""Begins the name of an agent behind A2A: `a2a:URL`."""
_CARD = re.compile(r"/\.well-known/agent(?:-card)?\.json/?$")


def _create(spec: AgentSpec) -> Agent:
    from agent_eval_agents.a2a.agent import A2aAgent

    return A2aAgent(spec)


def _refuse(source: str, root: Path, origin: str) -> Problem | None:
    """See `Driver.refuse`."""
    from agent_eval_agents.http import parse_url

    try:
        why = "" if not parse_url(source).fragment else "it has a fragment (#...)"
    except ValueError as error:
        why = str(error)
    if not why and (card := _CARD.search(source)) is not None:
        message = f"{origin} names an agent card, but `a2a:` takes the address above it."
        return Problem(code="remote-agent-url", message=message, hint=f"Write `a2a:{source[: card.start()]}`.")
    if not why:
        return None
    return Problem(
        code="remote-agent-url",
        message=f"{origin} names an agent behind A2A, but its address can't be used: {why}.",
        hint="Write `a2a:http://HOST:PORT`, with the path above `/.well-known/agent-card.json` if there is one.",
    )


DRIVER = Driver(
    prefix=A2A, runs_here=False, repeatable=True, remote=True, takes_state=False, create=_create, refuse=_refuse
)
__all__ = ["A2A", "DRIVER"]
