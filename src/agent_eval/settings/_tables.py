"""Checks tables of agent-eval.toml that are no settings: each key has a check, and all problems are collected."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_eval.core.problem import Problem, Severity
from agent_eval.core.toml_lines import Path as KeyPath
from agent_eval.core.toml_lines import line_at

Fields = Mapping[str, Callable[[Any], str]]
"""Each key's check, which returns what is expected, or "" if the value is valid."""


@dataclass(frozen=True, kw_only=True)
class TableReader:
    """Checks the tables of one kind."""

    code: str
    """Of its problems."""
    example: str
    """The hint where a problem has none of its own."""
    lines: Mapping[KeyPath, int]
    """The lines of keys and tables."""
    file: str
    problems: list[Problem] = field(default_factory=list)

    def error(self, message: str, at: KeyPath, hint: str = "") -> None:
        """Adds an error about a key, or about the table that lacks it."""
        hint = hint or f"Write e.g.\n    {self.example}"
        line = line_at(self.lines, at)
        self.problems.append(
            Problem(severity=Severity.ERROR, code=self.code, message=message, hint=hint, file=self.file, line=line)
        )

    def check_fields(self, table: Mapping[str, Any], fields: Fields, title: str, at: KeyPath) -> None:
        """Adds an error for each unknown key and each invalid value of a table, e.g. with the title `[servers.a]`."""
        for key, value in table.items():
            if key not in fields:
                near = difflib.get_close_matches(key, fields, n=1)
                hint = f"Did you mean `{near[0]}`?" if near else f"The keys are {', '.join(fields)}."
                self.error(f"There is no `{key}` in {title}.", (*at, key), hint)
            elif expected := fields[key](value):
                self.error(f"`{key}` of {title} {expected}.", (*at, key))
