"""What is said of one mistake in a repository: what is wrong, at which line and column, and what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from evalset_samples import codes, load

from agent_eval_scoring.evalset.loading import load_suite
from agent_eval_scoring.evalset.problem_texts import render_text

MESSAGE = {"parts": [{"text": "Hi"}]}
TURN = {"user_content": MESSAGE, "final_response": MESSAGE}
CASE = {"eval_id": "a", "conversation": [TURN]}
SET = {"eval_set_id": "s", "eval_cases": [CASE]}
RUBRIC = {"rubric_id": "kind", "rubric_content": {"text_property": "It is kind."}}
MANIFEST = 'agent_directory: "app"\n'
PROMPT = "custom_metrics:\n  - name: tone\n    prompt_template: 'Rate {response}.'\n"
METRIC = "metrics_to_run: [tone]\n"


def of_set(cases: Any) -> dict[str, Any]:
    return {"a.test.json": {"eval_set_id": "s", "eval_cases": cases}}


def scored(options: Any) -> dict[str, Any]:
    return {"criteria": {"tool_trajectory_avg_score": options}}


def of_turn(data: Any) -> dict[str, Any]:
    return of_set([{"eval_id": "a", "conversation": [{**TURN, "intermediate_data": data}]}])


def of_calls(call: Any) -> dict[str, Any]:
    return of_turn({"tool_uses": [call]})


def ruled(rule: Any) -> dict[str, Any]:
    return {"criteria": {"tool_rules": {"threshold": 1, "rules": [rule]}}}


def levelled(levels: Any) -> dict[str, Any]:
    metric = {"threshold": 0.5, "rubrics": [RUBRIC], "rubric_levels": {"kind": levels}}
    return {"criteria": {"rubric_based_final_response_quality_v1": metric}}


def of_cli(config: str | None, case: Any = None) -> dict[str, Any]:
    data = {"eval_cases": [case or {"eval_case_id": "a", "prompt": {"role": "user", "parts": [{"text": "Hi"}]}}]}
    files: dict[str, Any] = {"agents-cli-manifest.yaml": MANIFEST, "tests/eval/datasets/basic.json": data}
    return files if config is None else files | {"tests/eval/eval_config.yaml": config}


MISTAKES: dict[str, tuple[dict[str, Any], str, str]] = {
    "a setting in a config": (
        {"a.test.json": SET, "test_config.json": {"num_runs": 3, "criteria": {"response_match_score": 0.8}}},
        "2:1: warning [unknown-config-key] `num_runs` is not a key of a config file and is ignored.",
        "It is a setting: write `num-runs = ...` in agent-eval.toml, or `--num-runs ...`.",
    ),
    "rules of an argument without its tool": (
        {"a.test.json": SET, "test_config.json": scored({"threshold": 1, "args": {"city": "ignore_case"}})},
        "maps tools to the rules of their arguments.",
        'Write {"TOOL": {"city": "ignore_case"}}, with the tool that has `city`.',
    ),
    "an unknown condition of a rule": (
        {"a.test.json": SET, "test_config.json": ruled({"after": ["a", "b"]})},
        '6:1: error [invalid-value] `rules[0]` has the unknown condition "after".',
        'Write {"before": ["FIRST_TOOL", "SECOND_TOOL"]}, {"success_before": ["FIRST_TOOL", "SECOND_TOOL"]}, ',
    ),
    "a rule with a name for a list": (
        {"a.test.json": SET, "test_config.json": ruled({"at_most": "get"})},
        "6:1: error [invalid-value] `rules[0]` has a wrong value for `at_most`.",
        'Write {"at_most": {"TOOL": 2}}.',
    ),
    "a rule of an argument by its usual name": (
        {"a.test.json": SET, "test_config.json": scored({"threshold": 1, "args": {"f": {"a": {"regex": "x"}}}})},
        "error [invalid-value] `args` `f` has a wrong rule for `a`: `regex` is no rule",
        'Write e.g. {"pattern": "[A-Z].*"}.',
    ),
    "a list of one value that is a text": (
        {"a.test.json": SET, "test_config.json": scored({"threshold": 1, "args": {"f": {"a": {"one_of": "x"}}}})},
        "error [invalid-value] `args` `f` has a wrong rule for `a`: `one_of` must be a list of values.",
        'Write e.g. {"one_of": ["Berlin", "Bern"]}.',
    ),
    "a value of a union": (
        {"a.test.json": SET, "test_config.json": scored({"threshold": 1, "depth": "deep"})},
        "`depth` should be 'outer' or 'all', or a list, not \"deep\".",
        "Correct the value, or remove the key to use its default.",
    ),
    "criteria without their key": (
        {"a.test.json": SET, "test_config.json": {"response_match_score": 0.8}},
        "1:1: error [no-criteria]",
        'Put the criteria below the key `criteria`: {"criteria": {"response_match_score": ...}}.',
    ),
    "a threshold outside of the scale": (
        {"a.test.json": SET, "test_config.json": {"criteria": {"response_evaluation_score": 0.8}}},
        "3:30: error [threshold-out-of-range]",
        "Write a number from 1 to 5, e.g. 4.",
    ),
    "one level of a rubric": (
        {"a.test.json": SET, "test_config.json": levelled([{"score": 1, "text": "yes"}])},
        "there must be 2 to 7, not 1.",
        'Write at least two levels, e.g. [{"score": 0, ',
    ),
    "levels in percent": (
        {"a.test.json": SET, "test_config.json": levelled([{"score": 0, "text": "no"}, {"score": 100, "text": "yes"}])},
        "they go from 0 to 100, and must go from 0 to 1.",
        'Write scores from 0 to 1, e.g. [{"score": 0, ',
    ),
    "a scenario as a text": (
        of_set([{"eval_id": "a", "conversation_scenario": "Ask."}]),
        "`conversation_scenario` must be an object, not the string",
        'Write {"starting_prompt": "Hello", "conversation_plan": "Book a table for two."}.',
    ),
    "a text under the legacy name": (
        of_set([{"eval_id": "a", "conversation": [{"user_content": MESSAGE, "reference": "Yes."}]}]),
        "[unknown-key] `reference` is not a key of an invocation.",
        'This is called `final_response`. Write "final_response": {"parts": [{"text": "..."}]}.',
    ),
    "a call of OpenAI": (
        of_calls({"type": "function", "function": {"name": "get", "arguments": "{}"}}),
        "[unknown-key] `function` is not a key of a function call.",
        'This is the form of OpenAI\'s API. Write {"name": "get_weather", "args": {"city": "Berlin"}}.',
    ),
    "a call as in events": (
        of_calls({"functionCall": {"name": "get", "args": {}}}),
        "[unknown-key] `functionCall` is not a key of a function call.",
        'Remove the key `functionCall`, and write what is in it directly: {"name": "get_weather", "args": ',
    ),
    "a response as in events": (
        of_turn({"tool_responses": [{"function_response": {"name": "get", "response": {}}}]}),
        "[unknown-key] `function_response` is not a key of a function response.",
        'Remove the key `function_response`, and write what is in it directly: {"name": "get_weather", "response": ',
    ),
    "a metric of DeepEval": (
        {"a.test.json": SET, "test_config.json": {"criteria": {"AnswerRelevancyMetric": 0.5}}},
        "3:1: error [unknown-metric] There is no metric `AnswerRelevancyMetric`.",
        'If it is a class of DeepEval, write "answer_relevancy": {"threshold": 0.5, "metric": "AnswerRelevancyMetric"}',
    ),
    "a call's name with parentheses": (
        of_calls({"name": "get()", "args": {}}),
        "[invalid-value] No tool can be named `get()`, so no call of the agent can match it.",
        'Write only the tool\'s name: "get".',
    ),
    "a call's name with a remark": (
        of_calls({"name": "mcp (remote)", "args": {}}),
        "[invalid-value] No tool can be named `mcp (remote)`, so no call of the agent can match it.",
        "Write the name that the agent declares: it has no spaces and no parentheses.",
    ),
    "a call beside the content of an event": (
        of_turn({"invocation_events": [{"author": "a", "function_call": {"name": "get", "args": {}}, "text": None}]}),
        "[misspelt-key] `function_call` of an event is not read, so nothing is expected.",
        'Write "content": {"parts": [{"function_call": ...}]}.',
    ),
    "a tool in another spelling": (
        {
            **of_calls({"name": "get_weather", "args": {}}),
            "test_config.json": {
                "criteria": {"trajectory_single_tool_use": {"threshold": 1, "tool_name": "getWeather"}}
            },
        },
        "5:14: warning [tool-name-differs] No case expects a call of `getWeather`, but of `get_weather`.",
        "Did you mean `get_weather`?",
    ),
    "a tool's response as a text": (
        of_turn({"tool_uses": [], "tool_responses": [{"name": "get", "response": "4"}]}),
        '[wrong-type] `response` must be an object, not the string "4".',
        'Write {"result": "..."}.',
    ),
    "a key twice, the last without a value": (
        {
            "a.test.json": '{"eval_set_id": "s", "eval_cases": [{"eval_id": "a",\n"conversation": '
            '[{"user_content": {"parts": [{"text": "Hi"}]}}],\n"conversation": []}]}'
        },
        "2:1: error [duplicate-key] The key `conversation` occurs more than once",
        "Keep one of them.",
    ),
    "a list that is not closed": (
        {"a.test.json": '{"eval_set_id": "s", "eval_cases": [{"eval_id": "a"}}'},
        "1:53: error [not-json]",
        "A `]` is missing before this `}`.",
    ),
    "eval files of a misspelt name, beside a recording": (
        {"evals/a.tests.json": SET, "answers.json": SET, "evals/test_config.json": {"criteria": {"safety_v1": 1}}},
        "error [no-eval-files] No eval file was found",
        "`evals/a.tests.json` looks like an eval file: rename it, e.g. to `a.test.json`.",
    ),
    "an id of ADK in a dataset": (
        of_cli(METRIC + PROMPT, {"eval_id": "a", "prompt": {"parts": [{"text": "Hi"}]}}),
        "[case-without-id] `eval_id` is not read in a dataset",
        "Rename `eval_id` to `eval_case_id`.",
    ),
    "cases by another name": (
        {"a.test.json": {"eval_set_id": "s", "evalcases": [CASE]}},
        "3:1: error [missing-field] The required field `eval_cases` of an eval set is missing.",
        "Rename `evalcases` to `eval_cases`.",
    ),
    "a conversation by another name": (
        of_set([{"eval_id": "a", "conversations": [TURN]}]),
        "6:1: error [no-conversation] The case has neither a conversation nor a scenario.",
        "Rename `conversations` to `conversation`.",
    ),
    "messages instead of turns": (
        of_set([{"eval_id": "a", "conversation": [{"role": "user", "content": "Hi"}]}]),
        "7:1: error [missing-field] The required field `user_content` of an invocation is missing.",
        'This is a message, not a turn. Write {"user_content": {"parts": [{"text": "..."}]}, ',
    ),
    "legacy turns with a question": (
        {"a.test.json": [{"question": "Hi", "expected_tool_use": []}]},
        "3:1: error [missing-field] The required field `query` of a turn is missing.",
        "Rename `question` to `query`.",
    ),
    "a legacy key that is almost right": (
        {"a.test.json": [{"query": "Hi", "expected_tool_uses": [], "reference": "Hi"}]},
        "4:1: warning [misspelt-key] `expected_tool_uses` is not a key of a turn, so what it says is ignored.",
        "Rename it to `expected_tool_use`.",
    ),
    "no cases": (
        of_set([]),
        "3:15: error [no-eval-cases] The eval files contain no cases, so nothing would be gated.",
        "Add a case, or select other files.",
    ),
    "criteria by another name": (
        {"a.test.json": SET, "test_config.json": {"criterias": {"response_match_score": 1}}},
        "2:1: error [no-criteria] The config has no criteria, so nothing would be gated.",
        "Rename `criterias` to `criteria`.",
    ),
    "a threshold that is true": (
        {"a.test.json": SET, "test_config.json": {"criteria": {"response_match_score": True}}},
        "3:25: warning [wrong-type] The threshold of `response_match_score` is `true`, which ADK reads as 1.",
        "Write the number that you mean, e.g. 0.8.",
    ),
    "a threshold in an object that is true": (
        {"a.test.json": SET, "test_config.json": {"criteria": {"response_match_score": {"threshold": True}}}},
        "4:14: warning [wrong-type] The threshold of `response_match_score` is `true`",
        "Write the number that you mean, e.g. 0.8.",
    ),
    "a rubric without a type": (
        {
            "a.test.json": {"eval_set_id": "s", "eval_cases": [{**CASE, "rubrics": [RUBRIC]}]},
            "test_config.json": {"criteria": {"rubric_based_tool_use_quality_v1": 1}},
        },
        "25:1: error [no-rubrics] `rubric_based_tool_use_quality_v1` (`test_config.json`) has no rubric: `kind` has no",
        'Write "type": "TOOL_USE_QUALITY" in it.',
    ),
    "a word that is none of a few": (
        {"a.test.json": SET, "test_config.json": scored({"threshold": 1, "args_match": "subsett"})},
        "5:15: error [invalid-value] `args_match` should be 'exact' or 'subset', not \"subsett\".",
        "Did you mean `subset`?",
    ),
    "a placeholder that is none": (
        {
            "a.test.json": SET,
            "test_config.json": {"criteria": {"judge_prompt": {"threshold": 1, "prompt_template": "Rate {answer}."}}},
        },
        "5:20: error [invalid-value] `prompt_template` must contain {response} or {agent_data}, and has {answer}",
        "Placeholders are {prompt}, {response}, {reference} and {agent_data}.",
    ),
    "a custom metric with the name of one of ADK": (
        {
            "a.test.json": SET,
            "test_config.json": {
                "custom_metrics": {"response_match_score": {"code_config": {"name": "a.b"}}},
                "criteria": {"response_match_score": 1},
            },
        },
        "3:1: error [custom-metric-name-taken] `custom_metrics` defines `response_match_score`",
        "Rename it, because its scores would be mistaken for those of ADK's metric.",
    ),
    "an empty config in YAML": (
        {"evals/a.test.json": SET, "evals/eval_config.yaml": ""},
        "evals/eval_config.yaml\n  warning [config-misnamed] The file is not read: ADK's eval files have a config in",
        'Write `evals/test_config.json` instead: {"criteria": {"response_match_score": 0.8}}.',
    ),
    "a config in YAML": (
        {"a.test.json": SET, "test_config.yml": "criteria:\n  tool_trajectory_avg_score: 0.5\n"},
        "warning [config-misnamed] The file is not read",
        'Write `test_config.json` instead: {"criteria": {"tool_trajectory_avg_score": 0.5}}.',
    ),
    "agents-cli: no config": (
        of_cli(None),
        "tests/eval/datasets/basic.json\n  error [no-criteria] No config selects a metric for this dataset.",
        "Write `tests/eval/eval_config.yaml`: `metrics_to_run: [NAME]`, with a built-in metric, such as",
    ),
    "agents-cli: metrics by another name": (
        of_cli("metric_to_run: [tone]\n" + PROMPT),
        "1:1: error [no-criteria] No metric is selected, so nothing would be gated.",
        "Rename `metric_to_run` to `metrics_to_run`.",
    ),
    "agents-cli: a key that is almost right": (
        of_cli(METRIC + PROMPT + "    treshold: 3\n"),
        "5:5: warning [misspelt-key] `treshold` is not a key of a metric and is ignored.",
        "Rename it to `threshold`.",
    ),
    "agents-cli: a prompt without a placeholder": (
        of_cli(METRIC + PROMPT.replace("{response}", "it")),
        "4:22: error [invalid-value] `prompt_template` must contain {response} or {agent_data}",
        "Placeholders are {prompt}, {response}, {reference} and {agent_data}.",
    ),
    "agents-cli: no votes": (
        of_cli(METRIC + PROMPT + "    judge_model_sampling_count: 0\n"),
        "5:33: error [invalid-value] `judge_model_sampling_count` should be greater than or equal to 1, not 0.",
        "Correct the value, or remove the key to use its default.",
    ),
    "agents-cli: a function of another name": (
        of_cli(METRIC + "custom_metrics:\n  - name: tone\n    custom_function: |\n      def score(instance):\n"),
        "4:22: error [custom-metric-source] `custom_function` of `tone` defines no `evaluate(instance)`",
        "Rename `score` to `evaluate`.",
    ),
    "a function with a misspelt name": (
        of_cli(
            METRIC + "custom_metrics:\n  - name: tone\n    custom_function: |\n"
            "      def evaluate(instance):\n          turns = [each for each in instance]\n"
            '          return {"score": len(trns)}\n'
        ),
        "7: warning [custom-metric-source] `tone` uses `trns`, which is not defined.",
        "Define or import it, or correct its name",
    ),
    "agents-cli: a file as a function": (
        of_cli(METRIC + "custom_metrics:\n  - name: tone\n    custom_function: metrics.py\n"),
        "4:22: error [custom-metric-source] `custom_function` of `tone` defines no `evaluate(instance)`",
        "For a file write `custom_function_file: metrics.py`, relative to this config.",
    ),
    "a metric of one's own without a function": (
        {"a.test.json": SET, "test_config.json": {"criteria": {"polite": 0.5}}},
        "3:1: error [unknown-metric] There is no metric `polite`.",
        'If it is a function of yours, name it beside `criteria`: "custom_metrics": {"polite": {"code_config": ',
    ),
    "a case on each line": (
        {"a.test.json": '{"eval_id": "a"}\n{"eval_id": "b"}\n'},
        "2:1: error [not-json] The file is not JSON: a second document begins here.",
        'Write one eval set: {"eval_set_id": "...", "eval_cases": [...]}, with these lines in the list',
    ),
    "a state that is a list": (
        of_set([CASE | {"session_input": {"app_name": "x", "user_id": "u", "state": []}}]),
        "error [wrong-type] `state` must be an object, not a list.",
        'Write an object, e.g. {"user_name": "Mina"}, or {} if there is none.',
    ),
}
"""The files, what is said with its place, and what to do."""


@pytest.mark.parametrize("name", MISTAKES)
def test_load_suite__says_what_where_and_what_to_do(name: str, tmp_path: Path) -> None:
    files, what, todo = MISTAKES[name]
    for path, value in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        text = value if isinstance(value, str) else json.dumps(value, indent=0, separators=(",", ": "))
        (tmp_path / path).write_text(text)
    problems = [problem for problem in load_suite(tmp_path).problems if problem.severity != "notice"]
    said = render_text(problems)
    assert what in said and f"hint: {todo}" in said, said
    assert said.count("hint: ") == 1, said


def test_load_suite__an_error_is_not_among_remarks(tmp_path: Path) -> None:
    """What agents-cli does otherwise matters to a run that takes place."""
    for path, value in of_cli(METRIC + PROMPT, {"eval_case_id": "a"}).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(value if isinstance(value, str) else json.dumps(value))
    assert [problem.code for problem in load_suite(tmp_path).problems] == ["dataset-message"]


def test_load_suite__a_missing_threshold_hides_no_misspelt_field(tmp_path: Path) -> None:
    config = {"criteria": {"rubric_based_final_response_quality_v1": {"rubric": "It is kind."}}}

    assert codes(load(tmp_path, config, a=SET).problems) == ["missing-field", "misspelt-criterion-field"]
