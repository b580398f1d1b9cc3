"""What stands in place of something else in an answer that is its reference otherwise: a name or state in no table.

Words for the same can't be told from words for something else without a dictionary, and a list of them that fitted
all answers at hand knew few of the next ones. So only what stands where names and states do is looked at.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from agent_eval_scoring.criteria.facts._fact import Fact
from agent_eval_scoring.criteria.facts._words import fold, folded, listed, pattern, table

_LONGEST = 20_000
_MOST = 6
"""Words, or characters of scripts without spaces, that are one short part."""
_LEAST_ALIKE = 0.6
_STEM = 4
_ROOT = 3
_NOT = frozenset("未不没沒無无非미")
_WIDE = "\u2e80"
_ARTICLE = re.compile("^[وفبلك]?(?:ال|لل)?(?=[\u0600-\u06ff]{3})")
_BY_WORDS = frozenset({"name", "state", "quote", "negation"})

_Token = tuple[str, int, int]


@dataclass(frozen=True)
class _Part:
    """The part of a text that another one has otherwise."""

    text: str
    before: str
    """The word in front of it; empty at the beginning."""
    tokens: Sequence[_Token]
    """Never empty."""

    @property
    def said(self) -> str:
        """As written."""
        return self.text[self.tokens[0][1] : self.tokens[-1][2]]

    @property
    def behind(self) -> str:
        """The two characters behind it."""
        return self.text[self.tokens[-1][2] :][:2]

    @property
    def words(self) -> set[str]:
        """Folded."""
        return {token for token, *_ in self.tokens}

    @functools.cached_property
    def states(self) -> set[int]:
        """Which states of the table its words may be."""
        start, end = self.tokens[0][1], self.tokens[-1][2]
        low = max(start - _ROOT, 0)
        near = fold(self.text[low : end + _ROOT])
        words = [_ARTICLE.sub("", token) for token in self.words]

        def is_said(stem: str) -> bool:
            if stem >= _WIDE:  # A part of it is enough: of 开启 and 关闭 both may have only one character here.
                at = near.find(stem)
                return at >= 0 and low + at < end and start < low + at + len(stem)
            is_short = len(stem) < (_ROOT if stem >= "\u0600" else _STEM)
            return any(word == stem or (not is_short and word.startswith(stem)) for word in words)

        return {at for at, row in enumerate(_stems()) if any(map(is_said, row))}


@functools.cache
def _stems() -> Sequence[Sequence[str]]:
    return [[_ARTICLE.sub("", fold(word)) for word in listed(row["has"])] for row in table()["status"].values()]


def replaced(reference: str, answer: str, known: Iterable[Fact], said: Iterable[Fact]) -> Fact | None:
    """The words of a plain reference that others stand for, if the answer is the same but for this one short part.

    Args:
        reference: The expected text.
        answer: The text that is compared.
        known: Facts of the reference that the answer has: in another form they are no difference.
        said: Facts of the answer that the reference has.
    """
    first, second = pieces(reference), pieces(answer)
    before = _alike(first, second)
    after = _alike(first[before:][::-1], second[before:][::-1])
    ours, theirs = first[before : len(first) - after], second[before : len(second) - after]
    most = max(len(ours), len(theirs))
    if not ours or not theirs or most > _MOST or before + after < _LEAST_ALIKE * (before + after + most):
        return None
    previous = first[before - 1][0] if before else ""
    was, now = _Part(reference, previous, ours), _Part(answer, previous, theirs)
    if _NOT.isdisjoint(was.words) == _NOT.isdisjoint(now.words):  # Otherwise only one denies.
        shared = was.words & now.words
        ours, theirs = _content(was, shared), _content(now, shared)
        other = _uncovered(ours, known), _uncovered(theirs, said)
        is_unit = previous.isdecimal() and bool(other[0]) != bool(other[1])  # that no table has, and another one
        if not is_unit and (not all(other) or not _says_other(was, now)):
            return None
        ours, theirs = other[0] or ours, other[1] or theirs
        is_predicate = previous in folded("replaced", "copulas")
        if not _is_short(ours, theirs, is_predicate=is_predicate) or _is_form(ours[0][0], theirs[0][0]):
            return None
    start, end = ours[0][1], ours[-1][2]
    return Fact("state", frozenset({reference[start:end]}), frozenset(), reference[start:end], start, end)


def is_nearly_said(sentence: Sequence[_Token], others: Iterable[Sequence[_Token]]) -> bool:
    """Whether one of these sentences, in pieces, begins and ends with the same words for half of their length."""
    for other in others:
        before = _alike(sentence, other)
        after = _alike(sentence[before:][::-1], other[before:][::-1])
        if 2 * (before + after) >= max(len(sentence), len(other)):
            return True
    return False


def pieces(text: str) -> list[_Token]:
    """The words of a text, folded and with their places; of scripts without spaces the characters."""
    return [(fold(match[0]), *match.span()) for match in pattern("piece").finditer(text, 0, _LONGEST)]


def _alike(first: Sequence[_Token], second: Sequence[_Token]) -> int:
    """How many tokens both have in common at their beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0][0] == pair[1][0], zip(first, second, strict=False)))


def _says_other(was: _Part, now: _Part) -> bool:
    """Whether another name or state stands there, as far as its place says it."""
    letter = was.said[0]
    if letter >= _WIDE and any("\u3400" <= word < "\ua000" for word in was.words & now.words):
        return False  # A Chinese character that both have: 加入 and 添加.
    if was.states or now.states:
        return was.states.isdisjoint(now.states)
    if letter >= "\uac00":  # a noun
        return pattern("in_a_verb").match(was.behind) is None
    if letter >= _WIDE:
        wide = pattern("no_kana")
        if pattern("kana").search(was.text):  # a noun in Japanese
            is_noun = pattern("behind_a_noun").match(was.behind) is not None
            return is_noun and wide.fullmatch(was.said) is not None and wide.fullmatch(now.said) is not None
        sizes = sorted((len(was.tokens), len(now.tokens)))
        return sizes[0] == sizes[1] or sizes == [2, 3]
    if letter >= "\u0600":  # Verbs stand at the beginning.
        return bool(was.before) or was.said.startswith("ال")
    if was.before in folded("replaced", "copulas") or was.tokens[0][0] in folded("replaced", "copulas"):
        return True
    is_name = letter.isupper() and now.said[0].isupper()
    return is_name and {was.before, was.tokens[0][0]}.isdisjoint(folded("replaced", "articles"))


def _content(part: _Part, shared: set[str]) -> list[_Token]:
    little = shared | folded("replaced", "little")
    return [
        each
        for each in part.tokens
        if each[0] not in little and not each[0].isdecimal() and not pattern("kana").match(each[0])
    ]


def _uncovered(tokens: Sequence[_Token], facts: Iterable[Fact]) -> list[_Token]:
    """Those that are no part of a number, a date, or the like."""
    spans = [(fact.start, fact.end) for fact in facts if fact.kind not in _BY_WORDS]
    return [each for each in tokens if not any(low < each[2] and each[1] < high for low, high in spans)]


def _is_short(ours: Sequence[_Token], theirs: Sequence[_Token], *, is_predicate: bool) -> bool:
    """Whether there are one or two words on either side, or a few characters of a script without spaces."""
    if not ours or not theirs or ours[0][0] >= _WIDE:
        return bool(ours and theirs)
    sizes = {len(ours), len(theirs)}
    return sizes in ({1}, {2}) or (is_predicate and sizes == {1, 2})


def _is_form(first: str, second: str) -> bool:
    """Whether both are forms of one word of a script with spaces."""
    short, long = sorted((first, second), key=len)
    if short >= _WIDE:
        return False
    if long.endswith(short) and min(len(short), len(long) - len(short)) > _STEM:
        return True  # Ausweis, Personalausweis
    size = _ROOT if short >= "\u0600" else _STEM
    return _ARTICLE.sub("", first)[:size] == _ARTICLE.sub("", second)[:size]
