"""Dates and times in a text: numeric forms, names of months, East Asian forms, and clocks of 12 and 24 hours."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agent_eval_scoring.criteria.facts._fact import Fact
from agent_eval_scoring.criteria.facts._numbers import han
from agent_eval_scoring.criteria.facts._words import fold, months, ordinals, pattern, spoken

_ERAS = {"令和": 2018, "平成": 1988, "昭和": 1925}
_ARABIC_PAIRS = {"كانون": (12, 1), "تشرين": (10, 11)}
"""Months of two words: the first, and the second of that name."""
_BEFORE = 12
_RANGE = 20
_NIGHT = frozenset({"晚上", "夜", "밤", "ليلًا", "ليلا"})
"""Twelve of them is midnight."""
_LONGEST = 30
"""Characters of a day in words."""


def dates(text: str) -> Iterator[Fact]:
    """The dates of a plain text. An unclear one, as 03/04/2026, has both readings."""
    for match in pattern("year_first").finditer(text):
        era, of_era, year, month, day = match.groups()
        number = _ERAS[era] + (1 if of_era == "元" else int(of_era)) if era else han(year)
        yield from _date(text, match.span(), [(han(month), han(day))], str(number))
    for match in pattern("year_last").finditer(text):
        first, separator, second, year = match.groups()
        if separator == "." and len(year) == 2 and len(first + second) < 4:
            continue  # A version.
        readings = [(int(second), int(first))] + [(int(first), int(second))] * (separator != ".")
        yield from _date(text, match.span(), readings, year if len(year) == 4 else f"20{year}")
    for match in pattern("month_and_day").finditer(text):
        yield from _date(text, match.span(), [(han(match[1]), han(match[2]))], "")
        if last := pattern("days_east").match(text, match.end()):
            yield from _date(text, last.span(1), [(han(match[1]), int(last[1]))], "")
    yield from _with_names(text)


def _with_names(text: str) -> Iterator[Fact]:
    for word in pattern("word").finditer(text):
        key = fold(word[0])
        month, end = months().get(key), word.end()
        if key in _ARABIC_PAIRS and (second := pattern("word").match(text, end + 1)):
            month, end = _ARABIC_PAIRS[key]["ثاني" in second[0]], second.end()
        if month is None:
            continue
        low, year = max(word.start() - _BEFORE, 0), pattern("year_after").match(text, end)
        if before := pattern("day_before").search(text[low : word.start()]):
            span = low + before.start(), year.end() if year else end
            yield from _date(text, span, [(month, int(before[1]))], year[1] if year else "")
            begin = max(span[0] - _BEFORE, 0)
            if first := pattern("days_before").search(text[begin : span[0]]):
                yield from _date(text, (begin + first.start(1), begin + first.end(1)), [(month, int(first[1]))], "")
        elif day := _ordinal(text[max(word.start() - _LONGEST, 0) : word.start()]):
            span = word.start(), year.end() if year else end
            yield from _date(text, span, [(month, day)], year[1] if year else "")
        elif after := pattern("day_after").match(text, end):
            yield from _date(text, (word.start(), after.end()), [(month, int(after[1]))], after[2] or "")
            if last := pattern("days_after").match(text, after.end(1)):
                group = last.lastindex or 1
                yield from _date(text, last.span(group), [(month, int(last[group]))], "")
        elif year:
            yield Fact.within("date", text, (word.start(), year.end()), {f"{month:02}"}, {year[1]})


def _ordinal(before: str) -> int | None:
    """The day that the last words before a month say."""
    words = [fold(word) for word in re.split(r"[ -]+", before.strip()) if fold(word) not in {"of", "من"}][-2:]
    return ordinals().get(" ".join(words)) or ordinals().get(words[-1] if words else "")


def _date(text: str, span: tuple[int, int], readings: list[tuple[int, int]], year: str) -> Iterator[Fact]:
    values = {f"{month:02}-{day:02}" for month, day in readings if 1 <= month <= 12 and 1 <= day <= 31}
    if values:
        yield Fact.within("date", text, span, values, {year} - {""})


def times(text: str) -> Iterator[Fact]:
    """The times of a plain text. One of a clock that may have 12 hours has both readings."""
    known, words = spoken()
    for match in words.finditer(text):
        yield Fact.within("time", text, match.span(), known[match[0].casefold()])
    for match in pattern("clock").finditer(text):
        pm, am, hour, colon, seconds, point, minute, half, pm_after, am_after = match.groups()
        hours, minutes = han(hour), han(colon or point or minute or ("30" if half else "0"))
        if hours > 24 or minutes > 59:
            continue
        readings = {hours}
        if hours in {0, 12} and ((pm or pm_after) in _NIGHT):
            readings = {0}
        elif (pm or pm_after) and hours < 12:
            readings = {hours + 12}
        elif am or am_after or pm or pm_after:
            readings = {hours % 12 if am or am_after else hours}
        elif hours <= 12 and not hour.startswith("0"):
            readings = {hours, hours + 12}
        rest = f":{seconds}" if seconds and seconds != "00" else ""
        low = max(match.start() - _RANGE, 0)
        earlier = pattern("range_before").search(text[low : match.start()])
        if earlier and (begins := int(next(filter(None, earlier.groups())))) <= 24:
            # from 9 to 5 pm, 9–17 Uhr: of either half of the day, since it isn't said
            halves = {begins % 24, (begins + 12) % 24} if begins <= 12 else {begins % 24}
            group = earlier.lastindex or 1
            span = (low + earlier.start(group), low + earlier.end(group))
            yield Fact.within("time", text, span, {f"{each:02}:00" for each in halves})
        yield Fact.within("time", text, match.span(), {f"{each % 24:02}:{minutes:02}{rest}" for each in readings})
