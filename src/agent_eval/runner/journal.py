"""The journal: every recording is written at once, so that `--resume` can continue a killed run. And what is stored of
recordings and eval cases beside results: lines of JSON, and an index to read single ones.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Generic, Literal, TypeVar

from pydantic import ConfigDict

from agent_eval.core.files import LONGEST_LINE, read_lines
from agent_eval.core.process import FULL, Reserve, naming
from agent_eval.core.wire import WireModel
from agent_eval.evalset.models import EvalCase
from agent_eval.results import Recording
from agent_eval.runner.plan import PlannedCase

_BLOCK = 1 << 17
"""Bytes that are compressed at once: a call for each of 10,000 lines costs as much as a fifth of the compression."""
_LEVEL = 4
"""Half the time of level 6, and files an eighth larger (measured with 10,000 cases)."""

_Entry = tuple[int, int, str]
"""A line's offset and length, and its run's fingerprint."""


class Journal:
    """A file of recordings in the order in which the runs ended.

    One process writes it, line by line and without a buffer, so a killed process loses at most the line it was writing.
    If the disk becomes full, the last recording and the run's results go into room that was reserved for them.
    """

    def __init__(self, path: Path, *, resume: bool) -> None:
        """Opens the journal. Without `resume` its content is discarded."""
        self._path = path
        self.damaged_line: int | None = None
        """The number (from 1) of the first unreadable line. This line and all after it are discarded."""
        self._earlier: dict[str, _Entry] = {}
        self._entries: dict[str, _Entry] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        end = self._read() if resume and path.is_file() else 0
        self._file = path.open("r+b" if end else "w+b", buffering=0)
        self._file.truncate(end)
        self._file.seek(end)
        self._reserve = Reserve(path.with_suffix(".reserve"))

    def _read(self) -> int:
        """Indexes the reusable recordings; returns the end of the last intact line."""
        position = end = number = 0
        with self._path.open("rb") as file:
            while line := file.readline(LONGEST_LINE):
                start, position, number = position, position + len(line), number + 1
                if not line.endswith(b"\n") and len(line) < LONGEST_LINE:
                    break  # The process was killed while writing this line.
                try:
                    record = json.loads(line)
                    run_id, fingerprint, error = str(record["run_id"]), record["fingerprint"], record.get("error")
                    keep = error is None or error["owner"] == "agent"
                except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                    self.damaged_line = number  # It was edited, or written by two processes.
                    break
                end = position
                # A failure that the agent did not cause is worth another try.
                if keep:
                    self._earlier[run_id] = (start, len(line), fingerprint)
                else:
                    self._earlier.pop(run_id, None)
        return end

    def reuse(self, run_id: str, fingerprint: str) -> Recording | None:
        """Reuses the recording of an earlier process for a run with the same fingerprint.

        None if there is none, or if it can't be read because another version of agent-eval wrote it.
        """
        entry = self._earlier.get(run_id)
        if entry is None or entry[2] != fingerprint:
            return None
        try:
            recording = Recording.model_validate_json(self._line(entry))
        except ValueError:
            return None
        self._entries[run_id] = entry
        return recording

    def add(self, recording: Recording) -> None:
        """Writes a recording.

        Raises:
            OSError: The disk is full. The recording was written into the reserve, unless that is too small: then
                the partial line is removed, because it would damage the next one.
        """
        try:
            text = recording.model_dump_json(exclude_unset=True, exclude_none=True)
        except (
            ValueError
        ):  # An argument or a response is nested too deeply. It was scored; it can't be kept or resumed.
            recording = recording.model_copy(update={"invocations": [], "unfinished": None, "fingerprint": ""})
            text = recording.model_dump_json(exclude_unset=True, exclude_none=True)
        self._write(text.encode() + b"\n", recording)

    def adopt(self, line: bytes, recording: Recording) -> None:
        """Takes over a recording of another job.

        Args:
            line: The line of that job's recordings.jsonl.gz.
            recording: Its content.

        Raises:
            OSError: As `add` does.
        """
        self._write(line.rstrip(b"\n") + b"\n", recording)

    def _write(self, line: bytes, recording: Recording) -> None:
        start = self._file.seek(0, 2)
        full: OSError | None = None
        try:
            self._append(line, start)
        except OSError as error:
            if error.errno not in FULL or not self._reserve.release():
                raise
            full = error
            self._append(line, start)
        self._entries[recording.run_id] = (start, len(line), recording.fingerprint)
        if full is not None:
            raise full

    def _append(self, line: bytes, start: int) -> None:
        written = 0
        try:
            with naming(self._path):
                while written < len(line):
                    written += self._file.write(line[written:])
        except OSError:
            self._file.truncate(start)
            self._file.seek(start)
            raise

    def _line(self, entry: _Entry) -> bytes:
        self._file.seek(entry[0])
        return self._file.read(entry[1])

    def lines(self, run_ids: Iterable[str]) -> Iterator[bytes]:
        """The lines of these runs in this order, without runs that were neither added nor reused."""
        return (self._line(self._entries[run_id]) for run_id in run_ids if run_id in self._entries)

    def recording(self, run_id: str) -> Recording | None:
        """The recording of a run that was added or reused; None for any other and for what is nested too deeply."""
        entry = self._entries.get(run_id)
        if entry is None:
            return None
        try:
            return Recording.model_validate_json(self._line(entry))
        except ValueError:
            return None

    def release_reserve(self) -> None:
        """Gives the reserved room to the results: nothing more is added."""
        self._reserve.release()

    def close(self, *, remove: bool = False) -> None:
        """Closes the file, and removes it if there is nothing left to resume."""
        self.release_reserve()
        self._file.close()
        if remove:
            self._path.unlink(missing_ok=True)


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
