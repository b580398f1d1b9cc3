"""Checks before a run whether the agents can be started, and with the interpreter that `agent-python` names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_eval_agents.dotenv import dotenv_of, unread_warnings
from agent_eval_agents.protocol import AgentFailure
from agent_eval_agents.sandbox import Isolation, blocked_at
from agent_eval_agents.venv.environment import AgentInterpreter, EnvironmentRequest, named_interpreter
from agent_eval_scoring.core.masking import Masker
from agent_eval_scoring.core.problem import Problem, Severity, docs_page

_SOURCES = ("agent.py", "__init__.py", "root_agent.yaml")


@dataclass(frozen=True, kw_only=True)
class AgentPlace:
    """The location of an agent."""

    name: str
    """Its name for messages."""
    directory: Path | None
    """Absolute; None for a dotted module."""
    working_directory: Path
    """Absolute; the working directory of its process."""


def unreachable(places: Sequence[AgentPlace], root: Path, isolation: Isolation) -> list[Problem]:
    """Findings for directories and files that the agent's user can't access, without duplicates.

    Args:
        places: The locations of all agents that will be started.
        root: The repository's root.
        isolation: The active isolation, with its seals.
    """
    who = isolation.sandbox.who
    who = who[:1].upper() + who[1:]
    problems: dict[str, Problem] = {}
    for place in places:
        if not place.working_directory.is_dir():
            problem = _error(
                "setting-invalid",
                f"agent-cwd: {place.working_directory} is not a directory.",
                "Set project, root, agent, or a directory; a relative path starts at the repository's root.",
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
            message = f"{who} can't read the agent {place.name} because of the permissions of {part}."
            problems.setdefault(message, _error("agent-unreachable", message, _access_hint(part, isolation)))
        elif place.directory is not None and (dotenv := dotenv_of(place.directory, root)) is not None:
            if part := blocked_at(dotenv, isolation.sandbox.user, need=os.R_OK):
                message = f"{who} can't read {dotenv} because of the permissions of {part}; it is not loaded."
                problems.setdefault(message, _unread(message, part))
            else:
                problems |= {f"{dotenv}:{problem.line}": problem for problem in unread_warnings(dotenv, root)}
    return list(problems.values())


async def checked_interpreter(
    request: EnvironmentRequest, isolation: Isolation, masker: Masker, *, after_setup: bool = False
) -> tuple[AgentInterpreter | None, list[Problem]]:
    """The interpreter that `agent-python` names, or why it can't be used.

    Args:
        request: The request, with `python` set.
        isolation: The active isolation.
        masker: Applied to the interpreter's output.
        after_setup: Whether `agent-setup` has run, which may create the interpreter.
    """
    try:
        return await named_interpreter(request, isolation.sandbox, masker), []
    except AgentFailure as failure:
        tail = f"\n{failure.log_tail.strip()}" if failure.log_tail and failure.log_tail.strip() else ""
        when = "agent-python, after agent-setup has run" if after_setup else "agent-python"
        hint = failure.hint
        if after_setup:
            setup = "agent-setup runs at the repository's root and must create the interpreter of agent-python."
            hint = f"{setup} {hint or ''}"
        return None, [_error("agent-python-unusable", f"{when}: {failure.message}.{tail}", hint)]


def _unread(message: str, part: Path) -> Problem:
    hint = f"Pass the variables that the agent needs with `agent-env`, or allow others to read it (`chmod o+r {part}`)."
    return Problem(severity=Severity.WARNING, code="env-file-unreadable", message=message, hint=hint)


def _access_hint(part: Path, isolation: Isolation) -> str:
    if isolation.sandbox.user is None:
        return f"Grant your user read permission for {part}."
    if part in isolation.closed:
        return (
            f"agent-eval seals {part} during a run, because it may contain the job's secrets "
            f"({docs_page('security')}). Move the agent out of it, or run as a user other than root."
        )
    remedy = f"Allow others to read it (`chmod -R o+rX {part}`), or run as a user other than root"
    return f"{remedy} ({docs_page('security')})."


def _error(code: str, message: str, hint: str | None) -> Problem:
    return Problem(code=code, message=message, hint=hint)
