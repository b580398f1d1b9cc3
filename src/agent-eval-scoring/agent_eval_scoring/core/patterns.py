"""Patterns that match in polynomial time, whatever the text: of paths, as in a .gitignore, and bounded expressions."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable
from typing import Any

_ANY_FOLDERS = "(?:[^/]+/)*?"
_MOST_WAYS = 1_000
"""In which a bounded expression can match at one place, and characters of its longest match."""
LONGEST_WHOLE = 1_000
"""Characters of a text that is compared as a whole: what repeats without a bound can match in as many ways."""


class PathPatterns:
    """A list of .gitignore lines; the last one that matches a path decides."""

    def __init__(self, lines: Iterable[str]) -> None:
        """Compiles the lines; comments and empty lines are skipped.

        Raises:
            ValueError: A line is no pattern. The message names it.
        """
        rules = [_rule(line) for line in lines]
        self._rules = [rule for rule in reversed(rules) if rule is not None]
        self._folders = {"": False}

    def match(self, path: str, *, folder: bool = False) -> bool:
        """Whether a file, or a directory that it is in, is matched.

        Args:
            path: Relative to where the patterns start, with forward slashes.
            folder: Whether it is a directory itself.
        """
        return self._folder(path) if folder else self._folder(path.rpartition("/")[0]) or self._decides(path)

    def _folder(self, path: str) -> bool:
        cached = self._folders.get(path)
        if cached is None:
            parent = path.rpartition("/")[0]
            cached = self._folders[path] = self._folder(parent) or self._decides(path, folder=True)
        return cached

    def _decides(self, path: str, *, folder: bool = False) -> bool:
        for expression, folders_only, matched in self._rules:
            if (folder or not folders_only) and expression.fullmatch(path):
                return matched
        return False


def glob(pattern: str) -> re.Pattern[str]:
    """An expression for what a glob such as `evals/**/*.json` names itself, without what is inside of it.

    Raises:
        ValueError: It is none.
    """
    return re.compile(_expression([segment for segment in pattern.split("/") if segment not in ("", ".")], pattern))


def bounded(pattern: str, *, whole: bool = False) -> re.Pattern[str]:
    """A regular expression that no text can make slow.

    Args:
        pattern: The expression.
        whole: Whether it is only for `fullmatch`, and for texts of up to LONGEST_WHOLE characters. It may then match
            the empty text, and have two repetitions without a bound.

    Raises:
        ValueError: It is none, could match in too many ways, or matches the empty text. The message is a clause.
    """
    try:
        expression = re.compile(pattern)
        parsed = importlib.import_module("re._parser").parse(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"is no regular expression: {error}") from error
    shortest, longest = parsed.getwidth()
    if not shortest and not whole:
        raise ValueError("would match the empty text")
    most = (LONGEST_WHOLE + 1) ** 2 if whole else _MOST_WAYS
    if max(_ways(parsed, most), 0 if whole else longest) > most:
        raise ValueError("could take too long; bound what repeats, e.g. `.{1,40}` instead of `.+`")
    return expression


def _ways(parsed: Any, most: int = _MOST_WAYS) -> int:
    """In how many ways a parsed expression can match at one place, at most; about, if they are more than `most`."""
    ways = 1
    for operation, what in parsed:
        match str(operation):
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                low, high, inner = int(what[0]), min(int(what[1]), LONGEST_WHOLE), _ways(what[2], most)
                ways *= max(high - low + 1, 1) * (inner ** min(high, 20) if inner > 1 else 1)
            case "BRANCH":
                ways *= sum(_ways(branch, most) for branch in what[1])
            case "SUBPATTERN":
                ways *= _ways(what[3], most)
            case "ATOMIC_GROUP":
                ways *= _ways(what, most)
            case "ASSERT" | "ASSERT_NOT":
                ways *= _ways(what[1], most) * (1 + min(what[1].getwidth()[1], LONGEST_WHOLE))
            case "GROUPREF_EXISTS":
                ways *= _ways(what[1], most) + _ways(what[2] or (), most)
        ways = min(ways, most + 1)
    return ways


def _rule(line: str) -> tuple[re.Pattern[str], bool, bool] | None:
    """What a line matches, whether directories only, and whether a match counts or is taken back."""
    text = line.rstrip("\r\n")
    while text.endswith(" ") and not text.endswith("\\ "):
        text = text[:-1]
    if not text or text.startswith("#"):
        return None
    matched = not text.startswith("!")
    body = text if matched else text[1:]
    folders_only = body.endswith("/")
    anchored = "/" in body.rstrip("/")
    segments = [segment for segment in body.split("/") if segment]
    if not segments:
        raise ValueError(f"`{line}` names nothing; `**` is everything")
    if not anchored:
        segments.insert(0, "**")
    return re.compile(_expression(segments, line)), folders_only, matched


def _expression(segments: list[str], line: str) -> str:
    """Text between two `**` is matched as far left as it can be, which never prevents a match: no backtracking."""
    parts: list[list[str]] = [[]]
    for segment in segments:
        if segment == "**":
            parts.append([])
        else:
            parts[-1].append(_segment(segment, line))
    first, *others = parts
    middle = [part for part in others[:-1] if part]
    text = "".join(f"{segment}/" for segment in first) if others else "/".join(first)
    text += "".join(f"(?>{_ANY_FOLDERS}{'/'.join(part)}/)" for part in middle)
    if others:
        text += _ANY_FOLDERS + ("/".join(others[-1]) if others[-1] else "[^/]+")
    return text


def _segment(text: str, line: str) -> str:
    """A name: `*`, `?`, `[a-z]`, `[!a]`, and backslashes that take their meaning away."""
    pieces, at = [""], 0
    while at < len(text):
        char, at = text[at], at + 1
        if char == "*":
            if pieces[-1] or len(pieces) == 1:
                pieces.append("")
        elif char == "?":
            pieces[-1] += "[^/]"
        elif char == "[" and (end := _set_end(text, at)) is not None:
            pieces[-1] += _set(text[at:end])
            at = end + 1
        elif char == "\\":
            if at == len(text):
                raise ValueError(f"`{line}` ends in a backslash, which has nothing to escape")
            pieces[-1] += re.escape(text[at])
            at += 1
        else:
            pieces[-1] += re.escape(char)
    first, *others = pieces
    if not others:
        return first
    return first + "".join(f"(?>[^/]*?{piece})" for piece in others[:-1]) + "[^/]*" + others[-1]


def _set_end(text: str, start: int) -> int | None:
    """Where the `]` of a set is; None for a bracket that nothing closes: it means itself."""
    at = start + (text[start : start + 1] in {"!", "^"})
    at += text[at : at + 1] == "]"
    while at < len(text) and text[at] != "]":
        at += 2 if text[at] == "\\" else 1
    return at if at < len(text) else None


def _set(body: str) -> str:
    negated = body[0] in "!^"
    chars = body[negated:]
    parts, at = [], 0
    while at < len(chars):
        at += chars[at] == "\\" and at + 1 < len(chars)
        low, at = chars[at], at + 1
        if chars[at : at + 1] == "-" and at + 1 < len(chars):
            at += 1 + (chars[at + 1] == "\\" and at + 2 < len(chars))
            high, at = chars[at], at + 1
            if low <= high:
                parts.append(f"{re.escape(low)}-{re.escape(high)}")
        else:
            parts.append(re.escape(low))
    if not parts:
        return "[^/]" if negated else "(?!)"
    return f"(?!/)[{'^' if negated else ''}{''.join(parts)}]"
