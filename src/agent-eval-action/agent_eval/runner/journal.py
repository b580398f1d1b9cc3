"""The journal: every recording is written at once, so that `--resume` can continue a killed run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from agent_eval.runner.plan import PlannedCase
from agent_eval_results import Recording, StoredCase
from agent_eval_scoring.core.files import LONGEST_LINE
from agent_eval_scoring.core.process import FULL, Reserve, naming
from agent_eval_scoring.evalset.models.packed import packed_turns

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
                    # A run that was too slow may have more time now, or a machine that is less busy.
                    keep = error is None or (error["owner"] == "agent" and error["kind"] != "deadline")
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
        except ValueError:
            # An argument or a response is nested too deeply. It was scored; it can't be kept or resumed.
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


def case_lines(cases: Iterable[PlannedCase]) -> Iterator[bytes]:
    """The lines of planned cases, in their order."""
    for planned in cases:
        case, turns = planned.case, packed_turns(planned.case)
        simulated = case.conversation_scenario is not None and planned.user_config is not None
        stored = StoredCase(
            schema_version="1",
            case_id=planned.case_id,
            file=planned.file,
            eval_set_id=planned.eval_set_id,
            fingerprint=planned.content,
            case=case.model_copy(update={"conversation": []}) if turns else case,
            **({"user_simulator_config": dict(planned.user_config or {})} if simulated else {}),
        )
        line = stored.model_dump_json(exclude_unset=True, exclude_none=True).encode() + b"\n"
        if turns:
            # The first one: what is before it are texts, whose quotes are escaped.
            line = line.replace(b'"conversation":[]', b'"conversation":' + turns.text, 1)
        yield line
