"""Describes the arguments in which two calls of the same tool differ."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from agent_eval.core.content import FunctionCall
from agent_eval.core.text import plural
from agent_eval.criteria._literal import escaped, literal, name_of
from agent_eval.criteria.calls import contains

MOST_DIFFERENCES = 6
"""Maximum number of lines for one pair of calls."""
_DEEPEST = 20
_WINDOW = 60
"""Characters shown of a long text around its first difference."""


def describe_differences(expected: FunctionCall, actual: FunctionCall, *, subset: bool = False) -> list[str]:
    """One line for each argument that differs, e.g. `turn_on(device): expected "lamp", got "fan"`.

    Args:
        expected: The call of the eval file.
        actual: The call that the agent made.
        subset: Whether the actual args may have keys that the expected ones lack.

    Returns:
        At most MOST_DIFFERENCES lines, and a last one if there are more.
    """
    tool = name_of(expected.name)
    if not expected.args and not actual.args and expected.args != actual.args:
        return [_omitted_or_empty(tool, expected)]
    walk = _Walk(subset=subset)
    differences = list(islice(walk.between(expected.args or {}, actual.args or {}, "", 0), MOST_DIFFERENCES + 1))
    lines = [f"{tool}({path}): {text}" for path, text in differences[:MOST_DIFFERENCES]]
    if len(differences) > MOST_DIFFERENCES:
        lines.append(f"{tool}: more arguments differ")
    return lines or [f"{tool}: the args differ below the compared depth"]


def _omitted_or_empty(tool: str, expected: FunctionCall) -> str:
    if expected.args is None:
        return f'{tool}: the eval file omits "args", the call has {{}}: not the same (as in ADK); write "args": {{}}'
    return f'{tool}: the eval file gives "args": {{}}, the call has none: not the same (as in ADK)'


@dataclass(frozen=True, kw_only=True)
class _Walk:
    """Walks through two JSON values. Does not compare below `_DEEPEST` levels."""

    subset: bool

    def between(self, expected: Any, actual: Any, path: str, depth: int) -> Iterator[tuple[str, str]]:
        """Pairs of path and description."""
        if depth > _DEEPEST:
            return
        if isinstance(expected, dict) and isinstance(actual, dict):
            for key, value in expected.items():
                inner = _join(path, str(key))
                if key not in actual:
                    yield inner, f"missing, expected {literal(value)}"
                elif self._differ(value, actual[key]):
                    yield from self.between(value, actual[key], inner, depth + 1)
            for key, value in actual.items():
                if key not in expected and not self.subset:
                    yield _join(path, str(key)), f"not expected, got {literal(value)}"
        elif isinstance(expected, list) and isinstance(actual, list):
            yield from self._between_lists(expected, actual, path, depth)
        else:
            yield path, _unequal(expected, actual)

    def _differ(self, expected: Any, actual: Any) -> bool:
        return not contains(expected, actual) if self.subset else expected != actual

    def _between_lists(
        self, expected: list[Any], actual: list[Any], path: str, depth: int
    ) -> Iterator[tuple[str, str]]:
        if len(expected) != len(actual):
            numbers = f"expected {plural(len(expected), 'item')}, got {len(actual):,}"
            yield path, f"{numbers}: expected {literal(expected)}, got {literal(actual)}"
            return
        if _same_items(expected, actual):
            yield path, f"same items in a different order: expected {literal(expected)}, got {literal(actual)}"
            return
        for index, (left, right) in enumerate(zip(expected, actual, strict=True)):
            if self._differ(left, right):
                yield from self.between(left, right, f"{path}[{index}]", depth + 1)


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


def _unequal(expected: Any, actual: Any) -> str:
    ours, theirs = _kind(expected), _kind(actual)
    if isinstance(expected, str) and isinstance(actual, str):
        return describe_texts(expected, actual)
    kinds = f" (expected {ours}, not {theirs})" if ours != theirs else ""
    return f"expected {literal(expected)}, got {literal(actual)}{kinds}"


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "text"
    return "an object" if isinstance(value, dict) else "a list"


def describe_texts(expected: str, actual: str) -> str:
    """In what two different texts differ; of long ones the first difference."""
    if max(len(expected), len(actual)) > 2 * _WINDOW:
        place = next(
            (i for i, (left, right) in enumerate(zip(expected, actual, strict=False)) if left != right),
            min(len(expected), len(actual)),
        )
        ours, theirs = _window(expected, place), _window(actual, place)
        return f"expected {ours}, got {theirs} (first difference at character {place + 1:,})"
    if expected.split() == actual.split():
        note = " (only whitespace differs)"
    elif unicodedata.normalize("NFKC", expected) == unicodedata.normalize("NFKC", actual):
        return f"expected {escaped(expected)}, got {escaped(actual)} (different characters that look alike)"
    else:
        note = " (only upper and lower case differ)" if expected.casefold() == actual.casefold() else ""
    return f"expected {literal(expected)}, got {literal(actual)}{note}"


def _window(text: str, place: int) -> str:
    start = max(0, place - 15)
    end = start + _WINDOW
    return f"{'…' if start else ''}{literal(text[start:end])}{'…' if end < len(text) else ''}"
