"""`agent-eval init [DIR]`: sets up evals for the agents of a repository. Overwrites nothing."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from agent_eval.commands import CliIO
from agent_eval.commands.start import print_problems
from agent_eval_scoring.core.text import harmless
from agent_eval_workbench.authoring.terminal import has_terminal, read_line
from agent_eval_workbench.setup import MOST_AGENTS, Setup, Step, apply, plan_setup, record_command

_WORDS = {"create": "created", "change": "changed"}
_DRY_WORDS = {"create": "create", "change": "change"}


def execute(arguments: argparse.Namespace, io: CliIO) -> int:
    """Runs the command and returns its exit code."""
    root = Path.cwd() / arguments.directory
    setup = plan_setup(root, ci=arguments.ci)
    if setup.problems:
        print_problems(setup.problems)
        return 2
    if not arguments.dry_run:
        apply(setup)
    words = _DRY_WORDS if arguments.dry_run else _WORDS
    io.print_result(harmless("\n".join(_table(setup, words, io.width))))
    asks = not (arguments.yes or arguments.dry_run) and has_terminal()
    left = _recorded(setup, root) if asks else list(setup.records)
    lines = _next(
        left, arguments.directory, arguments.dry_run and any(step.status in _DRY_WORDS for step in setup.steps)
    )
    if setup.records and not arguments.dry_run:
        lines.append("  (--record all keeps the model's answers, so that CI asks it only for what changes)")
    io.print_result(harmless("\n".join(lines)))
    return 0


def _table(setup: Setup, words: dict[str, str], width: int) -> list[str]:
    column = max((len(step.what) for step in setup.steps), default=0)
    column = min(column, max(width // 2, 20))
    lines = [_line(step, words, column) for step in setup.steps]
    if setup.snippet:
        lines += ["", *(f"    {line}" for line in setup.snippet.splitlines())]
    return lines


def _line(step: Step, words: dict[str, str], column: int) -> str:
    word = words.get(step.status, step.status)
    return f"{word:<8}  {step.what:<{column}}  {step.note}".rstrip()


def _recorded(setup: Setup, root: Path) -> list[tuple[str, str]]:
    """Offers to record a case of each agent. Returns what is left to record."""
    left: list[tuple[str, str]] = []
    for number, (file, agent) in enumerate(setup.records):
        try:
            answer = read_line(f"\nTalk to {harmless(agent)} now, and keep the conversation as its first case? [Y/n] ")
        except (EOFError, KeyboardInterrupt):
            print()
            return [*left, *setup.records[number:]]
        if answer.strip().lower() in {"", "y", "yes"}:
            command = [sys.executable, "-m", "agent_eval", "record", file]
            if subprocess.run(command, cwd=root, check=False).returncode == 0 and (root / file).exists():
                continue
        left.append((file, agent))
    return left


def _next(left: list[tuple[str, str]], directory: Path, is_dry: bool) -> list[str]:
    """The next command; is_dry: what was shown is to be written first."""
    lines = [""]
    if directory != Path():
        lines.append(f"Next, in {directory}:")
    else:
        lines.append("Next:")
    if is_dry:
        lines.append("  agent-eval init")
    lines += [f"  {record_command(file)}" for file, _ in left[:MOST_AGENTS]]
    if not (is_dry or left):
        lines.append("  agent-eval run")
    return lines
