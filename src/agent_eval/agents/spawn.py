"""Starts processes that run other people's code, and ends them.

The agent is code from the pull request. It gets an environment that was put together for it (`forwarding`), no
terminal, a process group of its own, no way to gain privileges and, when we are root, another user: a process of our
own user could read our environment from /proc and write to our files.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

AGENT_USER = "agent"
"""The account that the image makes."""
STATE_DIR = Path("/var/lib/agent-eval")
"""Where a root process keeps the home of an account that has no passwd entry."""
_FIRST_UID, _LAST_UID = 61_184, 65_519
"""systemd hands out the range below and nobody the one above (systemd.io/UIDS-GIDS): these are free on any machine."""
_REAP_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class Account:
    """A user that the agent's processes run as."""

    name: str
    uid: int
    gid: int
    home: Path
    """A directory of its own, mode 0700."""


@dataclass(frozen=True, kw_only=True)
class Sandbox:
    """How to start a process that runs the pull request's code."""

    environment: Mapping[str, str]
    """The complete environment of the child (`forwarding.child_environment`); nothing else is inherited."""
    user: Account | None = None
    """Whom to run as; None runs as ourselves. Another user needs root."""

    async def start(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        pass_fds: Sequence[int] = (),
        environment: Mapping[str, str] | None = None,
        privileged: bool = False,
    ) -> asyncio.subprocess.Process:
        """Starts a process in a session and process group of its own.

        Its stdin is empty; stdout and stderr come as one stream, `process.stdout`. Somebody has to read it, and to
        call `kill_group` in the end.

        Args:
            argv: The program and its arguments. A bare program name is looked up in the child's PATH.
            cwd: The directory to start in. It is entered before the user changes.
            pass_fds: File descriptors that stay open in the child, under their numbers.
            environment: More variables, over those of the sandbox.
            privileged: Run as ourselves and leave sudo usable; only for what has to install system packages.

        Raises:
            OSError: The program does not exist or can't be executed, or there is no such directory.
        """
        complete = {**self.environment, **(environment or {})}
        program = shutil.which(argv[0], path=complete.get("PATH", os.defpath))
        if program is None:
            raise FileNotFoundError(2, "No such program", argv[0])
        user = None if privileged else self.user
        return await asyncio.create_subprocess_exec(
            *([] if privileged else _no_new_privileges()),
            program,
            *argv[1:],
            cwd=cwd,
            env=complete,
            pass_fds=tuple(pass_fds),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            user=None if user is None else user.uid,
            group=None if user is None else user.gid,
            extra_groups=None if user is None else [],
            umask=-1 if user is None else 0o022,
        )


def _no_new_privileges() -> list[str]:
    """The prefix that keeps setuid programs (sudo, su) from working; none where there is no setpriv (macOS).

    setpriv replaces itself by the program, so the process id stays. Python could do it only in a `preexec_fn`, which
    isn't safe beside threads.
    """
    setpriv = shutil.which("setpriv", path="/usr/bin:/bin:/usr/sbin:/sbin")
    return [] if setpriv is None else [setpriv, "--no-new-privs", "--"]


async def kill_group(process: asyncio.subprocess.Process) -> None:
    """Kills a process with its whole group and reaps it. Never raises; returns within a few seconds.

    Args:
        process: What `Sandbox.start` returned. It may have ended already: what it left behind is killed all the same.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    # A grandchild that left the group may hold the pipe open; then wait() doesn't return although the child is gone.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_REAP_SECONDS):
            while process.returncode is None:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), 0.1)
    close_pipe(process)


def close_pipe(process: asyncio.subprocess.Process) -> None:
    """Gives up the output of a process that has ended; somebody else may still hold its other end."""
    transport = getattr(process, "_transport", None)
    if transport is not None:  # Process has no close(); without it the pipe stays open until it is collected.
        transport.close()


def agent_account(name: str = AGENT_USER, *, state_dir: Path = STATE_DIR, uid: int | None = None) -> Account | None:
    """Whom the agent runs as: another user when we are root, None (ourselves) when we aren't.

    Args:
        name: The account to take if the machine has it; the image makes `agent`. Otherwise a free uid is taken.
        state_dir: Holds the home of an account that the machine doesn't have.
        uid: The uid to take then; None for the first of `free_uids`.

    Raises:
        OSError: The home can't be made.
        PermissionError: The account is root itself, or its home belongs to somebody else.
    """
    if os.geteuid() != 0:
        return None
    import pwd

    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        uid = next(free_uids()) if uid is None else uid
        account = Account(name=name, uid=uid, gid=uid, home=state_dir / f"home-{uid}")
        state_dir.mkdir(parents=True, exist_ok=True, mode=0o755)
    else:
        account = Account(name=name, uid=entry.pw_uid, gid=entry.pw_gid, home=Path(entry.pw_dir))
    if account.uid == 0:
        raise PermissionError(f"the account `{name}` is root; name another one")
    for directory in (account.home, account.home / "tmp"):
        _own_directory(directory, account)
    return account


def has_account(name: str = AGENT_USER) -> bool:
    """Whether the machine has the account, as our image does."""
    import pwd

    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def free_uids() -> Iterator[int]:
    """Numbers that no account of the machine has, always in the same order."""
    import pwd

    taken = {entry.pw_uid for entry in pwd.getpwall()}
    return (uid for uid in range(_LAST_UID, _FIRST_UID, -1) if uid not in taken)


def _own_directory(path: Path, account: Account) -> None:
    """Makes a private directory of the account, refusing whatever an earlier agent may have put in its place."""
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
        os.chown(path, account.uid, account.gid, follow_symlinks=False)
    facts = path.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != account.uid:
        raise PermissionError(f"{path} does not belong to the account `{account.name}`; remove it")
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)


def processes_of(account: Account) -> Iterator[int]:
    """The ids of the account's running processes, from /proc; none where there is no /proc."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if entry.stat().st_uid == account.uid:
                yield int(entry.name)


def end_account(account: Account) -> int:
    """Kills every process of the account, also those that left their group, and tells how many there were.

    For the end of a run. The account must be ours alone, which `agent_account` sees to.
    """
    killed: set[int] = set()
    for _ in range(10):  # a process may fork while we look
        found = set(processes_of(account)) - killed
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            break
        killed |= found
    return len(killed)
