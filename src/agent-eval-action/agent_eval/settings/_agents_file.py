"""Reads `[servers.NAME]`, `[[tool]]` and `[[volatile]]` of agent-eval.toml: servers that the gate starts, and rules for
tapes.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Mapping
from typing import Any

from agent_eval.settings._tables import Fields, TableReader, file_patterns, flag, number, one_of, text
from agent_eval.settings.parsers import ExpectedError
from agent_eval_agents.driver import READY_PATHS, ServerSpec
from agent_eval_agents.tape_rules import ToolRule, VolatileRule, steady
from agent_eval_scoring.core.patterns import bounded
from agent_eval_scoring.core.problem import Problem
from agent_eval_scoring.core.toml_lines import Path as KeyPath

_EXAMPLE = (
    '[servers.weather]\n    command = ["go", "run", ".", "web", "--port", "{port}", "api"]\n    directory = "weather"'
)
_PORT = "{port}"
_LARGEST_PORT = "65535"


def read_servers(tables: Any, lines: Mapping[KeyPath, int], file: str) -> tuple[dict[str, ServerSpec], list[Problem]]:
    """Reads the tables.

    Args:
        tables: The value of `servers`.
        lines: The lines of keys and tables.
        file: The file's name, for problems.

    Returns:
        The valid servers by name, and all problems.
    """
    reader = TableReader(code="server-invalid", example=_EXAMPLE, lines=lines, file=file, hints=_OF_SERVERS_HINTS)
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        reader.error("`servers` must be tables, each below a line `[servers.NAME]`.", ("servers",))
        return {}, reader.problems
    servers = {}
    for name, table in tables.items():
        at: KeyPath = ("servers", name)
        before = len(reader.problems)
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", name):
            reader.error(f"The name `{name}` of a server must be letters, digits, dashes and underscores.", at)
        values = reader.table(table, _FIELDS, f"[servers.{name}]", at)
        if "command" not in table:
            reader.error(
                f"[servers.{name}] has no `command`. For a server that runs already, write `adk:URL` or `a2a:URL`.", at
            )
        if table.get("protocol") == "a2a" and "app" in table:
            hint = "A server of several agents has one below each path: write it into `url`, e.g. `/a2a/APP`."
            reader.error(f'`app` of [servers.{name}] is only for `protocol = "adk"`.', (*at, "app"), hint)
        if values is not None and len(reader.problems) == before:
            servers[name] = ServerSpec(name=name, **values)
    return servers, reader.problems


def _directory(value: Any) -> str:
    # Anything else would start the pull request's server as that of the base branch, which has a worktree of its own.
    if not isinstance(value, str) or value.startswith("/") or os.path.normpath(value).split("/")[0] == "..":
        raise ExpectedError("a directory below the root, relative to it")
    return text(value)


def _command(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(word, str) and "\0" not in word for word in value):
        raise ExpectedError("a list of texts: the program and its arguments")
    if not value or not value[0]:
        raise ValueError("must be a list that begins with the program")
    return tuple(value)


def _url(value: Any) -> str:
    from agent_eval_agents.http import parse_url

    example = f"e.g. http://127.0.0.1:{_PORT}/api"
    if not isinstance(value, str) or _PORT not in value:
        raise ExpectedError(f"an address with {_PORT}, {example}")
    try:
        url = parse_url(value.replace(_PORT, _LARGEST_PORT))
    except ValueError as error:
        raise ValueError(f"can't be used: {error}") from error
    if not url.origin.endswith(f":{_LARGEST_PORT}"):
        raise ValueError(f"must have {_PORT} as its port, {example}")
    if not url.is_loopback or url.fragment:
        raise ExpectedError("an address of this machine, e.g. 127.0.0.1, without `#` (see `app`)")
    return value


def _path(value: Any) -> str:
    from agent_eval_agents.http import origin_of

    if not isinstance(value, str) or not value.startswith("/"):
        raise ExpectedError("a path that begins with a slash")
    try:
        origin_of(f"http://localhost{value}")
    except ValueError as error:
        raise ValueError(f"can't be used: {error}") from error
    return value


_OF_SERVERS_HINTS = {
    "url": 'Write `url = "http://127.0.0.1:{port}"`, and {port} in `command`, too: each start gets a free one.'
}
_FIELDS: Fields = {
    "command": _command,
    "directory": _directory,
    "protocol": one_of(*READY_PATHS),
    "url": _url,
    "app": text,
    "ready": _path,
    "ready_timeout": number(0.001, 86_400, "a number of seconds above 0"),
    "version": text,
}


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
    reader = TableReader(code="tool-rule-invalid", example=example, lines=lines, file=file, hints=_OF_TOOLS_HINTS)
    rules = []
    for at, values in reader.array(entries, "tool", _OF_TOOLS):
        if "name" not in values:
            reader.error("This [[tool]] has no `name`, a glob of tool names.", at)
        elif len(values) == 1:
            reader.error(
                "This [[tool]] sets nothing.", at, f"Set {', '.join(list(_OF_TOOLS)[1:])}, or remove the entry."
            )
        elif "match" in values and "ignore" in values:
            reader.error("This [[tool]] has both `match` and `ignore`.", at, _MATCH_OR_IGNORE)
        else:
            rules.append(ToolRule(**values, line=lines.get(at)))
    return tuple(rules), reader.problems


def read_volatile_rules(
    entries: Any, lines: Mapping[KeyPath, int], file: str
) -> tuple[tuple[VolatileRule, ...], list[Problem]]:
    """Reads `volatile`, as `read_tool_rules` does `tool`."""
    example = "[[volatile]]\n    pattern = 'Today is \\w{1,10}'"
    reader = TableReader(code="tool-rule-invalid", example=example, lines=lines, file=file)
    rules = []
    for at, values in reader.array(entries, "volatile", _OF_VOLATILE):
        if "pattern" not in values:
            reader.error("This [[volatile]] has no `pattern`, a regular expression.", at)
        else:
            rules.append(VolatileRule(place=values.pop("in", "instruction"), **values))
    return tuple(rules), reader.problems


def _volatile(value: Any) -> re.Pattern[str]:
    if not isinstance(value, str):
        raise ExpectedError("a regular expression")
    pattern = bounded(value)
    rules = (VolatileRule(pattern=pattern),)
    if any(steady(sample, rules, whole=True) != steady(sample, rules) for sample in _TEXTS):
        raise ValueError("would match a whole text, whatever it says")
    return pattern


_TEXTS = ("Q", "zqx", "Zqx vkzq.", "Zqx vkzq.\nVkzq zqx: 1 vkz.")
"""Nobody's words: of these, a volatile pattern must leave something."""


def _arguments(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(path, str) and all(path.split(".")) for path in value):
        raise ExpectedError('a list of arguments, e.g. ["city", "customer.email"]')
    return tuple(value)


def _args(value: Any) -> dict[str, Any]:
    from agent_eval_scoring.evalset.models.argument_rules import check_rules  # heavy: pydantic

    return check_rules(value)


_MATCH_OR_IGNORE = "Remove one of them: `match` names all arguments that decide, `ignore` those that don't."
_OF_TOOLS_HINTS = {
    **{name: f'Write e.g. `{name} = ["request_id"]`.' for name in ("match", "ignore", "mask")},
    "answers": 'Write `answers = "case"`: the tool answers as the case expects.',
    "depends": 'Write e.g. `depends = ["data/*.json"]`.',
}
_OF_TOOLS: Fields = {
    "name": text,
    "match": _arguments,
    "ignore": _arguments,
    "mask": _arguments,
    "replay": flag,
    "answers": one_of("case"),
    "miss": one_of("error", "live"),
    "stale": one_of("error", "warn", "live"),
    "depends": file_patterns,
    "args": _args,
}
_OF_VOLATILE: Fields = {"agent": text, "pattern": _volatile, "in": one_of("instruction", "contents")}
