#!/usr/bin/env python3
"""Compares the size of the code with the budgets in pyproject.toml, `[tool.size]`, and fails if one is exceeded.

A code line has at least one token of Python that is no comment and no docstring, so comments and docstrings are free.
Tokens are counted too: joining lines gains nothing. Run it from the root: `tools/size.py`.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
import tomllib
from pathlib import Path

_UNCOUNTED = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENDMARKER, tokenize.ENCODING),
}


def size_of(source: str) -> tuple[int, int]:
    """Code lines and tokens of a module."""
    documented = {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and ast.get_docstring(node, clean=False) is not None
        for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    }
    counted = [
        token
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in _UNCOUNTED and token.start[0] not in documented
    ]
    return len({line for token in counted for line in range(token.start[0], token.end[0] + 1)}), len(counted)


def measured(root: Path) -> dict[str, int]:
    """What the budgets limit, by the names that they have in pyproject.toml."""
    sizes = _sizes(root / "src")
    gate = [lines for path, (lines, _) in sizes.items() if "agent_eval" in path.parts]
    return {
        "gate-lines": sum(gate),
        "lines": sum(lines for lines, _ in sizes.values()),
        "tokens": sum(tokens for _, tokens in sizes.values()),
        "modules": len(sizes),
        "longest-module": max(lines for lines, _ in sizes.values()),
        "test-lines": sum(lines for lines, _ in _sizes(root / "tests").values()),
    }


def _sizes(folder: Path) -> dict[Path, tuple[int, int]]:
    return {path.relative_to(folder): size_of(path.read_text("utf-8")) for path in sorted(folder.rglob("*.py"))}


def main() -> int:
    """Prints each figure beside its budget."""
    root = Path.cwd()
    budgets = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]["size"]
    figures = measured(root)
    for name, budget in budgets.items():
        print(f"{name:16}{figures[name]:>9,} of {budget:>9,}{'  exceeded' if figures[name] > budget else ''}")
    exceeded = [name for name, budget in budgets.items() if figures[name] > budget]
    if exceeded:
        print("Make room first. Raising a budget needs a line in CHANGELOG.md that says what users get for it.")
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
