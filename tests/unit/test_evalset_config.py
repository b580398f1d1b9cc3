"""Config files: where they are found, what they may hold, what becomes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from evalset_samples import BAD_CONFIGS, GOOD_CONFIGS, Sample, case, codes, eval_set, load, schema_accepts, write
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


@pytest.mark.parametrize("sample", [*GOOD_CONFIGS, *BAD_CONFIGS], ids=lambda sample: sample.name)
def test_config__samples(sample: Sample) -> None:
    config, problems = parse(sample.value)
    assert tuple(codes(problems)) == sample.codes, "\n".join(map(str, problems))
    wrong = any(problem.severity is Severity.ERROR for problem in problems)
    assert (config is None) == wrong
    if config is not None:
        assert [criterion.metric for criterion in config.criteria] == list(sample.value["criteria"])
    for first in problems[:1]:
        assert sample.path in {None, first.path}
        assert sample.says in f"{first.message}\n{first.hint}"
    assert all(problem.line and problem.column and problem.hint for problem in problems)
    assert schema_accepts("test-config", sample.value) == (not (wrong and sample.schema_agrees))


def test_read_criteria__options_are_typed_and_complete() -> None:
    config = config_of(
        {
            "criteria": {
                "tool_trajectory_avg_score": {"threshold": "1", "matchType": "any-order"},
                "response_match_score": True,
                "final_response_match_v2": {"threshold": 0.5, "judgeModelOptions": {"numSamples": "3"}},
                "hallucinations_v1": "0.5",
            }
        }
    )
    base = {"include_intermediate_responses_in_final": False}
    judge = JudgeModelOptions()
    assert {criterion.metric: dict(criterion.options) for criterion in config.criteria} == {
        "tool_trajectory_avg_score": {
            **base,
            "match_type": MatchType.ANY_ORDER,
            "ignore_args": False,
            "args_match": "exact",
        },
        "response_match_score": base,
        "final_response_match_v2": {**base, "judge_model_options": JudgeModelOptions(num_samples=3)},
        "hallucinations_v1": {**base, "judge_model_options": judge, "evaluate_intermediate_nl_responses": False},
    }
    assert [criterion.threshold for criterion in config.criteria] == [1.0, 1.0, 0.5, 0.5]
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
        return [camel(item, names_of_others=names_of_others) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        to_camel(key): item if key in names_of_others else camel(item, names_of_others=names_of_others)
        for key, item in value.items()
    }


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
    camels = camel(snake, names_of_others=("metric_info", "model_configuration"))

    assert config_of(snake) == config_of(camels)
    read = config_of(snake)
    assert read.user_simulator_config == simulated and read.custom_metrics == metrics
    assert set(simulated) == set(LlmBackedUserSimulatorConfig.model_fields)


def scored(threshold: float) -> dict[str, Any]:
    return {"criteria": {"response_match_score": threshold}}


def test_config_finder__nearest_below_the_root(tmp_path: Path) -> None:
    write(tmp_path / "test_config.json", scored(0.1))
    root = tmp_path / "repo"
    for place in ("a", "a/b", "a/b/c", "d"):
        write(root / place / "x.test.json", eval_set(case()))
    write(root / "a" / "test_config.json", scored(0.1))
    write(root / "a/b/c" / "test_config.json", scored(0.2))
    write(root / "a/b/c" / "eval_config.json", scored(0.3))
    suite = load(root)
    assert [(file.path, file.config.source) for file in suite.files] == [
        ("a/b/c/x.test.json", "a/b/c/test_config.json"),
        ("a/b/x.test.json", "a/test_config.json"),
        ("a/x.test.json", "a/test_config.json"),
        ("d/x.test.json", None),
    ]
    assert suite.files[1].config is suite.files[2].config
    assert {criterion.metric: criterion.threshold for criterion in suite.files[3].config.criteria} == {
        "tool_trajectory_avg_score": 1.0,
        "response_match_score": 0.8,
    }
    assert [(problem.code, problem.severity, problem.file) for problem in suite.problems] == [
        ("two-configs", Severity.WARNING, "a/b/c/eval_config.json")
    ]


def test_config_finder__name_is_almost_right(tmp_path: Path) -> None:
    for place in ("a", "a/b", "c", "d"):
        write(tmp_path / place / "x.test.json", eval_set(case()))
    for name in ("a/test-config.json", "a/b/Config.json", "c/test_configs.json", "c/eval_config.json", "d/agent.json"):
        write(tmp_path / name, scored(0.1))
    write(tmp_path / "d" / "tsconfig.json", {"compilerOptions": {}})
    (tmp_path / "d" / "test_config.jsonc").mkdir()
    suite = load(tmp_path)
    assert [(problem.code, problem.severity, problem.file) for problem in suite.problems] == [
        ("config-misnamed", Severity.WARNING, "a/b/Config.json"),
        ("config-misnamed", Severity.WARNING, "a/test-config.json"),
    ]
    assert not load_suite(tmp_path, config=Path("a/test-config.json")).problems
    assert len(load(tmp_path, scored(0.1)).problems) == 2, "a config further up applies instead"


def test_config_finder__what_cannot_be_read_is_reported_once(tmp_path: Path) -> None:
    assert codes(read_config(tmp_path / "none.json", "none.json")[1]) == ["unreadable-file"]
    suite = load(
        tmp_path, '{"criteria": {"response_match_score": 0.5,}}', a=eval_set(case()), b=eval_set(case(conversation=[]))
    )
    assert [(problem.file, problem.code) for problem in suite.problems] == [
        ("b.test.json", "empty-conversation"),
        ("test_config.json", "json-trailing-comma"),
    ]
    suite = load_suite(tmp_path, config=tmp_path / "none.json")
    assert (codes(suite.problems).count("config-not-found"), suite.files) == (1, ())
