"""`agent-eval tapes`: lists the recorded tool calls of the eval files, and removes those without a case."""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from agent_eval.agents.tapes import InvalidTape, Tape, read_tape
from agent_eval.commands._io import CliIO
from agent_eval.commands.start import log_start_directory, print_problems, settings_of
from agent_eval.core.problem import Problem, has_error
from agent_eval.core.text import listed, plural
from agent_eval.pipeline import StoredTape, load, stale_tools_by, stored_tapes


def execute(arguments: argparse.Namespace, io: CliIO) -> int:
    """Runs the command and returns its exit code: 2 if a tape or an eval file is invalid."""
    log_start_directory(io)
    settings, problems = settings_of(arguments, io)
    suite = load(settings)
    problems += suite.errors
    if has_error(problems):  # Cases of invalid files are unknown, so any tape may have one.
        print_problems(problems)
        return 2
    tapes = stored_tapes(settings, suite)
    stale_tools = stale_tools_by(settings)
    invalid: list[Problem] = []
    kept: list[StoredTape] = []
    for tape in tapes:
        if tape.case_id is None and arguments.prune:
            if tape.path.parent.is_symlink():
                print(f"kept {tape.name}: its directory is a symbolic link")
                continue
            tape.path.unlink()
            print(f"removed {tape.name}: it belongs to no case")
            with contextlib.suppress(OSError):  # It has other files.
                tape.path.parent.rmdir()
            continue
        kept.append(tape)
        try:
            print(_line(tape, settings.root, stale_tools))
        except InvalidTape as error:
            invalid += error.problems
    orphans = sum(tape.case_id is None for tape in kept)
    print(f"{plural(len(kept), 'tape')}{f', {orphans} without a case (--prune removes them)' if orphans else ''}")
    print_problems(invalid)
    return 2 if invalid else 0


def _line(stored: StoredTape, root: Path, stale_tools: Callable[[Tape], dict[str, str]]) -> str:
    """One tape: its case or file, and what is in it."""
    tape = read_tape(stored.path, root)
    if tape is None:
        return f"{stored.name}: removed meanwhile"
    days = int(max(time.time() - tape.recorded_at, 0) // 86_400)
    unplayable = sum(not call.replayable for call in tape.calls)
    facts = [
        plural(len(tape.calls), "call"),
        listed(sorted(tape.tools), 5) or "no tools",
        f"{plural(days, 'day')} old" if days else "recorded today",
        plural(tape.runs, "run"),
        f"{stored.path.stat().st_size / 1_000:.1f} kB",
        *([f"{unplayable} can't be replayed"] if unplayable else []),
        *(f"stale: {tool} has changed ({what})" for tool, what in sorted(stale_tools(tape).items())),
    ]
    return f"{stored.case_id or f'{stored.name} (no case)'}: {'; '.join(facts)}"
