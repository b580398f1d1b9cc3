"""Converts what a user writes for a setting to its value. Each raises ValueError: `ExpectedError`, or a clause."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from agent_eval_scoring.core.errors import AgentEvalError

if TYPE_CHECKING:
    from agent_eval_results import BaselineSource


class ExpectedError(AgentEvalError, ValueError):
    """A value has another form than the expected one, e.g. `a whole number, at least 1`."""

    def __init__(self, form: str) -> None:
        super().__init__(f"must be {form}")
        self.form = form


def choice(choices: tuple[str, ...], value: str) -> str:
    """One of these words."""
    if value.strip() not in choices:
        raise ExpectedError(" or ".join(choices))
    return value.strip()


def some_of(*choices: str) -> Callable[[str], frozenset[str]]:
    """Any of these words, separated by commas."""

    def parse(value: str) -> frozenset[str]:
        chosen = frozenset(value.replace(",", " ").split())
        if not chosen <= {*choices}:
            raise ExpectedError(f"some of {', '.join(choices)}")
        return chosen

    return parse


def text(value: str) -> str | None:
    """A text without the blanks around it; None if it is empty."""
    return value.strip() or None


def path(value: str) -> Path | None:
    """A path; None for an empty text."""
    return Path(value.strip()) if value.strip() else None


def words(value: str) -> tuple[str, ...]:
    """Splits a text into values as a shell does."""
    try:
        return tuple(shlex.split(value))
    except ValueError as error:
        raise ValueError(f"a quotation mark is not closed ({error})") from error


def switch(value: str) -> bool:
    """`true` or `false`."""
    word = value.strip().lower()
    if word not in {"true", "false"}:
        raise ExpectedError("true or false")
    return word == "true"


def count(low: int) -> Callable[[str], int]:
    """A whole number from `low` up."""

    def parse(value: str) -> int:
        if not re.fullmatch(r"\s*\d{1,9}\s*", value) or int(value) < low:
            raise ExpectedError(f"a whole number, at least {low}")
        return int(value)

    return parse


def auto(value: str) -> int | None:
    """A whole number from 1 up; None for `auto`."""
    try:
        return None if value.strip() == "auto" else count(1)(value)
    except ExpectedError as error:
        raise ExpectedError(f"auto or {error.form}") from None


def optional(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """The value of another parser; None for an empty text."""
    return lambda value: parse(value) if value.strip() else None


def _number(what: str, is_valid: Callable[[float], bool]) -> Callable[[str], float]:
    def parse(value: str) -> float:
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not is_valid(number):  # No comparison with NaN is true.
            raise ExpectedError(f"a number {what}")
        return number

    return parse


seconds = _number("of seconds above 0", lambda number: 0 < number <= 1e9)
dollars = _number("of US dollars above 0", lambda number: 0 < number <= 1e9)
rate = _number("from 0 to 1", lambda number: 0 <= number <= 1)


def variables(value: str) -> str | None:
    """Names and globs of environment variables, for `agent-env`."""
    from agent_eval_agents.sandbox import allow_list

    allow_list(text(value))
    return text(value)


def headers(value: str) -> Mapping[str, str]:
    """HTTP headers, one on each line."""
    if not value.strip():
        return {}
    from agent_eval_agents.http import parse_headers

    return parse_headers(value)


def directory(value: str) -> Path:
    """A directory. An empty value is an error."""
    if not value.strip():
        raise ValueError("must name a directory")
    return Path(value.strip())


def directory_name(value: str) -> str:
    """`directory` as a text."""
    return str(directory(value))


MOST_PARTS = 256
"""The most jobs of a matrix on GitHub (docs.github.com, usage limits of GitHub Actions, 2026)."""


@dataclass(frozen=True, kw_only=True)
class Shard:
    """One part of a suite, `I/N`."""

    index: int
    """From 1."""
    total: int

    def __str__(self) -> str:
        return f"{self.index}/{self.total}"


def part(value: str) -> Shard | None:
    """I/N of `shard`, with 1 <= I <= N <= 256; None for an empty text."""
    if not value.strip():
        return None
    match = re.fullmatch(r"\s*(\d{1,3})/(\d{1,3})\s*", value)
    if match is None or not 1 <= int(match[1]) <= int(match[2]) <= MOST_PARTS:
        raise ValueError(f"must be I/N with 1 <= I <= N <= {MOST_PARTS}, e.g. 2/5, not `{value}`")
    return Shard(index=int(match[1]), total=int(match[2]))


def baseline(value: str) -> str:
    """Sources of the base branch's results, see `parse_order`."""
    parse_order(value)
    return value.strip()


def identifier(value: str) -> str:
    """A name that is safe in a file name, a URL and an HTML comment; may be empty."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}|", value.strip()):
        raise ExpectedError("letters, digits, dots, dashes and underscores, at most 100")
    return value.strip()


SOURCES = "artifact, file:PATH, rerun"
"""Where the base branch's results can come from, as users write it."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A requested source."""

    source: BaselineSource
    path: str | None = None
    """PATH of `file:PATH`: relative to the repository root, with forward slashes."""


AUTO: tuple[Choice, ...] = (Choice(source="artifact"),)
"""Without `rerun`, which runs the whole suite a second time and costs as much."""


def parse_order(text: str) -> tuple[Choice, ...]:
    """Parses the setting `baseline`.

    Args:
        text: `auto`, `none`, or a comma list of `artifact`, `file:PATH` and `rerun`.

    Returns:
        The sources in order; empty for `none`.

    Raises:
        ValueError: Invalid text, a repeated source, or a PATH outside the repository.
    """
    words = [word.strip() for word in text.split(",")]
    if words == ["auto"]:
        return AUTO
    if words == ["none"]:
        return ()
    choices = tuple(_choice(word) for word in words)
    if len(set(choices)) < len(choices):
        raise ValueError("must name each source once")
    return choices


def _choice(word: str) -> Choice:
    if word == "artifact":
        return Choice(source="artifact")
    if word == "rerun":
        return Choice(source="rerun")
    if word.startswith("file:"):
        path = PurePosixPath(word.removeprefix("file:").strip())
        if path.is_absolute() or ".." in path.parts or path == PurePosixPath():
            raise ValueError("must be file:PATH with a path inside the repository, e.g. file:evals/baseline.json")
        return Choice(source="file", path=path.as_posix())
    raise ValueError(
        f"must be auto, none, or sources in order, separated by commas: {SOURCES}; not `{word}`. "
        "To compare with a branch: `--base-ref BRANCH --baseline rerun`"
    )
