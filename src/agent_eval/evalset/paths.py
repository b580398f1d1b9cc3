"""How files are called in everything that we tell."""

from __future__ import annotations

import os
from pathlib import Path


def absolute(path: Path) -> Path:
    """Without `..`, but with links as they are: a file is reported by the name that the user knows."""
    return Path(os.path.abspath(path))  # noqa: PTH100


def name_of(path: Path, root: Path) -> str:
    """A path relative to the root, with forward slashes; it begins with `..` if it lies outside."""
    return Path(os.path.relpath(path, root)).as_posix()
