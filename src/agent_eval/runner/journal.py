"""Every recording, written the moment it is there: what a killed run leaves, and what `--resume` goes on from."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from agent_eval.core.disk import naming
from agent_eval.core.files import LONGEST_LINE
from agent_eval.results import Recording

_Place = tuple[int, int, str]
"""Where a line begins, how long it is, and the fingerprint of its run."""


class Journal:
    """A file of recordings in the order in which they ended.

    One process writes it, line by line and without a buffer, so a killed process loses at most the line it was writing.
    """

    def __init__(self, path: Path, *, resume: bool) -> None:
        """Opens it; without `resume` what is there is dropped."""
        self._path = path
        self.damaged_line: int | None = None
        """The number of the first line that could not be read, from 1; it and all behind it are dropped."""
        self._earlier: dict[str, _Place] = {}
        self._places: dict[str, _Place] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        end = self._read() if resume and path.is_file() else 0
        self._file = path.open("r+b" if end else "w+b", buffering=0)
        self._file.truncate(end)
        self._file.seek(end)

    def _read(self) -> int:
        """Notes what is worth keeping; gives the end of the last line that can be trusted."""
        position = end = number = 0
        with self._path.open("rb") as file:
            while line := file.readline(LONGEST_LINE):
                start, position, number = position, position + len(line), number + 1
                if not line.endswith(b"\n") and len(line) < LONGEST_LINE:
                    break  # The process was killed while it wrote this one.
                try:
                    entry = json.loads(line)
                    run_id, fingerprint, error = str(entry["run_id"]), entry["fingerprint"], entry.get("error")
                    keep = error is None or error["owner"] == "agent"
                except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                    self.damaged_line = number  # Somebody edited it, or two wrote it: what follows can't be trusted.
                    break
                end = position
                # What the world broke is worth another try; what the agent did, it did.
                if keep:
                    self._earlier[run_id] = (start, len(line), fingerprint)
                else:
                    self._earlier.pop(run_id, None)
        return end

    def reuse(self, run_id: str, fingerprint: str) -> Recording | None:
        """What an earlier process recorded of a run that depended on the same things; from then on it counts.

        None if there is nothing of the kind, or it can't be read (another version of ours wrote it).
        """
        place = self._earlier.get(run_id)
        if place is None or place[2] != fingerprint:
            return None
        try:
            recording = Recording.model_validate_json(self._line(place))
        except ValueError:
            return None
        self._places[run_id] = place
        return recording

    def add(self, recording: Recording) -> None:
        """Writes a recording.

        Raises:
            OSError: The disk is full. No part of the line stays: the next one would be lost with it.
        """
        line = recording.model_dump_json(exclude_unset=True, exclude_none=True).encode() + b"\n"
        start = self._file.seek(0, 2)
        written = 0
        try:
            with naming(self._path):
                while written < len(line):
                    written += self._file.write(line[written:])
        except OSError:
            self._file.truncate(start)
            raise
        self._places[recording.run_id] = (start, len(line), recording.fingerprint)

    def _line(self, place: _Place) -> bytes:
        self._file.seek(place[0])
        return self._file.read(place[1])

    def lines(self, run_ids: Iterable[str]) -> Iterator[bytes]:
        """The lines of these runs that were added or reused, in this order; the others are left out."""
        return (self._line(self._places[run_id]) for run_id in run_ids if run_id in self._places)

    def recording(self, run_id: str) -> Recording | None:
        """What was recorded of a run that was added or reused; None if it was not."""
        place = self._places.get(run_id)
        return None if place is None else Recording.model_validate_json(self._line(place))

    def close(self, *, remove: bool = False) -> None:
        """Closes the file; `remove` when there is nothing left to resume."""
        self._file.close()
        if remove:
            self._path.unlink(missing_ok=True)


def write_recordings(path: Path, lines: Iterable[bytes]) -> None:
    """Writes recordings.jsonl.gz. Without a time stamp inside: the same runs give the same bytes."""
    with (
        naming(path),
        path.open("wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0) as file,
    ):
        for line in lines:
            file.write(line)
