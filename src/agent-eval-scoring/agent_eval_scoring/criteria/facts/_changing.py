"""A text with another fact in place of one: what an answer would be if it got that wrong."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import islice
from random import Random

from agent_eval_scoring.criteria.facts._fact import Fact
from agent_eval_scoring.criteria.facts._reading import facts_of
from agent_eval_scoring.criteria.facts._words import fold, listed, months, pattern, plain, table, unit_pattern

_DIGITS = re.compile(r"\d+|[一二三四五六七八九]")
_HAN = "〇一二三四五六七八九"
_MOST_TRIES = 40
_NAMES = ("Lisbon", "Mara Quinn", "上海", "大阪", "대전", "دبي", "الرياض")
_OPPOSITES = {"on": "off", "off": "on", "an": "aus", "aus": "an", "can't": "can", "cannot": "can", "won't": "will"}


def changed(text: str, fact: Fact, rng: Random, names: Sequence[str] = ()) -> tuple[str, str] | None:
    """Gets a fact wrong wherever a text says it; of denials only this one.

    Args:
        text: A text.
        fact: One of its facts, read with names, states and negation.
        rng: Chooses among the ways to be wrong.
        names: Names that may stand for another one.

    Returns:
        The text and what it says instead, of the same kind; None if there is nothing to say that isn't read as the
        same, or as something of another kind.
    """
    denies = fact.kind == "negation"
    same = [each for each in _facts(text) if (each == fact if denies else each.is_same(fact))]
    before = sum(each.is_same(fact) for each in _facts(text))
    for new in islice(dict.fromkeys(_values(fact, rng, names)), _MOST_TRIES):
        other = text
        for each in reversed(same):
            other = other[: each.start] + new + other[each.end :]
        other = other if new else re.sub(r" +(?=[ .,!?])", "", other).lstrip()
        there = _facts(other)
        is_read = denies or any(each.family == fact.family and each.start == same[0].start for each in there)
        if is_read and sum(each.is_same(fact) for each in there) == before - len(same):
            return other, new
    return None


def _facts(text: str) -> tuple[Fact, ...]:
    return facts_of(text, names=True, states=True, negation=True)


def _values(fact: Fact, rng: Random, names: Sequence[str]) -> Iterator[str]:
    word = fold(fact.text.replace("’", "'"))
    if word in _OPPOSITES:
        yield _OPPOSITES[word]
    if fact.kind == "negation":
        yield word.removesuffix("n't") if word.endswith("n't") else ""
    elif fact.kind == "state":
        yield from _states(fact, rng)
    elif fact.kind in {"name", "quote"}:
        alike = [name for name in (*rng.sample(names, len(names)), *_NAMES) if _script(name) == _script(fact.text)]
        yield from sorted(alike, key=lambda name: name.count(" ") != fact.text.count(" "))
    else:
        yield from _numbers(fact.text, rng)
        for found in pattern("word").finditer(fact.text):
            if number := months().get(fold(found[0])):
                month = table()["months"][(number + rng.randrange(11)) % 12].split()
                name = next((each for each in month if _script(each) == _script(found[0])), month[0])
                yield fact.text[: found.start()] + name.title() + fact.text[found.end() :]
        yield f"{fact.text[:-1]}{'a' if fact.text[-1] != 'a' else 'e'}"  # of addresses
        unit = next((match[0] for match in unit_pattern().finditer(fact.text) if match.end() == len(fact.text)), "")
        yield from (f"{int(value) + 1}{unit}" for value in sorted(fact.values) if value.isdecimal() and len(value) < 16)


def _script(word: str) -> str:
    return unicodedata.name(word[0], "").partition(" ")[0]


def _numbers(text: str, rng: Random) -> Iterator[str]:
    """The text with another digit in one of its numbers."""
    found = list(_DIGITS.finditer(plain(text)))
    for step in rng.sample(range(1, 9), 8):
        for match in rng.sample(found, len(found)):
            at = match.start() + rng.randrange(len(match[0]))
            digits = _HAN if match[0] in _HAN else "0123456789"
            digit = digits[(digits.index(plain(text)[at]) + step) % 10]
            if digit != digits[0] or (digits != _HAN and (at > match.start() or len(match[0]) == 1)):
                yield f"{text[:at]}{digit}{text[at + 1 :]}"


def _states(fact: Fact, rng: Random) -> Iterator[str]:
    """Words for other states in the same script, of the same language as far as their place in the table says it."""
    rows = {state: listed(row["is"]) for state, row in table()["status"].items()}
    own = next(iter(fact.values))
    place = next((at for at, word in enumerate(rows[own]) if fold(word) == fold(fact.text)), 0) / len(rows[own])
    states, at = list(rows), list(rows).index(own)
    # Many are in the table beside their opposite.
    for state in dict.fromkeys([states[min(at ^ 1, len(states) - 1)], *rng.sample(states, len(states))]):
        words = rows[state]
        alike = [(at, word) for at, word in enumerate(words) if _script(word) == _script(fact.text)]
        if state != own and alike:
            word = min(alike, key=lambda pair: abs(pair[0] / len(words) - place))[1]
            yield word.title() if fact.text.istitle() else word
