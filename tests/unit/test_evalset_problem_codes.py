"""docs/problems.md lists every code of a Problem that the source can make, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = [ROOT / "src" / "agent_eval", ROOT / "src" / "agent_eval_workbench"]
KEBAB = re.compile(r"[a-z0-9]+(-[a-z0-9]+)+")
MAKERS = {
    "Problem": None,
    "NoChoice": None,
    "refuse": 0,
    "_Finding": None,
    "error": 0,
    "notice": 0,
    "_error": 0,
    "_file_error": 1,
    "warning": 0,
    "problem": 1,
    "edit_problem": 0,
    "finding": 2,
    "refusal": None,
    "TableReader": None,
}
"""What makes a finding, and which positional argument is its code (None: the keyword `code`)."""


def assigned(statement: ast.Assign) -> Iterator[tuple[str, object]]:
    """The constants that an assignment gives names to, one by one or as a tuple."""
    target, value = statement.targets[0], statement.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        pairs = list(zip(target.elts, value.elts, strict=False))
    else:
        pairs = [(target, value)]
    for name, constant in pairs:
        if isinstance(name, ast.Name) and isinstance(constant, ast.Constant):
            yield name.id, constant.value


def codes_in(tree: ast.Module) -> Iterator[str]:
    statements = [statement for statement in tree.body if isinstance(statement, ast.Assign)]
    constants = dict(pair for statement in statements for pair in assigned(statement))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            position = MAKERS.get(name)
            given = [keyword.value for keyword in node.keywords if keyword.arg == "code" and name in MAKERS]
            given += node.args[position : position + 1] if position is not None else []
            for argument in given:
                value = constants.get(argument.id) if isinstance(argument, ast.Name) else None
                value = argument.value if isinstance(argument, ast.Constant) else value
                if KEBAB.fullmatch(str(value)):
                    yield str(value)
        # A table from pydantic's own codes to ours.
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "_ALIASES":
            assert isinstance(node.value, ast.Dict)
            yield from (str(value.value) for value in node.value.values if isinstance(value, ast.Constant))


def test_problem_codes__codes_in_the_source_and_in_the_docs_are_the_same() -> None:
    made = {
        code
        for source in SOURCES
        for path in source.rglob("*.py")
        for code in codes_in(ast.parse(path.read_text(encoding="utf-8"), filename=str(path)))
    }
    text = (ROOT / "docs" / "problems.md").read_text(encoding="utf-8")
    listed = re.findall(r"^### `([a-z0-9-]+)`\n\S", text.partition("\n## Failures of a run\n")[0], re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert len(made) > 40
    assert made - set(listed) == set(), "add them to docs/problems.md"
    assert set(listed) - made == set(), "nothing reports them any more"
