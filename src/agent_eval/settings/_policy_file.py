"""Reads `[[policy]]`, `[[quarantine]]` and `max-quarantined` of agent-eval.toml, strictly.

A gate that ignored a misspelt key would do something else than the file says, so everything that isn't understood is an
error, with its line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any

from agent_eval.core.problem import MAX_PROBLEMS, Problem, Severity
from agent_eval.core.selectors import nearby
from agent_eval.core.toml_lines import Path, lines_of, read_toml
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
"""What is read here; the other keys of the file are settings."""

_POLICY_EXAMPLE = '[[policy]]\n    metric = "response_match_score"\n    max-drop = 0.05'
_QUARANTINE_EXAMPLE = (
    '[[quarantine]]\n    case = "evals/home.test.json:lamp_on"\n    reason = "the clock of the fixture drifts"\n'
    '    owner = "@alice"\n    expires = 2027-01-31'
)


class _Wrong(ValueError):
    """A value that can't be: what is wanted, in words."""


def read_policy(table: Mapping[str, Any], lines: Mapping[Path, int], file: str) -> tuple[Policy, list[Problem]]:
    """Reads the keys in POLICY_KEYS of a file that tomllib has read.

    Args:
        table: The file; other keys are left alone.
        lines: Where what stands, by `core.toml_lines`.
        file: The file's name, for the problems.

    Returns:
        The policy and what is wrong with it. An entry with a mistake is left out; every problem is an error.
    """
    reader = _Reader(lines, file)
    share = reader.value(table, ("max-quarantined",), _share) if "max-quarantined" in table else None
    policies = reader.tables(table, "policy", _POLICY_EXAMPLE, _POLICY_FIELDS)
    quarantines = reader.tables(table, "quarantine", _QUARANTINE_EXAMPLE, _QUARANTINE_FIELDS)
    policy = Policy(
        entries=tuple(entry for at, given in policies if (entry := reader.policy(at, given)) is not None),
        quarantine=tuple(held for at, given in quarantines if (held := reader.quarantine(at, given)) is not None),
        max_quarantined=DEFAULT_MAX_QUARANTINED if share is None else share,
    )
    return policy, sorted(reader.problems, key=lambda problem: problem.line or 0)


def policy_of(text: str, file: str = "agent-eval.toml") -> tuple[Policy, list[Problem]]:
    """Reads the policy of a whole agent-eval.toml, e.g. of the base branch's.

    Raises:
        TomlError: It is no TOML.
    """
    return read_policy(read_toml(text), lines_of(text), file)


class _Reader:
    """Reads tables; collects what is wrong with them."""

    def __init__(self, lines: Mapping[Path, int], file: str) -> None:
        self._lines, self._file = lines, file
        self._seen: dict[tuple[object, ...], int | None] = {}
        self.problems: list[Problem] = []

    def error(self, code: str, message: str, hint: str, at: Path) -> None:
        self.problems.append(
            Problem(
                severity=Severity.ERROR, code=code, message=message, hint=hint, file=self._file, line=self._line(at)
            )
        )

    def _line(self, at: Path) -> int | None:
        """The line of a key; of what is written inside an array, the array's."""
        return next((line for depth in range(len(at), 0, -1) if (line := self._lines.get(at[:depth]))), None)

    def value(self, table: Mapping[str, Any], at: Path, read: Callable[[Any], Any]) -> Any:
        """One value, or None if it can't be."""
        name = str(at[-1])
        try:
            return read(table[name])
        except _Wrong as wrong:
            self.error("policy-invalid", f"`{name}` {wrong}.", _HINTS.get(name, "docs/policy.md"), at)
            return None

    def tables(
        self, table: Mapping[str, Any], name: str, example: str, fields: Mapping[str, Callable[[Any], Any]]
    ) -> list[tuple[Path, dict[str, Any]]]:
        """The entries of an array of tables without a mistake in a single key, each with its place."""
        given = table.get(name, [])
        if not isinstance(given, list) or not all(isinstance(entry, dict) for entry in given):
            message = f"`{name}` must be a list of tables, each below a line `[[{name}]]`."
            self.error("policy-invalid", message, f"Write e.g.\n    {example}", (name,))
            return []
        read: list[tuple[Path, dict[str, Any]]] = []
        for number, entry in enumerate(given):
            at: Path = (name, number)
            found = len(self.problems)
            for key in entry:
                if key not in fields:
                    message = f"There is no `{key}` in [[{name}]]."
                    hint = _meant(key, fields) if len(self.problems) < MAX_PROBLEMS else ""
                    self.error("policy-unknown-key", message, hint, (*at, key))
            values = {key: self.value(entry, (*at, key), fields[key]) for key in entry if key in fields}
            if len(self.problems) == found:
                read.append((at, values))
        return read

    def policy(self, at: Path, given: dict[str, Any]) -> PolicyEntry | None:
        """One `[[policy]]`, or None if its keys don't go together."""
        entry = PolicyEntry(**{key.replace("-", "_"): value for key, value in given.items()}, line=self._line(at))
        said = sorted(given.keys() - {"metric", "cases"})
        if not said:
            hint = f"Say {', '.join(_SAYS[:-1])} or {_SAYS[-1]}, or remove it."
            self.error("policy-invalid", "This [[policy]] says for what it holds, and not what.", hint, at)
            return None
        scored = [key for key in ("threshold", "direction") if key in given]
        if scored and entry.metric in {None, PASS_METRIC}:
            message = f"`{scored[0]}` is for a metric, and this [[policy]] names none."
            self.error("policy-invalid", message, 'Add e.g. `metric = "response_match_score"`.', (*at, scored[0]))
            return None
        twice = [(key, self._again(("policy", entry.metric, frozenset(entry.cases), key), at)) for key in said]
        for key, line in twice:
            if line is not None:
                message = f"`{key}` is said twice for the same metric and cases; the first time in line {line}."
                self.error("policy-duplicate", message, "Remove one of them.", (*at, key))
        return None if any(line is not None for _, line in twice) else entry

    def quarantine(self, at: Path, given: dict[str, Any]) -> QuarantineEntry | None:
        """One `[[quarantine]]`, or None if something is missing."""
        missing = [key for key in _QUARANTINE_FIELDS if key not in given]
        if missing:
            named = ", ".join(f"`{key}`" for key in missing)
            hint = f"Every quarantine has a reason, an owner and an end, e.g.\n    {_QUARANTINE_EXAMPLE}"
            self.error("policy-invalid", f"This [[quarantine]] has no {named}.", hint, at)
            return None
        if (line := self._again(("quarantine", given["case"]), at)) is not None:
            message = f"`{given['case']}` is quarantined twice; the first time in line {line}."
            self.error("policy-duplicate", message, "Remove one of them.", at)
            return None
        return QuarantineEntry(**given, line=self._line(at))

    def _again(self, what: tuple[object, ...], at: Path) -> int | None:
        """The line where the same was said before; None the first time."""
        if what in self._seen:
            return self._seen[what] or 0
        self._seen[what] = self._line(at)
        return None


def _meant(key: str, fields: Iterable[str]) -> str:
    """What somebody who wrote an unknown key may have meant."""
    if key in BY_INPUT or key in POLICY_KEYS:
        return "It belongs to the whole file: move it above the first table, since a table goes on to the next one."
    near = nearby(key, fields, count=1)
    return f"Did you mean `{near[0]}`?" if near else f"Known keys: {', '.join(fields)}."


def _number(value: Any, low: float, high: float, wanted: str) -> float:
    # In Python true is 1; in a policy it is a mistake.
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise _Wrong(f"must be {wanted}, not {_shown(value)}")
    return float(value)


def _shown(value: Any) -> str:
    """A value as it is written in TOML, short."""
    text = str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _share(value: Any) -> float:
    return _number(value, 0.0, 1.0, "a number from 0 to 1")


def _threshold(value: Any) -> float:
    return _number(value, -1e308, 1e308, "a number")


def _alpha(value: Any) -> float:
    number = _number(value, 0.0, 1.0, _ALPHA)
    if not 0.0 < number < 1.0:
        raise _Wrong(f"must be {_ALPHA}, not {_shown(value)}")
    return number


_ALPHA = "an error rate above 0 and below 1"


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _Wrong(f"must be true or false, not {_shown(value)}")
    return value


def _direction(value: Any) -> str:
    if value not in ("higher", "lower"):
        raise _Wrong(f'must be "higher" or "lower", not {_shown(value)}')
    return str(value)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _Wrong(f"must be a text that says something, not {_shown(value)}")
    return value.strip()


def _pattern(value: Any) -> str:
    pattern = _text(value)
    try:
        case_matcher(pattern)
    except ValueError as error:
        raise _Wrong(f"has a pattern that can't be read: {error}") from error
    return pattern


def _patterns(value: Any) -> tuple[str, ...]:
    given: Sequence[Any] = value if isinstance(value, list) else [value]
    if not given:
        raise _Wrong("must name at least one pattern; leave it out to mean all cases")
    return tuple(_pattern(one) for one in given)


def _date(value: Any) -> date:
    if isinstance(value, datetime) or not isinstance(value, date):
        raise _Wrong(f"must be a date such as 2027-01-31, without quotation marks and time, not {_shown(value)}")
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
_SAYS = tuple(f"`{key}`" for key in _POLICY_FIELDS if key not in {"metric", "cases"})
_QUARANTINE_FIELDS: Mapping[str, Callable[[Any], Any]] = {
    "case": _pattern,
    "reason": _text,
    "owner": _text,
    "expires": _date,
}
_PATTERNS = "Patterns work as in .gitignore and start at the root; `FILES:CASES` means some of their cases."
_HINTS: Mapping[str, str] = {
    "metric": "The name of a metric, a glob of names, or pass for the cases' pass or fail.",
    "cases": _PATTERNS,
    "case": _PATTERNS,
    "threshold": "What the mean score must reach.",
    "max-drop": "How far a score may fall from the base without blocking: 0.05 is five points of a hundred.",
    "alpha": "How often a pull request that changed nothing may fail: 0.05 is one of twenty.",
    "blocking": "false: told, never a reason to fail.",
    "direction": "Which way is better, for metrics that have no threshold of their own, such as token_usage_v1.",
    "expires": "The last day on which the quarantine holds.",
    "max-quarantined": "The share of all cases that may be quarantined: 0.1 is one of ten.",
}
