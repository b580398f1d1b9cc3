"""Strict parsing of JSON replies: no repairs, the reply fits the schema or is rejected."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agent_eval.core.masking import Masked, first_line

REMINDER = (
    "\n\nYour last reply could not be read. Reply with a single JSON value that fits the schema you were given, and "
    "with nothing before or after it."
)
"""Appended to the prompt of the second call."""


def parse_reply(text: str, schema: Mapping[str, Any]) -> Any:
    """Parses a reply. Rejects code fences, prose, repeated keys and NaN, since they are ambiguous.

    Args:
        text: The reply without thoughts; may have white space around it.
        schema: JSON Schema, draft 2020-12.

    Raises:
        ValueError: The reply isn't JSON, or doesn't fit the schema; the message is one line.
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
    mismatch = next(iter(Draft202012Validator(dict(schema)).iter_errors(value)), None)
    if mismatch is not None:
        where = "".join(f"[{part!r}]" for part in mismatch.absolute_path)
        raise ValueError(
            f"it does not fit the schema{f' at {where}' if where else ''}: {first_line(Masked(mismatch.message))}"
        )
    return value


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("it has a key twice")
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
