"""`agent-eval edit`: changes one case of an eval file, by flags or in the user's editor."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from agent_eval.commands import CliIO
from agent_eval.commands.start import log_problems
from agent_eval_results.report.views import visible
from agent_eval_scoring.core.selectors import parse_selector
from agent_eval_scoring.core.text import harmless, without_commands
from agent_eval_scoring.evalset.json import value_text
from agent_eval_scoring.evalset.paths import name_of
from agent_eval_workbench.authoring.editing import EditedFile, EditError, Edits, apply, changed_text, open_case, write
from agent_eval_workbench.authoring.terminal import EditorFailed, Terminal, edit, has_terminal
from agent_eval_workbench.authoring.writing import CASES, unified

_HOW = (
    "agent-eval: edit opens an editor, and there is no terminal. Use flags: --message, --answer, --args, --drop-turn, "
    "--drop-call, --rename, --delete"
)


def execute(arguments: argparse.Namespace, io: CliIO) -> int:
    """Runs the command and returns its exit code."""
    root = Path.cwd()
    selector = parse_selector(arguments.case, lambda name: (root / name).is_file())
    if len(selector.ids) != 1:
        io.log(f"agent-eval: name one case as FILE:EVAL_ID, not {harmless(arguments.case)!r}")
        return 2
    try:
        edits = _edits(arguments)
    except ValueError as error:
        io.log(f"agent-eval: {harmless(str(error))}")
        return 2
    if edits is None and not arguments.delete and not has_terminal():
        io.log(_HOW)
        return 2
    try:
        file = open_case(root / selector.path, name_of(root / selector.path, root), selector.ids[0])
        text = changed_text(file, None) if arguments.delete else _edited(file, edits, io)
        if text is None:
            io.print_result("Nothing was changed.")
            return 0
        return _write(file, text, arguments, io)
    except EditError as error:
        log_problems(error.problems, io)
        return 2
    except KeyboardInterrupt:
        io.log("agent-eval: nothing was written")
        return 130


def _edits(arguments: argparse.Namespace) -> Edits | None:
    """The edits of the flags; None if there are none.

    Raises:
        ValueError: A flag has an invalid value.
    """
    changes = (
        arguments.message,
        arguments.answer,
        arguments.args,
        arguments.drop_turn,
        arguments.drop_call,
        arguments.rename,
    )
    if arguments.rename == "":
        raise ValueError("--rename takes an id that is not empty")
    if not any(changes):
        return None
    if arguments.delete:
        raise ValueError("--delete removes the whole case; leave out the other flags")
    return Edits(
        messages={_number(number, "--message"): text for number, text in arguments.message},
        answers={_number(number, "--answer"): text for number, text in arguments.answer},
        args={_place(place, "--args"): _object(text) for place, text in arguments.args},
        turns=frozenset(_number(number, "--drop-turn") for number in arguments.drop_turn),
        calls=frozenset(_place(place, "--drop-call") for place in arguments.drop_call),
        eval_id=arguments.rename,
    )


def _number(text: str, flag: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 100_000:
        raise ValueError(f"{flag} takes the number of a turn, from 1 for the first one, not {text!r}")
    return int(text)


def _place(text: str, flag: str) -> tuple[int, int]:
    turn, _, place = text.rpartition(".")
    try:
        return _number(turn, flag), _number(place, flag)
    except ValueError:
        example = "2.1 for the first call of the second turn"
        raise ValueError(f"{flag} names a call as TURN.NUMBER, e.g. {example}, not {text!r}") from None


_ARGS = """--args takes a JSON object, e.g. --args 1.1 '{"city": "Bern"}'"""


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
        json.dumps(value, allow_nan=False)
    except json.JSONDecodeError:
        value = None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{_ARGS}: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{_ARGS}, not {text[:40]}")
    return value


def _edited(file: EditedFile, edits: Edits | None, io: CliIO) -> str | None:
    """The text of the file after the edits of the flags, or of the user's editor; None if nothing changes."""
    if edits is None:
        return _in_editor(file, io)
    text = changed_text(file, apply(file, edits))
    return None if text == file.text else text


def _in_editor(file: EditedFile, io: CliIO) -> str | None:
    """The text of the file after the user has edited the case, again and again until it is valid."""
    terminal = Terminal(color=False)
    text = value_text(file.text, (CASES, file.index))
    while True:
        try:
            edited = edit(text, file.name, io.environ)
        except EditorFailed as error:
            raise file.edit_problem("edit-editor", str(error), "Or use flags, see `agent-eval edit --help`.") from None
        if edited is None:
            return None
        text = edited.text
        try:
            if edited.problems:
                raise EditError(edited.problems)
            if not isinstance(edited.value, dict):
                raise file.edit_problem("edit-number", "A case is a JSON object.", "Edit it again.")
            return changed_text(file, edited.value)
        except EditError as error:
            log_problems(error.problems, io)
        key = terminal.read_key("edit again? [y n] ")
        terminal.write("\n")
        if key not in {"y", "\n", "\r"}:
            return None


def _write(file: EditedFile, text: str, arguments: argparse.Namespace, io: CliIO) -> int:
    diff = without_commands(visible(unified(file.text, text, file.name))).rstrip("\n")
    if arguments.dry_run:
        io.print_result(diff)
        return 0
    try:
        write(file, text)
    except (EditError, OSError):
        io.print_result(diff)  # It may have been written in the editor, and is nowhere else.
        raise
    io.print_result(diff)
    io.print_result(f"{harmless(file.name)}: changed")
    return 0
