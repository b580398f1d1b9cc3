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
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.files import MAX_TEXT, read_regular, replacing
from agent_eval_scoring.core.process import naming
from agent_eval_scoring.evalset.json.positions import Entry, JsonPath, Positions
from agent_eval_scoring.evalset.models import EvalSet

_MARK = "\ufeff"
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED = re.compile(r"(?<!\\)(?:\\\\)*\\u(?!00[0-7])")
_INDENTED = re.compile(r"\n([ \t]+)\S")
_SPACED = re.compile(r'"\s*:\s')
_BEGINNING = 64 * 1024
"""Characters from the start of a text that show its line ends, its indentation and its separators."""


class PatchError(AgentEvalError, ValueError):
    """A text can't be changed as intended. Its message is a clause without a full stop."""


def patched_text(text: str, old: Any, new: Any) -> str:
    r"""A JSON text with another value.

    Everything else is kept: values that do not change and the space around them, the order and spelling of keys, a byte
    order mark, line ends, the indentation. A new value is written on one line if its container, its neighbour or the
    value that it replaces is, else with the indentation of the text; with `\u` escapes if the text has only those.

    Args:
        text: A well-formed JSON document.
        old: Its value.
        new: The value that it should have. A new member of an object is placed after its predecessor in the dict.

    Raises:
        PatchError: An object that changes has a key more than once, or the result does not have the new value.
    """
    # Kept as it is: to refuse the mark is the reader's business.
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
    # A last check: an eval file that is silently wrong is worse than one that is not written.
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
    # Replacing a link's own name would put a file in its place, and leave the target as it was.
    target = path.resolve()
    # A replacement needs only the directory's permission, so a read-only file would be changed all the same.
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
    return _canonical(first) == _canonical(second)


def _canonical(value: Any) -> str:
    """Canonical form: equal for equal JSON values only. 1, 1.0 and true differ."""
    return json.dumps(value, sort_keys=True)


class _Patcher:
    """Changes one text, which has no byte order mark."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._positions = Positions(text)
        beginning = text[:_BEGINNING]
        self._newline = "\r\n" if "\r\n" in beginning else "\n"
        indented = _INDENTED.search(beginning)
        self._unit = indented[1] if indented else "  "
        self._colon, self._comma = (": ", ", ") if _SPACED.search(beginning) or '":' not in beginning else (":", ",")
        # Escapes of control characters say nothing: JSON needs these.
        self._ascii = text.isascii() and _ESCAPED.search(text) is not None

    def patch(self, old: Any, new: Any) -> str:
        start = self._positions.start()
        end = self._positions.end(start) if self._text[start] in "[{" else len(self._text.rstrip(" \t\r\n"))
        return self._text[:start] + self._value(Entry(start, start, end), old, new) + self._text[end:]

    def _value(self, entry: Entry, old: Any, new: Any, *, one_line: bool = False) -> str:
        """The text of a value after the change; `one_line`: its container is written on one line."""
        if _same(old, new):
            return self._text[entry.value : entry.end]
        if isinstance(old, dict) and isinstance(new, dict) and old and new:
            # Which of two members should be changed nobody knows: readers take the last, people see the first.
            if self._positions.has_duplicates(entry.value):
                line = self._positions.at(entry.value).line
                raise PatchError(f"an object that would change has a key more than once (line {line})")
            return self._container(entry, [*old.values()], _object_slots(old, new))
        if isinstance(old, list) and isinstance(new, list) and old and new:
            return self._container(entry, old, _list_slots(old, new))
        return self._render(new, self._indentation(entry.key), one_line=one_line or self._is_one_line(entry))

    def _container(self, entry: Entry, old: list[Any], slots: list[_Slot]) -> str:
        """The text of an object or a list with other children, at least one of them."""
        entries = list(self._positions.children(entry.value).values())
        starts = [entry.value + 1, *(child.end for child in entries)]
        # The space before each child, with the comma after the child before.
        leads = [self._text[start : child.key] for start, child in zip(starts, entries, strict=False)]
        # The space of a second child does not exist yet: it is made of the first one's.
        second = leads[1] if len(leads) > 1 else f",{leads[0]}" if "\n" in leads[0] else self._comma
        one_line = self._is_one_line(entry)
        text = self._text[entry.value]
        last = -1
        for number, slot in enumerate(slots):
            if slot.index is None:
                neighbour = min(last + 1, len(entries) - 1)
                lead = leads[neighbour] if neighbour > 0 else second
                indentation = _indentation(lead) if "\n" in lead else self._indentation(entry.value)
                child = "" if slot.key is None else self._scalar(slot.key) + self._colon
                beside = one_line or self._is_one_line(entries[max(last, 0)])
                child += self._render(slot.value, indentation, one_line=beside)
            else:
                last = slot.index
                present = entries[last]
                lead = leads[last] if last > 0 else second
                child = self._text[present.key : present.value]
                child += self._value(present, old[last], slot.value, one_line=one_line)
            text += (lead if number > 0 else leads[0]) + child
        return text + self._text[entries[-1].end : entry.end]

    def _render(self, value: Any, indentation: str, *, one_line: bool) -> str:
        """The text of a new value. `indentation` is that of its first line."""
        # Empty containers are on one line in every style.
        if one_line or not value or not isinstance(value, dict | list):
            return self._scalar(value)
        inner = indentation + self._unit
        if isinstance(value, dict):
            opening, closing = "{}"
            parts = [
                self._scalar(key) + self._colon + self._render(child, inner, one_line=False)
                for key, child in value.items()
            ]
        else:
            opening, closing = "[]"
            parts = [self._render(child, inner, one_line=False) for child in value]
        lines = f",{self._newline}{inner}".join(parts)
        return f"{opening}{self._newline}{inner}{lines}{self._newline}{indentation}{closing}"

    def _scalar(self, value: Any) -> str:
        """The text of a value on one line."""
        separators = (self._comma, self._colon)
        return json.dumps(value, ensure_ascii=self._ascii, allow_nan=False, separators=separators)

    def _is_one_line(self, entry: Entry) -> bool:
        """Whether a value is an object or a list with children, written on one line."""
        text = self._text[entry.value : entry.end]
        return len(text) > 2 and text[0] in "[{" and "\n" not in text

    def _indentation(self, offset: int) -> str:
        """The space at the beginning of the line of an offset."""
        return _indentation(self._text[self._text.rfind("\n", 0, offset) + 1 : offset])


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
        # Equal ends first: aligning is quadratic, and of 10,000 cases one changes.
        start = next((index for index in range(shorter) if not _same(old[index], new[index])), shorter)
        most = shorter - start
        tail = next((index for index in range(most) if not _same(old[-1 - index], new[-1 - index])), most)
        sources = [*range(start)]
        middle = _aligned(old[start : len(old) - tail], new[start : len(new) - tail])
        sources += [None if index is None else start + index for index in middle]
        sources += range(len(old) - tail, len(old))
    return [_Slot(index=index, key=None, value=value) for index, value in zip(sources, new, strict=True)]


def _aligned(old: list[Any], new: list[Any]) -> list[int | None]:
    """For each item of `new`, the index of the item of `old` that it is or replaces; None for an additional one.

    The indices ascend. Where items were replaced and others removed or added beside them, the first ones are paired.
    """
    # With autojunk, items that make up 1 % of 200 or more would never be matched.
    matcher = SequenceMatcher(None, [*map(_canonical, old)], [*map(_canonical, new)], autojunk=False)
    sources: list[int | None] = []
    for _, start, end, new_start, new_end in matcher.get_opcodes():
        indices: list[int | None] = [*range(start, end)]
        sources += (indices + [None] * (new_end - new_start))[: new_end - new_start]
    return sources


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
    # Replaced and not written in place: a command that is interrupted leaves the old file whole.
    with naming(path), replacing(path) as file:
        file.writelines(piece.encode() for piece in ([text] if isinstance(text, str) else text))
