"""User ids (uids) for agents: free ones, their locks, the processes and files that a uid has, and their end."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from agent_eval_scoring.core.errors import AgentEvalError

STATE_DIR = Path("/var/lib/agent-eval")
"""Home directories of agents without a passwd entry, and locks of uids. Only root uses it."""
_FIRST_UID, _LAST_UID = 61_184, 65_519
"""The range that systemd uses for running services and never for accounts (systemd.io/UIDS-GIDS). A uid that has a
process is not used."""
_INITIAL_PID_NAMESPACE = 0xEFFFFFFC
"""The inode of /proc/self/ns/pid outside of containers (PROC_PID_INIT_INO, linux/proc_ns.h)."""
_SHARED_DIRECTORIES = ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue")  # noqa: S108 - to clean them
"""Where every user of a machine can leave files."""

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
    """Uids that no account of the machine has, always in the same order.

    A container and its host have different ones. Without a user namespace, the host's `kill(-1)` reaches a container's
    processes, and the two may not see each other's locks.
    """
    import pwd

    taken = {entry.pw_uid for entry in pwd.getpwall()}
    middle = (_FIRST_UID + _LAST_UID) // 2
    uids = range(middle, _FIRST_UID, -1) if _in_container() else range(_LAST_UID, middle, -1)
    return (uid for uid in uids if uid not in taken)


def _in_container() -> bool:
    try:
        return Path("/proc/self/ns/pid").stat().st_ino != _INITIAL_PID_NAMESPACE
    except OSError:
        return False


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


def remove_files_of(uid: int) -> None:
    """Removes what a uid left in the directories that all users share, so that the next agent with it owns nothing.

    Call it when the uid has no process. Never raises: what can't be removed stays.
    """
    for directory in {*map(Path, _SHARED_DIRECTORIES), Path(tempfile.gettempdir())}:
        with contextlib.suppress(OSError), os.scandir(directory) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_uid != uid:
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        shutil.rmtree(entry.path, ignore_errors=True)  # It does not follow links.
                    else:
                        Path(entry.path).unlink()


_SCRIPT = Path(__file__).with_name("kill_uid.py")
_ANSWER_SECONDS = 20.0
_GONE_SECONDS = 15.0
"""A killed process needs time to release its memory; one that waits for a dead disk may never end."""
_ATTEMPTS = 3


class AgentNotEnded(AgentEvalError):
    """Processes of the agent's user are still running after they were killed."""

    def __init__(self, uid: int, why: str) -> None:
        super().__init__(f"the agent's processes (uid {uid}) can't be ended: {why}")


class Killer:
    """A process that waits to kill all processes of a user. It starts before the agent, which could use up all ids.

    It also kills them if the gate itself is killed (SIGKILL).
    """

    def __init__(self, uid: int) -> None:
        """Starts the process; see `ready`.

        Raises:
            OSError: The process can't be started, or no uid is free for it.
        """
        self._stack = contextlib.ExitStack()
        with self._stack:
            self._uid = uid
            cover = claim(self._stack, reversed(list(free_uids())))
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_SCRIPT), str(uid), str(cover)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C in a terminal must not end it.
                cwd="/",
                env={},
            )
            self._stack.callback(self._reap)
            self._stack = self._stack.pop_all()

    def ready(self) -> None:
        """Waits until it can kill: before that, no process of the user may start.

        Raises:
            OSError: It can't.
        """
        if (answer := self._line()) != "ready":
            self._stack.close()
            raise OSError(f"the process that ends the agent could not be started: {answer}")

    def close(self) -> None:
        """Ends the process. It kills nothing unless `kill` was called."""
        self._write(b"q")
        self._stack.close()

    def kill(self) -> str:
        """Kills the user's processes; works once. Returns "killed", or why it failed."""
        self._write(b"k")
        answer = self._line()
        self._stack.close()
        return answer

    def _write(self, byte: bytes) -> None:
        assert self._process.stdin is not None
        if self._process.stdin.closed:
            return
        with contextlib.suppress(OSError):  # The process has ended: there will be no answer.
            os.write(self._process.stdin.fileno(), byte)

    def _line(self) -> str:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], _ANSWER_SECONDS)
        if not ready:
            return f"no answer within {_ANSWER_SECONDS:g} s"
        return self._process.stdout.readline().decode("utf-8", "replace").strip() or "it ended without an answer"

    def _reap(self) -> None:
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_ANSWER_SECONDS)


def end_processes(uid: int, killer: Killer | None = None) -> None:
    """Kills every process of a user and waits until none is left.

    Args:
        uid: An agent's uid that no other gate uses (`uids.claim`).
        killer: A killer that was started before the agent.

    Raises:
        AgentNotEnded: Some are still running, or their end can't be verified.
    """
    result = ""
    for _ in range(_ATTEMPTS):
        try:
            if killer is None:
                killer = Killer(uid)
                killer.ready()
            result = killer.kill()
        except OSError as error:
            result = str(error)
        killer = None
        if result == "killed":
            break
    if result == "killed":
        if not (running := _wait_until_ended(uid)):
            return
        result = f"{len(running)} of them, e.g. process {running[0]}, were killed and did not end"
    raise AgentNotEnded(uid, result)


def _wait_until_ended(uid: int) -> list[int]:
    end = time.monotonic() + _GONE_SECONDS
    while (running := processes_of(uid)) and time.monotonic() < end:
        time.sleep(0.01)
    return running
