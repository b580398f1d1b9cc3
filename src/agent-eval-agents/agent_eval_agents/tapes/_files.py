"""Tapes on disk: names, reading, checking, writing."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

from pydantic import ValidationError

from agent_eval_agents.tapes._tape import OLDER, SCHEMA_VERSION, Tape
from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.files import read_regular
from agent_eval_scoring.core.problem import Problem
from agent_eval_scoring.core.text import harmless
from agent_eval_scoring.evalset.json import parse_document, write_text
from agent_eval_scoring.evalset.paths import name_of

FOLDER = ".tools"
"""Ends the name of a directory of tapes: `home.evalset.json` has `home.evalset.tools/`."""
SUFFIX = ".tape.json"
MAX_TAPE = 5_000_000
"""Bytes of a tape."""
MAX_RESPONSE = 1_000_000
"""Bytes of the answer of one call."""
_LONGEST_NAME = 100
_CODE = "tape-invalid"
_HINT = "Record the case again (`agent-eval run CASE --record all`), or restore the file from git."


class InvalidTape(AgentEvalError):
    """A tape that can't be used."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(problem.message for problem in self.problems))


def folder_of(eval_file: str) -> str:
    """The directory of an eval file's tapes, relative to the root."""
    return eval_file.removesuffix(".json") + FOLDER


def tape_name(eval_id: str, *, any_case: bool = False) -> str:
    """The file name of a case's tape: safe for every file system, unique for every id.

    Args:
        eval_id: The id.
        any_case: Whether it is unique also where names that differ only in case are one file, as on macOS and Windows.
    """
    name = quote(eval_id.encode("utf-8", "surrogatepass"), safe="")
    name = f"%2E{name[1:]}" if name.startswith(".") else name or "%"
    if len(name) > _LONGEST_NAME or any_case:
        digest = hashlib.sha256(eval_id.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        name = f"{name[:60]}-{digest}"
    return f"{name}{SUFFIX}"


def tape_path(root: Path, eval_file: str, eval_id: str) -> Path:
    """The file of a case's tape; it need not exist."""
    plain = root / folder_of(eval_file) / tape_name(eval_id)
    unique = plain.with_name(tape_name(eval_id, any_case=True))
    # Not Path's: it raises in a directory that may not be entered, which `read_tape` reports.
    if os.path.exists(unique):  # noqa: PTH110
        return unique
    if not os.path.exists(plain):  # noqa: PTH110
        return unique if re.search(r"[A-Z]", eval_id) else plain
    # One that was recorded before names were unique; or it is the tape of another id.
    is_own = not plain.with_name(plain.name.swapcase()).exists() or plain.name in os.listdir(plain.parent)  # noqa: PTH208
    return plain if is_own else unique


def read_tape(path: Path, root: Path) -> Tape | None:
    """Reads a tape; None if there is none.

    Raises:
        InvalidTape: It is no tape, too big, or reached through a symbolic link.
    """
    name = name_of(path, root)
    try:
        link = next((part for part in (path, path.parent) if part.is_symlink()), None)
        if link is not None:
            raise OSError(errno.ELOOP, "It is a symbolic link, or in a directory that is one", str(link))
        data = read_regular(path, MAX_TAPE)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        why = (error.strerror or str(error)).rstrip(".")
        raise InvalidTape([_problem(name, f"The tape can't be read: {why}.")]) from error
    return tape_in(data, name)


def tape_in(data: bytes, name: str) -> Tape:
    """The tape in a file with this name.

    Raises:
        InvalidTape: It is no tape.
    """
    try:
        tape = Tape.model_validate_json(data)
    except ValidationError as error:
        raise InvalidTape(_located(data, name, error)) from error
    except RecursionError as error:
        raise InvalidTape([_problem(name, "The tape is nested too deeply.")]) from error
    if lacking := sorted({call.tool for call in tape.calls} - tape.tools.keys()):
        raise InvalidTape([_problem(name, f"The tape has calls of `{lacking[0]}`, which `tools` does not list.")])
    if flaw := tape.flaw():
        raise InvalidTape([_problem(name, flaw)])
    for toolset, tools in tape.toolsets.items():
        if not all(isinstance(tool.get("name"), str) and isinstance(tool.get("inputSchema"), dict) for tool in tools):
            message = f"A tool of the toolset `{toolset}` lacks its `name` or `inputSchema`."
            raise InvalidTape([_problem(name, message)])
    return tape


def _located(data: bytes, name: str, error: ValidationError) -> list[Problem]:
    """The problems of a file that is no tape, with their lines."""
    from agent_eval_scoring.evalset.parse.shape import shape_problems

    document, problems = parse_document(data, name)
    if document is not None:
        version = document.value.get("schema_version") if isinstance(document.value, dict) else None
        if isinstance(version, str | int) and str(version) not in {*OLDER, SCHEMA_VERSION}:
            shown = harmless(str(version)[:20])
            readable = f"{', '.join(OLDER)} and {SCHEMA_VERSION}"
            message = f"The tape has version {shown} of the schema; this agent-eval reads {readable}."
            return [_problem(name, message)]
        problems = shape_problems(document, error, Tape, ()) or [_problem(name, "It is not a tape.")]
    # A recording is made again, not corrected by hand.
    return [dataclasses.replace(problem, hint=_HINT) for problem in problems]


def _problem(name: str, message: str) -> Problem:
    return Problem(code=_CODE, message=message, hint=_HINT, file=name)


def tape_text(tape: Tape) -> str:
    """The file's content. Keys stay in the order of the answers: ADK shows these to other agents as text."""
    value = tape.model_dump(mode="json", exclude_defaults=True)
    value = {**value, "schema_version": SCHEMA_VERSION}
    for call, recorded in zip(value.get("calls", ()), tape.calls, strict=True):
        # Written even if empty: what a reader of the file looks for.
        call |= {"args": recorded.args, "occurrence": recorded.occurrence}
        if recorded.error is None and recorded.replayable:
            call["response"] = recorded.response
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def fits(tape: Tape) -> bool:
    """Whether a tape is not larger than MAX_TAPE."""
    return len(tape_text(tape).encode("utf-8", "surrogatepass")) <= MAX_TAPE


def write_tape(path: Path, tape: Tape) -> None:
    """Replaces a tape.

    Raises:
        OSError: It can't be written.
        ValueError: It would be larger than MAX_TAPE.
    """
    if not fits(tape):
        raise ValueError(f"The tape would be larger than {MAX_TAPE // 1_000_000} MB")
    if path.parent.is_symlink() or path.is_symlink():
        raise OSError(errno.ELOOP, "It is a symbolic link, or in a directory that is one", str(path))
    write_text(path, tape_text(tape))


def tapes_below(root: Path, eval_files: Iterable[str]) -> list[Path]:
    """The tapes beside these eval files, in order."""
    tapes: list[Path] = []
    for eval_file in dict.fromkeys(eval_files):
        folder = root / folder_of(eval_file)
        if folder.is_dir():
            tapes += sorted(path for path in folder.iterdir() if path.name.endswith(SUFFIX))
    return tapes
