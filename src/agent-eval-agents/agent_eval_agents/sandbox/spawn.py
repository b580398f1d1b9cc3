"""Starts and ends processes that run untrusted code.

The agent is code from the pull request. It gets a restricted environment (`forwarding`), no terminal, its own process
group, no way to gain privileges and, if we are root, its own user: a process of our user could read our environment
from /proc and write to our files.
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
from typing import Protocol

from agent_eval_agents.sandbox.uids import STATE_DIR, free_uids

AGENT_USER = "agent"
"""The account in our container image."""
_REAP_SECONDS = 5.0
_MAX_PROCESSES = 4096
_OWN_PROCESSES = 64
"""Process ids reserved for the gate, git and the installer."""
_MIN_PROCESSES = 32


class Child(Protocol):
    """What is used of a process: of one of ours, or of one that another process has forked for us."""

    @property
    def pid(self) -> int:
        """Its process id."""

    @property
    def stdout(self) -> asyncio.StreamReader | None:
        """Its output."""

    @property
    def returncode(self) -> int | None:
        """Its exit code, or minus the signal that killed it; None while it runs."""

    async def wait(self) -> int:
        """Waits for its end; returns the return code."""


@dataclass(frozen=True, kw_only=True)
class Account:
    """A user that the agent's processes run as."""

    name: str
    uid: int
    gid: int
    home: Path
    """The account's own directory, mode 0700."""


@dataclass(frozen=True, kw_only=True)
class Sandbox:
    """How to start a process that runs the pull request's code."""

    environment: Mapping[str, str]
    """The complete environment of the child (`forwarding.child_environment`); it inherits nothing else."""
    user: Account | None = None
    """The user to run as; None for our own user. Another user requires root."""
    withheld: frozenset[str] = frozenset()
    """Names of variables that are set for us but not in `environment`, for hints on errors."""

    @property
    def who(self) -> str:
        """The user, for messages."""
        return "this user" if self.user is None else f"the agent's user `{self.user.name}` (uid {self.user.uid})"

    async def start(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        pass_fds: Sequence[int] = (),
        environment: Mapping[str, str] | None = None,
        privileged: bool = False,
    ) -> asyncio.subprocess.Process:
        """Starts a process in its own session and process group.

        Its stdin is empty; stdout and stderr are one stream, `process.stdout`. The caller must read it and call
        `kill_group` at the end.

        Args:
            argv: The program and its arguments. A bare program name is looked up in the child's PATH.
            cwd: The directory to start in. It is entered before the user changes.
            pass_fds: File descriptors that stay open in the child, with the same numbers.
            environment: Additional variables; they override those of the sandbox.
            privileged: Run as our own user with sudo usable. Only for `agent-setup`, which installs system packages.

        Raises:
            OSError: The program or the directory does not exist, or the program can't be executed.
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
    """The command prefix that disables setuid programs (sudo, su), ends the process when we die, and limits the number
    of processes of another user. Empty if these programs are missing (macOS).

    Each program replaces itself with the next one, so the process id stays. The alternative, a `preexec_fn`, is not
    thread-safe.
    """
    setpriv, prlimit = (shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin") for name in ("setpriv", "prlimit"))
    prefix = []
    if setpriv is not None:
        # BusyBox only supports --no-new-privs.
        die_with_parent = [] if Path(setpriv).resolve().name == "busybox" else ["--pdeathsig", "KILL"]
        prefix += [setpriv, "--no-new-privs", *die_with_parent, "--"]
    if prlimit is not None and user is not None:  # Our own user may already have any number of processes.
        prefix += [prlimit, f"--nproc={max_processes()}", "--"]
    return prefix


def max_processes() -> int:
    """The limit of processes and threads for an agent's user: more than agents need, but few enough that the gate can
    start its own processes in a container with a limit.
    """
    import resource  # not on Windows, where other commands need this module

    limits = [_MAX_PROCESSES]
    for folder in _pids_cgroups():
        with contextlib.suppress(OSError, ValueError):  # "max", or no such group: no limit
            # Half, because the base branch's agent may run at the same time.
            limits.append((int((folder / "pids.max").read_text("ascii")) - _OWN_PROCESSES) // 2)
    allowed = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    limit = max(min(limits), _MIN_PROCESSES)
    return limit if allowed == resource.RLIM_INFINITY else min(limit, allowed)  # which only root can raise


def _pids_cgroups() -> list[Path]:
    """The directories that may have our process limit, for both versions of control groups (cgroups(7))."""
    top = Path("/sys/fs/cgroup")
    folders = [top, top / "pids"]  # in a container, often the only visible ones
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text("utf-8", "replace").splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers in {"", "pids"}:
                folders.append((top / controllers if controllers else top) / path.lstrip("/"))
    return folders


def kill_now(process: Child) -> None:
    """Kills a process with its group, without waiting for the end. Never raises.

    Args:
        process: The leader of the group. It may have ended; the rest of its group is killed anyway.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


async def kill_group(process: Child) -> None:
    """Kills a process with its group, reaps it and closes its output. Never raises; returns within a few seconds.

    Args:
        process: As for `kill_now`.
    """
    kill_now(process)
    # A grandchild outside of the group may keep the pipe open; then wait() does not return when the child has ended.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_REAP_SECONDS):
            while process.returncode is None:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), 0.1)
                    break
    close_pipe(process)


def close_pipe(process: Child) -> None:
    """Closes the output of a process that has ended; another process may still have the other end open."""
    transport = getattr(process, "_transport", None)
    if transport is not None:  # Process has no close(); without it the pipe stays open until it is collected.
        transport.close()


def agent_account(name: str = AGENT_USER, *, state_dir: Path = STATE_DIR, uid: int | None = None) -> Account | None:
    """The account that the agent runs as: another user if we are root, otherwise None (our own user).

    Args:
        name: The account to use if it exists; our image has `agent`. Otherwise a free uid is used.
        state_dir: Where the home directories of free uids are, and that of an account whose own can't be written.
        uid: The uid to use, even if it is not that account's; None for the account's uid, or the first free one.

    Raises:
        OSError: The home can't be created.
        PermissionError: The account is root, or its home belongs to another user.
    """
    if os.geteuid() != 0:
        return None
    import pwd

    account_uid = known_uid(name)
    if account_uid is None or uid not in {None, account_uid}:
        uid = next(free_uids()) if uid is None else uid
        account = Account(name=name, uid=uid, gid=uid, home=state_dir / f"home-{uid}")
        state_dir.mkdir(parents=True, exist_ok=True, mode=0o755)
    else:
        entry = pwd.getpwnam(name)
        home = Path(entry.pw_dir)
        if not os.access(home if home.exists() else home.parent, os.W_OK):  # the image with `--read-only`
            home = state_dir / f"home-{entry.pw_uid}"
        account = Account(name=name, uid=entry.pw_uid, gid=entry.pw_gid, home=home)
    if account.uid == 0:
        raise PermissionError(f"the account `{name}` is root; use another account")
    for directory in (account.home, account.home / "tmp"):
        _own_directory(directory, account)
    return account


def known_uid(name: str = AGENT_USER) -> int | None:
    """The uid of an account; None if the account does not exist."""
    import pwd

    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return None


def _own_directory(path: Path, account: Account) -> None:
    """Creates a private directory of the account. Refuses anything that an earlier agent may have put in its place."""
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
        os.chown(path, account.uid, account.gid, follow_symlinks=False)
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != account.uid:
        raise PermissionError(f"{path} does not belong to the account `{account.name}`; remove it")
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)
