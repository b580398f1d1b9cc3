"""The mechanism of the tables."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from crossing_table import Impossible, Row, Table
from hypothesis import given
from hypothesis import strategies as st

AXES = {"outage": tuple("abcdefghij"), "who": ("agent", "judge"), "when": ("first", "later", "never")}
RULE = Row(where={}, expect=3)


def table(**changed: Any) -> Table:
    return Table(**{"name": "test", "axes": AXES, "rows": (RULE,), **changed})


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"rows": (Row(where={"who": "agent"}, expect=1),)}, "expects nothing of .*judge"),
        ({"rows": (RULE, Row(where={"who": "agent"}, expect=1))}, "these rows decide no cell"),
        ({"rows": (Row(where={"who": "nobody"}, expect=1), RULE)}, "the axis who has no {'nobody'}"),
        ({"rows": (Row(where={"who": "agent"}, expect=1, cause="it is so"), RULE)}, "50% of the cells"),
        ({"impossible": (Impossible(where={"when": "never"}, why="?"),)}, "no cell has {'never'} of when"),
        ({"impossible": (Impossible(where={"when": "never", "who": "agent"}, why=""),)}, "has no reason"),
    ],
)
def test_check__finds(changed: dict[str, Any], problem: str) -> None:
    with pytest.raises((AssertionError, LookupError), match=problem):
        table(**changed).cells_to_run()


@given(sizes=st.lists(st.integers(1, 4), min_size=2, max_size=4), never=st.integers(0, 3))
def test_pairwise__every_two_values_that_can_meet_do(sizes: list[int], never: int) -> None:
    axes = {f"axis {number}": tuple(map(str, range(size))) for number, size in enumerate(sizes)}
    impossible = (
        (Impossible(where={"axis 0": str(never), "axis 1": "0"}, why="of the test"),) if never < sizes[0] else ()
    )
    crossings = table(axes=axes, impossible=impossible)
    possible = {pair for cell in crossings.cells() for pair in itertools.combinations(cell.items(), 2)}

    cover = crossings.pairwise()

    assert {pair for cell in cover for pair in itertools.combinations(cell.items(), 2)} == possible
    assert len(cover) <= len(crossings.cells())


def test_cells_to_run__all_of_them_if_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CROSSINGS", raising=False)
    few = table().cells_to_run()
    monkeypatch.setenv("CROSSINGS", "all")

    assert len(few) == 30 < len(table().cells_to_run(shared=["who"])) == 60
