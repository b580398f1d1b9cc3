"""What commands begin with: their settings, and the problems that they print."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import EllipsisType
from typing import Any

from agent_eval.commands import CliIO
from agent_eval.gate.policy import PolicyEntry
from agent_eval.settings import SETTINGS, Settings, read_settings
from agent_eval_scoring.core.problem import Problem
from agent_eval_scoring.evalset.paths import repository_of


def settings_of(
    arguments: argparse.Namespace,
    io: CliIO,
    *,
    inputs: Mapping[str, str] | None = None,
    text: str | EllipsisType | None = ...,
) -> tuple[Settings, list[Problem]]:
    """Reads the settings; see `read_settings`.

    Args:
        arguments: The parsed arguments. Flags have the name of the setting's field.
        io: Its environment contains the secrets.
        inputs: The environment with the action's inputs; None on the command line.
        text: The content of agent-eval.toml instead of the file in the current directory.
    """
    flags = {
        setting.input: value
        for setting in SETTINGS
        if (value := getattr(arguments, setting.field, None)) is not None and value != []
    }
    settings, problems = read_settings(Path.cwd(), flags=flags, environ=inputs, secrets=io.environ, text=text)
    changes: dict[str, Any] = {}
    if session := getattr(arguments, "initial_session", None):
        changes["initial_session"] = Path(session)
    if directories := getattr(arguments, "directories", None):
        changes["shards"] = tuple(directories)
    if thresholds := getattr(arguments, "threshold", None):
        # They hold as the last entries of the policy.
        entries = (PolicyEntry(metric=name, threshold=value) for name, value in thresholds)
        changes["policy"] = dataclasses.replace(settings.policy, entries=(*settings.policy.entries, *entries))
    settings = dataclasses.replace(settings, **changes)
    if len(settings.paths) < 2:
        return settings, problems
    from agent_eval.pipeline import with_agent_of_paths

    return with_agent_of_paths(settings), problems


def log_start_directory(io: CliIO) -> None:
    """Logs what paths are relative to if the current directory is not the root of the git repository."""
    directory = Path.cwd()
    root = repository_of(directory)
    if root is not None and root != directory:
        io.log(
            f"agent-eval: started in {directory.relative_to(root).as_posix()}/ of the repository {root}. Eval files, "
            "agents and agent-eval.toml are searched there, and paths are relative to it."
        )


def print_problems(problems: Sequence[Problem], format: str = "text") -> None:
    """Prints problems to stdout as `text`, `json` or `github`."""
    from agent_eval_scoring.evalset.problem_texts import render_github, render_json, render_text

    if format == "json":
        print(render_json(problems), end="")
    elif format == "github":
        print(render_github(problems), end="")
    elif problems:
        print(render_text(problems))


def log_problems(problems: Sequence[Problem], io: CliIO) -> None:
    """Logs problems, if there are any."""
    if problems:
        from agent_eval_scoring.evalset.problem_texts import render_text

        io.log(render_text(problems).rstrip())
