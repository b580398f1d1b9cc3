"""What is stored of eval cases beside results: lines of JSON, and an index to read single ones."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Generic, Literal, TypeVar

from pydantic import ConfigDict

from agent_eval.core.files import read_lines
from agent_eval.core.wire import WireModel
from agent_eval.evalset.models import EvalCase
from agent_eval.runner.plan import PlannedCase

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
    """Only the id: to build the rest of a line as Python objects takes four times as long as to parse it."""

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
    """The lines of recordings.jsonl.gz or cases.jsonl.gz by case id. A damaged line does not cost the others."""

    def __init__(self, path: Path, model: type[_Line], file: IO[bytes]) -> None:
        """Copies the lines to a file. A missing file has none."""
        self._model = model
        self._file = file
        self._places: dict[str, list[tuple[int, int]]] = {}
        self._damaged: set[int] = set()
        """Offsets of lines that are JSON, but not the model's."""
        self._unreadable = 0
        if path.exists():
            self._copy(path)

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

    def _copy(self, path: Path) -> None:
        try:
            for line in read_lines(path):
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
def stored_index(path: Path, model: type[_Line]) -> Iterator[StoredIndex[_Line]]:
    """The index of a file, in a temporary file that is removed at the end.

    Args:
        path: `recordings.jsonl.gz` or `cases.jsonl.gz`; may be missing.
        model: `results.Recording` or `StoredCase`.
    """
    with tempfile.TemporaryFile(prefix="agent-eval-") as file:
        yield StoredIndex(path, model, file)


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


def case_lines(cases: Iterable[PlannedCase]) -> Iterator[bytes]:
    """The lines of planned cases, in their order."""
    for planned in cases:
        simulated = planned.case.conversation_scenario is not None and planned.user_config is not None
        stored = StoredCase(
            schema_version="1",
            case_id=planned.case_id,
            file=planned.file,
            eval_set_id=planned.eval_set_id,
            fingerprint=planned.content,
            case=planned.case,
            **({"user_simulator_config": dict(planned.user_config or {})} if simulated else {}),
        )
        yield stored.model_dump_json(exclude_unset=True, exclude_none=True).encode() + b"\n"
