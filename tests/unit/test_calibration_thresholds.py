"""Suggested thresholds: the probability by brute force, rounds from reports, and honesty about too few of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.calibration.rounds import FAILED, Low, Series, collect, read_results
from agent_eval.calibration.thresholds import probability, rounds_needed, suggest
from agent_eval.calibration.thresholds_text import render_thresholds
from agent_eval.report.renderers.results_json import results_json
from agent_eval.results.recording import RunError
from agent_eval.results.report import CaseReport, FileReport, MetricReport, RunReport, RunResult, RunScore

AGENT = RunError(kind="exception", owner="agent", message="it broke")
PROVIDER = RunError(kind="unavailable", owner="provider", message="it was away")
Scores = Sequence[float | RunError | None]


@pytest.mark.parametrize("rounds", [1, 2, 4, 5])
@pytest.mark.parametrize("num_runs", [1, 2, 3])
def test_the_probability_is_that_of_all_orders(rounds: int, num_runs: int) -> None:
    """In which share of all ways to put new rounds among the old no new one is below the old one of that rank."""
    for order in range(1, rounds + 1):
        total = good = 0
        for new in itertools.combinations(range(rounds + num_runs), num_runs):
            old = [place for place in range(rounds + num_runs) if place not in new]
            total += 1
            good += all(place >= old[order - 1] for place in new)

        assert probability(rounds, order, num_runs) == pytest.approx(good / total)


def test_known_sizes() -> None:
    assert probability(19, 1, 1) == pytest.approx(0.95)
    assert [rounds_needed(wanted, 1) for wanted in (0.5, 0.8, 0.9, 0.95, 0.99)] == [1, 4, 9, 19, 99]
    assert rounds_needed(0.95, 3) == 57


@given(st.floats(0.01, 0.995), st.integers(1, 20))
def test_no_fewer_rounds_would_do(wanted: float, num_runs: int) -> None:
    needed = rounds_needed(wanted, num_runs)

    assert probability(needed, 1, num_runs) >= wanted - 1e-9
    assert needed == 1 or probability(needed - 1, 1, num_runs) < wanted


@pytest.mark.parametrize(("rounds", "order", "num_runs"), [(0, 1, 1), (3, 4, 1), (3, 0, 1), (3, 1, 0)])
def test_there_is_no_prediction_from_nothing(rounds: int, order: int, num_runs: int) -> None:
    with pytest.raises(ValueError, match="no prediction"):
        probability(rounds, order, num_runs)


def series(*scores: float, threshold: float = 0.8) -> Series:
    lows = [Low(score=score, case_id=f"f:{number}", report="r", run=number) for number, score in enumerate(scores)]
    return Series(config="c.json", metric="response_match_score", threshold=threshold, cases=2, lows=lows)


def test_enough_rounds() -> None:
    scores = [0.5 + number / 100 for number in range(40)]
    [one] = suggest([series(*scores)], wanted=0.95, num_runs=1).suggestions

    # The second lowest of 40 holds with 1 - 2/41, the third with 1 - 3/41 only.
    assert (one.suggestion, one.order, one.enough) == (0.51, 2, True)
    assert one.probability == pytest.approx(39 / 41)
    assert (one.held, one.rounds) == (10, 40)
    assert one.median == pytest.approx(0.695)
    assert one.lowest is not None
    assert (one.lowest.score, one.lowest.case_id) == (0.5, "f:0")


def test_too_few_rounds_are_said_to_be_too_few() -> None:
    report = suggest([series(0.9, 0.6666666, 0.8)], wanted=0.95, num_runs=1)

    [one] = report.suggestions
    assert (one.suggestion, one.probability, one.enough, report.needed) == (0.666, 0.75, False, 19)
    text = render_thresholds(report)
    assert "response_match_score: 0.666 holds with at least 75%; for 95% it takes 19 rounds (now 0.80)" in text
    assert "the lowest of 3 rounds" in text


def test_several_runs_must_all_pass() -> None:
    [one] = suggest([series(*[0.5 + number / 100 for number in range(40)])], wanted=0.9, num_runs=3).suggestions

    assert one.order == 1
    assert one.probability == pytest.approx(40 / 43)


def test_equal_scores_promise_no_more_than_others() -> None:
    """Their rank is chosen before they are looked at; what a tie adds comes on top."""
    [one] = suggest([series(*[1.0] * 30, 0.5)], wanted=0.8, num_runs=1).suggestions

    assert (one.suggestion, one.order) == (1.0, 6)
    assert one.probability == pytest.approx(26 / 32)


@given(st.lists(st.sampled_from([0.2, 0.5, 0.7, 1.0]), min_size=2, max_size=12), st.floats(0.3, 0.9))
def test_a_promise_is_kept_as_often_as_it_says(scores: list[float], wanted: float) -> None:
    """Leaving each round out in turn, the suggestion from the others holds in at least the promised share of them."""
    kept = promised = 0.0
    for number, left_out in enumerate(scores):
        rest = scores[:number] + scores[number + 1 :]
        [one] = suggest([series(*rest)], wanted=wanted, num_runs=1).suggestions
        assert one.suggestion is not None
        assert one.probability is not None
        kept += left_out >= one.suggestion
        promised += one.probability

    assert kept >= promised - 1e-9


def test_an_agent_that_fails_outright() -> None:
    often = suggest([series(FAILED, FAILED, 0.9)], wanted=0.5, num_runs=1)
    once = suggest([series(FAILED, *[0.9] * 30)], wanted=0.9, num_runs=1)

    assert [(one.suggestion, one.probability, one.failures) for one in often.suggestions] == [(None, None, 2)]
    assert "no suggestion, the agent failed without a score in 2 of 3 rounds" in render_thresholds(often)
    [one] = once.suggestions
    assert (one.suggestion, one.failures) == (0.9, 1)
    assert one.lowest is not None
    assert one.lowest.score is None
    assert "lowest: a failure without a score" in render_thresholds(once)


def test_all_metrics_together() -> None:
    scores = [0.5 + number / 100 for number in range(19)]
    report = suggest([series(*scores), series(*scores)], wanted=0.95, num_runs=1)

    assert report.together == pytest.approx(0.9), "Bonferroni"
    assert "All of them together hold with at least 90%." in render_thresholds(report)
    assert suggest([series(*scores), series()], wanted=0.95, num_runs=1).together is None
    few = suggest([series(0.5), series(0.6)], wanted=0.95, num_runs=1)
    assert "That all 2 hold at once can't be promised from so few rounds." in render_thresholds(few)


def test_the_lowest_case_is_named_unless_all_are_perfect() -> None:
    imperfect = render_thresholds(suggest([series(0.75, 1.0)], wanted=0.5, num_runs=1))
    perfect = render_thresholds(suggest([series(1.0, 1.0)], wanted=0.5, num_runs=1))

    assert "      lowest: 0.75, f:0, run 1 of r" in imperfect.splitlines()
    assert "lowest:" not in perfect


def case(name: str, scores: Scores, *, fingerprint: str = "", started: float = 0.0) -> CaseReport:
    runs = [
        RunResult(
            run_id=f"{name}#{number}",
            run=number,
            status="passed",
            error=score if isinstance(score, RunError) else None,
            started_at=started + number + 0.5,
        )
        for number, score in enumerate(scores)
    ]
    scored = [
        RunScore(run=number, score=score, status="passed" if score is not None else "not_evaluated")
        for number, score in enumerate(scores)
        if not isinstance(score, RunError)
    ]
    metric = MetricReport(name="response_match_score", threshold=0.8, status="passed", runs=scored)
    return CaseReport(
        case_id=f"evals/a.test.json:{name}",
        file="evals/a.test.json",
        eval_set_id="a",
        eval_id=name,
        status="passed",
        fingerprint=fingerprint,
        metrics=[metric] if scored else [],
        runs=runs,
    )


def run_report(cases: Sequence[CaseReport], *, started: float = 0.0, commit: str | None = None) -> RunReport:
    return RunReport(
        tool_version="1",
        verdict="passed",
        started_at=started,
        duration=1.0,
        num_runs=1,
        min_pass_rate=1.0,
        provenance={} if commit is None else {"commit": commit},
        files=[
            FileReport(
                file="evals/a.test.json",
                eval_set_id="a",
                config="evals/test_config.json",
                criteria={"response_match_score": 0.8},
                agent="agent",
            )
        ],
        cases=list(cases),
    )


def lows(reports: Mapping[str, RunReport]) -> tuple[list[float], dict[str, int], list[str]]:
    [one], notices = collect(list(reports.items()))
    return [low.score for low in one.lows], dict(one.dropped), notices


def test_a_round_is_as_good_as_its_worst_case() -> None:
    report = run_report([case("x", [0.9, 0.7, 1.0]), case("y", [0.8, 1.0, 0.6])])
    [one], _ = collect([("r", report)])

    assert [(low.score, low.case_id[-1], low.run) for low in one.lows] == [(0.8, "y", 0), (0.7, "x", 1), (0.6, "y", 2)]
    assert (one.config, one.threshold, one.cases) == ("evals/test_config.json", 0.8, 2)


def test_several_reports_make_more_rounds() -> None:
    old = run_report([case("x", [0.9]), case("y", [0.8])], commit="a")
    new = run_report([case("x", [0.5], started=100), case("y", [0.6], started=100)], started=100, commit="b")

    scores, dropped, notices = lows({"old": old, "new": new})
    assert (scores, dropped) == ([0.8, 0.5], {})
    assert notices == [
        "The runs are of 2 commits: the thresholds fit an agent that varies as much as it did over those."
    ]


def test_the_same_answers_scored_twice_are_one_round() -> None:
    report = run_report([case("x", [0.9, 0.8])])

    scores, _, notices = lows({"first": report, "again": report})
    assert scores == [0.9, 0.8]
    assert notices == ["2 rounds left out: the same answers are in another of the files."]


def test_the_agents_failure_is_a_low_and_the_worlds_is_none() -> None:
    report = run_report([case("x", [0.9, AGENT, PROVIDER, None]), case("y", [0.8, 0.9, 0.9, 0.9])])

    scores, dropped, _ = lows({"r": report})
    assert scores == [0.8, FAILED]
    assert dropped == {"a run broke off": 1, "it was not evaluated": 1}


def test_a_case_without_any_score_is_not_forgotten() -> None:
    report = run_report([case("x", [AGENT]), case("y", [0.9])])

    assert lows({"r": report})[0] == [FAILED]


def test_rounds_of_other_cases_do_not_count() -> None:
    old = run_report([case("x", [0.1], fingerprint="old"), case("y", [0.1])])
    older = run_report([case("y", [0.2], started=50)])
    new = run_report([case("x", [0.9], fingerprint="new", started=100), case("y", [0.8], started=100)], started=100)

    scores, dropped, _ = lows({"old": old, "older": older, "new": new})
    assert scores == [0.8]
    assert dropped == {"a case was another one then": 1, "a case is missing": 1}


def test_reading_results(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    text = results_json(run_report([case("x", [0.9])]))
    (tmp_path / "out" / "results.json").write_text(text, encoding="utf-8")
    (tmp_path / "newer.json").write_text(results_json(run_report([case("x", [0.9])], started=9)), encoding="utf-8")
    (tmp_path / "broken.json").write_text("{}", encoding="utf-8")
    (tmp_path / "empty.json").write_text(results_json(run_report([])), encoding="utf-8")
    fileless = run_report([case("x", [0.9])]).model_copy(update={"files": []})
    (tmp_path / "fileless.json").write_text(results_json(fileless), encoding="utf-8")
    (tmp_path / "rules.json").write_text(text.replace('"scoring_version": ', '"scoring_version": 9'), encoding="utf-8")

    found, problems = read_results([tmp_path / "newer.json", tmp_path / "out"], tmp_path)
    assert ([name for name, _ in found], problems) == (["out/results.json", "newer.json"], [])

    names = ("broken.json", "empty.json", "fileless.json", "rules.json", "missing.json", "recordings.jsonl.gz")
    found, problems = read_results([tmp_path / name for name in names], tmp_path)
    assert found == []
    assert [problem.file for problem in problems] == list(names)
    assert {problem.code for problem in problems} == {"results-unusable"}
    assert "--agent recorded:recordings.jsonl.gz" in (problems[-1].hint or "")


def test_nothing_in_it_gives_orders_to_a_log() -> None:
    bad = Series(config="::error::x", metric="response_match_score", threshold=0.8, cases=1)
    bad.lows.append(Low(score=0.5, case_id="\x1b[2J::error::y", report="r\n::stop-commands::z", run=0))
    text = render_thresholds(suggest([bad], wanted=0.5, num_runs=1))

    assert "\x1b" not in text
    assert not any(line.lstrip().startswith("::") for line in text.splitlines())
    assert not math.isinf(suggest([bad], wanted=0.5, num_runs=1).suggestions[0].suggestion or 0)
