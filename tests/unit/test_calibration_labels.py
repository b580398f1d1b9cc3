"""Label files: what they may hold, what it means, and every mistake with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from calibration_samples import RUBRICS, codes, criterion, jsonl, labels, row, rubrics, wrong
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.calibration.choosing import CALIBRATED, choose
from agent_eval.calibration.labels import parse_labels, read_labels
from agent_eval.core.content import text_of
from agent_eval.core.invocation import tool_calls, tool_responses
from agent_eval.criteria.judged._material import dialogue, instructions, steps, tool_declarations

MATCH = "final_response_match_v2"


def test_a_line_is_a_conversation_of_one_turn() -> None:
    [response] = labels(criterion(MATCH), row("pass", id="fr", note="short")).responses

    conversation = response.conversation("labels.jsonl")
    assert conversation.expected is not None
    assert text_of(conversation.actual[0].user_content) == "The capital of France?"
    assert text_of(conversation.actual[0].final_response) == "Paris."
    assert text_of(conversation.expected[0].final_response) == "Paris"
    assert conversation.case_id == "labels.jsonl:1"
    [label] = response.labels
    assert (label.line, label.id, label.word, label.note) == (1, "fr", "pass", "short")


def test_an_empty_answer_is_none() -> None:
    [response] = labels(criterion(MATCH), row("fail", response="")).responses

    assert response.actual[0].final_response is None


def test_the_judge_sees_what_the_agent_called_and_was_told() -> None:
    tools = [{"name": "lookup", "args": {"of": "FR"}, "response": "Paris"}, {"name": "log", "response": {"ok": True}}]
    line = row("pass", tools=tools, instructions="Be brief.")
    [response] = labels(criterion("hallucinations_v1=0.5"), line).responses

    turn = response.actual[0]
    assert [(call.name, call.args) for call in tool_calls(turn.intermediate_data)] == [
        ("lookup", {"of": "FR"}),
        ("log", {}),
    ]
    assert [one.response for one in tool_responses(turn.intermediate_data)] == [{"result": "Paris"}, {"ok": True}]
    assert json.loads(steps(turn.intermediate_data))["tool_calls_and_response"][0]["tool_response"]["name"] == "lookup"
    assert "AGENT (agent) TURN 1 (tool output): lookup -> " in dialogue([turn])
    assert instructions(turn.app_details) == "agent:\nBe brief."
    assert '"lookup"' in tool_declarations(turn.app_details), "else it would be told that there were no tools"


def test_declared_tools_are_shown_as_they_are() -> None:
    declared = [{"function_declarations": [{"name": "other", "description": "never called"}]}]
    [response] = labels(
        criterion("safety_v1"), row("pass", tools=[{"name": "x"}], tool_declarations=declared)
    ).responses

    told = json.loads(tool_declarations(response.actual[0].app_details))
    assert told == {"tool_declarations": {"agent": declared}}


def test_several_turns_and_recorded_invocations() -> None:
    turns = [{"prompt": "Hi", "response": "Hello"}, {"prompt": "Bye", "response": "See you", "reference": "Bye"}]
    content = {"role": "user", "parts": [{"text": "Hi"}]}
    recorded = {"invocations": [{"userContent": content, "finalResponse": {"parts": [{"text": "Hello"}]}}]}
    found = labels(criterion("safety_v1"), {"turns": turns, "label": "pass"}, {**recorded, "label": "fail"})

    assert [len(response.actual) for response in found.responses] == [2, 1]
    assert [response.answer for response in found.responses] == ["See you", "Hello"]
    assert [len(response.expected) for response in found.responses] == [2, 1]


def test_lines_on_one_response_are_judged_once() -> None:
    chosen = criterion(RUBRICS, rubrics=rubrics("short", "kind"))
    found = labels(
        chosen,
        row("yes", rubric="short"),
        row("no", rubric="kind"),
        row("no", rubric="The answer names a source."),
        row(response="Lyon.", labels={"short": "pass", "kind": 0}),
    )

    assert [len(response.labels) for response in found.responses] == [3, 2]
    assert [label.subject for label in found.labels] == ["short", "kind", "The answer names a source.", "short", "kind"]
    assert [label.verdict for label in found.labels] == [1, 0, 0, 1, 0]
    assert found.by_rubric
    [own] = found.responses[0].rubrics.values()
    assert (own.rubric_id, own.type) == ("The answer names a source.", "FINAL_RESPONSE_QUALITY")
    assert found.responses[1].rubrics == {}


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
def test_what_a_label_means(metric: str, raw: Any, verdict: float | None, score: float | None) -> None:
    [label] = labels(criterion(metric), row(raw)).labels

    assert (label.verdict, label.score) == (verdict, score)


def test_labels_are_verdicts_if_all_can_be() -> None:
    assert labels(criterion(MATCH), row("pass"), row(0, response="Lyon.")).kind == "verdict"
    assert labels(criterion(MATCH), row("pass"), row(0.5, response="Lyon.")).kind == "score"
    assert labels(criterion("response_evaluation_score"), row(5), row(1, response="Lyon.")).kind == "score"


@pytest.mark.parametrize("raw", ["maybe", "", 2, -0.1, True, [1], {"a": 1}, "yes"])
def test_labels_that_mean_nothing(raw: Any) -> None:
    [problem] = wrong(criterion(MATCH), row("pass"), row(raw, response="Lyon."))

    assert (problem.line, problem.code, problem.path) == (2, "label-unknown", "label")
    assert (
        problem.column
        == jsonl(row("pass"), row(raw, response="Lyon.")).decode().splitlines()[1].index('"label": ')
        + len('"label": ')
        + 1
    )
    assert "`invalid`" in (problem.hint or "")


def test_all_mistakes_are_told_at_once_each_in_its_line() -> None:
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
        row("pass", turns=[]),
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


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([row("yes", rubric="shrot")], "label-rubric-unknown"),
        ([row("maybe", rubric="short")], "label-unknown"),
        ([row(0.5, rubric="short")], "label-unknown"),
        ([row("yes", rubric=rubrics("short")[0])], "duplicate-rubric-id"),
        ([row("yes", rubric=rubrics("new")[0]), row(labels={"new": "no"})], "label-repeated"),
        ([row("yes", rubric=rubrics("new")[0]), row(labels={"new": "no"}, response="x")], "label-rubric-unknown"),
        ([row("yes", rubric="short"), row("pass", response="Lyon.")], "labels-mixed"),
    ],
)
def test_mistakes_about_rubrics(rows: list[dict[str, Any]], code: str) -> None:
    problems = wrong(criterion(RUBRICS, rubrics=rubrics("short")), *rows)

    assert codes(problems) == [(len(rows), code)]


def test_a_rubric_that_changes_its_text() -> None:
    changed = {**rubrics("new")[0], "rubric_content": {"text_property": "Something else."}}
    first, second = row("yes", rubric=rubrics("new")[0]), row("no", rubric=changed)

    assert codes(wrong(criterion(RUBRICS), first, second)) == [(2, "duplicate-rubric-id")]


def test_without_any_rubric_there_is_nothing_to_judge_by() -> None:
    assert codes(wrong(criterion(RUBRICS, rubrics=[]), row("pass"))) == [(1, "no-rubrics")]


def test_scores_and_verdicts_are_not_counted_together() -> None:
    chosen = criterion("response_evaluation_score=4")

    [problem] = wrong(chosen, row(4), row(2, response="x"), row("pass", response="Lyon."))
    assert (problem.line, problem.code) == (3, "labels-mixed")
    [problem] = wrong(chosen, row("fail"), row(2, response="x"))
    assert (problem.line, problem.code) == (2, "labels-mixed")
    assert "says a score, that of line 1 says pass or fail" in problem.message


def test_which_score_passes_must_be_known() -> None:
    [problem] = wrong(criterion("response_evaluation_score"), row("pass"))

    assert problem.code == "label-needs-threshold"
    assert "`--criterion response_evaluation_score=4`" in (problem.hint or "")


def test_files_that_are_no_lines() -> None:
    chosen = criterion(MATCH)
    pretty = json.dumps([row("pass")], indent=1)

    assert codes(wrong(chosen, pretty)) == [(None, "labels-not-lines")]
    assert codes(wrong(chosen, "", " ")) == [(None, "no-labels")]
    found, [problem] = read_labels(Path("/nonexistent/labels.jsonl"), Path("/nonexistent"), chosen)
    assert (found, problem.code, problem.file) == (None, "unreadable-file", "labels.jsonl")


def test_windows_line_ends_and_blank_lines() -> None:
    data = jsonl(row("pass"), "", row("fail", response="Lyon.")).replace(b"\n", b"\r\n")
    found, problems = parse_labels(data, "labels.jsonl", criterion(MATCH))

    assert problems == []
    assert found is not None
    assert [label.line for label in found.labels] == [1, 3]


json_values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
fields = st.sampled_from(["prompt", "response", "reference", "tools", "turns", "label", "labels", "rubric", "expected"])


@given(st.dictionaries(fields, json_values, max_size=5), st.sampled_from(CALIBRATED))
def test_nothing_in_a_line_makes_it_raise(line: dict[str, Any], metric: str) -> None:
    found, problems = parse_labels(jsonl(row("pass"), line), "labels.jsonl", criterion(metric))

    assert (found is None) is any(problem.severity == "error" for problem in problems)
    assert all(problem.line in {1, 2, None} for problem in problems)


def test_choosing_a_criterion(tmp_path: Path) -> None:
    one = {"criteria": {"safety_v1": 0.9, "response_match_score": 0.5}}
    (tmp_path / "one.json").write_text(json.dumps(one), encoding="utf-8")
    two = {"criteria": {"safety_v1": 0.9, "hallucinations_v1": {"threshold": 0.7}}}
    (tmp_path / "two.json").write_text(json.dumps(two), encoding="utf-8")

    def threshold(wanted: str, config: str | None = None) -> float | None:
        chosen, problems = choose(wanted, Path(config) if config else None, tmp_path)
        assert chosen is not None, problems
        return chosen.threshold

    assert threshold("safety_v1") == 1.0, "all turns must be safe"
    assert threshold("hallucinations_v1") is None
    assert threshold("hallucinations_v1=0.6") == 0.6
    assert threshold("one.json") == 0.9
    assert threshold("hallucinations_v1", "two.json") == 0.7

    def refused(wanted: str, config: str | None = None) -> list[str]:
        chosen, problems = choose(wanted, Path(config) if config else None, tmp_path)
        assert chosen is None
        return [problem.code for problem in problems]

    assert refused("two.json") == ["criterion-not-configured"]
    assert refused("final_response_match_v2", "two.json") == ["criterion-not-configured"]
    assert refused("three.json") == ["unreadable-file"]
    assert refused("response_match_score") == ["criterion-not-judged"]
    assert refused("per_turn_user_simulator_quality_v1") == ["criterion-not-judged"]
    assert refused("safety_v2") == ["unknown-metric"]
    assert refused("safety_v1=2") == refused("safety_v1=high") == ["threshold-out-of-range"]
