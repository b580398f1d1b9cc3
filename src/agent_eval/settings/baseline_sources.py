"""The setting `baseline`: where to look for the base branch's results, in order."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent_eval.results import BaselineSource

SYNTAX = "must be auto, none, or sources in order, separated by commas: artifact, file:PATH, rerun"


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A requested source."""

    source: BaselineSource
    path: str | None = None
    """PATH of `file:PATH`: relative to the repository root, with forward slashes."""

    def __str__(self) -> str:
        return self.source if self.path is None else f"{self.source}:{self.path}"


AUTO: tuple[Choice, ...] = (Choice(source="artifact"),)
"""Without `rerun`, which runs the whole suite a second time and costs as much."""


def parse_order(text: str) -> tuple[Choice, ...]:
    """Parses the setting `baseline`.

    Args:
        text: `auto`, `none`, or a comma list of `artifact`, `file:PATH` and `rerun`.

    Returns:
        The sources in order; empty for `none`.

    Raises:
        ValueError: Invalid text, a repeated source, or a PATH outside the repository.
    """
    words = [word.strip() for word in text.split(",")]
    if words == ["auto"]:
        return AUTO
    if words == ["none"]:
        return ()
    choices = tuple(_choice(word) for word in words)
    if len(set(choices)) < len(choices):
        raise ValueError("must name each source once")
    return choices


def _choice(word: str) -> Choice:
    if word == "artifact":
        return Choice(source="artifact")
    if word == "rerun":
        return Choice(source="rerun")
    if word.startswith("file:"):
        path = PurePosixPath(word.removeprefix("file:").strip())
        if path.is_absolute() or ".." in path.parts or path == PurePosixPath():
            raise ValueError("must be file:PATH with a path inside the repository, e.g. file:evals/baseline.json")
        return Choice(source="file", path=path.as_posix())
    raise ValueError(SYNTAX)
