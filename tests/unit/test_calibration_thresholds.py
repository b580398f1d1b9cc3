"""Suggested thresholds: probabilities by brute force, rounds from reports, and too few rounds."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.report.renderers.results_json import results_json
from agent_eval.results.recording import RunError
from agent_eval.results.report import CaseReport, FileReport, MetricReport, RunReport, RunResult, RunScore
from agent_eval_workbench.calibration.thresholds import (
    RoundMinimum,
    Suggestion,
    ThresholdsReport,
    joint_probability,
    probability,
    read_results,
    render_thresholds,
    rounds_needed,
    suggest,
    suggest_one,
)

AGENT = RunError(kind="exception", owner="agent", message="it broke")
PROVIDER = RunError(kind="unavailable", owner="provider", message="it was away")
Scores = Sequence[float | RunError | None]


@pytest.mark.parametrize("rounds", [1, 2, 4, 5])
@pytest.mark.parametrize("num_runs", [1, 2, 3])
def test_probability__all_orders(rounds: int, num_runs: int) -> None:
    """The share of all orders of old and new rounds in which no new round is below the old one of that rank."""
    for order in range(1, rounds + 1):
        total = good = 0
        for new in itertools.combinations(range(rounds + num_runs), num_runs):
            old = [place for place in range(rounds + num_runs) if place not in new]
            total += 1
            good += all(place >= old[order - 1] for place in new)

        assert probability(rounds, order, num_runs) == pytest.approx(good / total)


def test_rounds_needed__known_values() -> None:
    assert probability(19, 1, 1) == pytest.approx(0.95)
    assert [rounds_needed(requested, 1) for requested in (0.5, 0.8, 0.9, 0.95, 0.99)] == [1, 4, 9, 19, 99]
    assert rounds_needed(0.95, 3) == 57


@given(st.floats(0.01, 0.995), st.integers(1, 20))
def test_rounds_needed__is_the_minimum(requested: float, num_runs: int) -> None:
    needed = rounds_needed(requested, num_runs)

    assert probability(needed, 1, num_runs) >= requested - 1e-9
    assert needed == 1 or probability(needed - 1, 1, num_runs) < requested


@pytest.mark.parametrize(("rounds", "order", "num_runs"), [(0, 1, 1), (3, 4, 1), (3, 0, 1), (3, 1, 0)])
def test_probability__invalid_arguments(rounds: int, order: int, num_runs: int) -> None:
    with pytest.raises(ValueError, match="no prediction"):
        probability(rounds, order, num_runs)


def suggestion_from(
    *scores: float | None, requested: float = 0.95, num_runs: int = 1, metric: str = "response_match_score"
) -> Suggestion:
    minima = [
        RoundMinimum(score=score, case_id=f"f:{number}", report="r", run=number) for number, score in enumerate(scores)
    ]
    return suggest_one(minima, metric="response_match_score", threshold=0.8, requested=requested, num_runs=num_runs)


def rendered(*suggestions: Suggestion, requested: float = 0.95) -> str:
    return render_thresholds(
        ThresholdsReport(
            wanted=requested,
            num_runs=1,
            needed=rounds_needed(requested, 1),
            suggestions=list(suggestions),
            together=joint_probability([suggestion.probability for suggestion in suggestions]),
        )
    )


def test_suggest__enough_rounds() -> None:
    suggestion = suggestion_from(*[0.5 + number / 100 for number in range(40)])

    # The second lowest of 40 holds with 1 - 2/41, the third with only 1 - 3/41.
    assert (suggestion.suggestion, suggestion.enough) == (0.51, True)
    assert suggestion.probability == pytest.approx(39 / 41)
    assert (suggestion.held, suggestion.rounds) == (10, 40)
    assert suggestion.lowest is not None
    assert (suggestion.lowest.score, suggestion.lowest.case_id) == (0.5, "f:0")


def test_suggest__too_few_rounds() -> None:
    suggestion = suggestion_from(0.9, 0.6666666, 0.8)

    assert (suggestion.suggestion, suggestion.probability, suggestion.enough) == (0.666, 0.75, False)
    text = rendered(suggestion)
    assert "response_match_score: 0.666 holds with at least 75%; 95% needs 19 rounds (now 0.80)" in text
    assert "the current threshold held in 2 of 3 rounds" in text


def test_suggest__several_runs_must_all_pass() -> None:
    suggestion = suggestion_from(*[0.5 + number / 100 for number in range(40)], requested=0.9, num_runs=3)

    assert suggestion.suggestion == 0.5
    assert suggestion.probability == pytest.approx(40 / 43)


def test_suggest__ties_do_not_raise_the_probability() -> None:
    """The rank is chosen before the scores are compared."""
    suggestion = suggestion_from(*[1.0] * 30, 0.5, requested=0.8)

    assert suggestion.suggestion == 1.0
    assert suggestion.probability == pytest.approx(26 / 32)


@given(st.lists(st.sampled_from([0.2, 0.5, 0.7, 1.0]), min_size=2, max_size=12), st.floats(0.3, 0.9))
def test_suggest__probability_holds_on_left_out_rounds(scores: list[float], requested: float) -> None:
    """Leaving out each round in turn, the suggestion from the others holds in at least the stated share of them."""
    passed = stated = 0.0
    for number, left_out in enumerate(scores):
        suggestion = suggestion_from(*scores[:number], *scores[number + 1 :], requested=requested)
        assert suggestion.suggestion is not None
        assert suggestion.probability is not None
        passed += left_out >= suggestion.suggestion
        stated += suggestion.probability

    assert passed >= stated - 1e-9


def test_suggest__agent_fails_without_a_score() -> None:
    often = suggestion_from(None, None, 0.9, requested=0.5)
    once = suggestion_from(None, *[0.9] * 30, requested=0.9)

    assert (often.suggestion, often.probability) == (None, None)
    assert "no suggestion, the agent failed without a score in too many rounds" in rendered(often)
    assert "no suggestion, there are no usable rounds" in rendered(suggestion_from())
    assert once.suggestion == 0.9
    assert once.lowest is not None
    assert once.lowest.score is None
    assert "lowest: a failure without a score" in rendered(once)


def test_thresholds__joint_probability() -> None:
    scores = [0.5 + number / 100 for number in range(19)]

    assert joint_probability([0.95, 0.95]) == pytest.approx(0.9), "Bonferroni"
    assert joint_probability([0.95, None]) is None
    assert joint_probability([]) is None
    assert "All suggestions hold with a probability of at least 90%." in rendered(
        suggestion_from(*scores), suggestion_from(*scores)
    )
    assert "There are too few rounds to say that all hold." in rendered(suggestion_from(0.5), suggestion_from(0.6))


def test_render_thresholds__lowest_case_unless_all_are_perfect() -> None:
    assert "      lowest: 0.75, f:0, run 1 of r" in rendered(suggestion_from(0.75, 1.0)).splitlines()
    assert "lowest:" not in rendered(suggestion_from(1.0, 1.0))


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


def suggested(reports: Mapping[str, RunReport]) -> tuple[int, float | None, dict[str, int], list[str]]:
    """Number of rounds, the lowest score, rounds left out by reason, and notices."""
    report = suggest(list(reports.items()), requested=0.5, num_runs=1)
    [suggestion] = report.suggestions
    lowest = None if suggestion.lowest is None else suggestion.lowest.score
    return suggestion.rounds, lowest, suggestion.dropped, report.notices


def test_suggest__round_counts_with_its_lowest_score() -> None:
    report = run_report([case("x", [0.9, 0.7, 1.0]), case("y", [0.8, 1.0, 0.6])])
    [suggestion] = suggest([("r", report)], requested=0.5, num_runs=1).suggestions

    assert suggestion.lowest is not None
    assert (suggestion.lowest.score, suggestion.lowest.case_id[-1], suggestion.lowest.run) == (0.6, "y", 2)
    assert (suggestion.suggestion, suggestion.rounds) == (0.7, 3)
    assert (suggestion.config, suggestion.threshold, suggestion.cases) == ("evals/test_config.json", 0.8, 2)


def test_suggest__several_reports() -> None:
    old = run_report([case("x", [0.9]), case("y", [0.8])], commit="a")
    new = run_report([case("x", [0.5], started=100), case("y", [0.6], started=100)], started=100, commit="b")

    notice = "The runs are of 2 commits; the suggestions include the variation between them."
    assert suggested({"old": old, "new": new}) == (2, 0.5, {}, [notice])


def test_suggest__same_answers_scored_twice() -> None:
    report = run_report([case("x", [0.9, 0.8])])

    notice = "2 rounds left out: another file has the same answers."
    assert suggested({"first": report, "again": report}) == (2, 0.8, {}, [notice])


def test_suggest__failures_of_the_agent_and_of_others() -> None:
    report = run_report([case("x", [0.9, AGENT, PROVIDER, None]), case("y", [0.8, 0.9, 0.9, 0.9])])

    rounds, lowest, dropped, _ = suggested({"r": report})
    assert (rounds, lowest) == (2, None)
    assert dropped == {"a run was aborted": 1, "the metric was not evaluated": 1}


def test_suggest__case_without_any_score() -> None:
    report = run_report([case("x", [AGENT]), case("y", [0.9])])

    assert suggested({"r": report})[:2] == (1, None)


def test_suggest__rounds_with_other_cases_are_left_out() -> None:
    old = run_report([case("x", [0.1], fingerprint="old"), case("y", [0.1])])
    older = run_report([case("y", [0.2], started=50)])
    new = run_report([case("x", [0.9], fingerprint="new", started=100), case("y", [0.8], started=100)], started=100)

    rounds, lowest, dropped, _ = suggested({"old": old, "older": older, "new": new})
    assert (rounds, lowest) == (1, 0.8)
    assert dropped == {"a case was different": 1, "a case is missing": 1}


def test_thresholds__read_results(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    text = results_json(run_report([case("x", [0.9])]))
    (tmp_path / "out" / "results.json").write_text(text, encoding="utf-8")
    (tmp_path / "newer.json").write_text(results_json(run_report([case("x", [0.9])], started=9)), encoding="utf-8")
    (tmp_path / "broken.json").write_text("{}", encoding="utf-8")
    (tmp_path / "empty.json").write_text(results_json(run_report([])), encoding="utf-8")
    fileless = run_report([case("x", [0.9])]).model_copy(update={"files": []})
    (tmp_path / "fileless.json").write_text(results_json(fileless), encoding="utf-8")
    (tmp_path / "rules.json").write_text(text.replace('"scoring_version": ', '"scoring_version": 9'), encoding="utf-8")

    reports, problems = read_results([tmp_path / "newer.json", tmp_path / "out"], tmp_path)
    assert ([name for name, _ in reports], problems) == (["out/results.json", "newer.json"], [])

    names = ("broken.json", "empty.json", "fileless.json", "rules.json", "missing.json", "recordings.jsonl.gz")
    reports, problems = read_results([tmp_path / name for name in names], tmp_path)
    assert reports == []
    assert [problem.file for problem in problems] == list(names)
    assert {problem.code for problem in problems} == {"results-unusable"}
    assert "--agent recorded:recordings.jsonl.gz" in (problems[-1].hint or "")


def test_render_thresholds__hostile_text_is_harmless() -> None:
    minimum = RoundMinimum(score=0.5, case_id="\x1b[2J::error::y", report="r\n::stop-commands::z", run=0)
    suggestion = suggest_one(
        [minimum], metric="response_match_score", threshold=0.8, requested=0.5, num_runs=1
    ).model_copy(update={"config": "::error::x"})
    text = rendered(suggestion)

    assert "\x1b" not in text
    assert not any(line.lstrip().startswith("::") for line in text.splitlines())
