"""Renders values and calls as one short line of JSON with invisible characters escaped, safe to print."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from agent_eval.core.content import FunctionCall
from agent_eval.core.text import shorten

_PLAIN_NAME = re.compile(r"[A-Za-z_][\w.:-]*", re.ASCII)
_DEEPEST = 12
LONGEST_VALUE = 120
LONGEST_CALL = 300


def visible(text: str) -> str:
    r"""The text on one line: control characters, unusual spaces, bidi marks and surrogates as `\uXXXX`."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _escape(character) for character in text)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def literal(value: Any, limit: int = LONGEST_VALUE) -> str:
    """A JSON value on one line of about `limit` characters; omissions are marked with `…`.

    Reads only as much of the value as it shows, so the cost does not depend on the size of the value.
    """
    return _literal(value, limit, 0)


def _literal(value: Any, limit: int, depth: int) -> str:
    if isinstance(value, str):
        cut = shorten(value, max(limit, 60))
        return visible(json.dumps(cut, ensure_ascii=False))
    if isinstance(value, Mapping | list | tuple):
        if depth >= _DEEPEST:
            return "{…}" if isinstance(value, Mapping) else "[…]"
        return _container(value, limit, depth)
    try:
        return shorten(json.dumps(value), max(limit, 60))
    except (TypeError, ValueError):  # not JSON, or a number of over 4,300 digits
        return f"({type(value).__name__})"


def escaped(text: str) -> str:
    r"""The text as JSON with all non-ASCII characters as `\uXXXX`, to distinguish characters that look alike."""
    return json.dumps(shorten(text, LONGEST_VALUE))


def _container(value: Mapping[Any, Any] | list[Any] | tuple[Any, ...], limit: int, depth: int) -> str:
    is_mapping = isinstance(value, Mapping)
    pieces: list[str] = []
    remaining = limit
    for item in value.items() if isinstance(value, Mapping) else value:
        if remaining <= 0:
            pieces.append("…")
            break
        if is_mapping:
            piece = f"{_literal(str(item[0]), 60, depth)}: {_literal(item[1], remaining, depth + 1)}"
        else:
            piece = _literal(item, remaining, depth + 1)
        pieces.append(piece)
        remaining -= len(piece) + 2
    return ("{%s}" if is_mapping else "[%s]") % ", ".join(pieces)


def name_of(name: str | None) -> str:
    """The name of a tool or an argument, quoted unless it is an identifier."""
    if name is None:
        return "(no name)"
    return name if len(name) <= 80 and _PLAIN_NAME.fullmatch(name) else _literal(name, 80, 0)


def render_call(call: FunctionCall, *, ignore_args: bool = False, limit: int = LONGEST_CALL) -> str:
    """A call as code: `turn_on(device="lamp", level=3)`, or `turn_on(…)` with `ignore_args`."""
    name = name_of(call.name)
    if not call.args:
        return f"{name}()"
    if ignore_args:
        return f"{name}(…)"
    pieces: list[str] = []
    remaining = limit - len(name)
    for key, value in call.args.items():
        if remaining <= 0:
            pieces.append("…")
            break
        piece = f"{name_of(key)}={literal(value, min(remaining, LONGEST_VALUE))}"
        pieces.append(piece)
        remaining -= len(piece) + 2
    return f"{name}({', '.join(pieces)})"
