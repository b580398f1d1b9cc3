"""The facts of a text, and what differs between two texts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice, zip_longest

from agent_eval_scoring.criteria.facts._contrary import contradicted
from agent_eval_scoring.criteria.facts._dates import dates, times
from agent_eval_scoring.criteria.facts._fact import NUMBERS, Fact
from agent_eval_scoring.criteria.facts._implied import implied
from agent_eval_scoring.criteria.facts._numbers import digits, written
from agent_eval_scoring.criteria.facts._phrases import Denials, Words, clauses, denial, names, sentences, states
from agent_eval_scoring.criteria.facts._tokens import addresses, codes, quotes
from agent_eval_scoring.criteria.facts._words import pattern, plain

_BEFORE = 12
MOST_FACTS = 2_000
"""Facts of a text that each reader reads."""

_READERS: tuple[Callable[[str], Iterator[Fact]], ...] = (addresses, codes, dates, times, digits, written)
"""In this order: what one has read is no fact of a later one."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What a text says of the facts of its reference. Facts are counted once, however often they are said."""

    found: tuple[Fact, ...]
    missing: tuple[Fact, ...]
    """Of the reference. For a sentence that only one of both denies: the sentence, with the kind `negation`."""
    new: tuple[Fact, ...]
    """Numbers, amounts and percentages that the reference lacks."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A fact that changed, was dropped or was added."""

    before: Fact | None
    after: Fact | None


@lru_cache(64)  # A reference is compared with several answers.
def facts_of(text: str, *, names: bool = False, states: bool = False, negation: bool = False) -> tuple[Fact, ...]:
    """The facts of a text, by place.

    Args:
        text: Any text, in any language. The time grows with its length only.
        names: Also names.
        states: Also states such as open and closed.
        negation: Also the words with which a sentence denies, one of each sentence.
    """
    denied = ((start, denial(sentence)) for start, sentence in (sentences(text) if negation else ()))
    denials = [_denial(start + found.start(), found[0], "not") for start, found in denied if found is not None]
    return tuple(sorted([*_facts(text, names=names, states=states), *denials], key=lambda fact: fact.start))


def _facts(text: str, *, names: bool, states: bool) -> Iterator[Fact]:
    legible = plain(text)
    taken = bytearray(len(text))
    inner = dict[int, int]()
    readers = [*_READERS, quotes, *[_states] * states, *[_names] * names]
    for read in readers:
        for fact in islice(read(legible), MOST_FACTS):
            if read is quotes:
                is_free = 2 * sum(inner.get(place, 0) for place in range(fact.start, fact.end)) < len(fact.text)
            else:
                is_free = taken.find(1, fact.start, fact.end) < 0
            if is_free:
                taken[fact.start : fact.end] = b"\1" * (fact.end - fact.start)
                inner[fact.start] = fact.end - fact.start
                yield replace(fact, text=text[fact.start : fact.end])


_names, _states = names, states


def _denial(start: int, text: str, value: str) -> Fact:
    return Fact("negation", frozenset({value}), frozenset(), text, start, start + len(text))


def compare(
    reference: str,
    answer: str,
    *,
    names: bool = False,
    states: bool = False,
    negation: bool = False,
    contraries: bool = True,
) -> Comparison:
    """Looks for the facts of a reference in an answer. The other arguments are those of `facts_of`.

    Args:
        reference: What is expected.
        answer: What is said.
        names: Also names.
        states: Also states.
        negation: Also what is denied.
        contraries: With states, also words of which the answer says the contrary; with negation, second denials.
    """
    index = _Index(answer, facts_of(answer))
    said = Words(plain(answer))
    found: list[Fact] = []
    missing: list[Fact] = []
    known_values = set[str]()
    expected = facts_of(reference, names=names, states=states)
    known = _Index(reference, expected)
    in_parts = known.in_other_parts(index)
    own = sentences(reference)
    repeated = [(at, at + len(sentence)) for at, sentence in own if f" {sentence.strip()}" in f" {answer}"]
    denied = [(at, at + len(clause)) for at, clause in _denying_clauses(reference)] if negation else []
    for fact in _distinct(expected):
        if fact.kind == "state" and said.says_opposite(fact) and any(low <= fact.start < high for low, high in denied):
            continue  # Not open, and closed: the denial is looked for.
        by_words = fact.kind in {"quote", "name", "state"}
        if by_words:  # A sentence that is repeated as it is says what it says.
            is_there = said.has(fact) or any(low <= fact.start < high for low, high in repeated)
        else:
            is_there = (index.has(fact) and not said.has_other_letters(fact, reference)) or _key(fact) in in_parts
        others = set[str]() if is_there else _otherwise(fact, index, said, (reference, answer), states=states)
        known_values |= others
        (found if is_there or others else missing).append(fact)
    if negation:
        for fact, is_alike in _denials(reference, answer):
            (found if is_alike else missing).append(fact)
    contrary = [*contradicted(reference, answer)] if contraries and (states or negation) else []
    for fact in contrary:
        is_told = any(
            each.start <= fact.start < each.end and (each.kind == "negation") == (fact.kind == "negation")
            for each in missing
        )
        if (negation if fact.kind == "negation" else states) and not is_told:
            missing.append(fact)
    in_parts = index.in_other_parts(known)
    numbers = [fact for fact in _distinct(index.facts) if fact.kind in NUMBERS and not known.has(fact)]
    numbers = [fact for fact in numbers if _key(fact) not in in_parts]
    new = [fact for fact in numbers if fact.values.isdisjoint(known_values)]
    return Comparison(found=tuple(found), missing=tuple(missing), new=tuple(new))


def differences(before: str, after: str) -> tuple[Difference, ...]:
    """What one text says and another doesn't, in pairs of one kind: 150 and 0, open and OPEN.

    Args:
        before: A text.
        after: A later one.
    """
    old, new = (facts_of(text, names=True, states=True, negation=True) for text in (before, after))
    pairs: list[Difference] = []
    left, right = _Index(before, old), _Index(after, new)
    left_in_parts, right_in_parts = left.in_other_parts(right), right.in_other_parts(left)
    gone, come = defaultdict[str, list[Fact]](list), defaultdict[str, list[Fact]](list)
    for fact in _distinct(old):
        same = right.find(fact)
        if same is None and _key(fact) in left_in_parts:
            continue
        if same is None:
            gone[fact.family].append(fact)
        elif fact.kind in _SPELLED and same.text != fact.text and same.text.casefold() == fact.text.casefold():
            pairs.append(Difference(before=fact, after=same))
    for fact in _distinct(new):
        if not left.has(fact) and _key(fact) not in right_in_parts:
            come[fact.family].append(fact)
    for family in dict.fromkeys((*gone, *come)):
        pairs += [Difference(before=first, after=second) for first, second in zip_longest(gone[family], come[family])]
    return tuple(sorted(pairs, key=lambda pair: min(fact.start for fact in (pair.before, pair.after) if fact)))


_SPELLED = frozenset({"code", "name", "quote", "state"})
"""Kinds whose spelling is looked at by programs."""


_Key = tuple[str, frozenset[str], frozenset[str]]


def _key(fact: Fact) -> _Key:
    return fact.family, fact.values, fact.units


def _distinct(facts: Iterable[Fact]) -> list[Fact]:
    return list({_key(fact): fact for fact in reversed(tuple(facts))}.values())[::-1]


class _Index:
    """Finds a fact that is the same, without looking at all of them."""

    def __init__(self, text: str, facts: Sequence[Fact]) -> None:
        """Sorts the facts of a text by what they may be read as, and what it implies."""
        self.facts = facts
        self._implied = tuple(implied(text, facts))
        self._places = defaultdict[tuple[str, str], list[Fact]](list)
        seen = set[tuple[str, str, frozenset[str]]]()
        for fact in (*facts, *(fact for fact, _ in self._implied)):
            for value in fact.values:
                if (key := (fact.family, value, fact.units)) not in seen:
                    seen.add(key)
                    self._places[fact.family, value].append(fact)

    def find(self, fact: Fact) -> Fact | None:
        """The first fact that is the same."""
        alike = (other for value in fact.values for other in self._places.get((fact.family, value), ()))
        return next((other for other in alike if fact.is_same(other)), None)

    def has(self, fact: Fact) -> bool:
        """Whether a fact is the same."""
        return self.find(fact) is not None

    def in_other_parts(self, other: _Index) -> set[_Key]:
        """The facts that the other text says as one, or in other parts: 2 hours and 30 minutes, if it says 2.5 h.

        Facts are compared once however often they are said, so each mention must be such a part.
        """
        parts = {part for together, parts in self._implied if other.has(together) for part in parts}
        return {_key(part) for part in parts} - {_key(fact) for fact in self.facts if fact not in parts}


def _otherwise(fact: Fact, index: _Index, said: Words, texts: tuple[str, str], *, states: bool) -> set[str]:
    """What an answer says for a fact that it has in no form of its own: 27.8. for a date, TK1759 for TK 1759, third for
    3rd, and, with states, an amount or a share with a minus where the other side's sentence says that it goes down by
    it: -3%, 3% less. Empty for nothing.
    """
    if fact.kind == "date" and said.has_short(fact):
        return {part.lstrip("0") for value in fact.values for part in value.split("-")}
    if fact.kind in {"number", "code"} and (said.has_spaced(fact, texts[0]) or said.has_version(fact)):
        return set(fact.values)
    if fact.kind not in {"percent", "amount"} or not states:
        return set()
    turned = {value[1:] if value[0] == "-" else f"-{value}" for value in fact.values}
    other = index.find(replace(fact, values=frozenset(turned)))
    if other is None:
        return set()
    # The side without the minus must say it in words: a level below zero is not a fall elsewhere in the text.
    is_below = all(value[0] == "-" for value in fact.values)
    return turned if _goes_down(texts[is_below], other if is_below else fact) else set()


def _goes_down(text: str, fact: Fact) -> bool:
    """Whether the sentence of a fact says that something goes down by it, and not to it."""
    if pattern("reached").search(text[max(fact.start - _BEFORE, 0) : fact.start]):
        return False
    before = text[max(fact.start - _BEFORE, 0) : fact.start]
    if pattern("down_by").search(before):
        return True
    if fact.kind == "amount" and not pattern("by_it").search(before):
        return False
    own = (said for start, said in sentences(text) if start <= fact.start < start + len(said))
    return any("down" in each.values for sentence in own for each in facts_of(sentence, states=True))


def _denying_clauses(text: str) -> Iterator[tuple[int, str]]:
    for start, sentence in sentences(text):
        at = 0
        for clause in clauses(sentence):
            at = sentence.index(clause, at)
            if denial(clause) is not None:
                yield start + at, clause
            at += len(clause)


def _denials(reference: str, answer: str) -> Iterator[tuple[Fact, bool]]:
    """Of each sentence that denies: whether the answer does where it speaks of the same. If no sentence denies: those
    of which the most similar sentence of the answer denies.
    """
    own = [(start, sentence, denial(sentence)) for start, sentence in sentences(reference)]
    said = Denials(answer)
    any_denies = any(denies for *_, denies in own)
    known = [fact for fact in facts_of(reference, states=True) if fact.kind == "state"]
    states_of = {value for fact in known for value in fact.values}
    for start, sentence, denies in own:
        if denies and any(fact.start <= start + denies.start() < fact.end for fact in known):
            continue  # It is a part of a state: 未払い.
        if denies:
            yield _denial(start, sentence, "not"), said.denies(sentence)
        elif not any_denies and said.claims(sentence, states_of):
            yield _denial(start, sentence, "claimed"), False
