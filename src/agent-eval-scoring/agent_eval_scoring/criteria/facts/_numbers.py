"""Numbers in a text, with sign, separators of any locale, scale, and unit or currency; also written out, and in Han
characters and Hangul: 一百五十, 二〇二六, 1万2500, 백오십.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

from agent_eval_scoring.criteria.facts._fact import Fact, Kind
from agent_eval_scoring.criteria.facts._words import (
    conversions,
    fold,
    folded,
    numbers,
    pattern,
    scales,
    table,
    unit_of,
    unit_pattern,
    units,
)

_LONGEST = 40
_OF_CENTS = frozenset({"USD", "EUR"})
_MILLIONS = re.compile("m(?![A-Za-z0-9])")
_PREFIX = re.compile("^[وبلف]?(?:ال)?(?=.)")
_BEFORE = 12
"""Characters before a number in which its sign and currency are."""
_MOST_SCALES = 4
_SUFFIXES = frozenset({"", "st", "nd", "rd", "th", "am", "pm", "x", "er", "h", "uhr"})


def digits(text: str) -> Iterator[Fact]:
    """The numbers that a plain text has in digits."""
    for match in pattern("digits").finditer(text):
        start, groups = match.start(), pattern("separator").split(match[0])
        if len(groups) > 1 and text[start - 1 : start].isascii() and text[start - 1 : start].isalpha():
            start, groups = start + len(groups[0]) + 1, groups[1:]  # The end of a code, and what follows: YT88310,25
        is_marker = text[match.end() : match.end() + 2] in {". ", ") "} and len(match[0]) < 3 and "\n" in text
        if len(match[0]) > _LONGEST or pattern("as_article").match(text, start):
            continue
        if is_marker and pattern("list_marker").search(text[max(start - _BEFORE, 0) : start]):
            continue
        grouped = all(len(group) == 3 for group in groups[1:-1]) or (len(groups[-1]) == 3 and "." not in match[0])
        if len(groups) <= 2 or (grouped and len(groups[0]) <= 3):
            yield number(text, start, match.end(), _readings(text[start : match.end()]))
            continue
        for group in groups:  # A list without blanks: 1,2,3.
            yield number(text, start, start + len(group), {Decimal(group)}, tail=start + len(group) == match.end())
            start += len(group) + 1


_ONE = frozenset({"one", "eins"})
_HALF = re.compile(r" and a half\b", re.IGNORECASE)
_FRENCH = frozenset({"deux", "trois", "quatre", "cinq", "sept", "huit", "neuf"})
_CENTS = frozenset({"cent", "cents"})
"""Hundreds in French, behind its own numbers or before its money; else money."""
_FRENCH_MONEY = re.compile(" (?:euros?|francs?|dollars|mille)")
_WITH_UNIT = re.compile("(.{3,30}?)((?:stund|tag|woch|monat|jahr|minut)ige?[mnrs]?)")
_AND_A_HALF = re.compile("(.{2,30})einhalb|anderthalb")


def written(text: str) -> Iterator[Fact]:
    """The numbers that a plain text has in words: from two to ninety-nine, with hundreds and scales."""
    end = 0
    for word in pattern("word").finditer(text):
        if word.start() < end:
            continue
        joined = _AND_A_HALF.fullmatch(fold(word[0]))  # zweieinhalb
        if joined and (whole := 1 if joined[1] in {"ein", None} else numbers().get(joined[1])):
            end = word.end()
            yield number(text, word.start(), end, {Decimal(whole) + Decimal("0.5")})
            continue
        joined = _WITH_UNIT.fullmatch(fold(word[0]))  # dreistündig
        if joined and (count := numbers().get(joined[1])):
            end = word.end()
            yield number(text, word.start(), end - len(joined[2]), {Decimal(count)})
            continue
        value, after = _in_words(text, word)
        if value is None or (value == 0 and pattern("not_zero").search(text[max(after - _BEFORE, 0) : word.start()])):
            continue
        half = _HALF.match(text, after)
        end = half.end() if half else after
        yield number(text, word.start(), end, {Decimal(value) + (Decimal("0.5") if half else 0)})
    for match in () if text.isascii() else pattern("han_number").finditer(text):
        is_han = len(match[0]) == 1 and match[0] < "가"
        is_single = is_han and (match[0] not in "零〇" or text[match.end() : match.end() + 1] == "下")
        if len(match[0]) > _LONGEST or pattern("no_number").fullmatch(match[0]):
            continue
        if (
            is_single
            and not pattern("percent_before").search(text[max(match.start() - _BEFORE, 0) : match.start()])
            and not pattern("counted").match(text, match.end())
        ):
            continue
        days = [match[0][:-1]] if match[0].endswith("일") and len(match[0]) > 1 else []  # 삼십일: 31, or 30 days.
        yield number(text, *match.span(), {_decimal(spelled) for spelled in [match[0], *days]})


def _in_words(text: str, first: re.Match[str]) -> tuple[int | None, int]:
    """The number that some words say, and where they end: "two hundred and fifty", "خمسة وتسعون"."""
    total = current = count = 0
    end, joins = first.end(), False
    word: re.Match[str] | None = first
    key = ""
    while word is not None:
        previous, key = key, fold(word[0])
        is_arabic, before, rest = key[:1] >= "\u0600", joins, current % 100
        bare = _PREFIX.sub("", key) if is_arabic and not {key} & (numbers().keys() | scales().keys()) else key
        value, scale, joins = _single(bare), scales().get(bare), bare in folded("numbers", "and")
        is_first = not count and bare in folded("numbers", "ones") and pattern("hundred").match(text, word.end())
        if is_first or (bare in _ONE and current and not rest):  # It is no number by itself.
            value = 1
        if value is not None and _may_follow(current, rest, value, ones_first=before or bare != key or is_arabic):
            current += value
        elif (
            bare in folded("numbers", "hundred")
            and 0 < current < 10
            and (bare not in _CENTS or previous in _FRENCH or _FRENCH_MONEY.match(text, word.end()))
        ):
            current *= 100
        elif scale and is_arabic and (current or not count):
            total, current = total + scale * (current or 1), 0
        elif not (count and joins and not before):
            break
        count, end = (count, end) if joins else (count + 1, word.end())
        is_near = text[word.end() : word.end() + 1] in (" ", "-")
        word = pattern("word").match(text, word.end() + 1) if is_near else None
    return (None if not count or (count == 1 and total) else total + current), end


def _single(word: str) -> int | None:
    """The number that one folded word says, also as German joins it: dreitausendzweihundert; None if it says none."""
    before, thousand, after = word.partition("tausend")
    if not thousand or not (before or after):
        return numbers().get(word)
    counts = [
        1 if before in {"", "ein"} else numbers().get(before),
        numbers().get(after.removeprefix("und")) if after else 0,
    ]
    return None if None in counts else 1000 * (counts[0] or 0) + (counts[1] or 0)


def _may_follow(current: int, rest: int, value: int, *, ones_first: bool) -> bool:
    """Whether a number may be added to what was said of it, which ends in `rest`; `ones_first`: as in German."""
    if not current or (value < 100 and not rest):
        return True
    return (value < 10 and rest >= 20 and not rest % 10) or (ones_first and rest < 10 <= value < 100 and not value % 10)


def is_quantity(token: str) -> bool:
    """Whether a token of digits and letters is a number with its scale or unit, and no code."""
    match = pattern("quantity").fullmatch(token)
    rest = (match[2], match[2].casefold(), match[1] + match[2], (match[1] + match[2]).casefold()) if match else ()
    return any(name in units() or name.lower() in _SUFFIXES or name in scales() for name in rest)


def _readings(spelled: str) -> set[Decimal]:
    marks = [mark for mark in spelled if mark in ".,"]
    bare = spelled.replace("'", "").replace(" ", "")
    as_group = Decimal(bare.replace(".", "").replace(",", ""))
    if not marks or (len(marks) > 1 and len(set(marks)) == 1):
        return {as_group}
    whole, _, decimals = bare.rpartition(marks[-1])
    as_decimal = Decimal(f"{whole.replace('.', '').replace(',', '')}.{decimals}")
    if len(marks) > 1 or bare != spelled or len(decimals) != 3 or len(whole) > 3 or whole == "0":
        return {as_decimal}
    return {as_group} if decimals == "000" else {as_group, as_decimal}


def number(text: str, start: int, end: int, values: set[Decimal], *, tail: bool = True) -> Fact:
    """A number with what is around it: sign, currency, scale, unit. `tail`: also with what follows it."""
    low = max(start - _BEFORE, 0)
    before = text[low:start]
    currency = pattern("currency_before").search(before)
    units = unit_of(currency[1]) if currency else frozenset[str]()
    if currency and units:
        start, before = low + currency.start(), before[: currency.start()]
    if percent := pattern("percent_before").search(before):
        units, start = frozenset({"%"}), low + percent.start()
    if tail:
        if units and (millions := _MILLIONS.match(text, end)):  # £1.3m; without a currency m is a unit.
            values, end = {value * 1_000_000 for value in values}, millions.end()
        values, end = _scaled(text, end, values)
        if cent := pattern("cent").match(text, end):
            values, end = {value / 100 for value in values}, cent.end()
            units = units or _OF_CENTS
        half = pattern("half_before_unit").match(text, end)
        end = half.end() if half else end
        if ordinal := pattern("ordinal").match(text, end):
            end = ordinal.end()
        elif unit := unit_pattern().match(text, end):
            units, end = units or unit_of(unit[0]), unit.end()
            if half := half or (pattern("half_after_unit").match(text, end) if "d" not in units else None):
                end = max(end, half.end())
        if half:
            values = {value + Decimal("0.5") for value in values}
    if tail and text[end : end + 1] == "割":
        values, units, end = {value * 10 for value in values}, frozenset({"%"}), end + 1
    sign = pattern("minus_before").search(before)
    if sign or pattern("below").match(text, end):
        values = {-value for value in values}
        start = start - len(sign[0].lstrip(' :([=*`"\n')) if sign else start
    is_money = bool(units) and all(len(unit) == 3 and unit.isupper() for unit in units)
    kind: Kind = "percent" if "%" in units else "amount" if is_money else "number"
    known = [conversions()[unit] for unit in units if unit in conversions()]
    converted = {f"{spelled(value * factor)} {base}" for value in values for factor, base in known}
    return Fact.within(kind, text, (start, end), converted.union(map(spelled, values)), units)


def _scaled(text: str, end: int, values: set[Decimal]) -> tuple[set[Decimal], int]:
    """The number times the powers of ten behind it: "2.5M", "3 million", "1万2500"."""
    total = Decimal(0)
    for _ in range(_MOST_SCALES):
        match = pattern("scale").match(text, end)
        name = (match[1] or match[3] or fold(match[2])) if match else ""
        factor = scales().get(name) or scales().get(name.rstrip("."))
        if match is None or factor is None:
            break
        values, end = {value * factor for value in values}, match.end() - (name not in scales())  # "thousand."
        more = pattern("more_han").match(text, end) if match[3] and len(values) == 1 else None
        if more and len(more[1]) < _LONGEST:
            total, values, end = total + next(iter(values)), {Decimal(more[1].replace(",", ""))}, more.end()
    return {value + total for value in values}, end


def spelled(value: Decimal) -> str:
    """A number as values have it: without an exponent and zeros at the end."""
    digits = format(value, "f")
    digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
    return "0" if digits == "-0" else digits


_DIGITS = {character: value for value, characters in enumerate(
    ("〇零영", "一일", "二两兩이", "三삼", "四사", "五오", "六육", "七칠", "八팔", "九구")
) for character in characters}  # fmt: skip
_SMALL = {"十": 10, "십": 10, "百": 100, "백": 100, "千": 1_000, "천": 1_000}
_LARGE = {"万": 10**4, "萬": 10**4, "만": 10**4, "亿": 10**8, "億": 10**8, "억": 10**8}


def _decimal(text: str) -> Decimal:
    whole, _, decimals = text.partition("点")
    return Decimal(f"{han(whole)}.{''.join(str(_DIGITS.get(each, 0)) for each in decimals)}")


def han(text: str) -> int:
    """The number that ASCII digits, Han characters or Hangul say, as digits or with powers of ten."""
    text = text.replace(" ", "")
    for native, sino in table()["native"].items() if text > "가" else ():
        text = text.replace(native, sino)
    if text.isdecimal() or text == "ゼロ":
        return int(text.replace("ゼロ", "0"))
    if all(character in _DIGITS for character in text):
        return int("".join(str(_DIGITS[character]) for character in text))
    total = section = digit = 0
    for character in text:
        if character in _DIGITS:
            digit = _DIGITS[character]
        elif character in _SMALL:
            section += (digit or 1) * _SMALL[character]
            digit = 0
        else:
            total += (section + digit or 1) * _LARGE[character]
            section = digit = 0
    return total + section + digit
