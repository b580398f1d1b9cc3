"""Seals directories that the agent must not enter, for the duration of a run.

A separate user is not enough: GitHub mounts its file commands, the event and the runner's temporary directory into our
container with permissions for all users, and a checkout may have a token in `.git/config`. Root can remove the
permissions of group and others and restore them afterwards. Without root there is no separate user, so nothing is
sealed; docs/security.md describes the consequences.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from agent_eval.agents.sandbox._seal_registry import Seal, Seals
from agent_eval.agents.sandbox.spawn import Account
from agent_eval.core.problem import Problem, Severity

_FILE_COMMANDS = ("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_STATE", "GITHUB_PATH", "GITHUB_STEP_SUMMARY")
_CREDENTIAL_FILES = (
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_GHA_CREDS_PATH",
    "CLOUDSDK_AUTH_CREDENTIAL_FILE_OVERRIDE",
)
_SOCKETS = (
    "/var/run/docker.sock",
    "/run/docker.sock",
    "/run/containerd/containerd.sock",
    "/run/podman/podman.sock",
)
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
            hint="Remove the socket's permissions for other users, or don't mount it (docs/security.md).",
        )
        for path in sorted(paths)
        if _is_socket(path) and blocked_at(path, account, need=os.W_OK) is None
    ]


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError:  # missing, or in a directory that we can't enter
        return False
