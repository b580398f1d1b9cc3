"""What a directory holds: git is asked; where there is no repository, the directory is walked."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from agent_eval.core.git_process import CONFIG, ENVIRONMENT, GitError, run_git

_NEVER = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__"})
_LINK, _REPOSITORY = "120000", "160000"
_SECONDS = 60.0
_OWN_RULES_ONLY = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
"""What a machine's user has git ignore everywhere must not decide what is gated."""


SUFFIXES = (".test.json", ".evalset.json")
"""What ADK calls its eval files."""


@dataclass(kw_only=True)
class Listing:
    """What matters in a directory and in those below it, except for other repositories inside it.

    All names are relative to the directory, with forward slashes.
    """

    files: list[str] = field(default_factory=list)
    """What is called like an eval file and is no link, even if git knows it and it was deleted."""
    links: list[str] = field(default_factory=list)
    """Symbolic links, to whatever they lead."""
    repositories: list[str] = field(default_factory=list)
    """Submodules and clones."""
    tracked: set[str] = field(default_factory=set)
    """Links and submodules in git's index."""
    absent: list[str] = field(default_factory=list)
    """Files in git's index that a sparse checkout leaves out."""
    folders: set[str] = field(default_factory=lambda: {""})
    """The directories that hold a file, a link or a repository."""
    unreadable: list[OSError] = field(default_factory=list)
    """Directories that can't be searched."""
    failure: str | None = None
    """Why git did not answer, as a sentence; then the directory was walked."""

    def add_file(self, name: str) -> None:
        """Adds a file; of one that is no eval file, the directory."""
        if name.endswith(SUFFIXES):
            self.files.append(name)
        folder = name.rpartition("/")[0]
        while folder not in self.folders:
            self.folders.add(folder)
            folder = folder.rpartition("/")[0]


def list_directory(directory: Path, *, skip: frozenset[Path] = frozenset()) -> Listing:
    """Lists a directory.

    All that git tracks is listed, wherever it is and whatever ignores it. Of the rest, what git ignores is left out,
    and so are virtual environments, `node_modules` and the like. In a directory that is ignored itself nothing
    counts as ignored: its user named it.

    Args:
        directory: Absolute.
        skip: Directories of which only tracked files are listed.
    """
    real = Path(os.path.realpath(directory))
    top = next((folder for folder in (real, *real.parents) if (folder / ".git").exists()), None)
    listing = Listing()
    if top is None:
        _walk(listing, directory, skip)
        return listing
    try:
        _ask_git(listing, directory, top, real.relative_to(top).as_posix(), skip)
    except (GitError, OSError) as error:
        listing = Listing(failure=str(error))
        _walk(listing, directory, skip)
    return listing


def _ask_git(listing: Listing, directory: Path, top: Path, inside: str, skip: frozenset[Path]) -> None:
    """Fills the listing of a directory that lies in the repository `top`, there called `inside`.

    Raises:
        GitError: Git failed.
        OSError: The repository is gone.
    """
    before = 0 if inside == "." else len(inside) + 1
    for line in _git(top, "ls-files", "-t", "-s", "-z", "--", inside):
        facts, _, path = line.partition("\t")
        tag, mode, name = facts[0], facts.split()[1], path[before:]
        if tag == "S" and not os.path.lexists(directory / name):
            listing.absent.append(name)
        elif mode in (_LINK, _REPOSITORY):
            (listing.links if mode == _LINK else listing.repositories).append(name)
            listing.tracked.add(name)
        else:
            listing.add_file(name)
    # check-ignore refuses literal pathspecs; with the leading dot nothing in the name is magic.
    if inside != "." and _git(top, "check-ignore", "--no-index", "--", f"./{inside}", ok=(0, 1), literal="0"):
        _walk(listing, directory, skip)
        return
    aside = _Aside(directory, skip)
    for path in _git(top, "ls-files", "-o", "--exclude-standard", "-z", "--", inside):
        name = path[before:].rstrip("/")
        if aside.holds(name if path.endswith("/") else name.rpartition("/")[0]):
            continue
        if path.endswith("/"):
            listing.repositories.append(name)
        elif (directory / name).is_symlink():
            listing.links.append(name)
        else:
            listing.add_file(name)


def _git(top: Path, *arguments: str, ok: tuple[int, ...] = (0,), literal: str = "1") -> list[str]:
    """Runs git as the checkout's owner if we may, else as ourselves; its configuration can't start a program.

    Raises:
        GitError: It failed.
        OSError: The repository is gone.
    """
    facts, ours = (top / ".git").stat(), os.geteuid()
    if facts.st_uid not in {top.stat().st_uid, ours, 0}:
        raise GitError(f"The git repository {top} belongs to another user than its directory.")
    environment = {"PATH": os.environ.get("PATH", os.defpath), **ENVIRONMENT, **_OWN_RULES_ONLY}
    owners = [None] if ours != 0 or facts.st_uid == 0 else [(facts.st_uid, facts.st_gid), None]
    for last, owner in enumerate(owners, 1 - len(owners)):
        try:
            out = run_git(
                arguments,
                cwd=top,
                environment={**environment, "GIT_LITERAL_PATHSPECS": literal},
                config=(*CONFIG, ("safe.directory", str(top))),
                owner=owner,
                timeout=_SECONDS,
                ok=ok,
            )
            return [os.fsdecode(line) for line in out.split(b"\0") if line]
        except GitError:
            if last == 0:
                raise
    raise AssertionError("unreachable")


def is_aside(folder: Path, skip: frozenset[Path]) -> bool:
    """Whether a directory is one in which only tracked files count: a virtual environment, `node_modules` ..."""
    return folder.name in _NEVER or folder in skip or os.path.lexists(folder / "pyvenv.cfg")


class _Aside:
    """The directories of which only tracked files count; remembers those it has looked at."""

    def __init__(self, directory: Path, skip: frozenset[Path]) -> None:
        self._directory = directory
        self._skip = skip
        self._known = {"": False}

    def holds(self, folder: str) -> bool:
        """Whether a directory is one of them, or inside one."""
        known = self._known.get(folder)
        if known is None:
            known = self.holds(folder.rpartition("/")[0]) or is_aside(self._directory / folder, self._skip)
            self._known[folder] = known
        return known


def _walk(listing: Listing, directory: Path, skip: frozenset[Path]) -> None:
    """Adds what is there, whatever git would ignore."""
    for folder, names, files in os.walk(directory, onerror=listing.unreadable.append):
        kept = []
        for name in sorted([*names, *files]):
            path = Path(folder, name)
            relative = path.relative_to(directory).as_posix()
            if path.is_symlink():
                listing.links.append(relative)
            elif name not in names:
                listing.add_file(relative)
            elif is_aside(path, skip):
                continue
            elif os.path.lexists(path / ".git"):
                listing.repositories.append(relative)
            else:
                kept.append(name)
        names[:] = kept
