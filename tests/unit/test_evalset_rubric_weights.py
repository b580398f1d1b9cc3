"""Weights without effect are reported at their place in the config, and only if all files are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from evalset_samples import TURN, case, eval_set, rubric, turn

from agent_eval.core.problem import Problem
from agent_eval.evalset.loading import load_suite

METRIC = "rubric_based_tool_use_quality_v1"
TYPE = "TOOL_USE_QUALITY"


def found(
    root: Path, weights: dict[str, float], *cases: Any, key: str = "rubric_weights", **more: Any
) -> list[Problem]:
    config = {"criteria": {METRIC: {"threshold": 1, "rubrics": [rubric("polite")], key: weights}}, **more}
    (root / "test_config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    for number, item in enumerate(cases or [case()]):
        path = root / f"f{number}.test.json"
        path.write_text(json.dumps(eval_set(item) | {"eval_set_id": f"s{number}"}), encoding="utf-8")
    return [problem for problem in load_suite(root).problems if problem.code == "idle-rubric-weight"]


@pytest.mark.parametrize("key", ["rubric_weights", "rubricWeights"])
def test_idle_weights__misspelt_id(tmp_path: Path, key: str) -> None:
    [problem] = found(tmp_path, {"polite": 2, "polit": 3}, key=key)

    assert (problem.severity, problem.file) == ("warning", "test_config.json")
    lines = (tmp_path / "test_config.json").read_text(encoding="utf-8").splitlines()
    assert problem.line is not None
    assert lines[problem.line - 1].strip() == '"polit": 3'
    assert problem.path == f"criteria.{METRIC}.{key}.polit"
    assert problem.hint == "Did you mean `polite`?"


def test_idle_weights__rubrics_of_cases_and_turns(tmp_path: Path) -> None:
    of_case = case(rubrics=[rubric("of_case", type=TYPE)])
    of_turn = case(conversation=[TURN, turn(rubrics=[rubric("of_turn", type=TYPE)])])
    weights = {"of_case": 1.0, "of_turn": 2.0, "polite": 3.0}

    assert found(tmp_path, weights, of_case, of_turn) == []
    assert [problem.path for problem in found(tmp_path, weights, of_case, case())] == [
        f"criteria.{METRIC}.rubric_weights.of_turn"
    ]


def test_idle_weights__rubric_of_another_metric(tmp_path: Path) -> None:
    other = case(rubrics=[rubric("other", type="FINAL_RESPONSE_QUALITY"), rubric("untyped")])

    assert len(found(tmp_path, {"other": 1, "untyped": 1}, other)) == 2


def test_idle_weights__unselected_cases_count(tmp_path: Path) -> None:
    found(tmp_path, {"of_case": 2}, case(rubrics=[rubric("of_case", type=TYPE)]))
    both = json.loads((tmp_path / "f0.test.json").read_text(encoding="utf-8"))
    both["eval_cases"].append(case(eval_id="d"))
    (tmp_path / "f0.test.json").write_text(json.dumps(both), encoding="utf-8")

    suite = load_suite(tmp_path, ["f0.test.json:d"])
    assert [len(file.cases) for file in suite.files] == [1]
    assert [problem for problem in suite.problems if problem.code == "idle-rubric-weight"] == []


def test_idle_weights__no_warning_with_an_unreadable_file(tmp_path: Path) -> None:
    (tmp_path / "broken.test.json").write_text("{", encoding="utf-8")

    assert found(tmp_path, {"polit": 3}) == []


def test_idle_weights__custom_metric_with_the_same_name(tmp_path: Path) -> None:
    assert found(tmp_path, {"polit": 3}, custom_metrics={METRIC: {"code_config": {"name": "m.f"}}}) == []


def test_idle_levels__misspelt_id(tmp_path: Path) -> None:
    levels = [{"score": 0, "text": "rude"}, {"score": 1, "text": "kind"}]
    config = {"criteria": {METRIC: {"threshold": 1, "rubrics": [rubric("polite")], "rubric_levels": {"polit": levels}}}}
    (tmp_path / "test_config.json").write_text(json.dumps(config), encoding="utf-8")
    (tmp_path / "a.test.json").write_text(json.dumps(eval_set(case())), encoding="utf-8")

    [problem] = load_suite(tmp_path).problems

    assert (problem.code, problem.severity) == ("idle-rubric-levels", "warning")
    assert problem.path == f"criteria.{METRIC}.rubric_levels.polit"
    assert problem.hint == "Did you mean `polite`?"


def test_zero_weights__of_all_rubrics_of_a_case_are_an_error(tmp_path: Path) -> None:
    config = {"criteria": {METRIC: {"threshold": 1, "rubrics": [rubric("polite")], "rubric_weights": {"polite": 0}}}}
    (tmp_path / "test_config.json").write_text(json.dumps(config), encoding="utf-8")
    path = tmp_path / "a.test.json"
    with_another = case(eval_id="b", rubrics=[rubric("own", type=TYPE)])
    path.write_text(json.dumps(eval_set(case(eval_id="a"), with_another)), encoding="utf-8")

    [problem] = load_suite(tmp_path).problems

    assert (problem.code, problem.path) == ("zero-rubric-weights", "eval_cases[0]")
