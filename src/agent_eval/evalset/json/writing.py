"""The one writer of eval sets: what it writes, ADK loads, and a diff of it can be read."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from agent_eval.core.disk import naming
from agent_eval.evalset.models import EvalSet


def eval_set_text(eval_set: EvalSet) -> str:
    """An eval set as JSON: snake_case, without what is unset, null or a default, as ADK's local manager writes it."""
    value = eval_set.model_dump(mode="json", exclude_unset=True, exclude_defaults=True, exclude_none=True)
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def write_eval_set(eval_set: EvalSet, path: Path) -> None:
    """Writes an eval set; the file holds the old or the new text, never a part.

    Raises:
        OSError: If it can't be written.
        ValueError: If it holds something that JSON can't, such as NaN.
    """
    write_text(path, eval_set_text(eval_set))


def write_text(path: Path, text: str | Iterable[str]) -> None:
    """Replaces a file in one step. Its directory is made if it is missing.

    Args:
        path: The file.
        text: All of it, or piece by piece where the whole would be a burden.

    Raises:
        OSError: If it can't be written.
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
    """The process's mask; reading it means setting it."""
    current = os.umask(0o077)
    os.umask(current)
    return current
