"""Text that may come from anywhere: made safe to carry, and cut to size without breaking it."""

from __future__ import annotations

import re

_ILLEGAL_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 can't carry: C0 controls, surrogates, U+FFFE and U+FFFF (https://www.w3.org/TR/xml/#charsets)."""

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def carriable(value: str) -> str:
    """The text with each character that UTF-8 or XML 1.0 can't carry replaced by U+FFFD."""
    return _ILLEGAL_XML.sub(REPLACEMENT, value)


_COMMAND = re.compile(r"^(\s*)::", re.MULTILINE)
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


def harmless(value: str) -> str:
    """Text for a log, on as many lines, in which nothing acts: no terminal sequence, no command to GitHub's runner.

    The runner obeys `::name ...::` at the beginning of a line and the older `##[name]` anywhere
    (actions/runner, ActionCommand.cs).
    """
    value = _CONTROL.sub(REPLACEMENT, carriable(value.replace("\r\n", "\n")))
    return _COMMAND.sub(r"\1: :", value).replace("##[", "## [")


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


def first_line(value: str, limit: int = 200) -> str:
    """The first non-blank line, for a one-line message; "" for blank text."""
    for line in value.splitlines():
        if line.strip():
            return shorten(line.strip(), limit)
    return ""


def plural(count: int, noun: str, many: str | None = None) -> str:
    """`1 case`, `2 cases`."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"
