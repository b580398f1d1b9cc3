"""Tables of crossings: what holds where two or more features meet, generated instead of written.

A table names its axes (an outage, who has it, when it happens) and the values of each. Its cells are all combinations.
Each cell has an expectation, which the first row that matches it gives; a cell without one is an error, and so is a row
that decides no cell. Combinations that can't exist are declared, with the reason. A row with a cause is a documented
difference: it says what this cell does otherwise than the rule, and why. At most 10% of a table's cells may have one.

A test of a table takes its cells as parameters:

    TABLE = Table(
        name="outages",
        axes={"outage": ("refused", "503"), "when": ("screening", "a shard")},
        rows=(
            Row(where={"outage": "503", "when": "a shard"}, expect="...", cause="a shard compares nothing"),
            Row(where={}, expect=("provider", 3)),
        ),
    )

    @pytest.mark.parametrize("cell", TABLE.cells_to_run())
    def test_outages(cell: Cell): assert outcome_of(cell) == TABLE.expected(cell)

Collecting such a test checks the table. `make crossings` runs a pairwise cover: cells in which every two values of
different axes meet at least once. With `CROSSINGS=all` it runs all cells, as every night and before a release.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

MOST_DIFFERENCES = 0.10
"""Share of a table's cells that may be documented differences."""

Cell = Mapping[str, str]
"""One value for each axis."""
Where = Mapping[str, str | Collection[str]]
"""The value or values of some axes; any value of the others."""
Pair = tuple[tuple[str, str], tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class Row:
    """What is expected of the cells that match."""

    where: Where
    expect: Any
    cause: str = ""
    """Why these cells differ from the rule; empty for the rule."""


@dataclass(frozen=True, kw_only=True)
class Impossible:
    """Combinations that can't exist."""

    where: Where
    why: str


def _values(wanted: str | Collection[str]) -> Collection[str]:
    return (wanted,) if isinstance(wanted, str) else wanted


def _matches(cell: Cell, where: Where) -> bool:
    return all(cell[axis] in _values(values) for axis, values in where.items())


def _pairs(cell: Cell) -> Iterator[Pair]:
    return itertools.combinations(cell.items(), 2)


@dataclass(frozen=True, kw_only=True)
class Table:
    """The axes, and what is expected where they cross."""

    name: str
    axes: Mapping[str, Sequence[str]]
    rows: Sequence[Row]
    impossible: Sequence[Impossible] = field(default=())

    def cells(self) -> list[Cell]:
        """All cells that can exist, in the order of the axes' values."""
        combinations = (dict(zip(self.axes, values, strict=True)) for values in itertools.product(*self.axes.values()))
        return [cell for cell in combinations if not any(_matches(cell, no.where) for no in self.impossible)]

    def row(self, cell: Cell) -> Row:
        """The row that decides a cell.

        Raises:
            LookupError: No row matches.
        """
        for row in self.rows:
            if _matches(cell, row.where):
                return row
        raise LookupError(f"the table of {self.name} expects nothing of {dict(cell)}")

    def expected(self, cell: Cell) -> Any:
        """What is expected of a cell."""
        return self.row(cell).expect

    def check(self) -> None:
        """Fails unless each cell has an expectation, each row and each value a cell, and few cells are differences."""
        for where in (*(row.where for row in self.rows), *(no.where for no in self.impossible)):
            for axis, values in where.items():
                unknown = set(_values(values)) - set(self.axes[axis])
                assert not unknown, f"{self.name}: the axis {axis} has no {unknown}"
        assert all(no.why for no in self.impossible), f"{self.name}: an impossible combination has no reason"
        cells = self.cells()
        deciding = [self.row(cell) for cell in cells]
        idle = [row for row in self.rows if not any(row is other for other in deciding)]
        assert not idle, f"{self.name}: these rows decide no cell: {[dict(row.where) for row in idle]}"
        for axis, values in self.axes.items():
            missing = set(values) - {cell[axis] for cell in cells}
            assert not missing, f"{self.name}: no cell has {missing} of {axis}"
        share = sum(bool(row.cause) for row in deciding) / len(cells)
        assert share <= MOST_DIFFERENCES, f"{self.name}: {share:.0%} of the cells are documented differences"

    def pairwise(self) -> list[Cell]:
        """Few cells in which every two values that can meet do: greedy, and the same ones each time."""
        cells = self.cells()
        having: dict[Pair, list[int]] = defaultdict(list)
        for at, cell in enumerate(cells):
            for pair in _pairs(cell):
                having[pair].append(at)
        scores = Counter(at for places in having.values() for at in places)
        chosen = []
        while having:
            best = max(range(len(cells)), key=scores.__getitem__)
            for pair in _pairs(cells[best]):
                scores.subtract(having.pop(pair, ()))
            chosen.append(cells[best])
        return chosen

    def cells_to_run(self, *, shared: Sequence[str] = ()) -> list[Any]:
        """Parameters for pytest: the pairwise cover, or all cells if the variable `CROSSINGS` is `all`.

        Args:
            shared: Axes whose values decide on something costly, e.g. a run of an agent. Cells with the same values of
                these axes run in the same process of pytest, so that a cache of the module has it once.
        """
        self.check()
        cells = self.cells() if os.environ.get("CROSSINGS") == "all" else self.pairwise()
        return [pytest.param(cell, id=self._id(cell, shared)) for cell in cells]

    def _id(self, cell: Cell, shared: Sequence[str]) -> str:
        group = f"{'-'.join(cell[axis] for axis in shared)}@" if shared else ""
        return group + "-".join(cell.values())
