"""The output directory: what a run leaves there, under which names, and whose it is."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

DEFAULT = "agent-eval-results"
"""The directory's usual name."""
FILES: Mapping[str, str] = {
    "results-file": "results.json",
    "recordings-file": "recordings.jsonl.gz",
    "junit-file": "junit.xml",
    "summary-file": "summary.md",
}
"""What a run leaves in its output directory, by the action's output that holds the path."""
JOURNAL = "journal.jsonl"
"""What a run that did not come to its end leaves besides."""
LOGS = "logs"
"""Where the output of the agents' processes goes."""
BASE = "base"
"""The same for the base's agents."""
LOCK = ".lock"
"""Held by the gate that writes to the directory; it says which process that is."""


class InUse(Exception):
    """Another gate writes to the output directory."""

    def __init__(self, output: Path, holder: str) -> None:
        super().__init__(f"{output} is in use by another agent-eval (process {holder})")
        self.holder = holder


@contextlib.contextmanager
def held(output: Path) -> Iterator[None]:
    """Makes the output directory and keeps other gates out of it: two of them would write into one journal.

    Raises:
        InUse: Another gate is there.
        OSError: It can't be made or written to.
    """
    import fcntl  # not on Windows, where other commands need this module

    _make(output)
    path = output / LOCK
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not path.exists() or path.stat().st_ino != os.fstat(descriptor).st_ino:
                os.close(descriptor)  # It was another gate's, which has just ended and removed it.
                continue
            break
        except BlockingIOError:
            holder = os.read(descriptor, 40).decode("utf-8", "replace").strip() or "unknown"
            os.close(descriptor)
            raise InUse(output, holder) from None
        except OSError as error:
            if error.errno not in {errno.ENOLCK, errno.ENOTSUP}:
                os.close(descriptor)
                raise
            break  # A network disk without locks.
    try:
        os.truncate(descriptor, 0)
        with contextlib.suppress(OSError):  # The disk is full: another gate won't know our number.
            os.write(descriptor, f"{os.getpid()}\n".encode())
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _make(output: Path) -> None:
    """Makes the directory; under its usual name it is none of git's business."""
    output.mkdir(parents=True, exist_ok=True)
    ignore = output / ".gitignore"
    if output.name.startswith(DEFAULT) and not ignore.is_symlink() and not ignore.exists():
        ignore.write_text("*\n", "utf-8")


def remove_logs(output: Path) -> None:
    """Removes the logs of an earlier run; only from a directory that we have written to, and only what is ours."""
    if not any((output / name).exists() for name in (*FILES.values(), JOURNAL)):
        return
    for log in (output / LOGS).glob("*/*.log"):
        if re.search(r"-\d+\.log$", log.name):
            log.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # Something else lies there too.
                log.parent.rmdir()


def link_in(output: Path, root: Path) -> Path | None:
    """The first symbolic link on the way from the root to what we write; None if there is none.

    A checkout can hold one, and whoever made it would say where we write, maybe as root, and what we give to the
    workspace's owner.
    """
    ours = [output / name for name in (*FILES.values(), JOURNAL, LOGS, BASE, LOCK)]
    below = (
        Path(folder, name)
        for top in (output / LOGS, output / BASE)
        for folder, folders, files in os.walk(top)
        for name in (*folders, *files)
    )
    return next((path for path in (*_way(output, root), *ours, *below) if path.is_symlink()), None)


def file_in(output: Path) -> Path | None:
    """What stands where the output directory or one above it should be; None if nothing does."""
    there = next(path for path in (output, *output.parents) if path.exists())
    return None if there.is_dir() else there


def why_unwritable(path: Path) -> str:
    """Whose a directory is that we may not write to, as a sentence."""
    import pwd  # not on Windows, where other commands need this module

    def name(uid: int) -> str:
        try:
            return pwd.getpwuid(uid).pw_name
        except KeyError:
            return f"uid {uid}"

    there = next(part for part in (path, *path.parents) if os.path.lexists(part))
    facts = there.lstat()
    owner, ours = name(facts.st_uid), os.geteuid()
    return f"{there} belongs to {owner} ({stat.filemode(facts.st_mode)}), and agent-eval runs as {name(ours)}."


def relative(path: Path, root: Path) -> str:
    """As later steps of a job, outside of a container, find it."""
    try:
        return path.relative_to(root.absolute()).as_posix()
    except ValueError:
        return str(path)


def give_to_owner(folder: Path, root: Path) -> None:
    """Gives what we wrote as root to whom the repository belongs.

    Later steps of a job run as that user: they could not put it into a cache, and not clean it up.

    Args:
        folder: If it is there. One that a link of the checkout leads to is left as it is.
        root: The repository's root.
    """
    if os.geteuid() != 0 or not folder.exists() or any(path.is_symlink() for path in _way(folder, root)):
        return
    owner = root.stat()
    base = root.resolve()
    ours = [folder, *folder.rglob("*")]
    ours += [parent for parent in folder.resolve().parents if parent != base and base in parent.parents]
    for path in ours:
        if path.lstat().st_uid == 0:
            try:
                os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
            except PermissionError:  # Without CAP_CHOWN (a container with --cap-drop) it stays ours.
                return


def _way(folder: Path, root: Path) -> list[Path]:
    """The directories below the root that lead to a folder, and the folder, which a checkout could hold."""
    return [path for path in (*reversed(folder.parents), folder) if path != root and path.is_relative_to(root)]
