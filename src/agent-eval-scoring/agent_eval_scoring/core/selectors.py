"""`file.json:case1,case2`: which files to take, and which of their cases."""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from agent_eval_scoring.core.patterns import PathPatterns, glob

GLOB = frozenset("*?[")
"""What makes a path a glob, if nothing is called like that."""
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")


@dataclass(frozen=True, kw_only=True)
class Selector:
    """One thing that the user named on the command line."""

    path: str
    """A file or a directory, as written."""
    ids: tuple[str, ...] = ()
    """Eval ids or globs of them; none for all cases."""


def parse_selector(text: str, exists: Callable[[str], bool]) -> Selector:
    """Splits a selector into path and ids.

    A path that exists is a path, whatever colons it has. Otherwise the longest path that exists and is followed by a
    colon counts; if there is none, the text is split at its first colon, as in ADK. A Windows drive's colon never
    splits.

    Args:
        text: What the user wrote.
        exists: Whether a path exists.
    """
    if exists(text):
        return Selector(path=text)
    start = 2 if _DRIVE.match(text) else 0
    colons = [match.start() for match in re.finditer(":", text) if match.start() >= start]
    if not colons:
        return Selector(path=text)
    colon = next((at for at in reversed(colons) if exists(text[:at])), colons[0])
    ids = tuple(dict.fromkeys(part.strip() for part in text[colon + 1 :].split(",") if part.strip()))
    # As no path, a colon without ids is an error. (ADK runs all cases: an empty variable would select everything.)
    return Selector(path=text[:colon], ids=ids) if ids else Selector(path=text)


def matches(pattern: str, eval_id: str) -> bool:
    """Whether an id or a glob names a case. An id that happens to look like a glob names itself."""
    return pattern == eval_id or fnmatchcase(eval_id, pattern)


def select(ids: Sequence[str], patterns: Iterable[str]) -> set[str]:
    """The ids that any of the patterns names."""
    globs = list(patterns)
    return {eval_id for eval_id in ids if any(matches(pattern, eval_id) for pattern in globs)}


def nearby(value: str, candidates: Iterable[str], count: int = 3, cutoff: float = 0.6) -> list[str]:
    """The known names that look most like a value, the likeliest first, else as they come.

    Args:
        value: What was written.
        candidates: Names that could have been meant.
        count: How many to return at most.
        cutoff: How alike they must be, 0..1.
    """
    matcher = difflib.SequenceMatcher(b=value.casefold())
    ranked = []
    for order, name in enumerate(dict.fromkeys(candidates)):
        matcher.set_seq1(name.casefold())
        if matcher.real_quick_ratio() >= cutoff and matcher.quick_ratio() >= cutoff:
            ratio = matcher.ratio()
            if ratio >= cutoff:
                ranked.append((-ratio, order, name))
    return [name for _, _, name in sorted(ranked)[:count]]


def nearby_file(path: Path, cutoff: float = 0.6) -> str | None:
    """The name of the file beside a path that does not exist which was most likely meant; None for no idea."""
    with contextlib.suppress(OSError, ValueError):
        names = sorted(other.name for other in path.parent.iterdir() if other.name != path.name)
        return next(iter(nearby(path.name, names, 1, cutoff)), None)
    return None


def covers(targets: Sequence[tuple[str, Sequence[str]]], exclude: Sequence[str]) -> Callable[[str], bool]:
    """Makes a function that says whether a selection takes a case, whether or not the case's file exists.

    Args:
        targets: Files, directories and globs, relative to the root, each with eval ids or globs of them (none: all
            cases). Without any target: the root.
        exclude: Patterns of files.

    Returns:
        A function of a case id, FILE:EVAL_ID.
    """
    excluded = PathPatterns(exclude)
    paths = [(path, glob(path) if GLOB & set(path) else None, tuple(ids)) for path, ids in targets or [(".", ())]]

    def takes(file: str, eval_id: str) -> bool:
        filtered = excluded.match(file)
        # As discovery does it: where one target takes all cases of a file and another some, these are taken.
        named, globs = False, list[str]()
        for path, expression, ids in paths:
            is_found = path == "." or file.startswith(f"{path}/") or (expression and expression.fullmatch(file))
            if file == path or (is_found and not filtered):
                named = True
                globs += ids
        return named and (not globs or any(matches(glob, eval_id) for glob in globs))

    def function(case_id: str) -> bool:
        # A colon may be part of the file's name or of the id; no file is called like that in practice.
        parts = (match.start() for match in re.finditer(":", case_id))
        return any(takes(case_id[:at], case_id[at + 1 :]) for at in parts)

    return function
