"""Texts that people read, kept as files: a change of a text is seen, and reviewed, as such."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

DATA = Path(__file__).parents[1] / "data"


def check(name: str, actual: str) -> None:
    """Compares a text with its file below `tests/data`, byte by byte; UPDATE_GOLDEN=1 writes the file."""
    file = DATA / name
    if os.environ.get("UPDATE_GOLDEN"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(actual, encoding="utf-8", newline="\n")
    assert file.exists(), "UPDATE_GOLDEN=1 writes it"
    assert actual == file.read_bytes().decode("utf-8"), "if it reads well: UPDATE_GOLDEN=1"


def check_part(file: Path, current: str, expected: str) -> None:
    """Compares a generated part of a file with what it should be; UPDATE_GOLDEN=1 writes it."""
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(file.read_text("utf-8").replace(current, expected, 1), "utf-8")
    else:
        assert current == expected, "UPDATE_GOLDEN=1 writes it"


def check_names(folder: str, names: Iterable[str]) -> None:
    """No file of a folder is left over."""
    assert {file.name for file in (DATA / folder).iterdir()} == set(names)
