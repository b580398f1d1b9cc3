"""Reads recordings.jsonl.gz and cases.jsonl.gz where a damaged line must not cost the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from agent_eval.core.files import read_lines
from agent_eval.core.wire import WireModel

_Line = TypeVar("_Line", bound=WireModel)


@dataclass(kw_only=True)
class StoredLines(Generic[_Line]):
    """The lines of a file as models, read as a stream. A missing file has none."""

    path: Path
    model: type[_Line]
    """`results.Recording` or `StoredCase`."""
    skipped: int = 0
    """Lines that could not be read by the latest iteration; of a damaged file, the rest counts as one."""

    def __iter__(self) -> Iterator[_Line]:
        """Yields the readable lines in the order of the file."""
        self.skipped = 0
        if not self.path.exists():
            return
        try:
            for line in read_lines(self.path):
                try:
                    yield self.model.model_validate_json(line)
                except ValueError:
                    self.skipped += 1
        except (OSError, ValueError):
            self.skipped += 1
