"""The program of a host, as a directory or as an open archive."""

from __future__ import annotations

import functools
import io
import os
from importlib.util import cache_from_source
from pathlib import Path

PROGRAM = Path(__file__).parents[2] / "agent_eval_host"
"""Its directory, which Python can run."""


def open_archive() -> int:
    """Opens a copy of the program that any user can run as `/dev/fd/N`, also if that user can't read our files.

    Returns:
        A descriptor, which the caller closes. Linux only.
    """
    import tempfile

    # Not os.memfd_create: a Python that was built for an old glibc lacks it, such as conda's.
    with tempfile.TemporaryFile() as file:
        file.write(_archive())
        file.flush()
        os.fchmod(file.fileno(), 0o444)
        return os.dup(file.fileno())


@functools.cache
def _archive() -> bytes:
    import zipfile

    content = io.BytesIO()
    # Not compressed: Python may lack zlib. Nix, Bazel and reproducible images set all times to before 1980.
    with zipfile.ZipFile(content, "w", strict_timestamps=False) as archive:
        for path in PROGRAM.glob("*.py"):
            archive.write(path, path.name)
            compiled = Path(cache_from_source(str(path)))
            if compiled.is_file():  # Python ignores it if it is of another version, or older than the source.
                archive.write(compiled, f"{path.stem}.pyc")
    return content.getvalue()
