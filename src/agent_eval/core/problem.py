"""One finding about something the user wrote, precise enough to act on."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass


class Severity(enum.StrEnum):
    """How much a problem matters: only errors stop the run."""

    ERROR = "error"
    WARNING = "warning"
    NOTICE = "notice"


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A finding in an eval file, a config file or the settings."""

    severity: Severity
    """Errors stop everything before a single model call is paid for; the others are shown."""
    code: str
    """Stable, kebab-case, documented in docs/problems.md, e.g. `unknown-metric`."""
    message: str
    """What is wrong, in one sentence that names the value."""
    hint: str | None = None
    """What to do next."""
    file: str | None = None
    """Path relative to the repository root, with forward slashes; None for settings."""
    line: int | None = None
    """1-based; None when the problem is about the file as a whole."""
    column: int | None = None
    """1-based, counted in characters; None with `line`."""
    path: str | None = None
    """JSON path inside the file, e.g. `eval_cases[2].conversation[0].user_content`."""

    @property
    def location(self) -> str:
        """`file:line:column`, as far as it is known; editors and terminals turn it into a link."""
        return ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)

    def __str__(self) -> str:
        where = f"{self.location}: " if self.location else ""
        inside = f" (at {self.path})" if self.path else ""
        hint = f"\n    {self.hint}" if self.hint else ""
        return f"{where}{self.severity.value} [{self.code}] {self.message}{inside}{hint}"


def has_error(problems: Iterable[Problem]) -> bool:
    """Whether one of them stops the run."""
    return any(problem.severity is Severity.ERROR for problem in problems)
