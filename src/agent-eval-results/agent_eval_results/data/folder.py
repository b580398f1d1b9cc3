"""The output directory: file names, lock and ownership."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.files import RECORDINGS

DEFAULT = "agent-eval-results"
"""The directory's default name."""
FILES: Mapping[str, str] = {
    "results-file": "results.json",
    "recordings-file": RECORDINGS,
    "cases-file": "cases.jsonl.gz",
    "report-file": "report.html",
    "junit-file": "junit.xml",
    "summary-file": "summary.md",
}
"""Result files, by the action's output that contains the path."""
VIEW_PAGE = "agent-eval-view.html"
"""What `agent-eval view` makes of the results."""
JOURNAL = "journal.jsonl"
"""Left behind by a run that did not complete."""
LOGS = "logs"
"""Logs of the agents' processes."""
JUDGE_REPLIES = "judge-replies"
"""Replies of judges that a part paid for (`--shard` with `--judge-cache`), for the cache of the merge."""
BASE = "base"
"""Output of the base branch's agents."""
BASE_RECORDINGS = f"{BASE}/{RECORDINGS}"
"""Recordings of the runs that the base branch's agent made during this run."""
BASELINE_RECORDINGS = f"{BASE}/baseline-recordings.jsonl.gz"
"""Recordings of the runs that the baseline was measured with, of the cases that differ from it."""
LOCK = ".lock"
"""Locked by the gate that writes to the directory; contains its process id."""


class InUse(AgentEvalError):
    """Another gate writes to the output directory."""

    def __init__(self, output: Path, holder: str) -> None:
        super().__init__(f"{output} is in use by another agent-eval (process {holder})")
        self.holder = holder


@contextlib.contextmanager
def locked(output: Path) -> Iterator[None]:
    """Creates and locks the output directory: two gates must not write to one journal.

    Raises:
        InUse: Another gate has locked it.
        OSError: It can't be created or written to.
    """
    import fcntl  # not on Windows, where other commands need this module

    _make(output)
    path = output / LOCK
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not path.exists() or path.stat().st_ino != os.fstat(descriptor).st_ino:
                os.close(descriptor)  # Another gate has just ended and removed the lock file.
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
            break  # A network disk without lock support.
    try:
        os.truncate(descriptor, 0)
        with contextlib.suppress(OSError):  # The disk is full: other gates won't see our process id.
            os.write(descriptor, f"{os.getpid()}\n".encode())
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _make(output: Path) -> None:
    """Creates the directory. With its default name, git ignores it."""
    try:
        output.mkdir(parents=True, exist_ok=True)
    except FileNotFoundError as error:  # e.g. in /proc
        raise FileNotFoundError(f"The directory {output} can't be created. Set another --output-dir") from error
    ignore = output / ".gitignore"
    if output.name.startswith(DEFAULT) and not ignore.is_symlink() and not ignore.exists():
        ignore.write_text("*\n", "utf-8")


def remove_logs(output: Path) -> None:
    """Removes the logs of an earlier run. Touches only directories and files that agent-eval has written."""
    if not any((output / name).exists() for name in (*FILES.values(), JOURNAL)):
        return
    for log in (output / LOGS).glob("*/*.log"):
        if re.search(r"-\d+\.log$", log.name):
            log.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # It contains other files.
                log.parent.rmdir()


def link_in(output: Path, root: Path) -> Path | None:
    """The first symbolic link between the root and the files that we write; None if there is none.

    A link in a checkout could redirect what we write, maybe as root, and what `give_to_owner` changes.
    """
    ours = [output / name for name in (*FILES.values(), JOURNAL, LOGS, BASE, LOCK)]
    below = (
        Path(folder, name)
        for top in (output / LOGS, output / BASE)
        for folder, folders, files in os.walk(top)
        for name in (*folders, *files)
    )
    return next((path for path in (*_path_below(output, root), *ours, *below) if path.is_symlink()), None)


def file_in(output: Path) -> Path | None:
    """The file in place of the output directory or one of its parents; None if there is none."""
    existing = next(path for path in (output, *output.parents) if path.exists())
    return None if existing.is_dir() else existing


def why_unwritable(path: Path) -> str:
    """Why a directory is not writable, as a sentence that names its owner."""
    import pwd  # not on Windows, where other commands need this module

    def name(uid: int) -> str:
        try:
            return pwd.getpwuid(uid).pw_name
        except KeyError:
            return f"uid {uid}"

    existing = next(part for part in (path, *path.parents) if os.path.lexists(part))
    status = existing.lstat()
    owner, ours = name(status.st_uid), os.geteuid()
    return f"{existing} belongs to {owner} ({stat.filemode(status.st_mode)}), and agent-eval runs as {name(ours)}."


def relative(path: Path, root: Path) -> str:
    """The path relative to the root, which later steps outside of a container need."""
    try:
        return path.relative_to(root.absolute()).as_posix()
    except ValueError:
        return str(path)


def give_to_owner(folder: Path, root: Path) -> None:
    """Changes the owner of files that we wrote as root to the repository's owner.

    Later steps of a job run as that user, and could otherwise neither cache nor delete the files.

    Args:
        folder: The directory. Nothing happens if it does not exist, or if the path contains a symbolic link.
        root: The repository's root.
    """
    if os.geteuid() != 0 or not folder.exists() or any(path.is_symlink() for path in _path_below(folder, root)):
        return
    owner = root.stat()
    base = root.resolve()
    ours = [folder, *folder.rglob("*")]
    ours += [parent for parent in folder.resolve().parents if parent != base and base in parent.parents]
    for path in ours:
        if path.lstat().st_uid == 0:
            try:
                os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
            except PermissionError:  # Without CAP_CHOWN (a container with --cap-drop).
                return


def _path_below(folder: Path, root: Path) -> list[Path]:
    """The folder and its parents below the root: paths that a checkout may contain."""
    return [path for path in (*reversed(folder.parents), folder) if path != root and path.is_relative_to(root)]
