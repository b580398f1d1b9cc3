"""The run that becomes the expectation, and the calls that all runs made."""

from __future__ import annotations

import asyncio
import itertools

import pytest
import recording_samples
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.core.content import FunctionCall
from agent_eval.core.invocation import Invocation
from agent_eval.criteria import build
from agent_eval.evalset.models import CriterionConfig, EvalCase, MatchType
from agent_eval_workbench.authoring.choosing import common_calls, mean_scores, most_typical, route

EXACT = build(CriterionConfig(metric="tool_trajectory_avg_score", threshold=1.0))
TEXT = build(CriterionConfig(metric="response_match_score", threshold=0.8))


def turn(calls: str, answer: str = "") -> Invocation:
    """A turn with a call per letter."""
    return recording_samples.turn("Go.", answer, *calls, n=1)


def uses(calls: str) -> list[FunctionCall]:
    return [FunctionCall(name=letter, args={"n": 1}) for letter in calls]


CASE = EvalCase(eval_id="case", conversation=[turn("")])
ROUTES = st.lists(st.text("abc", max_size=6), min_size=1, max_size=5)


def is_subsequence(short: str, long: str) -> bool:
    rest = iter(long)
    return all(letter in rest for letter in short)


@given(calls=ROUTES, answers=st.lists(st.sampled_from(["on", "off", "is on", ""]), min_size=5, max_size=5))
def test_most_typical__has_the_highest_mean(calls: list[str], answers: list[str]) -> None:
    runs = [[turn(names, answer)] for names, answer in zip(calls, answers, strict=False)]
    means = asyncio.run(mean_scores(CASE, runs, [EXACT, TEXT]))
    index = asyncio.run(most_typical(CASE, runs, [EXACT, TEXT]))
    assert means[index] == max(means)

    backwards = asyncio.run(most_typical(CASE, runs[::-1], [EXACT, TEXT]))
    assert means[len(runs) - 1 - backwards] == max(means)


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        pytest.param(["ab", "a", "a"], 1, id="most alike"),
        pytest.param(["ab", "a", "b"], 0, id="all differ: the first"),
        pytest.param(["", "", "x"], 0, id="no calls"),
        pytest.param(["x"], 0, id="one run"),
    ],
)
def test_most_typical__ties(calls: list[str], expected: int) -> None:
    assert asyncio.run(most_typical(CASE, [[turn(names)] for names in calls], [EXACT])) == expected


def test_most_typical__without_criteria_the_most_frequent_route() -> None:
    runs = [[turn("a")], [turn("b")], [turn("b")]]
    assert asyncio.run(most_typical(CASE, runs, [])) == 1
    assert route(runs[1]) == route(runs[2]) != route(runs[0])


@given(calls=ROUTES)
def test_common_calls__are_in_every_run_in_any_order_of_runs(calls: list[str]) -> None:
    runs = [uses(names) for names in calls]
    ordered = common_calls(runs, 0, ordered=True)
    names = "".join(calls[0][place] for place in ordered)
    assert ordered == sorted(ordered)
    assert all(is_subsequence(names, run) for run in calls)
    longest = max(
        len(letters)
        for count in range(len(calls[0]) + 1)
        for letters in itertools.combinations(calls[0], count)
        if all(is_subsequence("".join(letters), run) for run in calls)
    )
    assert len(names) == longest or (len(set(calls)) > 2 and len(names) < longest)
    anyhow = sorted(calls[0][place] for place in common_calls(runs, 0, ordered=False))
    assert anyhow == sorted(letter for letter in "abc" for _ in range(min(run.count(letter) for run in calls)))
    for reference in range(len(calls)):
        for other in (runs, runs[::-1]):
            at = other.index(runs[reference])
            same = [other[at][place].name for place in common_calls(other, at, ordered=True)]
            assert "".join(name or "" for name in same) == names

    everyone_passes = build(
        CriterionConfig(metric="tool_trajectory_avg_score", threshold=1.0, options={"match_type": MatchType.IN_ORDER})
    )
    means = asyncio.run(mean_scores(CASE, [[turn(names)], *([turn(run)] for run in calls)], [everyone_passes]))
    assert means[0] == 1.0


def test_common_calls__very_different_runs_end_in_time() -> None:
    runs = [uses("".join("abcdefgh"[(number * step) % 8] for number in range(60))) for step in (1, 3, 5, 7, 2)]
    places = common_calls(runs, 0, ordered=True)
    names = "".join(runs[0][place].name or "" for place in places)
    assert all(is_subsequence(names, "".join(call.name or "" for call in run)) for run in runs)


def test_common_calls__args() -> None:
    runs = [[FunctionCall(name="a", args={"x": 1})], [FunctionCall(name="a", args={"x": 2})]]
    assert common_calls(runs, 0, ordered=True) == []
    assert common_calls(runs, 0, ordered=True, ignore_args=True) == [0]
