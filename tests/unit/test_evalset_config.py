"""Config files: where they are found, what they may hold, what becomes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from evalset_samples import BAD_CONFIGS, GOOD_CONFIGS, Sample, case, eval_set, write
from pydantic.alias_generators import to_camel

from agent_eval.core.problem import Problem, Severity
from agent_eval.evalset.json.reading import parse_document
from agent_eval.evalset.loading import load_suite
from agent_eval.evalset.models.criteria import CRITERION_MODELS, LlmBackedUserSimulatorConfig
from agent_eval.evalset.models.criterion_options import JudgeModelOptions
from agent_eval.evalset.models.schema import EvalConfig, MatchType
from agent_eval.evalset.parse.config import parse_config, read_config


def parse(value: Any) -> tuple[EvalConfig | None, list[Problem]]:
    document, problems = parse_document(json.dumps(value, indent=2).encode(), "test_config.json")
    assert document is not None
    return parse_config(document, problems)


def config_of(value: Any) -> EvalConfig:
    config, problems = parse(value)
    assert config is not None, problems
    return config


@pytest.mark.parametrize("sample", GOOD_CONFIGS, ids=lambda sample: sample.name)
def test_config__good(sample: Sample) -> None:
    config, problems = parse(sample.value)
    assert not problems, "\n".join(map(str, problems))
    assert config is not None
    assert [criterion.metric for criterion in config.criteria] == list(sample.value["criteria"])


@pytest.mark.parametrize("sample", BAD_CONFIGS, ids=lambda sample: sample.name)
def test_config__bad(sample: Sample) -> None:
    config, problems = parse(sample.value)
    assert tuple(problem.code for problem in problems) == sample.codes, "\n".join(map(str, problems))
    if sample.path is not None:
        assert problems[0].path == sample.path
    assert sample.says in f"{problems[0].message}\n{problems[0].hint}"
    assert all(problem.line and problem.column and problem.hint for problem in problems)
    assert (config is None) == any(problem.severity is Severity.ERROR for problem in problems)


def test_read_criteria__options_are_typed_and_complete() -> None:
    config = config_of(
        {
            "criteria": {
                "tool_trajectory_avg_score": {"threshold": "1", "matchType": "any-order"},
                "response_match_score": True,
                "final_response_match_v2": {"threshold": 0.5, "judgeModelOptions": {"numSamples": "3"}},
                "hallucinations_v1": 0.5,
                "safety_v1": 1,
                "per_turn_user_simulator_quality_v1": 0.5,
            }
        }
    )
    options = {criterion.metric: dict(criterion.options) for criterion in config.criteria}
    base = {"include_intermediate_responses_in_final": False}
    judge = JudgeModelOptions()
    assert options == {
        "tool_trajectory_avg_score": {
            **base,
            "match_type": MatchType.ANY_ORDER,
            "ignore_args": False,
            "args_match": "exact",
        },
        "response_match_score": base,
        "final_response_match_v2": {**base, "judge_model_options": JudgeModelOptions(num_samples=3)},
        "hallucinations_v1": {**base, "judge_model_options": judge, "evaluate_intermediate_nl_responses": False},
        "safety_v1": {**base, "judge_model_options": judge, "backend": "judge"},
        "per_turn_user_simulator_quality_v1": {**base, "judge_model_options": judge, "stop_signal": "</finished>"},
    }
    assert [criterion.threshold for criterion in config.criteria] == [1.0, 1.0, 0.5, 0.5, 1.0, 0.5]
    assert (judge.judge_model, judge.num_samples, judge.parallelism_limit) == ("gemini-2.5-flash", 5, 1)


OTHER_THAN_DEFAULT: dict[str, Any] = {
    "threshold": 1.0,
    "include_intermediate_responses_in_final": True,
    "match_type": "IN_ORDER",
    "ignore_args": True,
    "args_match": "subset",
    "strict_order": False,
    "strict_args": True,
    "algorithm": "rouge_l",
    "normalize": False,
    "ignore_case": False,
    "ignore_punctuation": True,
    "direction": "either",
    "tool_name": "look_up",
    "judge_model_options": {
        "judge_model": "openai/m",
        "judge_model_config": {"temperature": 0.5},
        "num_samples": 3,
        "parallelism_limit": 2,
    },
    "rubrics": [
        {"rubric_id": "a", "rubric_content": {"text_property": "t"}, "description": "d", "type": "TOOL_USE_QUALITY"}
    ],
    "rubric_weights": {"a": 2.0},
    "rubric_levels": {"a": [{"score": 0.0, "text": "no"}, {"score": 1.0, "text": "yes"}]},
    "evaluate_intermediate_nl_responses": True,
    "stop_signal": "bye",
    "backend": "vertex",
}


def camel(
    value: Any, *, names_of_others: tuple[str, ...] = ("rubric_weights", "rubric_levels", "judge_model_config")
) -> Any:
    """The same with keys in camelCase, but for those that are not ours to name."""
    if isinstance(value, list):
        return [camel(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {to_camel(key): item if key in names_of_others else camel(item) for key, item in value.items()}


@pytest.mark.parametrize("metric", CRITERION_MODELS)
def test_config__every_option_of_a_criterion_has_two_spellings(metric: str) -> None:
    """And each of them is read: what is written differs from all defaults."""
    fields = {name: OTHER_THAN_DEFAULT[name] for name in CRITERION_MODELS[metric].model_fields}

    snake, snake_problems = parse({"criteria": {metric: fields}})
    camels, camel_problems = parse({"criteria": {metric: camel(fields)}})

    assert snake is not None and camels is not None
    assert (snake_problems, camel_problems) == ([], [])
    [result] = snake.criteria
    assert camels.criteria == (result,)
    defaults = {name: field.get_default(call_default_factory=True) for name, field in fields_of(metric).items()}
    assert not [name for name, value in result.options.items() if value == defaults.get(name)]
    assert result.threshold == 1.0


def fields_of(metric: str) -> dict[str, Any]:
    return {name: field for name, field in CRITERION_MODELS[metric].model_fields.items() if not field.is_required()}


def test_config__every_option_of_a_simulator_and_of_a_custom_metric_has_two_spellings() -> None:
    metrics = {
        "mine": {"code_config": {"name": "a.b"}, "metric_info": {"metric_name": "mine"}, "description": "d"},
    }
    simulated = {
        "type": "llm_backed",
        "model": "openai/m",
        "model_configuration": {"temperature": 0.5},
        "max_allowed_invocations": 3,
        "custom_instructions": "{{ stop_signal }} {{ conversation_plan }} {{ conversation_history }}",
        "include_function_calls": True,
    }
    snake = {
        "criteria": {"mine": 1},
        "custom_metrics": metrics,
        "user_simulator_config": simulated,
        "live_model_config": {"timeout_seconds": 7},
    }
    camels = {
        "criteria": {"mine": 1},
        "customMetrics": {name: camel(item, names_of_others=("metric_info",)) for name, item in metrics.items()},
        "userSimulatorConfig": camel(simulated, names_of_others=("model_configuration",)),
        "liveModelConfig": {"timeoutSeconds": 7},
    }

    assert config_of(snake) == config_of(camels)
    read = config_of(snake)
    assert read.user_simulator_config == simulated and read.custom_metrics == metrics
    assert set(simulated) == set(LlmBackedUserSimulatorConfig.model_fields)


def test_read_criteria__position_of_an_invalid_threshold() -> None:
    _, problems = parse({"criteria": {"response_match_score": 0.5, "safety_v1": {"threshold": 2}}})
    assert [(problem.line, problem.column) for problem in problems] == [(5, 20)]


def test_config_finder__nearest(tmp_path: Path) -> None:
    for number, place in enumerate(("a", "a/b", "a/b/c", "d")):
        write(tmp_path / place / "x.test.json", {**eval_set(case()), "eval_set_id": str(number)})
    write(tmp_path / "a" / "test_config.json", {"criteria": {"response_match_score": 0.1}})
    write(tmp_path / "a/b/c" / "eval_config.json", {"criteria": {"response_match_score": 0.2}})
    suite = load_suite(tmp_path)
    assert [(file.path, file.config.source) for file in suite.files] == [
        ("a/b/c/x.test.json", "a/b/c/eval_config.json"),
        ("a/b/x.test.json", "a/test_config.json"),
        ("a/x.test.json", "a/test_config.json"),
        ("d/x.test.json", None),
    ]
    assert suite.files[1].config is suite.files[2].config
    assert {criterion.metric: criterion.threshold for criterion in suite.files[3].config.criteria} == {
        "tool_trajectory_avg_score": 1.0,
        "response_match_score": 0.8,
    }


def test_config_finder__not_above_the_root(tmp_path: Path) -> None:
    write(tmp_path / "test_config.json", {"criteria": {"response_match_score": 0.1}})
    write(tmp_path / "repo" / "x.test.json", eval_set(case()))
    assert load_suite(tmp_path / "repo").files[0].config.source is None


def test_config_finder__two_configs_in_a_directory(tmp_path: Path) -> None:
    write(tmp_path / "x.test.json", eval_set(case()))
    for name, threshold in (("test_config.json", 0.1), ("eval_config.json", 0.2)):
        write(tmp_path / name, {"criteria": {"response_match_score": threshold}})
    suite = load_suite(tmp_path)
    assert suite.files[0].config.source == "test_config.json"
    assert [(problem.code, problem.severity, problem.file) for problem in suite.problems] == [
        ("two-configs", Severity.WARNING, "eval_config.json")
    ]


def test_config_finder__name_is_almost_right(tmp_path: Path) -> None:
    criteria = {"criteria": {"response_match_score": 0.1}}
    for number, place in enumerate(("a", "a/b", "c", "d")):
        write(tmp_path / place / "x.test.json", {**eval_set(case()), "eval_set_id": str(number)})
    for name in ("a/test-config.json", "a/b/Config.json", "c/test_configs.json", "c/eval_config.json", "d/agent.json"):
        write(tmp_path / name, criteria)
    write(tmp_path / "d" / "tsconfig.json", {"compilerOptions": {}})
    (tmp_path / "d" / "test_config.jsonc").mkdir()
    suite = load_suite(tmp_path)
    assert [(problem.code, problem.severity, problem.file) for problem in suite.problems] == [
        ("config-misnamed", Severity.WARNING, "a/b/Config.json"),
        ("config-misnamed", Severity.WARNING, "a/test-config.json"),
    ]
    assert not load_suite(tmp_path, config=Path("a/test-config.json")).problems
    write(tmp_path / "test_config.json", criteria)
    assert len(load_suite(tmp_path).problems) == 2, "a config further up applies instead"


def test_config_finder__missing_override_is_reported_once(tmp_path: Path) -> None:
    write(tmp_path / "a.test.json", eval_set(case()))
    write(tmp_path / "b.test.json", {**eval_set(case()), "eval_set_id": "b"})
    suite = load_suite(tmp_path, config=tmp_path / "none.json")
    assert [problem.code for problem in suite.problems] == ["config-not-found"]
    assert suite.files == ()


def test_config_finder__invalid_config_is_reported_once(tmp_path: Path) -> None:
    write(tmp_path / "a.test.json", eval_set(case()))
    write(tmp_path / "b.test.json", eval_set(case(conversation=[])))
    (tmp_path / "test_config.json").write_text('{"criteria": {"response_match_score": 0.5,}}')
    suite = load_suite(tmp_path)
    assert [(problem.file, problem.code) for problem in suite.problems] == [
        ("b.test.json", "empty-conversation"),
        ("test_config.json", "json-trailing-comma"),
    ]


def test_config_finder__unreadable_config(tmp_path: Path) -> None:
    config, problems = read_config(tmp_path / "none.json", "none.json")
    assert config is None
    assert [problem.code for problem in problems] == ["unreadable-file"]
