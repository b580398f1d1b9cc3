"""Judges against people's labels."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from calibration_samples import RUBRICS, codes, criterion, invocation, jsonl, labels, row, rubrics, wrong
from hypothesis import given
from hypothesis import strategies as st
from judged_samples import ScriptedModel, failure, verdict, verdicts

from agent_eval.core.content import text_of
from agent_eval.core.invocation import tool_calls
from agent_eval.criteria.judged import verdict_scale
from agent_eval.criteria.judged.judge import Judge, Options
from agent_eval.criteria.registry import build
from agent_eval.models.protocol import ModelRequest
from agent_eval.results.report import ModelUsageReport
from agent_eval_workbench.calibration.judging import (
    Opinion,
    Pair,
    agreement,
    ask,
    imputed,
    kappa_interval,
    kappa_of,
    share_interval,
    tabulate,
)
from agent_eval_workbench.calibration.labels import LabelLine, LabelSet, parse_labels, read_labels
from agent_eval_workbench.calibration.report import CalibrationReport, decide, make_report, render_text
from agent_eval_workbench.calibration.target import CALIBRATED, TargetCriterion, choose_target

# Label files: their content, what labels mean, and mistakes with their positions.

MATCH = "final_response_match_v2"
TWO = criterion(RUBRICS, rubrics=rubrics("short", "kind"))


def test_read_labels__a_line_is_a_conversation_of_one_turn() -> None:
    parsed = labels(criterion(MATCH), row("pass", id="fr", note="short"), row("fail", response=""))
    response, silent = parsed.responses

    conversation = response.conversation("labels.jsonl")
    assert conversation.expected is not None
    assert text_of(conversation.actual[0].user_content) == "The capital of France?"
    assert text_of(conversation.actual[0].final_response) == "Paris."
    assert text_of(conversation.expected[0].final_response) == "Paris"
    assert conversation.case_id == "labels.jsonl:1"
    [label] = response.labels
    assert (label.line, label.id, label.word, label.note) == (1, "fr", "pass", "short")
    assert silent.actual[0].final_response is None
    assert parsed.kind == "verdict"
    assert labels(criterion(MATCH), row("pass"), row(0.5, response="Lyon.")).kind == "score"


def test_read_labels__invocations_with_tool_calls() -> None:
    turn = invocation("Hi", "Paris", ("lookup", {"result": "Paris"}))
    plain = {"invocations": [invocation("Hi", "Hello"), invocation("Bye", "See you")]}
    rows = [{"invocations": [turn], "label": "pass"}, {**plain, "label": "fail"}, row("pass")]
    parsed = labels(criterion("safety_v1"), *rows)

    assert [len(response.actual) for response in parsed.responses] == [1, 2, 1]
    assert [response.answer for response in parsed.responses] == ["Paris", "See you", "Paris."]
    assert [len(response.expected) for response in parsed.responses] == [1, 2, 1]
    assert [call.name for call in tool_calls(parsed.responses[0].actual[0].intermediate_data)] == ["lookup"]


def test_read_labels__lines_about_one_response_are_merged() -> None:
    parsed = labels(
        TWO,
        row("yes", rubric="short"),
        row("no", rubric="kind"),
        row("no", rubric="The answer names a source."),
        row(response="Lyon.", labels={"short": "pass", "kind": 0}),
    )

    assert [len(response.labels) for response in parsed.responses] == [3, 2]
    assert [label.rubric for label in parsed.labels] == ["short", "kind", "The answer names a source.", "short", "kind"]
    assert [label.verdict for label in parsed.labels] == [1, 0, 0, 1, 0]
    assert parsed.by_rubric
    [own] = parsed.responses[0].rubrics.values()
    assert (own.rubric_id, own.type) == ("The answer names a source.", "FINAL_RESPONSE_QUALITY")
    assert parsed.responses[1].rubrics == {}


@pytest.mark.parametrize(
    ("metric", "raw", "verdict", "score"),
    [
        (MATCH, "pass", 1, 1),
        (MATCH, " Invalid ", 0, 0),
        (MATCH, 1, 1, 1),
        (MATCH, 0.5, None, 0.5),
        ("safety_v1", "unsafe", 0, 0),
        ("response_evaluation_score=4", "fail", 0, None),
        ("response_evaluation_score", 4, None, 4),
        ("response_evaluation_score", "4", None, 4),
        ("multi_turn_task_success_v1", "partly", None, 0.5),
        ("hallucinations_v1=0.8", "pass", 1, None),
        ("hallucinations_v1", 0.75, None, 0.75),
    ],
)
def test_vocabulary__reads_label(metric: str, raw: Any, verdict: float | None, score: float | None) -> None:
    [label] = labels(criterion(metric), row(raw)).labels

    assert (label.verdict, label.score) == (verdict, score)


@pytest.mark.parametrize("raw", ["maybe", "", 2, -0.1, True, [1], {"a": 1}, "yes"])
def test_vocabulary__refuses_label(raw: Any) -> None:
    line = row(raw, response="Lyon.")
    [problem] = wrong(criterion(MATCH), row("pass"), line)

    assert (problem.line, problem.code, problem.path) == (2, "label-unknown", "label")
    assert problem.column == len(jsonl(line).decode().partition('"label": ')[0] + '"label": ') + 1
    assert "`invalid`" in (problem.hint or "")


def test_read_labels__reports_all_mistakes_with_their_lines() -> None:
    problems = wrong(
        criterion(MATCH),
        row("pass"),
        '{"prompt": "x", "response": "y", "label": "pass",}',
        row("pass", respnse="x"),
        "",
        {"prompt": "x", "response": "y", "label": "pass"},
        row(None, response="no label"),
        row("pass"),
        {"label": "pass"},
        row("pass", invocations=[]),
        row("pass", response="z", rubric="short"),
        '["not", "an", "object"]',
        row("pass", prompt=3),
        '{"a": 1} {"b": 2}',
    )

    assert codes(problems) == [
        (2, "json-trailing-comma"),
        (3, "unknown-key"),
        (5, "label-needs-reference"),
        (6, "missing-field"),
        (7, "label-repeated"),
        (8, "label-without-response"),
        (9, "label-without-response"),
        (10, "label-rubric-unknown"),
        (11, "wrong-type"),
        (12, "wrong-type"),
        (13, "not-json"),
    ]
    assert all(problem.file == "labels.jsonl" and problem.hint for problem in problems)
    assert problems[-1].hint == "Write one object per line."


GRADED = "response_evaluation_score"


@pytest.mark.parametrize(
    ("target", "rows", "code"),
    [
        (criterion(RUBRICS, rubrics=[]), [row("pass")], (1, "no-rubrics")),
        (TWO, [row("yes", rubric="shrot")], (1, "label-rubric-unknown")),
        (TWO, [row("maybe", rubric="short")], (1, "label-unknown")),
        (TWO, [row(0.5, rubric="short")], (1, "label-unknown")),
        (TWO, [row("yes", rubric=rubrics("short")[0])], (1, "wrong-type")),
        (TWO, [row("yes", rubric="It is new."), row(labels={"It is new.": "no"})], (2, "label-repeated")),
        (TWO, [row("yes", rubric="short"), row("pass", response="Lyon.")], (2, "labels-mixed")),
        (criterion(f"{GRADED}=4"), [row(4), row(2, response="x"), row("pass", response="y")], (3, "labels-mixed")),
        (criterion(f"{GRADED}=4"), [row("fail"), row(2, response="x")], (2, "labels-mixed")),
        (criterion(GRADED), [row("pass")], (None, "label-needs-threshold")),
        (criterion(MATCH), [json.dumps([row("pass")], indent=1)], (None, "labels-not-lines")),
        (criterion(MATCH), ["", " "], (None, "no-labels")),
    ],
)
def test_read_labels__mistakes(
    target: TargetCriterion, rows: list[dict[str, Any] | str], code: tuple[int | None, str]
) -> None:
    assert codes(wrong(target, *rows)) == [code]


def test_read_labels__unreadable_file() -> None:
    parsed, [problem] = read_labels(Path("/nonexistent/labels.jsonl"), Path("/nonexistent"), criterion(MATCH))
    assert (parsed, problem.code, problem.file) == (None, "unreadable-file", "labels.jsonl")


def test_read_labels__windows_line_ends_and_blank_lines() -> None:
    data = jsonl(row("pass"), "", row("fail", response="Lyon.")).replace(b"\n", b"\r\n")
    parsed, problems = parse_labels(data, "labels.jsonl", criterion(MATCH))

    assert parsed is not None and problems == []
    assert [label.line for label in parsed.labels] == [1, 3]


json_values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
fields = st.sampled_from(["prompt", "response", "reference", "invocations", "label", "labels", "rubric", "expected"])


@given(st.dictionaries(fields, json_values, max_size=5), st.sampled_from(CALIBRATED))
def test_read_labels__never_raises(line: dict[str, Any], metric: str) -> None:
    parsed, problems = parse_labels(jsonl(row("pass"), line), "labels.jsonl", criterion(metric))

    assert (parsed is None) is any(problem.severity == "error" for problem in problems)
    assert all(problem.line in {1, 2, None} for problem in problems)


def test_labels__choose_target(tmp_path: Path) -> None:
    single = {"criteria": {"safety_v1": 0.9, "response_match_score": 0.5}}
    (tmp_path / "one.json").write_text(json.dumps(single), encoding="utf-8")
    two = {"criteria": {"safety_v1": 0.9, "hallucinations_v1": {"threshold": 0.7}}}
    (tmp_path / "two.json").write_text(json.dumps(two), encoding="utf-8")

    def chosen(requested: str, config: str | None = None) -> float | str | None:
        target, problems = choose_target(requested, Path(config) if config else None, tmp_path)
        return problems[0].code if target is None else target.threshold

    assert chosen("safety_v1") == 1.0, "all turns must be safe"
    assert chosen("hallucinations_v1") is None
    assert chosen("hallucinations_v1=0.6") == 0.6
    assert chosen("one.json") == 0.9
    assert chosen("hallucinations_v1", "two.json") == 0.7
    assert chosen("two.json") == chosen(MATCH, "two.json") == "criterion-not-configured"
    assert chosen("three.json") == "unreadable-file"
    for not_judged in ("response_match_score", "per_turn_user_simulator_quality_v1"):
        assert chosen(not_judged) == "criterion-not-judged"
    assert chosen("safety_v2") == "unknown-metric"
    assert chosen("safety_v1=2") == chosen("safety_v1=high") == "threshold-out-of-range"


# The judge gets the same requests as in a run, and its verdicts are compared with the right labels.

BAD = "Lyon."


def by_answer(request: ModelRequest) -> Any:
    return verdict("invalid" if BAD in request.prompt else "valid", "because")


def opinions(
    target: TargetCriterion, parsed: LabelSet, script: Callable[[ModelRequest], Any] = by_answer
) -> tuple[list[Opinion], ScriptedModel]:
    model = ScriptedModel(script=script)
    return asyncio.run(ask(parsed, target, Judge(model=model, default_model="input-model"))), model


def report(target: TargetCriterion, parsed: LabelSet, script: Any = by_answer, **options: Any) -> CalibrationReport:
    answers, _ = opinions(target, parsed, script)
    return make_report(parsed, target, Options(model="gemini-2.5-flash"), answers, **options)


def two_turns(label: Any) -> dict[str, Any]:
    return {"invocations": [invocation("Hi", "Hello"), invocation("Bye", BAD)], "label": label}


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
    others = [row("fail", response=BAD), row("fail", response="x"), row("pass", response="y")]
    parsed = labels(target, row("pass"), *others)

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
    parsed = labels(target, two_turns(label))

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
    def script(request: ModelRequest) -> Any:
        return verdict("unsafe", "second") if BAD in request.prompt else verdict("safe", "first")

    target = criterion("safety_v1")
    result = report(target, labels(target, two_turns("pass")), script)
    assert [each.rationale for each in result.disagreements] == [["second", "first"]]


Kappas = tuple[float | None, float | None, float | None]


@pytest.mark.parametrize(
    ("kappas", "expected", "judged", "missing", "verdict"),
    [
        ((0.6, 0.6, 0.6), 0.6, 9, 0, "passed"),
        ((0.59, 0.59, 0.59), 0.6, 9, 0, "failed"),
        ((0.7, 0.75, 0.65), 0.6, 9, 1, "passed"),
        ((0.7, 0.75, 0.55), 0.6, 9, 1, "inconclusive"),
        ((0.5, 0.65, 0.4), 0.6, 9, 1, "inconclusive"),
        ((0.4, 0.55, 0.3), 0.6, 9, 1, "failed"),
        ((None, None, None), 0.6, 9, 0, "inconclusive"),
        ((None, 0.3, -0.2), 0.6, 9, 1, "inconclusive"),
        ((None, None, None), None, 0, 5, "inconclusive"),
        ((None, None, None), None, 3, 0, "reported"),
        ((0.1, 0.1, 0.1), None, 9, 0, "reported"),
    ],
)
def test_judging__decide(kappas: Kappas, expected: float | None, judged: int, missing: int, verdict: str) -> None:
    """Kappa as it is, and the best and the worst that the missing verdicts could make of it."""
    assert decide(*kappas, expected, judged=judged, missing=missing)[0] == verdict


def test_judging__imputed() -> None:
    target = criterion("response_evaluation_score")
    parsed = labels(target, row(5), row(2, response="x"), row(4, response=BAD))

    def script(request: ModelRequest) -> Any:
        return verdict("3") if BAD in request.prompt else failure("unavailable")

    answers, _ = opinions(target, parsed, script)
    agreeing: list[Pair] = [(5, 5), (2, 2), (4, 3)]
    assert imputed(answers, (1, 5), agree=True) == agreeing
    assert imputed(answers, (1, 5), agree=False) == [(5, 1), (2, 5), (4, 3)]


# Kappa and its interval, against other people's software and in cases whose result is known.

REFERENCE = [
    # counts, then kappa with squared weights and its standard error: statsmodels 0.15.0, inter_rater.cohens_kappa.
    # The kappas are scikit-learn 1.9.1's, too. The first table is the example of Fleiss, Levin and Paik (2003), 18.1.
    (
        [[75, 1, 4], [5, 4, 1], [0, 0, 10]],
        (0.7553191489361702, 0.08670713249380735),
    ),
    ([[20, 5], [10, 15]], (0.4, 0.12699606293110036)),
    (
        [[44, 2, 0, 0], [3, 21, 6, 1], [0, 4, 17, 5], [0, 0, 3, 30]],
        (0.9301423027166882, 0.016266399745446025),
    ),
    ([[1, 9], [8, 2]], (-0.7, 0.15888675212238476)),
]


def pairs_of(counts: Sequence[Sequence[int]]) -> list[Pair]:
    return [(float(i), float(j)) for i, row in enumerate(counts) for j, count in enumerate(row) for _ in range(count)]


@pytest.mark.parametrize(("counts", "expected"), REFERENCE)
def test_agreement__matches_statsmodels(counts: list[list[int]], expected: tuple[float, float]) -> None:
    pairs = pairs_of(counts)
    terms = agreement(tabulate(pairs))
    variance = sum(terms.influence[pair] ** 2 for pair in pairs) / len(pairs) ** 2

    assert (terms.kappa, math.sqrt(variance)) == pytest.approx(expected, abs=1e-12)


def test_kappa__undefined() -> None:
    assert kappa_of([]) is None
    assert kappa_of([(1.0, 1.0)] * 9) is None, "all labels and verdicts are equal"
    assert kappa_interval([[(1.0, 1.0)], [(1.0, 1.0)]]) is None
    assert kappa_interval([[(1.0, 1.0), (0.0, 0.0)]]) is None, "one response has no variance"
    constant = [(1.0, 1.0)] * 7 + [(0.0, 1.0)] * 3
    assert kappa_of(constant) == pytest.approx(0)
    assert kappa_interval([[pair] for pair in constant]) is None, "kappa would be 0 in every sample"


def test_kappa_interval__full_agreement() -> None:
    """5 of 5 may well be luck, 500 of 500 not."""
    intervals = [kappa_interval([[(float(i % 2),) * 2] for i in range(count)]) for count in (6, 50, 500)]

    lows = [interval.low for interval in intervals if interval is not None]
    assert all(interval is not None and interval.high == 1 for interval in intervals)
    assert lows == pytest.approx([0.0815, 0.8577, 0.9853], abs=1e-3)
    assert lows[1] == pytest.approx((0.025 ** (1 / 50) - 0.5) / 0.5)


def test_kappa_interval__labels_on_one_response_are_one_observation() -> None:
    """Four copies of each label are no more to go by than one."""
    pairs = pairs_of(REFERENCE[0][0])
    alone = kappa_interval([[pair] for pair in pairs])
    copied = kappa_interval([[pair] * 4 for pair in pairs])
    naive = kappa_interval([[pair] for pair in pairs for _ in range(4)])

    assert alone and copied and naive
    assert (copied.low, copied.high) == pytest.approx((alone.low, alone.high))
    assert naive.high - naive.low < 0.55 * (alone.high - alone.low)
    assert "summed by response" in copied.method


@given(st.integers(0, 60), st.integers(1, 60))
def test_share_interval__inverts_the_score_test(count: int, total: int) -> None:
    """Wilson's interval holds just those shares from which the observed one is within 1.96 standard errors."""
    count = min(count, total)
    interval = share_interval(count, total)
    assert interval is not None
    for share in (number / 500 for number in range(1, 500)):
        distance = abs(count / total - share) / math.sqrt(share * (1 - share) / total)
        if abs(distance - 1.959963984540054) > 1e-6:
            assert (interval.low <= share <= interval.high) is (distance < 1.959963984540054)


def test_share_interval__edges() -> None:
    assert share_interval(0, 0) is None
    assert (interval := share_interval(0, 10)) is not None
    assert (interval.low, interval.high) == pytest.approx((0.0, 0.27753279986288926))  # statsmodels 0.15.0


# Calibration reports as text: as shown in docs/calibration.md, and harmless in a log.

PAGE = (Path(__file__).parents[2] / "docs" / "calibration.md").read_text(encoding="utf-8")


def test_render_text__as_shown_on_the_page() -> None:
    [line] = re.findall(r'^\{"id": "refund-window".*$', PAGE, re.MULTILINE)
    fine = [row("pass", response=f"fine {number}") for number in range(18)]
    rejected = [row("pass", response=f"bad rejected {number}") for number in range(3)]
    bad = [row("fail", response=f"bad {number}") for number in range(18)]
    rows = [*fine[:11], line, *fine[11:], *rejected, *bad]
    agrees = "The answer agrees with the reference that a return is possible."

    def script(request: ModelRequest) -> Any:
        answer = request.prompt.split("The agent's answer", 1)[1]
        return verdict("invalid", "It is bad.") if "bad " in answer else verdict("valid", agrees)

    target = criterion(MATCH)
    tokens = {"input_tokens": 84_100, "output_tokens": 6_900}
    bill = ModelUsageReport(model="gemini-2.5-flash", calls=131, cost=0.042480, **tokens)
    rendered = render_text(report(target, labels(target, *rows), script, min_kappa=0.6, usage=[bill])).splitlines()

    shown = PAGE[PAGE.index("$ agent-eval calibrate labels.jsonl") :].split("```")[0].splitlines()[2:]
    head, tail = shown[: shown.index("...")], shown[shown.index("...") + 1 :]
    assert rendered[: len(head)] == head
    assert rendered[-len(tail) :] == tail


@pytest.mark.parametrize("block", re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL))
def test_docs__examples_are_label_lines(block: str) -> None:
    parsed, problems = parse_labels(block.encode(), "labels.jsonl", criterion(MATCH))

    assert problems == []
    assert parsed is not None


def test_docs__describe_every_key_and_word() -> None:
    keys = set(LabelLine.model_fields)
    rendered = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`[^|]+)\|", PAGE, re.MULTILINE))))

    assert keys - rendered == set()
    for metric in CALIBRATED:
        words = {word for word in verdict_scale(metric) if not word.isdigit()}
        lines = [line for line in PAGE.splitlines() if line.startswith("| `") and f"`{metric}`" in line]
        assert words <= set(re.findall(r"`(\w+)`", " ".join(lines))), metric


def test_render_text__hostile_text_is_harmless() -> None:
    evil = "\x1b[2J\n::error::owned\r\n##[error]owned \u202e"
    target = criterion(RUBRICS, rubrics=rubrics("short"))
    everywhere = dict.fromkeys(("prompt", "response", "id", "note"), evil)
    parsed = labels(target, {**everywhere, "labels": {f"evil {evil}": "no", "short": "yes"}})

    def script(request: ModelRequest) -> Any:
        reply = verdicts("yes", "yes")
        for entry in reply["verdicts"]:
            entry["rationale"] = evil
        return reply

    text = render_text(report(target, parsed, script))
    assert "owned" in text and "By rubric:" in text
    evil_failure = failure("refused")
    evil_failure.message = evil
    unjudged = render_text(report(target, parsed, lambda request: evil_failure))
    assert "0 of them judged" in unjudged and "kappa          undefined" in unjudged
    assert unjudged.endswith("The judge gave no verdict on any label.\n")
    for rendered in (text, unjudged):
        assert not any(harm in rendered for harm in ("\x1b", "\u202e", "##["))
        assert not any(line.lstrip().startswith("::") for line in rendered.splitlines())


def test_render_text__limits_disagreements() -> None:
    target = criterion(MATCH)
    parsed = labels(target, *(row("fail", response=str(number)) for number in range(12)), row("pass"))
    rendered = report(target, parsed, lambda request: verdict("valid"))

    assert "The worst 3 of 12 disagreements:" in render_text(rendered, show=3)
    assert render_text(rendered, show=3).count("labels.jsonl:") == 1 + 3
    assert render_text(rendered, show=0).count("labels.jsonl:") == 1


def test_render_text__table_of_scores() -> None:
    target = criterion("response_evaluation_score")
    parsed = labels(target, row(5), row(1, response="x"))
    text = render_text(report(target, parsed, lambda request: verdict("4")))

    assert "people  1  4  5" in text
    assert "difference     verdicts are on average 1.00 above the labels" in text
    many = labels(target, *(row(1 + number / 4, response=str(number)) for number in range(12)))
    assert "people  1" not in render_text(report(target, many, lambda request: verdict("4")))
