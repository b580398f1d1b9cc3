"""User ids (uids) for agents: free ones, their locks, and the processes that run with a uid."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

STATE_DIR = Path("/var/lib/agent-eval")
"""Home directories of agents without a passwd entry, and locks of uids. Only root uses it."""
_FIRST_UID, _LAST_UID = 61_184, 65_519
"""The range that systemd uses for running services and never for accounts (systemd.io/UIDS-GIDS). A uid that has a
process is not used."""

_CAPABILITIES = {"CAP_CHOWN": 0, "CAP_FOWNER": 3, "CAP_KILL": 5, "CAP_SETGID": 6, "CAP_SETUID": 7}
"""Capabilities that are needed to run and end processes of another user, with their bits (linux/capability.h)."""


def missing_capabilities() -> list[str]:
    """Capabilities that this process lacks to run processes as other users, e.g. in a container with `--cap-drop`.

    Raises:
        OSError: There is no /proc.
    """
    status = Path("/proc/self/status").read_text("utf-8", "replace")
    effective = int(status.partition("CapEff:")[2].split()[0], 16)
    return [name for name, bit in _CAPABILITIES.items() if not effective >> bit & 1]


def free_uids() -> Iterator[int]:
    """Uids that no account of the machine has, always in the same order."""
    import pwd

    taken = {entry.pw_uid for entry in pwd.getpwall()}
    return (uid for uid in range(_LAST_UID, _FIRST_UID, -1) if uid not in taken)


def lock_directory() -> Path:
    """The directory of the uid locks, shared by all gates of the machine.

    Raises:
        OSError: It can't be created.
    """
    folder = STATE_DIR / "locks"
    folder.mkdir(parents=True, exist_ok=True, mode=0o755)
    return folder


@contextlib.contextmanager
def locked_uid(uid: int) -> Iterator[bool]:
    """Locks a uid; yields False if another gate has locked it."""
    import fcntl  # not on Windows, where other commands need this module

    path = lock_directory() / f"uid-{uid}.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


def claim(stack: contextlib.ExitStack, candidates: Iterable[int]) -> int:
    """Locks the first uid that no other gate has locked and that has no process, until the stack unwinds.

    All processes of the uid are killed at the end, so it must be ours alone.

    Raises:
        PermissionError: No candidate is free.
    """
    for uid in candidates:
        with contextlib.ExitStack() as attempt:
            if attempt.enter_context(locked_uid(uid)) and not processes_of(uid):
                stack.push(attempt.pop_all())
                return uid
    raise PermissionError(f"no uid is free for the agent; too many runs hold a lock in {lock_directory()}")


def processes_of(uid: int) -> list[int]:
    """The ids of the processes of a user, from /proc, without zombies."""
    return [int(entry.name) for entry in Path("/proc").glob("[0-9]*") if _runs_as(entry, uid)]


def _runs_as(process: Path, uid: int) -> bool:
    try:
        # Check all threads: if the first one has ended, the process looks like a zombie.
        return process.stat().st_uid == uid and any(_state(task) not in b"ZX" for task in (process / "task").iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return False  # The process has just ended.


def _state(task: Path) -> bytes:
    try:
        return (task / "stat").read_bytes().rpartition(b")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return b"X"
