"""The user's editor, for one JSON value."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_eval.core.files import MAX_TEXT, read_regular
from agent_eval.core.problem import Problem, has_error
from agent_eval.evalset.json import parse_document

VARIABLES = ("VISUAL", "EDITOR")
"""Variables that name the editor, in order."""


class EditorFailed(Exception):
    """The editor could not be started, or failed. The message is a sentence."""


@dataclass(frozen=True, kw_only=True)
class Edited:
    """What came back from the editor."""

    text: str
    value: Any = None
    """None if there are problems."""
    problems: tuple[Problem, ...] = ()


def edit(text: str, name: str, environ: Mapping[str, str]) -> Edited | None:
    """Lets the user change a text.

    Args:
        text: A JSON value.
        name: The name of the value, for problems.
        environ: Names the editor.

    Returns:
        The value, or why it is no JSON; None if the text was not changed.

    Raises:
        EditorFailed: The editor could not be started, or ended with an error.
    """
    command = next((environ[variable] for variable in VARIABLES if environ.get(variable, "").strip()), "")
    if not command:
        raise EditorFailed("Set EDITOR to the command of your editor, e.g. `export EDITOR=nano`.")
    with tempfile.TemporaryDirectory(prefix="agent-eval-") as folder:
        path = Path(folder) / "case.json"
        path.write_text(text + "\n", encoding="utf-8", newline="\n")
        _run(command, path)
        try:
            data = read_regular(path, MAX_TEXT)
        except OSError as error:
            raise EditorFailed(f"The edited file can't be read: {error.strerror or error}.") from None
    if data == f"{text}\n".encode():
        return None
    document, problems = parse_document(data, name)
    edited = data.decode("utf-8", "replace").removesuffix("\n")
    if document is None or has_error(problems):
        return Edited(text=edited, problems=tuple(problems))
    return Edited(text=edited, value=document.value)


def _run(command: str, path: Path) -> None:
    try:
        words = shlex.split(command)
        code = subprocess.run([*words, os.fspath(path)], check=False).returncode
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise EditorFailed(f"The editor `{command}` can't be started: {reason}.") from None
    if code != 0:
        raise EditorFailed(f"The editor `{command}` ended with exit code {code}; nothing is changed.")
