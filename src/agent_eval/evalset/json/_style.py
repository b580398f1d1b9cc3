"""Spelling of JSON texts: their style, and which items of two lists belong together."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cached_property
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, Literal

from agent_eval.evalset.json.positions import Entry, Positions

_ESCAPED = re.compile(r"(?<!\\)(?:\\\\)*\\u(?!00[0-7])")
_INDENTED = re.compile(r"\n([ \t]+)\S")
_BEGINNING = 64 * 1024
"""Characters from the start of a text in which its line ends and its indentation are looked for."""


Arrangement = Literal["lines", "line", "brackets"]
"""Children on lines of their own; all on one line; several lines, but the first child beside the bracket (`[{`)."""


class Layout:
    """The text of a document with the positions of its values."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.positions = Positions(text)

    def entries(self, offset: int) -> list[Entry]:
        """The children of the container at an offset."""
        return list(self.positions.children(offset).values())

    def leads(self, offset: int) -> list[str]:
        """What precedes each child of the container at an offset: space, and the comma after the child before."""
        starts = [offset + 1]
        texts = []
        for entry in self.entries(offset):
            texts.append(self.text[starts[-1] : entry.key])
            starts.append(entry.end)
        return texts

    def arrangement(self, offset: int) -> Arrangement:
        """How the children of the container at an offset, of which it has one, are arranged."""
        if "\n" in self.leads(offset)[0]:
            return "lines"
        return "line" if self.text.find("\n", offset, self.positions.end(offset)) < 0 else "brackets"

    def indentation(self, offset: int) -> str:
        """The space at the beginning of the line of an offset."""
        line = self.text[self.text.rfind("\n", 0, offset) + 1 : offset]
        return line[: len(line) - len(line.lstrip(" \t"))]

    @cached_property
    def newline(self) -> str:
        """The line ends of the document."""
        return "\r\n" if "\r\n" in self.text[:_BEGINNING] else "\n"

    @cached_property
    def unit(self) -> str:
        """One level of indentation."""
        match = _INDENTED.search(self.text, 0, _BEGINNING)
        return match[1] if match else "  "

    @cached_property
    def escapes(self) -> bool:
        """Whether all characters outside of ASCII are escaped, and there is one."""
        return self.text.isascii() and _ESCAPED.search(self.text) is not None


@dataclass
class Style:
    """How the values of a part of a document are written.

    The label of a value is its key; of an item of a list, the label of the list with `[]`.
    """

    layout: Layout
    arrangements: dict[str, Arrangement] = field(default_factory=dict)
    """Of the first container with each label."""
    unit: str | None = None
    colon: str = ": "
    comma: str = ", "
    padding: dict[str, str] = field(default_factory=dict)
    """The space inside of one-line brackets, by the opening one."""

    @classmethod
    def of(cls, layout: Layout, offset: int, label: str) -> Style:
        """The style of the value at an offset."""
        style = cls(layout=layout)
        separators: dict[str, str] = {}
        for start, name in _containers(layout, offset, label):
            style._observe(start, name, separators)
        style.colon = separators.get("colon", style.colon)
        style.comma = separators.get("comma", "," if style.colon == ":" else style.comma)
        return style

    def render(self, value: Any, label: str, indentation: str, *, one_line: bool) -> str:
        """The text of a new value.

        Args:
            value: The value.
            label: Its label.
            indentation: The space at the beginning of its line.
            one_line: Write it on one line, because that is how its container is written.
        """
        if not value or not isinstance(value, dict | list):
            return self.scalar(value)
        arrangement = "line" if one_line else self.arrangements.get(label, self._usual())
        one_line = arrangement == "line"
        inner = indentation if arrangement == "brackets" else indentation + (self.unit or self.layout.unit)
        if isinstance(value, dict):
            brackets = "{}"
            parts = [self.key(key) + self.render(child, key, inner, one_line=one_line) for key, child in value.items()]
        else:
            brackets = "[]"
            parts = [self.render(child, f"{label}[]", inner, one_line=one_line) for child in value]
        if arrangement != "lines":
            pad = self.padding.get(brackets[0], "")
            return brackets[0] + pad + self.comma.join(parts) + pad + brackets[1]
        newline = self.layout.newline
        return f"{brackets[0]}{newline}{inner}{f',{newline}{inner}'.join(parts)}{newline}{indentation}{brackets[1]}"

    def _usual(self) -> Arrangement:
        """The arrangement of containers with a label that does not occur."""
        return "lines" if "lines" in self.arrangements.values() or not self.arrangements else "line"

    def key(self, key: str) -> str:
        """A key with its colon."""
        return self.scalar(key) + self.colon

    def scalar(self, value: Any) -> str:
        """The text of a string, a number, a constant or an empty container."""
        return json.dumps(value, ensure_ascii=self.layout.escapes, allow_nan=False)

    def _observe(self, offset: int, label: str, separators: dict[str, str]) -> None:
        text, leads = self.layout.text, self.layout.leads(offset)
        entries = self.layout.entries(offset)
        arrangement = self.layout.arrangement(offset)
        self.arrangements.setdefault(label, arrangement)
        if text[offset] == "{":
            separators.setdefault("colon", text[scanstring(text, entries[0].key + 1, False)[1] : entries[0].value])
        if arrangement == "line":
            self.padding.setdefault(text[offset], leads[0])
            if len(leads) > 1:
                separators.setdefault("comma", leads[1])
        elif arrangement == "lines" and self.unit is None:
            outer = self.layout.indentation(self.layout.positions.end(offset) - 1)
            inner = leads[0].rpartition("\n")[2]
            self.unit = inner.removeprefix(outer) or None if inner.startswith(outer) else None


def _containers(layout: Layout, offset: int, label: str) -> Iterator[tuple[int, str]]:
    """All containers with children in the value at an offset, the outer ones first, with their labels."""
    waiting = [(offset, label)]
    for start, name in waiting:
        children = layout.positions.children(start)
        if children:
            yield start, name
        waiting += [(entry.value, f"{name}[]" if isinstance(step, int) else step) for step, entry in children.items()]


def canonical(value: Any) -> str:
    """A text that equal JSON values have in common, and others do not. 1, 1.0 and true differ."""
    return json.dumps(value, sort_keys=True)


def aligned(old: list[Any], new: list[Any]) -> list[int | None]:
    """For each item of `new`, the index of the item of `old` that it is or replaces; None for an additional one.

    The indices ascend. Where items were replaced and others removed or added beside them, the first ones are paired.
    """
    matcher = SequenceMatcher(None, [*map(canonical, old)], [*map(canonical, new)], autojunk=False)
    sources: list[int | None] = []
    for _, start, end, new_start, new_end in matcher.get_opcodes():
        indices: list[int | None] = [*range(start, end)]
        sources += (indices + [None] * (new_end - new_start))[: new_end - new_start]
    return sources
