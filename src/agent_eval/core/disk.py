"""Full disks: errors that name the path, and room that is reserved for what must not be lost."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Adds a path to errors of the system that have none: a write on a full disk knows only its descriptor."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_MOST_RESERVED = 1_000_000


class Reserve:
    """A file that keeps room on a disk until it is needed: at most 1 MB, and a quarter of what is free."""

    def __init__(self, path: Path) -> None:
        """Writes the file.

        Raises:
            OSError: The disk is full.
        """
        self._path = path
        size = min(_MOST_RESERVED, shutil.disk_usage(path.parent).free // 4)
        with naming(path):
            path.write_bytes(os.urandom(size))  # A file system may compress zeros, or leave a hole.

    def release(self) -> bool:
        """Gives the room back; returns whether there was any left to give. Never raises."""
        try:
            self._path.unlink()
        except OSError:
            return False
        return True
