"""JSON of a server."""

from __future__ import annotations

import json
from typing import Any


def read_json(text: str) -> Any:
    """Parses JSON. Half surrogate pairs, which no file can hold, become question marks.

    Raises:
        ValueError: It is not JSON.
        RecursionError: It is nested too deeply.
    """
    value = json.loads(text)
    return _writable(value) if "\\ud" in text or "\\uD" in text else value


def _writable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_writable(key): _writable(each) for key, each in value.items()}
    return [_writable(each) for each in value] if isinstance(value, list) else value
