"""Whether the base gets worse, how flaky its cases are, and what several runs say together."""

from __future__ import annotations

import random
from itertools import combinations

import pytest
from history_samples import FILE, case, report

from agent_eval.gate.history._drift import drift, flakiness
from agent_eval.gate.history.records import extend
from agent_eval.gate.stats.exact_tests import pass_rates
from agent_eval.report.phrases import drift_notices, pass_rates_notices
from agent_eval.results.history import HistoryReport


def history_of(**outcomes: str) -> HistoryReport:
    """Cases by what they did on each day; a blank is a day without the case."""
    history = None
    for day in range(max(map(len, outcomes.values()))):
        cases = [case(name, by_day[day]) for name, by_day in outcomes.items() if by_day[day] != " "]
        history = extend(history, report(*cases, day=day), 100)
    assert history is not None
    return history


def test_drift__flakiness_has_an_interval_and_a_beginning() -> None:
    history = history_of(a="111110x1?1")
    rate = flakiness(history, history.cases[0])

    assert (rate.failures, rate.runs, rate.rate) == (2, 9, 2 / 9)
    assert (round(rate.low, 4), round(rate.high, 4)) == (0.0632, 0.5474)  # scipy, method="wilson"
    assert rate.since == history.records[5]
    assert rate.is_mixed


def test_drift__a_case_that_never_failed_has_no_beginning() -> None:
    history = history_of(a="1111")
    rate = flakiness(history, history.cases[0])
    assert (rate.since, rate.is_mixed) == (None, False)


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
    history = history_of(
        **{f"c{number}": "".join(draw.choices("01 ", (2, 6, 1), k=9 + seed % 3)) for number in range(5)}
    )

    assert drift(history).p_value == pytest.approx(enumerated(history))


def test_drift__a_base_that_gets_worse_is_reported() -> None:
    history = history_of(a="1111100000", b="1111110111", c="1111111111")
    result = drift(history)

    assert result.worse
    assert result.older == 1.0
    assert result.newer == pytest.approx(0.6)
    assert [(case.case_id, case.older, case.newer) for case in result.cases] == [(f"{FILE}:a", (5, 5), (0, 5))]
    assert result.cases[0].p_value == pytest.approx(1 / 252)
    assert drift_notices(result) == [
        "The base branch got worse: 100.0% of its runs passed before 00000005, 60.0% since. Chance alone says so "
        "within 20 merges in about 1 of 12 repositories",
        "On the base branch 1 case passed less often lately: evals/home.test.json:a (0 of 5 lately, 5 of 5 before). "
        "Chance alone names 1 of 100 cases",
    ]


def test_drift__a_base_that_gets_better_or_stays_is_not() -> None:
    for outcomes in ("0000011111", "1111111111", "0000000000", "0101010101"):
        result = drift(history_of(a=outcomes))
        assert not result.worse
        assert drift_notices(result) == []


@pytest.mark.parametrize(
    ("outcomes", "p_value", "worse"), [("111100000", 1 / 126, True), ("1111100100", 6 / 252, False)]
)
def test_drift__one_look_in_a_hundred_is_the_limit(outcomes: str, p_value: float, worse: bool) -> None:
    result = drift(history_of(a=outcomes))
    assert result.p_value == pytest.approx(p_value)
    assert result.worse is worse


def test_drift__few_days_can_not_show_anything() -> None:
    assert drift(history_of(a="11000")).p_value is None
    assert drift(history_of(a="11110000")).p_value is None
    assert drift(history_of(a="111100000")).p_value == pytest.approx(1 / 126)
    assert drift(HistoryReport(scoring_version=1, keep=10)).older is None
    assert drift(history_of(a="1")).p_value is None


def test_drift__one_bad_day_of_everything_is_no_drift() -> None:
    assert not drift(history_of(**{f"c{number}": "1111111110" for number in range(30)})).worse


def test_drift__many_days_are_parted_at_random_and_always_the_same_way() -> None:
    history = history_of(a="1" * 8 + "01010100", b="1" * 16)

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
        named += drift(_direct(outcomes, num_runs)).worse
    assert named <= 8, "1% of 200, and what chance adds at most (p < .001)"


@pytest.mark.parametrize("num_runs", [1, 2, 3])
def test_drift__fires_with_several_runs_a_record(num_runs: int) -> None:
    """All cases go from always to never, and stay so; with the history that a baseline keeps by default."""
    history = None
    for day in range(20):
        cases = [case(name, ("1" if day < 10 else "0") * num_runs) for name in "abc"]
        history = extend(history, report(*cases, day=day, num_runs=num_runs))
    assert history is not None

    assert drift(history).worse
    notice = drift_notices(drift(history))[0]
    assert notice == (
        "The base branch got worse: 100.0% of its runs passed before 0000000a, 0.0% since. Chance alone says so "
        "within 20 merges in about 1 of 12 repositories"
    )


def _direct(outcomes: dict[str, str], num_runs: int) -> HistoryReport:
    """Ten records as `history_of` makes them, without their reports: 200 histories take a while."""
    records = " ".join(str(record) for record in range(10) for _ in range(num_runs))
    return HistoryReport.model_validate(
        {
            "scoring_version": 1,
            "keep": 10,
            "records": [{"commit": str(day), "recorded_at": day} for day in range(10)],
            "cases": [{"case_id": name, "outcomes": by_day, "records": records} for name, by_day in outcomes.items()],
        }
    )


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


def test_drift__one_run_each_has_no_rates() -> None:
    assert pass_rates([case("a", "1")], 1) == []
    assert pass_rates_notices([]) == []
