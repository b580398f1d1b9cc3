"""Packs data for the page: JSON, gzip, base64. The same data gives the same bytes."""

from __future__ import annotations

import base64
import gzip
import json
import math
from typing import Any

from pydantic_core import to_json

from agent_eval.core.text import shorten
from agent_eval.report.views import visible

_DEEPEST = 60
"""Levels of nested JSON that are kept."""
_TOO_DEEP = "(nested more deeply than the report shows)"
_LONGEST_KEY = 1_000
_MOST_ITEMS = 2_000
"""Items of one array or object that are kept."""


def packed(text: bytes) -> bytes:
    """base64(gzip(JSON)): letters, digits, `+`, `/` and `=` only, so a template needs no escaping."""
    return base64.b64encode(gzip.compress(text, compresslevel=6, mtime=0))


def dumped(data: Any) -> bytes:
    """The data, made of dicts, lists, texts and numbers, as compact JSON in UTF-8."""
    return to_json(data)  # Four times as fast as the standard library.


def unpacked(text: str | bytes) -> Any:
    """The data of `packed`, for tests and tools."""
    return json.loads(gzip.decompress(base64.b64decode(text)))


def number(value: float | None, digits: int | None = None) -> float | str | None:
    """A number as JSON carries it: `nan`, `inf` and `-inf` become text.

    Args:
        value: The number. A score is never rounded: it would cross its threshold.
        digits: Decimals to keep; None for all.
    """
    if value is None or isinstance(value, int):
        return value
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if digits is not None:
        value = round(value, digits)
    return int(value) if value == int(value) and abs(value) < 2**53 else value


def shown(value: str | None, limit: int) -> str:
    """A text from anywhere, visible and cut to the limit with a note of how much is left out."""
    if not value:
        return ""
    if len(value) <= limit and value.isascii() and value.isprintable():
        return value
    # Cut first: `visible` is slow for megabytes, and may make the text longer.
    return shorten(visible(shorten(value, 2 * limit)), limit)


_DIGITS = bytes.maketrans(bytes(range(256)), bytes(ord("0" if 0x30 <= byte <= 0x39 else " ") for byte in range(256)))
_ESCAPES = (rb"\u", rb"\r", rb"\b", rb"\f")
"""What JSON has for ASCII characters that are not visible as they are."""


_TRIED = 3
"""Levels at which a value is first tried as a whole, which is much faster than one text after the other."""


def _json_of(value: Any) -> bytes | None:
    """The JSON of a value; None if it has none, e.g. for lone surrogates."""
    try:
        return dumped(value)
    except ValueError:
        return None


def _is_plain(text: bytes | None, limit: int) -> bool:
    """Whether the JSON of a value shows that `json_value` keeps it as it is; False if in doubt."""
    return (
        text is not None
        and text.isascii()
        and b"\x7f" not in text
        and not (b"\\" in text and any(escape in text for escape in _ESCAPES))
        and b"NaN" not in text
        and b"Infinity" not in text
        and b"0" * 16 not in text.translate(_DIGITS)
        and text.count(b"[") + text.count(b"{") < _DEEPEST
        and text.count(b",") < _MOST_ITEMS
        and _longest_text(text) <= min(limit, _LONGEST_KEY)
    )


def _longest_text(text: bytes) -> int:
    """At least the length of the longest string in JSON."""
    if len(text) <= _LONGEST_KEY or rb"\"" in text:
        return len(text)
    return max(map(len, text.split(b'"')))


def json_value(value: Any, limit: int, depth: int = 0) -> Any:
    """A JSON value from anywhere with all texts visible.

    What is nested too deeply, and items beyond the first 2,000 of an array or object, are replaced by a note.

    Args:
        value: The value of a tool's argument or response.
        limit: Characters of each text in it.
        depth: Levels above it.
    """
    if isinstance(value, str):
        return shown(value, limit)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        # JavaScript's numbers are exact up to 2**53 only.
        return value if abs(value) <= 2**53 else shown(_digits(value), limit)
    if isinstance(value, float):
        return value if math.isfinite(value) else number(value)
    if depth >= _DEEPEST:
        return _TOO_DEEP
    if depth < _TRIED and _is_plain(_json_of(value), limit):
        return value
    if isinstance(value, dict):
        return _object(value, limit, depth)
    if isinstance(value, list | tuple):
        items = [json_value(item, limit, depth + 1) for item in value[:_MOST_ITEMS]]
        return [*items, f"… and {len(value) - _MOST_ITEMS:,} more"] if len(value) > _MOST_ITEMS else items
    return shown(str(value), limit)


def _digits(value: int) -> str:
    try:
        return str(value)
    except ValueError:  # Python refuses to write more than 4,300 digits.
        return hex(value)


def _object(value: dict[Any, Any], limit: int, depth: int) -> dict[str, Any]:
    items: dict[str, Any] = {}
    for key, item in list(value.items())[:_MOST_ITEMS]:
        items[shown(str(key), _LONGEST_KEY)] = json_value(item, limit, depth + 1)
    if len(value) > _MOST_ITEMS:
        items["…"] = f"and {len(value) - _MOST_ITEMS:,} more"
    return items


def bounded_value(value: Any, limit: int) -> Any:
    """The same, as text with a note in the middle if its JSON is longer than the limit."""
    text = _json_of(value)
    if text is not None and len(text) <= limit and _is_plain(text, limit):
        return value
    kept = json_value(value, limit)
    if len(dumped(kept)) <= limit:  # Bytes are at least as many as characters.
        return kept
    long = json.dumps(kept, ensure_ascii=False)
    return kept if len(long) <= limit else shorten(long, limit)
