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
_MOST = 20
"""Mentions of a side that are looked at."""
_SAME = 0.75
"""The share of words in common from which on a sentence is the same but for a few."""
_LETTER = "a-z\u0621-\u064a"
_NOT = "未不非无無미"
_JOINS = re.compile(r"[,;](?!\d)|[、،؛，；]|\s(?=(?:and|but|while|und|aber|so|و?لكن)\s)|(?<=[가-힣](?:며|고|만))\s")
"""What joins clauses, in folded text."""
_NUMBER = re.compile(r"\d+")
_WORD = re.compile(r"\w+")
_FORBIDS = re.compile(r"[勿别]|지\s?마[세십]|지\s?말")
_PAST = re.compile(r"\b(?:last|previous|earlier|letzte[nrs]?|vorige[nrs]?|zuvor|vorher)\b")
_MOST_PARTS = 60
_Group = tuple[int, str]
"""Its index, and the words beside which its sides contradict each other."""


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
    side: int
    beside: str
    """The words beside which it contradicts others; empty: any."""

    def is_sure(self) -> bool:
        """Whether its clause neither denies nor doubts it."""
        rest = f"{self.part.clause[: self.start]} {self.part.clause[self.end :]}"
        return denial(rest, strict=True) is None and not _unsure().search(rest)

    def speaks_of(self) -> frozenset[str]:
        """What its sentence speaks of but for the word itself."""
        return _subjects(self.part.sentence) - subjects(self.part.clause[self.start : self.end])


@functools.lru_cache(1024)
def _subjects(sentence: str) -> frozenset[str]:
    return frozenset(subjects(sentence).union(_NUMBER.findall(sentence)))


@functools.lru_cache(1024)
def _words(text: str) -> frozenset[str]:
    return frozenset(words(text))


_Mentions = Mapping[int, Sequence[_Mention]]


def contradicted(reference: str, answer: str) -> Iterator[Fact]:
    """The words of a reference of which its answer says only the contrary, of the same, as states; and the sentences
    with a part that only one of both denies, in the same words. Of long texts the beginning.
    """
    if reference == answer:
        return
    own, said = _parts(reference), _parts(answer)
    mentions = _sides(own)
    others = _sides(said) if mentions else {}
    is_short = own[-1:] == own[:1] and said[-1:] == said[:1]
    for group in mentions.keys() & others.keys():
        for side, found in mentions[group].items():
            against = [each for at, all_said in others[group].items() if at != side for each in all_said[:_MOST]]
            sides = mentions[group], others[group]
            first = next(
                (
                    each
                    for each in found[:_MOST]
                    if any(_is_contrary(each, other, *sides, is_short=is_short) for other in against)
                ),
                None,
            )
            if first is not None:
                yield _fact(reference, "state", first.part, first.start, first.end)
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


def _is_turned(one: _Part, other: _Part) -> bool:
    """Whether both are on different sides of a group: open, and not closed."""
    first, second = _sides([one]), _sides([other])
    return any(first[group].keys() != second[group].keys() for group in first.keys() & second.keys())


def _is_contrary(mention: _Mention, other: _Mention, own: _Mentions, said: _Mentions, *, is_short: bool) -> bool:
    """Whether the side of another text's mention contradicts it: neither text is on both.

    In parts that are the same but for a few words, only their own words count, be they weak or strong.
    """
    strength = min(mention.strength, other.strength)
    if not (strength and mention.is_sure() and other.is_sure()):
        return False
    for whole in ("clause", "sentence"):
        first, second = getattr(mention.part, whole), getattr(other.part, whole)
        if _alike(first, second) >= _SAME:
            has = any(getattr(each.part, whole) == first for each in own.get(other.side, ()))
            return not has and all(getattr(each.part, whole) != second for each in said.get(mention.side, ()))
    if strength < 2 or own.get(other.side) or said.get(mention.side) or _was(mention) != _was(other):
        return False
    return is_short or bool(mention.beside) or not mention.speaks_of().isdisjoint(other.speaks_of())


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


def _sides(parts: Sequence[_Part]) -> Mapping[_Group, Mapping[int, list[_Mention]]]:
    """The sides that a text mentions, by group."""
    found = defaultdict[_Group, dict[int, list[_Mention]]](dict)
    exact, stems, either = _entries()
    for part in parts:
        clause = part.clause
        for match in either.finditer(clause):
            start = match.start(1) if match[1] else match.start(2)
            word = match[1] or match[2]
            end = start + len(word)
            stem = next((word[:size] for size in range(len(word), 0, -1) if word[:size] in stems), "")
            for group, side, strength, reads in (*exact.get(word, ()), *stems.get(stem, ())):
                beside = (
                    _next(word, clause[end:]) if reads == "beside" else clause[start - 2 : start] * (reads == "behind")
                )
                if beside or reads not in {"beside", "behind"}:
                    mention = _Mention(part, start, end, strength, side, beside)
                    found[group, beside].setdefault(side, []).append(mention)
    return found


def _next(word: str, after: str) -> str:
    return after.lstrip()[:2] if word[0] >= "\u2e80" else " ".join(_WORD.findall(after)[:2])


_Entry = tuple[int, int, int, str]
_Entries = Mapping[str, Sequence[_Entry]]


@functools.cache
def _entries() -> tuple[_Entries, _Entries, re.Pattern[str]]:
    """Words and beginnings of words with their groups, sides, strengths, and how they are read."""
    exact, stems = (defaultdict[str, list[_Entry]](list) for _ in range(2))
    rows = [
        (row["sides"], reads) for reads in ("group", "near", "beside", "behind") for row in table("contrary")[reads]
    ]
    for group, (sides, reads) in enumerate(rows):
        for side, names in enumerate(sides):
            for name in listed(names):
                strength = 0 if name[0] == "^" else 1 if name[0] == "~" or reads == "near" else 2
                word = fold(plain(name.lstrip("~^")))
                (stems if word[-1] == "*" else exact)[word.rstrip("*")].append((group, side, strength, reads))
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
