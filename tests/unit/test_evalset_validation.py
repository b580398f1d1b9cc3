"""What is wrong with eval files and configs."""

from __future__ import annotations

import ast
import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from eval_schemas import SCHEMAS, main
from evalset_samples import (
    BAD_CONFIGS,
    BAD_EVAL_SETS,
    GOOD_CONFIGS,
    GOOD_EVAL_SETS,
    GOOD_SCENARIOS,
    INSTRUCTIONS,
    PERSONA,
    TURN,
    Sample,
    case,
    codes,
    eval_set,
    load,
    places,
    rubric,
    scenario,
    schema_accepts,
    scored,
    turn,
    write,
)
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from agent_eval.core.problem import Problem, Severity
from agent_eval.evalset.json.reading import parse_document
from agent_eval.evalset.loading import load_suite
from agent_eval.evalset.models.criteria import CRITERION_MODELS, LlmBackedUserSimulatorConfig
from agent_eval.evalset.models.criterion_options import JudgeModelOptions
from agent_eval.evalset.models.schema import EvalConfig, EvalSet, MatchType
from agent_eval.evalset.parse.config import parse_config, read_config

# What is said about eval sets, alone and together with their configs.

WITH_SCENARIOS = {"criteria": {"hallucinations_v1": 0.5}}


def shown(problems: tuple[Problem, ...]) -> str:
    return "\n".join(map(str, problems))


@pytest.mark.parametrize("sample", [*GOOD_EVAL_SETS, *GOOD_SCENARIOS], ids=lambda sample: sample.name)
def test_validation__good(sample: Sample, tmp_path: Path) -> None:
    suite = load(tmp_path, WITH_SCENARIOS if sample in GOOD_SCENARIOS else None, a=sample.value)
    assert not suite.problems, shown(suite.problems)
    assert [file.path for file in suite.files] == ["a.test.json"]
    assert schema_accepts("eval-set", sample.value)


@pytest.mark.parametrize("sample", BAD_EVAL_SETS, ids=lambda sample: sample.name)
def test_validation__bad(sample: Sample, tmp_path: Path) -> None:
    suite = load(tmp_path, a=json.dumps(sample.value, indent=2))
    first, *others = sorted(suite.problems, key=lambda problem: problem.file is None)
    assert tuple(problem.code for problem in (first, *others)) == sample.codes, shown(suite.problems)
    assert sample.path in {None, first.path}
    assert sample.says in f"{first.message}\n{first.hint}"
    assert first.line is not None and first.column is not None
    assert all(problem.hint for problem in suite.problems)
    assert bool(suite.errors) == (not any(file.cases for file in suite.files))
    assert schema_accepts("eval-set", sample.value) == (not (suite.errors and sample.schema_agrees))


def test_validation__position_of_a_wrong_value_and_of_a_wrong_key(tmp_path: Path) -> None:
    text = """{
  "eval_set_id": "s",
  "eval_cases": [
    {"evalId": "ok", "conversation": [{"userContent": {"parts": [{"text": "ü"}]}, "finalResponse": {"parts": [
      {"thought": true}, {"role": "ü", "text": 5}]}, "x": 1}]}
  ]
}"""
    value, key = load(tmp_path, a=text).problems
    assert value.path == "eval_cases[0].conversation[0].finalResponse.parts[1].text"
    assert (value.line, value.column) == (5, text.splitlines()[4].index("5") + 1)
    assert value.message == "`text` must be a string, not the number 5."
    assert (key.code, key.line, key.column) == ("unknown-key", 5, text.splitlines()[4].index('"x"') + 1)


def test_validation__all_files_are_reported_in_one_pass_and_good_ones_load(tmp_path: Path) -> None:
    """Two files may have one set id."""
    good = '{"eval_cases": [\n' + json.dumps(case(eval_id="a")) + ",\n\n" + json.dumps(case(eval_id="b"))
    bad = {"a": "{", "c": {"eval_set_id": "c", "eval_cases": [{}]}, "d": [1]}
    suite = load(tmp_path, **bad, b=good + '\n], "eval_set_id": "s"}', e=eval_set(case()))
    assert [(problem.file, problem.code) for problem in suite.problems] == [
        ("a.test.json", "json-truncated"),
        ("c.test.json", "missing-field"),
        ("d.test.json", "not-an-eval-set"),
    ]
    assert [file.path for file in suite.files] == ["b.test.json", "e.test.json"]
    assert suite.file_count == 5
    assert suite.files[0].lines == {"a": 2, "b": 4}


TOOL_USE, TRAJECTORY = "rubric_based_tool_use_quality_v1", "rubric_based_multi_turn_trajectory_quality_v1"
OWN, LAST = rubric("a", type="TOOL_USE_QUALITY"), rubric("a", type="TRAJECTORY_QUALITY")
CALLS = {"tool_trajectory_avg_score": 1}


def found(root: Path, config: dict[str, Any], *cases: dict[str, Any]) -> list[str]:
    """Severity, if it is no error, code and place of each finding in a file with these cases."""
    numbered = [{**one, "eval_id": f"c{number}"} for number, one in enumerate(cases)]
    problems = load(root, config, a=eval_set(*numbered)).problems
    assert all(problem.hint and problem.line for problem in problems)
    return [f"{problem.severity} {problem.code} {problem.path}".removeprefix("error ") for problem in problems]


def judged(*ids: str, metric: str = TOOL_USE, others: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """A config with a metric of rubrics."""
    criterion = {"threshold": 1, "rubrics": [rubric(name) for name in ids], **fields}
    return {"criteria": {metric: criterion, **(others or {})}}


def turns(*listed: dict[str, Any]) -> dict[str, Any]:
    return case(conversation=list(listed))


def test_rubrics__as_adk_merges_them(tmp_path: Path) -> None:
    other_type = case(rubrics=[rubric("a", type="OTHER")])
    assert found(tmp_path, judged("a"), case(rubrics=[OWN]), turns(TURN, turn(rubrics=[OWN])), other_type) == [
        "duplicate-rubric-id eval_cases[0].rubrics[0].rubric_id",
        "duplicate-rubric-id eval_cases[1].conversation[1].rubrics[0].rubric_id",
    ]
    untyped, one_turn = case(rubrics=[rubric("a")]), turns(turn(rubrics=[OWN]), TURN)
    assert found(tmp_path, judged(), case(), untyped, one_turn, case(rubrics=[OWN]), scenario()) == [
        "no-rubrics eval_cases[0].conversation[0]",
        "no-rubrics eval_cases[1].conversation[0]",
        "no-rubrics eval_cases[2].conversation[1]",
        "no-rubrics eval_cases[4]",
    ]
    only_last, not_last = turns(TURN, turn(rubrics=[LAST])), turns(TURN, turn(rubrics=[LAST]), TURN)
    assert found(tmp_path, judged(metric=TRAJECTORY), only_last, not_last) == [
        "no-rubrics eval_cases[1].conversation[2]"
    ]


def test_rubrics__in_some_cases_only_leave_the_others_to_their_other_criteria(tmp_path: Path) -> None:
    """It was exit 2 for the whole repository."""
    both = judged(others=CALLS)
    assert found(tmp_path, both, case(rubrics=[OWN]), case()) == ["warning case-without-rubrics eval_cases[1]"]
    assert found(tmp_path, both, case()) == ["no-rubrics eval_cases[0].conversation[0]"], "a metric without any"


def test_rubrics__weights_and_levels_without_effect(tmp_path: Path) -> None:
    place, levels = f"criteria.{TOOL_USE}", [{"score": 0, "text": "rude"}, {"score": 1, "text": "kind"}]
    of_turn = rubric("b", type="TOOL_USE_QUALITY")
    used = case(rubrics=[OWN], conversation=[turn(rubrics=[of_turn])])
    assert found(tmp_path, judged(rubric_weights={"a": 1, "b": 2}), used) == []
    others = case(rubrics=[rubric("a", type="FINAL_RESPONSE_QUALITY"), rubric("b")])
    assert found(tmp_path, judged("polite", rubricWeights={"a": 1, "b": 1}), others) == [
        f"warning idle-rubric-weight {place}.rubricWeights.a",
        f"warning idle-rubric-weight {place}.rubricWeights.b",
    ]
    assert found(tmp_path, judged("polite", rubric_levels={"polit": levels}), case()) == [
        f"warning idle-rubric-levels {place}.rubric_levels.polit"
    ]
    weights = {"polite": 0}
    assert found(tmp_path, judged("polite", rubric_weights=weights), case(rubrics=[OWN]), case()) == [
        "zero-rubric-weights eval_cases[1]"
    ]


def test_rubrics__weights_count_every_case_of_every_file(tmp_path: Path) -> None:
    config = judged("polite", rubric_weights={"a": 1, "polit": 3})
    cases = eval_set(case(rubrics=[OWN]), case(eval_id="d"))
    [problem] = load(tmp_path, config, "a.test.json:d", a=cases).problems
    assert (problem.file, problem.hint) == ("test_config.json", "Did you mean `polite`?")
    assert problem.line is not None
    assert '"polit": 3' in (tmp_path / "test_config.json").read_text().splitlines()[problem.line - 1]
    assert codes(load(tmp_path, b="{").problems) == ["json-truncated"], "it may be in that file"


def test_custom_metrics__need_nothing_and_take_no_name_of_another(tmp_path: Path) -> None:
    def custom(name: str) -> dict[str, Any]:
        return {"criteria": {name: 3}, "custom_metrics": {name: {"code_config": {"name": "a.b"}}}}

    assert found(tmp_path, custom("mine"), scenario()) == []
    for name in ("response_match_score", "token_usage_v1"):
        assert found(tmp_path, custom(name), scenario()) == [f"custom-metric-name-taken criteria.{name}"]
    weighed = {**custom(TOOL_USE), **judged("polite", rubric_weights={"polit": 3})}
    assert found(tmp_path, weighed, case()) == [f"custom-metric-name-taken criteria.{TOOL_USE}"]


def test_references__that_the_criteria_need(tmp_path: Path) -> None:
    bare = turns({"user_content": TURN["user_content"]})
    assert found(tmp_path, {"criteria": {**CALLS, "trajectory_recall": 1}}, bare) == []
    similar = {"criteria": {"response_similarity": 1}}
    [problem] = load(tmp_path, similar, a=eval_set(turns(TURN, turn(final_response=None)))).problems
    assert problem.code == "turn-without-reference"
    assert "without a score" in (problem.hint or "")
    fixed = {"criteria": {"per_turn_user_simulator_quality_v1": 1}}
    assert found(tmp_path, fixed, case()) == ["needs-scenario eval_cases[0]"]


@pytest.mark.parametrize(
    ("metric", "options", "are_mentioned"),
    [
        ("tool_trajectory_partial", {}, True),
        ("tool_trajectory_partial", {"strict_args": True}, True),
        ("tool_trajectory_avg_score", {"args_match": "subset"}, True),
        ("tool_trajectory_avg_score", {}, False),
        ("tool_trajectory_avg_score", {"ignore_args": True, "args_match": "subset"}, False),
    ],
)
def test_omitted_args__are_mentioned_where_any_would_do(
    metric: str, options: dict[str, Any], are_mentioned: bool, tmp_path: Path
) -> None:
    bare, empty = {"name": "look_up"}, {"name": "look_up", "args": {}}
    config = {"criteria": {metric: {"threshold": 1, **options}}}
    cases = [turns(turn(intermediate_data={"tool_uses": uses})) for uses in ([empty], [empty, bare, bare])]
    mentioned = ["notice omitted-args eval_cases[1].conversation[0]"] if are_mentioned else []
    assert found(tmp_path, config, *cases) == mentioned


def test_scenarios__with_the_config_of_their_simulated_user(tmp_path: Path) -> None:
    def simulated(*personas: Any, **simulator: Any) -> list[str]:
        cases = [scenario(user_persona=persona) for persona in personas]
        found_here = found(tmp_path, {**WITH_SCENARIOS, "user_simulator_config": simulator}, *cases)
        return [line.replace(".conversation_scenario", "") for line in found_here]

    personas = (None, "EXPERT", PERSONA)
    for good in ({}, {"custom_instructions": INSTRUCTIONS}, {"maxAllowedInvocations": 1}):
        assert simulated(*personas, **good) == []
    plain = "{{ stop_signal }} {{ conversation_plan }} {{ conversation_history }}"
    assert simulated(*personas, custom_instructions=plain) == [
        "custom-instructions-invalid eval_cases[1].user_persona",
        "custom-instructions-invalid eval_cases[2].user_persona",
    ]
    assert simulated(None, max_allowed_invocations=0) == ["scenario-without-turns eval_cases[0]"]
    wrong: dict[str, Any] = dict.fromkeys(("name", "description"), "{{ stop_signal")
    wrong |= {key: ["fine", "{{ stop_signal"] for key in ("behavior_instructions", "violation_rubrics")}
    broken = [{**PERSONA, "behaviors": [{**PERSONA["behaviors"][0], key: text}]} for key, text in wrong.items()]
    assert simulated(*broken) == [
        f"persona-template-invalid eval_cases[{number}].user_persona.behaviors[0].{place}"
        for number, place in enumerate(("name", "description", "behavior_instructions[1]", "violation_rubrics[1]"))
    ]
    [problem] = load(tmp_path, WITH_SCENARIOS, a=eval_set(scenario(user_persona="novice"))).problems
    assert (problem.code, problem.hint) == ("unknown-persona", "Did you mean `NOVICE`?")


# Config files: where they are found, what they may hold, what becomes of it.


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
    criteria = {
        "tool_trajectory_avg_score": {"threshold": "1", "matchType": "any-order"},
        "response_match_score": True,
        "final_response_match_v2": {"threshold": 0.5, "judgeModelOptions": {"numSamples": "3"}},
        "hallucinations_v1": "0.5",
    }
    config = config_of({"criteria": criteria})
    base = {"include_intermediate_responses_in_final": False}
    judge, any_order = JudgeModelOptions(), {"match_type": MatchType.ANY_ORDER}
    assert {criterion.metric: dict(criterion.options) for criterion in config.criteria} == {
        "tool_trajectory_avg_score": {**base, **any_order, "ignore_args": False, "args_match": "exact"},
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
        **{"judge_model": "openai/m", "judge_model_config": {"temperature": 0.5}},
        **{"num_samples": 3, "parallelism_limit": 2},
    },
    "rubrics": [rubric("a", description="d", type="TOOL_USE_QUALITY")],
    "rubric_weights": {"a": 2.0},
    "rubric_levels": {"a": [{"score": 0.0, "text": "no"}, {"score": 1.0, "text": "yes"}]},
    "evaluate_intermediate_nl_responses": True,
    "stop_signal": "bye",
    "backend": "vertex",
}


OF_OTHERS = {"rubric_weights", "rubric_levels", "judge_model_config", "metric_info", "model_configuration"}


def camel(value: Any) -> Any:
    """The same with keys in camelCase, but for those below names that are not ours to spell."""
    if isinstance(value, list):
        return [camel(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {to_camel(key): item if key in OF_OTHERS else camel(item) for key, item in value.items()}


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
    declared = CRITERION_MODELS[metric].model_fields.items()
    optional = {name: field for name, field in declared if not field.is_required()}
    defaults = {name: field.get_default(call_default_factory=True) for name, field in optional.items()}
    assert not [name for name, value in result.options.items() if value == defaults.get(name)]
    assert result.threshold == 1.0


def test_config__every_option_of_a_simulator_and_of_a_custom_metric_has_two_spellings() -> None:
    simulated = {
        "type": "llm_backed",
        "model": "openai/m",
        "model_configuration": {"temperature": 0.5},
        "max_allowed_invocations": 3,
        "custom_instructions": "{{ stop_signal }} {{ conversation_plan }} {{ conversation_history }}",
        "include_function_calls": True,
    }
    mine = {"code_config": {"name": "a.b"}, "metric_info": {"metric_name": "mine"}, "description": "d"}
    snake = {"criteria": {"mine": 1}, "custom_metrics": {"mine": mine}, "user_simulator_config": simulated}
    snake["live_model_config"] = {"timeout_seconds": 7}
    camels = camel(snake)

    assert config_of(snake) == config_of(camels)
    read = config_of(snake)
    assert read.user_simulator_config == simulated and read.custom_metrics == {"mine": mine}
    assert set(simulated) == set(LlmBackedUserSimulatorConfig.model_fields)


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
    broken = '{"criteria": {"response_match_score": 0.5,}}'
    suite = load(tmp_path, broken, a=eval_set(case()), b=eval_set(case(conversation=[])))
    assert [(problem.file, problem.code) for problem in suite.problems] == [
        ("b.test.json", "empty-conversation"),
        ("test_config.json", "json-trailing-comma"),
    ]
    suite = load_suite(tmp_path, config=tmp_path / "none.json")
    assert (codes(suite.problems).count("config-not-found"), suite.files) == (1, ())


# The published JSON Schemas are up to date, and agree with the models on mutated files, too.

ROOT = Path(__file__).parents[2]


def test_main__writes_the_committed_schemas(tmp_path: Path) -> None:
    main(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(SCHEMAS)
    for path in tmp_path.iterdir():
        committed = (ROOT / "schemas" / path.name).read_text(encoding="utf-8")
        assert committed == path.read_text(encoding="utf-8"), "run: python tools/eval_schemas.py schemas/"


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas__are_valid(name: str) -> None:
    schema = SCHEMAS[name]()
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"].endswith(f"/schemas/{name}")
    references = set(re.findall(r'"\$ref": "#/\$defs/([^"]+)"', json.dumps(schema)))
    assert references <= set(schema["$defs"])


def test_jsonschema__codes_that_only_the_models_find_are_listed() -> None:
    """The tests of the models hold that these samples have these codes."""
    result = {code for sample in BAD_EVAL_SETS + BAD_CONFIGS if not sample.schema_agrees for code in sample.codes}
    text = (ROOT / "docs" / "problems.md").read_text(encoding="utf-8")
    section = text.split("## JSON Schemas for editors", 1)[1].split("\n## ", 1)[0]
    listed = set(re.findall(r"^\* `([a-z0-9-]+)`", section, re.MULTILINE))
    # These take more than one file, or a config that is not the default. The last one is a warning.
    more = {"duplicate-eval-set-id", "needs-scenario", "no-rubrics", "zero-rubric-weights"}
    assert listed == (result | more) - {"empty-eval-set"}


SMALL: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, 1, 2.5, -1, "", "x", "1", "1.5", "true", "yes", [], {}, [[]], ["x", []], [{}]]
)


@given(data=st.data())
def test_schemas__agree_on_mutated_files(data: st.DataObject) -> None:
    sample = data.draw(st.sampled_from([*GOOD_EVAL_SETS, *GOOD_SCENARIOS]))
    value = copy.deepcopy(sample.value)
    path = data.draw(st.sampled_from(places(value)[1:]))
    holder = value
    for step in path[:-1]:
        holder = holder[step]
    match data.draw(st.sampled_from(["replace", "delete", "add"])):
        case "replace":
            holder[path[-1]] = data.draw(SMALL)
        case "delete":
            del holder[path[-1]]
        case _ if isinstance(holder, dict):
            holder[data.draw(st.sampled_from(["text", "evalId", "unheardOf", "conversation", "intermediateData"]))] = (
                data.draw(SMALL)
            )
        case _:
            holder.append(data.draw(SMALL))
    try:
        EvalSet.model_validate(value)
        accepted = True
    except ValidationError:
        accepted = False
    assert schema_accepts("eval-set", value) == accepted, value


# docs/problems.md lists every code of a Problem that the source can make, and no other.

SOURCES = [ROOT / "src" / "agent_eval", ROOT / "src" / "agent_eval_workbench"]
KEBAB = re.compile(r"[a-z0-9]+(-[a-z0-9]+)+")
MAKERS: dict[str, int | None] = {
    **dict.fromkeys(("Problem", "NoChoice", "_Finding", "refusal", "TableReader"), None),
    **dict.fromkeys(("refuse", "error", "notice", "_error", "warning", "edit_problem"), 0),
    **{"_file_error": 1, "problem": 1, "finding": 2},
}
"""What makes a finding, and which positional argument is its code (None: the keyword `code`)."""


def assigned(statement: ast.Assign) -> Iterator[tuple[str, object]]:
    """The constants that an assignment gives names to, one by one or as a tuple."""
    target, value = statement.targets[0], statement.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        pairs = list(zip(target.elts, value.elts, strict=False))
    else:
        pairs = [(target, value)]
    for name, constant in pairs:
        if isinstance(name, ast.Name) and isinstance(constant, ast.Constant):
            yield name.id, constant.value


def codes_in(tree: ast.Module) -> Iterator[str]:
    statements = [statement for statement in tree.body if isinstance(statement, ast.Assign)]
    constants = dict(pair for statement in statements for pair in assigned(statement))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            position = MAKERS.get(name)
            given = [keyword.value for keyword in node.keywords if keyword.arg == "code" and name in MAKERS]
            given += node.args[position : position + 1] if position is not None else []
            for argument in given:
                value = constants.get(argument.id) if isinstance(argument, ast.Name) else None
                value = argument.value if isinstance(argument, ast.Constant) else value
                if KEBAB.fullmatch(str(value)):
                    yield str(value)
        # A table from pydantic's own codes to ours.
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "_ALIASES":
            assert isinstance(node.value, ast.Dict)
            yield from (str(value.value) for value in node.value.values if isinstance(value, ast.Constant))


def test_problem_codes__codes_in_the_source_and_in_the_docs_are_the_same() -> None:
    made = {
        code
        for source in SOURCES
        for path in source.rglob("*.py")
        for code in codes_in(ast.parse(path.read_text(encoding="utf-8"), filename=str(path)))
    }
    text = (ROOT / "docs" / "problems.md").read_text(encoding="utf-8")
    listed = re.findall(r"^### `([a-z0-9-]+)`\n\S", text.partition("\n## Failures of a run\n")[0], re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert len(made) > 40
    assert made - set(listed) == set(), "add them to docs/problems.md"
    assert set(listed) - made == set(), "nothing reports them any more"
