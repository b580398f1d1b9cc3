"""Text that may come from anywhere: made safe to carry, and cut to size without breaking it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_ILLEGAL_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""What XML 1.0 can't carry: C0 controls, surrogates, U+FFFE and U+FFFF (https://www.w3.org/TR/xml/#charsets). Its
complement takes ten times as long to compile."""

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def carriable(value: str) -> str:
    """The text with each character that UTF-8 or XML 1.0 can't carry replaced by U+FFFD."""
    return _ILLEGAL_XML.sub(REPLACEMENT, value)


def encodable(value: Any) -> Any:
    """A value of JSON with question marks for half surrogate pairs, which no file can hold.

    Raises:
        RecursionError: It is nested too deeply.
    """
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {encodable(key): encodable(each) for key, each in value.items()}
    return [encodable(each) for each in value] if isinstance(value, list) else value


_COMMAND = re.compile(r"##(?=\[)|::(?=[a-z])", re.IGNORECASE)
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


def harmless(value: str) -> str:
    """Text for a log, on as many lines, in which nothing acts: no terminal sequence, no command to GitHub's runner."""
    return without_commands(_CONTROL.sub(REPLACEMENT, carriable(value.replace("\r\n", "\n"))))


def without_commands(value: str) -> str:
    """The text with a zero-width space in everything that GitHub's runner could take for a command.

    The runner obeys `##[name]` anywhere in a line, and `::name ...::` where a line begins, which a line break in any
    wrapped text can bring about (actions/runner, ActionCommand.cs).
    """
    return _COMMAND.sub(lambda match: f"{match.group()[0]}\N{ZERO WIDTH SPACE}{match.group()[1]}", value)


def workflow_command(name: str, message: str, properties: Mapping[str, str | int | None]) -> str:
    """A line that GitHub's runner obeys, without a line break.

    Args:
        name: The command, e.g. `error`.
        message: Its data; any text.
        properties: Its properties; those that are None are left out.
    """
    listed = ",".join(f"{key}={_property(str(value))}" for key, value in properties.items() if value is not None)
    return f"::{name}{' ' if listed else ''}{listed}::{_data(message)}"


def _data(value: str) -> str:
    value = without_commands(carriable(value))
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    return _data(value).replace(":", "%3A").replace(",", "%2C")


def shorten(value: str, limit: int) -> str:
    """At most `limit` characters: the beginning and the end, with a note between them of how much is left out.

    Raises:
        ValueError: If `limit` is too small to hold the note.
    """
    if len(value) <= limit:
        return value
    room = limit
    for _ in range(2):  # The note takes room itself, which may give its number one more digit.
        note = f" […{len(value) - room:,} more characters…] "
        room = limit - len(note)
    note = f" […{len(value) - room:,} more characters…] "
    if room < 2:
        raise ValueError(f"limit {limit} is too small")
    head = (room * 2 + 2) // 3
    return value[:head] + note + value[len(value) - (room - head) :]


def unbroken(value: str) -> str:
    """All lines as one, with single spaces."""
    return " ".join(value.split())


def whole_line(value: str) -> str:
    """The first non-blank line in full; "" for blank text."""
    return next((line.strip() for line in value.splitlines() if line.strip()), "")


def first_line(value: str, limit: int = 200) -> str:
    """The first non-blank line, for a one-line message; "" for blank text."""
    return shorten(whole_line(value), limit)


_NAME, _ITEM = 400, 500
"""Characters of a name, and of a name with a remark in a list. Paths and ids are shorter; a forged id may have
megabytes."""


def short_name(name: str) -> str:
    """A name, e.g. a case id, in at most 400 characters."""
    return shorten(name, _NAME)


def listed(names: Sequence[str], most: int, noun: str = "") -> str:
    """The first names in a sentence: `a, b and 3 more`, with a noun `a, b and 3 more files`.

    Args:
        names: All names, each with a remark or none. Each is shortened to 500 characters.
        most: How many of them to show.
        noun: What is counted, in the singular.
    """
    left = len(names) - most
    more = f" and {plural(left, f'more {noun}') if noun else f'{left:,} more'}" if left > 0 else ""
    return ", ".join(shorten(name, _ITEM) for name in names[:most]) + more


def every(count: int, noun: str) -> str:
    """`the only case`, `both cases`, `all 9 cases`."""
    return {1: f"the only {noun}", 2: f"both {noun}s"}.get(count, f"all {plural(count, noun)}")


def share(part: int, count: int, noun: str) -> str:
    """`2 of 9 cases`; of a single one `the only case`."""
    return every(1, noun) if count == 1 else f"{part:,} of {plural(count, noun)}"


def plural(count: int, noun: str, many: str | None = None) -> str:
    """`1 case`, `2 cases`."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def without_credentials(text: str) -> str:
    """An address with `***` for the user name, the password and the query; any other text as it is."""
    return re.sub(r"(://\S*\?)[^#\s]*", r"\1***", re.sub(r"://\S*@", "://***@", text))
