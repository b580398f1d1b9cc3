"""docs/statistics.md and benchmarks/RESULTS.md: tables, pictures and numbers are what was measured and promised."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import get_args

import draw_statistics
import gate_error_rates as bench
import pytest
from docs_pages import ROOT, page, rows, section

from agent_eval.gate.regression import _base_today as base_today
from agent_eval.gate.regression import sequential
from agent_eval.gate.stats import bets, families, suspect
from agent_eval.gate.stats.exact_tests import wilson
from agent_eval.results.origin import CaseWord

TEXT = page("statistics.md")
RESULTS = bench.DOCS.read_text(encoding="utf-8")
MEASURED = bench.measured()
CELLS = {bench.key_of(cell): cell for cell in bench.cells()}
DEFAULT = {name: MEASURED["gate"][f"default: {name}"] for name, *_ in bench.CHANGES}
WORDS = " ".join(TEXT.split())
MISSED = {
    "500 cases: three cases -.5",
    "a bad moment in the screening: nothing changed: 2 cases fail, and twice again",
    "days differ: nothing changed, sd 1.0",
    "days differ: nothing changed, sd 1.0, base can't be run",
    "a drifting base: nothing changed, .05 logit worse a record",
}
"""The rows of which the page says that they miss their goal."""


@pytest.mark.parametrize("name", sorted(bench.tables(MEASURED)))
def test_statistics_docs__the_tables_are_what_was_measured(name: str) -> None:
    table = bench.tables(MEASURED)[name]
    assert bench.insert(RESULTS, name, table) == RESULTS, "python benchmarks/gate_error_rates.py --docs"


def test_statistics_docs__every_row_was_measured_with_as_many_pull_requests_as_it_says() -> None:
    for name, cells in (("gate", bench.cells()), ("settings", bench.settings_cells())):
        expected = {bench.key_of(cell): cell.trials or bench.TRIALS for cell in cells}
        assert {key: count.trials for key, count in MEASURED[name].items()} == expected
    assert MEASURED["drift"].keys() == {bench.key_of(cell) for cell in bench.drift_cells()}


def test_statistics_docs__goals_are_met_or_reported_as_missed() -> None:
    goals = {key: goal for key, cell in CELLS.items() if (goal := bench.Goal.of(cell.goal)) is not None}
    assert len(goals) >= 30
    assert {key for key, goal in goals.items() if not goal.kept(MEASURED["gate"][key])} == MISSED


def test_statistics_docs__the_promises_of_the_defaults_are_kept_with_their_limits() -> None:
    quiet, broken, item = (DEFAULT[change[0]] for change in (bench.NOTHING, bench.BROKEN, bench.ONE))
    assert wilson(quiet.hits, quiet.trials)[1] <= 0.05
    assert wilson(broken.hits, broken.trials)[0] >= 0.99
    assert wilson(item.hits, item.trials)[0] >= 0.60
    paid = [count.paid / count.trials for count in DEFAULT.values()]
    assert paid[0] <= 1.55
    assert max(paid) <= 3.0


def test_statistics_docs__the_numbers_in_the_text_are_those_measured() -> None:
    """Of an error on a day, of a thin base, and how often chance alone says that the base branch got worse."""
    gate = MEASURED["gate"]
    half, whole = (gate[f"days differ: nothing changed, sd {sd}, base can't be run"] for sd in ("0.5", "1.0"))
    assert f"{half.hits / half.trials:.1%} of the pull requests that change nothing fail" in WORDS
    assert f"with a whole logit {whole.hits / whole.trials:.1%}" in WORDS
    thin = [gate[f"{depth}, base can't be run: nothing changed"] for depth in ("1 stored run", "3 stored runs")]
    one, three = (f"{count.inconclusive / count.trials:.0%}" for count in thin)
    assert f"in {one} of the pull requests that change nothing with one stored run, in {three} with three" in WORDS
    assert "in about 1 of 12 repositories" in WORDS
    for num_runs in (1, 2, 3):
        count = MEASURED["drift"][f"nothing changes in 20 merges, num-runs {num_runs}"]
        low, high = wilson(count.hits, count.trials)
        assert low <= 1 / 12 <= high


def test_statistics_docs__rows_without_a_change_that_fail_too_often_are_listed() -> None:
    """What is inconclusive is as red as what fails, unless somebody has set `on-inconclusive`."""
    listed = section(TEXT, "### Where 1 in 20 is missed")
    for key, cell in CELLS.items():
        count = MEASURED["gate"][key]
        if cell.change == "nothing" and cell.counts == "failed":
            failed, open_ = count.hits / count.trials, count.inconclusive / count.trials
            assert not cell.goal or failed + open_ <= float(cell.goal.split()[-1]) or key in MISSED, key
            assert failed <= 0.05 or re.search(rf"(?<![\d.]){100 * failed:.1f}(?!\d)", listed), key


@pytest.mark.slow
@pytest.mark.parametrize("name", [bench.NOTHING[0], bench.BROKEN[0], bench.ALL[0]])
def test_statistics_docs__the_numbers_are_the_gates(name: str) -> None:
    """Some trials of the same seeds: as far from the table as chance allows, and no farther."""
    cell = CELLS[f"default: {name}"]
    count = bench.run_chunk(cell, 0, 60)
    expected = DEFAULT[name].hits / DEFAULT[name].trials
    spread = 4 * (max(expected * (1 - expected), 0.01) / count.trials) ** 0.5
    assert count.hits / count.trials == pytest.approx(expected, abs=spread)
    assert count == bench.run_chunk(cell, 0, 60)


@pytest.mark.slow
def test_statistics_docs__the_same_seed_gives_the_same_numbers_in_every_process() -> None:
    """Sets of strings have another order in each: runs must not be drawn in it."""
    code = "import gate_error_rates as b; print(b.run_chunk(list(b.cells())[3], 0, 15))"
    paths = os.pathsep.join([str(ROOT / "benchmarks"), str(ROOT / "src")])
    matches = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONPATH": paths, "PYTHONHASHSEED": seed, "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(matches) == 1, matches


def test_statistics_docs__the_pictures_are_drawn_from_the_tables() -> None:
    for name, picture in draw_statistics.pictures().items():
        assert (ROOT / "docs" / "images" / name).read_text(encoding="utf-8") == picture, "make bench-errors draws them"


def test_statistics_docs__all_words_are_defined() -> None:
    words = rows(TEXT[TEXT.index("| word |") :])
    assert [row[0] for row in words] == list(get_args(CaseWord))


def test_statistics_docs__the_numbers_in_the_text_are_the_codes() -> None:
    assert f" | {families.BOTH_LEVEL * 0.05:.2f} | " in TEXT
    assert f"p of at most {sequential._SUITE_TRIGGER * 0.05:g})" in WORDS
    assert f"p of at most {sequential._ANOTHER_COLUMN:g})" in WORDS
    assert f"after {', '.join(map(str, sequential._BATCHES[1:]))} and at most 15 fresh runs" in WORDS
    assert f"at least {families.SEEN_AGAIN:g} without the runs" in WORDS
    assert f"it would fail for {base_today.CHECK_RUNS} times, or up to {base_today.CHECKED_CASES}" in WORDS
    for failures, pays in ((2, "about 280"), (1, "7.5"), (0, "0.2")):
        assert float(pays.split()[-1]) == pytest.approx(bets.case_e(failures, 2, 0, 20), rel=0.1)
        assert pays in WORDS
    assert f"fewer than {suspect.THIN_BASE} stored runs" in WORDS
    assert f"fewer than {families.FULL_BASE} stored runs gets fresh runs" in WORDS
    assert f"p of at most {base_today.DIFFERS:g}" in WORDS
    assert f"and {suspect.THRESHOLD_RUNS} more runs in a row" in TEXT
