"""Whether the base gets worse, how flaky its cases are, and what several runs say together."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import combinations

import pytest
from history_samples import FILE, case

from agent_eval.gate.history._drift import drift, flakiness
from agent_eval.gate.history.records import KEEP
from agent_eval.gate.stats.exact_tests import pass_rates
from agent_eval.report.phrases import drift_notices, pass_rates_notices
from agent_eval.results.history import HistoryReport


def of_days(outcomes: Mapping[str, str], num_runs: int = 1) -> HistoryReport:
    """Cases by what their runs of each day did; a blank is a day without the case."""
    days = max(map(len, outcomes.values())) // num_runs
    runs = {
        name: [(at // num_runs, run) for at, run in enumerate(text) if run != " "] for name, text in outcomes.items()
    }
    cases = [
        {
            "case_id": f"{FILE}:{name}",
            "outcomes": "".join(outcome for _, outcome in by_day),
            "records": " ".join(str(day) for day, _ in by_day),
        }
        for name, by_day in runs.items()
    ]
    records = [{"commit": f"{day:08x}", "recorded_at": day} for day in range(days)]
    return HistoryReport.model_validate({"scoring_version": 1, "keep": days, "records": records, "cases": cases})


def test_drift__flakiness_has_an_interval_and_a_beginning() -> None:
    history = of_days({"a": "111110x1?1", "b": "1111111111"})
    rate, never = (flakiness(history, history_case) for history_case in history.cases)
    assert (rate.failures, rate.runs, rate.rate) == (2, 9, 2 / 9)
    assert (round(rate.low, 4), round(rate.high, 4)) == (0.0632, 0.5474)  # scipy, method="wilson"
    assert (rate.since, rate.is_mixed) == (history.records[5], True)
    assert (never.since, never.is_mixed) == (None, False)


def enumerated(history: HistoryReport) -> float:
    """The p-value from first principles: every way to call half of the days the older ones."""
    days = len(history.records)
    tables = [
        {day: outcome == "1" for day, outcome in zip(map(int, history.records.split()), history.outcomes, strict=True)}
        for history in history.cases
    ]

    def drop(older: tuple[int, ...]) -> float:
        drops = []
        for table in tables:
            sides = [[outcome for day, outcome in table.items() if (day in older) is side] for side in (True, False)]
            if all(sides):
                drops.append(sum(sides[0]) / len(sides[0]) - sum(sides[1]) / len(sides[1]))
        return sum(drops) / max(len(drops), 1)

    splits = list(combinations(range(days), days // 2))
    return sum(drop(split) >= drop(splits[0]) - 1e-12 for split in splits) / len(splits)


@pytest.mark.parametrize("seed", range(12))
def test_drift__the_p_value_is_that_of_all_ways_to_part_the_days(seed: int) -> None:
    draw = random.Random(seed)
    days = 9 + seed % 3
    history = of_days({f"c{number}": "".join(draw.choices("01 ", (2, 6, 1), k=days)) for number in range(5)})
    assert drift(history).p_value == pytest.approx(enumerated(history))


def test_drift__a_base_that_gets_worse_is_reported() -> None:
    result = drift(of_days({"a": "1111100000", "b": "1111110111", "c": "1111111111"}))
    assert result.worse
    assert (result.older, result.newer) == pytest.approx((1.0, 0.6))
    assert [(case.case_id, case.older, case.newer) for case in result.cases] == [(f"{FILE}:a", (5, 5), (0, 5))]
    assert result.cases[0].p_value == pytest.approx(1 / 252)
    assert drift_notices(result) == [
        "The base branch got worse: 100.0% of its runs passed before 00000005, 60.0% since. Chance alone says so "
        "within 20 merges in about 1 of 12 repositories",
        "On the base branch 1 case passed less often lately: evals/home.test.json:a (0 of 5 lately, 5 of 5 before). "
        "Chance alone names 1 of 100 cases",
    ]


@pytest.mark.parametrize(
    ("outcomes", "p_value", "worse"),
    [
        ("111100000", 1 / 126, True),
        ("1111100100", 6 / 252, False),
        ("0000011111", 1.0, False),
        ("1111111111", 1.0, False),
        ("11110000", None, False),  # Few days can't show anything.
        ("1", None, False),
    ],
)
def test_drift__one_look_in_a_hundred_is_the_limit(outcomes: str, p_value: float | None, worse: bool) -> None:
    result = drift(of_days({"a": outcomes}))
    assert result.p_value == (p_value and pytest.approx(p_value))
    assert result.worse is bool(drift_notices(result)) is worse


def test_drift__one_bad_day_of_everything_and_no_day_at_all_are_no_drift() -> None:
    assert not drift(of_days({f"c{number}": "1111111110" for number in range(30)})).worse
    assert drift(HistoryReport(scoring_version=1, keep=10)).older is None


def test_drift__many_days_are_parted_at_random_and_always_the_same_way() -> None:
    history = of_days({"a": "1" * 8 + "01010100", "b": "1" * 16})
    result = drift(history)
    assert result == drift(history)
    assert result.p_value is not None
    assert enumerated(history) / 3 < result.p_value < enumerated(history) * 3


@pytest.mark.parametrize("num_runs", [1, 2, 3])
def test_drift__an_unchanging_base_is_rarely_called_worse(num_runs: int) -> None:
    """Also where all runs of a record share its bad day: records change places, not runs."""
    draw = random.Random(7)
    rates = [1.0] * 6 + [0.95] * 2 + [0.8, 0.5]
    named = 0
    for _ in range(200):
        day_effect = [bad for bad in (draw.choice([0.0, 0.0, 0.3]) for _ in range(10)) for _ in range(num_runs)]
        outcomes = {
            f"c{number}": "".join("1" if draw.random() < rate - bad else "0" for bad in day_effect)
            for number, rate in enumerate(rates)
        }
        named += drift(of_days(outcomes, num_runs)).worse
    assert named <= 8, "1% of 200, and what chance adds at most (p < .001)"


@pytest.mark.parametrize("num_runs", [1, 2, 3])
def test_drift__fires_with_several_runs_a_record(num_runs: int) -> None:
    """All cases go from always to never, and stay so; with the history that a baseline keeps by default."""
    runs = KEEP // 2 * num_runs
    assert drift(of_days(dict.fromkeys("abc", "1" * runs + "0" * runs), num_runs)).worse


def test_drift__pass_rates_over_several_runs() -> None:
    cases = [case("a", "111"), case("b", "110"), case("c", "000"), case("d", "1p0"), case("e", "ppp")]

    rates = pass_rates(cases, 3)

    # b: of two of its three runs both pass in 1 of 3 ways, and none fails both; d has two judged runs.
    assert [(rate.k, rate.cases) for rate in rates] == [(1, 4), (2, 4), (3, 3)]
    assert [rate.any for rate in rates] == pytest.approx([(1 + 2 / 3 + 0 + 1 / 2) / 4, (1 + 1 + 0 + 1) / 4, 2 / 3])
    assert [rate.all for rate in rates] == pytest.approx([(1 + 2 / 3 + 0 + 1 / 2) / 4, (1 + 1 / 3 + 0 + 0) / 4, 1 / 3])
    assert pass_rates_notices(rates) == [
        "Of 3 runs of a case at least one passes with 66.7% (pass@3), all pass with 33.3% (pass^3); a single "
        "run with 54.2%"
    ]
    assert pass_rates([case("a", "1")], 1) == []
    assert pass_rates_notices([]) == []
