"""`agent-eval tapes`: lists tapes and their calls, compares them with a commit's, and removes those without a case."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from agent_eval.commands import CliIO
from agent_eval.commands.start import log_start_directory, print_problems, settings_of
from agent_eval.pipeline import StoredTape, load, stale_tools_by, stored_tapes
from agent_eval_agents.tapes import InvalidTape, ModelExchange, RecordedCall, Tape, contents_of, read_tape
from agent_eval_scoring.core.content import FunctionCall
from agent_eval_scoring.core.problem import Problem, has_error
from agent_eval_scoring.core.text import harmless, listed, plural, shorten, unbroken
from agent_eval_scoring.criteria import render_call
from agent_eval_scoring.evalset.models import Suite
from agent_eval_scoring.evalset.paths import name_of

_LONGEST = 100
"""Characters of a question or an answer."""
_MOST_CHANGES = 8
"""Calls of a case that `--diff` lists."""


def execute(arguments: argparse.Namespace, io: CliIO) -> int:
    """Runs the command and returns its exit code: 2 if a tape or an eval file is invalid."""
    log_start_directory(io)
    settings, problems = settings_of(arguments, io)
    suite = load(settings)
    problems += suite.errors
    if has_error(problems):  # Cases of invalid files are unknown, so any tape may have one.
        print_problems(problems)
        return 2
    if arguments.diff is not None:
        return _compare(arguments.diff, suite, settings.root, io)
    selected = {None, *(f"{file.path}:{case.eval_id}" for file in suite.files for case in file.cases)}
    tapes = [tape for tape in stored_tapes(settings.root, suite) if tape.case_id in selected]
    stale_tools = stale_tools_by(settings.output, settings.root, settings.tool_rules)
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
    more = f", {orphans} without a case (--prune removes them)" if orphans else ""
    print(f"{plural(len(kept), 'tape')}{more if kept else ': `agent-eval run --record all` records one of each case'}")
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
        *([f"not compared: {', '.join(hidden)}"] if (hidden := tape.hidden) else []),
        *([f"{tape.outdated}: record it again with `agent-eval run CASE --record all`"] if tape.outdated else []),
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
    who, answer = f"{call.agent}: " if call.agent else "", shorten(_answer(call), _LONGEST)
    if isinstance(call, RecordedCall):
        other = "" if call.done is not None or not tape.model_calls else " (another run)"
        return f"{who}{render_call(FunctionCall(name=call.tool, args=call.args))} -> {answer}{other}"
    asked = _content((contents_of(call.request, tape.parts) or [None])[-1])
    return f"{who}{call.model} asked {shorten(asked, _LONGEST)} -> {answer}"


def _answer(call: ModelExchange | RecordedCall) -> str:
    if isinstance(call, RecordedCall):
        return call.error.type if call.error else json.dumps(call.response, ensure_ascii=False)
    return _content(call.responses[-1].get("content"))


def _compare(ref: str, suite: Suite, root: Path, io: CliIO) -> int:
    """Prints how the tapes of the working tree differ from those of a commit, and returns the exit code."""
    from agent_eval.baseline import GitError, open_git
    from agent_eval_agents.tapes import MAX_TAPE, tape_in, tape_path

    root = root.absolute()
    invalid: list[Problem] = []
    changed = 0
    try:
        git = open_git(root, io.environ)
        commit = git.commit(ref)
        if commit is None:
            name = harmless(ref)
            todo = f"Fetch it (`git fetch origin {name}`), or correct the name."
            if os.path.exists(ref):  # noqa: PTH110 - Path's raises for a long name
                todo = "Paths stand before --diff."
            raise GitError(f"`{name}` is no commit of this repository. {todo}")
        for file in suite.files:
            for case in file.cases:
                path = tape_path(root, file.path, case.eval_id)
                data = git.file(commit, git.prefix / name_of(path, root), MAX_TAPE)
                try:
                    old = None if data is None else tape_in(data, name_of(path, root))
                    lines = _changes(old, read_tape(path, root))
                except InvalidTape as error:
                    invalid += error.problems
                    continue
                if lines:
                    changed += 1
                    print(f"{file.path}:{case.eval_id}:", *map(harmless, map(unbroken, lines)), sep="\n  ")
    except GitError as error:
        io.log(f"agent-eval: {error.message}")
        return 2
    print(f"{plural(changed, 'tape')} changed since {ref}")
    print_problems(invalid)
    return 2 if invalid else 0


def _changes(old: Tape | None, new: Tape | None) -> list[str]:
    """Calls that only one of two tapes has, or that have another answer; what is asked otherwise; other scores."""
    from agent_eval_agents.tapes import changed_request

    before, now = _by_question(old), _by_question(new)
    lines = [f"- {line}" for asked, (line, _) in before.items() if asked not in now]
    for asked, (line, answer) in now.items():
        known = before.get(asked, ("", answer))[1]
        if asked not in before or known != answer:
            lines.append(f"~ {line} (before: {shorten(known, _LONGEST)})" if asked in before else f"+ {line}")
    if len(lines) > _MOST_CHANGES:
        lines[_MOST_CHANGES:] = [f"... {plural(len(lines) - _MOST_CHANGES, 'more call')}"]
    if old and new and (first := changed_request(old, new)):
        lines.append(f"first difference of a request: {first.place}: {first.recorded} -> {first.now}")
    scores = [dict(tape.recorded.scores) if tape and tape.recorded else {} for tape in (old, new)]
    for metric in sorted(scores[0].keys() & scores[1].keys()):
        (before_value, _), (value, _) = scores[0][metric], scores[1][metric]
        if value != before_value and "duration" not in metric:
            lines.append(f"{metric} {before_value:.4g} -> {value:.4g}")
    return lines


def _by_question(tape: Tape | None) -> dict[tuple[str, int], tuple[str, str]]:
    """A line and the whole answer of each call."""
    calls: dict[tuple[str, int], tuple[str, str]] = {}
    if tape is None:
        return calls
    for model_call in tape.model_calls:
        calls[model_call.fingerprint, model_call.occurrence] = _call(model_call, tape), _answer(model_call)
    for call in tape.calls:
        question = json.dumps([call.agent, call.tool, call.args], sort_keys=True)
        calls[question, call.occurrence] = _call(call, tape), _answer(call)
    return calls


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
