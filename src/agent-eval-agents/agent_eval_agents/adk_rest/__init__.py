"""The driver for agents behind ADK's REST interface (`adk:URL#app`), whatever language they are written in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent_eval_agents.adk_rest._normalise import normalised
from agent_eval_agents.driver import AgentSpec, Driver
from agent_eval_scoring.core.problem import Problem, Severity

if TYPE_CHECKING:
    from agent_eval_agents.protocol import Agent
    from agent_eval_scoring.evalset.models import LoadedFile

PREFIX = "adk:"
_OF_SERVER = re.compile(r"(/(?:list-apps|run|run_sse|docs|dev-ui|openapi\.json))/?(?=#|$)")
"""Paths of a server below the address that `adk:` takes."""


def _create(spec: AgentSpec) -> Agent:
    from agent_eval_agents.adk_rest.agent import AdkRestAgent

    return AdkRestAgent(spec)


def _refuse(source: str, root: Path, origin: str) -> Problem | None:
    """See `Driver.refuse`."""
    from agent_eval_agents.http import parse_url

    try:
        parse_url(source)
    except ValueError as error:
        return Problem(
            code="remote-agent-url",
            message=f"{origin} names an agent behind ADK's REST interface, but its address can't be used: {error}.",
            hint="Write `adk:http://HOST:PORT`, with a prefix and `#APP` if the server needs them.",
        )
    if (path := _OF_SERVER.search(source)) is not None:
        message = f"{origin} names `{path[1]}` of ADK's REST interface, but `adk:` takes the address of the server."
        return Problem(
            code="remote-agent-url",
            message=message,
            hint=f"Write `adk:{source[: path.start()]}{source[path.end() :]}`.",
        )
    return None


def shared_state(source: str, root: Path, files: Sequence[LoadedFile], runs: int | None) -> list[Problem]:
    """Notices about cases whose state all sessions of the server share; see `Driver.check`."""
    problems = []
    for file in files:
        sessions = (case.session_input for case in file.cases)
        keys = {key for session in sessions if session is not None for key in session.state if key.startswith("app:")}
        if keys:
            problems.append(
                Problem(
                    severity=Severity.NOTICE,
                    code="remote-shared-app-state",
                    message=f"Cases begin with the state {', '.join(f'`{key}`' for key in sorted(keys)[:5])}, which "
                    "all sessions of the agent's server share: runs may see the state of others.",
                    hint="Use keys without the prefix `app:`, or `concurrency: 1`.",
                    file=file.path,
                )
            )
    return problems


DRIVER = Driver(
    prefix=PREFIX, runs_here=False, remote=True, repeatable=True, create=_create, refuse=_refuse, check=shared_state
)
__all__ = ["DRIVER", "normalised", "shared_state"]
