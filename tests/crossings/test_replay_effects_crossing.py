"""Recorded tools that do more than answer: they set state, raise, save artifacts, answer the same call differently."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from crossing_table import Cell, Row, Table
from replay_runs import SETTINGS, VERSIONS, Edits, Runs, copy, edit, key_of

REFUSED = ("saves", "runs_long", "acts", "confirms")
SAME = ("answers", "in_parallel", "sets_state", "raises")
"""What the tool does that answers a repeated call as the first one on its tape."""
ROOMS = '["hall", "kitchen"]'
CHANGES: Mapping[str, Edits] = {
    "prompt": (("agent.py", '"The lamp is {lamp?}."', '"Look! The lamp is {lamp?}."'),),
    "code": (("tools.py", "if count <= 2", "if count <= 1"),),
    "reads other state": (("agent.py", "{lamp?}", "{light?}"),),
    "one more call": (("agent.py", ROOMS, '["hall", "kitchen", "hall"]'),),
    "another call": (("agent.py", ROOMS, '["hall", "kitchen", "attic"]'),),
}
MISS = {"setting": "miss: live"}
STALE = {"change": "code", "setting": ("error", "miss: live")}

TABLE = Table(
    name="replay-effects",
    axes={
        "does": (*SAME, "counts", "random", *REFUSED),
        "where": ("the agent", "AgentTool"),
        "change": tuple(CHANGES),
        "version": VERSIONS,
        "setting": tuple(SETTINGS),
    },
    rows=(
        Row(where={"does": REFUSED}, expect="tool-not-replayable"),
        Row(where=STALE, expect="tool-tape-stale"),
        Row(where={"does": "random", "change": ("prompt", "reads other state"), **MISS}, expect="passed"),
        Row(where={"does": "random", **MISS}, expect="failed"),
        Row(where={"does": "random"}, expect="tool-not-recorded"),
        Row(where={"does": "sets_state", "change": "reads other state"}, expect="failed"),
        Row(where={"change": ("prompt", "reads other state")}, expect="passed"),
        Row(where={"change": "code"}, expect="passed"),  # the maintainer has chosen the old answers
        Row(
            where={"does": SAME, "change": "one more call"},
            expect="passed",
            cause="a tool has no memory in a replay: a repeated call gets the answer of the first one",
        ),
        Row(where={"change": ("one more call", "another call"), **MISS}, expect="failed"),
        Row(where={"change": ("one more call", "another call")}, expect="tool-not-recorded"),
    ),
)


def write(package: Path, cell: Cell, changed: bool) -> None:
    """Writes the package of a cell's agent."""
    copy("effects", package)
    values = (("agent.py", '"answers"\n', f'"{cell["does"]}"\n'), ("agent.py", '"the agent"\n', f'"{cell["where"]}"\n'))
    edit(package, (*values, *(CHANGES[cell["change"]] if changed else ())))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Runs]:
    return Runs.of_version(TABLE, tmp_path_factory, write)


def test_replay_effects__table() -> None:
    TABLE.check()


@pytest.mark.parametrize("cell", TABLE.cells_to_run(shared=("version",)))
def test_replay_effects__are_not_green_where_a_live_run_is_not(cell: Cell, runs: Callable[[str], Runs]) -> None:
    of_version, case = runs(cell["version"]), key_of(cell)
    unchanged = {"random": "tool-not-recorded", **dict.fromkeys(REFUSED, "tool-not-replayable")}
    assert of_version.unchanged[case] == unchanged.get(cell["does"], "passed")
    live, replayed = of_version.live[case], of_version.replayed[cell["setting"]][case]
    if cell["does"] != "confirms":  # whose turn ends with the question
        is_read = cell["does"] == "sets_state" and cell["change"] == "reads other state"
        assert (live == "passed") == (cell["change"] in {"prompt", "reads other state"} and not is_read)
    assert replayed == TABLE.expected(cell)
    is_chosen = cell["setting"] == "stale: warn" and cell["change"] == "code"
    assert replayed != "passed" or live == "passed" or is_chosen or TABLE.row(cell).cause
