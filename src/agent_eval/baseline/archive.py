"""Takes `results.json` out of an artifact's zip, and nothing else.

Whoever can push to a branch decides what such a zip holds, so nothing is extracted, every limit is checked before
memory is spent, and what looks like an attack is refused as a whole.
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
"""Begins each file's record in the directory at the end of a zip (APPNOTE.TXT 4.3.12)."""
_ENCRYPTED = 0x1
_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
"""What actions/upload-artifact writes."""
_MB = 1024 * 1024


class UnsafeArchive(Exception):
    """The archive can't be used; the message is a clause that says why, e.g. "it is not a zip archive"."""


class NoResults(UnsafeArchive):
    """It holds no results.json: the run ended before there were any."""


@dataclass(frozen=True, kw_only=True)
class ArchiveLimits:
    """What an archive may hold.

    Measured: results of 10,000 cases have 30 MB where all pass and 40 MB where all fail; 10,000 cases with three runs
    each that all fail have 85 MB, which is refused.
    """

    archive_bytes: int = 256 * _MB
    """Of the zip itself; recordings and logs lie in it too."""
    entries: int = 5_000
    results_bytes: int = 64 * _MB
    """Of results.json, uncompressed."""
    ratio: int = 500
    """Uncompressed to compressed size of results.json. Deflate ends at 1,032; very even reports reach about 70."""


_LIMITS = ArchiveLimits()


def read_results(data: bytes, limits: ArchiveLimits = _LIMITS) -> bytes:
    """The content of the archive's only `results.json`.

    It may lie in a directory, as actions/upload-artifact leaves it when several paths are uploaded; the one nearest to
    the top counts.

    Args:
        data: The zip.
        limits: What it may hold.

    Raises:
        UnsafeArchive: It is no zip, exceeds a limit, names a path outside of itself, is encrypted or damaged, or has no
            results.json or several.
    """
    if len(data) > limits.archive_bytes:
        raise UnsafeArchive(f"it is larger than {_size(limits.archive_bytes)}")
    # Before zipfile makes an object of each: a directory of a million entries is small in the file.
    if data.count(_CENTRAL_ENTRY) > limits.entries:
        raise UnsafeArchive(f"it has more than {plural(limits.entries, 'entry', 'entries')}")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entry = _results_entry(archive)
            return _content(archive, entry, limits)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError) as error:
        # What else zipfile raises for a damaged or unusual archive; its words may quote names from it.
        raise UnsafeArchive(f"it is damaged or not a zip archive ({harmless(str(error))[:200]})") from None


def _results_entry(archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    found: list[zipfile.ZipInfo] = []
    for entry in archive.infolist():
        # `orig_filename` is what stands in the archive: zipfile cuts at a NUL and turns backslashes on Windows.
        _check_name(entry.orig_filename)
        if PurePosixPath(entry.filename).name == RESULTS and not entry.is_dir():
            found.append(entry)
    if not found:
        raise NoResults(f"it has no {RESULTS}")
    depth = min(entry.filename.count("/") for entry in found)
    nearest = [entry for entry in found if entry.filename.count("/") == depth]
    if len(nearest) > 1:
        raise UnsafeArchive(f"it has {len(nearest)} files called {RESULTS}, and none of them comes first")
    return nearest[0]


def _check_name(name: str) -> None:
    shown = harmless(name)[:100]
    if "\0" in name or "\\" in name or any(part == ".." for part in name.split("/")):
        raise UnsafeArchive(f"an entry leads out of it: {shown}")
    if name.startswith("/") or name[1:2] == ":":
        raise UnsafeArchive(f"an entry has an absolute path: {shown}")


def _content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, limits: ArchiveLimits) -> bytes:
    if entry.flag_bits & _ENCRYPTED:
        raise UnsafeArchive(f"its {RESULTS} is encrypted")
    mode = entry.external_attr >> 16
    if stat.S_IFMT(mode) not in {0, stat.S_IFREG}:
        raise UnsafeArchive(f"its {RESULTS} is not a regular file")
    if entry.compress_type not in _METHODS:
        raise UnsafeArchive(f"its {RESULTS} is compressed by a method that GitHub doesn't use ({entry.compress_type})")
    if entry.file_size > limits.results_bytes:
        raise UnsafeArchive(f"its {RESULTS} is larger than {_size(limits.results_bytes)}")
    if entry.file_size > limits.ratio * max(entry.compress_size, 1):
        raise UnsafeArchive(f"its {RESULTS} is compressed more than {limits.ratio}-fold, as a zip bomb is")
    with archive.open(entry) as file:
        # zipfile stops at the declared size and then compares checksums, so a false size is an error below.
        content = file.read(limits.results_bytes + 1)
    if len(content) != entry.file_size:
        raise UnsafeArchive(f"its {RESULTS} is not as long as it says")
    return content


def _size(number: int) -> str:
    return f"{number // _MB} MB" if number >= _MB else f"{number:,} bytes"
