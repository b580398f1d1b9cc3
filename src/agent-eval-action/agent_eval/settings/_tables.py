"""Reads the tables of agent-eval.toml other than settings: each key has a reader of its value.

If a misspelt key were ignored, the gate would not follow what the file's authors wrote. Everything that isn't
understood is therefore an error with its line, and all errors are collected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_eval.settings.parsers import ExpectedError
from agent_eval.settings.settings import BY_INPUT
from agent_eval_scoring.core.patterns import PathPatterns
from agent_eval_scoring.core.problem import MAX_PROBLEMS, Problem
from agent_eval_scoring.core.selectors import nearby
from agent_eval_scoring.core.toml_lines import Path as KeyPath
from agent_eval_scoring.core.toml_lines import line_at

Fields = Mapping[str, Callable[[Any], Any]]
"""What reads each key's value. Raises ValueError: `ExpectedError`, or a clause."""
OTHER_KEYS = ("policy", "quarantine", "max-quarantined", "agents", "servers", "tool", "volatile", "prices")
"""The keys of the file that are no settings."""


@dataclass(frozen=True, kw_only=True)
class TableReader:
    """Reads the tables of one kind."""

    code: str
    """Of its problems."""
    example: str
    """The hint where a problem has none of its own."""
    lines: Mapping[KeyPath, int]
    """The lines of keys and tables."""
    file: str
    """For the problems."""
    hints: Mapping[str, str] = field(default_factory=dict)
    """For invalid values, by key."""
    problems: list[Problem] = field(default_factory=list)
    _first: dict[object, int | None] = field(default_factory=dict)

    def error(self, message: str, at: KeyPath, hint: str | None = None, *, code: str = "") -> None:
        """Adds an error about a key, or about the table that lacks it."""
        problem = Problem(
            code=code or self.code,
            message=message,
            hint=f"Write e.g.\n    {self.example}" if hint is None else hint,
            file=self.file,
            line=self.line(at),
        )
        self.problems.append(problem)

    def line(self, at: KeyPath) -> int | None:
        """The line of a key or table."""
        return line_at(self.lines, at)

    def value(self, value: Any, at: KeyPath, read: Callable[[Any], Any], where: str = "") -> Any:
        """The value of the key `at`, or None if it is invalid; `where` follows the key in the message."""
        try:
            return read(value)
        except ValueError as error:
            one = isinstance(error, ExpectedError) and not isinstance(value, list | dict)
            but = f", not {_shown(value)}" if one else ""
            hint = self.hints.get(str(at[-1]))
            example = re.search(r'must be (?:("\w+") or|(true) or false|a number of (second)s)', str(error))
            off = str(value).lower() in {"false", "never", "no", "none", "off", "0"}
            if hint is None and example is not None:
                hint = f"Write e.g. `{at[-1]} = {example[1] or (example[2] and ('false' if off else 'true')) or 60}`."
            self.error(f"`{at[-1]}`{where} {error}{but}.", at, hint)
            return None

    def table(self, table: Mapping[str, Any], fields: Fields, title: str, at: KeyPath) -> dict[str, Any] | None:
        """The values of a table, e.g. of the title `[servers.a]`; None if a key is unknown or a value invalid."""
        problems_before = len(self.problems)
        for key in [key for key in table if key not in fields]:
            hint = _meant(key, fields) if len(self.problems) < MAX_PROBLEMS else ""
            self.error(f"There is no `{key}` in {title}.", (*at, key), hint)
        known = {key: value for key, value in table.items() if key in fields}
        values = {key: self.value(value, (*at, key), fields[key], f" of {title}") for key, value in known.items()}
        return values if len(self.problems) == problems_before else None

    def array(self, entries: Any, name: str, fields: Fields) -> list[tuple[KeyPath, dict[str, Any]]]:
        """The valid tables of an array, each with its path in the file."""
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            self.error(f"`{name}` must be a list of tables, each below a line `[[{name}]]`.", (name,))
            return []
        paths: list[KeyPath] = [(name, number) for number in range(len(entries))]
        read = [(at, self.table(entry, fields, f"[[{name}]]", at)) for at, entry in zip(paths, entries, strict=True)]
        return [(at, values) for at, values in read if values is not None]

    def first_line(self, rule: object, at: KeyPath) -> int | None:
        """The line of an earlier table with the same rule; None if there is none."""
        if rule in self._first:
            return self._first[rule] or 0
        self._first[rule] = self.line(at)
        return None


def _meant(key: str, fields: Fields) -> str:
    """The hint for an unknown key."""
    if key in BY_INPUT or key in OTHER_KEYS:
        return "It is a top-level key: move it above the first table, because a table extends to the next one."
    near = nearby(key, fields, count=1)
    return f"Did you mean `{near[0]}`?" if near else f"Known keys: {', '.join(fields)}."


def _shown(value: Any) -> str:
    """A value in TOML notation, shortened."""
    text = str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def number(low: float, high: float, expected: str) -> Callable[[Any], float]:
    """A number from `low` to `high`."""

    def read(value: Any) -> float:
        # True equals 1 in Python but is a mistake here.
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise ExpectedError(expected)
        return float(value)

    return read


def text(value: Any) -> str:
    """A non-empty text."""
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ExpectedError("a non-empty text")
    return value.strip()


def flag(value: Any) -> bool:
    """`true` or `false`."""
    if not isinstance(value, bool):
        raise ExpectedError("true or false")
    return value


def one_of(*words: str) -> Callable[[Any], str]:
    """One of these texts."""

    def read(value: Any) -> str:
        if value not in words:
            raise ExpectedError(" or ".join(f'"{word}"' for word in words))
        return str(value)

    return read


def file_patterns(value: Any) -> tuple[str, ...]:
    """Patterns of files in .gitignore syntax."""
    if not isinstance(value, list) or not value or not all(isinstance(pattern, str) for pattern in value):
        raise ExpectedError("a list of patterns of files")
    try:
        PathPatterns(value)
    except ValueError as error:
        raise ValueError(f"has an invalid pattern: {error}") from error
    return tuple(value)
