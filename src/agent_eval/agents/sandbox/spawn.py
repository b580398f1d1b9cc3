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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_eval.agents.sandbox.uids import STATE_DIR, free_uids

AGENT_USER = "agent"
"""The account that the image makes."""
_REAP_SECONDS = 5.0
_MAX_PROCESSES = 4096
_OWN_PROCESSES = 64
"""Process ids that stay for the gate, git and the installer."""
_MIN_PROCESSES = 32


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
    withheld: frozenset[str] = frozenset()
    """Names of variables that are set for us and not in `environment`; errors that come of it name them."""

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
            *([] if privileged else _confinement(user)),
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


def _confinement(user: Account | None) -> list[str]:
    """The prefix that keeps setuid programs (sudo, su) from working, ends the process when the thread ends that started
    it (so when we die), and limits how many processes another user may have. There is none where the programs for it
    are missing (macOS).

    Each program replaces itself by the next, so the process id stays. Python could do it only in a `preexec_fn`, which
    isn't safe beside threads.
    """
    setpriv, prlimit = (shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin") for name in ("setpriv", "prlimit"))
    prefix = []
    if setpriv is not None:
        # BusyBox's knows the first of these only.
        dies_with_us = [] if Path(setpriv).resolve().name == "busybox" else ["--pdeathsig", "KILL"]
        prefix += [setpriv, "--no-new-privs", *dies_with_us, "--"]
    if prlimit is not None and user is not None:  # Our own user may have any number of processes besides.
        prefix += [prlimit, f"--nproc={max_processes()}", "--"]
    return prefix


def max_processes() -> int:
    """How many processes and threads an agent's user may have: more than agents need, and so few that the gate can
    still start processes of its own, where a container limits them.
    """
    import resource  # not on Windows, where other commands need this module

    limits = [_MAX_PROCESSES]
    for folder in _pids_cgroups():
        with contextlib.suppress(OSError, ValueError):  # "max", or no such group: no limit
            # Half: the base's agent may run at the same time.
            limits.append((int((folder / "pids.max").read_text("ascii")) - _OWN_PROCESSES) // 2)
    allowed = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    wanted = max(min(limits), _MIN_PROCESSES)
    return wanted if allowed == resource.RLIM_INFINITY else min(wanted, allowed)  # which only root can raise


def _pids_cgroups() -> list[Path]:
    """The directories that may hold our limit of process ids, of both versions of control groups (cgroups(7))."""
    top = Path("/sys/fs/cgroup")
    found = [top, top / "pids"]  # in a container, often the only ones that can be seen
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text("utf-8", "replace").splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers in {"", "pids"}:
                found.append((top / controllers if controllers else top) / path.lstrip("/"))
    return found


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
        uid: The uid to take, whether or not it is that account's; None for the account's, or the first that is free.

    Raises:
        OSError: The home can't be made.
        PermissionError: The account is root itself, or its home belongs to somebody else.
    """
    if os.geteuid() != 0:
        return None
    import pwd

    known = known_uid(name)
    if known is None or uid not in {None, known}:
        uid = next(free_uids()) if uid is None else uid
        account = Account(name=name, uid=uid, gid=uid, home=state_dir / f"home-{uid}")
        state_dir.mkdir(parents=True, exist_ok=True, mode=0o755)
    else:
        entry = pwd.getpwnam(name)
        account = Account(name=name, uid=entry.pw_uid, gid=entry.pw_gid, home=Path(entry.pw_dir))
    if account.uid == 0:
        raise PermissionError(f"the account `{name}` is root; name another one")
    for directory in (account.home, account.home / "tmp"):
        _own_directory(directory, account)
    return account


def known_uid(name: str = AGENT_USER) -> int | None:
    """The uid of an account, if the machine has it, as our image does."""
    import pwd

    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return None


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
