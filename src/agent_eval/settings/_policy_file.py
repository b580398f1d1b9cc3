"""Reads `[[policy]]`, `[[quarantine]]` and `max-quarantined` of agent-eval.toml, strictly.

If a misspelt key were ignored, the gate would not apply the policy that its authors wrote. Everything that isn't
understood is therefore an error with its line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any

from agent_eval.core.problem import MAX_PROBLEMS, Problem, Severity
from agent_eval.core.selectors import nearby
from agent_eval.core.toml_lines import Path, line_at
from agent_eval.gate.policy import (
    DEFAULT_MAX_QUARANTINED,
    PASS_METRIC,
    Policy,
    PolicyEntry,
    QuarantineEntry,
    case_matcher,
)
from agent_eval.settings.options import BY_INPUT

POLICY_KEYS = ("policy", "quarantine", "max-quarantined")
"""The keys read here. The other keys of the file are settings."""

_POLICY_EXAMPLE = '[[policy]]\n    metric = "response_match_score"\n    max-drop = 0.05'
_QUARANTINE_EXAMPLE = (
    '[[quarantine]]\n    case = "evals/home.test.json:lamp_on"\n    reason = "the clock of the fixture drifts"\n'
    '    owner = "@alice"\n    expires = 2027-01-31'
)


class _InvalidValueError(ValueError):
    """A value is invalid. The message says what is expected, e.g. `must be true or false, not 1`."""


def read_policy(table: Mapping[str, Any], lines: Mapping[Path, int], file: str) -> tuple[Policy, list[Problem]]:
    """Reads the keys in POLICY_KEYS of a file that tomllib has read.

    Args:
        table: The parsed file; other keys are ignored.
        lines: The line of each key, from `core.toml_lines`.
        file: The file's name, for the problems.

    Returns:
        The policy, without invalid entries, and the problems. Every problem is an error.
    """
    reader = _Reader(lines, file)
    share = reader.value(table, ("max-quarantined",), _share) if "max-quarantined" in table else None
    policies = reader.tables(table, "policy", _POLICY_EXAMPLE, _POLICY_FIELDS)
    quarantines = reader.tables(table, "quarantine", _QUARANTINE_EXAMPLE, _QUARANTINE_FIELDS)
    policy = Policy(
        entries=tuple(entry for at, values in policies if (entry := reader.policy(at, values)) is not None),
        quarantine=tuple(
            quarantined for at, values in quarantines if (quarantined := reader.quarantine(at, values)) is not None
        ),
        max_quarantined=DEFAULT_MAX_QUARANTINED if share is None else share,
    )
    return policy, sorted(reader.problems, key=lambda problem: problem.line or 0)


class _Reader:
    """Reads tables and collects their problems."""

    def __init__(self, lines: Mapping[Path, int], file: str) -> None:
        self._lines, self._file = lines, file
        self._seen: dict[tuple[object, ...], int | None] = {}
        self.problems: list[Problem] = []

    def error(self, code: str, message: str, hint: str, at: Path) -> None:
        self.problems.append(
            Problem(
                severity=Severity.ERROR,
                code=code,
                message=message,
                hint=hint,
                file=self._file,
                line=line_at(self._lines, at),
            )
        )

    def value(self, table: Mapping[str, Any], at: Path, read: Callable[[Any], Any]) -> Any:
        """One value, or None if it is invalid."""
        name = str(at[-1])
        try:
            return read(table[name])
        except _InvalidValueError as error:
            self.error("policy-invalid", f"`{name}` {error}.", _HINTS.get(name, "docs/policy.md"), at)
            return None

    def tables(
        self, table: Mapping[str, Any], name: str, example: str, fields: Mapping[str, Callable[[Any], Any]]
    ) -> list[tuple[Path, dict[str, Any]]]:
        """The entries of an array of tables of which every key is valid, each with its path in the file."""
        entries = table.get(name, [])
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            message = f"`{name}` must be a list of tables, each below a line `[[{name}]]`."
            self.error("policy-invalid", message, f"Write e.g.\n    {example}", (name,))
            return []
        read: list[tuple[Path, dict[str, Any]]] = []
        for number, entry in enumerate(entries):
            at: Path = (name, number)
            problems_before = len(self.problems)
            for key in entry:
                if key not in fields:
                    message = f"There is no `{key}` in [[{name}]]."
                    hint = _meant(key, fields) if len(self.problems) < MAX_PROBLEMS else ""
                    self.error("policy-unknown-key", message, hint, (*at, key))
            values = {key: self.value(entry, (*at, key), fields[key]) for key in entry if key in fields}
            if len(self.problems) == problems_before:
                read.append((at, values))
        return read

    def policy(self, at: Path, values: dict[str, Any]) -> PolicyEntry | None:
        """One `[[policy]]`, or None if its keys are incompatible."""
        entry = PolicyEntry(
            **{key.replace("-", "_"): value for key, value in values.items()}, line=line_at(self._lines, at)
        )
        rules = sorted(values.keys() - {"metric", "cases"})
        if not rules:
            hint = f"Set {', '.join(_RULES[:-1])} or {_RULES[-1]}, or remove the entry."
            self.error("policy-invalid", "This [[policy]] sets no rule.", hint, at)
            return None
        scored = [key for key in ("threshold", "direction") if key in values]
        if scored and entry.metric in {None, PASS_METRIC}:
            message = f"`{scored[0]}` needs a metric, and this [[policy]] names none."
            self.error("policy-invalid", message, 'Add e.g. `metric = "response_match_score"`.', (*at, scored[0]))
            return None
        duplicates = [
            (key, self._first_line(("policy", entry.metric, frozenset(entry.cases), key), at)) for key in rules
        ]
        for key, line in duplicates:
            if line is not None:
                message = f"`{key}` is already set in line {line} for the same metric and cases."
                self.error("policy-duplicate", message, "Remove one of them.", (*at, key))
        return None if any(line is not None for _, line in duplicates) else entry

    def quarantine(self, at: Path, values: dict[str, Any]) -> QuarantineEntry | None:
        """One `[[quarantine]]`, or None if something is missing."""
        missing = [key for key in _QUARANTINE_FIELDS if key not in values]
        if missing:
            named = ", ".join(f"`{key}`" for key in missing)
            hint = (
                f"Every quarantine needs a case, a reason, an owner and an expiry date, e.g.\n    {_QUARANTINE_EXAMPLE}"
            )
            self.error("policy-invalid", f"This [[quarantine]] has no {named}.", hint, at)
            return None
        if (line := self._first_line(("quarantine", values["case"]), at)) is not None:
            message = f"`{values['case']}` is already quarantined in line {line}."
            self.error("policy-duplicate", message, "Remove one of them.", at)
            return None
        return QuarantineEntry(**values, line=line_at(self._lines, at))

    def _first_line(self, rule: tuple[object, ...], at: Path) -> int | None:
        """The line of an earlier entry with the same rule; None if there is none."""
        if rule in self._seen:
            return self._seen[rule] or 0
        self._seen[rule] = line_at(self._lines, at)
        return None


def _meant(key: str, fields: Iterable[str]) -> str:
    """The hint for an unknown key."""
    if key in BY_INPUT or key in POLICY_KEYS:
        return "It is a top-level key: move it above the first table, because a table extends to the next one."
    near = nearby(key, fields, count=1)
    return f"Did you mean `{near[0]}`?" if near else f"Known keys: {', '.join(fields)}."


def _number(value: Any, low: float, high: float, expected: str) -> float:
    # True equals 1 in Python but is a mistake in a policy.
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise _InvalidValueError(f"must be {expected}, not {_shown(value)}")
    return float(value)


def _shown(value: Any) -> str:
    """A value in TOML notation, shortened."""
    text = str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _share(value: Any) -> float:
    return _number(value, 0.0, 1.0, "a number from 0 to 1")


def _threshold(value: Any) -> float:
    return _number(value, -1e308, 1e308, "a number")


def _alpha(value: Any) -> float:
    number = _number(value, 0.0, 1.0, _ALPHA)
    if not 0.0 < number < 1.0:
        raise _InvalidValueError(f"must be {_ALPHA}, not {_shown(value)}")
    return number


_ALPHA = "an error rate above 0 and below 1"


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _InvalidValueError(f"must be true or false, not {_shown(value)}")
    return value


def _direction(value: Any) -> str:
    if value not in ("higher", "lower"):
        raise _InvalidValueError(f'must be "higher" or "lower", not {_shown(value)}')
    return str(value)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _InvalidValueError(f"must be a non-empty text, not {_shown(value)}")
    return value.strip()


def _pattern(value: Any) -> str:
    pattern = _text(value)
    try:
        case_matcher(pattern)
    except ValueError as error:
        raise _InvalidValueError(f"has an invalid pattern: {error}") from error
    return pattern


def _patterns(value: Any) -> tuple[str, ...]:
    patterns: Sequence[Any] = value if isinstance(value, list) else [value]
    if not patterns:
        raise _InvalidValueError("must name at least one pattern; omit the key to select all cases")
    return tuple(_pattern(pattern) for pattern in patterns)


def _date(value: Any) -> date:
    if isinstance(value, datetime) or not isinstance(value, date):
        raise _InvalidValueError(
            f"must be a date such as 2027-01-31, without quotation marks or a time, not {_shown(value)}"
        )
    return value


_POLICY_FIELDS: Mapping[str, Callable[[Any], Any]] = {
    "metric": _text,
    "cases": _patterns,
    "threshold": _threshold,
    "max-drop": _share,
    "alpha": _alpha,
    "blocking": _flag,
    "direction": _direction,
}
_RULES = tuple(f"`{key}`" for key in _POLICY_FIELDS if key not in {"metric", "cases"})
_QUARANTINE_FIELDS: Mapping[str, Callable[[Any], Any]] = {
    "case": _pattern,
    "reason": _text,
    "owner": _text,
    "expires": _date,
}
_PATTERNS = "Patterns use .gitignore syntax and are relative to the root; `FILES:CASES` selects some of their cases."
_HINTS: Mapping[str, str] = {
    "metric": "The name of a metric, a glob of names, or `pass` for whether cases pass.",
    "cases": _PATTERNS,
    "case": _PATTERNS,
    "threshold": "The minimum mean score.",
    "max-drop": "The largest drop of a score against the base branch that does not block: 0.05 is 5 points.",
    "alpha": "The error rate for pull requests that change nothing: 0.05 fails one of twenty.",
    "blocking": "false: reported, but never a reason to fail.",
    "direction": "Whether higher or lower scores are better, for metrics without a threshold such as token_usage_v1.",
    "expires": "The last day on which the quarantine holds.",
    "max-quarantined": "The largest share of all cases that may be quarantined: 0.1 is one of ten.",
}
