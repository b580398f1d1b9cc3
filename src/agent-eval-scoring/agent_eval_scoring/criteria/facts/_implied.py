"""What a text says without a fact of its own: it only serves to find what another text says.

Quantities in parts (2 hours and 30 minutes are 150 minutes, 1 kg 500 g are 1.5 kg), also with one of a unit (an hour
and 30 minutes, an hour and a half). "An hour" alone is none: it is a rate in "4 euros an hour". All values have a
unit, so none stands for a bare number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise

from agent_eval_scoring.criteria.facts._fact import Fact
from agent_eval_scoring.criteria.facts._numbers import number, spelled
from agent_eval_scoring.criteria.facts._words import conversions, pattern, plain


def implied(text: str, facts: Sequence[Fact]) -> Iterator[tuple[Fact, Sequence[Fact]]]:
    """What a text implies, each with the facts that it consists of; without any, if there are none.

    Args:
        text: The text of the facts.
        facts: By place.
    """
    legible = plain(text)
    ones = list(_ones(legible))
    yield from ((one, ()) for one, has_half in ones if has_half)
    parts: list[Fact] = []
    for first, second in pairwise(sorted([*facts, *(one for one, _ in ones)], key=lambda fact: fact.start)):
        parts = parts or [first]
        if _continues(legible, first, second):
            parts.append(second)
            yield _together(text, parts), tuple(parts)
        else:
            parts = []


def _ones(text: str) -> Iterator[tuple[Fact, bool]]:
    """One of a unit, and whether a half is added to it."""
    found = [(match, Decimal("1.5")) for match in pattern("one_and_a_half").finditer(text)]
    for match in pattern("quarter_of").finditer(text):
        is_three = (match[1] or "").lower().startswith(("three", "dreiv"))
        found.append((match, Decimal("0.75" if is_three else "0.25")))
    found += [(match, Decimal("0.5")) for match in pattern("half_of").finditer(text)]
    found += [(match, Decimal(1)) for match in pattern("one_of").finditer(text)]
    for match, value in found:
        one = number(text, *match.span(), {value})
        if bases := _bases(one):
            yield replace(one, values=frozenset(bases)), "1" not in one.values


def _continues(text: str, first: Fact, second: Fact) -> bool:
    """Whether a quantity in a smaller unit is said right after another one."""
    large, small = _unit(first), _unit(second)
    if large is None or small is None or large[1] != small[1] or large[0] <= small[0]:
        return False
    return pattern("joins_parts").fullmatch(text, first.end, second.start) is not None


def _unit(fact: Fact) -> tuple[Decimal, str] | None:
    """The only unit that a number is in, as `conversions` has it; None if it could be read in two ways."""
    if fact.kind != "number" or len(fact.units) != 1 or len(_bases(fact)) != 1:
        return None
    [unit] = fact.units
    return conversions().get(unit)


def _bases(fact: Fact) -> list[str]:
    return [value for value in fact.values if " " in value]


def _together(text: str, parts: Sequence[Fact]) -> Fact:
    amounts = [_bases(part)[0].split(" ") for part in parts]
    total = sum((Decimal(amount) for amount, _ in amounts), Decimal(0))
    span = (parts[0].start, parts[-1].end)
    return Fact.within("number", text, span, {f"{spelled(total)} {amounts[0][1]}"}, parts[0].units)
