"""What commands begin with: their settings, and the problems that they print."""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from types import EllipsisType

from agent_eval.commands._io import CliIO
from agent_eval.core.problem import Problem, Severity, alike
from agent_eval.core.text import carriable, plural, without_commands, workflow_command
from agent_eval.evalset.models import Suite
from agent_eval.evalset.paths import repository_of
from agent_eval.settings import SETTINGS, Settings, read_settings


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
    if session := getattr(arguments, "initial_session", None):
        settings = dataclasses.replace(settings, initial_session=Path(session))
    if directories := getattr(arguments, "directories", None):
        settings = dataclasses.replace(settings, shards=tuple(directories))
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


_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_ORDER = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTICE: 2}


def print_problems(problems: Sequence[Problem], format: str = "text") -> None:
    """Prints problems to stdout as `text`, `json` or `github`."""
    if format == "json":
        print(render_json(problems), end="")
    elif format == "github":
        print(render_github(problems), end="")
    elif problems:
        print(render_text(problems))


def log_problems(problems: Sequence[Problem], io: CliIO) -> None:
    """Logs problems, if there are any."""
    if problems:
        io.log(render_text(problems).rstrip())


def summary_line(suite: Suite) -> str:
    """E.g. `12 files, 80 cases, 0 errors, 1 warning`. The cases of files with errors are unknown, which is said."""
    counts = [plural(suite.file_count, "file"), plural(sum(len(file.cases) for file in suite.files), "case")]
    if invalid := suite.file_count - len(suite.files):
        counts[0] += f" ({invalid:,} with errors)"
        counts[1:] = [f"{counts[1]} in the others"] if suite.files else []
    return ", ".join([*counts, *_counts(suite.problems)])


def _counts(problems: Iterable[Problem]) -> list[str]:
    severities = [problem.severity for problem in problems]
    counts = [plural(severities.count(Severity.ERROR), "error"), plural(severities.count(Severity.WARNING), "warning")]
    return counts + [plural(severities.count(Severity.NOTICE), "notice")] * (Severity.NOTICE in severities)


def render_text(problems: Sequence[Problem]) -> str:
    """Problems grouped by file, each with its hint; "" for none. Safe to print to a CI log."""
    blocks = []
    for file, group in groupby(alike(_sorted(problems)), key=lambda each: each[0].file or ""):
        lines = [_plain(file)] if file else []
        for problem, others in group:
            numbers = [str(number) for number in (problem.line, problem.column) if number is not None]
            where = f"{':'.join(numbers)}: " if numbers else ""
            inside = f" ({_plain(problem.path)})" if problem.path else ""
            lines.append(f"  {where}{problem.severity} [{problem.code}] {_plain(problem.message + others)}{inside}")
            for number, line in enumerate((problem.hint or "").splitlines()):
                lines.append(f"      {_plain(line)}" if number else f"      hint: {_plain(line)}")
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def render_json(problems: Sequence[Problem]) -> str:
    """A JSON list of problems with all fields, sorted by place; ends with a line break."""
    items = [dataclasses.asdict(problem) for problem in _sorted(problems)]
    for item in items:
        del item["stands_for"]
    return json.dumps(items, indent=2) + "\n"


def render_github(problems: Sequence[Problem]) -> str:
    """A workflow command for each problem, errors first, because GitHub shows ten of each kind; "" for none.

    Commands: https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
    """
    ordered = sorted(_sorted(problems), key=lambda problem: _ORDER[problem.severity])
    return "".join(
        workflow_command(
            problem.severity.value,
            problem.message + (f"\n{problem.hint}" if problem.hint else "") + _inside(problem),
            {
                "file": problem.file,
                "line": problem.line,
                "col": problem.column,
                "title": problem.code,
            },
        )
        + "\n"
        for problem in ordered
    )


def _inside(problem: Problem) -> str:
    return f"\n(at {problem.path})" if problem.path else ""


def _sorted(problems: Sequence[Problem]) -> list[Problem]:
    return sorted(
        problems, key=lambda problem: (problem.file or "", problem.line or 0, problem.column or 0, problem.code)
    )


def _plain(value: str) -> str:
    """The text on one line, without terminal sequences and workflow commands."""
    return without_commands(_CONTROL.sub(" ", carriable(value)))
