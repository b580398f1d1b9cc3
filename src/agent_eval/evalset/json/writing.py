"""Writes eval sets in the format of ADK."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from agent_eval.core.disk import naming
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
    with naming(path):
        _replace(path, [text] if isinstance(text, str) else text)


def _replace(path: Path, pieces: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask()
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(pieces)
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    """The process's umask, which can only be read by setting it."""
    current = os.umask(0o077)
    os.umask(current)
    return current
