"""The lines of keys and tables in a TOML file, which tomllib does not keep.

The text has been read by tomllib, so only the beginnings of statements have to be found, not errors.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from agent_eval_scoring.core.errors import AgentEvalError

Path = tuple[str | int, ...]
"""Keys from the outermost in; the number of a `[[table]]` follows its name: `("policy", 0, "metric")`."""

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_KEY = re.compile(r"""[ \t]*("(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[A-Za-z0-9_-]+)[ \t]*""")
_STRING = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*"{3,5}'  # up to two quotation marks may stand before the closing three
    r"|'''(?:[^']|'(?!''))*'{3,5}"
    r"""|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""",
    re.DOTALL,
)


class TomlError(AgentEvalError, ValueError):
    """A text that is no TOML, or that can't be read; the message is a clause."""

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        """`line` and `column` from 1, as far as they are known."""
        super().__init__(message)
        self.line = line
        self.column = column


_LONG_NUMBER = re.compile(r"[0-9_]{4300,}")


def read_toml(text: str) -> dict[str, Any]:
    """Reads TOML.

    Raises:
        TomlError: It can't be read.
    """
    import tomllib  # Many repositories have no such file.

    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        location = re.search(r"line (\d+), column (\d+)", str(error))
        raise TomlError(
            str(error), int(location[1]) if location else None, int(location[2]) if location else None
        ) from error
    except RecursionError as error:
        raise TomlError("it nests lists or tables too deeply") from error
    except ValueError as error:  # An integer of more digits than Python reads, or a date that is none.
        number = _LONG_NUMBER.search(text)
        if number is None:
            raise TomlError(str(error)) from error
        line = text.count("\n", 0, number.start()) + 1
        raise TomlError("a number has more than 4,300 digits", line) from error
    if any(abs(number) >= 2**64 for number in _integers(table)):  # TOML's own limit is half of it.
        raise TomlError("a whole number has more than 64 bits")
    return table


def _integers(value: object) -> Iterator[int]:
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict | list):
            waiting += value.values() if isinstance(value, dict) else value
        elif isinstance(value, int):
            yield value


def lines_of(text: str) -> Mapping[Path, int]:
    """The 1-based line at which each table and each key begins; for a table that is written twice, the first.

    The content of an array or an inline table is not listed; its key is.

    Args:
        text: TOML that `tomllib` can read.
    """
    lines: dict[Path, int] = {}
    tables: Counter[tuple[str, ...]] = Counter()
    table: Path = ()
    line, counted = 1, 0
    for offset, keys, brackets in _statements(text):
        line, counted = line + text.count("\n", counted, offset), offset
        if brackets == 2:
            tables[keys] += 1
        path = _numbered(keys, tables) if brackets else (*table, *keys)
        if brackets:
            table = path
        for depth in range(len(path) if brackets else len(table) + 1, len(path) + 1):
            lines.setdefault(path[:depth], line)
        lines.setdefault(path[: 1 if brackets else len(table) + 1], line)
    return lines


def line_at(lines: Mapping[Path, int], path: Path) -> int | None:
    """The line of a key or a table, from `lines_of`; else of the innermost table around it that has one."""
    return next((lines[path[:depth]] for depth in range(len(path), 0, -1) if path[:depth] in lines), None)


def _numbered(keys: tuple[str, ...], tables: Mapping[tuple[str, ...], int]) -> Path:
    """A header's path: below an array of tables it means the last of them."""
    path: list[str | int] = []
    for depth, key in enumerate(keys, 1):
        path.append(key)
        if count := tables.get(keys[:depth], 0):
            path.append(count - 1)
    return tuple(path)


def _statements(text: str) -> Iterator[tuple[int, tuple[str, ...], int]]:
    """Each statement's offset and keys, and with how many brackets it opens a table: 0, 1 or 2."""
    text = text.removeprefix("\ufeff")
    at = _end(_BLANK, text, 0)
    while at < len(text):
        brackets = 0 if text[at] != "[" else 2 if text.startswith("[[", at) else 1
        keys, after = _keys(text, at + brackets)
        if not keys:  # No TOML after all.
            return
        yield at, keys, brackets
        at = _end(_BLANK, text, after + brackets if brackets else _value_end(text, after + 1))


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


def _keys(text: str, at: int) -> tuple[tuple[str, ...], int]:
    """A dotted key, and where it ends."""
    import tomllib

    keys: list[str] = []
    while match := _KEY.match(text, at):
        word = match[1]
        keys.append(next(iter(tomllib.loads(f"{word} = 0"))) if word[0] in "\"'" else word)
        at = match.end()
        if not text.startswith(".", at):
            break
        at += 1
    return tuple(keys), at


def _value_end(text: str, at: int) -> int:
    """Where a value ends: at the end of its line, unless a bracket or a string is still open."""
    depth = 0
    while at < len(text):
        character = text[at]
        if character in "\"'":
            end = _end(_STRING, text, at)
            at = end if end > at else at + 1
        elif character == "#":
            newline = text.find("\n", at)
            at = len(text) if newline < 0 else newline
        else:
            depth += (character in "[{") - (character in "]}")
            if character == "\n" and depth <= 0:
                return at
            at += 1
    return at
