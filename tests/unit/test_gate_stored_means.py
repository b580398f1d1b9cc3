"""The base's numbers are means over its stored runs, not those of one run."""

from __future__ import annotations

import pytest
from history_samples import case, compare, report

from agent_eval.gate.history.records import extend
from agent_eval.results.history import HistoryReport
from agent_eval.results.report import RunReport


def base_of(*days: tuple[float, ...]) -> tuple[RunReport, HistoryReport]:
    """A base whose case scored like that, day by day."""
    history, last = None, None
    for day, scores in enumerate(days):
        last = report(case("coin", scores=scores), day=day, num_runs=len(scores))
        history = extend(history, last)
    assert last is not None
    assert history is not None
    return last, history


def test_compare__the_base_is_a_mean_of_its_runs() -> None:
    base, history = base_of((1.0,), (0.0,), (1.0,), (0.0,))
    comparison = compare(report(case("coin", scores=[1.0])), base, history)
    assert comparison.pass_rate.head == 1.0
    assert comparison.pass_rate.base == 0.5, "the last run alone would say 0"
    assert comparison.metrics[0].score.base == 0.5
    assert comparison.base_records == 4
    assert [change.change for change in comparison.cases] == ["fixed"], "what became of a case is its last run's word"


def test_compare__several_runs_of_one_day_are_one_verdict() -> None:
    base, history = base_of((1.0, 1.0, 0.0), (1.0, 1.0, 1.0))
    strict = compare(report(case("coin", scores=[1.0])), base, history)
    assert strict.pass_rate.base == 0.5
    base.min_pass_rate = 0.6
    assert compare(report(case("coin", scores=[1.0])), base, history).pass_rate.base == 1.0


def test_compare__rounding_in_the_store_is_no_change() -> None:
    base, history = base_of((0.912345678,), (0.912345678,))
    comparison = compare(report(case("coin", scores=[0.912345678])), base, history)
    assert comparison.metrics[0].score.delta == 0


@pytest.mark.parametrize("what", ["other content", "other version", "none"])
def test_compare__stored_runs_that_say_nothing_are_left_out(what: str) -> None:
    base, history = base_of((1.0,), (0.0,))
    stored: HistoryReport | None = history
    if what == "other content":
        base.cases[0].fingerprint = history.cases[0].fingerprint + "x"
    elif what == "other version":
        history.scoring_version += 1
    else:
        stored = None
    comparison = compare(report(case("coin", scores=[1.0], fingerprint=base.cases[0].fingerprint)), base, stored)
    assert (comparison.pass_rate.base, comparison.base_records) == (0.0, 1)
