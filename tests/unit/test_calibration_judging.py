"""The judge is asked as a run of the gate asks it, and what it says is put beside the right label."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from calibration_samples import RUBRICS, criterion, labels, row, rubrics
from judged_samples import ScriptedModel, failure, verdict, verdicts

from agent_eval.calibration.agreement import Pair
from agent_eval.calibration.choosing import Chosen
from agent_eval.calibration.counting import decide, make_report
from agent_eval.calibration.judging import Opinion, ask, pairs_by_response, supposing
from agent_eval.calibration.labels import LabelSet
from agent_eval.calibration.report import CalibrationReport
from agent_eval.criteria.judged.judge import Judge, Options
from agent_eval.criteria.registry import build
from agent_eval.models.protocol import ModelRequest

MATCH = "final_response_match_v2"
BAD = "Lyon."


def by_answer(request: ModelRequest) -> Any:
    return verdict("invalid" if BAD in request.prompt else "valid", "it says so")


def opinions(
    chosen: Chosen, found: LabelSet, script: Callable[[ModelRequest], Any] = by_answer
) -> tuple[list[Opinion], ScriptedModel]:
    model = ScriptedModel(script=script)
    return asyncio.run(ask(found, chosen, Judge(model=model, default_model="input-model"))), model


def report(
    chosen: Chosen,
    found: LabelSet,
    script: Callable[[ModelRequest], Any] = by_answer,
    min_kappa: float | None = None,
) -> CalibrationReport:
    said, _ = opinions(chosen, found, script)
    return make_report(found, chosen, Options(model="input-model"), said, min_kappa=min_kappa)


def test_the_judge_is_asked_what_a_run_would_ask() -> None:
    """The same requests as of the criterion that the gate builds, so a cache serves both."""
    chosen = criterion(MATCH, judge_model_options={"num_samples": 3, "judge_model_config": {"temperature": 0.1}})
    found = labels(chosen, row("pass"), row("fail", response=BAD))
    _, asked = opinions(chosen, found)

    model = ScriptedModel(script=by_answer)
    gate = build(chosen.config, judge=Judge(model=model, default_model="input-model"))
    for response in found.responses:
        asyncio.run(gate.score(response.conversation("labels.jsonl")))
    assert sorted(map(repr, asked.requests)) == sorted(map(repr, model.requests))
    assert len(asked.requests) == 4, "two votes of three settle each"


def test_verdicts_beside_labels() -> None:
    chosen = criterion(MATCH)
    found = labels(chosen, row("pass"), row("pass", response=BAD), row("fail", response="Paris, perhaps."))
    said, _ = opinions(chosen, found)

    assert [(one.wanted, one.value) for one in said] == [(1, 1), (1, 0), (0, 1)]
    assert pairs_by_response(said) == [[(1, 1)], [(1, 0)], [(0, 1)]]


def test_the_threshold_decides_what_passes() -> None:
    lines = [row("pass"), row("fail", response="x"), row("pass", response="y")]
    for threshold, wanted in ((4, [1, 0, 0]), (2, [1, 1, 0])):
        chosen = criterion(f"response_evaluation_score={threshold}")
        grades = {"Paris.": "4", "x": "3", "y": "1"}

        def grade(request: ModelRequest, grades: dict[str, str] = grades) -> Any:
            answer = request.prompt.rsplit("\n</data", 1)[0].rsplit("\n", 1)[1]
            return verdict(grades[answer])

        said, _ = opinions(chosen, labels(chosen, *lines), grade)
        assert [one.value for one in said] == wanted
        assert [one.score for one in said] == [4, 3, 1]


def test_scores_beside_scores() -> None:
    chosen = criterion("response_evaluation_score")
    found = labels(chosen, row(5), row(1, response=BAD), row(2, response="x"))
    said, _ = opinions(chosen, found, lambda request: verdict("2" if BAD in request.prompt else "4"))

    assert [(one.wanted, one.value) for one in said] == [(5, 4), (1, 2), (2, 4)]
    told = make_report(found, chosen, Options(model="m"), said)
    assert (told.kind, told.weights, told.table.categories) == ("score", "quadratic", [1, 2, 4, 5])
    # By the definition: distances are 1, 1, 2; those of all nine pairings 1, 3, 1, 3, 1, 3, 2, 0, 2.
    assert told.kappa == pytest.approx(1 - ((1 + 1 + 4) / 3) / ((1 + 9 + 1 + 9 + 1 + 9 + 4 + 0 + 4) / 9))
    assert told.mean_difference == pytest.approx((-1 + 1 + 2) / 3)
    assert told.wrongly_passed is None
    assert [one.line for one in told.disagreements] == [3, 1, 2]


def by_rubric(request: ModelRequest) -> Any:
    return verdicts("yes", "no" if BAD in request.prompt else "yes", "no")


def test_each_rubric_for_itself() -> None:
    chosen = criterion(RUBRICS, threshold=1.0, rubrics=rubrics("short", "kind", "third"))
    found = labels(
        chosen,
        row(labels={"short": "yes", "kind": "no"}),
        row(response=BAD, labels={"kind": "no"}),
        row("yes", response="x", rubric="third"),
    )
    said, model = opinions(chosen, found, by_rubric)

    assert [(one.label.subject, one.wanted, one.value) for one in said] == [
        ("short", 1, 1),
        ("kind", 0, 1),
        ("kind", 0, 0),
        ("third", 1, 0),
    ]
    assert len({request.prompt for request in model.requests}) == 3, "a response is judged once for all its labels"
    told = make_report(found, chosen, Options(model="m"), said)
    assert [(one.rubric, one.judged, one.passed_by_people, one.passed_by_judge) for one in told.rubrics] == [
        ("short", 1, 1, 1),
        ("kind", 2, 0, 1),
        ("third", 1, 1, 0),
    ]
    assert told.interval is not None
    assert "summed by response" in told.interval.method


def test_a_rubric_of_the_lines_own_is_asked_beside_the_criterions() -> None:
    chosen = criterion(RUBRICS, rubrics=rubrics("short"))
    found = labels(chosen, row("no", rubric="It names a source."))
    said, model = opinions(chosen, found, lambda request: verdicts("yes", "no"))

    assert [(one.label.subject, one.value) for one in said] == [("It names a source.", 0)]
    assert all("It is short." in request.prompt for request in model.requests)


def test_a_rubric_that_nobody_voted_on_costs_the_others_nothing() -> None:
    chosen = criterion(RUBRICS, threshold=1.0, rubrics=rubrics("a", "b"))
    found = labels(chosen, row(labels={"a": "no", "b": "yes"}))
    said, _ = opinions(chosen, found, lambda request: verdicts("yes", None))

    assert [(one.value, one.code) for one in said] == [(1, ""), (None, "no-verdict")]


def test_what_was_not_judged_is_counted_by_its_reason() -> None:
    chosen = criterion(MATCH)
    found = labels(chosen, row("pass"), row("fail", response=BAD), row("fail", response="x"), row("pass", response="y"))

    def script(request: ModelRequest) -> Any:
        return failure("budget") if BAD not in request.prompt else verdict("invalid")

    told = report(chosen, found, script, min_kappa=0.5)
    assert (told.labels, told.judged, told.verdict) == (4, 1, "inconclusive")
    assert [(one.code, one.count) for one in told.unjudged] == [("budget", 3)]
    assert [one.reason for one in told.opinions] == ["budget", None, "budget", "budget"]
    assert told.kappa is None


def test_of_scores_a_gap_leaves_nothing() -> None:
    """One of two turns without a vote: the mean of the rest is another thing than what people scored."""
    chosen = criterion("response_evaluation_score")
    turns = [{"prompt": "Hi", "response": "Hello"}, {"prompt": "Bye", "response": BAD}]
    found = labels(chosen, {"turns": turns, "label": 4})

    def script(request: ModelRequest) -> Any:
        return failure("refused") if BAD in request.prompt else verdict("5")

    [one] = opinions(chosen, found, script)[0]
    assert (one.value, one.code) == (None, "judge-refused")


def test_a_gap_that_cannot_matter_does_not() -> None:
    """The gate's own rule: the second turn fails the line, whatever the first would have been."""
    chosen = criterion("safety_v1")
    turns = [{"prompt": "Hi", "response": "Hello"}, {"prompt": "Bye", "response": BAD}]
    found = labels(chosen, {"turns": turns, "label": "fail"})

    def script(request: ModelRequest) -> Any:
        return verdict("unsafe") if BAD in request.prompt else failure("refused")

    [one] = opinions(chosen, found, script)[0]
    assert one.value == 0


def test_the_worst_disagreements_come_first_with_the_judges_words() -> None:
    chosen = criterion(MATCH)
    found = labels(
        chosen,
        row("pass", response=BAD, id="torn"),
        row("pass", response="Sure: Lyon.", id="sure", note="it is what was asked"),
        row("pass"),
    )

    def script(request: ModelRequest) -> Any:
        if "Sure" in request.prompt:
            return verdict("invalid", "wrong city")
        return verdict("invalid" if BAD in request.prompt and request.sample % 2 == 0 else "valid", "who knows")

    told = report(chosen, found, script)
    assert [(one.id, one.votes, one.rationale, one.note) for one in told.disagreements] == [
        ("sure", ["3:0"], ["wrong city"], "it is what was asked"),
        ("torn", ["3:2, close"], ["who knows"], ""),
    ]
    assert told.close == 1


def test_words_are_those_of_the_turns_that_led_away() -> None:
    chosen = criterion("safety_v1")
    turns = [{"prompt": "Hi", "response": "Hello"}, {"prompt": "Bye", "response": BAD}]
    found = labels(chosen, {"turns": turns, "label": "pass"}, row("fail", response="z"))

    def script(request: ModelRequest) -> Any:
        return verdict("unsafe", "second") if BAD in request.prompt else verdict("safe", "first")

    told = report(chosen, found, script)
    assert [one.rationale for one in told.disagreements] == [["second"], ["first"]]


@pytest.mark.parametrize(
    ("kappa", "best", "worst", "wanted", "judged", "missing", "verdict"),
    [
        (0.7, 0.7, 0.7, 0.6, 9, 0, "passed"),
        (0.6, 0.6, 0.6, 0.6, 9, 0, "passed"),
        (0.59, 0.59, 0.59, 0.6, 9, 0, "failed"),
        (0.7, 0.75, 0.65, 0.6, 9, 1, "passed"),
        (0.7, 0.75, 0.55, 0.6, 9, 1, "inconclusive"),
        (0.5, 0.65, 0.4, 0.6, 9, 1, "inconclusive"),
        (0.4, 0.55, 0.3, 0.6, 9, 1, "failed"),
        (None, None, None, 0.6, 9, 0, "inconclusive"),
        (None, 0.3, -0.2, 0.6, 9, 1, "inconclusive"),
        (None, None, None, None, 0, 5, "inconclusive"),
        (None, None, None, None, 3, 0, "reported"),
        (0.1, 0.1, 0.1, None, 9, 0, "reported"),
    ],
)
def test_deciding(
    kappa: float | None,
    best: float | None,
    worst: float | None,
    wanted: float | None,
    judged: int,
    missing: int,
    verdict: str,
) -> None:
    assert decide(kappa, best, worst, wanted, judged=judged, missing=missing)[0] == verdict


def test_supposing_fills_in_what_is_missing() -> None:
    chosen = criterion("response_evaluation_score")
    found = labels(chosen, row(5), row(2, response="x"), row(4, response=BAD))
    said, _ = opinions(chosen, found, lambda request: verdict("3") if BAD in request.prompt else failure("unavailable"))

    agreeing: list[Pair] = [(5, 5), (2, 2), (4, 3)]
    assert supposing(said, (1, 5), agree=True) == agreeing
    assert supposing(said, (1, 5), agree=False) == [(5, 1), (2, 5), (4, 3)]


def test_few_labels_of_a_kind_are_told() -> None:
    chosen = criterion(MATCH)
    found = labels(chosen, row("pass"), row("fail", response=BAD))

    [notice] = report(chosen, found).notices
    assert notice.startswith("Only 1 of 2 labels say pass")


def test_another_threshold_may_fit_people_better() -> None:
    chosen = criterion("response_evaluation_score=5")
    given = {"Paris.": "5", "w": "4", "x": "4", "y": "3", "z": "1"}
    found = labels(chosen, *(row("pass" if said in "45" else "fail", response=text) for text, said in given.items()))

    def grade(request: ModelRequest) -> Any:
        return verdict(given[request.prompt.rsplit("\n</data", 1)[0].rsplit("\n", 1)[1]])

    told = report(chosen, found, grade)
    assert [(one.threshold, one.wrongly_passed, one.wrongly_failed) for one in told.thresholds] == [
        (1, 2, 0),
        (3, 1, 0),
        (4, 0, 0),
        (5, 0, 2),
    ]
    assert [one.kappa for one in told.thresholds if one.threshold in {4, 5}] == [pytest.approx(1), told.kappa]
    assert any(notice.startswith("Kappa would be highest, 1.00, with a threshold of 4.") for notice in told.notices)


def test_verdicts_of_two_words_have_no_other_threshold() -> None:
    chosen = criterion(MATCH)
    assert report(chosen, labels(chosen, row("pass"), row("fail", response=BAD))).thresholds == []


def test_sentences_against_what_a_tool_returned() -> None:
    """Two questions for each response, and the share of sentences that are borne out against the threshold."""
    chosen = criterion("hallucinations_v1=0.6")
    tools = [{"name": "rooms", "response": "one room, 80 euros"}]
    found = labels(
        chosen,
        row("pass", response="One room is left. It costs 80 euros.", tools=tools),
        row("fail", response="One room is left. It has a balcony.", tools=tools),
        row("fail", response="Hello. One room is left. It costs 80 euros.", tools=tools),
    )

    def script(request: ModelRequest) -> Any:
        assert request.schema is not None
        if request.schema["properties"]["sentences"]["items"]["type"] == "string":
            said = ("Hello.", "One room is left.", "It costs 80 euros.", "It has a balcony.")
            return {"sentences": [one for one in said if one in request.prompt]}
        assert "80 euros" in request.prompt
        words = ["supported", "unsupported" if "balcony" in request.prompt else "supported", "supported"]
        labelled = [{"number": number, "rationale": word, "label": word} for number, word in enumerate(words, 1)]
        return {"sentences": labelled[: request.prompt.count('"number": ')]}

    said, model = opinions(chosen, found, script)
    assert [(one.wanted, one.score, one.value) for one in said] == [(1, 1, 1), (0, 0.5, 0), (0, 1, 1)]
    assert len(model.requests) == 6
    [worst] = make_report(found, chosen, Options(model="m", samples=1), said).disagreements
    assert (worst.line, worst.votes) == (3, ["1:0", "1:0", "1:0"])
