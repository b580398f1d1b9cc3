"""Opens the results of a run that a user names: an output directory, a `results.json`, or an artifact's zip."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agent_eval.baseline.archive import ArchiveLimits, UnsafeArchive, unpack
from agent_eval.baseline.reader import UnreadableError, read_file
from agent_eval.core.files import read_regular
from agent_eval.core.text import harmless
from agent_eval.results import RunReport

_LIMITS = ArchiveLimits()
_UNPACK = "If you trust it, unpack it and name the directory with results.json."


@dataclass(frozen=True, kw_only=True)
class StoredResults:
    """The results of a run."""

    path: Path
    """As the user named it."""
    folder: Path
    """The directory that contains recordings and cases beside the report, if there are any."""
    report: RunReport
    unpacked: bool = False
    """Whether they come from a zip: the folder lasts as long as the context."""


@contextlib.contextmanager
def open_results(path: Path) -> Iterator[StoredResults]:
    """Opens the results of a run. A zip is unpacked, within limits, into a directory that lasts as long as the context.

    Args:
        path: An output directory, its `results.json`, or the zip of an artifact.

    Raises:
        UnreadableError: The results can't be read, or the zip exceeds a limit.
    """
    if not _is_zip(path):
        yield StoredResults(path=path, folder=path if path.is_dir() else path.parent, report=read_file(path))
        return
    with tempfile.TemporaryDirectory(prefix="agent-eval-") as name:
        folder = Path(name)
        try:
            unpack(read_regular(path, _LIMITS.archive_bytes), folder, _LIMITS)
        except UnsafeArchive as error:
            raise UnreadableError(f"{harmless(str(path))} is not used: {error}.", _UNPACK) from None
        except OSError as error:
            message = f"{harmless(str(path))} can't be read: {error.strerror or error}."
            raise UnreadableError(message, "Name a zip as it was downloaded.") from None
        yield StoredResults(path=path, folder=folder, report=read_file(folder), unpacked=True)


def _is_zip(path: Path) -> bool:
    if path.suffix.lower() == ".zip" or not path.is_file():
        return path.suffix.lower() == ".zip"
    with contextlib.suppress(OSError), path.open("rb") as file:  # `read_file` says why it can't be read.
        return file.read(2) == b"PK"
    return False
