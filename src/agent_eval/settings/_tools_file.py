"""Reads `[[tool]]` of agent-eval.toml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_eval.agents.tape_rules import ToolRule
from agent_eval.core.patterns import PathPatterns
from agent_eval.core.problem import Problem
from agent_eval.core.toml_lines import Path as KeyPath
from agent_eval.settings._tables import Fields, TableReader

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
    reader = TableReader(code="tool-rule-invalid", example=_EXAMPLE, lines=lines, file=file)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        message = "`tool` must be a list of tables, each below a line `[[tool]]`. How tools run is `tools`."
        reader.error(message, ("tool",))
        return (), reader.problems
    rules = []
    for number, entry in enumerate(entries):
        at: KeyPath = ("tool", number)
        before = len(reader.problems)
        reader.check_fields(entry, _FIELDS, "[[tool]]", at)
        if "name" not in entry:
            reader.error("This [[tool]] has no `name`, a glob of tool names.", at)
        elif len(entry) == 1:
            reader.error("This [[tool]] sets nothing.", at, f"Set {', '.join(list(_FIELDS)[1:])}, or remove the entry.")
        if "match" in entry and "ignore" in entry:
            reader.error("This [[tool]] has both `match` and `ignore`.", at, "`match` names all arguments that decide.")
        if len(reader.problems) == before:
            values: dict[str, Any] = {
                key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()
            }
            rules.append(ToolRule(**values, line=lines.get(at)))
    return tuple(rules), reader.problems


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


_FIELDS: Fields = {
    "name": _name,
    "match": _paths,
    "ignore": _paths,
    "mask": _paths,
    "replay": _flag,
    "miss": _miss,
    "depends": _patterns,
}
