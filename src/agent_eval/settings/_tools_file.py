"""Reads `[[tool]]` of agent-eval.toml."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

from agent_eval.agents.tape_rules import ToolRule
from agent_eval.core.patterns import PathPatterns
from agent_eval.core.problem import Problem, Severity
from agent_eval.core.toml_lines import Path as KeyPath

_EXAMPLE = '[[tool]]\n    name = "search_*"\n    ignore = ["request_id"]'


def read_tool_rules(
    entries: Any, lines: Mapping[KeyPath, int], file: str
) -> tuple[tuple[ToolRule, ...], list[Problem]]:
    """Reads the entries.

    Args:
        entries: The value of `tool`.
        lines: The lines of keys and tables.
        file: The file's name, for problems.

    Returns:
        The valid entries in order, and all problems.
    """
    problems: list[Problem] = []

    def error(message: str, at: KeyPath, hint: str = f"Write e.g.\n    {_EXAMPLE}") -> None:
        line = next((lines[at[:depth]] for depth in range(len(at), 0, -1) if at[:depth] in lines), None)
        problems.append(
            Problem(severity=Severity.ERROR, code="tool-rule-invalid", message=message, hint=hint, file=file, line=line)
        )

    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        error("`tool` must be a list of tables, each below a line `[[tool]]`. How tools run is `tools`.", ("tool",))
        return (), problems
    rules = []
    for number, entry in enumerate(entries):
        at: KeyPath = ("tool", number)
        before = len(problems)
        for key, value in entry.items():
            if key not in _FIELDS:
                near = difflib.get_close_matches(key, _FIELDS, n=1)
                hint = f"Did you mean `{near[0]}`?" if near else f"The keys are {', '.join(_FIELDS)}."
                error(f"There is no `{key}` in [[tool]].", (*at, key), hint)
            elif expected := _FIELDS[key](value):
                error(f"`{key}` of [[tool]] {expected}.", (*at, key))
        if "name" not in entry:
            error("This [[tool]] has no `name`, a glob of tool names.", at)
        elif len(entry) == 1:
            error("This [[tool]] sets nothing.", at, f"Set {', '.join(list(_FIELDS)[1:])}, or remove the entry.")
        if "match" in entry and "ignore" in entry:
            error("This [[tool]] has both `match` and `ignore`.", at, "`match` names all arguments that decide.")
        if len(problems) == before:
            values: dict[str, Any] = {
                key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()
            }
            rules.append(ToolRule(**values, line=lines.get(at)))
    return tuple(rules), problems


def _name(value: Any) -> str:
    return "" if isinstance(value, str) and value.strip() else "must be the name of a tool, or a glob of names"


def _paths(value: Any) -> str:
    valid = isinstance(value, list) and all(isinstance(path, str) and all(path.split(".")) for path in value)
    return "" if valid else 'must be a list of arguments, e.g. ["city", "customer.email"]'


def _patterns(value: Any) -> str:
    if not isinstance(value, list) or not value or not all(isinstance(pattern, str) for pattern in value):
        return "must be a list of patterns of files"
    try:
        PathPatterns(value)
    except ValueError as invalid:
        return f"has an invalid pattern: {invalid}"
    return ""


def _flag(value: Any) -> str:
    return "" if isinstance(value, bool) else "must be true or false"


def _miss(value: Any) -> str:
    return "" if value in {"error", "live"} else 'must be "error" or "live"'


_FIELDS: Mapping[str, Callable[[Any], str]] = {
    "name": _name,
    "match": _paths,
    "ignore": _paths,
    "mask": _paths,
    "replay": _flag,
    "miss": _miss,
    "depends": _patterns,
}
"""Each key's check, which returns what is expected, or "" if the value is valid."""
