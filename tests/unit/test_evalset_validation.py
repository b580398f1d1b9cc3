"""What is said about eval sets, alone and together with their configs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from evalset_samples import (
    BAD_EVAL_SETS,
    GOOD_EVAL_SETS,
    GOOD_SCENARIOS,
    TURN,
    Sample,
    case,
    eval_set,
    rubric,
    scenario,
    turn,
)

from agent_eval.core.problem import Problem, Severity
from agent_eval.evalset.loading import load_suite
from agent_eval.evalset.models.schema import Suite

WITH_SCENARIOS = {"criteria": {"hallucinations_v1": 0.5}}


def load(directory: Path, config: dict[str, Any] | None = None, **files: Any) -> Suite:
    for name, value in files.items():
        text = value if isinstance(value, str) else json.dumps(value, indent=2)
        (directory / f"{name}.test.json").write_text(text)
    if config is not None:
        (directory / "test_config.json").write_text(json.dumps(config))
    return load_suite(directory)


def shown(problems: tuple[Problem, ...]) -> str:
    return "\n".join(map(str, problems))


@pytest.mark.parametrize("sample", GOOD_EVAL_SETS, ids=lambda sample: sample.name)
def test_validation__good(sample: Sample, tmp_path: Path) -> None:
    suite = load(tmp_path, a=sample.text)
    assert not suite.problems, shown(suite.problems)
    assert [file.path for file in suite.files] == ["a.test.json"]


@pytest.mark.parametrize("sample", GOOD_SCENARIOS, ids=lambda sample: sample.name)
def test_validation__good_scenario(sample: Sample, tmp_path: Path) -> None:
    suite = load(tmp_path, WITH_SCENARIOS, a=sample.text)
    assert not suite.problems, shown(suite.problems)


@pytest.mark.parametrize("sample", BAD_EVAL_SETS, ids=lambda sample: sample.name)
def test_validation__bad(sample: Sample, tmp_path: Path) -> None:
    suite = load(tmp_path, a=sample.text)
    in_file = [problem for problem in suite.problems if problem.file]
    others = [problem for problem in suite.problems if not problem.file]
    assert tuple(problem.code for problem in in_file + others) == sample.codes, shown(suite.problems)
    first = in_file[0]
    if sample.path is not None:
        assert first.path == sample.path
    assert sample.says in f"{first.message}\n{first.hint}"
    assert first.line is not None
    assert first.column is not None
    assert all(problem.hint for problem in suite.problems)
    assert bool(suite.errors) == (not any(file.cases for file in suite.files))


def test_validation__position_of_a_wrong_value_deep_inside(tmp_path: Path) -> None:
    text = """{
  "eval_set_id": "s",
  "eval_cases": [
    {"evalId": "ok", "conversation": [{"userContent": {"parts": [{"text": "ü"}]}, "finalResponse": {"parts": [
      {"thought": true}, {"role": "ü", "text": 5}]}}]}
  ]
}"""
    (problem,) = load(tmp_path, a=text).problems
    assert problem.path == "eval_cases[0].conversation[0].finalResponse.parts[1].text"
    assert (problem.line, problem.column) == (5, text.splitlines()[4].index("5") + 1)
    assert problem.message == "`text` must be a string, not the number 5."


def test_validation__unknown_key_points_to_the_key(tmp_path: Path) -> None:
    text = '{"eval_set_id": "s", "eval_cases": [{"eval_id": "c", "conversation": [{"user_content": {},\n  "x": 1}]}]}'
    problem = load(tmp_path, a=text).problems[0]
    assert (problem.code, problem.line, problem.column) == ("unknown-key", 2, 3)


def test_validation__all_files_are_reported_in_one_pass_and_good_ones_load(tmp_path: Path) -> None:
    suite = load(tmp_path, a="{", b=eval_set(case()), c={"eval_set_id": "c", "eval_cases": [{}]}, d=[1])
    assert [(problem.file, problem.code) for problem in suite.problems] == [
        ("a.test.json", "json-truncated"),
        ("c.test.json", "missing-field"),
        ("d.test.json", "not-an-eval-set"),
    ]
    assert [file.path for file in suite.files] == ["b.test.json"]
    assert suite.file_count == 4


def test_load_suite__set_ids_belong_to_their_files(tmp_path: Path) -> None:
    suite = load(tmp_path, a=eval_set(case()), b=eval_set(case()))
    assert (suite.problems, len(suite.files)) == ((), 2)


def test_validation__lines_of_cases(tmp_path: Path) -> None:
    text = '{"eval_cases": [\n' + json.dumps(case(eval_id="a")) + ",\n\n" + json.dumps(case(eval_id="b"))
    suite = load(tmp_path, a=text + '\n], "eval_set_id": "s"}')
    assert [(selected.case.eval_id, selected.line) for selected in suite.files[0].cases] == [("a", 2), ("b", 4)]


def test_validation__trajectory_alone_needs_no_final_response(tmp_path: Path) -> None:
    bare = {"user_content": {"parts": [{"text": "x"}]}}
    config = {"criteria": {"tool_trajectory_avg_score": 1, "trajectory_recall": 1}}
    assert not load(tmp_path, config, a=eval_set(case(conversation=[bare]))).problems


def test_validation__fixed_turns_with_a_criterion_for_scenarios(tmp_path: Path) -> None:
    suite = load(tmp_path, {"criteria": {"per_turn_user_simulator_quality_v1": 1}}, a=eval_set(case()))
    assert [problem.code for problem in suite.problems] == ["needs-scenario"]
    assert "`test_config.json`" in suite.problems[0].message


def rubric_config(metric: str, *ids: str) -> dict[str, Any]:
    return {"criteria": {metric: {"threshold": 1, "rubrics": [rubric(name) for name in ids]}}}


TOOL_USE, TRAJECTORY = "rubric_based_tool_use_quality_v1", "rubric_based_multi_turn_trajectory_quality_v1"


@pytest.mark.parametrize(
    ("config", "made", "code", "path"),
    [
        pytest.param(
            rubric_config(TOOL_USE, "a"),
            case(rubrics=[rubric("a", type="TOOL_USE_QUALITY")]),
            "duplicate-rubric-id",
            "eval_cases[0].rubrics[0].rubric_id",
            id="criterion and case, same type",
        ),
        pytest.param(
            rubric_config(TOOL_USE, "a"),
            case(conversation=[TURN, turn(rubrics=[rubric("a", type="TOOL_USE_QUALITY")])]),
            "duplicate-rubric-id",
            "eval_cases[0].conversation[1].rubrics[0].rubric_id",
            id="criterion and turn, same type",
        ),
        pytest.param(
            rubric_config(TOOL_USE, "a"), case(rubrics=[rubric("a", type="OTHER")]), None, None, id="another type"
        ),
        pytest.param(rubric_config(TOOL_USE), case(), "no-rubrics", "eval_cases[0].conversation[0]", id="none"),
        pytest.param(
            rubric_config(TOOL_USE),
            case(rubrics=[rubric("a")]),
            "no-rubrics",
            "eval_cases[0].conversation[0]",
            id="untyped rubrics of a case do not count",
        ),
        pytest.param(
            rubric_config(TOOL_USE),
            case(conversation=[turn(rubrics=[rubric("a", type="TOOL_USE_QUALITY")]), TURN]),
            "no-rubrics",
            "eval_cases[0].conversation[1]",
            id="one turn without",
        ),
        pytest.param(
            rubric_config(TRAJECTORY),
            case(conversation=[TURN, turn(rubrics=[rubric("a", type="TRAJECTORY_QUALITY")])]),
            None,
            None,
            id="only the last turn is judged",
        ),
        pytest.param(
            rubric_config(TRAJECTORY),
            case(conversation=[turn(rubrics=[rubric("a", type="TRAJECTORY_QUALITY")]), TURN]),
            "no-rubrics",
            "eval_cases[0].conversation[1]",
            id="the last turn has none",
        ),
        pytest.param(rubric_config(TOOL_USE), scenario(), "no-rubrics", "eval_cases[0]", id="scenario without"),
    ],
)
def test_validation__rubrics_as_adk_merges_them(
    config: dict[str, Any], made: dict[str, Any], code: str | None, path: str | None, tmp_path: Path
) -> None:
    problems = load(tmp_path, config, a=eval_set(made)).problems
    assert [(problem.code, problem.path) for problem in problems] == ([] if code is None else [(code, path)])


def test_rubrics_in_some_cases_only__leave_the_others_to_their_other_criteria(tmp_path: Path) -> None:
    """It was exit 2 for the whole repository."""
    config = rubric_config(TOOL_USE)
    config["criteria"]["tool_trajectory_avg_score"] = 1
    judged = case(eval_id="judged", rubrics=[rubric("a", type="TOOL_USE_QUALITY")])
    [problem] = load(tmp_path, config, a=eval_set(judged, case(eval_id="bare"))).problems
    assert (problem.code, problem.severity, problem.path) == ("case-without-rubrics", "warning", "eval_cases[1]")


def test_rubrics_in_some_cases_only__a_case_with_no_other_criterion_is_an_error(tmp_path: Path) -> None:
    judged = case(eval_id="judged", rubrics=[rubric("a", type="TOOL_USE_QUALITY")])
    problems = load(tmp_path, rubric_config(TOOL_USE), a=eval_set(judged, case(eval_id="bare"))).problems
    assert [problem.code for problem in problems] == ["no-rubrics"]


def test_rubrics_in_no_case__are_an_error(tmp_path: Path) -> None:
    config = rubric_config(TOOL_USE)
    config["criteria"]["tool_trajectory_avg_score"] = 1
    problems = load(tmp_path, config, a=eval_set(case())).problems
    assert [problem.code for problem in problems] == ["no-rubrics"]


def test_validation__persona_of_a_scenario(tmp_path: Path) -> None:
    suite = load(tmp_path, WITH_SCENARIOS, a=eval_set(scenario(user_persona="novice")))
    (problem,) = suite.problems
    assert (problem.code, problem.hint) == ("unknown-persona", "Did you mean `NOVICE`?")
    assert problem.path == "eval_cases[0].conversation_scenario.user_persona"


def test_validation__a_custom_metric_needs_nothing_of_a_case(tmp_path: Path) -> None:
    config = {"criteria": {"mine": 3}, "custom_metrics": {"mine": {"code_config": {"name": "a.b"}}}}
    assert not load(tmp_path, config, a=eval_set(scenario())).problems


def test_validation__a_custom_metric_can_not_take_the_name_of_another(tmp_path: Path) -> None:
    for name in ("response_match_score", "token_usage_v1"):
        config = {"criteria": {name: 3}, "custom_metrics": {name: {"code_config": {"name": "a.b"}}}}
        (problem,) = load(tmp_path, config, a=eval_set(scenario())).problems
        assert (problem.code, problem.path) == ("custom-metric-name-taken", f"criteria.{name}")


def test_validation__warnings_do_not_keep_a_file_from_running(tmp_path: Path) -> None:
    suite = load(tmp_path, a=eval_set(case(sesion_input={})))
    assert [problem.severity for problem in suite.problems] == [Severity.WARNING]
    assert len(suite.files[0].cases) == 1


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('{"a": 1,,\n "b": 2}', 1, "Expecting property name enclosed in double quotes"),
        ('{"a": [1,\n, 2]}', 2, "Expecting value"),
        ('{"a": [, 2]}', 1, "Expecting value"),
    ],
)
def test_load_suite__a_comma_too_many_is_found(tmp_path: Path, text: str, line: int, message: str) -> None:
    [problem] = load(tmp_path, a=text).errors
    assert (problem.line, problem.message) == (line, f"The file is not JSON: {message}.")


def test_load_suite__criteria_as_a_list_are_shown_how_to_be_written(tmp_path: Path) -> None:
    suite = load(tmp_path, {"criteria": ["response_match_score"]}, a=eval_set(case()))
    [problem] = [error for error in suite.errors if error.code == "wrong-type"]
    assert '{"response_match_score": 0.8}' in (problem.hint or "")


def test_load_suite__a_threshold_in_quotes_is_the_number(tmp_path: Path) -> None:
    suite = load(tmp_path, {"criteria": {"response_match_score": "0.8"}}, a=eval_set(case()))
    assert [criterion.threshold for criterion in suite.files[0].config.criteria] == [0.8]
