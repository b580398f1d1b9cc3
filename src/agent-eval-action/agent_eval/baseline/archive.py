"""Reads a run's files from an artifact's zip: `results.json` and what belongs to it by name, and nothing else.

Anyone with push access to a branch controls the zip. So no entry chooses where it is written, limits are checked before
memory is allocated, and suspected attacks are rejected as a whole.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import stat
import zipfile
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from agent_eval_results import BASE_RECORDINGS, BASELINE_RECORDINGS, FILES, Recording, write_lines
from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.text import harmless, plural

RESULTS = FILES["results-file"]
RECORDINGS = FILES["recordings-file"]
_LINES = (RECORDINGS, FILES["cases-file"], BASE_RECORDINGS, BASELINE_RECORDINGS)
"""Files beside `results.json` that are compressed lines."""
_CENTRAL_ENTRY = b"PK\x01\x02"
"""Signature of a file's record in the zip's central directory (APPNOTE.TXT 4.3.12)."""
_ENCRYPTED = 0x1
_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
"""The methods that actions/upload-artifact uses."""
_MB = 1024 * 1024


class UnsafeArchive(AgentEvalError):
    """The archive can't be used; the message is a clause that says why, e.g. "it is not a zip archive"."""


class TooLarge(UnsafeArchive):
    """Uncompressed, a file is larger than its limit."""


class NoResults(UnsafeArchive):
    """The archive has no results.json: the run ended too early."""


@dataclass(frozen=True, kw_only=True)
class ArchiveLimits:
    """Limits for an archive.

    Measured for 10,000 cases: 30 MB if all pass, 40 MB if all fail; 85 MB with three failing runs each, which exceeds
    the limit.
    """

    archive_bytes: int = 256 * _MB
    """Size of the zip, which also contains recordings and logs."""
    entries: int = 5_000
    results_bytes: int = 64 * _MB
    """Of results.json, uncompressed."""
    lines_bytes: int = 256 * _MB
    """Of recordings.jsonl.gz and the like, uncompressed. Recordings of 5,000 cases with three turns are about 45 MB."""
    ratio: int = 500
    """Uncompressed to compressed size of a file. Deflate reaches 1,032 at most; very uniform reports about 70."""


_LIMITS = ArchiveLimits()


def read_results(data: bytes, limits: ArchiveLimits = _LIMITS) -> bytes:
    """Returns the content of the archive's `results.json`.

    It may be in a directory, as actions/upload-artifact writes it for several paths; the topmost one counts.

    Args:
        data: The zip.
        limits: Limits for the archive.

    Raises:
        UnsafeArchive: The data is not a zip, exceeds a limit, contains a path outside the archive, is encrypted or
            damaged, or has no unique results.json.
    """
    with _opened(data, limits) as archive:
        return _content(archive, _results_entry(archive), limits.results_bytes, limits)


def read_recordings(data: bytes, limits: ArchiveLimits = _LIMITS, name: str = RECORDINGS) -> bytes | None:
    """Returns the compressed recordings (or another file of lines) beside the archive's `results.json`; None if there
    are none.

    Read them with `archived_lines`, which limits its size.

    Raises:
        UnsafeArchive: As for `read_results`.
    """
    with _opened(data, limits) as archive:
        entry = _entry_beside(archive, _results_entry(archive), name)
        return None if entry is None else _content(archive, entry, limits.lines_bytes, limits)


def unpack(data: bytes, directory: Path, limits: ArchiveLimits = _LIMITS) -> None:
    """Writes the archive's `results.json` and the recordings and cases beside it into a directory, and nothing else.

    Args:
        data: The zip.
        directory: An empty directory of our own.
        limits: Limits for the archive.

    Raises:
        UnsafeArchive: As for `read_results`, or a file would be too large when uncompressed.
        OSError: A file can't be written.
    """
    contents: dict[str, bytes] = {}
    with _opened(data, limits) as archive:
        results = _results_entry(archive)
        contents[RESULTS] = _content(archive, results, limits.results_bytes, limits)
        for name in _LINES:
            if (entry := _entry_beside(archive, results, name)) is not None:
                contents[name] = _content(archive, entry, limits.lines_bytes, limits)
                _check_size(name, contents[name], limits)
    for name, content in contents.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def archived_lines(data: bytes, limits: ArchiveLimits = _LIMITS) -> Iterator[bytes]:
    """Yields the lines of a compressed file of an archive, for example of `recordings.jsonl.gz`.

    Raises:
        UnsafeArchive: It is damaged, or exceeds a limit.
    """
    # A few lines that are alike are compressed a lot: below 16 kB the size alone does not show a bomb.
    most = min(limits.lines_bytes, limits.ratio * max(len(data), _MB // 64))
    size = 0
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            while line := file.readline(most - size + 1):
                size += len(line)
                if size > most:
                    raise TooLarge(f"uncompressed it is larger than {_size(most)}")
                yield line
    except (OSError, EOFError, zlib.error) as error:
        raise UnsafeArchive(f"it is damaged ({harmless(str(error))[:200]})") from None


def _check_size(name: str, content: bytes, limits: ArchiveLimits) -> None:
    """Damage is not checked here: the readers of the file skip what they can't read."""
    try:
        for _ in archived_lines(content, limits):
            pass
    except TooLarge as error:
        raise UnsafeArchive(f"its {name} is too large: {error}") from None
    except UnsafeArchive:
        pass


@contextlib.contextmanager
def _opened(data: bytes, limits: ArchiveLimits) -> Iterator[zipfile.ZipFile]:
    if len(data) > limits.archive_bytes:
        raise UnsafeArchive(f"it is larger than {_size(limits.archive_bytes)}")
    # Checked before zipfile creates an object per entry: a million entries take little space in the file.
    if data.count(_CENTRAL_ENTRY) > limits.entries:
        raise UnsafeArchive(f"it has more than {plural(limits.entries, 'entry', 'entries')}")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError) as error:
        # The exceptions of zipfile for damaged or unusual archives; their messages may contain names from it.
        raise UnsafeArchive(f"it is damaged or not a zip archive ({harmless(str(error))[:200]})") from None


def _results_entry(archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    candidates: list[zipfile.ZipInfo] = []
    for entry in archive.infolist():
        # `orig_filename` is the name in the archive: zipfile cuts names at a NUL, and converts backslashes on Windows.
        _check_name(entry.orig_filename)
        if PurePosixPath(entry.filename).name == RESULTS and not entry.is_dir():
            candidates.append(entry)
    if not candidates:
        raise NoResults(f"it has no {RESULTS}")
    depth = min(entry.filename.count("/") for entry in candidates)
    nearest = [entry for entry in candidates if entry.filename.count("/") == depth]
    if len(nearest) > 1:
        raise UnsafeArchive(f"it has {len(nearest)} files named {RESULTS} at the same depth")
    return nearest[0]


def _entry_beside(archive: zipfile.ZipFile, results: zipfile.ZipInfo, name: str) -> zipfile.ZipInfo | None:
    path = results.filename.removesuffix(RESULTS) + name
    entries = [entry for entry in archive.infolist() if entry.filename == path]
    if len(entries) > 1:
        raise UnsafeArchive(f"it has {len(entries)} files named {name}")
    return entries[0] if entries else None


def _check_name(name: str) -> None:
    shown = harmless(name)[:100]
    if "\0" in name or "\\" in name or any(part == ".." for part in name.split("/")):
        raise UnsafeArchive(f"an entry is outside the archive: {shown}")
    if name.startswith("/") or name[1:2] == ":":
        raise UnsafeArchive(f"an entry has an absolute path: {shown}")


def _content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, most: int, limits: ArchiveLimits) -> bytes:
    name = PurePosixPath(entry.filename).name
    if entry.flag_bits & _ENCRYPTED:
        raise UnsafeArchive(f"its {name} is encrypted")
    # The upper half is the mode of Unix; 0 if the zip was made elsewhere.
    mode = entry.external_attr >> 16
    if stat.S_IFMT(mode) not in {0, stat.S_IFREG}:
        raise UnsafeArchive(f"its {name} is not a regular file")
    if entry.compress_type not in _METHODS:
        raise UnsafeArchive(f"its {name} uses an unsupported compression method ({entry.compress_type})")
    if entry.file_size > most:
        raise UnsafeArchive(f"its {name} is larger than {_size(most)}")
    # Before anything is unpacked: the declared size bounds what is read below.
    if entry.file_size > limits.ratio * max(entry.compress_size, 1):
        raise UnsafeArchive(f"its {name} is compressed more than {limits.ratio}-fold, like a zip bomb")
    with archive.open(entry) as file:
        # zipfile stops at the declared size and compares checksums, so a wrong size is detected below.
        content = file.read(most + 1)
    if len(content) != entry.file_size:
        raise UnsafeArchive(f"its {name} is shorter than declared")
    return content


def _size(number: int) -> str:
    return f"{number // _MB} MB" if number >= _MB else f"{number:,} bytes"


NOT_KEPT = "A committed baseline has scores and no conversations."
"""For baselines that are one `results.json`."""


@dataclass(frozen=True, kw_only=True)
class StoredRecordings:
    """Recordings as they were uploaded, which are not trusted."""

    data: bytes = field(default=b"", repr=False)
    """A compressed `recordings.jsonl.gz`."""
    missing: str | None = None
    """Why there are none, as a sentence."""
    limits: ArchiveLimits = ArchiveLimits()


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
    # Line by line: the recordings of 10,000 cases are hundreds of megabytes.
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
