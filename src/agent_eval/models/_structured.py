"""A reply that should be JSON, read strictly: it fits the schema as it is, or it is no answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agent_eval.core.text import first_line, shorten

REMINDER = (
    "\n\nYour last reply could not be read. Reply with a single JSON value that fits the schema you were given, and "
    "with nothing before or after it."
)
"""Ends the question when it is asked again."""


def parse_reply(text: str, schema: Mapping[str, Any]) -> Any:
    """Reads a reply. No fences, no prose, no repeated keys, no NaN: what could be read in two ways is not read.

    Args:
        text: The reply without thoughts; white space around it is fine.
        schema: JSON Schema, draft 2020-12.

    Raises:
        ValueError: It isn't JSON, or it doesn't fit; the message says why, in one line.
    """
    from jsonschema import Draft202012Validator

    try:
        value = json.loads(text, object_pairs_hook=_distinct, parse_constant=_no_constant)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except json.JSONDecodeError as error:
        if not text.strip():
            raise ValueError("it is empty") from error
        raise ValueError(f"it is not JSON: {error}") from error
    found = next(iter(Draft202012Validator(dict(schema)).iter_errors(value)), None)
    if found is not None:
        where = "".join(f"[{part!r}]" for part in found.absolute_path)
        raise ValueError(
            f"it does not fit the schema{f' at {where}' if where else ''}: {shorten(first_line(found.message), 200)}"
        )
    return value


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("it has a key twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
