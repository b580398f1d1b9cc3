"""A fact: what it is, what it may be read as, and where it is in its text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "number", "percent", "amount", "date", "time", "code", "email", "url", "quote", "name", "state", "negation"
]
NUMBERS: frozenset[Kind] = frozenset({"number", "percent", "amount"})


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that a text says."""

    kind: Kind
    values: frozenset[str]
    """What it may be read as: "1,234" is 1234, or 1.234 with a decimal comma; "3:00" is 03:00 or 15:00. "48 mm" is 48
    and, with its unit, "0.048 m"."""
    units: frozenset[str]
    """The unit or currency of a number, the year of a date; empty: not said."""
    text: str
    """As written."""
    start: int
    """0-based place of the first character."""
    end: int

    @classmethod
    def within(
        cls, kind: Kind, text: str, span: tuple[int, int], values: Iterable[str], units: Iterable[str] = ()
    ) -> Fact:
        """A fact at a place of a text."""
        return cls(kind, frozenset(values), frozenset(units), text[slice(*span)], *span)

    @property
    def family(self) -> str:
        """Facts of other families are never the same."""
        return "number" if self.kind in NUMBERS else self.kind

    def is_same(self, other: Fact) -> bool:
        """Whether both can be read alike. A unit, a currency or a year that one of them leaves out is no difference."""
        shared = self.values & other.values
        if self.family != other.family or not shared:
            return False
        if any(" " in value for value in shared):  # in the same unit
            return True
        if "percent" in {self.kind, other.kind}:
            return self.kind == other.kind
        return not self.units or not other.units or not self.units.isdisjoint(other.units)
