"""Which lines of a file a pull request changes, in text and in code."""

from __future__ import annotations

import ast
import difflib
import io
import tokenize
import warnings
from collections.abc import Callable, Iterable, Sequence

from agent_eval.results import Place

Lines = Sequence[tuple[int, int]]
"""Changed lines of the head's file, both ends included. Where lines were only removed, the line before them."""
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_MOST_DIFFERING_LINES = 3_000
"""A longer part of a file that differs counts as changed as a whole."""


def lines_of(text: str) -> list[str]:
    """As Python counts them: a form feed ends none."""
    return text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n")


def tree_of(text: str) -> ast.Module | None:
    """A module's code; None for what can't be parsed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes in the text
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def changed_lines(base: str | None, head: str) -> list[tuple[int, int]]:
    """The lines of a file that differ from the base's; all lines if the base has no such file."""
    new = lines_of(head)
    return [(1, len(new))] if base is None else _differing(lines_of(base), new)


def changed_code(base: str | None, head: str) -> list[tuple[int, int]]:
    """The lines of a module that differ in what Python runs: not in comments, docstrings and empty lines alone."""
    old, new = _code(base or ""), _code(head)
    if base is None or old is None or new is None:
        return changed_lines(base, head)
    numbers = [*new, max(new, default=1)]
    blocks = _differing(list(old.values()), list(new.values()))
    return [(numbers[first - 1], numbers[last - 1]) for first, last in blocks]


def _code(text: str) -> dict[int, str] | None:
    """The lines with code, by number; None for what can't be parsed."""
    tree = tree_of(text)
    if tree is None:
        return None
    written = lines_of(text)
    lines = dict(enumerate((line.rstrip() for line in written), 1))
    try:
        tokens = [*tokenize.generate_tokens(io.StringIO("\n".join(written) + "\n").readline)]
    except (tokenize.TokenError, SyntaxError):
        return None
    for token in tokens:
        if token.type == tokenize.COMMENT:
            lines[token.start[0]] = lines[token.start[0]][: token.start[1]].rstrip()
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            for number in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1):
                lines[number] = ""
    return {number: line for number, line in lines.items() if line}


def _differing(old: list[str], new: list[str]) -> list[tuple[int, int]]:
    start = next((at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), None)
    if start is None:
        start = min(len(old), len(new))
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    old, new = old[start : len(old) - end], new[start : len(new) - end]
    if not old and not new:
        return []
    if max(len(old), len(new)) > _MOST_DIFFERING_LINES:
        return [(start + 1, start + max(len(new), 1))]
    blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [
        (start + first + 1, start + last) if last > first else (max(start + first, 1),) * 2
        for kind, _, _, first, last in blocks
        if kind != "equal"
    ]


def within(places: Iterable[Place], changed: Callable[[str], Lines | None]) -> list[Place]:
    """The changed lines of some places, those close together as one.

    Args:
        places: Of the head's files.
        changed: The changed lines of a file; None if they are unknown.
    """
    found: dict[tuple[str, int | None], Place] = {}
    for place in places:
        hit: tuple[int, int] | None = None
        for first, last in changed(place.file) or ():
            if place.first is None or (first <= (place.last or place.first) and last >= place.first):
                low = first if place.first is None else max(first, place.first)
                high = last if place.last is None else min(last, place.last)
                hit = (low, high) if hit is None else (hit[0], max(hit[1], high))
        if hit is not None:
            lines = {} if place.first is None else {"first": hit[0], "last": hit[1]}
            found.setdefault((place.file, lines.get("first")), Place(file=place.file, symbol=place.symbol, **lines))
    return list(found.values())
