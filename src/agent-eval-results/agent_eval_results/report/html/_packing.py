"""Packs data for the page: JSON, gzip, base64. The same data gives the same bytes."""

from __future__ import annotations

import base64
import gzip
import itertools
import json
import math
from typing import Any

from pydantic_core import to_json

from agent_eval_results.report.views import visible
from agent_eval_scoring.core.text import shorten

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
    items = {
        shown(str(key), _LONGEST_KEY): json_value(item, limit, depth + 1)
        for key, item in itertools.islice(value.items(), _MOST_ITEMS)
    }
    if len(value) > _MOST_ITEMS:
        items["…"] = f"and {len(value) - _MOST_ITEMS:,} more"
    return items


def bounded_value(value: Any, limit: int) -> Any:
    """The same, as text with a note in the middle if its JSON is longer than the limit."""
    kept = json_value(value, limit)
    if len(dumped(kept)) <= limit:  # Bytes are at least as many as characters.
        return kept
    long = json.dumps(kept, ensure_ascii=False)
    return kept if len(long) <= limit else shorten(long, limit)
