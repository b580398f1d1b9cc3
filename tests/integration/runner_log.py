"""What GitHub's runner reads of a step: the outputs that it sets, and the commands in its log.

Source: actions/runner, src/Runner.Worker/FileCommandManager.cs (file commands), src/Runner.Common/ActionCommand.cs
(commands in the log); read at 258d6c857.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

COMMANDS = frozenset(
    {
        "add-mask", "add-matcher", "add-path", "debug", "echo", "endgroup", "error", "group",
        "internal-set-repo-path", "notice", "remove-matcher", "save-state", "set-env", "set-output", "warning",
    }
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Command:
    """A workflow command that the runner would carry out."""

    name: str
    properties: Mapping[str, str]
    data: str


def outputs_in(text: str) -> list[tuple[str, str]]:
    """What the runner reads from a file of outputs.

    Raises:
        ValueError: The step would fail with a parse error.
    """
    result = []
    lines = iter(text.split("\n"))
    for line in lines:
        if not line:
            continue
        equals, heredoc = line.find("="), line.find("<<")
        if equals >= 0 and (heredoc < 0 or equals < heredoc):
            result.append((line[:equals], line[equals + 1 :]))
        elif heredoc >= 0:
            name, delimiter = line[:heredoc], line[heredoc + 2 :]
            value = []
            for inner in lines:
                if inner == delimiter:
                    break
                value.append(inner)
            else:
                raise ValueError(f"no end delimiter {delimiter!r} for {name!r}")
            result.append((name, "\n".join(value)))
        else:
            raise ValueError(f"neither NAME=VALUE nor NAME<<DELIMITER: {line!r}")
    return result


def commands_in(log: str) -> list[Command]:
    """The commands that the runner would carry out, honouring `stop-commands`.

    Raises:
        ValueError: From somewhere on, it would read no more of them.
    """
    result = []
    token: str | None = None
    for line in log.splitlines():
        command = _second_form(line, token) or _first_form(line)
        if command is None:
            continue
        if token is not None:
            if command.name == token:
                token = None
        elif command.name == "stop-commands":
            token = command.data
        elif command.name in COMMANDS:
            result.append(command)
    if token is not None:
        raise ValueError("the reading of commands is never resumed")
    return result


def _second_form(line: str, token: str | None) -> Command | None:
    """`::name key=value,...::data` at the start of a line."""
    match = re.match(r"\s*::(?P<name>[^\s:]+)(?:\s+(?P<properties>.*?))?::(?P<data>.*)$", line)
    if match is None:
        return None
    return Command(
        name=match["name"], properties=_properties(match["properties"] or "", ","), data=_unescape(match["data"])
    )


def _first_form(line: str) -> Command | None:
    """`##[name key=value;...]data` anywhere in a line."""
    match = re.search(r"##\[(?P<name>[^\s\]]+)(?:\s+(?P<properties>[^\]]*))?\](?P<data>.*)$", line)
    if match is None:
        return None
    return Command(
        name=match["name"], properties=_properties(match["properties"] or "", ";"), data=_unescape(match["data"])
    )


def _properties(text: str, separator: str) -> dict[str, str]:
    pairs = (part.split("=", 1) for part in text.split(separator) if "=" in part)
    return {name.strip(): _unescape(value) for name, value in pairs}


def _unescape(text: str) -> str:
    for code, character in {"%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ",", "%3B": ";", "%5D": "]"}.items():
        text = text.replace(code, character)
    return text.replace("%25", "%")
