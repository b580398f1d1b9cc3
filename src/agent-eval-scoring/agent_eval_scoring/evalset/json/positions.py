"""Positions of values in the text of a JSON file.

Positions are computed on demand. Only the containers on the path to a value are indexed; the C scanner of the standard
library skips the rest, so that the position of a problem costs about as much as reading its file again.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from json import JSONDecoder
from json.decoder import scanstring  # type: ignore[attr-defined]

JsonPath = tuple[str | int, ...]
"""Keys and indices from the top of a document to a value in it."""

_SPACE = re.compile(r"[ \t\n\r]*")
_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*\Z")


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a text."""

    line: int
    """1-based."""
    column: int
    """1-based, in characters."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Offsets of a child of a container."""

    key: int
    """Start of its key; in a list, of its value."""
    value: int
    """Start of its value."""
    end: int
    """The first character after its value."""


def format_path(path: JsonPath) -> str:
    """A path as text, e.g. `eval_cases[2].conversation[0]`; "" for the document itself."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _IDENTIFIER.match(step):
            text += f".{step}" if text else step
        else:
            text += f'["{step}"]'
    return text


class Positions:
    """Finds values in the text of one well-formed JSON document."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines: list[int] | None = None
        self._decoder = JSONDecoder(strict=False)
        self._children: dict[int, dict[str | int, Entry]] = {}
        self._ends: dict[int, int] = {}
        """The end of each indexed container, by its start."""
        self._repeated: dict[tuple[int, str | int], int] = {}

    def at(self, offset: int) -> Position:
        """The line and column of an offset into the text."""
        if self._lines is None:
            self._lines = [0, *(match.end() for match in re.finditer("\n", self._text))]
        line = bisect_right(self._lines, offset)
        return Position(line, offset - self._lines[line - 1] + 1)

    def of(self, path: JsonPath, *, key: bool = False) -> Position:
        """The position of a value.

        If the path does not exist, this is the position of the innermost container on it that exists, to which a
        missing field must be added.

        Args:
            path: The path to the value. For a duplicate key it is the last one, as for the value.
            key: The position of the member's key instead of its value.
        """
        offset = self._skip_space(0)
        for number, step in enumerate(path, start=1):
            entry = self._index(offset).get(step)
            if entry is None:
                break
            offset = entry.key if key and number == len(path) else entry.value
        return self.at(offset)

    def lines_of_items(self, path: JsonPath) -> list[int]:
        """The first line of each item of a list; empty if there is no list at the path."""
        offset = self._skip_space(0)
        for step in path:
            entry = self._index(offset).get(step)
            if entry is None:
                return []
            offset = entry.value
        if self._text[offset] != "[":
            return []
        lines, line, counted = [], 1, 0
        for entry in self._index(offset).values():
            line += self._text.count("\n", counted, entry.value)
            counted = entry.value
            lines.append(line)
        return lines

    def duplicates(self) -> list[tuple[JsonPath, str, Position, Position]]:
        """Each key that an object has more than once.

        Returns:
            The path of the object, the key, and the positions of its first and last occurrence.
        """
        duplicates = []
        waiting: list[tuple[JsonPath, int]] = [((), self._skip_space(0))]
        while waiting:
            path, offset = waiting.pop()
            for step, entry in self._index(offset).items():
                waiting.append(((*path, step), entry.value))
                first = self._repeated.get((offset, step))
                if first is not None:
                    duplicates.append((path, str(step), self.at(first), self.at(entry.key)))
        return duplicates

    def children(self, offset: int) -> Mapping[str | int, Entry]:
        """The children of the container that starts at an offset, in the order of the text; none for a scalar.

        Of a duplicate key, this is the last member, at the place of the first.
        """
        return self._index(offset)

    def has_duplicates(self, offset: int) -> bool:
        """Whether the object that starts at an offset has a key more than once."""
        return any((offset, step) in self._repeated for step in self._index(offset))

    def start(self) -> int:
        """The offset of the document's value."""
        return self._skip_space(0)

    def end(self, offset: int) -> int:
        """The first character after the container that starts at an offset."""
        self._index(offset)
        return self._ends[offset]

    def _skip_space(self, offset: int) -> int:
        match = _SPACE.match(self._text, offset)
        return match.end() if match else offset

    def _index(self, offset: int) -> dict[str | int, Entry]:
        """The children of the container at an offset; none for a scalar."""
        if offset not in self._children:
            opening = self._text[offset]
            self._children[offset] = self._scan(offset, opening) if opening in "[{" else {}
        return self._children[offset]

    def _scan(self, offset: int, opening: str) -> dict[str | int, Entry]:
        text, children = self._text, dict[str | int, Entry]()
        closing = "]" if opening == "[" else "}"
        cursor = self._skip_space(offset + 1)
        while text[cursor] != closing:
            key_at = cursor
            step: str | int = len(children)
            if opening == "{":
                step, cursor = scanstring(text, cursor + 1, False)
                cursor = self._skip_space(self._skip_space(cursor) + 1)
            if step in children:
                self._repeated.setdefault((offset, step), children[step].key)
            end = self._end_of(cursor, inside=offset)
            children[step] = Entry(key_at, cursor, end)
            cursor = self._skip_space(end)
            if text[cursor] == ",":
                cursor = self._skip_space(cursor + 1)
        self._ends[offset] = cursor + 1
        return children

    def _end_of(self, offset: int, *, inside: int) -> int:
        """The end of the value at an offset.

        Skipping a value decodes it. The list of all cases is skipped item by item, because as a whole it would take as
        much memory as the document.
        """
        if inside == self._skip_space(0) and self._text[offset] in "[{":
            self._index(offset)
            return self._ends[offset]
        return self._decoder.raw_decode(self._text, offset)[1]
