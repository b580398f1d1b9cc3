"""Asks git about the checkout.

The checkout belongs to the runner's user and we are often root, so git runs as the checkout's owner: what it writes
can then be removed by whoever has to.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from agent_eval.agents.sandbox import Account, blocked_at, missing_capabilities
from agent_eval.core.git_process import CONFIG, ENVIRONMENT, KEPT, authorization, run_git
from agent_eval.core.git_process import GitError as GitError
from agent_eval.core.text import harmless

_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class Remote:
    """Where to fetch from."""

    url: str = "origin"
    """A URL, or a name of the checkout's configuration."""
    token: str | None = field(default=None, repr=False)
    """For an http(s) URL only. It is sent to that server and nowhere else."""


ORIGIN = Remote()


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A path in a commit."""

    mode: str
    """Octal, e.g. `100644`, `120000` for a symbolic link, `160000` for a submodule."""
    blob: str
    size: int | None
    """Bytes; None for what is no file."""


@dataclass(frozen=True, kw_only=True)
class Git:
    """A checkout. Make it with `open_git`."""

    top: Path
    """Its topmost directory, resolved."""
    prefix: PurePosixPath
    """The directory that agent-eval works in, relative to `top`; `.` for all of it."""
    environment: Mapping[str, str]
    config: tuple[tuple[str, str], ...]
    owner: tuple[int, int] | None = None
    """Whom to run git as (uid, gid); None for ourselves."""
    timeout: float = 60.0
    """Seconds for a call that stays on this machine; fetching gets five times as many."""

    def run(
        self,
        *arguments: str,
        ok: Sequence[int] = (0,),
        config: Sequence[tuple[str, str]] = (),
        timeout: float | None = None,
        cwd: Path | None = None,
    ) -> bytes:
        """Runs `git ARGUMENTS` and gives what it prints; see `run_git`.

        Args:
            arguments: Of git.
            ok: Exit codes that are no error.
            config: More configuration.
            timeout: Seconds; None for `self.timeout`.
            cwd: Where to run; None for the topmost directory.

        Raises:
            GitError: It failed, took too long, or there is no git.
        """
        return run_git(
            arguments,
            cwd=cwd or self.top,
            environment=self.environment,
            config=(*self.config, *config),
            owner=self.owner,
            timeout=timeout or self.timeout,
            ok=ok,
        )

    def commit(self, name: str) -> str | None:
        """The full sha of a commit, branch or tag; None if it is not here."""
        if name.startswith("-"):
            return None
        found = self.run("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", ok=(0, 1, 128)).decode().strip()
        return found if _SHA.fullmatch(found) else None

    def refs(self) -> list[str]:
        """The short names of branches, remote ones too, and tags."""
        kinds = ("refs/heads", "refs/remotes", "refs/tags")
        return self.run("for-each-ref", "--format=%(refname:short)", *kinds).decode("utf-8", "replace").splitlines()

    def parents(self, sha: str) -> tuple[str, ...]:
        """The parents as the commit names them, whether or not they are here: a shallow clone knows them too.

        Raises:
            GitError: The commit is not here.
        """
        header = self.run("cat-file", "commit", checked(sha)).partition(b"\n\n")[0].decode("utf-8", "replace")
        return tuple(line.removeprefix("parent ") for line in header.splitlines() if line.startswith("parent "))

    def is_shallow(self) -> bool:
        """Whether history was cut off when it was cloned."""
        return self.run("rev-parse", "--is-shallow-repository").strip() == b"true"

    def merge_base(self, one: str, other: str) -> str | None:
        """The best common ancestor; None if there is none. In a shallow clone neither answer can be relied on.

        Raises:
            GitError: One of the commits is not here.
        """
        return self.run("merge-base", checked(one), checked(other), ok=(0, 1)).decode().strip() or None

    def first_parents(self, sha: str, count: int) -> list[str]:
        """The commit and those before it along first parents, at most `count`, as far as they are here."""
        listed = self.run("rev-list", "--first-parent", f"--max-count={count}", checked(sha), "--")
        return listed.decode().split()

    def changed_files(self, base: str, head: str) -> list[str]:
        """Paths that differ between two commits, relative to the top; of a renamed file both names."""
        flags = ("--name-only", "-z", "--no-ext-diff", "--no-textconv", "--no-renames")
        out = self.run("diff-tree", "-r", *flags, checked(base), checked(head), "--")
        return [os.fsdecode(path) for path in out.split(b"\0") if path]

    def entry(self, commit: str, path: PurePosixPath) -> Entry | None:
        """What a commit has at a path (relative to the top); None if nothing."""
        out = self.run("ls-tree", "-z", "-l", "--full-tree", checked(commit), "--", path.as_posix())
        for line in out.split(b"\0"):
            facts, _, name = line.partition(b"\t")
            if os.fsdecode(name) == path.as_posix():
                mode, _, blob, size = facts.decode().split()
                return Entry(mode=mode, blob=blob, size=int(size) if size.isdigit() else None)
        return None

    def blob(self, sha: str) -> bytes:
        """The content of a file. Look at its size before."""
        return self.run("cat-file", "blob", checked(sha))

    def need(self, sha: str, remote: Remote) -> None:
        """Sees to it that a commit is here: without its history if it has to be fetched into a shallow clone.

        Nothing but objects is changed: no branch, no FETCH_HEAD.

        Args:
            sha: The commit's full sha.
            remote: Where to get it from.

        Raises:
            GitError: It could not be had.
        """
        if self.commit(checked(sha)) is not None:
            return
        depth = ["--depth=1"] if self.is_shallow() else []
        quiet = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-maintenance")
        config = [("fetch.unpackLimit", "1")]
        if remote.token is not None:
            config += authorization(remote.url, remote.token)
        try:
            self.run("fetch", *quiet, *depth, "--", remote.url, sha, config=config, timeout=5 * self.timeout)
        except GitError as error:
            raise GitError(
                f"The commit {short(sha)} is not in this clone and could not be fetched: {error.message}",
                hint="Check out with `fetch-depth: 0`, or let this step have the token (`github-token`).",
            ) from None

    def add_worktree(self, path: Path, commit: str) -> None:
        """Checks a commit out into a new directory, detached from any branch."""
        timeout = 5 * self.timeout
        self.run("worktree", "add", "--quiet", "--detach", "--", str(path), checked(commit), timeout=timeout)

    def remove_worktree(self, path: Path) -> None:
        """Removes a worktree with all that was done in it."""
        self.run("worktree", "remove", "--force", "--", str(path), timeout=5 * self.timeout)

    def prune_worktrees(self) -> None:
        """Forgets worktrees whose directory has gone."""
        self.run("worktree", "prune")

    def files(self, worktree: Path) -> list[tuple[str, str]]:
        """Each path of a worktree's commit with its mode, relative to its top."""
        out = self.run("ls-files", "-z", "--stage", cwd=worktree)
        found = [line.partition(b"\t") for line in out.split(b"\0") if line]
        return [(os.fsdecode(name), facts[:6].decode()) for facts, _, name in found]


def open_git(root: Path, environ: Mapping[str, str], *, timeout: float = 60.0) -> Git:
    """The checkout that a directory lies in.

    Args:
        root: The directory that agent-eval works in.
        environ: Our environment; git gets a few variables of it.
        timeout: Seconds for a call.

    Raises:
        GitError: It lies in none, or in one whose owner is neither the directory's nor ourselves.
    """
    directory = root.resolve()
    top = next((folder for folder in (directory, *directory.parents) if (folder / ".git").exists()), None)
    if top is None:
        raise GitError(
            f"{directory} is not in a git checkout.", hint="Check the repository out with git (actions/checkout)."
        )
    facts, ours = (top / ".git").stat(), os.geteuid()
    if facts.st_uid not in {directory.stat().st_uid, ours, 0}:
        # Git itself would refuse it, had we not said that this directory is fine: its configuration names programs.
        raise GitError(f"The git repository {top} belongs to somebody else than {directory}.")
    return Git(
        top=top,
        prefix=PurePosixPath(directory.relative_to(top).as_posix()),
        environment={**{name: environ[name] for name in KEPT if environ.get(name)}, **ENVIRONMENT},
        config=(*CONFIG, ("safe.directory", str(top))),
        owner=_owner(top, facts) if ours == 0 and facts.st_uid != 0 else None,
        timeout=timeout,
    )


def _owner(top: Path, facts: os.stat_result) -> tuple[int, int] | None:
    """Whose checkout it is; None if that user can't even get there, or we may not become that user."""
    if sys.platform == "linux" and missing_capabilities():
        return None
    account = Account(name="", uid=facts.st_uid, gid=facts.st_gid, home=top)
    blocked = blocked_at(top, account, need=os.R_OK | os.X_OK) is not None
    return None if blocked else (facts.st_uid, facts.st_gid)


def checked(sha: str) -> str:
    """A full sha, as git may be given it.

    Raises:
        GitError: It is none: an option or a path must not get into a command line.
    """
    if not _SHA.fullmatch(sha):
        raise GitError(f"{harmless(sha)[:60]!r} is not the full sha of a commit.")
    return sha


def short(sha: str) -> str:
    """A commit as people read it."""
    return harmless(sha)[:7]
