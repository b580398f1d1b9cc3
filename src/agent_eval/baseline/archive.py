"""Reads `results.json` from an artifact's zip, and nothing else.

Anyone with push access to a branch controls the zip. So nothing is extracted, limits are checked before memory is
allocated, and suspected attacks are rejected as a whole.
"""

from __future__ import annotations

import io
import stat
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import PurePosixPath

from agent_eval.core.text import harmless, plural
from agent_eval.results import FILES

RESULTS = FILES["results-file"]
_CENTRAL_ENTRY = b"PK\x01\x02"
"""Signature of a file's record in the zip's central directory (APPNOTE.TXT 4.3.12)."""
_ENCRYPTED = 0x1
_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
"""The methods that actions/upload-artifact uses."""
_MB = 1024 * 1024


class UnsafeArchive(Exception):
    """The archive can't be used; the message is a clause that says why, e.g. "it is not a zip archive"."""


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
    ratio: int = 500
    """Uncompressed to compressed size of results.json. Deflate reaches 1,032 at most; very uniform reports about
    70."""


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
    if len(data) > limits.archive_bytes:
        raise UnsafeArchive(f"it is larger than {_size(limits.archive_bytes)}")
    # Checked before zipfile creates an object per entry: a million entries take little space in the file.
    if data.count(_CENTRAL_ENTRY) > limits.entries:
        raise UnsafeArchive(f"it has more than {plural(limits.entries, 'entry', 'entries')}")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entry = _results_entry(archive)
            return _content(archive, entry, limits)
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


def _check_name(name: str) -> None:
    shown = harmless(name)[:100]
    if "\0" in name or "\\" in name or any(part == ".." for part in name.split("/")):
        raise UnsafeArchive(f"an entry is outside the archive: {shown}")
    if name.startswith("/") or name[1:2] == ":":
        raise UnsafeArchive(f"an entry has an absolute path: {shown}")


def _content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, limits: ArchiveLimits) -> bytes:
    if entry.flag_bits & _ENCRYPTED:
        raise UnsafeArchive(f"its {RESULTS} is encrypted")
    mode = entry.external_attr >> 16
    if stat.S_IFMT(mode) not in {0, stat.S_IFREG}:
        raise UnsafeArchive(f"its {RESULTS} is not a regular file")
    if entry.compress_type not in _METHODS:
        raise UnsafeArchive(f"its {RESULTS} uses an unsupported compression method ({entry.compress_type})")
    if entry.file_size > limits.results_bytes:
        raise UnsafeArchive(f"its {RESULTS} is larger than {_size(limits.results_bytes)}")
    if entry.file_size > limits.ratio * max(entry.compress_size, 1):
        raise UnsafeArchive(f"its {RESULTS} is compressed more than {limits.ratio}-fold, like a zip bomb")
    with archive.open(entry) as file:
        # zipfile stops at the declared size and compares checksums, so a wrong size is detected below.
        content = file.read(limits.results_bytes + 1)
    if len(content) != entry.file_size:
        raise UnsafeArchive(f"its {RESULTS} is shorter than declared")
    return content


def _size(number: int) -> str:
    return f"{number // _MB} MB" if number >= _MB else f"{number:,} bytes"
