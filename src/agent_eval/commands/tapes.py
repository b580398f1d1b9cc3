"""`agent-eval tapes`: lists the tapes of the eval files and the calls on them, and removes those without a case."""

from __future__ import annotations

import argparse
import contextlib
import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from agent_eval.agents.tapes import InvalidTape, ModelExchange, RecordedCall, Tape, contents_of, read_tape
from agent_eval.commands._io import CliIO
from agent_eval.commands.start import log_start_directory, print_problems, settings_of
from agent_eval.core.content import FunctionCall
from agent_eval.core.problem import Problem, has_error
from agent_eval.core.text import harmless, listed, plural, shorten, unbroken
from agent_eval.criteria import render_call
from agent_eval.pipeline import StoredTape, load, stale_tools_by, stored_tapes

_LONGEST = 100
"""Characters of a question or an answer."""


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
            print(*_lines(tape, settings.root, stale_tools, calls=arguments.show), sep="\n")
        except InvalidTape as error:
            invalid += error.problems
    orphans = sum(tape.case_id is None for tape in kept)
    print(f"{plural(len(kept), 'tape')}{f', {orphans} without a case (--prune removes them)' if orphans else ''}")
    print_problems(invalid)
    return 2 if invalid else 0


def _lines(
    stored: StoredTape, root: Path, stale_tools: Callable[[Tape], dict[str, str]], *, calls: bool
) -> Iterable[str]:
    """One tape: its case or file, and what is in it; with `calls`, each of them."""
    tape = read_tape(stored.path, root)
    if tape is None:
        yield f"{stored.name}: removed meanwhile"
        return
    days = int(max(time.time() - tape.recorded_at, 0) // 86_400)
    unplayable = sum(not call.replayable for call in tape.calls)
    facts = [
        plural(len(tape.calls), "call"),
        listed(sorted(tape.tools), 5) or "no tools",
        *([plural(len(tape.model_calls), "model call")] if tape.model_calls else []),
        f"{plural(days, 'day')} old" if days else "recorded today",
        plural(tape.runs, "run"),
        f"{stored.path.stat().st_size / 1_000:.1f} kB",
        *([f"{unplayable} can't be replayed"] if unplayable else []),
        *(f"stale: {tool} has changed ({what})" for tool, what in sorted(stale_tools(tape).items())),
    ]
    yield f"{stored.case_id or f'{stored.name} (no case)'}: {'; '.join(facts)}"
    if calls:
        last = len(tape.model_calls) + len(tape.calls)
        made: list[ModelExchange | RecordedCall] = [*tape.model_calls, *tape.calls]
        made.sort(key=lambda call: last if call.done is None else call.done)
        yield from (f"  {harmless(unbroken(_call(call, tape)))}" for call in made)


def _call(call: ModelExchange | RecordedCall, tape: Tape) -> str:
    """What was asked and answered."""
    who = f"{call.agent}: " if call.agent else ""
    if isinstance(call, RecordedCall):
        answer = call.error.type if call.error else json.dumps(call.response, ensure_ascii=False)
        other = "" if call.done is not None or not tape.model_calls else " (another run)"
        return f"{who}{render_call(FunctionCall(name=call.tool, args=call.args))} -> {shorten(answer, _LONGEST)}{other}"
    asked = _content((contents_of(call.request, tape.parts) or [None])[-1])
    answer = _content(call.responses[-1].get("content"))
    return f"{who}{call.model} asked {shorten(asked, _LONGEST)} -> {shorten(answer, _LONGEST)}"


def _content(content: Any) -> str:
    """The calls, answers and texts of a content."""
    parts = content.get("parts") if isinstance(content, dict) else None
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        return json.dumps(content, ensure_ascii=False)
    # Of a tool's answer, the line of its call has the rest.
    return " ".join(
        f"{value.get('name')}()" if isinstance(value, dict) else json.dumps(value, ensure_ascii=False)
        for part in parts
        for value in part.values()
        if not isinstance(value, bool)
    )
