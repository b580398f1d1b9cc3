"""Applies the rules for args of expected calls: what a rule accepts becomes equal to what is expected."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from agent_eval_scoring.core.content import FunctionCall
from agent_eval_scoring.core.patterns import LONGEST_WHOLE, bounded
from agent_eval_scoring.criteria._sequences import key_of, matching
from agent_eval_scoring.evalset.models.argument_rules import applies, paths, period, relative, specificity

_MOST_COMPARED = 200_000
"""Pairs of items of two lists."""
Rule = str | Mapping[str, Any]
"""See `evalset.models.argument_rules`."""


class RuledCall(FunctionCall):
    """An expected call with the rules for its args."""

    rules: tuple[tuple[str, Any], ...] = ()
    """The path of an argument, a glob, and its rule. The first one that matches counts: see `specificity`."""


def ruled(calls: Sequence[FunctionCall], rules: Mapping[str, Mapping[str, Rule]]) -> Sequence[FunctionCall]:
    """The expected calls of a turn with those rules that apply to each.

    Args:
        calls: The calls.
        rules: By tool: `args` of a criterion.
    """
    return [_ruled(call, at, rules) for at, call in enumerate(calls, 1)] if rules else calls


def _ruled(call: FunctionCall, at: int, rules: Mapping[str, Mapping[str, Rule]]) -> FunctionCall:
    own = {
        (tool, path): rule
        for tool, of_tool in rules.items()
        if applies(tool, call.name, at)
        for path, rule in of_tool.items()
    }
    # Not in the order of the file: there, two rules that change places would be a change that no comparison sees.
    ordered = tuple((path, own[tool, path]) for tool, path in sorted(own, key=lambda key: specificity(*key)))
    return RuledCall(name=call.name, args=call.args, rules=ordered) if own else call


def rule_at(call: FunctionCall, path: str) -> Rule | None:
    """The rule for an argument of an expected call, if it has one."""
    found = _winner(call, path)
    return None if found is None or found[1] == "exact" else found[1]


def _winner(call: FunctionCall, path: str) -> tuple[str, Rule] | None:
    rules = call.rules if isinstance(call, RuledCall) else ()
    return next((rule for rule in rules if fnmatchcase(path, rule[0])), None)


def settled(expected: FunctionCall, actual: FunctionCall) -> dict[str, Any] | None:
    """The args of an actual call, with the expected values where a rule accepts the actual ones."""
    if not isinstance(expected, RuledCall):
        return actual.args
    args: dict[str, Any] = _settled(expected, expected.args or {}, actual.args or {}, "", None)
    if args or expected.args:
        return args
    # Omitted args are not `{}`, unless all that differs is ignored.
    return expected.args if actual.args else actual.args


def _settled(call: FunctionCall, expected: Any, actual: Any, path: str, above: Rule | None) -> Any:
    """The actual value, and in it the expected ones where a rule accepts the actual ones.

    Args:
        call: The expected call.
        expected: The expected value.
        actual: The actual value.
        path: Where they are.
        above: The rule of the object or list that they are in, if they have none of their own.
    """
    if isinstance(expected, dict) and isinstance(actual, dict):
        result: dict[str, Any] = {}
        for key in [*actual, *(key for key in expected if key not in actual)]:
            inner = f"{path}.{key}" if path else str(key)
            winner = _winner(call, inner)
            rule = above if winner is None else winner[1]
            sides = [side[key] for side in (expected, actual) if key in side]
            # A rule for a part of it is more specific than the one for all of it.
            is_split = any(_winner(call, part) not in (None, winner) for side in sides for part in paths(side, inner))
            if rule == "ignore" and not is_split:
                result |= {key: expected[key]} if key in expected else {}
            elif len(sides) == 2:
                result[key] = _value(call, expected[key], actual[key], inner, rule, is_split=is_split)
            elif key in actual and above not in ("subset", "any"):
                result[key] = actual[key]
        return result
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        pairs = zip(expected, actual, strict=True)
        return [_value(call, *pair, path, above, is_split=isinstance(pair[0], dict | list)) for pair in pairs]
    return actual


def _value(call: FunctionCall, expected: Any, actual: Any, path: str, rule: Rule | None, *, is_split: bool) -> Any:
    if not is_split and rule is not None and fits(rule, expected, actual):
        return expected
    are_objects = isinstance(expected, dict) and isinstance(actual, dict)
    result = _settled(call, expected, actual, path, rule if is_split or not are_objects else None)
    # An explanation shows the whole value, so that no part of it may be the expected one instead.
    return result if is_split or result == expected else actual


def fits(rule: Rule, expected: Any, actual: Any) -> bool:
    """Whether a rule accepts an actual value."""
    if isinstance(rule, str):
        return _FITS[rule](expected, actual) if rule in _FITS else bool(expected == actual)
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
    return change(unicodedata.normalize("NFC", value)) if isinstance(value, str) else value


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def _within(tolerance: Any, expected: Any, actual: Any) -> bool:
    if None in (_number(expected), _number(actual)):
        return False
    share = relative(tolerance)
    allowed = tolerance if share is None else share * abs(expected)
    difference = abs(expected - actual)  # of two integers exact, however long they are
    # Decimal fractions are not exact in binary: 1.1 - 1.0 exceeds 0.1 by a rounding error.
    return bool(difference <= allowed or (isinstance(difference, float) and math.isclose(difference, allowed)))


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
        return _contains_all(expected, actual)
    return bool(expected == actual)


def _contains_all(expected: list[Any], actual: list[Any]) -> bool:
    """Whether each expected item has an actual one of its own. Of long lists that need too many comparisons: no.

    Equal items are pairs first: what fits the actual one fits as well what would have fitted the expected one.
    """
    free: dict[Any, list[int]] = {}
    for at, item in enumerate(actual):
        free.setdefault(key_of(item), []).append(at)
    left = [item for item in expected if not (same := free.get(key_of(item))) or same.pop() is None]
    rest = [actual[at] for places in free.values() for at in places]
    having: dict[Any, list[int]] = {}
    for at, item in enumerate(rest):
        for pair in _scalars(item):
            having.setdefault(pair, []).append(at)
    fitting: dict[Any, list[int]] = {}
    most = _MOST_COMPARED
    for item in left:
        if key_of(item) not in fitting:
            places = min((having.get(pair, []) for pair in _scalars(item)), key=len, default=range(len(rest)))
            most -= len(places)
            found = [at for at in places if _subset(item, rest[at])] if most >= 0 else []
            if not found:
                return False
            fitting[key_of(item)] = found
    return len(matching([fitting[key_of(item)] for item in left])) == len(left)


def _scalars(item: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The values in an object that are no lists, with their paths: what contains it has them, too."""
    for key, value in item.items() if isinstance(item, dict) else ():
        if isinstance(value, dict):
            yield from _scalars(value, (*path, key))
        elif not isinstance(value, list):
            yield (*path, key), value


def _date_within(length: str, expected: Any, actual: Any) -> bool:
    wanted, got = _moment(expected), _moment(actual)
    if wanted is None or got is None:
        return False
    if (wanted.tzinfo is None) is not (got.tzinfo is None):  # One of them has no zone: UTC's.
        wanted, got = (each if each.tzinfo else each.replace(tzinfo=UTC) for each in (wanted, got))
    return abs(wanted - got) <= period(length)


def _moment(value: Any) -> datetime | None:
    """A date, or a time with or without one, in ISO 8601."""
    for text in (value, f"2000-01-01T{value}") if isinstance(value, str) else ():
        try:
            return datetime.fromisoformat(text.strip())
        except ValueError:
            continue
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
