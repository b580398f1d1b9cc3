"""Changes values in the text of a JSON file; all other characters stay as they are.

`patched_text` takes the value that the text should have. `replaced`, `with_item` and `without` make such
a value from the present one. They copy only the containers on the path, so that unchanged parts are recognised at once.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agent_eval.core.files import MAX_TEXT, read_regular, replacing
from agent_eval.core.process import naming
from agent_eval.evalset.json._style import Layout, Style, aligned, canonical
from agent_eval.evalset.json.positions import Entry, JsonPath, Positions
from agent_eval.evalset.models import EvalSet

_MARK = "\ufeff"
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_SCANNED = 64 * 1024
"""Largest container, in characters, that is scanned for its style as a whole."""


class PatchError(ValueError):
    """A text can't be changed as intended. Its message is a clause without a full stop."""


def patched_text(text: str, old: Any, new: Any) -> str:
    r"""A JSON text with another value.

    Everything else is kept: values that do not change and the space around them, the order and spelling of keys, a byte
    order mark, line ends, the indentation. New values are written in the style of their neighbours: on one line or on
    several, with `\u` escapes if the text has only those.

    Args:
        text: A well-formed JSON document.
        old: Its value.
        new: The value that it should have. A new member of an object is placed after its predecessor in the dict.

    Raises:
        PatchError: An object that changes has a key more than once, or the result does not have the new value.
    """
    mark = _MARK if text.startswith(_MARK) else ""
    body = text.removeprefix(mark)
    try:
        result = _Patcher(body).patch(old, new)
    except (IndexError, KeyError) as error:
        raise PatchError("the text does not have the value that would change") from error
    except ValueError as error:
        if isinstance(error, PatchError):
            raise
        raise PatchError(f"the new value can't be written as JSON: {error}") from error
    if not _same(json.loads(result), new):
        raise PatchError("the changed text would not have the intended value")
    if _LONE_SURROGATE.search(result):
        raise PatchError("the new value contains half of a surrogate pair, which is not a character")
    return mark + result


def replaced(value: Any, path: JsonPath, new: Any) -> Any:
    """A copy of a value, with another one at a path.

    Raises:
        KeyError, IndexError: The path does not exist.
    """
    return _changed(value, path, lambda _: new)


def with_item(value: Any, path: JsonPath, new: Any) -> Any:
    """A copy of a value, with a new last item in the list at a path."""
    return _changed(value, path, lambda items: [*items, new])


def without(value: Any, path: JsonPath) -> Any:
    """A copy of a value without the member or the item at a path, which is not empty."""
    *parent, last = path

    def remove(container: Any) -> Any:
        copy = container.copy()
        del copy[last]
        return copy

    return _changed(value, tuple(parent), remove)


def value_text(text: str, path: JsonPath) -> str:
    """The text of a value, without the indentation of the line on which it starts.

    Raises:
        KeyError: The path does not exist.
    """
    positions = Positions(text.removeprefix(_MARK))
    body = text.removeprefix(_MARK)
    start, end = positions.start(), len(body.rstrip())
    for step in path:
        entry = positions.children(start)[step]
        start, end = entry.value, entry.end
    line = body[body.rfind("\n", 0, start) + 1 : start]
    indentation = line[: len(line) - len(line.lstrip(" \t"))]
    return body[start:end].replace(f"\n{indentation}", "\n").replace("\r\n", "\n")


def write_if_unchanged(path: Path, before: str, after: str) -> None:
    """Replaces a file atomically if it still has the text that was read; of a symbolic link, its target.

    Raises:
        PatchError: Another program has changed or removed the file.
        OSError: The file can't be written, or is read-only.
    """
    target = path.resolve()
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
    try:
        present = read_regular(target, MAX_TEXT)
    except OSError as error:
        raise PatchError(f"the file can't be read again: {error.strerror or error}") from error
    if present != before.encode():
        raise PatchError("another program has changed the file meanwhile")
    write_text(target, after)


def _changed(value: Any, path: JsonPath, change: Callable[[Any], Any]) -> Any:
    if not path:
        return change(value)
    copy = value.copy()
    copy[path[0]] = _changed(value[path[0]], path[1:], change)
    return copy


def _same(first: Any, second: Any) -> bool:
    """Whether two JSON values are equal. In contrast to `==`, 1, 1.0 and true differ."""
    if first is second:
        return True
    if type(first) is not type(second) or first != second:
        return False
    return canonical(first) == canonical(second)


class _Patcher:
    """Changes one text, which has no byte order mark."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._layout = Layout(text)

    def patch(self, old: Any, new: Any) -> str:
        start = self._layout.positions.start()
        end = self._layout.positions.end(start) if self._text[start] in "[{" else len(self._text.rstrip(" \t\r\n"))
        entry = Entry(start, start, end)
        return self._text[:start] + self._value(entry, old, new, _Place()) + self._text[end:]

    def _value(self, entry: Entry, old: Any, new: Any, place: _Place) -> str:
        """The text of a value after the change."""
        if _same(old, new):
            return self._text[entry.value : entry.end]
        if place.style is None and entry.end - entry.value <= _SCANNED:
            place = replace(place, style=Style.of(self._layout, entry.value, place.label))
        if isinstance(old, dict) and isinstance(new, dict) and old and new:
            if self._layout.positions.has_duplicates(entry.value):
                line = self._layout.positions.at(entry.value).line
                raise PatchError(f"an object that would change has a key more than once (line {line})")
            return self._container(entry, [*old.values()], _object_slots(old, new), place)
        if isinstance(old, list) and isinstance(new, list) and old and new:
            return self._container(entry, old, _list_slots(old, new), place)
        style = place.style or Style(layout=self._layout)
        return style.render(new, place.label, self._layout.indentation(entry.key), one_line=place.one_line)

    def _container(self, entry: Entry, old: list[Any], slots: list[_Slot], place: _Place) -> str:
        """The text of an object or a list with other children, at least one of them."""
        entries, leads = self._layout.entries(entry.value), self._layout.leads(entry.value)
        inside = replace(place, one_line=self._layout.arrangement(entry.value) == "line")
        parts = [self._text[entry.value]]
        last = -1
        for number, slot in enumerate(slots):
            inside = replace(inside, label=f"{place.label}[]" if slot.key is None else slot.key)
            index = slot.index
            if index is None:
                neighbour = min(last + 1, len(entries) - 1)
                style = place.style or self._neighbour_style(entries[neighbour], inside)
                lead = leads[max(neighbour, 1)] if len(leads) > 1 else self._lead(leads[0], style)
                key = "" if slot.key is None else style.key(slot.key)
                indentation = _indentation(lead) if "\n" in lead else self._layout.indentation(entry.value)
                child = key + style.render(slot.value, inside.label, indentation, one_line=inside.one_line)
            else:
                last, lead = index, leads[index]
                present = entries[index]
                child = self._text[present.key : present.value]
                child += self._value(present, old[index], slot.value, inside)
            first = number == 0
            if first or index == 0:
                lead = leads[0] if first else leads[1] if len(leads) > 1 else self._lead(leads[0], place.style)
            parts += [lead, child]
        return "".join(parts) + self._text[entries[-1].end : entry.end]

    def _neighbour_style(self, entry: Entry, place: _Place) -> Style:
        """The style of a child of a container that is too large to be scanned as a whole."""
        if entry.end - entry.value > _SCANNED:
            return Style(layout=self._layout)
        return Style.of(self._layout, entry.value, place.label)

    def _lead(self, first: str, style: Style | None) -> str:
        """What precedes a second child, by what precedes the only one."""
        return "," + first if "\n" in first else (style or Style(layout=self._layout)).comma


@dataclass(frozen=True, kw_only=True)
class _Place:
    """Where a value is in the document."""

    label: str = ""
    style: Style | None = None
    """The style of a container around it; None if all of them are too large to be scanned."""
    one_line: bool = False
    """The container that it is in is written on one line."""


@dataclass(frozen=True, kw_only=True)
class _Slot:
    """A child of a container after the change."""

    index: int | None
    """Its present index among the children; None for a new one."""
    key: str | None
    """None in a list."""
    value: Any


def _indentation(lead: str) -> str:
    line = lead.rpartition("\n")[2]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _object_slots(old: dict[str, Any], new: dict[str, Any]) -> list[_Slot]:
    """The members of `new`: those of `old` in their order, each other one behind its predecessor in `new`."""
    order = [key for key in old if key in new]
    previous: str | None = None
    for key in new:
        if key not in old:
            order.insert(0 if previous is None else order.index(previous) + 1, key)
        previous = key
    indices = {key: index for index, key in enumerate(old)}
    return [_Slot(index=indices.get(key), key=key, value=new[key]) for key in order]


def _list_slots(old: list[Any], new: list[Any]) -> list[_Slot]:
    """The items of `new`, each with the item of `old` that it is made of."""
    sources: list[int | None] = [*range(len(new))]
    if len(old) != len(new):
        shorter = min(len(old), len(new))
        start = next((index for index in range(shorter) if not _same(old[index], new[index])), shorter)
        most = shorter - start
        tail = next((index for index in range(most) if not _same(old[-1 - index], new[-1 - index])), most)
        sources = [*range(start)]
        middle = aligned(old[start : len(old) - tail], new[start : len(new) - tail])
        sources += [None if index is None else start + index for index in middle]
        sources += range(len(old) - tail, len(old))
    return [_Slot(index=index, key=None, value=value) for index, value in zip(sources, new, strict=True)]


def eval_set_text(eval_set: EvalSet) -> str:
    """An eval set as JSON in snake_case, without unset, null and default values, as ADK's local manager writes it."""
    value = eval_set.model_dump(mode="json", exclude_unset=True, exclude_defaults=True, exclude_none=True)
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def write_text(path: Path, text: str | Iterable[str]) -> None:
    """Replaces a file atomically. Creates its directory.

    Args:
        path: The file.
        text: The text, or its pieces if the whole would take too much memory.

    Raises:
        OSError: The file can't be written.
    """
    with naming(path), replacing(path) as file:
        file.writelines(piece.encode() for piece in ([text] if isinstance(text, str) else text))
