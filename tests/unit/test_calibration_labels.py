"""Label files: their content, what labels mean, and mistakes with their positions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from calibration_samples import RUBRICS, codes, criterion, invocation, jsonl, labels, row, rubrics, wrong
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.core.content import text_of
from agent_eval.core.invocation import tool_calls
from agent_eval_workbench.calibration.labels import parse_labels, read_labels
from agent_eval_workbench.calibration.target import CALIBRATED, TargetCriterion, choose_target

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
    parsed = labels(
        criterion("safety_v1"), {"invocations": [turn], "label": "pass"}, {**plain, "label": "fail"}, row("pass")
    )

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

    assert problems == []
    assert parsed is not None
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

    def threshold(requested: str, config: str | None = None) -> float | None:
        target, problems = choose_target(requested, Path(config) if config else None, tmp_path)
        assert target is not None, problems
        return target.threshold

    assert threshold("safety_v1") == 1.0, "all turns must be safe"
    assert threshold("hallucinations_v1") is None
    assert threshold("hallucinations_v1=0.6") == 0.6
    assert threshold("one.json") == 0.9
    assert threshold("hallucinations_v1", "two.json") == 0.7

    def refused(requested: str, config: str | None = None) -> list[str]:
        target, problems = choose_target(requested, Path(config) if config else None, tmp_path)
        assert target is None
        return [problem.code for problem in problems]

    assert refused("two.json") == ["criterion-not-configured"]
    assert refused("final_response_match_v2", "two.json") == ["criterion-not-configured"]
    assert refused("three.json") == ["unreadable-file"]
    assert refused("response_match_score") == ["criterion-not-judged"]
    assert refused("per_turn_user_simulator_quality_v1") == ["criterion-not-judged"]
    assert refused("safety_v2") == ["unknown-metric"]
    assert refused("safety_v1=2") == refused("safety_v1=high") == ["threshold-out-of-range"]
