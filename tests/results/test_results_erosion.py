"""What the base branch loses a little with each merge: the newest rows of its trend beside the first ones."""

import random
from collections.abc import Sequence
from itertools import pairwise

import pytest
from pydantic import ValidationError

from agent_eval_results import HistoryReport, TrendRow
from agent_eval_results.data.trend import Erosion, drift
from agent_eval_results.report.phrases import drift_notices

CASES = 30
PINNED, NEWEST = 20, 10


def row(day: int, passed: int, **facts: object) -> TrendRow:
    return TrendRow.model_validate(
        {"commit": f"{day:08x}", "recorded_at": 86_400 * day, "scoring_version": 1, "cases": CASES, "passed": passed}
        | {"failed": CASES - passed, "suite": "s"}
        | facts
    )


@pytest.mark.parametrize("facts", [{"cases": 10**400}, {"failed": -5}, {"unknown": -1}])
def test_trend_row__impossible_counts_are_no_row(facts: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        row(1, 30, **facts)


def erosion(rows: Sequence[TrendRow]) -> Erosion | None:
    return drift(HistoryReport(scoring_version=1, keep=20, trend=list(rows))).erosion


def levels(*parts: tuple[int, int]) -> list[TrendRow]:
    """Rows: how many days a number of cases passed, one more or less now and then."""
    numbers = [passed + (0, 1, 0, -1)[day % 4] for days, passed in parts for day in range(days)]
    return [row(day, passed) for day, passed in enumerate(numbers)]


def drawn(seed: int, merges: int, drop: float) -> list[TrendRow]:
    draw = random.Random(seed)
    rates = draw.choices((1.0, 0.95, 0.8, 0.5), (12, 4, 3, 1), k=CASES)
    lost = [max(day - PINNED + 1, 0) * drop for day in range(PINNED + merges)]
    return [row(day, sum(draw.random() < rate - lost[day] for rate in rates)) for day in range(len(lost))]


@pytest.mark.parametrize(("drop", "points"), [(0.002, 6.3), (0.001, 5.0)])
def test_erosion__is_said_before_much_is_lost(drop: float, points: float) -> None:
    lost = []
    for seed in range(20):
        rows = drawn(seed, 100, drop)
        merge = next(merge for merge in range(1, 101) if erosion(rows[: PINNED + merge]))
        lost.append(merge * drop * 100)
    assert sum(lost) / len(lost) < points


def test_erosion__an_unchanging_base_is_rarely_called_worse() -> None:
    began = 0
    for seed in range(30):
        rows = drawn(seed, 60, 0.0)
        said = [erosion(rows[:end]) is not None for end in range(PINNED + NEWEST, len(rows) + 1)]
        began += said[0] + sum(now and not before for before, now in pairwise(said))
    assert began <= 4  # Of 1,500 merges: one is expected.


def test_erosion__what_is_said() -> None:
    history = HistoryReport(scoring_version=1, keep=20, trend=levels((PINNED, 28), (NEWEST, 25)))
    assert drift_notices(drift(history)) == [
        "The base branch got worse: 93.3% of its cases passed from 00000000 on, 83.7% in the newest 10 days. "
        "Chance alone says so on about 1 of 1,500 days"
    ]


def test_erosion__only_rows_of_the_same_cases_scored_alike_are_compared() -> None:
    rows = levels((PINNED, 28), (4, 25))
    assert erosion(rows)
    for other in ({"suite": "t"}, {"rules": "r"}, {"judges": ["gemini"]}, {"scoring_version": 2}, {"unknown": 4}):
        first = rows[0].model_copy(update=other)
        assert erosion([first, *rows[1:]]) is None, other  # One row too few.
    assert erosion([rows[0].model_copy(update={"adk": "2.14.0"}), *rows[1:]])
    assert erosion([rows[0].model_copy(update={"unknown": 2}), *rows[1:]])
    assert erosion([]) is None


def test_erosion__a_level_that_nobody_repairs_is_said_for_twenty_records() -> None:
    rows = levels((PINNED, 28), (60, 25))
    said = [erosion(rows[:end]) is not None for end in range(1, len(rows) + 1)]
    assert said.count(True) == 20
    assert not any(said[-30:])
    worse = [row(80 + day, 21) for day in range(NEWEST)]
    assert erosion([*rows, *worse])  # From there on it may get worse again.


def test_erosion__one_drop_is_one_notice_also_where_answers_vary() -> None:
    for seed in range(10):
        rows = [
            *drawn(seed, 0, 0.0),
            *(one.model_copy(update={"recorded_at": one.recorded_at + 20 * 86_400}) for one in lower(seed)),
        ]
        said = [erosion(rows[:end]) is not None for end in range(1, len(rows) + 1)]
        assert sum(now and not before for before, now in pairwise(said)) <= 2
        assert said.count(True) <= 45


def lower(seed: int) -> list[TrendRow]:
    """80 days of a suite of which 7 points are lost."""
    draw = random.Random(seed)
    rates = draw.choices((1.0, 0.95, 0.8, 0.5), (12, 4, 3, 1), k=CASES)
    return [row(day, sum(draw.random() < rate - 0.07 for rate in rates)) for day in range(80)]


def test_erosion__runs_of_one_day_count_once() -> None:
    """A bad day of a service is bad for all of them."""
    days = levels((PINNED, 28), (3, 28))
    bad = [row(23, 20).model_copy(update={"recorded_at": 86_400 * 23 + hour}) for hour in range(12)]
    assert erosion([*days, *bad]) is None
    assert erosion([*days, *(row(23 + day, 20) for day in range(4))])


def test_erosion__a_failing_case_in_quarantine_is_no_part_of_the_rate() -> None:
    rows = levels((PINNED, 28), (NEWEST, 25))
    kept = [
        one.model_copy(update={"failed": one.failed - 3, "quarantined": 3}) if at >= PINNED else one
        for at, one in enumerate(rows)
    ]
    assert erosion(rows)
    assert erosion(kept) is None


def test_erosion__odd_numbers_of_a_file_end_nothing() -> None:
    rows = levels((PINNED, 28), (NEWEST, 25))
    for odd in ({"passed": 0, "failed": 0}, {"passed": -5, "failed": 5}, {"cases": 0}, {"cases": -3, "unknown": -9}):
        erosion([*rows[:-1], rows[-1].model_copy(update=odd)])


def test_erosion__what_is_lost_after_a_rise_is_noticed() -> None:
    rows = levels((PINNED, 24), (40, 29), (NEWEST, 26))
    found = erosion(rows)
    assert found is not None
    assert found.before > 0.95
    assert found.now < 0.9


def test_erosion__a_failure_of_a_suite_that_always_passes_is_none() -> None:
    rows = [row(day, CASES) for day in range(PINNED + NEWEST)]
    assert erosion(rows) is None
    assert erosion([*rows[:-1], row(30, CASES - 2)]) is None
    assert erosion([*rows[: -NEWEST // 2], *(row(30 + day, CASES - 1) for day in range(NEWEST // 2))]) is None
