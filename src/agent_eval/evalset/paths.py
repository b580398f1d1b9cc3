"""How files are called in everything that we tell."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from agent_eval.core.problem import Problem, Severity


def absolute(path: Path) -> Path:
    """Without `..`, but with links as they are: a file is reported by the name that the user knows."""
    return Path(os.path.abspath(path))  # noqa: PTH100


def name_of(path: Path, root: Path) -> str:
    r"""A path relative to the root, with forward slashes; it begins with `..` if it lies outside.

    Bytes that are no UTF-8 are written as `\xff`: a report can't carry them.
    """
    name = Path(os.path.relpath(path, root)).as_posix()
    return name if is_utf8(name) else os.fsencode(name).decode("utf-8", "backslashreplace")


def is_utf8(name: str) -> bool:
    """Whether a name of a file, as Python has it, consists of characters."""
    return name.isascii() or not any("\ud800" <= char <= "\udfff" for char in name)


def repository_of(directory: Path) -> Path | None:
    """The root of the git repository that an absolute directory is in; None if it is in none."""
    return next((folder for folder in (directory, *directory.parents) if os.path.lexists(folder / ".git")), None)


def searched(root: Path) -> str:
    """What a search of the root covers, for a message: it may be a part of a repository only."""
    root = absolute(root)
    top = repository_of(root)
    if top is None or top == root:
        return "the repository"
    return f"`{name_of(root, top)}/` of the repository {top}, where agent-eval was started"


def dangling_link(link: Path, root: Path) -> Problem:
    """The error about a symbolic link that leads to no file."""
    target = f"{os.readlink(link)}, which does not exist"  # noqa: PTH115
    try:
        link.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            target = "itself"
    return Problem(
        severity=Severity.ERROR,
        code="dangling-link",
        message=f"The symbolic link leads to {target}.",
        hint="Commit what it leads to, check out the submodule that holds it, or remove the link.",
        file=name_of(link, root),
    )
