"""Numbers of users: which are free for an agent, who holds one, and which processes run as one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

STATE_DIR = Path("/var/lib/agent-eval")
"""Where a root process keeps the homes of accounts that have no passwd entry, and who holds which uid."""
_FIRST_UID, _LAST_UID = 61_184, 65_519
"""systemd gives these to services while they run, and to no account (systemd.io/UIDS-GIDS). A uid that has a process
is not taken."""

_CAPABILITIES = {"CAP_CHOWN": 0, "CAP_FOWNER": 3, "CAP_KILL": 5, "CAP_SETGID": 6, "CAP_SETUID": 7}
"""What it takes to run something as another user and to end it, with the bits of linux/capability.h."""


def missing_capabilities() -> list[str]:
    """What root lacks to run processes as other users, e.g. in a container that was started with `--cap-drop`.

    Raises:
        OSError: There is no /proc to look at.
    """
    status = Path("/proc/self/status").read_text("utf-8", "replace")
    effective = int(status.partition("CapEff:")[2].split()[0], 16)
    return [name for name, bit in _CAPABILITIES.items() if not effective >> bit & 1]


def free_uids() -> Iterator[int]:
    """Numbers that no account of the machine has, always in the same order."""
    import pwd

    taken = {entry.pw_uid for entry in pwd.getpwall()}
    return (uid for uid in range(_LAST_UID, _FIRST_UID, -1) if uid not in taken)


def lock_directory() -> Path:
    """Where the locks of uids are: one place for the machine, so that no two gates hold the same uid.

    Raises:
        OSError: It can't be made.
    """
    folder = STATE_DIR / "locks"
    folder.mkdir(parents=True, exist_ok=True, mode=0o755)
    return folder


@contextlib.contextmanager
def holding(uid: int) -> Iterator[bool]:
    """Holds a uid, unless another gate does; gives whether it is ours."""
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
    """Takes the first uid that no other gate holds and no process runs as, until the stack unwinds.

    All processes of the uid are killed in the end, so nobody else's may be among them.

    Raises:
        PermissionError: There is none.
    """
    for uid in candidates:
        with contextlib.ExitStack() as held:
            if held.enter_context(holding(uid)) and not processes_of(uid):
                stack.push(held.pop_all())
                return uid
    raise PermissionError(f"no uid is free for the agent; too many runs hold a lock in {lock_directory()}")


def processes_of(uid: int) -> list[int]:
    """The ids of the processes that run as a user, from /proc. Those that have ended and wait for their parent don't
    count.
    """
    return [int(entry.name) for entry in Path("/proc").glob("[0-9]*") if _runs_as(entry, uid)]


def _runs_as(process: Path, uid: int) -> bool:
    try:
        # The first thread may have ended while others run on: then the process as a whole looks like a zombie.
        return process.stat().st_uid == uid and any(_state(task) not in b"ZX" for task in (process / "task").iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return False  # It has ended meanwhile.


def _state(task: Path) -> bytes:
    try:
        return (task / "stat").read_bytes().rpartition(b")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return b"X"
