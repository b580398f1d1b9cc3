"""adk-rust's own scores: the values that its source computes, and its rules for several turns."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agent_eval.cli import main
from agent_eval_scoring.core.content import FunctionCall
from agent_eval_scoring.criteria.api import Conversation, CriterionConfig, EvalCase, NotEvaluated, Scored, build
from agent_eval_scoring.criteria.packages import PackageFault
from agent_eval_workbench.adk_rust import normalized, similarity, trajectory

VECTORS = json.loads((Path(__file__).parents[1] / "data/vectors/adk_rust.json").read_text("utf-8"))
FLAGS = {
    "strict_order+loose_args": (True, False),
    "strict_order+strict_args": (True, True),
    "any_order+loose_args": (False, False),
    "any_order+strict_args": (False, True),
}


def test_similarity__equals_adk_rusts() -> None:
    differing = []
    for row in VECTORS["response_similarity"]:
        sides = [row["expected"], row["actual"]]
        if row["normalize"]:
            flags = {name: row[name] for name in ("ignore_case", "ignore_punctuation")}
            sides = [normalized(side, **flags) for side in sides]
        for algorithm, score in row["scores"].items():
            ours = similarity(algorithm, *sides)
            if ours != pytest.approx(score, abs=1e-6):
                differing.append((algorithm, row, ours))
    assert not differing and len(VECTORS["response_similarity"]) == 44


def test_trajectory__equals_adk_rusts() -> None:
    differing = []
    for row in VECTORS["trajectory"]:
        expected, actual = (
            [FunctionCall.model_validate(call) for call in row[side]] for side in ("expected", "actual")
        )
        for flags, score in row["scores"].items():
            strict_order, strict_args = FLAGS[flags]
            ours = trajectory(expected, actual, strict_order=strict_order, strict_args=strict_args)
            if ours != pytest.approx(score, abs=1e-6):
                differing.append((flags, row, ours))
    assert not differing and len(VECTORS["trajectory"]) == 10


def turn(answer: str | None, *calls: dict[str, Any]) -> dict[str, Any]:
    content = {} if answer is None else {"final_response": {"role": "model", "parts": [{"text": answer}]}}
    return {"user_content": {"parts": [{"text": "go"}]}, **content, "intermediate_data": {"tool_uses": list(calls)}}


def scored(metric: str, threshold: float, expected: list[Any], actual: list[Any], **options: object) -> Any:
    case, run = (EvalCase.model_validate({"eval_id": "a", "conversation": side}) for side in (expected, actual))
    criterion = build(CriterionConfig(metric=metric, threshold=threshold, options=options))
    conversation = Conversation(case=case, actual=run.conversation or (), expected=case.conversation)
    return asyncio.run(criterion.score(conversation))


def test_criteria__each_turn_must_pass_and_the_last_one_weighs_a_half() -> None:
    exact = {"algorithm": "Exact"}
    expected = [turn("a"), turn("b"), turn("c"), turn(None)]
    result = scored("adk_rust_response_similarity", 0.5, expected, [turn(text) for text in "abxy"], **exact)
    assert isinstance(result, Scored)
    assert (result.score, result.passed, result.turn_scores) == (0.5, False, (1.0, 1.0, 0.0, None))
    assert [(finding.turn, finding.expected, finding.actual) for finding in result.findings] == [(2, "c", "x")]
    calls = [{"name": "a", "args": {"x": 1}}, {"name": "b", "args": {}}]
    result = scored("adk_rust_tool_trajectory", 0.4, [turn("", *calls)], [turn("", *calls[::-1])])
    assert (result.score, result.passed) == (0.5, True)
    rouge = scored("adk_rust_response_similarity", 0.5, [turn("a b")], [turn("b a")], algorithm="RougeL")
    assert (rouge.score, rouge.passed) == (0.5, True)
    nothing = scored("adk_rust_response_similarity", 0.5, [turn(None)], [turn("b")])
    assert isinstance(nothing, NotEvaluated) and nothing.code == "no-reference-text"


@pytest.mark.parametrize(
    ("metric", "options", "message"),
    [
        ("adk_rust_response_similarity", {"algorithm": "cosine"}, "`algorithm` must be one of exact, contains"),
        ("adk_rust_response_similarity", {"normalise": True}, "its fields are algorithm, normalize"),
        ("adk_rust_tool_trajectory", {"strict_args": "no"}, "`strict_args` must be true or false"),
    ],
)
def test_criteria__refuse(metric: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(PackageFault, match=message):
        build(CriterionConfig(metric=metric, threshold=0.5, options=options))


def test_criteria__a_run_names_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    criteria = {"adk_rust_response_similarity": {"threshold": 0.9}, "adk_rust_tool_trajectory": 0.5}
    cases = {"eval_set_id": "a", "eval_cases": [{"eval_id": "a", "conversation": [turn("one two")]}]}
    answers = {"eval_set_id": "b", "eval_cases": [{"eval_id": "a", "conversation": [turn("one")]}]}
    files = {"a.test.json": cases, "test_config.json": {"criteria": criteria}, "answers.json": answers}
    for name, content in files.items():
        Path(name).write_text(json.dumps(content), "utf-8")
    assert main(["run", "a.test.json", "--agent", "recorded:answers.json"]) == 1
    [case] = json.loads(Path("agent-eval-results/results.json").read_text("utf-8"))["cases"]
    scores = {metric["name"]: (metric["score"], metric["status"]) for metric in case["metrics"]}
    assert scores["adk_rust_response_similarity"] == (0.5, "failed")
    assert scores["adk_rust_tool_trajectory"] == (1.0, "passed")
