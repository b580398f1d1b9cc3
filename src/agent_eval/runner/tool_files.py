"""The files on which recorded answers of tools depend, as they are now."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from agent_eval.agents.tapes import Tape, ToolRules
from agent_eval.core.files import MAX_TEXT, read_regular
from agent_eval.core.git_process import CONFIG, ENVIRONMENT, KEPT, GitError, run_git
from agent_eval.core.patterns import PathPatterns
from agent_eval.core.text import listed

_SECONDS = 60.0
NO_FILES = hashlib.sha256().hexdigest()[:16]
"""`hash_of_files` of nothing."""


class ToolFiles:
    """Hashes of files in a repository; each is computed once."""

    def __init__(self, root: Path, skip: Sequence[Path] = ()) -> None:
        """Describes the repository.

        Args:
            root: Its directory.
            skip: Directories that patterns never cover, e.g. the output directory.
        """
        self._root = root
        self._skip = skip
        self._patterns: dict[tuple[str, ...], str] = {}
        self._sources: dict[tuple[str, ...], str] = {}
        self._data: dict[str, str] = {}

    def of_patterns(self, patterns: Sequence[str]) -> str:
        """Hash of the files that match the patterns of `depends`."""
        key = tuple(patterns)
        if key not in self._patterns:
            self._patterns[key] = hash_of_files(self._root, patterns, skip=self._skip)
        return self._patterns[key]

    def of_data(self, name: str) -> str:
        """Hash of a file that a tool opens; "" if it can't be read, or git ignores it: then a run has made it."""
        if name not in self._data:
            path = self._root / name
            ours = path.resolve().is_relative_to(self._root.resolve()) and not any(
                path.resolve().is_relative_to(folder.resolve()) for folder in self._skip
            )
            self._data[name] = (
                _hash_of_sources(self._root, [name]) if ours and not _is_ignored(self._root, name) else ""
            )
        return self._data[name]

    def of_sources(self, files: Sequence[str]) -> str:
        """The hash that a host computes of the files that define a tool; "" if one of them can't be read."""
        key = tuple(files)
        if key not in self._sources:
            self._sources[key] = _hash_of_sources(self._root, files)
        return self._sources[key]


def stale_tools(tape: Tape, rules: ToolRules, files: ToolFiles) -> dict[str, str]:
    """The tools of a tape whose files have changed since it was recorded, with what changed.

    Only a run sees the rest: declarations, and the files of tools that are installed as packages.
    """
    changed: dict[str, str] = {}
    called = {call.tool for call in tape.calls}
    for key, hashes in tape.tools.items():
        tool = key if key in called else key.partition("/")[2] or key
        policy = rules.of(tool)
        if not policy.replay:
            continue
        if hashes.files and files.of_sources(hashes.files) != hashes.source:
            changed[tool] = listed(hashes.files, 3)
        elif what := hashes.changed_depends(files.of_patterns(policy.depends) if policy.depends else ""):
            changed[tool] = what
    for call in tape.calls:
        if rules.of(call.tool).replay and (what := call.changed_data(files.of_data)):
            changed.setdefault(call.tool, what)
    return changed


def _is_ignored(root: Path, name: str) -> bool:
    top = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), None)
    if top is None:
        return False
    config = (*CONFIG, ("safe.directory", str(top)))
    environment = {**{key: os.environ[key] for key in KEPT if key in os.environ}, **ENVIRONMENT}
    listing = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", name)
    try:
        return not run_git(listing, cwd=root, environment=environment, config=config, owner=None, timeout=_SECONDS)
    except GitError:
        return False


def _hash_of_sources(root: Path, files: Sequence[str]) -> str:
    contents = []
    for file in files:
        path = root / file
        if not path.resolve().is_relative_to(root.resolve()):
            return ""
        try:
            contents.append(read_regular(path, MAX_TEXT).replace(b"\r\n", b"\n"))
        except (OSError, ValueError):
            return ""
    return hashlib.sha256(b"\0".join(contents)).hexdigest()[:16]


def hash_of_files(root: Path, patterns: Sequence[str], *, skip: Sequence[Path] = ()) -> str:
    """Hash of the files below a directory that match patterns, with their names.

    Args:
        root: The directory. Hidden directories are not searched.
        patterns: Lines as in a .gitignore.
        skip: Directories to leave out.

    Raises:
        OSError: A file can't be read; `strerror` says why, and that `depends` names it.
    """
    chosen, skipped = PathPatterns(patterns), {path.resolve() for path in skip}
    digest = hashlib.sha256()
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = sorted(
            name for name in subfolders if not name.startswith(".") and Path(folder, name).resolve() not in skipped
        )
        for name in sorted(names):
            path = Path(folder, name)
            relative = path.relative_to(root).as_posix()
            if chosen.match(relative) and path.is_file():
                try:
                    content = read_regular(path, MAX_TEXT).replace(b"\r\n", b"\n")
                except OSError as error:
                    why = f"`depends` of a [[tool]] names a file that can't be read: {error.strerror}"
                    raise OSError(error.errno, why, relative) from error
                digest.update(relative.encode("utf-8", "surrogateescape") + b"\0" + content + b"\0")
    return digest.hexdigest()[:16]
