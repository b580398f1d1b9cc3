"""Reads files that a user or a pull request gives us: never a pipe or a device, never without a limit. Replaces files
in one step.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

RECORDINGS = "recordings.jsonl.gz"
"""The recordings of a run."""
MAX_TEXT = 100_000_000
"""Bytes of an eval file, a config or a list of labels: thousands of long cases."""
MAX_SETTINGS = 1_000_000
"""Bytes of agent-eval.toml and the like."""
MAX_RESULTS = 1_000_000_000
"""Bytes of a results.json: 10,000 failing cases have 40 million."""
LONGEST_LINE = 256 * 1024 * 1024
"""Bytes of one recording; the agent's process may send a quarter of it."""

_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def open_regular(path: Path) -> BinaryIO:
    """Opens a regular file, or a link to one, without waiting.

    Raises:
        OSError: It is something else, or can't be opened; `strerror` says why.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise _not_regular(mode, path)
    return os.fdopen(descriptor, "rb")


def _not_regular(mode: int, path: Path) -> OSError:
    kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "something else")
    return OSError(errno.EINVAL, f"It is {kind}, not a regular file", str(path))


def read_regular(path: Path, limit: int) -> bytes:
    """Reads a regular file.

    Args:
        path: The file, or a link to it.
        limit: The most bytes that it may have.

    Raises:
        OSError: It is no regular file, is larger, or can't be read; `strerror` says why.
    """
    with open_regular(path) as file:
        # Not all at once, which would reserve `limit` bytes.
        size = min(os.fstat(file.fileno()).st_size, limit)
        data = file.read(size + 1)
        if len(data) > size:  # It grows, or is one of /proc.
            data += file.read(limit - size)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"It is larger than {limit // 1_000_000:,} MB", str(path))
    return data


def read_lines(path: Path) -> Iterator[bytes]:
    """The lines of a regular file; of a compressed one if its name ends in `.gz`.

    Raises:
        OSError: It is no regular file, can't be read, or is damaged.
        ValueError: A line is longer than LONGEST_LINE.
    """
    import gzip  # A run starts its agent without it.

    with open_regular(path) as raw, gzip.open(raw) if path.name.endswith(".gz") else raw as file:
        try:
            while line := file.readline(LONGEST_LINE + 1):
                if len(line) > LONGEST_LINE:
                    raise ValueError(f"a line has more than {LONGEST_LINE:,} bytes")
                yield line
        except (EOFError, zlib.error) as error:
            raise OSError(errno.EIO, f"The compressed data is damaged ({error})", str(path)) from error


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file that takes the place of another one when the context ends without an error. Creates its directory.

    The new file has the permissions of the old one and, if this user may do that, its owner. After an error, the old
    file is as it was.

    Raises:
        OSError: The path is no regular file, or the new file can't be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    old = path.stat() if path.exists() else None
    if old is not None and not stat.S_ISREG(old.st_mode):
        raise _not_regular(old.st_mode, path)
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        error.filename = str(path.parent)
        raise
    new = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        if old is not None:
            with contextlib.suppress(OSError):
                os.chown(new, old.st_uid, old.st_gid)
        new.chmod(0o666 & ~_umask() if old is None else stat.S_IMODE(old.st_mode) & 0o777)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def _umask() -> int:
    """The process's umask, which can only be read by setting it."""
    current = os.umask(0o077)
    os.umask(current)
    return current
