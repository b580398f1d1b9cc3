"""Values of calls and responses, in the form in which runs are compared."""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Iterable, Sequence, Set
from itertools import groupby
from typing import Any

_DEEPEST = 30
_MOST_COMPARED = 400
"""Words of an answer."""
_ERROR = 200
Path = tuple[str | int, ...]
"""Names and numbers that lead to a value in another."""
LONGEST = 2_000
"""Characters of a value in the results."""

_CHANGING = re.compile(
    r"(?P<id>\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b|\b(?=[a-f]*[0-9])[0-9a-f]{12,}\b)"
    r"|(?P<time>\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)",
    re.IGNORECASE,
)
_MAY_CHANGE = re.compile(r"[\d-]")
"""Is in all of these."""
_IN_ERROR = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\d+(?:\.\d+)?")
_WORD = re.compile(r"[^\W_]+(?:['’.,:-][^\W_]+)*|[°%€$£]")


def plain_text(text: str) -> str:
    """White space folded, ids and times replaced."""
    folded = " ".join(text.split())
    return _CHANGING.sub(lambda match: f"<{match.lastgroup}>", folded) if _MAY_CHANGE.search(folded) else folded


def normal(value: Any, depth: int = 0) -> Any:
    """A value without what changes from run to run. Equal values are equal Python objects."""
    if depth > _DEEPEST:
        return "…"
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, dict):
        return {str(key): normal(value[key], depth + 1) for key in sorted(value, key=str)}
    if isinstance(value, list | tuple):
        return [normal(item, depth + 1) for item in value]
    return value


def is_empty(response: Any) -> bool:
    """Whether a response has nothing in it: no value, or only empty ones. Its `status` and counts of 0 don't count."""
    if isinstance(response, dict):
        values = [item for key, item in response.items() if key != "status"]
        return all(is_empty(item) or (item == 0 and type(item) is int) for item in values) and (
            not values or any(map(is_empty, values))
        )
    return response is None or response == "" or response == []


def error_in(response: Any) -> str | None:
    """The text of a response that reports an error; None for any other response."""
    if not isinstance(response, dict):
        return None
    error = response.get("error")
    failed = str(response.get("status", "")).casefold() in {"error", "failed", "failure"} or response.get("isError")
    if not error and failed:
        error = next((response[key] for key in ("error_message", "message", "content") if response.get(key)), response)
    if not error:
        return None
    return error if isinstance(error, str) else json_text(error)


def error_key(text: str) -> str:
    """An error without what differs between calls."""
    return _IN_ERROR.sub("*", plain_text(text[: 4 * _ERROR]))[:_ERROR]


def differing(one: Any, other: Any) -> tuple[str, ...]:
    """The top-level names in which two values differ; none for values without names."""
    if not isinstance(one, dict) or not isinstance(other, dict):
        return ()
    missing = object()
    pairs = ((name, one.get(name, missing), other.get(name, missing)) for name in {*one, *other})
    return tuple(sorted(name for name, *sides in pairs if sides[0] != sides[1] or type(sides[0]) is not type(sides[1])))


def leaves(value: Any, path: Path = ()) -> dict[Path, Any]:
    """The values in a value, by where they are."""
    if isinstance(value, dict | list) and value and len(path) < _DEEPEST:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return {place: leaf for key, item in items for place, leaf in leaves(item, (*path, key)).items()}
    return {path: value}


def changed_leaves(old: Any, new: Any) -> tuple[dict[Path, Any], dict[Path, Any]]:
    """What a response no longer has, and what is new in it. Of a value that is another now only the new one counts."""
    before, after = leaves(old), leaves(new)
    kept = list(after.values()) if len(before) > len(after) else None  # a shorter list
    gone = {
        path: leaf
        for path, leaf in before.items()
        if not is_empty(leaf)
        and (path not in after or is_empty(after[path]) or (kept is not None and leaf not in kept))
    }
    return gone, {path: leaf for path, leaf in after.items() if path not in before or before[path] != leaf}


def mentions(said: Sequence[str], value: Any) -> bool:
    """Whether words have a value in them: as words in a row, or as a number that is rounded as it is there."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return any(_is_rounded(word, abs(value)) for word in said if word[0].isdigit())
    looked_for = words(value) if isinstance(value, str) else []
    return bool(looked_for) and f" {' '.join(looked_for)} " in f" {' '.join(said)} "


def _is_rounded(word: str, number: float) -> bool:
    try:
        plain = word.replace(",", "")
        return abs(float(plain) - number) <= 0.5000001 * 10.0 ** -len(plain.partition(".")[2])
    except (OverflowError, ValueError):
        return False


def json_text(value: Any) -> str:
    """A value for the results, at most 2,000 characters."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (RecursionError, TypeError, ValueError):
        text = "…"
    return cut(text)


def cut(text: str) -> str:
    """At most 2,000 characters."""
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def digest(text: str) -> str:
    """A short key for a text of any length."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def words(text: str) -> list[str]:
    """The words of a text, in order."""
    return _WORD.findall(text.casefold())


def word_changes(old: Sequence[str], new: Sequence[str]) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Where words differ: those that are gone and the new ones in their place."""
    if max(len(old), len(new)) > _MOST_COMPARED:
        return []
    blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [(tuple(old[a:b]), tuple(new[c:d])) for kind, a, b, c, d in blocks if kind != "equal"]


def phrases(
    changes: Iterable[tuple[Sequence[str], Sequence[str]]], variable: Set[str]
) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """What differs in the words of answers to several questions, the longest first: without numbers and what responses
    say. One word more or less is no phrase, unless nothing else differs.
    """
    changes, found = list(changes), []
    for gone, new in changes:
        parts = [_fixed(gone, variable), _fixed(new, variable)]
        if parts == [[tuple(gone)] if gone else [], [tuple(new)] if new else []]:
            found.append((tuple(gone), tuple(new)))
        else:
            found += [(part, ()) for part in parts[0] if not new] + [((), part) for part in parts[1]]
    long = [pair for pair in found if len(pair[0]) + len(pair[1]) > 1]
    return sorted(long or found[: len(changes) == 1], key=lambda pair: -len(pair[0]) - len(pair[1]))


def _fixed(said: Iterable[str], variable: Set[str]) -> list[tuple[str, ...]]:
    runs = groupby(said, key=lambda word: word in variable or any(map(str.isdigit, word)))
    return [tuple(run) for is_variable, run in runs if not is_variable]
