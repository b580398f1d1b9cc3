"""Reads `[[tool]]` of agent-eval.toml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_eval.agents.tape_rules import ToolRule
from agent_eval.core.problem import Problem
from agent_eval.core.toml_lines import Path as KeyPath
from agent_eval.settings._tables import Fields, TableReader, file_patterns, flag, one_of, text
from agent_eval.settings.parsers import ExpectedError


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
    example = '[[tool]]\n    name = "search_*"\n    ignore = ["request_id"]'
    reader = TableReader(code="tool-rule-invalid", example=example, lines=lines, file=file)
    rules = []
    for at, values in reader.array(entries, "tool", _FIELDS):
        if "name" not in values:
            reader.error("This [[tool]] has no `name`, a glob of tool names.", at)
        elif len(values) == 1:
            reader.error("This [[tool]] sets nothing.", at, f"Set {', '.join(list(_FIELDS)[1:])}, or remove the entry.")
        elif "match" in values and "ignore" in values:
            reader.error("This [[tool]] has both `match` and `ignore`.", at, "`match` names all arguments that decide.")
        else:
            rules.append(ToolRule(**values, line=lines.get(at)))
    return tuple(rules), reader.problems


def _arguments(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(path, str) and all(path.split(".")) for path in value):
        raise ExpectedError('a list of arguments, e.g. ["city", "customer.email"]')
    return tuple(value)


_FIELDS: Fields = {
    "name": text,
    "match": _arguments,
    "ignore": _arguments,
    "mask": _arguments,
    "replay": flag,
    "miss": one_of("error", "live"),
    "stale": one_of("error", "warn"),
    "depends": file_patterns,
}
