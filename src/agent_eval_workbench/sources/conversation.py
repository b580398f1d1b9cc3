"""A conversation read from a source, and the place where it was read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_eval.core.invocation import Invocation
from agent_eval.core.problem import Problem, Severity
from agent_eval.core.text import first_line
from agent_eval.evalset.json import Document, JsonPath


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


class UnusableConversation(Exception):
    """A conversation that can't become a case. The others of its source can."""

    def __init__(self, place: Place, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.place = place
        self.hint = hint


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """What a user and an agent said in one session."""

    session_id: str
    turns: Sequence[Invocation]
    """In order, at least one. Every turn has an answer."""
    started_at: float
    """Unix time in seconds; 0 if unknown."""
    place: Place
    eval_id: str = ""
    """The id of the eval case that led to it; "" for a conversation with a person."""
    app_name: str | None = None
    user_id: str | None = None
    state: Mapping[str, Any] | None = None
    """The session's state before the first turn; None if the source does not contain it."""
