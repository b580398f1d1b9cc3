"""Values of calls and responses, in the form in which runs are compared."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

_DEEPEST = 30
_MOST_WORDS = 12
_ERROR = 200
LONGEST = 2_000
"""Characters of a value in the results."""

_CHANGING = re.compile(
    r"(?P<id>\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b|\b(?=[a-f]*[0-9])[0-9a-f]{12,}\b)"
    r"|(?P<time>\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)",
    re.IGNORECASE,
)
_IN_ERROR = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\d+(?:\.\d+)?")
_WORD = re.compile(r"[^\W_]+(?:['’.,:-][^\W_]+)*|[°%€$£]")


def plain_text(text: str) -> str:
    """White space folded, ids and times replaced."""
    return _CHANGING.sub(lambda match: f"<{match.lastgroup}>", " ".join(text.split()))


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
    return tuple(sorted(name for name in {*one, *other} if one.get(name, missing) != other.get(name, missing)))


def only_adds(one: Any, other: Any) -> bool:
    """Whether the other value is the first one with more names: what read the first finds the same in it."""
    if not isinstance(one, dict) or not isinstance(other, dict) or error_in(other) is not None:
        return False
    return bool(one) and all(name in other and other[name] == value for name, value in one.items())


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


def word_changes(old: str, new: str) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The words that are only in the old text, and only in the new one; None for none or too many."""
    before, after = words(old), words(new)
    was, now = set(before), set(after)
    gone = tuple(dict.fromkeys(word for word in before if word not in now))
    fresh = tuple(dict.fromkeys(word for word in after if word not in was))
    return (gone, fresh) if 0 < len(gone) + len(fresh) <= 2 * _MOST_WORDS else None
