"""Writes eval sets in the format of ADK."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from agent_eval.core.disk import naming
from agent_eval.core.files import replacing
from agent_eval.evalset.models import EvalSet


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
