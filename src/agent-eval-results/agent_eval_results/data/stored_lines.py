"""What is stored of recordings and eval cases beside results: lines of JSON, and an index to read single ones."""

from __future__ import annotations

import contextlib
import gzip
import io
import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Generic, Literal, TypeVar

from pydantic import ConfigDict

from agent_eval_scoring.core.files import read_lines
from agent_eval_scoring.core.process import naming
from agent_eval_scoring.core.wire import WireModel
from agent_eval_scoring.evalset.models import EvalCase

_BLOCK = 1 << 17
"""Bytes that are compressed at once: a call for each of 10,000 lines costs as much as a fifth of the compression."""
_LEVEL = 4
"""Half the time of level 6, and files an eighth larger (measured with 10,000 cases)."""


def write_lines(path: Path, lines: Iterable[bytes]) -> None:
    """Writes recordings or cases as compressed lines, without a time stamp: the same lines give the same bytes."""
    with (
        naming(path),
        path.open("wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=_LEVEL, mtime=0) as compressed,
        io.BufferedWriter(compressed, _BLOCK) as file,
    ):
        file.writelines(lines)


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


class _CaseLine(WireModel):
    """Parses only the id; building the other objects would take four times as long."""

    model_config = ConfigDict(extra="ignore")

    case_id: str


_BEGINNING = re.compile(rb'\{"schema_version":"1",(?:"run_id":"[^"\\]*",)?"case_id":"([^"\\]*)"')
"""How we write lines, unless an id needs escapes. To parse 10,000 lines for their ids takes a third of a second."""


def _case_id(line: bytes) -> str:
    """The id of a line's case. What follows it is checked when the line is used.

    Raises:
        ValueError: The line is damaged.
    """
    beginning = _BEGINNING.match(line)
    return _CaseLine.model_validate_json(line).case_id if beginning is None else beginning[1].decode("utf-8")


class StoredIndex(Generic[_Line]):
    """The lines of recordings.jsonl.gz or cases.jsonl.gz by case id. A damaged line doesn't affect the others."""

    def __init__(self, lines: Iterable[bytes], model: type[_Line], file: IO[bytes]) -> None:
        """Copies the lines to a file."""
        self._model = model
        self._file = file
        self._places: dict[str, list[tuple[int, int]]] = {}
        self._damaged: set[int] = set()
        """Offsets of lines that are JSON, but not the model's."""
        self._unreadable = 0
        self._copy(lines)

    @property
    def skipped(self) -> int:
        """Lines that could not be read so far; of a damaged file, the rest counts as one."""
        return self._unreadable + len(self._damaged)

    def strangers(self, case_ids: Iterable[str]) -> int:
        """The number of lines of other cases than these."""
        ours = set(case_ids)
        return sum(len(places) for case_id, places in self._places.items() if case_id not in ours)

    def of(self, case_id: str) -> Iterator[_Line]:
        """The readable lines of a case, in the order of the file."""
        for offset, length in self._places.get(case_id, ()):
            self._file.seek(offset)
            try:
                yield self._model.model_validate_json(self._file.read(length))
            except ValueError:
                self._damaged.add(offset)

    def _copy(self, lines: Iterable[bytes]) -> None:
        try:
            for line in lines:
                try:
                    case_id = _case_id(line)
                except ValueError:
                    self._unreadable += 1
                    continue
                self._places.setdefault(case_id, []).append((self._file.tell(), len(line)))
                self._file.write(line)
        except (OSError, ValueError):
            self._unreadable += 1


@contextlib.contextmanager
def stored_index(source: Path | Iterable[bytes], model: type[_Line]) -> Iterator[StoredIndex[_Line]]:
    """The index of a file, in a temporary file that is removed at the end.

    Args:
        source: `recordings.jsonl.gz` or `cases.jsonl.gz`, which may be missing; or lines of one.
        model: `results.Recording` or `StoredCase`.
    """
    if isinstance(source, Path):
        source = read_lines(source) if source.exists() else ()
    with tempfile.TemporaryFile(prefix="agent-eval-") as file:
        yield StoredIndex(source, model, file)


class StoredCase(WireModel):
    """One case, a line of cases.jsonl.gz."""

    schema_version: Literal["1"] = "1"
    case_id: str
    """As in results.json and in the recordings."""
    file: str
    eval_set_id: str
    fingerprint: str
    """`CaseReport.fingerprint`: a line with another one does not belong to the report."""
    case: EvalCase
    user_simulator_config: dict[str, Any] | None = None
    """Options of the simulated user of a scenario."""
