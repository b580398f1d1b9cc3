"""Mistakes in the code of a custom function, found by reading it."""

from __future__ import annotations

import ast
import builtins


def mistake_in(code: str) -> tuple[str, str, int | None] | None:
    """What is wrong, what to do, and the line in the code; None if nothing is found."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError) as error:
        hint = "Correct it, unless the agent's Python is newer than this one and can read it."
        return f"is not Python: {getattr(error, 'msg', error)}", hint, getattr(error, "lineno", None)
    for unknown in _undefined(tree)[:1]:
        hint = "Define or import it, or correct its name: the metric fails where it is used."
        return f"uses `{unknown.id}`, which is not defined", hint, unknown.lineno
    return None


def line_in(text: str, first: int, code: str, line: int) -> int | None:
    """The line of a file, from `first` on, that holds a line of the code; None if it is written otherwise."""
    wanted, rows = [row.strip() for row in code.split("\n")[line - 1 : line]], text.split("\n")[first - 1 :]
    return next((number for number, row in enumerate(rows, first) if [row.strip()] == wanted), None)


def _undefined(tree: ast.AST) -> list[ast.Name]:
    """Uses of names that are bound nowhere in the code, in any scope; empty if `import *` may bind them."""
    bound, used = set(dir(builtins)), []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            used.append(node)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).partition(".")[0])
        else:  # Definitions, arguments, `except ... as`, patterns of `match`.
            bound |= {getattr(node, key, "") for key in ("id", "name", "arg", "rest")}
    return [] if "*" in bound else [node for node in used if node.id not in bound]
