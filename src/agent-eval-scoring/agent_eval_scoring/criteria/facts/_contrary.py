"""Where a text says the contrary: closed for open, fell for rose, per year for per month.

The words are those of `contrary.toml`. What is only left out, doubted or denied contradicts nothing.
"""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agent_eval_scoring.criteria.facts._fact import Fact, Kind
from agent_eval_scoring.criteria.facts._phrases import Words, denial, sentences, subjects
from agent_eval_scoring.criteria.facts._words import fold, listed, plain, table
from agent_eval_scoring.criteria.tokenize import words

_LONGEST = 8_000
"""Characters of a text that are read."""
_MOST = 40
"""Mentions of a text above which they are not compared."""
_SHARED = 0.5
"""The share of what two sentences speak of that must be the same."""
_SAME = 0.75
"""The share of words in common from which on a sentence is the same but for a few."""
_LETTER = "a-z\u0621-\u064a"
_NOT = "未不非无無미"
_JOINS = re.compile(r"[,;](?!\d)|[、،؛，；]|\s(?=(?:and|but|while|und|aber|so|و?لكن)\s)|(?<=[가-힣](?:며|고|만))\s")
"""What joins clauses, in folded text."""
_NUMBER = re.compile(r"\d+")
_FORBIDS = re.compile(r"[勿别]|지\s?마[세십]|지\s?말")
_PAST = re.compile(r"\b(?:last|previous|earlier|letzte[nrs]?|vorige[nrs]?|zuvor|vorher)\b")
_COMPARES = re.compile(r"\b(?:than|als)\b|比|より|보다")
_MOST_PARTS = 60
"""Clauses of a text whose denials are compared: each with each of the other text."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a text, folded."""

    sentence: str
    clause: str
    place: int
    """Of the sentence, in the text."""
    offset: int
    """Of the clause, in the sentence."""


@dataclass(frozen=True, slots=True)
class _Mention:
    part: _Part
    start: int
    """In the clause."""
    end: int
    strength: int
    """0: only agrees; 1: contradicts in sentences that are nearly the same; 2: contradicts."""
    group: int
    side: int

    def is_sure(self) -> bool:
        """Whether its clause neither denies nor doubts it."""
        return _is_sure(f"{self.part.clause[: self.start]} {self.part.clause[self.end :]}")

    def speaks_of(self) -> frozenset[str]:
        """What its sentence speaks of but for the word itself."""
        start, end = self.part.offset + self.start, self.part.offset + self.end
        return _subjects(f"{self.part.sentence[:start]} {self.part.sentence[end:]}")


@functools.lru_cache(1024)
def _subjects(sentence: str) -> frozenset[str]:
    return frozenset(subjects(sentence).union(_NUMBER.findall(sentence)))


@functools.lru_cache(1024)
def _is_sure(rest: str) -> bool:
    return denial(rest, strict=True) is None and not _unsure().search(rest)


@functools.lru_cache(1024)
def _words(text: str) -> frozenset[str]:
    return frozenset(words(text))


def contradicted(reference: str, answer: str) -> Iterator[Fact]:
    """The words of a reference of which its answer says only the contrary, of the same, as states; and the sentences
    with a part that only one of both denies, in the same words. Of long texts the beginning, of texts with many such
    words none of those.
    """
    if reference == answer:
        return
    own, said = _parts(reference), _parts(answer)
    mentions = _mentions(own)
    others = _mentions(said) if mentions else []
    for mention in mentions:
        if any(_is_contrary(mention, other, mentions, others) for other in others):
            yield _fact(reference, "state", mention.part, mention.start, mention.end)
    for part in own[:_MOST_PARTS]:
        alike = [other for other in said[:_MOST_PARTS] if _alike(part.clause, other.clause) >= _SAME]
        denies = {_denies(text) for other in alike for text in (other.clause, other.sentence)}
        own_denies = {_denies(part.clause), _denies(part.sentence)}
        if (
            len(denies) == 1 == len(own_denies)
            and denies | own_denies == {True, False}
            and not any(_is_turned(part, other) for other in alike)
        ):
            yield _fact(reference, "negation", part, 0, 0)


def _is_turned(part: _Part, other: _Part) -> bool:
    """Whether both are on different sides of a group: open, and not closed."""
    first, second = ({(group, side) for *_, group, side in _sides(each.clause)} for each in (part, other))
    both = {group for group, _ in first} & {group for group, _ in second}
    return any(group in both for group, _ in first ^ second)


def _is_contrary(mention: _Mention, other: _Mention, own: Sequence[_Mention], said: Sequence[_Mention]) -> bool:
    """Whether the side of another text's mention contradicts it, of the same: neither text is on both."""
    strength = min(mention.strength, other.strength)
    if mention.group != other.group or mention.side == other.side or not strength:
        return False
    sides = (own, other.side), (said, mention.side)
    if any(each.group == mention.group and each.side == side for text, side in sides for each in text):
        return False
    if strength < 2 and _COMPARES.search(mention.part.clause):
        return False  # Hotter than the other one, which is colder.
    if _was(mention) != _was(other) or not (mention.is_sure() and other.is_sure()):
        return False
    if any(
        _alike(getattr(mention.part, whole), getattr(other.part, whole)) >= _SAME for whole in ("clause", "sentence")
    ):
        return True
    first, second = mention.speaks_of(), other.speaks_of()
    return strength > 1 and len(first & second) > _SHARED * len(first | second)


def _was(mention: _Mention) -> bool:
    """Whether it speaks of an earlier time: it was dearer, for it is cheaper now."""
    return _PAST.search(mention.part.clause[: mention.start]) is not None


def _alike(one: str, other: str) -> float:
    """The share of their words that two parts of texts have in common."""
    first, second = _words(one), _words(other)
    return 2 * len(first & second) / (len(first) + len(second) or 1)


@functools.lru_cache(1024)
def _denies(clause: str) -> bool | None:
    """None: maybe."""
    if denial(clause, strict=True) is not None or _FORBIDS.search(clause):
        return True
    return None if denial(clause) is not None or Words(clause).may_deny() else False


def _fact(text: str, kind: Kind, part: _Part, start: int, end: int) -> Fact:
    """The word of a mention, or its sentence, if that isn't as long as the folded one."""
    start, end = part.place + part.offset + start, part.place + part.offset + end
    whole = part.place, part.place + len(part.sentence)
    is_word = kind == "state" and fold(plain(text[slice(*whole)])) == part.sentence
    value = "contrary" if kind == "state" else "not" if _denies(part.clause) else "claimed"
    return Fact.within(kind, text, (start, end) if is_word else whole, {value})


def _parts(text: str) -> list[_Part]:
    found: list[_Part] = []
    for place, sentence in sentences(text[:_LONGEST]):
        folded = fold(plain(sentence))
        start = 0
        for end in (*(match.end() for match in _JOINS.finditer(folded)), len(folded)):
            found.append(_Part(folded, folded[start:end], place, start))
            start = end
    return found


def _mentions(parts: Sequence[_Part]) -> list[_Mention]:
    """The sides that a text mentions; none, if it mentions too many to compare."""
    found: list[_Mention] = []
    for part in parts:
        found += (_Mention(part, *side) for side in _sides(part.clause))
        if len(found) > _MOST:
            return []
    return found


@functools.lru_cache(1024)
def _sides(clause: str) -> Sequence[tuple[int, int, int, int, int]]:
    """Starts, ends, strengths, groups and sides of the words of groups."""
    found: list[tuple[int, int, int, int, int]] = []
    exact, stems, either = _entries()
    for match in either.finditer(clause):
        start = match.start(1) if match[1] else match.start(2)
        word = match[1] or match[2]
        stem = next((word[:size] for size in range(len(word), 0, -1) if word[:size] in stems), "")
        for group, side, strength in (*exact.get(word, ()), *stems.get(stem, ())):
            found.append((start, start + len(word), strength, group, side))
    return found


_Entry = tuple[int, int, int]
_Entries = Mapping[str, Sequence[_Entry]]


@functools.cache
def _entries() -> tuple[_Entries, _Entries, re.Pattern[str]]:
    """Words and beginnings of words with their groups, sides and strengths."""
    exact, stems = (defaultdict[str, list[_Entry]](list) for _ in range(2))
    rows = [(row["sides"], reads) for reads in ("group", "near") for row in table("contrary")[reads]]
    for group, (sides, reads) in enumerate(rows):
        for side, names in enumerate(sides):
            for name in listed(names):
                strength = 0 if name[0] == "^" else 1 if name[0] == "~" or reads == "near" else 2
                word = fold(plain(name.lstrip("~^")))
                (stems if word[-1] == "*" else exact)[word.rstrip("*")].append((group, side, strength))
    begins = defaultdict[str, list[str]](list)  # By the first letter: most places of a text are then none at once.
    for word in sorted(exact.keys() | stems.keys(), key=len, reverse=True):
        begins[word[0]].append(re.escape(word[1:]) + (f"[{_LETTER}]*" if word in stems else ""))
    small = "|".join(
        f"{first}(?:{'|'.join(rest)})" for first, rest in begins.items() if first.isalpha() and first < "\u2e80"
    )
    wide = "|".join(
        f"{re.escape(first)}(?:{'|'.join(rest)})"
        for first, rest in begins.items()
        if not (first.isalpha() and first < "\u2e80")
    )
    return (
        exact,
        stems,
        re.compile(f"(?<![{_LETTER}])(?:[وف]?(?:ال|لل)?)(?=({small})(?![{_LETTER}]))|(?<![{_NOT}])({wide})"),
    )


@functools.cache
def _unsure() -> re.Pattern[str]:
    words = "|".join(map(re.escape, map(fold, listed(table("contrary")["unsure"]))))
    wide = "|".join(map(re.escape, listed(table("contrary")["unsure_wide"])))
    return re.compile(f"(?<![{_LETTER}])(?:{words})(?![{_LETTER}])|{wide}")
