"""What words say: names, states such as open and closed, and whether a sentence denies."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice

from agent_eval_scoring.criteria.facts._fact import Fact
from agent_eval_scoring.criteria.facts._words import fold, folded, listed, ordinals, pattern, plain, table
from agent_eval_scoring.criteria.tokenize import stem, words

_BEFORE = 24
_NEAR = 20
_GERMAN = r"(?:(?<=\bam )|(?<=\bab )|(?<=\bseit )|(?<=\bbis )|(?<=\bvom )|(?<=\bzum )|(?<=\bde[mnr] ))"
"""What stands before a date such as `5.6.`, and not before a version."""
_OF_NUMBERS = frozenset({"up", "down"})
"""States that are said of numbers."""
_PART = 4
_NOT = "未不非无無미"
"""In front of a word they deny it."""
_ORDINAL = re.compile("(\\d{1,2})(?:st|nd|rd|th) ([a-z]+)")
_ARTICLE = re.compile("^[وفبلك]?(?:ال|لل)")
_UNDONE = frozenset({"pending", "processing"})
"""States in which something is not done yet."""
_VERSION = re.compile(r"\d{1,4}(?:\.\d{1,4}){1,3}")
_QUARTER = re.compile("[Qq]([1-4])")
_JOINED = re.compile("([A-Za-z]{1,4})-?(\\d+)")
_APART = re.compile("(?<![A-Za-z])([A-Z]{1,4})[ -]?(\\d+)$")
_SIGNS = {"+": r"\+", "−": "-"}
_MOST_SENTENCES = 200
_LEAST_ALIKE = 0.25
_MOST_CLAUSES = 400
_MOST_ALIKE = 10
"""So that the time does not grow with the square of a text's length."""
_WORDS_NEAR = 5
_WIDE_NEAR = 12
"""Words, or characters of scripts without spaces, before and behind a denial that say what is denied."""


def names(text: str) -> Iterator[Fact]:
    """Names: capitalised words within a sentence; in scripts without capitals those with a title, and known places."""
    all_words = [fold(word[0]) for word in pattern("word").finditer(text, 0, 4_000)]
    german = sum(word in folded("names", "german") for word in all_words) > len(all_words) / 5
    for match in pattern("name").finditer(text):
        yield from _capitalised(text, match, german)
    for match in () if text.isascii() else (*pattern("titled").finditer(text), *_places().finditer(text)):
        group = match.lastindex or 0
        yield Fact.within("name", text, match.span(group), {fold(match[group])})


def _capitalised(text: str, match: re.Match[str], german: bool) -> Iterator[Fact]:
    """A name without titles. A word at the beginning of a sentence, or a German noun, is none by itself."""
    words = list(pattern("word").finditer(text, *match.span()))
    before = text[max(match.start() - _BEFORE, 0) : match.start()]
    opens = pattern("opens").search(before) is not None
    ignored, titles = folded("names", "not"), folded("names", "titles")
    titled = False
    while words and fold(words[0][0]) in titles | ignored:
        titled = titled or fold(words[0][0]) in titles
        opens = opens and len(words) == 1
        words = words[1:]
    while words and fold(words[-1][0]) in ignored:
        words = words[:-1]
    while words and words[-1][0].isupper() and pattern("label").match(text, words[-1].end()):
        words = words[:-1]  # Flight BA 2490
    is_long = len(words) > 2
    words = words[-2:] if german else words  # A noun may stand before a name.
    words = words[1:] if words and words[0][0].islower() else words
    words = words[-1:] if titled else words  # Dr. Hannah Osei is Dr. Osei, too.
    if not words or (not titled and not is_long and opens and (german or len(words) < 2)):
        return
    name, first = text[words[0].start() : words[-1].end()], fold(words[0][0])
    if german and "-" in words[-1][0][1:-1]:  # PayPal-Konto
        name = name.rpartition("-")[0]
    if german and not titled and len(words) < 2:
        is_noun = first.endswith(tuple(folded("names", "german_endings"))) or first in folded("names", "german_nouns")
        if first.endswith(tuple(folded("names", "german_places"))):
            before = "in "
        if is_noun or fold(before).rpartition(" ")[0].rpartition(" ")[2] not in folded("names", "german_before"):
            return
    is_unit = len(name) == 1 and text[words[0].start() - 1 : words[0].start()] == "/"  # mmol/L
    if not is_unit and not (name.isupper() and pattern("label").match(text, words[-1].end())):
        yield Fact.within("name", text, (words[0].start(), words[-1].end()), {fold(name)})


@functools.cache
def _places() -> re.Pattern[str]:
    return re.compile("|".join(sorted(listed(table()["names"]["places"]), key=len, reverse=True)))


@functools.cache
def _states() -> tuple[Mapping[str, str], re.Pattern[str]]:
    """States by the folded words that name them, and those words in scripts without spaces or with affixes."""
    words = {fold(word): state for state, row in table()["status"].items() for word in listed(row["is"])}
    wide = sorted(filter(pattern("wide").search, words), key=len, reverse=True)
    return words, re.compile("|".join(map(re.escape, wide)))


@functools.cache
def _weekdays() -> Mapping[str, int]:
    return {fold(name): day for day, row in enumerate(table()["weekdays"]["names"]) for name in row.split()}


@functools.cache
def _short_day(day: int) -> re.Pattern[str]:
    """A weekday in short, where it can be no other word: Thu, Mar 6; Mi., 24. September; at the end."""
    names = table()["weekdays"]["names"][day].split()
    long, short = (sorted({name[:size].title() for name in names}) for size in (3, 2))
    either = "|".join(map(re.escape, [*long, "Thurs", *short]))
    before_a_date = rf"(?:{either})(?:[.,]{{1,2}}\s?(?=\w+\s\d|\d)|\s(?=\d))"
    return re.compile(rf"(?<!\w)(?:{before_a_date}|(?:{'|'.join(map(re.escape, long))})(?=$|[).\n]))")


@functools.cache
def _opposites() -> Mapping[str, str]:
    pairs = [pair.split("/") for pair in table()["opposites"]["states"].split()]
    return {first: second for pair in pairs for first, second in (pair, reversed(pair))}


@functools.cache
def _placed() -> Mapping[str, tuple[str, frozenset[str]]]:
    """Words that are a state only at the end of a clause and behind some words: on, aus."""
    rows = ((state, row) for state, row in table()["status"].items() if "after" in row)
    return {word: (state, frozenset(row["after"].split())) for state, row in rows for word in row["word"].split()}


def states(text: str) -> Iterator[Fact]:
    """The states that a plain text names."""
    words, wide = _states()
    before = ""

    def is_about(state: str, match: re.Match[str]) -> bool:
        """Whether a word that says where a number goes stands near one."""
        near = text[max(match.start() - _NEAR, 0) : match.end() + _NEAR]
        return state not in _OF_NUMBERS or re.search(r"[0-9]", near) is not None

    for word in pattern("word").finditer(text):
        key = fold(word[0])
        state, after = _placed().get(key, ("", frozenset[str]()))
        if state and before in after and pattern("ends").match(text, word.end()):
            yield Fact.within("state", text, word.span(), {state})
        elif key in words and is_about(words[key], word):
            yield Fact.within("state", text, word.span(), {words[key]})
        before = key
    for match in () if text.isascii() else wide.finditer(text):
        is_denied = match.start() > 0 and text[match.start() - 1] in _NOT  # 未完了, 미완료
        if not is_denied and is_about(words[match[0]], match):
            yield Fact.within("state", text, match.span(), {words[match[0]]})


class Words:
    """The words of a plain text, to look for a quote, a name or a state."""

    def __init__(self, text: str) -> None:
        """Folds them."""
        self._raw = text
        self._text = " ".join(text.split()).casefold()
        self._folded = fold(self._text)
        self._distinct = frozenset(fold(word[0]) for word in pattern("word").finditer(text))
        self._bare = frozenset(map(_bare, self._distinct))

    def has(self, fact: Fact) -> bool:
        """Whether the words of a fact are there."""
        value = next(iter(fact.values))
        if fact.kind == "quote":
            return value in self._text
        if fact.kind == "state":
            if value in _OF_NUMBERS:
                return self._beside_numbers.says_one_of(table()["status"][value]["has"])
            return self.says_one_of(table()["status"][value]["has"]) or self.denies_opposite(value)
        if pattern("wide").search(value):
            return value in self._folded
        if (day := _weekdays().get(value)) is not None:
            is_there = any(_weekdays().get(word) == day for word in self._distinct)
            return is_there or _short_day(day).search(self._raw) is not None
        parts = [_bare(fold(word[0])) for word in pattern("word").finditer(value)]
        is_place = len(parts) == 1 and parts[0].endswith("en")
        if is_place and f"{parts[0][:-2]}er" in self._bare:  # Esslingen: das Esslinger Rathaus
            return True
        return all(map(self._names, parts))

    def says_one_of(self, stems: str) -> bool:
        """Whether a word is there that begins with one of the stems of a table."""
        return any(self._says(fold(stem)) for stem in listed(stems))

    @functools.cached_property
    def _beside_numbers(self) -> Words:
        """The sentences with digits, where words say whether these go up or down; all, if numbers are in words."""
        own = " ".join(said for _, said in sentences(self._text) if re.search(r"[0-9]", said))
        return Words(own or self._text)

    def _names(self, word: str) -> bool:
        """Whether a word of a name is there, also as a part: Wismarer."""
        return word in self._bare or (len(word) > _PART and any(said.startswith(word) for said in self._bare))

    def has_short(self, fact: Fact) -> bool:
        """Whether a date is there as two numbers: `am 5.6.`; `6/5` only in scripts in which that is no fraction."""
        pairs = [value.lstrip("0").replace("-0", "-").split("-") for value in fact.values if "-" in value]
        slashes = pattern("wide").search(self._text) is not None
        forms = [
            rf"{_GERMAN}0?{d}\.0?{m}\.(?! ?\d{{4}})"
            rf"|(?<!ersion )(?<!v){d:0>2}\.{m:0>2}\.(?! ?\d{{4}})|0?{d}\.\s?(?:bis|-)\s?\d{{1,2}}\.0?{m}\."
            + rf"|0?{m}[/-]0?{d}|0?{d}/0?{m}"
            * slashes
            for m, d in pairs
        ]
        form = "|".join(forms)
        return bool(pairs) and re.search(rf"(?<![\d.,/-])(?:{form})(?![\d/]|[.,-]\d)", self._text) is not None

    def has_spaced(self, fact: Fact, reference: str) -> bool:
        """Whether letters and number of a code stand together here and apart in the reference, or the reverse; or an
        ordinal is written out: third for 3rd.
        """
        if ordinal := _ORDINAL.match(reference, fact.start):  # The 1st floor: "First, go up" is none.
            said = re.finditer(rf"(?<![\w-])(\w{{1,20}}) {re.escape(fold(ordinal[2]))}(?!\w)", self._folded)
            return any(ordinals().get(match[1]) == int(ordinal[1]) for match in said)
        if fact.kind == "code" and (quarter := _QUARTER.fullmatch(fact.text)):
            names = [name for name, day in ordinals().items() if day == int(quarter[1])]
            spelled = "|".join([*map(re.escape, names), rf"{quarter[1]}(?:st|nd|rd|th|\.)"])
            form = rf"(?<![\w-])(?:{spelled})[ -](?:quarter|quartals?)(?![\w-])|{quarter[1]}\s?(?:분기|四半期|季度)"
            return re.search(form, self._folded) is not None
        if fact.kind == "code":
            parts = _JOINED.fullmatch(fact.text)
        else:
            parts = _APART.search(reference[max(fact.start - _PART - 1, 0) : fact.end])
        if parts is None:
            return False
        form = rf"(?<![a-z0-9]){parts[1].lower()}[ -]?{parts[2]}(?![a-z0-9]|[.,]\d)"
        return re.search(form, self._text) is not None

    def says_opposite(self, fact: Fact) -> bool:
        """Whether the opposite of a state is said: closed, for open."""
        opposite = _opposites().get(next(iter(fact.values)))
        return opposite is not None and self.says_one_of(table()["status"][opposite]["has"])

    def has_other_letters(self, fact: Fact, reference: str) -> bool:
        """Whether the letters in front of a number are others wherever it is said: LH 2490 for BA 2490."""
        own = _APART.search(reference[max(fact.start - _PART - 1, 0) : fact.end]) if fact.kind == "number" else None
        if own is None:
            return False
        said = [
            match[1] for match in re.finditer(rf"(?:(?<![A-Za-z])([A-Z]{{1,4}})[ -])?(?<!\d){own[2]}(?!\d)", self._raw)
        ]
        return bool(said) and all(said) and own[1] not in said

    def has_version(self, fact: Fact) -> bool:
        """Whether a number with a point is said letter by letter, be it a number there or a version."""
        value = fact.text if fact.kind == "number" else next(iter(fact.values))
        if not _VERSION.fullmatch(value):
            return False
        return re.search(rf"(?<![\d.,]){re.escape(value)}(?!\d|[.,]\d)", self._raw) is not None

    def denies_opposite(self, state: str) -> bool:
        """Whether the opposite of a state is denied wherever it is said: not open, for closed."""
        opposite = _opposites().get(state)
        if opposite is None or not self.says_one_of(stems := table()["status"][opposite]["has"]):
            return False
        parts = (clause for _, sentence in sentences(self._text) for clause in clauses(sentence))
        said = [clause for clause in islice(parts, _MOST_CLAUSES) if Words(clause).says_one_of(stems)]
        # The word of a state may itself have a part that denies: 未付款.
        bare = re.compile("|".join(re.escape(fold(stem)) for stem in listed(stems)))
        return bool(said) and all(denial(bare.sub(" ", clause)) is not None for clause in said)

    def may_deny(self, *, free: bool = False) -> set[str]:
        """The words of the table that are there and may deny; `free`: costs, too."""
        stems = listed(table()["negation"]["also"]) + (listed(table()["negation"]["free"]) if free else [])
        return {stem for stem in stems if self._says(fold(stem))}

    def _says(self, stem: str) -> bool:
        if stem in _SIGNS:
            return re.search(rf"(?<![a-z0-9)\]]){_SIGNS[stem]}[$€£¥₩]?\d", self._folded) is not None
        if not stem[0].isalnum() or pattern("wide").search(stem) or " " in stem:
            return re.search(f"(?<![{_NOT}]){re.escape(stem)}", self._folded) is not None
        return stem in self._distinct or (
            len(stem) > 3 and any(word.startswith(stem) or _ends_with(word, stem) for word in self._distinct)
        )


def _ends_with(word: str, stem: str) -> bool:
    """Whether a long word ends with a stem that it does not deny: Umsatzwachstum."""
    return len(stem) > 5 and word.endswith(stem) and not word.startswith(("un", "in", "dis", "ent"))


def _bare(word: str) -> str:
    """A name without the ending of a possessive: Anna's, Webers."""
    return word.partition("'")[0].removesuffix("s") if word[1:2] != "'" else word


def sentences(text: str) -> list[tuple[int, str]]:
    """The sentences of a text with their places; of a long text the first ones."""
    found: list[tuple[int, str]] = []
    for match in pattern("sentence").finditer(text):
        found += [(match.start(), match[0])] if match[0].strip() else []
        if len(found) == _MOST_SENTENCES:
            break
    return found


def clauses(sentence: str) -> list[str]:
    """The parts of a sentence between commas, and the like; the sentence, if it has none."""
    return [each for each in pattern("joins_clauses").split(sentence) if each.strip()]


@functools.cache
def _harmless() -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, listed(table()["negation"]["harmless"]))), re.IGNORECASE)


def denial(sentence: str, *, strict: bool = False) -> re.Match[str] | None:
    """The word with which a sentence denies; `strict`: not one that may be a part of another word."""
    if _denial(sentence, strict) is None:
        return None
    return _denial(_harmless().sub(lambda match: "\x00" * len(match[0]), sentence), strict)


def _denial(sentence: str, strict: bool) -> re.Match[str] | None:
    words = folded("negation", "words")
    said = (word for word in pattern("word").finditer(sentence) if fold(word[0].replace("’", "'")) in words)
    row = table()["negation"]
    listed_parts = f"{row['parts']}{'' if strict else ' ' + row['more']}".replace(" ", "|")
    parts = None if sentence.isascii() else re.search(listed_parts, sentence)
    return next(said, None) or parts


class Denials:
    """What an answer denies, to look for what a reference denies."""

    def __init__(self, answer: str) -> None:
        """Divides it into sentences and clauses."""
        self._answer = answer
        self._sentences = [sentence for _, sentence in sentences(answer)]
        parts = (clause for sentence in self._sentences for clause in clauses(sentence))
        self._split = [words(sentence) for sentence in self._sentences]
        # A point of a list may say after a comma what it denies: "Deposit: 200 EUR, not refundable".
        points = [sentence for sentence in self._sentences if pattern("point").search(sentence)]
        self._places = [(each, True) for each in islice(parts, _MOST_CLAUSES)] + [(each, False) for each in points]
        self._subjects = [subjects(each) for each, _ in self._places]

    def denies(self, sentence: str) -> bool:
        """Whether the answer denies where it speaks of what a sentence denies; anywhere, if it speaks of it nowhere.

        An answer in other words divides its sentences otherwise: what is denied may be one of its own, or one point of
        a list. What is so otherwise is denied, too: not open, and closed; no fee, and free of charge.
        """
        at = _nearest(words(sentence), self._split)
        about = _about(sentence)
        own = subjects(about)
        shared = [len(own & each) for each in self._subjects]
        most = max(shared, default=0)
        alike = (place for place, count in zip(self._places, shared, strict=True) if count == most)
        best = list(islice(alike, _MOST_ALIKE)) if most else [(self._answer, True)]
        best += [] if at is None else [(self._sentences[at], False)]
        is_free = Words(plain(about)).says_one_of(table()["negation"]["costs"]) and not _is_free(about)
        known = list(states(plain(about)))
        return any(self._denied(text, known, free=is_free, is_clause=is_clause) for text, is_clause in best)

    @staticmethod
    def _denied(text: str, known: Sequence[Fact], *, free: bool, is_clause: bool) -> bool:
        said = Words(plain(text))
        opposite = any(map(said.says_opposite, known))
        if denial(text) is not None or said.may_deny(free=free and is_clause):
            own = (table()["status"][value]["has"] for fact in known for value in fact.values)
            return not opposite or any(map(said.says_one_of, own))  # Not unpaid is no denial of paid.
        return opposite and is_clause

    def claims(self, sentence: str, states: Collection[str]) -> bool:
        """Whether the most similar sentence of the answer denies, and not only that what is so is otherwise: closed,
        and not open; pending, and not yet approved; free, and no fee.
        """
        at = _nearest(words(sentence), self._split)
        if at is None or (found := denial(self._sentences[at], strict=True)) is None:
            return False
        part = next((each for each in clauses(self._sentences[at]) if found[0] in each), self._sentences[at])
        said = Words(plain(part))
        if _is_free(sentence) and said.says_one_of(table()["negation"]["costs"]) and not _is_free(part):
            return False
        if not _UNDONE.isdisjoint(states) and pattern("not_yet").search(part):
            return False
        return not any(said.denies_opposite(state) for state in states)


def _is_free(text: str) -> bool:
    """Whether it has a word for free of charge, denied or not."""
    return any(fold(word) in fold(plain(text)) for word in listed(table()["negation"]["free"]))


def _about(sentence: str) -> str:
    """What is near the word with which a sentence denies, in its clause."""
    clause = next((each for each in clauses(sentence) if denial(each)), sentence)
    found = denial(clause)
    if found is None:
        return clause
    if pattern("wide").search(clause) and not re.search("[\u0600-\u06ff]", clause):
        near = clause[max(found.start() - _WIDE_NEAR, 0) : found.end() + _WIDE_NEAR]
        return near.replace(found[0], " ")
    return " ".join(
        [*clause[: found.start()].split()[-_WORDS_NEAR:], *clause[found.start() :].split()[: _WORDS_NEAR + 1]]
    )


def subjects(text: str) -> set[str]:
    """What a clause speaks of: the stems of its words, pairs of characters in scripts without spaces."""
    found = set[str]()
    previous = ""
    for word in words(text):
        if word in _NOT:
            continue
        if word >= "\u2e80":
            found |= {previous + word} if previous else set()
        elif len(word) > 2 and word not in folded("negation", "words") | folded("negation", "little"):
            word = _ARTICLE.sub("", word) if word[0] >= "\u0600" else word
            found.add(stem(word)[: _PART + 1])
        previous = word if word >= "\u2e80" else ""
    return found


def _nearest(sentence: Collection[str], others: Sequence[Collection[str]]) -> int | None:
    """The index of the sentence with most words in common, if they share a fourth of theirs."""
    shares = [2 * len(set(sentence) & set(other)) / (len(sentence) + len(other) or 1) for other in others]
    best = max(range(len(shares)), key=shares.__getitem__, default=None)
    return best if best is not None and shares[best] >= _LEAST_ALIKE else None
