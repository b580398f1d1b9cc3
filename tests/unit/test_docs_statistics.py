"""docs/statistics.md: its tables are the benchmark's, its pictures the tables', and they keep what is promised."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import draw_statistics
import gate_error_rates as bench
import pytest

from agent_eval.gate.regression import _base_today as base_today
from agent_eval.gate.stats import families, suspect
from agent_eval.gate.stats.decision import Word

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "statistics.md").read_text(encoding="utf-8")
RATES = draw_statistics.rows(TEXT, "error rates")
CELL = re.compile(r"(?P<failed>[\d.]+) \((?P<low>[\d.]+) to (?P<high>[\d.]+)\)")


def test_the_table_has_the_benchmarks_rows() -> None:
    assert [(row[0], row[1]) for row in RATES] == [(cell.group, cell.name) for cell in bench.cells()]
    assert len(RATES) >= 24
    rules = draw_statistics.rows(TEXT, "other rules")
    assert [row[0] for row in rules] == [name for name, *_ in bench.OTHERS] + ["this gate"]
    assert [row[0] for row in draw_statistics.rows(TEXT, "settings")] == [label for label, *_ in bench.SETTINGS]


def test_false_alarms_are_within_the_promise() -> None:
    """Wherever runs of one kind are compared. Stored runs under a day effect are not, and the page says so."""
    for row in RATES:
        if row[1].startswith("nothing changed") and "stored base only" not in row[1]:
            found = CELL.match(row[2])
            assert found is not None, row
            assert float(found["high"]) <= 0.05, row
            # What is inconclusive is red as well, unless somebody has set `on-inconclusive`.
            assert float(found["failed"]) + float(row[3]) <= 0.05, row


def test_what_a_day_effect_does_is_told_as_it_was_measured() -> None:
    by_name = {row[1]: draw_statistics.number(row[2]) for row in RATES if row[0] == "a day effect"}
    half, whole = (by_name[f"nothing changed, stored base only, sd {sd}"] for sd in ("0.5", "1.0"))
    assert f"{half:.1%} of the pull requests" in " ".join(TEXT.split())
    assert f"with a whole logit {whole:.1%}" in " ".join(TEXT.split())


def test_how_often_a_thin_base_leaves_the_question_open_is_told_as_it_was_measured() -> None:
    one, three = (
        float(row[3])
        for depth in ("1 base run", "3 base runs")
        for row in RATES
        if row[:2] == [f"{depth}, base can't be run", "nothing changed"]
    )
    told = f"in {one:.0%} of the pull requests that change nothing with one stored run, in {three:.0%} with three"
    assert told in " ".join(TEXT.split())


@pytest.mark.parametrize(
    ("change", "least"),
    [
        ("one case broken, 1 to 0", 0.99),
        ("three cases -.5", 0.70),
        ("all cases -.15", 0.85),
        ("one case 1 to .3", 0.60),
    ],
)
def test_power_at_the_defaults(change: str, least: float) -> None:
    (row,) = [row for row in RATES if row[:2] == ["default", change]]
    assert draw_statistics.number(row[2]) >= least
    assert float(row[4]) <= 2.2


def test_runs_paid_at_the_defaults() -> None:
    (row,) = [row for row in RATES if row[:2] == ["default", "nothing changed"]]
    assert float(row[4]) <= 1.6


@pytest.mark.parametrize("index", [0, 1, 4])
def test_the_numbers_are_the_gates(index: int) -> None:
    """Some trials of the same seeds: as far from the table as chance allows, and no farther."""
    cell, row = list(bench.cells())[index], RATES[index]
    count = bench.run_chunk(cell, 0, 60, others=False)
    expected = draw_statistics.number(row[2])
    spread = 4 * (max(expected * (1 - expected), 0.01) / count.trials) ** 0.5
    assert count.failed / count.trials == pytest.approx(expected, abs=spread)
    assert count == bench.run_chunk(cell, 0, 60, others=False)


def test_the_same_seed_gives_the_same_numbers_in_every_process() -> None:
    """Sets of strings have another order in each: runs must not be drawn in it."""
    code = "import gate_error_rates as b; print(b.run_chunk(list(b.cells())[3], 0, 15, others=False))"
    paths = os.pathsep.join([str(ROOT / "benchmarks"), str(ROOT / "src")])
    told = {
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
    assert len(told) == 1, told


def test_the_pictures_are_drawn_from_the_tables() -> None:
    for name, picture in draw_statistics.pictures().items():
        assert (ROOT / "docs" / "images" / name).read_text(encoding="utf-8") == picture, "make bench-errors draws them"


def test_all_words_are_defined() -> None:
    words = draw_statistics.rows(
        TEXT.replace("| word |", "<!-- w: begin -->\n| word |").replace(
            '"Significantly" is', '<!-- w: end -->\n"Significantly" is'
        ),
        "w",
    )
    assert [row[0] for row in words] == list(get_args(Word))


def test_the_numbers_in_the_text_are_the_codes() -> None:
    shares = (families.SUITE_SHARE, families.AGAIN_SHARE, families.CONFIRM_SHARE)
    for share in shares:
        assert f" {share:g} |" in TEXT
    assert sum(shares) == pytest.approx(1)
    assert f"at most {families.AGAIN_BELOW:g} |" in TEXT
    assert f"fewer than {suspect.THIN_BASE} stored runs" in " ".join(TEXT.split())
    assert f"fewer than {families.FULL_BASE} stored runs gets fresh runs" in " ".join(TEXT.split())
    assert f"each named case {base_today.CHECK_RUNS} times" in " ".join(TEXT.split())
    assert f"p of at most {base_today.DIFFERS:g}" in " ".join(TEXT.split())
    assert f"and {suspect.THRESHOLD_RUNS} more runs in a row" in TEXT
