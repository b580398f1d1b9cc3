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
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from agent_eval.core.text import harmless, plural
from agent_eval.results import BASE_RECORDINGS, BASELINE_RECORDINGS, FILES

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


class UnsafeArchive(Exception):
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
    mode = entry.external_attr >> 16
    if stat.S_IFMT(mode) not in {0, stat.S_IFREG}:
        raise UnsafeArchive(f"its {name} is not a regular file")
    if entry.compress_type not in _METHODS:
        raise UnsafeArchive(f"its {name} uses an unsupported compression method ({entry.compress_type})")
    if entry.file_size > most:
        raise UnsafeArchive(f"its {name} is larger than {_size(most)}")
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
