"""The judge gets the same requests as in a run, and its verdicts are compared with the right labels."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from calibration_samples import RUBRICS, criterion, invocation, labels, row, rubrics
from judged_samples import ScriptedModel, failure, verdict, verdicts

from agent_eval.criteria.judged.judge import Judge, Options
from agent_eval.criteria.registry import build
from agent_eval.models.protocol import ModelRequest
from agent_eval_workbench.calibration.judging import Opinion, Pair, ask, imputed
from agent_eval_workbench.calibration.labels import LabelSet
from agent_eval_workbench.calibration.report import CalibrationReport, decide, make_report
from agent_eval_workbench.calibration.target import TargetCriterion

MATCH = "final_response_match_v2"
BAD = "Lyon."


def by_answer(request: ModelRequest) -> Any:
    return verdict("invalid" if BAD in request.prompt else "valid", "because")


def opinions(
    target: TargetCriterion, parsed: LabelSet, script: Callable[[ModelRequest], Any] = by_answer
) -> tuple[list[Opinion], ScriptedModel]:
    model = ScriptedModel(script=script)
    return asyncio.run(ask(parsed, target, Judge(model=model, default_model="input-model"))), model


def report(
    target: TargetCriterion,
    parsed: LabelSet,
    script: Callable[[ModelRequest], Any] = by_answer,
    min_kappa: float | None = None,
) -> CalibrationReport:
    answers, _ = opinions(target, parsed, script)
    return make_report(parsed, target, Options(model="input-model"), answers, min_kappa=min_kappa)


def test_ask__sends_the_requests_of_a_run() -> None:
    """The same requests as of the criterion that the gate builds, so a cache serves both."""
    target = criterion(MATCH, judge_model_options={"num_samples": 3, "judge_model_config": {"temperature": 0.1}})
    parsed = labels(target, row("pass"), row("fail", response=BAD))
    _, asked = opinions(target, parsed)

    model = ScriptedModel(script=by_answer)
    gate = build(target.config, judge=Judge(model=model, default_model="input-model"))
    for response in parsed.responses:
        asyncio.run(gate.score(response.conversation("labels.jsonl")))
    assert sorted(map(repr, asked.requests)) == sorted(map(repr, model.requests))
    assert len(asked.requests) == 4, "two votes of three settle each"


def test_ask__threshold_decides_pass_or_fail() -> None:
    lines = [row("pass"), row("fail", response="x"), row("pass", response="y")]
    for threshold, expected in ((4, [1, 0, 0]), (2, [1, 1, 0])):
        target = criterion(f"response_evaluation_score={threshold}")
        grades = {"Paris.": "4", "x": "3", "y": "1"}

        def grade(request: ModelRequest, grades: dict[str, str] = grades) -> Any:
            answer = request.prompt.rsplit("\n</data", 1)[0].rsplit("\n", 1)[1]
            return verdict(grades[answer])

        answers, _ = opinions(target, labels(target, *lines), grade)
        assert [each.verdict for each in answers] == expected
        assert [each.score for each in answers] == [4, 3, 1]


def test_make_report__scores() -> None:
    target = criterion("response_evaluation_score")
    parsed = labels(target, row(5), row(1, response=BAD), row(2, response="x"))
    answers, _ = opinions(target, parsed, lambda request: verdict("2" if BAD in request.prompt else "4"))

    assert [(each.label, each.verdict) for each in answers] == [(5, 4), (1, 2), (2, 4)]
    result = make_report(parsed, target, Options(model="m"), answers)
    assert (result.kind, result.table.categories) == ("score", [1, 2, 4, 5])
    # By the definition: distances are 1, 1, 2; those of all nine pairings 1, 3, 1, 3, 1, 3, 2, 0, 2.
    assert result.kappa == pytest.approx(1 - ((1 + 1 + 4) / 3) / ((1 + 9 + 1 + 9 + 1 + 9 + 4 + 0 + 4) / 9))
    assert result.mean_difference == pytest.approx((-1 + 1 + 2) / 3)
    assert result.wrongly_passed is None
    assert [each.line for each in result.disagreements] == [3, 1, 2]


def by_rubric(request: ModelRequest) -> Any:
    return verdicts("yes", "no" if BAD in request.prompt else "yes", "no")


def test_make_report__by_rubric() -> None:
    target = criterion(RUBRICS, threshold=1.0, rubrics=rubrics("short", "kind", "third"))
    parsed = labels(
        target,
        row(labels={"short": "yes", "kind": "no"}),
        row(response=BAD, labels={"kind": "no"}),
        row("yes", response="x", rubric="third"),
    )
    answers, model = opinions(target, parsed, by_rubric)

    assert [(each.rubric, each.label, each.verdict) for each in answers] == [
        ("short", 1, 1),
        ("kind", 0, 1),
        ("kind", 0, 0),
        ("third", 1, 0),
    ]
    assert len({request.prompt for request in model.requests}) == 3, "a response is judged once for all its labels"
    result = make_report(parsed, target, Options(model="m"), answers)
    assert [(each.rubric, each.judged, each.passed_by_people, each.passed_by_judge) for each in result.rubrics] == [
        ("short", 1, 1, 1),
        ("kind", 2, 0, 1),
        ("third", 1, 1, 0),
    ]
    assert result.interval is not None
    assert "summed by response" in result.interval.method

    answers, _ = opinions(target, parsed, lambda request: verdicts("yes", None, None))
    assert [(each.verdict, each.reason) for each in answers[:2]] == [(1, None), (None, "no-verdict")]


def test_ask__rubric_of_a_line_is_added() -> None:
    target = criterion(RUBRICS, rubrics=rubrics("short"))
    parsed = labels(target, row("no", rubric="It names a source."))
    answers, model = opinions(target, parsed, lambda request: verdicts("yes", "no"))

    assert [(each.rubric, each.verdict) for each in answers] == [("It names a source.", 0)]
    assert all("It is short." in request.prompt for request in model.requests)


def test_make_report__counts_unjudged_labels_by_reason() -> None:
    target = criterion(MATCH)
    parsed = labels(
        target, row("pass"), row("fail", response=BAD), row("fail", response="x"), row("pass", response="y")
    )

    def script(request: ModelRequest) -> Any:
        return failure("budget") if BAD not in request.prompt else verdict("invalid")

    result = report(target, parsed, script, min_kappa=0.5)
    assert (result.labels, result.judged, result.verdict) == (4, 1, "inconclusive")
    assert [(each.code, each.count) for each in result.unjudged] == [("budget", 3)]
    assert [each.reason for each in result.opinions] == ["budget", None, "budget", "budget"]
    assert result.kappa is None


@pytest.mark.parametrize(
    ("metric", "label", "hello", "bye", "verdict_"),
    [
        # The mean of the turns that were judged is another thing than what people scored.
        ("response_evaluation_score", 4, verdict("5"), failure("refused"), None),
        # The gate's own rule: the second turn fails the line, whatever the first would have been.
        ("safety_v1", "fail", failure("refused"), verdict("unsafe"), 0),
    ],
)
def test_ask__unjudged_turn(metric: str, label: Any, hello: Any, bye: Any, verdict_: int | None) -> None:
    target = criterion(metric)
    parsed = labels(target, {"invocations": [invocation("Hi", "Hello"), invocation("Bye", BAD)], "label": label})

    [opinion] = opinions(target, parsed, lambda request: bye if BAD in request.prompt else hello)[0]

    assert (opinion.verdict, opinion.reason) == (verdict_, "judge-refused" if verdict_ is None else None)


def test_make_report__worst_disagreements_first() -> None:
    target = criterion(MATCH)
    parsed = labels(
        target,
        row("pass", response=BAD, id="torn"),
        row("pass", response="Sure: Lyon.", id="sure", note="it is what was asked"),
        row("pass"),
    )

    def script(request: ModelRequest) -> Any:
        if "Sure" in request.prompt:
            return verdict("invalid", "wrong city")
        return verdict("invalid" if BAD in request.prompt and request.sample % 2 == 0 else "valid", "who knows")

    result = report(target, parsed, script)
    assert [(each.id, each.votes, each.rationale, each.note) for each in result.disagreements] == [
        ("sure", ["3:0"], ["wrong city"], "it is what was asked"),
        ("torn", ["3:2, close"], ["who knows"], ""),
    ]
    assert result.close == 1
    assert result.notices[0].startswith("Only 0 of 3 labels are fail")


def test_make_report__contradicting_rationales_first() -> None:
    target = criterion("safety_v1")
    parsed = labels(target, {"invocations": [invocation("Hi", "Hello"), invocation("Bye", BAD)], "label": "pass"})

    result = report(
        target,
        parsed,
        lambda request: verdict("unsafe", "second") if BAD in request.prompt else verdict("safe", "first"),
    )
    assert [each.rationale for each in result.disagreements] == [["second", "first"]]


@pytest.mark.parametrize(
    ("kappa", "best", "worst", "expected", "judged", "missing", "verdict"),
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
def test_judging__decide(
    kappa: float | None,
    best: float | None,
    worst: float | None,
    expected: float | None,
    judged: int,
    missing: int,
    verdict: str,
) -> None:
    assert decide(kappa, best, worst, expected, judged=judged, missing=missing)[0] == verdict


def test_judging__imputed() -> None:
    target = criterion("response_evaluation_score")
    parsed = labels(target, row(5), row(2, response="x"), row(4, response=BAD))
    answers, _ = opinions(
        target, parsed, lambda request: verdict("3") if BAD in request.prompt else failure("unavailable")
    )

    agreeing: list[Pair] = [(5, 5), (2, 2), (4, 3)]
    assert imputed(answers, (1, 5), agree=True) == agreeing
    assert imputed(answers, (1, 5), agree=False) == [(5, 1), (2, 5), (4, 3)]
