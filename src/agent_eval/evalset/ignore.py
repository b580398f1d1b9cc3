"""What Git ignores: .gitignore files at every level, and .git/info/exclude."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

_BELOW = "ps_d"
"""The group in which pathspec's expressions catch the slash after what a pattern names."""


@dataclass(frozen=True, kw_only=True)
class _Level:
    """The rules of one directory."""

    base: Path
    patterns: tuple[tuple[re.Pattern[str], bool], ...]
    """From the last, which counts most, to the first: what matches, and whether it is ignored or taken back."""


class IgnoreRules:
    """The rules that hold in a directory; `within` adds those of a directory below it."""

    def __init__(self, levels: Iterable[_Level] = ()) -> None:
        self._levels = tuple(levels)

    @classmethod
    def above(cls, directory: Path, root: Path) -> IgnoreRules:
        """The rules that a directory inherits: of the repository (or else the root) it lies in, down to its parent."""
        chain = (directory, *directory.parents)
        top = next((parent for parent in chain if (parent / ".git").exists()), root)
        rules = cls()
        exclude = _read(top / ".git" / "info" / "exclude", top)
        if exclude is not None:
            rules = cls([exclude])
        for parent in reversed(directory.parents):
            if parent.is_relative_to(top):
                rules = rules.within(parent)
        return rules

    def within(self, directory: Path) -> IgnoreRules:
        """These rules and those of the directory's own .gitignore, which outweigh them."""
        level = _read(directory / ".gitignore", directory)
        return self if level is None else IgnoreRules([*self._levels, level])

    def ignores(self, path: Path, *, is_directory: bool) -> bool:
        """Whether a path is ignored, given that none of its parents is.

        The nearest .gitignore with an opinion decides; inside it, the last pattern that matches.
        """
        for level in reversed(self._levels):
            if path != level.base and path.is_relative_to(level.base):
                relative = path.relative_to(level.base).as_posix()
                for expression, ignored in level.patterns:
                    if _names(expression, relative, is_directory):
                        return ignored
        return False


def _names(expression: re.Pattern[str], relative: str, is_directory: bool) -> bool:
    """Whether a pattern names this very path, rather than a directory above it."""
    match = expression.search(relative)
    if match is not None and not match.groupdict().get(_BELOW):
        return True
    if not is_directory:
        return False
    marked = f"{relative}/"
    # The second search is for `**/`, whose expression is a bare slash.
    found = (expression.search(marked), expression.search(marked, len(relative)))
    return any(match and match.groupdict().get(_BELOW) and match.end(_BELOW) == len(marked) for match in found)


def _read(file: Path, base: Path) -> _Level | None:
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return None
    patterns = [pattern for line in reversed(lines) for pattern in _pattern(line.removesuffix("\r"))]
    return _Level(base=base, patterns=tuple(patterns)) if patterns else None


def _pattern(line: str) -> Iterable[tuple[re.Pattern[str], bool]]:
    """The pattern of a line; none for a comment, and for what Git could not read either."""
    try:
        made = GitIgnoreSpecPattern(line)
    except ValueError:
        return ()
    return [(made.regex, made.include)] if made.include is not None and made.regex is not None else ()
