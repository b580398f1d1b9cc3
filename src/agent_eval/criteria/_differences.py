"""Describes the arguments in which two calls of the same tool differ."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from agent_eval.core.content import FunctionCall
from agent_eval.core.text import shorten
from agent_eval.criteria._literal import escaped, literal, name_of
from agent_eval.criteria.calls import contains
from agent_eval.results import Reason

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
    if not expected.args and not actual.args and expected.args != actual.args:
        return [(tool, Reason.of("args-omitted" if expected.args is None else "args-empty"))]
    walk = _Walk(subset=subset)
    differences = list(islice(walk.between(expected.args or {}, actual.args or {}, "", 0), MOST_DIFFERENCES + 1))
    lines = [
        (shorten(f"{tool}({path})", _LONGEST_PLACE), difference) for path, difference in differences[:MOST_DIFFERENCES]
    ]
    if len(differences) > MOST_DIFFERENCES:
        lines.append((tool, Reason.of("more-arguments")))
    return lines or [(tool, Reason.of("args-differ-below"))]


@dataclass(frozen=True, kw_only=True)
class _Walk:
    """Walks through two JSON values. Does not compare below `_DEEPEST` levels."""

    subset: bool

    def between(self, expected: Any, actual: Any, path: str, depth: int) -> Iterator[tuple[str, Reason]]:
        """Pairs of path and description."""
        if depth > _DEEPEST:
            return
        if isinstance(expected, dict) and isinstance(actual, dict):
            for key, value in expected.items():
                inner = _join(path, str(key))
                if key not in actual:
                    yield inner, Reason.of("value-missing", wanted=literal(value))
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
        return not contains(expected, actual) if self.subset else expected != actual

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
    elif unicodedata.normalize("NFKC", expected) == unicodedata.normalize("NFKC", actual):
        return Reason.of("characters-look-alike", wanted=escaped(expected), got=escaped(actual))
    return Reason.of(code, wanted=literal(expected), got=literal(actual))


def _window(text: str, place: int) -> str:
    start = max(0, place - 15)
    end = start + _WINDOW
    return f"{'…' if start else ''}{literal(text[start:end])}{'…' if end < len(text) else ''}"
