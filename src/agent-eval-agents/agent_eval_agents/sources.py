"""The files that an agent may read: a resumed run takes over the answers of equal files only, and so does a merge."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Collection, Iterator
from pathlib import Path

from agent_eval_scoring.core.git_process import GitError
from agent_eval_scoring.core.text import carriable
from agent_eval_scoring.evalset.discovery import git_lines

_NOT_SOURCES = (".test.json", ".tape.json", ".evalset.json", "test_config.json", "eval_config.json")
_WRITTEN = (".pyc", ".log", ".db", ".sqlite", ".sqlite3", "-journal", "-wal", "-shm")
_NOISE = {"__pycache__", "node_modules", ".git", ".hg", ".svn", ".venv", "venv", ".tox", ".nox", ".adk", ".cache"}
_NOISE |= {".mypy_cache", ".ruff_cache", ".pytest_cache"}
"""What a run writes, or nobody: files and folders that don't count unless git tracks them."""
_DOTENV = (".env", ".env.local")
"""They count although git ignores them."""
WHOLE = "."
"""The checkout among the paths of `uncommitted_files`."""
_RESULTS, _MOST_NAMED = "/results.json", 500
_LINK, _REPOSITORY = "120000", "160000"
_MOST_READ, _LARGEST = 5_000, 20_000_000
"""Of further files, and of larger ones, only size and time of change count, unless git has their hash."""


def source_fingerprint(root: Path, directory: Path | None, *, skip: Collection[Path] = ()) -> str:
    """A hash of the files an agent may import or read, so that a resumed run doesn't reuse answers of other code.

    An agent may read any file of its repository, so this covers the whole checkout: what git does not ignore, with
    submodules, and `.env` files. Without git: all files but well-known noise.

    Args:
        root: The checkout.
        directory: The agent's directory; None if it has no source here.
        skip: Directories to leave out, e.g. the output directory.
    """
    digest = hashlib.sha256()
    if directory is None:
        return digest.hexdigest()[:16]
    root, directory = root.resolve(), directory.resolve()
    read = 0
    for top in (root,) if directory.is_relative_to(root) else (root, directory):
        for name, blob in _sources(top, skip):
            read += not blob
            digest.update(_line(name, blob or _blob(top / name, read)))
    return digest.hexdigest()[:16]


def uncommitted_files(root: Path, *, skip: Collection[Path] = ()) -> dict[str, str]:
    """Short hashes of what `source_fingerprint` reads in a checkout, which other machines can compare with theirs.

    Args:
        root: The checkout.
        skip: Directories to leave out, e.g. the output directory.

    Returns:
        By path those of the first 500 files that git has no hash of, and of `.env` files; `WHOLE` has that of all files
        but `.env` and, of untracked ones, all but Python code: the agent may or may not read what else a job writes.
        Directories with a `results.json` are left out. Nothing where git can't say what it ignores.
    """
    root = root.resolve()
    try:
        list(_in_git(root))
    except (GitError, OSError):
        return {}
    files = list(_sources(root, skip))
    results = tuple(name[: -len(_RESULTS)] + "/" for name, blob in files if not blob and name.endswith(_RESULTS))
    digest, found, read = hashlib.sha256(), dict[str, str](), 0
    for name, blob in files:
        if name.startswith(results) and not blob:
            continue
        read += not blob
        # The time of a change says nothing on another machine.
        content = blob or _blob(root / name, read).partition(" ")[0]
        if not is_dotenv(name) and (blob is not None or name.endswith(".py")):
            digest.update(_line(name, content))
        if is_dotenv(name) or (not blob and len(found) < _MOST_NAMED):
            found[carriable(name)] = short_hash(content)
    return {WHOLE: digest.hexdigest()[:16], **found}


def is_dotenv(name: str) -> bool:
    """Whether a file has variables for an agent."""
    return name.rpartition("/")[2] in _DOTENV


def short_hash(text: str) -> str:
    """Enough to see a difference, too little to guess a text by."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:4]


def _sources(top: Path, skip: Collection[Path]) -> Iterator[tuple[str, str | None]]:
    left_out = tuple(f"{os.path.relpath(path.resolve(), top)}/" for path in skip)
    for name, blob in sorted(_files(top).items()):
        if not name.endswith(_NOT_SOURCES) and not name.startswith(left_out):
            yield name, blob


def _line(name: str, content: str) -> bytes:
    return f"{name}\0{content}\0".encode("utf-8", "surrogateescape")


def _files(top: Path) -> dict[str, str | None]:
    """The files below a directory, with git's hashes; "" where git has none, None for untracked ones."""
    if top.is_file():  # An archive of modules.
        return {"": ""}
    try:
        files = dict(_in_git(top)) or dict.fromkeys(_walked(top), "")  # Git may ignore all of it.
    except (GitError, OSError):
        files = dict.fromkeys(_walked(top), "")
    folders = {name.rpartition("/")[0] for name in files}
    dotenv = (f"{folder}/{name}".lstrip("/") for folder in {"", *folders} for name in _DOTENV)
    return {**{name: "" for name in dotenv if Path(top / name).is_file()}, **files}


def _in_git(top: Path) -> Iterator[tuple[str, str | None]]:
    repository = next((folder for folder in (top, *top.parents) if (folder / ".git").exists()), None)
    if repository is None:
        raise GitError("This is no repository.")
    inside = top.relative_to(repository).as_posix()
    before = 0 if inside == "." else len(inside) + 1
    tracked = set()
    for line in git_lines(repository, "ls-files", "-s", "-z", "--", inside):
        facts, _, path = line.partition("\t")
        mode, blob = facts.split()[:2]
        name = path[before:]
        tracked.add(name)
        if mode == _REPOSITORY and not (top / name / ".git").exists():
            yield name, blob  # It is not checked out: git would list the folder's own repository again, endlessly.
        elif mode == _REPOSITORY:
            yield from ((f"{name}/{inner}", each) for inner, each in _files(top / name).items())
        else:
            yield name, "" if mode == _LINK else blob
    for path in git_lines(repository, "ls-files", "-m", "-o", "--exclude-standard", "-z", "--", inside):
        name = path[before:]
        if name.endswith("/"):  # A repository of its own.
            yield from ((f"{name}{inner}", each) for inner, each in _files(top / name).items())
        elif not Path(top / name).is_dir() and (name in tracked or not _is_noise(name)):
            yield name, "" if name in tracked else None


def _walked(top: Path) -> Iterator[str]:
    for folder, subfolders, names in os.walk(top):
        is_environment = "pyvenv.cfg" in names
        subfolders[:] = [name for name in subfolders if name not in _NOISE and not is_environment]
        if not is_environment:
            files = (Path(folder, name).relative_to(top).as_posix() for name in names)
            yield from (name for name in files if not _is_noise(name) and Path(top / name).is_file())


def _is_noise(name: str) -> bool:
    # google-github-actions/auth writes its file, of another name in each job, into the checkout.
    return name.endswith(_WRITTEN) or name.startswith("gha-creds-") or not _NOISE.isdisjoint(name.split("/"))


def _blob(path: Path, number: int) -> str:
    """The hash that git has of a file's content; of a link the content that it leads to."""
    with contextlib.suppress(OSError):
        facts = path.stat()
        if number > _MOST_READ or facts.st_size > _LARGEST:
            return f"{facts.st_size} {facts.st_mtime_ns}"
        if path.is_file():
            data = path.read_bytes()
            return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
        return str(path.readlink())
    return ""  # A dangling link, or a file that the agent can't read either.
