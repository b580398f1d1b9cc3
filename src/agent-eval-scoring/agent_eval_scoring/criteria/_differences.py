"""Describes the arguments in which two calls of the same tool differ; renders values and calls as one short line of
JSON with invisible characters escaped, safe to print.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from agent_eval_scoring.core.content import FunctionCall
from agent_eval_scoring.core.reason import Reason
from agent_eval_scoring.core.text import shorten
from agent_eval_scoring.criteria._argument_rules import Rule, rule_at, settled
from agent_eval_scoring.criteria.calls import contains

MOST_DIFFERENCES = 6
"""Maximum number of lines for one pair of calls."""
_DEEPEST = 20
_LONGEST_PLACE = 200
_WINDOW = 60
"""Characters shown of a long text around its first difference."""


def describe_differences(
    expected: FunctionCall, actual: FunctionCall, *, subset: bool = False
) -> list[tuple[str, Reason]]:
    """The arguments that differ, e.g. `turn_on(device)`, and how.

    Args:
        expected: The call of the eval file.
        actual: The call that the agent made.
        subset: Whether the actual args may have keys that the expected ones lack.

    Returns:
        At most MOST_DIFFERENCES, and a last one if there are more.
    """
    tool = name_of(expected.name)
    actual_args = settled(expected, actual)
    # `{}` and no args look alike in every rendering, and ADK does not take them for equal (Q14).
    if not expected.args and not actual_args and expected.args != actual_args:
        return [(tool, Reason.of("args-omitted" if expected.args is None else "args-empty"))]
    walk = _Walk(subset=subset, call=expected)
    # One more than is shown, to know whether there are more.
    differences = list(islice(walk.between(expected.args or {}, actual_args or {}, "", 0), MOST_DIFFERENCES + 1))
    lines = [
        (shorten(f"{tool}({path})", _LONGEST_PLACE), difference) for path, difference in differences[:MOST_DIFFERENCES]
    ]
    if len(differences) > MOST_DIFFERENCES:
        lines.append((tool, Reason.of("more-arguments")))
    # They differ deeper than the walk goes: never say nothing of a call that failed.
    return lines or [(tool, Reason.of("args-differ-below"))]


@dataclass(frozen=True, kw_only=True)
class _Walk:
    """Walks through two JSON values. Does not compare below `_DEEPEST` levels."""

    subset: bool
    call: FunctionCall
    """The expected call, with the rules for its args."""

    def between(self, expected: Any, actual: Any, path: str, depth: int) -> Iterator[tuple[str, Reason]]:
        """Pairs of path and description."""
        if depth > _DEEPEST:
            return
        if isinstance(expected, dict) and isinstance(actual, dict):
            for key, value in expected.items():
                inner = _join(path, str(key))
                if key not in actual:
                    yield inner, Reason.of("value-missing", wanted=literal(value))
                elif self._differ(value, actual[key]) and (rule := self._rule(inner)) is not None:
                    yield inner, _unaccepted(rule, value, actual[key])
                elif self._differ(value, actual[key]):
                    yield from self.between(value, actual[key], inner, depth + 1)
            for key, value in actual.items():
                if key not in expected and not self.subset:
                    yield _join(path, str(key)), Reason.of("value-extra", got=literal(value))
        elif isinstance(expected, list) and isinstance(actual, list):
            yield from self._between_lists(expected, actual, path, depth)
        else:
            yield path, _unequal(expected, actual)

    def _differ(self, expected: Any, actual: Any) -> bool:
        # As the criterion compares, e.g. 1 and true as equal: no difference is shown that it does not see.
        return not contains(expected, actual) if self.subset else expected != actual

    def _rule(self, path: str) -> Rule | None:
        # Rules have no indices: they are for each item of a list.
        return rule_at(self.call, re.sub(r"\[\d+\]", "", path))

    def _between_lists(
        self, expected: list[Any], actual: list[Any], path: str, depth: int
    ) -> Iterator[tuple[str, Reason]]:
        if len(expected) != len(actual):
            wanted, got = literal(expected), literal(actual)
            yield path, Reason.of("items-counted", expected=len(expected), count=len(actual), wanted=wanted, got=got)
            return
        if _same_items(expected, actual):
            yield path, Reason.of("items-reordered", wanted=literal(expected), got=literal(actual))
            return
        for index, (left, right) in enumerate(zip(expected, actual, strict=True)):
            if self._differ(left, right):
                yield from self.between(left, right, f"{path}[{index}]", depth + 1)


def _unaccepted(rule: Rule, expected: Any, actual: Any) -> Reason:
    kind, limit = (rule, "") if isinstance(rule, str) else next((key, literal(value)) for key, value in rule.items())
    return Reason.of("value-unaccepted", kind=kind, note=limit, wanted=literal(expected), got=literal(actual))


def _same_items(expected: list[Any], actual: list[Any]) -> bool:
    if len(expected) > 50:
        return False
    remaining = list(actual)
    for item in expected:
        if item not in remaining:
            return False
        remaining.remove(item)
    return True


def _join(path: str, key: str) -> str:
    return f"{path}.{name_of(key)}" if path else name_of(key)


def _unequal(expected: Any, actual: Any) -> Reason:
    ours, theirs = _kind(expected), _kind(actual)
    if isinstance(expected, str) and isinstance(actual, str):
        return describe_texts(expected, actual)
    kinds = [ours, theirs] if ours != theirs else []
    return Reason.of("values-differ", wanted=literal(expected), got=literal(actual), kinds=kinds)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "text"
    return "object" if isinstance(value, dict) else "list"


def describe_texts(expected: str, actual: str) -> Reason:
    """In what two different texts differ; of long ones the first difference."""
    if max(len(expected), len(actual)) > 2 * _WINDOW:
        place = next(
            (i for i, (left, right) in enumerate(zip(expected, actual, strict=False)) if left != right),
            min(len(expected), len(actual)),
        )
        return Reason.of("texts-differ-at", wanted=_window(expected, place), got=_window(actual, place), at=place + 1)
    code = "capitals-differ" if expected.casefold() == actual.casefold() else "values-differ"
    if expected.split() == actual.split():
        code = "whitespace-differs"
    # Such as a no-break space or a composed letter: printed as they are, both texts would look equal.
    elif unicodedata.normalize("NFKC", expected) == unicodedata.normalize("NFKC", actual):
        return Reason.of("characters-look-alike", wanted=escaped(expected), got=escaped(actual))
    return Reason.of(code, wanted=literal(expected), got=literal(actual))


def _window(text: str, place: int) -> str:
    # Some characters before the place, by which a reader finds it.
    start = max(0, place - 15)
    end = start + _WINDOW
    return f"{'…' if start else ''}{literal(text[start:end])}{'…' if end < len(text) else ''}"


_PLAIN_NAME = re.compile(r"[A-Za-z_][\w.:-]*( > [A-Za-z_][\w.:-]*)*", re.ASCII)
_DEEPEST_SHOWN = 12
LONGEST_VALUE = 120
LONGEST_CALL = 300


def visible(text: str) -> str:
    r"""The text on one line: control characters, unusual spaces, bidi marks and surrogates as `\uXXXX`."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _escape(character) for character in text)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def literal(value: Any, limit: int = LONGEST_VALUE) -> str:
    """A JSON value on one line of about `limit` characters; omissions are marked with `…`.

    Reads only as much of the value as it shows, so the cost does not depend on the size of the value.
    """
    return _literal(value, limit, 0)


def _literal(value: Any, limit: int, depth: int) -> str:
    if isinstance(value, str):
        # At least 60: what is left of the limit may be a few characters, which show nothing.
        cut = shorten(value, max(limit, 60))
        return visible(json.dumps(cut, ensure_ascii=False))
    if isinstance(value, Mapping | list | tuple):
        if depth >= _DEEPEST_SHOWN:
            return "{…}" if isinstance(value, Mapping) else "[…]"
        return _container(value, limit, depth)
    try:
        return shorten(json.dumps(value), max(limit, 60))
    except (TypeError, ValueError):  # not JSON, or a number of over 4,300 digits
        return f"({type(value).__name__})"


def escaped(text: str) -> str:
    r"""The text as JSON with all non-ASCII characters as `\uXXXX`, to distinguish characters that look alike."""
    return json.dumps(shorten(text, LONGEST_VALUE))


def _container(value: Mapping[Any, Any] | list[Any] | tuple[Any, ...], limit: int, depth: int) -> str:
    is_mapping = isinstance(value, Mapping)
    pieces: list[str] = []
    remaining = limit
    for item in value.items() if isinstance(value, Mapping) else value:
        if remaining <= 0:
            pieces.append("…")
            break
        if is_mapping:
            piece = f"{_literal(str(item[0]), 60, depth)}: {_literal(item[1], remaining, depth + 1)}"
        else:
            piece = _literal(item, remaining, depth + 1)
        pieces.append(piece)
        remaining -= len(piece) + 2
    return ("{%s}" if is_mapping else "[%s]") % ", ".join(pieces)


def name_of(name: str | None) -> str:
    """The name of a tool or an argument, quoted unless it is an identifier."""
    if name is None:
        return "(no name)"
    # A model invents names of tools, with any text in them.
    return name if len(name) <= 80 and _PLAIN_NAME.fullmatch(name) else _literal(name, 80, 0)


def render_call(call: FunctionCall, *, ignore_args: bool = False, limit: int = LONGEST_CALL) -> str:
    """A call as code: `turn_on(device="lamp", level=3)`, or `turn_on(…)` with `ignore_args`."""
    name = name_of(call.name)
    if not call.args:
        return f"{name}()"
    if ignore_args:
        return f"{name}(…)"
    pieces: list[str] = []
    remaining = limit - len(name)
    for key, value in call.args.items():
        if remaining <= 0:
            pieces.append("…")
            break
        piece = f"{name_of(key)}={literal(value, min(remaining, LONGEST_VALUE))}"
        pieces.append(piece)
        remaining -= len(piece) + 2
    return f"{name}({', '.join(pieces)})"
