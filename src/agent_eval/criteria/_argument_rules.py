"""Applies the rules for args of expected calls: what a rule accepts becomes equal to what is expected."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from agent_eval.core.content import FunctionCall
from agent_eval.core.patterns import LONGEST_WHOLE, bounded
from agent_eval.criteria._sequences import matching
from agent_eval.evalset.models.argument_rules import applies, period, relative

Rule = str | Mapping[str, Any]
"""See `evalset.models.argument_rules`."""


class RuledCall(FunctionCall):
    """An expected call with the rules for its args."""

    rules: tuple[tuple[str, Any], ...] = ()
    """The path of an argument, a glob, and its rule; of several that match, the last one counts."""


def ruled(calls: Sequence[FunctionCall], rules: Mapping[str, Mapping[str, Rule]]) -> Sequence[FunctionCall]:
    """The expected calls of a turn with those rules that apply to each.

    Args:
        calls: The calls.
        rules: By tool: `args` of a criterion.
    """
    return [_ruled(call, at, rules) for at, call in enumerate(calls, 1)] if rules else calls


def _ruled(call: FunctionCall, at: int, rules: Mapping[str, Mapping[str, Rule]]) -> FunctionCall:
    own = tuple(item for tool, of_tool in rules.items() if applies(tool, call.name, at) for item in of_tool.items())
    return RuledCall(name=call.name, args=call.args, rules=own) if own else call


def rule_at(call: FunctionCall, path: str) -> Rule | None:
    """The rule for an argument of an expected call, if it has one."""
    rules = call.rules if isinstance(call, RuledCall) else ()
    found = next((rule for pattern, rule in reversed(rules) if fnmatchcase(path, pattern)), None)
    return None if found == "exact" else found


def settled(expected: FunctionCall, actual: FunctionCall) -> dict[str, Any] | None:
    """The args of an actual call, with the expected values where a rule accepts the actual ones."""
    if not isinstance(expected, RuledCall):
        return actual.args
    args: dict[str, Any] = _settled(expected, expected.args or {}, actual.args or {}, "")
    if args or expected.args:
        return args
    # Omitted args are not `{}`, unless all that differs is ignored.
    return expected.args if actual.args else actual.args


def _settled(call: FunctionCall, expected: Any, actual: Any, path: str) -> Any:
    if isinstance(expected, dict) and isinstance(actual, dict):
        result: dict[str, Any] = {}
        for key in [*actual, *(key for key in expected if key not in actual)]:
            inner = f"{path}.{key}" if path else str(key)
            rule = rule_at(call, inner)
            if rule == "ignore":
                result |= {key: expected[key]} if key in expected else {}
            elif key in actual and key in expected:
                fitting = rule is not None and fits(rule, expected[key], actual[key])
                result[key] = expected[key] if fitting else _settled(call, expected[key], actual[key], inner)
            elif key in actual:
                result[key] = actual[key]
        return result
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        return [_settled(call, *pair, path) for pair in zip(expected, actual, strict=True)]
    return actual


def fits(rule: Rule, expected: Any, actual: Any) -> bool:
    """Whether a rule accepts an actual value."""
    if isinstance(rule, str):
        return _FITS[rule](expected, actual)
    key, value = next(iter(rule.items()))
    return _FITS[key](value, expected, actual)


def _text(change: Callable[[str], str]) -> Callable[[Any, Any], bool]:
    def same(expected: Any, actual: Any) -> bool:
        return bool(_changed(expected, change) == _changed(actual, change))

    return same


def _changed(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {key: _changed(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_changed(item, change) for item in value]
    return change(value) if isinstance(value, str) else value


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def _within(tolerance: Any, expected: Any, actual: Any) -> bool:
    pair = (_number(expected), _number(actual))
    if None in pair:
        return False
    wanted, got = (value or 0.0 for value in pair)
    share = relative(tolerance)
    allowed = tolerance if share is None else share * abs(wanted)
    # Decimal fractions are not exact in binary: 1.1 - 1.0 exceeds 0.1 by a rounding error.
    return abs(wanted - got) <= allowed or math.isclose(abs(wanted - got), allowed, rel_tol=1e-9)


def _number(value: Any) -> float | None:
    try:
        return None if isinstance(value, bool) or not isinstance(value, int | float) else float(value)
    except OverflowError:
        return None


def _matches(pattern: str, expected: Any, actual: Any) -> bool:
    text = str(actual) if _number(actual) is not None else actual
    return isinstance(text, str) and len(text) <= LONGEST_WHOLE and _compiled(pattern).fullmatch(text) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return bounded(pattern, whole=True)


def _subset(expected: Any, actual: Any) -> bool:
    if isinstance(expected, dict) and isinstance(actual, dict):
        return all(key in actual and _subset(value, actual[key]) for key, value in expected.items())
    if isinstance(expected, list) and isinstance(actual, list):
        candidates = [[at for at, other in enumerate(actual) if _subset(item, other)] for item in expected]
        return len(matching(candidates)) == len(expected)
    return bool(expected == actual)


def _date_within(length: str, expected: Any, actual: Any) -> bool:
    wanted, got = _moment(expected), _moment(actual)
    if wanted is None or got is None:
        return False
    if (wanted.tzinfo is None) is not (got.tzinfo is None):  # One of them has no zone: by the clock on the wall.
        wanted, got = wanted.replace(tzinfo=UTC), got.replace(tzinfo=UTC)
    return abs(wanted - got) <= period(length)


def _moment(value: Any) -> datetime | None:
    """A date or a time in ISO 8601."""
    try:
        moment = datetime.fromisoformat(value.strip())
        return moment if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, AttributeError, OverflowError):
        return None


_FITS: Mapping[str, Callable[..., bool]] = {
    "any": lambda _expected, _actual: True,
    "ignore_case": _text(str.casefold),
    "ignore_space": _text(_squeezed),
    "ignore_case_and_space": _text(lambda text: _squeezed(text.casefold())),
    "subset": _subset,
    "tolerance": _within,
    "pattern": _matches,
    "one_of": lambda values, _expected, actual: actual in values,
    "date_within": _date_within,
}
