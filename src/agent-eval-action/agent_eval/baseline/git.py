"""Queries of the git checkout.

The checkout belongs to the runner's user, but agent-eval often runs as root. So git runs as the checkout's owner, who
can then remove the files that git writes.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from agent_eval_agents.sandbox import Account, blocked_at, missing_capabilities
from agent_eval_scoring.core.git_process import CONFIG, ENVIRONMENT, KEPT, authorization, run_git
from agent_eval_scoring.core.git_process import GitError as GitError
from agent_eval_scoring.core.text import harmless

_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class Remote:
    """A remote to fetch from."""

    url: str = "origin"
    """A URL, or a remote's name in the checkout's configuration."""
    token: str | None = field(default=None, repr=False)
    """For http(s) URLs only. It is sent to that server only."""


ORIGIN = Remote()


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What a commit has at a path, behind symbolic links."""

    blob: str
    size: int | None
    """Bytes; None if it is not a regular file of the commit."""


@dataclass(frozen=True, kw_only=True)
class Git:
    """A checkout; created by `open_git`."""

    top: Path
    """The top-level directory, resolved."""
    prefix: PurePosixPath
    """The directory that agent-eval works in, relative to `top`; `.` for `top` itself."""
    environment: Mapping[str, str]
    config: tuple[tuple[str, str], ...]
    owner: tuple[int, int] | None = None
    """The user to run git as (uid, gid); None for the current user."""
    timeout: float = 60.0
    """Seconds for a local command; fetching gets five times as many."""

    def run(
        self,
        *arguments: str,
        ok: Sequence[int] = (0,),
        config: Sequence[tuple[str, str]] = (),
        timeout: float | None = None,
        cwd: Path | None = None,
        stdin: bytes = b"",
    ) -> bytes:
        """Runs `git ARGUMENTS` and returns its output; see `run_git`.

        Args:
            arguments: Arguments of git.
            ok: Exit codes that are not errors.
            config: Additional configuration.
            timeout: Seconds; None for `self.timeout`.
            cwd: Working directory; None for `top`.
            stdin: What git reads from its standard input.

        Raises:
            GitError: git failed, timed out, or is missing.
        """
        return run_git(
            arguments,
            cwd=cwd or self.top,
            environment=self.environment,
            config=(*self.config, *config),
            owner=self.owner,
            timeout=timeout or self.timeout,
            ok=ok,
            stdin=stdin,
        )

    def commit(self, name: str) -> str | None:
        """Returns the full sha of a commit, branch or tag; None if this clone lacks it."""
        # git reads it as an option, whatever follows.
        if name.startswith("-"):
            return None
        # 128: also a name that is none, e.g. `@{u}` without an upstream.
        sha = self.run("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", ok=(0, 1, 128)).decode().strip()
        return sha if _SHA.fullmatch(sha) else None

    def tree(self, commit: str) -> str:
        """The hash of a commit's files."""
        return self.run("rev-parse", "--verify", f"{checked(commit)}^{{tree}}").decode().strip()

    def refs(self) -> list[str]:
        """Returns the short names of local and remote branches and of tags."""
        kinds = ("refs/heads", "refs/remotes", "refs/tags")
        return self.run("for-each-ref", "--format=%(refname:short)", *kinds).decode("utf-8", "replace").splitlines()

    def parents(self, sha: str) -> tuple[str, ...]:
        """Returns the parents that the commit names, even if a shallow clone lacks them.

        Raises:
            GitError: This clone lacks the commit.
        """
        # At the border of a shallow clone `rev-parse SHA^1` finds none: git hides the parents that it has not fetched.
        header = self.run("cat-file", "commit", checked(sha)).partition(b"\n\n")[0].decode("utf-8", "replace")
        return tuple(line.removeprefix("parent ") for line in header.splitlines() if line.startswith("parent "))

    def is_shallow(self) -> bool:
        """Whether the clone is shallow."""
        return self.run("rev-parse", "--is-shallow-repository").strip() == b"true"

    def merge_base(self, left: str, right: str) -> str | None:
        """Returns the best common ancestor; None if there is none. Both may be wrong in a shallow clone.

        Raises:
            GitError: This clone lacks one of the commits.
        """
        return self.run("merge-base", checked(left), checked(right), ok=(0, 1)).decode().strip() or None

    def first_parents(self, sha: str, count: int) -> list[str]:
        """Returns a commit and its ancestors along first parents, at most `count`, as far as this clone has them."""
        listed = self.run("rev-list", "--first-parent", f"--max-count={count}", checked(sha), "--")
        return listed.decode().split()

    def changes(self, base: str, head: str) -> dict[str, str]:
        """Returns the paths that differ between two commits, relative to `top`, with git's letter: M for a modified
        file, A, D, and T for another type or another link. A renamed file is deleted and added.
        """
        # The user's configuration may name programs that compare files, and may look for renames.
        flags = ("--raw", "-z", "--no-ext-diff", "--no-textconv", "--no-renames")
        out = self.run("diff-tree", "-r", *flags, checked(base), checked(head), "--")
        facts = [os.fsdecode(fact) for fact in out.split(b"\0")]
        letters = ["T" if fact.startswith(":120000 120000 ") else fact[-1:] for fact in facts[::2]]
        return dict(zip(facts[1::2], letters, strict=False))

    def entry(self, commit: str, path: PurePosixPath) -> Entry | None:
        """Returns what a commit has at a path relative to `top`; None if there is nothing.

        Symbolic links are followed inside the commit, so that what a link leads to is as old as the link.
        """
        name = path.as_posix()
        if "\n" in name:
            raise GitError(f"{harmless(name)!r} has a line break.")
        asked = os.fsencode(f"{checked(commit)}:{name}\n")
        # `ls-tree` does not follow links, and a linked agent-eval.toml would be a text with a path.
        show = "--batch-check=%(objecttype) %(objectname) %(objectsize)"
        out = self.run("cat-file", "--follow-symlinks", show, stdin=asked)
        if out == asked[:-1] + b" missing\n" or out.startswith(b"notdir "):
            return None
        # Of a link that leaves the commit, leads nowhere or to itself, the first word is no type of an object.
        kind, blob, size = (out.split() + [b""] * 3)[:3]
        return Entry(blob=blob.decode(), size=int(size)) if kind == b"blob" else Entry(blob="", size=None)

    def file(self, commit: str, path: PurePosixPath, most: int) -> bytes | None:
        """Returns the content of a file of at most `most` bytes, see `entry`; None if there is none.

        Raises:
            GitError: It is larger, or no regular file.
        """
        entry = self.entry(commit, path)
        if entry is None:
            return None
        if entry.size is None or entry.size > most:
            raise GitError(f"{harmless(path.name)} is not a small regular file there.")
        return self.blob(entry.blob)

    def blob(self, sha: str) -> bytes:
        """Returns the content of a file. Check its size first."""
        return self.run("cat-file", "blob", checked(sha))

    def remote_tip(self, branch: str, remote: Remote) -> str | None:
        """Returns the tip of a remote's branch; None if there is no such branch.

        Raises:
            GitError: The remote can't be read.
        """
        config = [] if remote.token is None else authorization(remote.url, remote.token)
        ref = f"refs/heads/{branch}"
        listed = self.run("ls-remote", "--", remote.url, ref, config=config).decode("utf-8", "replace")
        tips = [sha for sha, _, name in (line.partition("\t") for line in listed.splitlines()) if name == ref]
        return tips[0] if tips and _SHA.fullmatch(tips[0]) else None

    def need(self, sha: str, remote: Remote) -> None:
        """Fetches a commit if this clone lacks it; into a shallow clone without history.

        Changes only objects: no branch, no FETCH_HEAD.

        Args:
            sha: The commit's full sha.
            remote: Where to fetch it from.

        Raises:
            GitError: The commit can't be fetched.
        """
        if self.commit(checked(sha)) is not None:
            return
        # Without a depth, fetching into a shallow clone can bring the commit's whole history.
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

    def differing(self, commit: str, *, new: tuple[str, ...] = ("",), inside: bool = True) -> list[str]:
        """The files below `prefix`, and relative to it, that differ from a commit.

        Args:
            commit: A sha.
            new: The ends of names of files that count although git does not know them, and does not ignore them.
            inside: False: the files outside of `prefix` instead, relative to `top`.
        """
        options = ("--name-only", "-z", "--no-renames", "--no-ext-diff", "--no-textconv")
        names = self.run("diff", *options, checked(commit), "--").split(b"\0")
        if new:
            listing = ("ls-files", "--others", "--exclude-standard", "--full-name", "-z")
            others = self.run(*listing, cwd=self.top / self.prefix).split(b"\0")
            names += [name for name in others if name.endswith(tuple(map(os.fsencode, new)))]
        prefix = "" if self.prefix == PurePosixPath() else f"{self.prefix}/"
        found = [name for name in map(os.fsdecode, names) if name and name.startswith(prefix) is inside]
        return [name.removeprefix(prefix) for name in found] if inside else found

    def add_worktree(self, path: Path, commit: str) -> None:
        """Checks out a commit into a new directory, with a detached HEAD."""
        timeout = 5 * self.timeout
        self.run("worktree", "add", "--quiet", "--detach", "--", str(path), checked(commit), timeout=timeout)

    def remove_worktree(self, path: Path) -> None:
        """Removes a worktree and all changes in it."""
        self.run("worktree", "remove", "--force", "--", str(path), timeout=5 * self.timeout)

    def prune_worktrees(self) -> None:
        """Removes worktrees with a missing directory."""
        self.run("worktree", "prune")

    def files(self, worktree: Path) -> list[tuple[str, str]]:
        """Returns each path of a worktree's commit, relative to its top, with its mode."""
        out = self.run("ls-files", "-z", "--stage", cwd=worktree)
        entries = [line.partition(b"\t") for line in out.split(b"\0") if line]
        return [(os.fsdecode(name), facts[:6].decode()) for facts, _, name in entries]


def open_git(root: Path, environ: Mapping[str, str]) -> Git:
    """Opens the checkout that contains a directory.

    Args:
        root: The directory that agent-eval works in.
        environ: The environment; git gets only some of its variables.

    Raises:
        GitError: There is no checkout, or its owner is neither the directory's owner nor the current user.
    """
    directory = root.resolve()
    # Searched here: git can be asked only once it is known as whom, and its owner is that of `.git`.
    top = next((folder for folder in (directory, *directory.parents) if (folder / ".git").exists()), None)
    if top is None:
        raise GitError(
            f"{directory} is not in a git checkout.", hint="Check out the repository with git (actions/checkout)."
        )
    facts, ours = (top / ".git").stat(), os.geteuid()
    if facts.st_uid not in {directory.stat().st_uid, ours, 0}:
        # Git would refuse it without our `safe.directory`, since its configuration can name programs.
        raise GitError(f"The git repository {top} has another owner than {directory}.")
    return Git(
        top=top,
        prefix=PurePosixPath(directory.relative_to(top).as_posix()),
        environment={**{name: environ[name] for name in KEPT if environ.get(name)}, **ENVIRONMENT},
        config=(*CONFIG, ("safe.directory", str(top))),
        owner=_owner(top, facts) if ours == 0 and facts.st_uid != 0 else None,
    )


def _owner(top: Path, facts: os.stat_result) -> tuple[int, int] | None:
    """Returns the checkout's owner; None if that user can't enter it, or we may not switch to that user."""
    if sys.platform == "linux" and missing_capabilities():
        return None
    account = Account(name="", uid=facts.st_uid, gid=facts.st_gid, home=top)
    blocked = blocked_at(top, account, need=os.R_OK | os.X_OK) is not None
    return None if blocked else (facts.st_uid, facts.st_gid)


def checked(sha: str) -> str:
    """Checks that a text is a full sha, so that no option or path gets into a command line.

    Raises:
        GitError: It is not a full sha.
    """
    if not _SHA.fullmatch(sha):
        raise GitError(f"{harmless(sha)[:60]!r} is not the full sha of a commit.")
    return sha


def sentence(error: Exception) -> str:
    """What an exception says about the base branch, as a sentence."""
    return f"{harmless(str(error))}." if isinstance(error, OSError) else str(error)


def short(sha: str) -> str:
    """Returns the abbreviated sha of a commit, safe to print."""
    return harmless(sha)[:7]
