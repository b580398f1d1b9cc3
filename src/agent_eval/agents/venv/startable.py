"""Whether agents can be started at all: what is wrong with the set-up is found before anything runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_eval.agents.venv.environment import AgentInterpreter, EnvironmentRequest, given_interpreter
from agent_eval.agents.sandbox import Isolation
from agent_eval.agents.protocol import AgentFailure
from agent_eval.agents.sandbox import blocked_at
from agent_eval.core.masking import Masker
from agent_eval.core.problem import Problem, Severity

_SOURCES = ("agent.py", "__init__.py", "root_agent.yaml")


@dataclass(frozen=True, kw_only=True)
class AgentPlace:
    """Where an agent is."""

    name: str
    """As people know it."""
    directory: Path | None
    """Absolute; None for a dotted module."""
    working_directory: Path
    """Absolute; where its process will start."""


def unreachable(places: Sequence[AgentPlace], isolation: Isolation) -> list[Problem]:
    """Errors about directories and files that the agent's user can't get at, each once.

    Args:
        places: Of all agents that will be started.
        isolation: As it is in force: what the agent must not enter is closed.
    """
    problems: dict[str, Problem] = {}
    for place in places:
        if not place.working_directory.is_dir():
            problem = _error(
                "setting-invalid",
                f"agent-cwd: {place.working_directory} is not a directory.",
                "Write project, root, agent, or a directory; a relative path starts at the repository's root.",
            )
            problems.setdefault(problem.message, problem)
            continue
        needed = [(place.working_directory, os.X_OK)]
        if place.directory is not None:
            needed.append((place.directory, os.R_OK | os.X_OK))
            needed += [(file, os.R_OK) for name in _SOURCES if os.path.lexists(file := place.directory / name)]
        blocked = (blocked_at(path, isolation.sandbox.user, need=need) for path, need in needed)
        part = next((part for part in blocked if part is not None), None)
        if part is not None:
            message = f"{_who(isolation)} can't read the agent {place.name} because of the permissions of {part}."
            problems.setdefault(message, _error("agent-unreachable", message, _way_out(part, isolation)))
    return list(problems.values())


async def checked_interpreter(
    request: EnvironmentRequest, isolation: Isolation, masker: Masker, *, after_setup: bool = False
) -> tuple[AgentInterpreter | None, list[Problem]]:
    """The interpreter that `agent-python` names, or why it can't be used.

    Args:
        request: Names it.
        isolation: As it is in force.
        masker: For what the interpreter prints.
        after_setup: Whether `agent-setup` has run, which should have made it.
    """
    try:
        return await given_interpreter(request, isolation.sandbox, masker), []
    except AgentFailure as failure:
        tail = f"\n{failure.log_tail.strip()}" if failure.log_tail and failure.log_tail.strip() else ""
        when = "agent-python, after agent-setup has run" if after_setup else "agent-python"
        hint = failure.hint
        if after_setup:
            hint = f"agent-setup runs at the repository's root and must make what agent-python names. {hint or ''}"
        return None, [_error("agent-python-unusable", f"{when}: {failure.message}.{tail}", hint)]


def _who(isolation: Isolation) -> str:
    account = isolation.sandbox.user
    return "This user" if account is None else f"The agent's user `{account.name}` (uid {account.uid})"


def _way_out(part: Path, isolation: Isolation) -> str:
    if isolation.sandbox.user is None:
        return f"Give yourself the permission to read {part}."
    if part in isolation.closed:
        return (
            f"agent-eval closes {part} to the agent while it runs, since it may hold the job's secrets "
            "(docs/security.md). Move the agent out of it, or run as a user other than root."
        )
    return f"Let others read it (`chmod -R o+rX {part}`), or run as a user other than root (docs/security.md)."


def _error(code: str, message: str, hint: str | None) -> Problem:
    return Problem(severity=Severity.ERROR, code=code, message=message, hint=hint)
