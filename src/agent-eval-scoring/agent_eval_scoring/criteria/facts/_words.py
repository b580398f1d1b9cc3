"""What a text is read as, character by character, and the tables of words and patterns, read on first use."""

from __future__ import annotations

import functools
import re
import tomllib
import unicodedata
from collections.abc import Collection, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any


class _Plain(dict[int, str]):
    """Each character as it is compared: one for one, so that places stay."""

    def __missing__(self, code: int) -> str:
        digit = unicodedata.decimal(chr(code), None)
        narrow = unicodedata.normalize("NFKC", chr(code)) if 0xFF00 <= code <= 0xFFEF else chr(code)
        self[code] = str(digit) if digit is not None else narrow if len(narrow) == 1 else chr(code)
        return self[code]


_PLAIN = _Plain(zip(map(ord, "−–‒﹣٫٬٪،\u00a0\u202f\u2009’"), "----.,%,   '", strict=True))


def plain(text: str) -> str:
    """The text with ASCII digits, signs and separators, and of the same length."""
    return text if text.isascii() else text.translate(_PLAIN)


def fold(word: str) -> str:
    """A word in lower case, without accents and vowel marks; East Asian scripts keep theirs."""
    if word.isascii():
        return word.lower()
    folded = word.casefold()
    if max(folded) >= "\u2e80":
        return folded
    marked = unicodedata.normalize("NFD", folded)
    return "".join(character for character in marked if unicodedata.category(character) != "Mn")


@functools.cache
def table(name: str = "words") -> Mapping[str, Any]:
    """The content of `words.toml`, or of `patterns.toml`."""
    return tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text("utf-8"))


@functools.cache
def pattern(name: str) -> re.Pattern[str]:
    """A pattern of `patterns.toml`."""
    patterns = table("patterns")
    source = patterns[name]
    while (inner := re.sub(r"<(\w+)>", lambda match: f"(?:{patterns[match[1]]})", source)) != source:
        source = inner
    return re.compile(source, re.VERBOSE)


def listed(words: str) -> list[str]:
    """The words of an entry; a hyphen is a space."""
    return [word.replace("-", " ") for word in words.split()]


@functools.cache
def folded(section: str, key: str) -> frozenset[str]:
    """The folded words of an entry."""
    return frozenset(map(fold, listed(table()[section][key])))


@functools.cache
def months() -> Mapping[str, int]:
    """The number of a month, by its folded names."""
    return {fold(name): number for number, row in enumerate(table()["months"], start=1) for name in row.split()}


@functools.cache
def ordinals() -> Mapping[str, int]:
    """Days of a month by their folded ordinals."""
    rows = table()["ordinals"].values()
    return {fold(name): day for row in rows for day, name in enumerate(listed(row), start=1)}


@functools.cache
def spoken() -> tuple[Mapping[str, Collection[str]], re.Pattern[str]]:
    """What times in words may be, and these words."""
    times: dict[str, Collection[str]] = {}
    for row in table()["spoken"].values():
        for hour, name in enumerate(listed(row.get("hours", "")), start=1):
            for said, at in row["said"].items():
                halves = (divmod((60 * each + at) % 1440, 60) for each in (hour, hour + 12))
                times[said.format(name).casefold()] = [f"{each:02}:{minute:02}" for each, minute in halves]
        times |= {said.casefold(): [at] for said, at in row["said"].items() if isinstance(at, str)}
    begins: dict[str, list[str]] = {}  # By the first letter: most places of a text are then none at once.
    for said in sorted(times, key=len, reverse=True):
        begins.setdefault(said[0], []).append(re.escape(said[1:]))
    words = "|".join(f"{first}(?:{'|'.join(others)})" for first, others in begins.items())
    return times, re.compile(rf"(?i)(?<![a-zäöü\u0600-\u06ff가-힣])(?:{words})(?![a-zäöü\d간])")


@functools.cache
def scales() -> Mapping[str, int]:
    """Powers of ten by name. One letter is as written, anything else folded."""
    rows = ((int(value), name) for value, names in table()["scales"].items() for name in names.split())
    return {name if len(name) == 1 else fold(name): value for value, name in rows}


@functools.cache
def numbers() -> Mapping[str, int]:
    """Written-out numbers from 0 to 99 by their folded names; those of two words are added by the reader."""
    others = {"not", "hundred", "ones", "and", "also"}
    rows = {language: names.split() for language, names in table()["numbers"].items() if language not in others}
    values = dict[str, int]()
    for language, names in rows.items():
        first, step = (20, 10) if language.endswith("_tens") else (0, 1)
        values |= {fold(name): first + step * at for at, name in enumerate(names)}
    ones = ["", "ein", *rows["de"][2:10]]
    german = dict(zip(["", *rows["de"][1:]], range(20), strict=True))
    for ten, tens in enumerate(rows["de_tens"], start=2):
        german |= {f"{one}und{tens}" if one else tens: 10 * ten + value for value, one in enumerate(ones)}
    values |= {fold(name): value for name, value in german.items() if value > 1}
    for hundred, one in enumerate(ones):
        more = {f"{one}hundert{rest}": 100 * (hundred or 1) + value for rest, value in german.items() if one or rest}
        values |= {fold(name): value for name, value in more.items()}
    for value, names in table()["numbers"]["also"].items():
        values |= dict.fromkeys(map(fold, names.split()), int(value))
    return {name: value for name, value in values.items() if name not in folded("numbers", "not") | {"-"}}


@functools.cache
def units() -> Mapping[str, frozenset[str]]:
    """The units that a spelling stands for; `¥` is of two countries."""
    found: dict[str, frozenset[str]] = {}
    for unit, names in table()["units"].items():
        for name in listed(names):
            key = name if len(name) < 4 else name.casefold()
            found[key] = found.get(key, frozenset()) | {unit}
    return found


@functools.cache
def conversions() -> Mapping[str, tuple[Decimal, str]]:
    """What one of a unit is in another unit."""
    rows = {unit: row.split() for unit, row in table()["conversions"].items()}
    return {unit: (Decimal(factor), base) for unit, (factor, base) in rows.items()}


@functools.cache
def unit_pattern() -> re.Pattern[str]:
    """A unit behind a number. A word ends with it; long ones are written in any case."""
    long, short, signs = list[str](), list[str](), list[str]()
    for name in sorted(units(), key=len, reverse=True):
        is_word = name[-1].isalpha() and name[-1] < "\u2e80"
        (signs if not is_word else long if len(name) >= 4 else short).append(re.escape(name))
    ending = "[\u064b-\u0652]*ا?[\u064b-\u0652]*"  # of an Arabic accusative
    words = f"(?:(?i:{'|'.join(long)})|{'|'.join(short)}){ending}(?!{table('patterns')['letter']}|[²³0-9])"
    return re.compile(f"[ -]?(?:{words}|{'|'.join(signs)})")


def unit_of(text: str) -> frozenset[str]:
    """The units that a match of `unit_pattern` stands for."""
    name = text.lstrip(" -")
    bare = re.sub("[\u064b-\u0652]*ا?[\u064b-\u0652]*$", "", name)
    found = (units().get(each) for each in (name, bare, bare.casefold()))
    return next(filter(None, found), frozenset())
