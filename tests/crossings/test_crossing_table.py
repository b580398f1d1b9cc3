"""The mechanism of the tables."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from crossing_table import Impossible, Row, Table
from hypothesis import given
from hypothesis import strategies as st

AXES = {"outage": tuple("abcdefghij"), "who": ("agent", "judge"), "when": ("first", "later", "never")}
RULE = Row(where={}, expect=3)


def table(**changed: Any) -> Table:
    return Table(**{"name": "test", "axes": AXES, "rows": (RULE,), **changed})


def test_check__a_cell_without_an_expectation_is_an_error() -> None:
    with pytest.raises(LookupError, match=r"expects nothing of .*judge"):
        table(rows=(Row(where={"who": "agent"}, expect=1),)).check()


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"rows": (RULE, Row(where={"who": "agent"}, expect=1))}, "these rows decide no cell"),
        ({"rows": (Row(where={"who": "nobody"}, expect=1), RULE)}, "the axis who has no {'nobody'}"),
        ({"rows": (Row(where={"who": "agent"}, expect=1, cause="it is so"), RULE)}, "50% of the cells"),
        ({"impossible": (Impossible(where={"when": "never"}, why="?"),)}, "no cell has {'never'} of when"),
        ({"impossible": (Impossible(where={"when": "never", "who": "agent"}, why=""),)}, "has no reason"),
    ],
)
def test_check__finds(changed: dict[str, Any], problem: str) -> None:
    with pytest.raises(AssertionError, match=problem):
        table(**changed).check()


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


GROUPS = """
import os

import pytest
from crossing_table import Row, Table

TABLE = Table(name="t", axes={"cell": tuple("abcd"), "run": ("1", "2", "3")}, rows=(Row(where={}, expect=1),))


@pytest.mark.parametrize("cell", TABLE.cells_to_run(shared=("run",)))
def test_one(cell):
    with open(f"run {cell['run']}", "a") as file:
        print(os.getpid(), file=file)
"""


def test_cells_to_run__those_that_share_a_run_are_in_one_process(tmp_path: Path) -> None:
    for name in ("conftest.py", "crossing_table.py"):
        shutil.copy(Path(__file__).with_name(name), tmp_path)
    (tmp_path / "test_groups.py").write_text(GROUPS, encoding="utf-8")
    (tmp_path / "pytest.ini").touch()
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:asyncio", str(tmp_path)]

    subprocess.run(command, cwd=tmp_path, env={**os.environ, "CROSSINGS": "all"}, check=True, timeout=120)

    processes = [(tmp_path / f"run {run}").read_text().split() for run in "123"]
    assert [(len(pids), len(set(pids))) for pids in processes] == [(4, 1)] * 3
    assert len({pids[0] for pids in processes}) == 2
