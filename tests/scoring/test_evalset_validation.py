"""What is wrong with eval files and configs."""

from __future__ import annotations

import ast
import copy
import functools
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
    LEGACY_EVALS,
    LEGACY_TURNS,
    PERSONA,
    TURN,
    case,
    codes,
    eval_set,
    load,
    places,
    rubric,
    scenario,
    scored,
    seen,
    turn,
    write,
)
from golden_files import DATA, check
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from agent_eval_scoring.core.problem import Problem, Severity, docs_page
from agent_eval_scoring.evalset.json.reading import parse_document
from agent_eval_scoring.evalset.loading import load_suite
from agent_eval_scoring.evalset.models.criteria import CRITERION_MODELS, LlmBackedUserSimulatorConfig
from agent_eval_scoring.evalset.models.schema import EvalConfig, EvalSet, Suite
from agent_eval_scoring.evalset.parse.config import parse_config, read_config
from agent_eval_scoring.evalset.problem_texts import render_text

# What is said about eval sets, alone and together with their configs.

WITH_SCENARIOS = {"criteria": {"hallucinations_v1": 0.5}}
CALLS = {"tool_trajectory_avg_score": 1}
TOOL_USE, TRAJECTORY = "rubric_based_tool_use_quality_v1", "rubric_based_multi_turn_trajectory_quality_v1"
OWN, LAST = rubric("a", type="TOOL_USE_QUALITY"), rubric("a", type="TRAJECTORY_QUALITY")
OF_ANOTHER = rubric("a", type="FINAL_RESPONSE_QUALITY")
LEVELS = [{"score": 0, "text": "rude"}, {"score": 1, "text": "kind"}]
PLAIN = "{{ stop_signal }} {{ conversation_plan }} {{ conversation_history }}"


@functools.cache
def _validator(name: str) -> Any:
    return Draft202012Validator(SCHEMAS[f"{name}.schema.json"]())


def schema_accepts(name: str, value: Any) -> bool:
    """Of `eval-set` or `test-config`."""
    return bool(_validator(name).is_valid(value))


def judged(*ids: str, metric: str = TOOL_USE, others: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """A config with a metric of rubrics."""
    criterion = {"threshold": 1, "rubrics": [rubric(name) for name in ids], **fields}
    return {"criteria": {metric: criterion, **(others or {})}}


def turns(*listed: dict[str, Any]) -> dict[str, Any]:
    return case(conversation=list(listed))


def calling(*calls: dict[str, Any]) -> dict[str, Any]:
    return turns(turn(intermediate_data={"tool_uses": list(calls)}))


def simulated(**simulator: Any) -> dict[str, Any]:
    return {**WITH_SCENARIOS, "user_simulator_config": simulator}


def with_behavior(**fields: Any) -> dict[str, Any]:
    return scenario(user_persona={**PERSONA, "behaviors": [{**PERSONA["behaviors"][0], **fields}]})


def custom(name: str) -> dict[str, Any]:
    return {"criteria": {name: 3}, "custom_metrics": {name: {"code_config": {"name": "a.b"}}}}


PERSONAS = (scenario(), scenario(user_persona="EXPERT"), scenario(user_persona=PERSONA))
OMITTED = (calling({"name": "look_up", "args": {}}), calling({"name": "f", "args": {}}, *[{"name": "look_up"}] * 2))
BARE = turns({"user_content": TURN["user_content"]})
SUNNY = {"intermediate_responses": [["weather", [{"text": "sunny"}]]]}
SAYING = turns(turn(intermediate_data=SUNNY), TURN)
EMPTY_MESSAGES: tuple[dict[str, Any], ...] = ({}, {"parts": []}, {"parts": [{"text": ""}]})
CONFIG_AND_CASES: dict[str, tuple[Any, ...]] = {
    "a rubric of the criterion, of the case or of a turn once more, and one of another type": (
        judged("a"),
        case(rubrics=[OWN]),
        turns(TURN, turn(rubrics=[OWN])),
        case(rubrics=[rubric("a", type="OTHER")]),
    ),
    "no rubrics of this type: all cases but the fourth": (
        judged(),
        case(),
        case(rubrics=[rubric("a")]),
        turns(turn(rubrics=[OWN]), TURN),
        case(rubrics=[OWN]),
        scenario(),
    ),
    "rubrics of the last turn, and not of the last": (
        judged(metric=TRAJECTORY),
        turns(TURN, turn(rubrics=[LAST])),
        turns(TURN, turn(rubrics=[LAST]), TURN),
    ),
    "rubrics in some cases leave the others to their other criteria": (
        judged(others=CALLS),
        case(rubrics=[OWN]),
        case(),
    ),
    "a metric without any rubrics": (judged(others=CALLS), case()),
    "weights of rubrics of a case and of a turn": (
        judged(rubric_weights={"a": 1, "b": 2}),
        case(rubrics=[OWN], conversation=[turn(rubrics=[rubric("b", type="TOOL_USE_QUALITY")])]),
    ),
    "weights of rubrics of other types": (
        judged("polite", rubricWeights={"a": 1, "b": 1}),
        case(rubrics=[OF_ANOTHER, rubric("b")]),
    ),
    "levels of no rubric": (judged("polite", rubric_levels={"polit": LEVELS}), case()),
    "a weight of 0 for the only rubric of the second case": (
        judged("polite", rubric_weights={"polite": 0}),
        case(rubrics=[OWN]),
        case(),
    ),
    "a metric of one's own needs nothing": (custom("mine"), scenario()),
    "the name of a metric": (custom("response_match_score"), scenario()),
    "the name of an informational metric": (custom("token_usage_v1"), scenario()),
    "the name of a metric, with weights": (
        {**custom(TOOL_USE), **judged("polite", rubric_weights={"polit": 3})},
        case(),
    ),
    "no answer, and criteria of calls": ({"criteria": {**CALLS, "trajectory_recall": 1}}, BARE),
    "one turn without an answer": ({"criteria": {"response_similarity": 1}}, turns(TURN, turn(final_response=None))),
    "no answer, and a criterion that is turned off": ({"criteria": {"response_match_score": 0.0, **CALLS}}, BARE),
    "no answer, and facts without a threshold to reach": ({"criteria": {"response_facts": 0.0}}, BARE),
    "no expected responses": ({"criteria": {"intermediate_response_similarity": 0.5}}, case()),
    "expected responses in one of two turns": ({"criteria": {"intermediate_response_similarity": 0.5}}, SAYING),
    "odd messages": (
        {"criteria": CALLS},
        *(turns({**TURN, "user_content": message}) for message in EMPTY_MESSAGES),
        turns({**TURN, "user_content": {"role": "model", "parts": [{"text": "hi"}]}}),
        turns({**TURN, "user_content": {"role": "assistant", "parts": [{"text": "hi"}]}}),
        turns({**TURN, "user_content": {"role": "user", "parts": [{"function_response": {"name": "f"}}]}}),
    ),
    "no scenario": ({"criteria": {"per_turn_user_simulator_quality_v1": 1}}, case()),
    **{
        f"calls without args: {metric} {options}": ({"criteria": {metric: {"threshold": 1, **options}}}, *OMITTED)
        for metric, options in (
            ("tool_trajectory_partial", {}),
            ("tool_trajectory_partial", {"strict_args": True}),
            ("tool_trajectory_avg_score", {"args_match": "subset"}),
            ("tool_trajectory_avg_score", {}),
            ("tool_trajectory_avg_score", {"ignore_args": True, "args_match": "subset"}),
        )
    },
    "simulated users": (simulated(), *PERSONAS),
    "simulated users with instructions": (simulated(custom_instructions=INSTRUCTIONS), *PERSONAS),
    "simulated users with one turn": (simulated(maxAllowedInvocations=1), *PERSONAS),
    "instructions without the persona": (simulated(custom_instructions=PLAIN), *PERSONAS),
    "no turns allowed": (simulated(max_allowed_invocations=0), scenario()),
    "a user that speaks": (simulated(type="llm_audio"), scenario()),
    "templates of personas": (
        simulated(),
        with_behavior(name="{{ stop_signal"),
        with_behavior(description="{{ stop_signal"),
        with_behavior(behavior_instructions=["fine", "{{ stop_signal"]),
        with_behavior(violation_rubrics=["fine", "{{ stop_signal"]),
    ),
    "an unknown persona": (WITH_SCENARIOS, scenario(user_persona="novice")),
}


def test_validation__findings(tmp_path: Path) -> None:
    """Of each sample; places in the file are those of JSON with an indent of 2."""
    blocks = []
    for number, (name, value) in enumerate(BAD_EVAL_SETS.items()):
        suite = load(tmp_path / f"bad-{number}", a=json.dumps(value, indent=2))
        assert all(problem.line and problem.column and problem.hint for problem in suite.problems if problem.file)
        assert bool(suite.errors) == (not any(file.cases for file in suite.files)), name
        accepted = schema_accepts("eval-set", value)
        assert accepted or suite.errors, name
        blocks.append((name + ", for the models only" * (accepted and bool(suite.errors)), suite))
    for number, (name, (config, *cases)) in enumerate(CONFIG_AND_CASES.items()):
        numbered = [{**one, "eval_id": f"c{place}"} for place, one in enumerate(cases)]
        suite = load(tmp_path / f"config-{number}", config, a=eval_set(*numbered))
        assert all(problem.hint and problem.line for problem in suite.problems), name
        blocks.append((name, suite))
    texts = [f"== {name}\n{render_text(suite.problems)}" for name, suite in blocks]
    check("golden_evalset_findings.txt", "\n".join(texts))


def test_validation__good(tmp_path: Path) -> None:
    for number, (name, value) in enumerate({**GOOD_EVAL_SETS, **GOOD_SCENARIOS}.items()):
        suite = load(tmp_path / str(number), WITH_SCENARIOS if name in GOOD_SCENARIOS else None, a=value)
        assert not suite.problems, name
        assert [file.path for file in suite.files] == ["a.test.json"]
        assert schema_accepts("eval-set", value), name


def numbered(*ids: str) -> str:
    """An eval set with a line for each case."""
    return '{"eval_set_id": "s", "eval_cases": [\n' + ",\n".join(json.dumps(case(eval_id=one)) for one in ids) + "\n]}"


ONE = eval_set(case())
CAMEL_CASE = """{
  "eval_set_id": "s",
  "eval_cases": [
    {"evalId": "ok", "conversation": [{"userContent": {"parts": [{"text": "ü"}]}, "finalResponse": {"parts": [
      {"thought": true}, {"role": "ü", "text": 5}]}, "x": 1}]}
  ]
}"""
WEIGHTS, AB = judged("polite", rubric_weights={"a": 1, "polit": 3}), {"a": numbered("a_0", "a_1"), "b": numbered("b_0")}
OLDER_FORMS: tuple[Any, ...] = (
    [{"query": 456}],
    [{"query": "a"}, {"reference": "b"}],
    [{"query": "a", "reference": None}],
    [{"query": "a", "expected_tool_use": [{"tool_name": "x"}]}],
    [{"data": []}],
    [{"name": "n", "data": [{"query": []}]}],
    [{"name": "n", "data": []}],
    [LEGACY_EVALS[0], LEGACY_EVALS[0]],
    [{"query": "a"}],
    [LEGACY_TURNS[0], {"query": "x"}],
)
REPOSITORIES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "a wrong value and a wrong key, in camelCase": ({"a": CAMEL_CASE}, ()),
    "every file is reported, and good ones are loaded": (
        {"a": "{", "b": numbered("a", "b"), "c": eval_set({}), "d": [1], "e": eval_set(case())},
        (),
    ),
    "cases of a file": ({"x/a": numbered("a_0", "a_1", "a_2"), "x/b": ONE}, ("x/a.test.json:a_2, a_0",)),
    "a file and one case of it": ({"a": numbered("a_0", "a_1")}, ("a.test.json", "a.test.json:a_1")),
    "a case of a directory": ({"x/a": numbered("a_0", "a_1"), "x/b": ONE}, ("x:a_1",)),
    "a glob of ids in a glob of files": (AB, ("*.test.json:?_0",)),
    "an unknown id": (AB, ("a.test.json:a_9",)),
    "a glob of ids that matches nothing": (AB, ("a.test.json:a_0,zz*",)),
    "an unknown id in a directory": (AB, (".:c_*",)),
    "an unknown id, perhaps of a broken file": ({"a": "{", "b": ONE}, (".:zz",)),
    "a case that is not selected is not checked": ({"a": eval_set(case(eval_id="ok"), BARE)}, ("a.test.json:ok",)),
    "weights that only another case uses": (
        {"test_config.json": WEIGHTS, "a": eval_set(case(rubrics=[OWN]), case(eval_id="d"))},
        ("a.test.json:d",),
    ),
    "weights that a broken file may use": ({"test_config.json": WEIGHTS, "a": ONE, "b": "{"}, ()),
    "the nearest config": (
        {
            **{"test_config.json": scored(0.1), "x": ONE, "a/x": ONE, "a/b/x": ONE, "a/b/c/x": ONE},
            **{"a/b/test_config.json": scored(0.2), "a/b/c/eval_config.json": scored(0.4)},
            "a/b/c/test_config.json": scored(0.3),
        },
        (),
    ),
    "names that are almost those of a config": (
        {
            **{"a/x": ONE, "a/test-config.json": scored(0.1), "a/b/x": ONE, "a/b/Config.json": scored(0.1)},
            **{"c/x": ONE, "c/test_configs.json": scored(0.1), "c/eval_config.json": scored(0.1)},
            **{"d/x": ONE, "d/agent.json": scored(0.1), "d/tsconfig.json": {"compilerOptions": {}}},
            **{"e/x": ONE, "e/test_config.json": scored(0.1), "e/safety_eval_config.json": scored(0.2)},
            **{"e/strict_config.json": scored(0.3), "e/sampler_config.json": {"eval_config": scored(0.4)}},
            **{"e/jest.config.json": {"criteria": {"mine": 1}}, "e/broken_config.json": "{", "e/config.json": [1]},
        },
        (),
    ),
    "names that are almost those of a config below one": (
        {"a/x": ONE, "a/test-config.json": scored(0.1), "test_config.json": scored(0.1)},
        (),
    ),
    "a broken config of two files": (
        {"test_config.json": '{"criteria": {"response_match_score": 0.5,}}', "a": ONE, "b": eval_set(turns())},
        (),
    ),
    **{f"an older form: {json.dumps(value)[:60]}": ({"old": value}, ()) for value in OLDER_FORMS},
    "the current form with an older key": ({"a": eval_set(turns(TURN | {"query": "a"}))}, ()),
}


def test_load_suite__repositories(tmp_path: Path) -> None:
    write(tmp_path / "test_config.json", scored(0.9))  # Above all of them: nobody's.
    blocks = []
    for number, (name, (files, targets)) in enumerate(REPOSITORIES.items()):
        for path, value in files.items():
            write(tmp_path / str(number) / (path if "." in path else f"{path}.test.json"), value)
        blocks.append(f"== {name}\n{seen(load_suite(tmp_path / str(number), targets))}")
    check("golden_evalset_repositories.txt", "\n".join(blocks))


# Files of other tools that have the names of ours.

TSCONFIG = '{\n  // of the tests\n  "extends": "./tsconfig.json",\n  "compilerOptions": {"types": ["jest"],},\n}'
TRPC_TURN = {"invocationId": "1", "userContent": {"role": "user", "content": "add 2 3"}, "tools": [{"name": "add"}]}
TRPC = {"evalSetId": "math", "evalCases": [{"evalId": "add", "conversation": [TRPC_TURN]}]}
RAG = {"testdata_path": "qa.jsonl", "requested_metrics": ["groundedness", "latency"], "target_url": "http://127.0.0.1"}
FOREIGN: dict[str, Any] = {
    "web/tsconfig.test.json": TSCONFIG,
    "api/appsettings.test.json": {"Logging": {"LogLevel": {"Default": "Debug"}}, "ConnectionStrings": {"db": "x"}},
    "web/jest.test.json": {"testEnvironment": "jsdom", "reporters": ["default"]},
    "load/k6.test.json": {"scenarios": {"peak": {"executor": "shared-iterations"}}, "thresholds": {}},
    "api/shop.test.json": {"info": {"name": "shop"}, "item": [{"name": "GET", "event": []}]},
    "aws/event.test.json": {"events": [{"source": "aws.s3", "detail": {}}]},
    "go/math.evalset.json": TRPC,
    "bal/sessions.evalset.json": {"id": "1", "name": "s", "description": "", "threads": [{"id": "t", "traces": []}]},
    "rules/basic.evalset.json": {"name": "basic", "rubrics": [{"id": "final_response_quality", "levels": [0, 1]}]},
    "rag/qa.test.json": [{"question": "Who?", "ground_truth": "I", "contexts": []}],
    "rag/queries.test.json": [{"query": "Who?", "answer": "I", "contexts": []}],
    "dpo.test.json": [{"prompt": "Who?", "preference": "a"}],
    "charts.test.json": [{"name": "sales", "data": [1, 2, 3]}],
    "charts2.test.json": [{"name": "sales", "data": [{"x": 1, "y": 2}]}],
    "lines.test.json": '{"messages": [{"role": "user"}]}\n{"messages": []}\n',
    "broken.test.json": '{"compilerOptions": {"types": ["jest"]',
    "words.test.json": ["a", "b"],
    "utf16.test.json": TSCONFIG.encode("utf-16"),
}
FOREIGN_CONFIGS: dict[str, Any] = {
    "host and port": {"host": "localhost", "port": 8080},
    "of an evaluator of RAG": RAG,
    "with comments": '{\n  // of the load test\n  "vus": 10,\n  "thresholds": {},\n}',
    "of a judge": {"metrics": [{"name": "Correctness", "criteria": "Is it right?"}], "model_config": {"name": "m"}},
    "a list": [{"url": "http://127.0.0.1"}],
}
OURS: dict[str, Any] = {
    "a key of the set": {"eval_sets_id": "s", "eval_case": [case()]},
    "no keys of the set": {"name": "s", "cases": [case()]},
    "mixed spellings": {"evalSetId": "s", "evalCases": [case()]},
    "half in camelCase": {"evalSetId": "s", "eval_cases": [case()]},
    "a case in camelCase": {"evalId": "c", "conversation": []},
    "a key of a turn": [{"qurey": "a", "reference": "b"}],
    "a key of an expectation": [{"query": "a", "expected_tool_uses": []}],
    "turns beside other keys": [{"query": "a", "reference": "b", "contexts": 1}, 0],
    "a truncated set": '{"eval_set_id": "s", "eval_cases": [',
    "a broken set without its id": '{"eval_cases": [{,',
    "in single quotes": "{'eval_set_id': 's', 'eval_cases': []}",
    "in YAML": "eval_set_id: s\neval_cases: []\n",
    "a comment": '{"eval_set_id": "s", // mine\n "eval_cases": []}',
    "its schema only": {"$schema": "https://example.com/eval-set.schema.json", "cases": []},
    "a config": {"criteria": {"response_match_score": 1}},
    "a result": {"eval_set_result_id": "r", "eval_case_results": []},
    "a session": {"id": "1", "appName": "bot", "userId": "u", "events": []},
    **{f"nothing: {text!r}": text for text in ("", " ", "{}", "[]", "{", "null", "5", '"eval"')},
}
OUR_CONFIGS: dict[str, Any] = {
    "a typo": {"critera": {"response_match_score": 1}},
    "a typo, and no metric of ours": {"crteria": {"mine": 1}},
    "nothing to gate": {"criteria": {}},
    "no key": {},
    "another shape": {"eval_metrics": [{"name": "accuracy", "threshold": 1}]},
    "another shape, too": {"metrics_to_run": ["response_match_score"]},
    "criteria without their key": {"tool_trajectory_avg_score": 1.0},
    "criteria below another key": {"evaluation": {"criteria": {"mine": 1}}},
    "only a simulator": {"user_simulator_config": {}},
    "only a simulator, in camelCase": {"userSimulatorConfig": {}},
    "a trailing comma": '{"criteria": {"response_match_score": 1,}}',
    "truncated": '{"criteria": {"resp',
    "its schema only": {"$schema": "https://example.com/test-config.schema.json", "port": 1},
}


def foreign_in(root: Path, *targets: str, **options: Any) -> tuple[Suite, list[str]]:
    suite = load_suite(root, targets, **options)
    return suite, [str(problem.file) for problem in suite.problems if problem.code == "foreign-file"]


def test_load_suite__files_of_other_tools_are_named_and_not_run(tmp_path: Path) -> None:
    for path, value in FOREIGN.items():
        if isinstance(value, bytes):
            (tmp_path / path).write_bytes(value)
        else:
            write(tmp_path / path, value)
    suite, foreign = foreign_in(tmp_path)
    assert foreign == sorted(FOREIGN)
    assert [problem.code for problem in suite.errors] == ["no-eval-files"], "nothing was evaluated"
    write(tmp_path / "ours.evalset.json", ONE)
    suite, foreign = foreign_in(tmp_path)
    assert (foreign, [file.path for file in suite.files]) == (sorted(FOREIGN), ["ours.evalset.json"])
    assert not suite.errors and suite.file_count == 1
    said = "".join(f"{problem.message} {problem.hint}" for problem in suite.problems)
    assert said.count("`exclude`") == len(FOREIGN)
    assert not re.search("[Dd]elete|[Rr]ename|migrate", said)
    exclude = ["*.test.json", "go/", "bal/", "rules/"]
    assert foreign_in(tmp_path, exclude=exclude)[0].problems == ()
    for path in FOREIGN:
        suite, foreign = foreign_in(tmp_path, path, "ours.evalset.json")
        assert suite.errors and not foreign, f"{path} is named, so that it is an error"
        assert path.startswith("go/") or not re.search("[Dd]elete|[Rr]ename|migrate", str(suite.errors))


@pytest.mark.parametrize("name", OURS)
def test_load_suite__a_mistake_in_an_eval_file_is_an_error_with_its_hint(name: str, tmp_path: Path) -> None:
    write(tmp_path / "a.test.json", OURS[name])
    write(tmp_path / "b.test.json", ONE)
    suite, foreign = foreign_in(tmp_path)
    assert not foreign
    assert {problem.file for problem in suite.errors} == {"a.test.json"}
    assert all(problem.hint for problem in suite.errors)


@pytest.mark.parametrize("name", FOREIGN_CONFIGS)
@pytest.mark.parametrize("file", ["test_config.json", "eval_config.json"])
def test_config_finder__a_config_of_another_tool_is_passed_over(name: str, file: str, tmp_path: Path) -> None:
    """What is above it applies, or what is beside it, or the defaults."""
    write(tmp_path / "evals/a.test.json", ONE)
    write(tmp_path / "evals" / file, FOREIGN_CONFIGS[name])
    suite, foreign = foreign_in(tmp_path)
    assert (foreign, suite.files[0].config.source, suite.errors) == ([f"evals/{file}"], None, ())
    assert "`exclude`" in str(suite.problems) and "`config`" in str(suite.problems)
    assert "elete" not in str(suite.problems)
    write(tmp_path / "test_config.json", scored(0.5))
    assert foreign_in(tmp_path)[0].files[0].config.source == "test_config.json"
    [other] = {"test_config.json", "eval_config.json"} - {file}
    write(tmp_path / "evals" / other, scored(0.5))
    suite, foreign = foreign_in(tmp_path, exclude=[f"evals/{file}"])
    assert (foreign, suite.files[0].config.source, suite.problems) == ([], f"evals/{other}", ())
    assert foreign_in(tmp_path, config=Path("evals") / file)[0].errors, "it is named"


def test_render_text__notices_that_say_the_same_are_one(tmp_path: Path) -> None:
    write(tmp_path / "a.test.json", ONE)
    for number in range(40):
        write(tmp_path / f"web{number:02}.test.json", '{"host": "x"}')
    write(tmp_path / "test_config.json", '{"host": "x"}')
    suite, foreign = foreign_in(tmp_path)
    assert len(foreign) == 41, "each is in results.json"
    text = render_text(suite.problems)
    assert "web01.test.json, web02.test.json, web03.test.json and 36 more files" in text
    assert len(text.splitlines()) < 10 and "A config above" not in text


HINTS: dict[str, tuple[Any, Any, list[str], str]] = {
    "a judge's option outside of its object": (
        ONE,
        {"criteria": {"final_response_match_v2": {"threshold": 0.5, "judge_model": "gemini-2.5-pro"}}},
        [],
        '`judge_model_options`: {"judge_model": ...}',
    ),
    "a metric of DeepEval": (ONE, {"criteria": {"GEval": 0.5}}, [], "custom-metrics/#deepevals-metrics"),
    "a name of the current format in the legacy one": (
        [{"query": "a", "expected_tool_use": [{"name": "x", "tool_input": {}}]}],
        None,
        [],
        "Rename `name` to `tool_name`",
    ),
    "turns in the legacy format without what the user says": (
        [{"question": "a", "expected_tool_use": []}],
        None,
        [],
        "Rename `question` to `query`.",
    ),
    "cases of a format of its own": (
        {"name": "x", "test_scenarios": [{"query": "a", "expected_tool_use": []}]},
        None,
        [],
        "a format of its own",
    ),
    "an answer of another agent that is a text": (
        [{"query": "a", "expected_intermediate_agent_responses": ["b"]}],
        None,
        [],
        'Write {"author": "sub_agent", "text": "..."}.',
    ),
    "a string that is not closed": (
        '{"eval_set_id": "a\n", "eval_cases": []}',
        None,
        [],
        "If it should end before this, add",
    ),
    "a case as another argument": (ONE, None, ["a.test.json", "c"], "It is a case: write `a.test.json:c`."),
}
"""An eval file, a config or None, the targets, and what to do."""


@pytest.mark.parametrize("name", HINTS)
def test_load_suite__says_what_to_write_instead(name: str, tmp_path: Path) -> None:
    file, config, targets, words = HINTS[name]
    write(tmp_path / "a.test.json", file)
    if config is not None:
        write(tmp_path / "test_config.json", config)
    [problem] = load_suite(tmp_path, targets).errors
    assert words in str(problem.hint)


@pytest.mark.parametrize("name", OUR_CONFIGS)
def test_config_finder__a_mistake_in_a_config_is_an_error(name: str, tmp_path: Path) -> None:
    write(tmp_path / "a.test.json", ONE)
    write(tmp_path / "test_config.json", OUR_CONFIGS[name])
    suite, foreign = foreign_in(tmp_path)
    assert not foreign and {problem.file for problem in suite.errors} == {"test_config.json"}


def test_config_finder__exclude_reaches_configs(tmp_path: Path) -> None:
    """Says so of one with criteria; that of a file that is run although it is excluded applies."""
    write(tmp_path / "evals/a.test.json", ONE)
    write(tmp_path / "evals/test_config.json", scored(0.5))
    suite = load_suite(tmp_path, exclude=["test_config.json"])
    assert [(problem.code, problem.file) for problem in suite.problems] == [
        ("config-excluded", "evals/test_config.json")
    ]
    assert suite.files[0].config.source is None
    for exclude in (["/test_config.json"], ["evals/"]):
        suite = load_suite(tmp_path, ["evals/a.test.json"], exclude=exclude)
        assert (suite.files[0].config.source, suite.problems) == ("evals/test_config.json", ())


# Config files: where they are found, what they may hold, what becomes of it.


def parse(value: Any) -> tuple[EvalConfig | None, list[Problem]]:
    document, problems = parse_document(json.dumps(value, indent=2).encode(), "test_config.json")
    assert document is not None
    return parse_config(document, problems)


def test_config__samples() -> None:
    """What is read of each, and what is said of it."""
    blocks = []
    for name, value in {**GOOD_CONFIGS, **BAD_CONFIGS}.items():
        config, problems = parse(value)
        wrong = any(problem.severity is Severity.ERROR for problem in problems)
        assert (config is None) == wrong, name
        assert not (problems and name in GOOD_CONFIGS), name
        assert all(problem.line and problem.column and problem.hint for problem in problems), name
        accepted = schema_accepts("test-config", value)
        assert accepted or wrong, name
        read = [f"{one.metric} {one.threshold} {dict(one.options)}\n" for one in config.criteria] if config else []
        title = name + ", for the models only" * (accepted and wrong)
        blocks.append(f"== {title}\n{''.join(read)}{render_text(problems)}")
    check("golden_evalset_configs.txt", "\n".join(blocks).replace(docs_page("criteria"), "(the page of criteria)"))


OTHER_THAN_DEFAULT: dict[str, Any] = {
    "threshold": 1.0,
    "include_intermediate_responses_in_final": True,
    "match_type": "IN_ORDER",
    "ignore_args": True,
    "args_match": "subset",
    "match": "exact",
    "depth": ["a > *"],
    "keys": {"a": "any"},
    "args": {"f": {"x": "any"}},
    "rules": [{"never": "f"}],
    "strict_order": False,
    "strict_args": True,
    "args_credit": True,
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
    **{
        "only_context": True,
        "prompt_template": "Rate {response}.",
        "system_instruction": "Be strict.",
        "scale": [1.0, 5.0],
    },
    "backend": "vertex",
    **{"names": True, "states": True, "negation": True, "extra": "forbid"},
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
    if metric == "judge_prompt":
        fields["direction"] = "lower"

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

    read, _ = parse(snake)
    assert read is not None and parse(camels)[0] == read
    assert read.user_simulator_config == simulated and read.custom_metrics == {"mine": mine}
    assert set(simulated) == set(LlmBackedUserSimulatorConfig.model_fields)


def test_config_finder__a_config_that_is_named(tmp_path: Path) -> None:
    write(tmp_path / "a/test-config.json", scored(0.1))
    write(tmp_path / "a/x.test.json", eval_set(case()))
    (tmp_path / "a/test_config.jsonc").mkdir()
    assert not load_suite(tmp_path, config=Path("a/test-config.json")).problems
    suite = load_suite(tmp_path, config=tmp_path / "none.json")
    assert (codes(suite.problems).count("config-not-found"), suite.files) == (1, ())
    assert codes(read_config(tmp_path / "none.json", "none.json")[1]) == ["unreadable-file"]


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
    found = [
        line
        for name in ("findings", "configs")
        for block in (DATA / f"golden_evalset_{name}.txt").read_text(encoding="utf-8").split("== ")
        if ", for the models only\n" in block
        for line in block.splitlines()
    ]
    result = {code for line in found for code in re.findall(r"^ .* (?:error|warning) \[([a-z-]+)\]", line)}
    text = (ROOT / "docs" / "problems.md").read_text(encoding="utf-8")
    section = text.split("## JSON Schemas for editors", 1)[1].split("these errors:", 1)[1]
    listed = set(re.findall(r"`([a-z]+(?:-[a-z]+)+)`", section))
    # These take more than one file, or a config that is not the default. The last one is a warning.
    more = {"duplicate-eval-set-id", "needs-scenario", "no-rubrics", "zero-rubric-weights"}
    assert listed == (result | more) - {"empty-eval-set"}


SMALL: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, 1, 2.5, -1, "", "x", "1", "1.5", "true", "yes", [], {}, [[]], ["x", []], [{}]]
)


@given(data=st.data())
def test_schemas__agree_on_mutated_files(data: st.DataObject) -> None:
    sample = data.draw(st.sampled_from([*GOOD_EVAL_SETS.values(), *GOOD_SCENARIOS.values()]))
    value = copy.deepcopy(sample)
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

SOURCES = [ROOT / "src"]
KEBAB = re.compile(r"[a-z0-9]+(-[a-z0-9]+)+")
MAKERS: dict[str, int | None] = {
    **dict.fromkeys(("Problem", "NoChoice", "_Finding", "refusal", "TableReader", "_found"), None),
    **dict.fromkeys(("refuse", "error", "notice", "_error", "warning", "edit_problem", "_Refused"), 0),
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
        for folder in SOURCES
        for path in folder.rglob("*.py")
        if re.search(rf"\b({'|'.join(MAKERS)}|_ALIASES)\b", source := path.read_text("utf-8"))
        for code in codes_in(ast.parse(source, filename=str(path)))
    }
    text = (ROOT / "docs" / "problems.md").read_text(encoding="utf-8")
    listed = re.findall(r"^### `([a-z0-9-]+)`\n\S", text.partition("\n## Failures of a run\n")[0], re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert len(made) > 40
    assert made - set(listed) == set(), "add them to docs/problems.md"
    assert set(listed) - made == set(), "nothing reports them any more"


def test_load_suite__a_key_of_the_legacy_format_that_is_almost_right_is_a_warning(tmp_path: Path) -> None:
    """ADK's converter drops it without a word: an expectation would be lost."""
    lost = [{"query": "a", "expected_tool_uses": []}]
    inside = {"query": "a", "expected_tool_use": [{"tool_name": "f", "tool_input": {}, "mock_tool_outputs": 1}]}
    write(tmp_path / "a.test.json", lost)
    write(tmp_path / "b.test.json", [{"name": "b", "data": [inside], "initial_sesion": {}}])
    write(tmp_path / "c.test.json", [{"query": "a", "notes": "ours", "reference": "b", "references": "c"}])
    write(tmp_path / "test_config.json", {"criteria": {"safety_v1": 1}})
    warnings = [problem for problem in load_suite(tmp_path).problems if problem.severity is Severity.WARNING]
    assert [(problem.code, problem.file, problem.path) for problem in warnings] == [
        ("misspelt-key", "a.test.json", "[0].expected_tool_uses"),
        ("misspelt-key", "b.test.json", "[0].data[0].expected_tool_use[0].mock_tool_outputs"),
        ("misspelt-key", "b.test.json", "[0].initial_sesion"),
    ]


def test_load_suite__keys_that_decide_elsewhere_only(tmp_path: Path) -> None:
    turn = {
        "user_content": {"parts": [{"text": "Hi"}]},
        "final_response": {"parts": [{"function_call": {"name": "greet"}}, {"text": "Hello"}]},
    }
    session = {"app_name": "a", "user_id": "u", "initialState": {}, "final_session_state": {}, "trace": 1}
    case = {"eval_id": "c", "threshold": 0.5, "skip": True, "intermediate_data": {}, "tags": [], "notes": "x"}
    case |= {"conversation": [turn], "session_input": session}
    write(tmp_path / "a.test.json", {"eval_set_id": "a", "criteria": {}, "owner": "me", "eval_cases": [case]})
    found = {problem.path: (problem.code, problem.hint) for problem in load_suite(tmp_path).problems}
    inside = "eval_cases[0].conversation[0].final_response.parts[0].function_call"
    assert {path: code for path, (code, _) in found.items()} == {
        "criteria": "misspelt-key",
        "eval_cases[0].threshold": "misspelt-key",
        "eval_cases[0].skip": "misspelt-key",
        "eval_cases[0].intermediate_data": "misspelt-key",
        "eval_cases[0].session_input.initialState": "misspelt-key",
        "eval_cases[0].session_input.final_session_state": "misspelt-key",
        inside: "odd-message",
    }
    assert "test_config.json" in str(found["criteria"]) and "[[quarantine]]" in str(found["eval_cases[0].skip"])
    assert found["eval_cases[0].session_input.initialState"][1] == "Did you mean `state`?"


def test_load_suite__a_config_that_applies_to_nothing(tmp_path: Path) -> None:
    write(tmp_path / "evals/a.test.json", ONE)
    for folder in ("evals", "config", "old"):
        write(tmp_path / folder / "test_config.json", {"criteria": {"safety_v1": 1}})

    def unused(**options: Any) -> list[str | None]:
        return [each.file for each in load_suite(tmp_path, **options).problems if each.code == "config-unused"]

    assert unused() == ["config/test_config.json", "old/test_config.json"]
    assert unused(exclude=["old/"]) == ["config/test_config.json"]
    assert unused(config=Path("config/test_config.json")) == []
    assert unused(targets=["evals"]) == []


def test_load_suite__a_criterion_in_two_spellings_and_a_scale_that_falls(tmp_path: Path) -> None:
    write(tmp_path / "a.test.json", ONE)
    prompt = {"threshold": 1, "prompt_template": "{response}", "scale": [5, 1]}
    criteria = {"tool_trajectory_avg_score": {"threshold": 1, "matchType": "EXACT", "match_type": "IN_ORDER"}}
    write(tmp_path / "test_config.json", {"criteria": {**criteria, "judge_prompt": prompt}})
    found = [(each.code, each.path) for each in load_suite(tmp_path).problems if each.file == "test_config.json"]
    assert sorted(found) == [
        ("duplicate-key", "criteria.tool_trajectory_avg_score.match_type"),
        ("invalid-value", "criteria.judge_prompt.scale"),
    ]


def test_load_suite__a_rubric_without_text(tmp_path: Path) -> None:
    empty: list[dict[str, Any]]
    empty = [{"rubric_id": name, "rubric_content": text} for name, text in (("a", {}), ("b", {"text_property": " "}))]
    case = {"eval_id": "c", "conversation": [{"user_content": {"parts": [{"text": "Hi"}]}}], "rubrics": empty}
    write(tmp_path / "a.test.json", {"eval_set_id": "a", "eval_cases": [case]})
    quality = {"threshold": 1, "rubrics": [{**rubric, "rubric_id": f"all-{rubric['rubric_id']}"} for rubric in empty]}
    write(tmp_path / "test_config.json", {"criteria": {"rubric_based_final_response_quality_v1": quality}})
    suite = load_suite(tmp_path)
    assert [(problem.code, str(problem.severity), problem.path) for problem in suite.problems] == [
        ("invalid-value", "warning", f"{where}.rubrics[{number}]")
        for where in ("eval_cases[0]", "criteria.rubric_based_final_response_quality_v1")
        for number in (0, 1)
    ]
    assert not suite.errors, "ADK loads it"


def test_load_suite__a_pattern_of_exclude_that_matches_nothing(tmp_path: Path) -> None:
    for name in ("evals/slow/a.test.json", "evals/b.test.json", "evals/old/test_config.json", "evals/notes.json"):
        write(tmp_path / name, ONE)

    def unused(*exclude: str, **options: Any) -> list[tuple[str, str | None]]:
        problems = load_suite(tmp_path, exclude=exclude, **options).problems
        return [(each.message, each.hint) for each in problems if each.code == "exclude-unused"]

    write(tmp_path / ".gitignore", "drafts/\n")
    write(tmp_path / "evals/drafts/d.test.json", ONE)
    assert unused("evals/slow/", "/evals/old/", "evals/*s.json", "node_modules/", "#a/b", "!evals/c", "") == []
    assert unused(".venv/**", "node_modules/*/", "evals/drafts/**") == [], "no misspelt names"
    assert unused("evals/slwo/", "evals/new/x/**", "c.test.json") == [
        ("The pattern `evals/slwo/` of `exclude` matches no eval file and no config.", "Did you mean `evals/slow`?"),
        ("The pattern `evals/new/x/**` of `exclude` matches no eval file and no config.", "Correct it, or remove it."),
        ("The pattern `c.test.json` of `exclude` matches no eval file and no config.", "Correct it, or remove it."),
    ]
    assert unused("evals/slwo/", targets=["evals/b.test.json"]) == [], "it may be for the others"


def test_load_suite__a_config_in_yaml_is_missed_aloud(tmp_path: Path) -> None:
    """Only agents-cli has such configs, for its datasets."""
    write(tmp_path / "evals/a.test.json", ONE)
    write(tmp_path / "evals/eval_config.yaml", "criteria:\n  response_match_score: 0.8\n")
    write(tmp_path / "test_config.yml", "# ours\nmetrics: [a]\n")
    suite = load_suite(tmp_path)
    found = [(problem.code, problem.file) for problem in suite.problems]
    assert found == [("config-misnamed", "evals/eval_config.yaml"), ("config-misnamed", "test_config.yml")]
    assert "JSON" in suite.problems[0].message and '{"criteria": ' in str(suite.problems[0].hint)
    write(tmp_path / "agents-cli-manifest.yaml", "name: a\n")
    assert not load_suite(tmp_path).problems


def test_config__keys_that_are_comments_are_no_finding(tmp_path: Path) -> None:
    write(tmp_path / "a.test.json", ONE)
    write(tmp_path / "test_config.json", {"_comment": "why", "//": "how", "$schema": "x", **scored(0.5)})
    assert not load_suite(tmp_path).problems
    write(tmp_path / "test_config.json", {"eval_metrics": [{"name": "tone"}], **scored(0.5)})
    [problem] = load_suite(tmp_path).problems
    assert 'keys of "criteria"' in str(problem.hint)


def test_render_text__findings_that_say_the_same_of_places_in_a_file_are_one(tmp_path: Path) -> None:
    names = [{**TURN, "user_content": f"message {number}, longer than what is quoted of it"} for number in range(30)]
    write(tmp_path / "a.test.json", json.dumps(eval_set(case(conversation=names), case(eval_id=1)), indent=2))
    problems = load_suite(tmp_path).problems
    assert len(problems) == 31, "each is in results.json"
    text = render_text(problems)
    assert text.count("[wrong-type]") == 2 and re.search(r"The same holds for lines (\d+, ){4}\d+ and 24 more\.", text)
