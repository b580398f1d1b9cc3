"""Splitting a suite: every case once, the same split everywhere, no part far heavier than the others."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_samples import case, report

from agent_eval.results import RunResult
from agent_eval.runner import Part, RecordedSeconds, parse_part, partition, recorded_seconds, split_hash, weigh
from agent_eval.runner.partition import Unit

WEIGHTS = st.dictionaries(st.text(min_size=1, max_size=8), st.integers(0, 500).map(float), max_size=60)


def loads(weights: dict[str, float], assignment: dict[str, int], total: int) -> list[float]:
    return [sum(weights[name] for name, part in assignment.items() if part == number + 1) for number in range(total)]


@given(WEIGHTS, st.integers(1, 256), st.randoms())
def test_partition__has_every_case_once_and_no_part_above_the_bound(
    weights: dict[str, float], total: int, shuffling: random.Random
) -> None:
    assignment = partition(weights, total)
    shuffled = list(weights.items())
    shuffling.shuffle(shuffled)

    assert assignment.keys() == weights.keys()
    assert set(assignment.values()) <= set(range(1, total + 1))
    assert partition(dict(shuffled), total) == assignment
    heaviest = max(weights.values(), default=0.0)
    assert max(loads(weights, assignment, total)) <= sum(weights.values()) / total + heaviest


def test_partition__of_equal_cases_is_even_and_more_parts_than_cases_are_empty() -> None:
    even = partition({str(number): 0.0 for number in range(12)}, 4)
    few = partition({"a": 3.0, "b": 2.0}, 5)

    assert sorted(even.values()) == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    assert few == {"a": 1, "b": 2}


def test_weigh__uses_turns_or_recorded_seconds_and_estimates_new_cases_by_their_turns() -> None:
    units = [Unit(case_id="a", fingerprint="1", turns=3), Unit(case_id="new", fingerprint="2", turns=2)]

    assert weigh(units) == {"a": 3.0, "new": 2.0}
    assert weigh(units, RecordedSeconds(per_run={"a": 9.0}, per_turn=1.5)) == {"a": 9.0, "new": 3.0}
    assert weigh(units, RecordedSeconds()) == {"a": 3.0, "new": 2.0}


def test_split_hash__depends_on_contents_parts_and_runs_only() -> None:
    units = [Unit(case_id="a", fingerprint="1", turns=3), Unit(case_id="b", fingerprint="2", turns=2)]
    plain = split_hash({"a": 1, "b": 2}, units, total=2, num_runs=1)

    assert plain == split_hash({"b": 2, "a": 1}, reversed(units), total=2, num_runs=1)
    others = [
        split_hash({"a": 2, "b": 1}, units, total=2, num_runs=1),
        split_hash({"a": 1, "b": 2}, units, total=3, num_runs=1),
        split_hash({"a": 1, "b": 2}, units, total=2, num_runs=3),
        split_hash({"a": 1, "b": 2}, [units[0], Unit(case_id="b", fingerprint="9", turns=2)], total=2, num_runs=1),
    ]
    assert len({plain, *others}) == 5


def test_recorded_seconds__is_the_median_over_reports_of_completed_runs() -> None:
    def result(seconds: float, **more: Any) -> Any:
        run = RunResult(run_id="x", run=0, status="passed", duration=seconds, turns=2)
        return report("passed", [case("a", "passed").model_copy(update={"runs": [run.model_copy(update=more)]})])

    recorded = recorded_seconds([result(2.0), result(4.0), result(9.0), result(99.0, status="errored")])

    assert (list(recorded.per_run.values()), recorded.per_turn) == ([4.0], 2.0)
    assert recorded_seconds([]).per_turn == 0.0


@pytest.mark.parametrize("text", ["", "1", "0/4", "5/4", "1/257", "1/0", "-1/4", "1/4/2", "a/b", "1.0/4"])
def test_parse_part__refuses_what_is_no_part(text: str) -> None:
    with pytest.raises(ValueError, match="must be I/N with 1 <= I <= N <= 256"):
        parse_part(text)
    assert parse_part(" 2/5 ") == Part(index=2, total=5)
    assert str(parse_part("256/256")) == "256/256"
