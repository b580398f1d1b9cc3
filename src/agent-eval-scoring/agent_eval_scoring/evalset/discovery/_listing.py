"""Lists directories with git, or by walking them if there is no repository."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from agent_eval_scoring.core.files import MAX_SETTINGS, read_regular
from agent_eval_scoring.core.git_process import CONFIG, ENVIRONMENT, GitError, GitTimeout, run_git
from agent_eval_scoring.core.text import harmless, listed, unbroken
from agent_eval_scoring.evalset.parse.dataset import FOLDER as DATASETS
from agent_eval_scoring.evalset.parse.dataset import in_dataset_folder, is_dataset_text
from agent_eval_scoring.evalset.paths import name_of

_NEVER = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__"})
_LINK, _REPOSITORY = "120000", "160000"
_SECONDS = 60.0
_PATIENCE = 5.0
"""Seconds after which a named pipe is looked for that git may be waiting for."""
_OWN_RULES_ONLY = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
"""A user's global ignore rules must not decide what is gated."""


SUFFIXES = (".test.json", ".evalset.json")
"""Suffixes of ADK's eval files."""


@dataclass(kw_only=True)
class Listing:
    """The content of a directory tree without the repositories inside it.

    All names are relative to the directory, with forward slashes.
    """

    files: list[str] = field(default_factory=list)
    """Files with the suffix of an eval file, without links. Includes deleted files that are in git's index."""
    other_json: list[str] = field(default_factory=list)
    """Other JSON files."""
    links: list[str] = field(default_factory=list)
    """Symbolic links, including broken ones."""
    repositories: list[str] = field(default_factory=list)
    """Submodules and clones."""
    tracked: set[str] = field(default_factory=set)
    """Links and submodules in git's index."""
    absent: list[str] = field(default_factory=list)
    """Files in git's index that are not part of a sparse checkout."""
    folders: set[str] = field(default_factory=lambda: {""})
    """The directories that contain files, links or repositories."""
    unreadable: list[OSError] = field(default_factory=list)
    """Directories that can't be searched."""
    failure: str | None = None
    """Why git failed, as a sentence. The directory was then walked."""

    def add_file(self, name: str) -> None:
        """Adds the directories of a file, and the file if it is JSON."""
        if name.endswith(".json"):
            (self.files if name.endswith(SUFFIXES) else self.other_json).append(name)
        folder = name.rpartition("/")[0]
        # Ends at the first known one, whose parents are known, too: linear in the number of files.
        while folder not in self.folders:
            self.folders.add(folder)
            folder = folder.rpartition("/")[0]


def list_directory(directory: Path, *, skip: frozenset[Path] = frozenset()) -> Listing:
    """Lists a directory.

    All tracked files are listed, even if ignore rules match them. Untracked files are listed unless git ignores them or
    they are in a virtual environment, `node_modules` and the like. If git ignores the directory itself, ignore rules
    don't apply, because a user selected it explicitly.

    Args:
        directory: Absolute.
        skip: Directories in which only tracked files are listed.
    """
    real = Path(os.path.realpath(directory))
    # Without git, which refuses another user's checkout until `safe.directory` names it.
    top = next((folder for folder in (real, *real.parents) if (folder / ".git").exists()), None)
    listing = Listing()
    if top is None:
        _walk(listing, directory, skip)
        return listing
    try:
        _list_with_git(listing, directory, top, real.relative_to(top).as_posix(), skip)
    except (GitError, OSError) as error:
        # A new one: what git had printed before it failed would be listed twice.
        listing = Listing(failure=str(error))
        _walk(listing, directory, skip)
    return listing


def _list_with_git(listing: Listing, directory: Path, top: Path, inside: str, skip: frozenset[Path]) -> None:
    """Fills the listing of a directory with the path `inside` in the repository `top`.

    Raises:
        GitError: Git failed.
        OSError: The repository does not exist any more.
    """
    before = 0 if inside == "." else len(inside) + 1
    # -z, since git quotes names that are not ASCII otherwise; -t shows what a sparse checkout leaves out (S).
    for line in git_lines(top, "ls-files", "-t", "-s", "-z", "--", inside):
        facts, _, path = line.partition("\t")
        tag, mode, name = facts[0], facts.split()[1], path[before:]
        # Marked to be skipped, and there all the same after a manual change: then it is read.
        if tag == "S" and not os.path.lexists(directory / name):
            listing.absent.append(name)
        elif mode in (_LINK, _REPOSITORY):
            (listing.links if mode == _LINK else listing.repositories).append(name)
            listing.tracked.add(name)
        else:
            listing.add_file(name)
    # check-ignore rejects literal pathspecs. The leading dot prevents pathspec magic.
    ignored = ("check-ignore", "--no-index", "--", f"./{inside}")
    # `ls-files -o` lists nothing of an ignored directory, and a user may name one.
    if inside != "." and _git_with_rules(top, directory, *ignored, ok=(0, 1), literal="0"):
        _walk(listing, directory, skip)
        return
    tracked_only = _TrackedOnly(directory, skip)
    for path in _git_with_rules(top, directory, "ls-files", "-o", "--exclude-standard", "-z", "--", inside):
        name = path[before:].rstrip("/")
        if tracked_only.contains(name if path.endswith("/") else name.rpartition("/")[0]):
            continue
        # Git lists a repository inside of another one as a directory, without its files.
        if path.endswith("/"):
            listing.repositories.append(name)
        elif (directory / name).is_symlink():
            listing.links.append(name)
        else:
            listing.add_file(name)


def ignored_by(path: Path) -> str | None:
    """The rule by which git ignores an absolute path, e.g. `.gitignore:4:evals/`; None if it does not."""
    # The parent only: git has rules for the link itself, not for its target.
    real = Path(os.path.realpath(path.parent), path.name)
    top = next((folder for folder in real.parents if (folder / ".git").exists()), None)
    if top is None:
        return None
    inside = real.relative_to(top).as_posix()
    try:
        lines = _git_with_rules(top, real.parent, "check-ignore", "-v", "--", f"./{inside}", ok=(0, 1), literal="0")
    except (GitError, OSError):
        return None
    return lines[0].partition("\t")[0] if lines else None


def _git_with_rules(
    top: Path, directory: Path, *arguments: str, ok: tuple[int, ...] = (0,), literal: str = "1"
) -> list[str]:
    """Runs a git command that reads ignore rules.

    Raises:
        GitError: Git failed, or the rules are in a named pipe, which git would wait for.
        OSError: The repository does not exist any more.
    """
    try:
        return git_lines(top, *arguments, ok=ok, literal=literal, timeout=_PATIENCE)
    except GitTimeout:
        # Looked for only now: a walk for every listing would take longer than the listing.
        for path in _rule_files(top, directory):
            if path.is_fifo():
                raise GitError(f"{path} is a named pipe, which git would wait for. Remove it.") from None
    return git_lines(top, *arguments, ok=ok, literal=literal)


def _rule_files(top: Path, directory: Path) -> Iterator[Path]:
    """Where git may look for ignore rules of the directory, whether or not there are any."""
    yield top / ".git" / "info" / "exclude"
    yield from (folder / ".gitignore" for folder in directory.parents if folder.is_relative_to(top))
    for folder, names, _ in os.walk(directory):
        names[:] = [name for name in names if name not in _NEVER]
        yield Path(folder, ".gitignore")


def git_lines(
    top: Path, *arguments: str, ok: tuple[int, ...] = (0,), literal: str = "1", timeout: float = _SECONDS
) -> list[str]:
    """Runs git, as the owner of the checkout if possible. Its configuration can't start programs.

    Raises:
        GitError: Git failed.
        OSError: The repository does not exist any more.
    """
    status, user = (top / ".git").stat(), os.geteuid()
    # Git runs programs that a repository's config names: one that somebody else has put into the directory is not
    # asked.
    if status.st_uid not in {top.stat().st_uid, user, 0}:
        raise GitError(f"The git repository {top} belongs to another user than its directory.")
    environment = {"PATH": os.environ.get("PATH", os.defpath), **ENVIRONMENT, **_OWN_RULES_ONLY}
    # As the checkout's owner first: as root, git would trust the config that this user has written.
    owners = [None] if user != 0 or status.st_uid == 0 else [(status.st_uid, status.st_gid), None]
    for last, owner in enumerate(owners, 1 - len(owners)):
        try:
            out = run_git(
                arguments,
                cwd=top,
                environment={**environment, "GIT_LITERAL_PATHSPECS": literal},
                config=(*CONFIG, ("safe.directory", str(top))),
                owner=owner,
                timeout=timeout,
                ok=ok,
            )
            return [os.fsdecode(line) for line in out.split(b"\0") if line]
        except GitTimeout:
            raise
        except GitError:
            if last == 0:
                raise
    raise AssertionError("unreachable")


def only_tracked_files(folder: Path, skip: frozenset[Path]) -> bool:
    """Whether untracked files of a directory are skipped: a virtual environment, `node_modules` ..."""
    # A virtual environment has any name; pyvenv.cfg is in each since PEP 405.
    return folder.name in _NEVER or folder in skip or os.path.lexists(folder / "pyvenv.cfg")


class _TrackedOnly:
    """The directories whose untracked files are skipped. Caches its answers."""

    def __init__(self, directory: Path, skip: frozenset[Path]) -> None:
        self._directory = directory
        self._skip = skip
        self._cache = {"": False}

    def contains(self, folder: str) -> bool:
        """Whether a directory is one of them, or inside one of them."""
        if folder not in self._cache:
            parent = folder.rpartition("/")[0]
            path = self._directory / folder
            self._cache[folder] = self.contains(parent) or only_tracked_files(path, self._skip)
        return self._cache[folder]


def _walk(listing: Listing, directory: Path, skip: frozenset[Path]) -> None:
    """Adds the content of a directory without git's ignore rules."""
    for folder, names, files in os.walk(directory, onerror=listing.unreadable.append):
        subdirectories = []
        for name in sorted([*names, *files]):
            path = Path(folder, name)
            relative = path.relative_to(directory).as_posix()
            if path.is_symlink():
                listing.links.append(relative)
            elif name not in names:
                listing.add_file(relative)
            elif only_tracked_files(path, skip):
                continue
            # Listed by git on its own, with its own rules.
            elif os.path.lexists(path / ".git"):
                listing.repositories.append(relative)
            else:
                subdirectories.append(name)
        names[:] = subdirectories


_MOST_FILES = 2_000
_KEYS = re.compile(rb'"(?:eval_cases|evalCases|expected_tool_use)"\s*:\s*(?:\[|null)')
"""What only eval files have: sets in both spellings, and lists of turns. Others have the words, e.g. JSON Schemas."""


def reasons(root: Path, directories: list[Path], skip: frozenset[Path]) -> Iterator[str]:
    """Sentences about agents that were named instead, and about files that look like eval files but were not found.

    Args:
        root: The repository.
        directories: The searched directories.
        skip: Directories not to search.
    """
    for agent in (path for path in directories if path != root and (path / "agent.py").is_file()):
        name = name_of(agent, root)
        yield f"`{name}` is an agent: `agent-eval run --agent {name}` runs the eval files of the repository on it."
    # A bound: this only looks for advice after nothing was found.
    files = list(islice((path for folder in directories for path in _json_files(folder, skip)), _MOST_FILES))
    for path in (path for path in files if path.name.endswith(SUFFIXES)):
        if (rule := ignored_by(path)) is not None:
            yield f"Git ignores `{name_of(path, root)}`: remove the pattern ({rule}), or name the path."
            return  # Usually the rule covers the others, too, and files with other names are probably recordings.
    lacking = [path for path in files if not path.name.endswith(SUFFIXES) and looks_like_evals(path)]
    if any(_MISNAMED.search(path.stem) for path in lacking):
        # Others may be recordings, which have the keys, too; not evalset.json, which is the end alone.
        lacking = [path for path in lacking if _MISNAMED.search(f"x_{path.stem}")]
    if lacking:
        names = listed([f"`{name_of(path, root)}`" for path in lacking], 3)
        what = "looks like an eval file" if len(lacking) == 1 else "look like eval files"
        todo = advice(lacking[0], "it" if len(lacking) == 1 else "them")
        yield f"{names} {what}: {todo[0].lower()}{todo[1:]}."
    if others := [path for path in files if in_dataset_folder(name_of(path, root)) and path not in lacking]:
        names = listed([f"`{name_of(path, root)}`" for path in others], 3)
        yield f"{names}: write the cases as a list `eval_cases`, without which agents-cli does not read a file either."


def _json_files(directory: Path, skip: frozenset[Path]) -> Iterator[Path]:
    for folder, folders, files in os.walk(directory):
        folders[:] = sorted(name for name in folders if not only_tracked_files(Path(folder, name), skip))
        yield from (Path(folder, name) for name in sorted(files) if name.endswith(".json"))


_MISNAMED = re.compile(r"(?<=.)[._-](tests?|eval_?sets?|evals?)$", re.IGNORECASE)
"""The end of a stem that was to be `.test` or `.evalset`."""
_BARE_CASES = re.compile(r'\s*(?:\[\s*)?\{\s*"eval_?[iI]d"')
"""The beginning of a single case, or of a list of them, which ADK does not read."""


def advice(path: Path, them: str) -> str:
    """What to do, so that an eval file is found."""
    text = read_regular(path, MAX_SETTINGS).decode("utf-8", "replace")
    if is_dataset_text(text):
        return f"For agents-cli's datasets, move {them} below `{'/'.join(DATASETS)}/`, name the path"
    name = unbroken(harmless(path.name.partition(".")[0])) or "cases"
    if misnamed := _MISNAMED.search(path.stem):
        kind = "test" if misnamed[1].lower().startswith("test") else "evalset"
        name = f"{unbroken(harmless(path.stem[: misnamed.start()]))}.{kind}.json"
    else:
        name += SUFFIXES[1]
    wrap = ', and write {"eval_set_id": "...", "eval_cases": [...]} around its cases' if _BARE_CASES.match(text) else ""
    return f"Rename {them}, e.g. to `{name}`{wrap}"


def looks_like_evals(path: Path) -> bool:
    """Whether a file has the keys that only eval files have."""
    return contains(path, _KEYS)


def contains(path: Path, pattern: re.Pattern[bytes]) -> bool:
    """Whether a pattern is in a file; false if it can't be read."""
    try:
        return pattern.search(read_regular(path, MAX_SETTINGS)) is not None
    except OSError:
        return False
