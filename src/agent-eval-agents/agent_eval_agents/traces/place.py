"""Where something was read, for messages about it."""

from __future__ import annotations

from dataclasses import dataclass

from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.problem import Problem, Severity
from agent_eval_scoring.core.text import first_line
from agent_eval_scoring.evalset.json import Document, JsonPath


@dataclass(frozen=True, kw_only=True)
class Place:
    """A place in a source: a value of a JSON file, a line of JSON Lines, or a row of a database."""

    file: str
    document: Document | None = None
    path: JsonPath = ()
    line: int | None = None
    """The line of JSON Lines, from 1."""
    row: str = ""
    """E.g. ``row 3 of the table `events` ``; "" outside of a database."""

    def problem(self, severity: Severity, code: str, message: str, hint: str | None = None) -> Problem:
        """A problem with what is at this place."""
        message = first_line(message, 500)
        if self.document is not None and self.line is None:
            return self.document.problem(severity, code, message, path=self.path, hint=hint)
        if self.row:
            message = f"{self.row[0].upper()}{self.row[1:]}: {message}"
        return Problem(severity=severity, code=code, message=message, hint=hint, file=self.file, line=self.line)


class UnusableConversation(AgentEvalError):
    """A conversation that can't be read. The others of its source can."""

    def __init__(self, place: Place, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.place = place
        self.hint = hint
