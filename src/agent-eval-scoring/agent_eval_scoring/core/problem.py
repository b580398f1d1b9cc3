"""One finding about something the user wrote, precise enough to act on."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from agent_eval_scoring.core.text import listed

_REPOSITORY = "org/agent-eval-action"
_ALIKE_IN_FILE = 3
MAX_PROBLEMS = 100
"""Listed findings of one file: a small file can have 200,000, more than anyone reads."""


def docs_page(name: str) -> str:
    """The address of a page of the documentation, which an installed package does not contain."""
    owner, _, repository = _REPOSITORY.partition("/")
    return f"https://{owner.lower()}.github.io/{repository}/{name}/"


class Severity(enum.StrEnum):
    """How much a problem matters: only errors stop the run."""

    ERROR = "error"
    WARNING = "warning"
    NOTICE = "notice"


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A finding in an eval file, a config file or the settings."""

    severity: Severity = Severity.ERROR
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
    stands_for: int = 1
    """How many findings it counts as: more than 1 only where the others were not made (`too-many-problems`)."""

    @property
    def location(self) -> str:
        """`file:line:column`, as far as it is known; editors and terminals turn it into a link."""
        return ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)

    def __str__(self) -> str:
        where = f"{self.location}: " if self.location else ""
        inside = f" (at {self.path})" if self.path else ""
        hint = "".join(f"\n    {line}" for line in (self.hint or "").splitlines())
        return f"{where}{self.severity.value} [{self.code}] {self.message}{inside}{hint}"


def has_error(problems: Iterable[Problem]) -> bool:
    """Whether one of them stops the run."""
    return bool(errors_of(problems))


def errors_of(problems: Iterable[Problem]) -> list[Problem]:
    """Those that stop the run."""
    return [problem for problem in problems if problem.severity is Severity.ERROR]


def alike(problems: Iterable[Any]) -> list[tuple[Any, str]]:
    """The findings for a person, each with what to add to its message: notices that say the same of files are one, and
    so are three findings or more that say the same of places in a file.
    """
    groups: dict[object, list[Any]] = {}
    for problem in problems:
        said = (problem.code, problem.message, problem.hint)
        is_notice = problem.severity == Severity.NOTICE and problem.file
        place = None if is_notice or problem.line is None else problem.file
        groups.setdefault((*said, place) if is_notice or place else id(problem), []).append(problem)
    result = []
    for first, *rest in groups.values():
        places = [str(other.line) for other in rest if other.file == first.file and other.line is not None]
        files = [other.file for other in rest if other.file != first.file]
        if files:
            result.append((first, f" The same holds for {listed(files, 3, 'file')}."))
        elif len(places) == len(rest) >= _ALIKE_IN_FILE - 1:
            result.append((first, f" The same holds for lines {listed(places, 5)}."))
        else:
            same_notice = first.severity == Severity.NOTICE and first.file
            result += [(first, "")] if same_notice else [(problem, "") for problem in (first, *rest)]
    return result


def capped(problems: Iterable[Problem]) -> list[Problem]:
    """The findings, of each file at most MAX_PROBLEMS, errors first, and one more that counts those left out."""
    findings = list(problems)
    many = {file for file, count in Counter(problem.file for problem in findings).items() if count > MAX_PROBLEMS}
    if not many:
        return findings
    selected = [problem for problem in findings if problem.file not in many]
    for file in many:
        selected += _first([problem for problem in findings if problem.file == file])
    return selected


def _first(problems: Sequence[Problem]) -> list[Problem]:
    """The first MAX_PROBLEMS findings of a file, and one that represents the others."""
    order = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTICE: 2}
    listed = sorted(
        (problem for problem in problems if problem.code != TOO_MANY),
        key=lambda problem: (order[problem.severity], problem.line or 0, problem.column or 0),
    )
    return [*listed[:MAX_PROBLEMS], too_many(problems, min(len(listed), MAX_PROBLEMS))]


TOO_MANY = "too-many-problems"


def too_many(problems: Sequence[Problem], listed: int, more: int = 0) -> Problem:
    """A finding that represents the findings of a file that are not listed.

    Args:
        problems: All findings of the file that were made, at least one; the first says which file it is.
        listed: How many of them are listed.
        more: How many were not even made.
    """
    count = sum(problem.stands_for for problem in problems) + more
    return Problem(
        severity=Severity.ERROR if has_error(problems) else Severity.WARNING,
        code="too-many-problems",
        message=f"The file has at least {count:,} findings, of which {listed} are listed.",
        hint="Correct these first: often one mistake is the cause of many.",
        file=problems[0].file,
        stands_for=count - listed,
    )
