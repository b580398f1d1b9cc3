"""The conversations of a baseline: the recordings of the run that measured it, as far as a reader needs them."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from agent_eval.baseline.archive import ArchiveLimits, UnsafeArchive, archived_lines, read_recordings
from agent_eval.core.text import plural
from agent_eval.results import Recording
from agent_eval.runner import write_lines

NOT_KEPT = "A committed baseline has scores and no conversations."
"""For baselines that are one `results.json`."""


@dataclass(frozen=True, kw_only=True)
class StoredRecordings:
    """Recordings as they were uploaded, which are not trusted."""

    data: bytes = field(default=b"", repr=False)
    """A compressed `recordings.jsonl.gz`."""
    missing: str | None = None
    """Why there are none, as a sentence."""
    limits: ArchiveLimits = ArchiveLimits()  # noqa: RUF009 - frozen


def recordings_in(archive: bytes, limits: ArchiveLimits) -> StoredRecordings:
    """The recordings beside the results in an artifact's zip, from which the results have been read."""
    try:
        data = read_recordings(archive, limits)
    except UnsafeArchive as error:
        return StoredRecordings(missing=_refused(error))
    if data is None:
        return StoredRecordings(missing="The baseline's artifact has no recordings.jsonl.gz.")
    return StoredRecordings(data=data, limits=limits)


def write_recordings(path: Path, recordings: StoredRecordings, case_ids: Collection[str]) -> str | None:
    """Writes the recordings of some cases, one line at a time.

    Args:
        path: The file, which is written only if there are recordings of these cases.
        recordings: The recordings.
        case_ids: Ids of the baseline's cases.

    Returns:
        Why there are none, or not all, as a sentence; None if nothing is missing.

    Raises:
        OSError: The file can't be written.
    """
    if recordings.missing is not None or not case_ids:
        return recordings.missing
    path.parent.mkdir(parents=True, exist_ok=True)
    reading = _Reading(recordings=recordings, case_ids=case_ids)
    try:
        write_lines(path, reading.lines())
    except UnsafeArchive as error:
        path.unlink()
        return _refused(error)
    if not reading.seen:
        path.unlink()
    return f"{plural(reading.skipped, 'recording')} of the baseline could not be read." if reading.skipped else None


def recorded_lines(recordings: StoredRecordings) -> Iterator[bytes]:
    """The lines of all recordings, as far as they can be read. They are not validated."""
    if recordings.missing is None:
        with contextlib.suppress(UnsafeArchive):
            yield from archived_lines(recordings.data, recordings.limits)


@dataclass(kw_only=True)
class _Reading:
    recordings: StoredRecordings
    case_ids: Collection[str]
    seen: set[str] = field(default_factory=set)
    skipped: int = 0

    def lines(self) -> Iterator[bytes]:
        """The valid lines of the cases; of a run that appears twice, the first one."""
        for line in archived_lines(self.recordings.data, self.recordings.limits):
            try:
                recording = Recording.model_validate_json(line)
            except ValueError:
                self.skipped += 1
                continue
            if recording.case_id in self.case_ids and recording.run_id not in self.seen:
                self.seen.add(recording.run_id)
                yield line.rstrip(b"\n") + b"\n"


def _refused(error: UnsafeArchive) -> str:
    return f"The baseline's recordings are not used: {error}."
