"""Names of files in reports."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from agent_eval_scoring.core.problem import Problem


def absolute(path: Path) -> Path:
    """An absolute path without `..`. Symbolic links are kept, so that reports have the names that users know."""
    return Path(os.path.abspath(path))  # noqa: PTH100


def name_of(path: Path, root: Path) -> str:
    r"""A path relative to the root, with forward slashes; it starts with `..` if it is outside the root.

    Bytes that are not UTF-8 are written as `\xff`.
    """
    name = Path(os.path.relpath(path, root)).as_posix()
    return name if is_utf8(name) else os.fsencode(name).decode("utf-8", "backslashreplace")


def is_utf8(name: str) -> bool:
    """Whether a file name from Python's file system functions is valid UTF-8."""
    return name.isascii() or not any("\ud800" <= char <= "\udfff" for char in name)


def repository_of(directory: Path) -> Path | None:
    """The root of the git repository of an absolute directory; None if there is no repository."""
    return next((folder for folder in (directory, *directory.parents) if os.path.lexists(folder / ".git")), None)


def searched(root: Path) -> str:
    """The searched directory, for messages: the repository, or a subdirectory of it."""
    root = absolute(root)
    top = repository_of(root)
    if top is None or top == root:
        return "the repository"
    return f"`{name_of(root, top)}/` of the repository {top}, where agent-eval was started"


def dangling_link(link: Path, root: Path) -> Problem:
    """The error for a broken symbolic link."""
    target = f"{os.readlink(link)}, which does not exist"  # noqa: PTH115
    try:
        link.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            target = "itself"
    return Problem(
        code="dangling-link",
        message=f"The symbolic link points to {target}.",
        hint="Commit its target, check out the submodule that contains it, or remove the link.",
        file=name_of(link, root),
    )
