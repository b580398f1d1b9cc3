"""How values become JSON and short texts."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Mapping
from typing import Any

LONGEST_MESSAGE = 4_000


def plain(value: Any) -> Any:
    """Converts a value to JSON types. NaN and infinities become strings."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if isinstance(value, (bytes, bytearray)):
        import base64

        return base64.urlsafe_b64encode(bytes(value)).decode()
    if hasattr(value, "model_dump"):
        return dump(value)
    return text_of(value)


def text_of(value: object) -> str:
    try:
        return str(value)
    except Exception as error:  # an agent's own __str__
        return f"<{type(value).__name__}: {type(error).__name__} when shown>"


def described_error(error: BaseException) -> dict[str, str]:
    """The full name of an exception's class (builtins without their module), and its message."""
    cls = type(error)
    name = cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
    return {"type": name, "message": cut(text_of(error), LONGEST_MESSAGE)}


_ENVIRONMENT = tuple(value.strip() for value in os.environ.values() if len(value.strip()) >= 6)
"""Values that may be secrets, from before the agent's code runs and can change them."""


def cut(text: str, limit: int) -> str:
    """Cuts a text to at most `limit` characters, between words and never inside a value of the environment.

    The gate masks secrets in what leaves this process. It could not recognize a part of a secret.
    """
    if len(text) <= limit:
        return text
    end = max(text.rfind(mark, 0, limit) for mark in " \n\t\"',;") + 1
    moved = True
    while moved:
        moved = False
        for value in _ENVIRONMENT:
            for form in (value, json.dumps(value)[1:-1], html.escape(value), repr(value)[1:-1]):
                start = text.find(form, max(end - len(form) + 1, 0), end + len(form) - 1)
                if -1 < start < end:
                    end, moved = start, True
    return text[:end]


def dump(model: Any, include: Any = None) -> Any:
    """Converts a pydantic model to JSON types, with Python field names and without Nones."""
    try:
        return model.model_dump(mode="json", exclude_none=True, by_alias=False, include=include, warnings=False)
    except Exception:  # a value that pydantic can't convert to JSON
        return plain(model.model_dump(exclude_none=True, by_alias=False, include=include, warnings=False))
