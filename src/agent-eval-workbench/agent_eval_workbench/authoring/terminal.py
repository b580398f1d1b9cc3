"""Questions to the user of a terminal, answered with a key, with a line, or in the user's editor."""

from __future__ import annotations

import codecs
import os
import select
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.files import MAX_TEXT, read_regular
from agent_eval_scoring.core.problem import Problem, has_error
from agent_eval_scoring.evalset.json import parse_document

_ESCAPE = "\x1b"
_END = {"\x04", "\0"}
"""Ctrl-D, and what Linux makes of it if it is typed before the terminal stops to read lines."""
_REST = 0.05
"""Seconds in which a terminal sends the rest of an escape sequence."""
_SIGNAL_CHECK = 0.2
"""Seconds after which a wait for input notices a Ctrl-C that came just before it."""


def has_terminal() -> bool:
    """Whether a person can answer questions: standard input and output are terminals."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def read_line(question: str) -> str:
    """Prints a question and waits for a line on standard input, which has to be a terminal.

    Unlike `input`, it notices a Ctrl-C between the question and the wait for the answer.

    Returns:
        The line without its end.

    Raises:
        EOFError: The input has ended.
        KeyboardInterrupt: The user pressed Ctrl-C.
    """
    sys.stdout.write(question)
    sys.stdout.flush()
    _wait_for_input(sys.stdin.fileno())
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")


class Terminal:
    """The terminal of this process, to whose user a review talks. Standard input and output have to be terminals.

    Keys are read without waiting for the end of a line. What is typed ahead is not lost.
    """

    def __init__(self, *, color: bool) -> None:
        """Reads nothing yet."""
        self.color = color
        self._descriptor = sys.stdin.fileno()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._ended = False

    def write(self, text: str) -> None:
        """Prints a text without a line break. It must be safe."""
        sys.stdout.write(text)
        sys.stdout.flush()

    def read_key(self, question: str) -> str:
        """Prints a question, waits for a key and returns its character.

        Returns:
            "" at the end of the input, ESC for a key without a character.

        Raises:
            KeyboardInterrupt: Ctrl-C.
        """
        with _unbuffered(self._descriptor):
            self.write(question)  # Only now, so that the answer is not read as a line.
            key = self._character()
            if key == _ESCAPE:
                self._skip_sequence()
            return "" if key in _END else key

    def _character(self) -> str:
        while not self._ended:
            _wait_for_input(self._descriptor)
            data = os.read(self._descriptor, 1)
            if not data:
                self._ended = True
            elif text := self._decoder.decode(data):
                return text
        return ""

    def _skip_sequence(self) -> None:
        """Reads the rest of an escape sequence, whose letters must not be taken for keys (ECMA-48, 5.4)."""
        if not self._waits():
            return
        kind = self._character()
        if kind == "O" and self._waits():
            self._character()
        while kind == "[" and self._waits():
            if "@" <= self._character() <= "~":
                return

    def _waits(self) -> bool:
        return bool(select.select([self._descriptor], [], [], _REST)[0])


def _wait_for_input(descriptor: int) -> None:
    """Waits until a read would return. A read itself would not end for a Ctrl-C that comes just before it."""
    while not select.select([descriptor], [], [], _SIGNAL_CHECK)[0]:
        pass


@contextmanager
def _unbuffered(descriptor: int) -> Iterator[None]:
    """Turns off line buffering and echo. Ctrl-C still interrupts."""
    import termios
    import tty

    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor, termios.TCSADRAIN)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


VARIABLES = ("VISUAL", "EDITOR")
"""Variables that name the editor, in order."""


class EditorFailed(AgentEvalError):
    """The editor could not be started, or failed. The message is a sentence."""


@dataclass(frozen=True, kw_only=True)
class Edited:
    """The edited text."""

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
