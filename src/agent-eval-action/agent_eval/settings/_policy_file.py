"""Reads `[[policy]]`, `[[quarantine]]` and `max-quarantined` of agent-eval.toml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime
from typing import Any

from agent_eval.gate.policy import (
    DEFAULT_MAX_QUARANTINED,
    PASS_METRIC,
    Policy,
    PolicyEntry,
    QuarantineEntry,
    case_matcher,
)
from agent_eval.settings._tables import Fields, TableReader, flag, number, one_of, text
from agent_eval.settings.parsers import ExpectedError
from agent_eval_scoring.core.problem import Problem
from agent_eval_scoring.core.toml_lines import Path

POLICY_KEYS = ("policy", "quarantine", "max-quarantined")
"""The keys read here. The other keys of the file are settings."""

_POLICY_EXAMPLE = '[[policy]]\n    metric = "response_match_score"\n    max-drop = 0.05'
_QUARANTINE_EXAMPLE = (
    '[[quarantine]]\n    case = "evals/home.test.json:lamp_on"\n    reason = "the clock of the fixture drifts"\n'
    '    owner = "@alice"\n    expires = 2027-01-31'
)


def read_policy(table: Mapping[str, Any], lines: Mapping[Path, int], file: str) -> tuple[Policy, list[Problem]]:
    """Reads the keys in POLICY_KEYS of a file that tomllib has read.

    Args:
        table: The parsed file; other keys are ignored.
        lines: The line of each key, from `core.toml_lines`.
        file: The file's name, for the problems.

    Returns:
        The policy, without invalid entries, and the problems. Every problem is an error.
    """
    policies = TableReader(code="policy-invalid", example=_POLICY_EXAMPLE, hints=_HINTS, lines=lines, file=file)
    quarantines = replace(policies, example=_QUARANTINE_EXAMPLE)
    share = table.get("max-quarantined", DEFAULT_MAX_QUARANTINED)
    entries = [_policy(policies, *read) for read in policies.array(table.get("policy", []), "policy", _POLICY_FIELDS)]
    quarantined = [
        _quarantine(quarantines, *read)
        for read in quarantines.array(table.get("quarantine", []), "quarantine", _QUARANTINE_FIELDS)
    ]
    most = policies.value(share, ("max-quarantined",), _SHARE)
    policy = Policy(
        entries=tuple(entry for entry in entries if entry is not None),
        quarantine=tuple(entry for entry in quarantined if entry is not None),
        max_quarantined=DEFAULT_MAX_QUARANTINED if most is None else most,
    )
    return policy, sorted(policies.problems, key=lambda problem: problem.line or 0)


def _policy(reader: TableReader, at: Path, values: dict[str, Any]) -> PolicyEntry | None:
    """One `[[policy]]`, or None if its keys are incompatible."""
    entry = PolicyEntry(
        **{key.replace("-", "_"): value for key, value in values.items()},
        line=reader.line(at),
        threshold_line=reader.line((*at, "threshold")),
    )
    rules = sorted(values.keys() - {"metric", "cases"})
    scored = [key for key in ("threshold", "direction") if key in values]
    if not rules:
        hint = f"Set {', '.join(_RULES[:-1])} or {_RULES[-1]}, or remove the entry."
        reader.error("This [[policy]] sets no rule.", at, hint)
        return None
    if scored and entry.metric in {None, PASS_METRIC}:
        message = f"`{scored[0]}` needs a metric, and this [[policy]] names none."
        reader.error(message, (*at, scored[0]), 'Add e.g. `metric = "response_match_score"`.')
        return None
    if entry.metric is not None and entry.changed_facts is not None:
        message = "`changed-facts` is about cases, and this [[policy]] names a metric."
        reader.error(message, (*at, "changed-facts"), "Give it an entry of its own, without `metric`.")
        return None
    first = {key: reader.first_line((entry.metric, frozenset(entry.cases), key), at) for key in rules}
    duplicates = {key: line for key, line in first.items() if line is not None}
    for key, line in duplicates.items():
        message = f"`{key}` is already set in line {line} for the same metric and cases."
        reader.error(message, (*at, key), "Remove one of them.", code="policy-duplicate")
    return None if duplicates else entry


def _quarantine(reader: TableReader, at: Path, values: dict[str, Any]) -> QuarantineEntry | None:
    """One `[[quarantine]]`, or None if something is missing."""
    missing = [f"`{key}`" for key in _QUARANTINE_FIELDS if key not in values]
    if missing:
        hint = f"Every quarantine needs a case, a reason, an owner and an expiry date, e.g.\n    {_QUARANTINE_EXAMPLE}"
        reader.error(f"This [[quarantine]] has no {', '.join(missing)}.", at, hint)
        return None
    if (line := reader.first_line(values["case"], at)) is not None:
        message = f"`{values['case']}` is already quarantined in line {line}."
        reader.error(message, at, "Remove one of them.", code="policy-duplicate")
        return None
    return QuarantineEntry(**values, line=reader.line(at))


def _pattern(value: Any) -> str:
    pattern = text(value)
    try:
        case_matcher(pattern)
    except ValueError as error:
        raise ValueError(f"has an invalid pattern: {error}") from error
    return pattern


def _patterns(value: Any) -> tuple[str, ...]:
    patterns = value if isinstance(value, list) else [value]
    if not patterns:
        raise ValueError("must name at least one pattern; omit the key to select all cases")
    return tuple(_pattern(pattern) for pattern in patterns)


def _alpha(value: Any) -> float:
    expected = "an error rate above 0 and below 1"
    rate = number(0, 1, expected)(value)
    if not 0 < rate < 1:
        raise ExpectedError(expected)
    return rate


def _date(value: Any) -> date:
    if isinstance(value, datetime) or not isinstance(value, date):
        raise ExpectedError("a date such as 2027-01-31, without quotation marks or a time")
    return value


_SHARE = number(0, 1, "a number from 0 to 1")
_POLICY_FIELDS: Fields = {
    "metric": text,
    "cases": _patterns,
    "threshold": number(-1e308, 1e308, "a number"),
    "max-drop": _SHARE,
    "alpha": _alpha,
    "blocking": flag,
    "direction": one_of("higher", "lower"),
    "changed-facts": one_of("inform", "block"),
}
_RULES = tuple(f"`{key}`" for key in _POLICY_FIELDS if key not in {"metric", "cases"})
_QUARANTINE_FIELDS: Fields = {"case": _pattern, "reason": text, "owner": text, "expires": _date}
_PATTERNS = "Patterns use .gitignore syntax and are relative to the root; `FILES:CASES` selects some of their cases."
_HINTS: Mapping[str, str] = {
    "metric": "The name of a metric, a glob of names, or `pass` for whether cases pass.",
    "cases": _PATTERNS,
    "case": _PATTERNS,
    "threshold": "The minimum mean score; for tokens, calls and seconds the maximum.",
    "max-drop": "The largest drop of a score against the base branch that does not block: 0.05 is 5 points.",
    "alpha": "The error rate for pull or merge requests that change nothing: 0.05 fails one of twenty.",
    "blocking": "false: reported, but never a reason to fail.",
    "direction": "Whether higher or lower scores are better, for metrics without a threshold such as token_usage_v1.",
    "changed-facts": "block: a case that answers otherwise than on the base branch, in fresh runs too, fails.",
    "expires": "The last day on which the quarantine holds.",
    "max-quarantined": "The largest share of all cases that may be quarantined: 0.1 is one of ten.",
}
