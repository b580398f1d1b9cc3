#!/usr/bin/env python3
"""Fails if a module or a class binds a name twice: the second binding silently replaces what the first one meant.

That happens where two modules are merged, and no type checker reports it for two constants of the same type. What is
meant to be bound again is no finding: `x += 1`, names in a loop, overloads, setters of a property, a default that an
`if` or a `try` replaces, their branches, annotations without a value, what was deleted, and `_`. Run it from the root:
`tools/one_binding.py`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path


def bound_twice(source: str) -> list[tuple[int, str, int]]:
    """Each name that is bound again in a module or in a class body: line, name (with its class), line before."""
    module = ast.parse(source)
    bodies: list[tuple[str, Sequence[ast.stmt]]] = [("", module.body)]
    bodies += [(f"{node.name}.", node.body) for node in ast.walk(module) if isinstance(node, ast.ClassDef)]
    return sorted(clash for prefix, body in bodies for clash in _clashes(prefix, body, {}))


def _clashes(prefix: str, body: Sequence[ast.stmt], bound: dict[str, int]) -> Iterator[tuple[int, str, int]]:
    """The clashes of a block. `bound` has the lines of the names bound before it, and gets those of the block."""
    for statement in body:
        if isinstance(statement, ast.With | ast.AsyncWith):
            yield from _clashes(prefix, statement.body, bound)
        for branch in _branches(statement):
            of_branch: dict[str, int] = {}
            yield from _clashes(prefix, branch, of_branch)
            bound |= of_branch
        if isinstance(statement, ast.Delete):
            for name in _targets(statement.targets):
                bound.pop(name, None)
        for name in _names(statement):
            if name in bound:
                yield statement.lineno, f"{prefix}{name}", bound[name]
            bound[name] = statement.lineno


def _branches(statement: ast.stmt) -> list[Sequence[ast.stmt]]:
    """The blocks of a compound statement that may run or not."""
    match statement:
        case ast.If():
            return [statement.body, statement.orelse]
        case ast.Try() | ast.TryStar():
            return [
                [*statement.body, *statement.orelse],
                *(handler.body for handler in statement.handlers),
                statement.finalbody,
            ]
        case ast.Match():
            return [case.body for case in statement.cases]
    return []


def _names(statement: ast.stmt) -> Iterator[str]:
    """The names that a simple statement, a function or a class binds in its block."""
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            if not any(_rebinds(decorator) for decorator in statement.decorator_list):
                yield statement.name
        case ast.ClassDef():
            yield statement.name
        case ast.Import() | ast.ImportFrom():
            for alias in statement.names:
                # `import a.b` and `import a.c` both bind `a`, and mean the same by it.
                if alias.asname or ("." not in alias.name and alias.name != "*"):
                    yield alias.asname or alias.name
        case ast.Assign():
            yield from _targets(statement.targets)
        case ast.AnnAssign() if statement.value is not None:
            yield from _targets([statement.target])
        case ast.With() | ast.AsyncWith():
            yield from _targets([item.optional_vars for item in statement.items if item.optional_vars is not None])


def _rebinds(decorator: ast.expr) -> bool:
    """Whether a decorator adds to what the name is bound to: `overload`, `x.setter`, `f.register`."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name in {"overload", "getter", "setter", "deleter", "register"}


def _targets(targets: Sequence[ast.expr]) -> Iterator[str]:
    for target in targets:
        for node in ast.walk(target):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) and node.id != "_":
                yield node.id


def main() -> int:
    """Prints each name of src that is bound twice."""
    found = [
        f"{path}:{line}: `{name}` is bound in line {before} already"
        for path in sorted(Path("src").rglob("*.py"))
        for line, name, before in bound_twice(path.read_text("utf-8"))
    ]
    print("\n".join(found) or "Each name is bound once.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
