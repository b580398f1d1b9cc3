"""The `.env` that ADK loads for an agent, and its lines that `python-dotenv` does not read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agent_eval_scoring.core.files import MAX_SETTINGS, read_regular
from agent_eval_scoring.core.problem import Problem, Severity

_BETWEEN = re.compile(r"\s*(?:#[^\n]*\s*)*")
_STATEMENT = re.compile(
    r"""(?:export[ \t]+)?(?:'[^'\n]+'|[^=\#\s]+)[ \t]*
    (?:=[ \t]*(?:'(?:\\'|[^'])*'|"(?:\\"|[^"])*"|(?!['"])[^\n]*))?
    [ \t]*(?:\#[^\n]*)?(?:\n|\Z)""",
    re.VERBOSE,
)
"""What python-dotenv 1.2 reads as a variable."""
_BEGINNING = re.compile(r"(?:export[ \t]+)?([A-Za-z_]\w*)[ \t]*=[ \t]*(['\"])([^\n]*)")


@dataclass(frozen=True, kw_only=True)
class UnreadLine:
    """A line that sets no variable."""

    line: int
    """1-based."""
    variable: str = ""
    """What it was to set; "" if it does not begin like a variable in quotes. A value is never in a message."""
    closed: bool = False
    """Whether the quote of the value is closed, and text follows it."""

    @property
    def message(self) -> str:
        """A clause."""
        if not self.variable:
            return "the line is not NAME=VALUE, so it is not read"
        what = "has text after its closing quote" if self.closed else "has a quote that is not closed"
        return f"`{self.variable}` {what}, so it is not set"

    @property
    def hint(self) -> str:
        """What to do."""
        return f'Write {self.variable or "NAME"}="VALUE" on one line.'


def dotenv_of(agent: Path, root: Path) -> Path | None:
    """The `.env` that ADK loads for an agent: the nearest one up to the root."""
    folders = [agent, *agent.parents]
    inside = folders[: folders.index(root) + 1] if root in folders else folders
    return next((file for folder in inside if (file := folder / ".env").is_file()), None)


def unread_lines(file: Path, root: Path) -> list[UnreadLine]:
    """The lines of a `.env` that are not read. Of a file outside of the repository, which a link may name: none."""
    if not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(root)):
        return []
    try:
        text = read_regular(file, MAX_SETTINGS).decode("utf-8")
    except (OSError, ValueError):
        return []
    return list(_unread(text.replace("\r\n", "\n").replace("\r", "\n")))


def unread_warnings(file: Path, root: Path) -> list[Problem]:
    """A warning for each of the first lines that are not read."""
    name = file.relative_to(root).as_posix() if file.is_relative_to(root) else file.as_posix()
    return [
        Problem(
            severity=Severity.WARNING,
            code="env-file-line",
            message=f"{unread.message[:1].upper()}{unread.message[1:]}.",
            hint=unread.hint,
            file=name,
            line=unread.line,
        )
        for unread in unread_lines(file, root)[:3]
    ]


def _unread(text: str) -> Iterator[UnreadLine]:
    at = 0
    while (at := _end(_BETWEEN.match(text, at))) < len(text):
        statement = _STATEMENT.match(text, at)
        if statement is None:
            line = text.count("\n", 0, at) + 1
            quoted = _BEGINNING.match(text, at)
            yield (
                UnreadLine(line=line)
                if quoted is None
                else UnreadLine(line=line, variable=quoted[1], closed=quoted[2] in quoted[3])
            )
            at = text.find("\n", at) % (len(text) + 1)  # the end, if there is none
        else:
            at = statement.end()


def _end(match: re.Match[str] | None) -> int:
    assert match is not None
    return match.end()
