"""Seals directories that the agent must not enter, for the duration of a run.

A separate user is not enough: GitHub mounts its file commands, the event and the runner's temporary directory into our
container with permissions for all users, and a checkout may have a token in `.git/config`. Root can remove the
permissions of group and others and restore them afterwards. Without root there is no separate user, so nothing is
sealed; docs/security.md describes the consequences.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from agent_eval_agents.sandbox.spawn import Account
from agent_eval_agents.sandbox.uids import AgentNotEnded, end_processes, lock_directory, locked_uid
from agent_eval_scoring.core.problem import Problem, Severity, docs_page
from agent_eval_scoring.core.process import naming

_FILE_COMMANDS = ("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_STATE", "GITHUB_PATH", "GITHUB_STEP_SUMMARY")
_CREDENTIAL_FILES = (
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_GHA_CREDS_PATH",
    "CLOUDSDK_AUTH_CREDENTIAL_FILE_OVERRIDE",
)
_SOCKETS = ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock")
_ALL, _WRITE = 0o077, 0o022


def seal_targets(
    environ: Mapping[str, str], root: Path, output_dir: Path, *, reachable: Iterable[Path] = ()
) -> list[Seal]:
    """The existing files and directories to seal.

    These are the directories of the file commands and of the event, RUNNER_TEMP, HOME, the output directory, each
    `.git` around the root and in the workspace, and credentials files (the agent has its own copy if it may use one).
    A directory between the root and the output directory loses write permission for group and others: otherwise the
    agent could replace the output directory.

    Args:
        environ: Our own environment.
        root: The repository's root; the agent must be able to read it.
        output_dir: Where our results go. It must exist.
        reachable: Other paths that the agent needs: its interpreter, its home. No parent of these is sealed.

    Returns:
        The seals in a stable order, each path once.
    """
    root = root.resolve()
    workspace = Path(environ.get("GITHUB_WORKSPACE") or root).resolve()
    closed = [
        *(Path(environ[name]).parent for name in _FILE_COMMANDS if environ.get(name)),
        *(Path(environ["GITHUB_EVENT_PATH"]).parent for _ in range(1) if environ.get("GITHUB_EVENT_PATH")),
        *(Path(environ[name]) for name in ("RUNNER_TEMP", "HOME") if environ.get(name)),
        output_dir,
        *_git_directories(root, workspace),
        *(Path(environ[name]) for name in _CREDENTIAL_FILES if environ.get(name)),
        *sorted(workspace.glob("gha-creds-*.json")),
    ]
    open_paths = [root, *(path.resolve() for path in reachable)]
    seals: dict[Path, int] = {}
    for path in closed:
        resolved = path.resolve()
        if resolved.exists() and not any(needed.is_relative_to(resolved) for needed in open_paths):
            seals[resolved] = _ALL
    for path in (root, *_between(root, output_dir.resolve())):
        if path.is_dir() and path not in seals and path.stat().st_mode & _WRITE:
            seals[path] = _WRITE
    return [Seal(path=path, remove=bits) for path, bits in seals.items()]


def _git_directories(root: Path, workspace: Path) -> Iterator[Path]:
    candidates = [*(folder / ".git" for folder in (root, *root.parents)), workspace / ".git"]
    candidates += sorted(workspace.glob("*/.git"))  # several repositories side by side: checkout's `path`
    for git in candidates:
        if git.is_dir():
            yield git
        elif git.is_file():  # a worktree or a submodule: the file says where the directory is
            with contextlib.suppress(OSError, UnicodeDecodeError):
                first = git.read_text("utf-8").partition("\n")[0]
                if first.startswith("gitdir:"):
                    directory = (git.parent / first.removeprefix("gitdir:").strip()).resolve()
                    yield next((part for part in (directory, *directory.parents) if part.name == ".git"), directory)


def _between(root: Path, inner: Path) -> list[Path]:
    """The directories between the root and `inner`; none if `inner` is not below the root."""
    return [parent for parent in inner.parents if parent != root and parent.is_relative_to(root)]


@contextlib.contextmanager
def sealed(seals: Sequence[Seal], gate: int, end_agent: Callable[[], None]) -> Iterator[None]:
    """Removes permissions, and restores them exactly when the agent has ended and no other gate needs the seal.

    Args:
        seals: What to seal. A path that no longer exists is skipped.
        gate: The uid of the agent; we hold its lock.
        end_agent: Ends the agent's processes. If it raises `AgentNotEnded`, everything stays sealed.

    Raises:
        AgentNotEnded: See above.
        OSError: A path can't be sealed; then none is.
    """
    closed = Seals(gate)
    try:
        closed.close(seals)
        yield
    finally:
        try:
            end_agent()
        except BaseException:
            closed.forget()
            raise
        closed.restore()


def blocked_at(path: Path, account: Account | None, *, need: int = os.R_OK) -> Path | None:
    """The first part of a path that the account can't access; None if it can access the path.

    Checks permission bits only, not access control lists.

    Args:
        path: An absolute path; symbolic links are followed.
        account: The account; None for our own user.
        need: A combination of `os.R_OK`, `os.W_OK` and `os.X_OK` for the path itself. Its parents need X_OK.
    """
    resolved = path.resolve()
    for part in (*reversed(resolved.parents), resolved):
        bits = need if part == resolved else os.X_OK
        if account is None:
            allowed = os.access(part, bits)
        else:
            try:
                status = part.stat()
            except OSError:
                return part
            shift = 6 if status.st_uid == account.uid else 3 if status.st_gid == account.gid else 0
            allowed = (status.st_mode >> shift) & bits == bits
        if not allowed:
            return part
    return None


def open_sockets(account: Account | None, sockets: Iterable[str] = _SOCKETS) -> list[Problem]:
    """A warning for each socket of a container engine that the agent can use: it gives root access to the host."""
    paths = {Path(name).resolve() for name in sockets}
    who = "the agent" if account is None else f"the agent (as `{account.name}`)"
    return [
        Problem(
            severity=Severity.WARNING,
            code="container-socket-open",
            message=f"{who} can use {path}, which gives it control over the machine",
            hint=f"Remove the socket's permissions for other users, or don't mount it ({docs_page('security')}).",
        )
        for path in sorted(paths)
        if _is_socket(path) and blocked_at(path, account, need=os.W_OK) is None
    ]


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError:  # missing, or in a directory that we can't enter
        return False


_LIST = "seals.json"
_LOCK_SECONDS = 90.0
"""Longer than it takes to end the processes of a killed gate."""
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


@dataclass(frozen=True, kw_only=True)
class Seal:
    """Permissions to remove from a path."""

    path: Path
    """A directory or a regular file."""
    remove: int
    """Permission bits of group and others."""


@dataclass(kw_only=True)
class _Sealed:
    path: str
    inode: int
    mode: int
    """The original mode."""
    removed: dict[int, int]
    """Removed permission bits, by gate."""

    @property
    def key(self) -> tuple[str, int]:
        return self.path, self.inode

    @property
    def current_mode(self) -> int:
        """The mode that the path should have now."""
        bits = 0
        for removed in self.removed.values():
            bits |= removed
        return self.mode & ~bits


@dataclass(kw_only=True)
class _Contents:
    gates: dict[int, str] = field(default_factory=dict)
    """The boot id at the start of each gate, by the uid of its agent."""
    closed: list[_Sealed] = field(default_factory=list)


class Seals:
    """The seals of one gate, in the registry of sealed directories: which gates sealed them, and their original
    permissions.

    Several gates may run on one machine and seal the same directory, e.g. HOME. The last of them restores it. If a gate
    is killed (SIGKILL), another gate restores what it sealed. Therefore seals are recorded in one file per machine
    before they are applied. A gate is identified by the uid of its agent and locks that uid (`uids.locked_uid`) while
    it runs.
    """

    def __init__(self, gate: int) -> None:
        """`gate` is the uid that the gate has locked."""
        self._gate = gate
        self._open: dict[tuple[str, int], int] = {}
        """Open descriptors: they stay valid if a directory is renamed."""

    def close(self, seals: Sequence[Seal]) -> None:
        """Removes permissions. A path that does not exist, or is closed anyway, is skipped.

        Raises:
            OSError: A path can't be sealed, or the registry can't be written. Call `restore` even then.
        """
        with _locked() as folder:
            contents = _read(folder)
            contents.gates[self._gate] = _boot_id()
            sealed = [entry for seal in seals if (entry := self._add(contents, seal)) is not None]
            _write(folder, contents)
            for entry in sealed:
                with naming(Path(entry.path)):
                    os.fchmod(self._open[entry.key], entry.current_mode)

    def _add(self, contents: _Contents, seal: Seal) -> _Sealed | None:
        try:
            descriptor = os.open(seal.path, _OPEN)
        except FileNotFoundError:
            return None
        status = os.fstat(descriptor)
        key = (str(seal.path), status.st_ino)
        entry = next((entry for entry in contents.closed if entry.key == key), None)
        if (
            entry is None and not status.st_mode & seal.remove
        ):  # On a read-only disk, even chmod to the same mode fails.
            os.close(descriptor)
            return None
        self._open[key] = descriptor
        if entry is None:
            entry = _Sealed(path=key[0], inode=key[1], mode=stat.S_IMODE(status.st_mode), removed={})
            contents.closed.append(entry)
        entry.removed[self._gate] = seal.remove
        return entry

    def restore(self) -> None:
        """Restores permissions that no other gate needs removed.

        Raises:
            OSError: The registry can't be read, or stays locked.
        """
        try:
            with _locked() as folder:
                contents = _read(folder)
                _release(contents, self._gate, self._open)
                with contextlib.suppress(OSError):  # A full disk. The next gate finds the paths restored.
                    _write(folder, contents)
        finally:
            self.forget()

    def forget(self) -> None:
        """Leaves everything sealed. The next gate restores it when the agent has ended."""
        while self._open:
            os.close(self._open.popitem()[1])


def recover() -> None:
    """Ends the agents of gates that were killed, and restores what these gates sealed.

    If an agent can't be ended, its seals stay, and the next gate tries again.

    Raises:
        OSError: The registry can't be read or written.
    """
    with _locked() as folder:
        contents = _read(folder)
        if not contents.gates:
            return
        for gate, boot in list(contents.gates.items()):
            with locked_uid(gate) as has_ended, contextlib.suppress(AgentNotEnded):
                if has_ended:
                    if boot == _boot_id():  # After a reboot the uid may belong to others.
                        end_processes(gate)
                    _release(contents, gate, {})
        _write(folder, contents)


def _release(contents: _Contents, gate: int, descriptors: Mapping[tuple[str, int], int]) -> None:
    contents.gates.pop(gate, None)
    for entry in reversed(contents.closed):
        if gate in entry.removed:
            before = entry.current_mode
            del entry.removed[gate]
            _change_mode(entry, before, descriptors.get(entry.key))
    contents.closed = [entry for entry in contents.closed if entry.removed]


def _change_mode(entry: _Sealed, before: int, descriptor: int | None) -> None:
    """Sets the mode that a path should have now, unless someone else has changed it."""
    with contextlib.ExitStack() as stack:
        if descriptor is None:
            try:
                descriptor = os.open(entry.path, _OPEN)
            except OSError:  # It was removed, or replaced by a link.
                return
            stack.callback(os.close, descriptor)
        status = os.fstat(descriptor)
        if status.st_ino == entry.inode and stat.S_IMODE(status.st_mode) == before:
            os.fchmod(descriptor, entry.current_mode)


@contextlib.contextmanager
def _locked() -> Iterator[Path]:
    """Locks the registry; returns its directory."""
    import fcntl  # not on Windows, where other commands need this module

    folder = lock_directory()
    descriptor = os.open(folder / "seals.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        end = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > end:
                    message = f"another process has held the lock for {_LOCK_SECONDS:g} s"
                    raise OSError(error.errno, message, str(folder / "seals.lock")) from error
                time.sleep(0.02)
        yield folder
    finally:
        os.close(descriptor)


def _read(folder: Path) -> _Contents:
    try:
        stored = json.loads((folder / _LIST).read_bytes())
        return _Contents(
            gates={int(gate): str(boot) for gate, boot in stored["gates"].items()},
            closed=[
                _Sealed(
                    path=str(entry["path"]),
                    inode=int(entry["inode"]),
                    mode=int(entry["mode"]),
                    removed={int(gate): int(bits) for gate, bits in entry["removed"].items()},
                )
                for entry in stored["closed"]
            ],
        )
    except (FileNotFoundError, ValueError, LookupError, TypeError, AttributeError):
        return _Contents()  # Only root can have written anything else.


def _write(folder: Path, contents: _Contents) -> None:
    if not contents.gates:  # Needs no space: a full disk must not prevent the next start.
        (folder / _LIST).unlink(missing_ok=True)
        return
    partial = folder / f"{_LIST}.new"
    with naming(partial):
        partial.write_text(json.dumps(asdict(contents)), "utf-8")
        partial.chmod(0o600)
        partial.replace(folder / _LIST)


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
