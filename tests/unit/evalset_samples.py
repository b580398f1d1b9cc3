"""Good and bad eval sets and configs: what the models say of each, and whether its JSON Schema agrees."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval_schemas import SCHEMAS
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from agent_eval.core.problem import Problem
from agent_eval.evalset.json import JsonPath
from agent_eval.evalset.loading import load_suite
from agent_eval.evalset.models.schema import (
    CriterionConfig,
    EvalCase,
    EvalConfig,
    EvalSet,
    LoadedFile,
    Suite,
)

TURN = {"user_content": {"parts": [{"text": "hi"}]}, "final_response": {"parts": [{"text": "hello"}]}}


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A document, and the findings that it must have."""

    name: str
    value: Any
    codes: tuple[str, ...] = ()
    """Codes of errors and warnings, in order of their places."""
    path: str | None = None
    """Where the first finding is."""
    says: str = ""
    """Part of the first finding's message or hint."""
    schema_agrees: bool = True
    """Errors are errors for the JSON Schema too (False: only the models can find them)."""


def write(path: Path, value: Any) -> Path:
    """A file, as JSON if it is no text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value, indent=2), encoding="utf-8")
    return path


def load(root: Path, config: Any = None, /, *targets: str, **files: Any) -> Suite:
    """What is loaded of a directory, with these eval files (`NAME.test.json`) and this config besides what it has."""
    for name, value in files.items():
        write(root / f"{name}.test.json", value)
    if config is not None:
        write(root / "test_config.json", config)
    return load_suite(root, targets)


def loaded(path: str, *cases: EvalCase, criteria: Sequence[CriterionConfig] = (), **config: Any) -> LoadedFile:
    """A file of which all cases are selected, the first one on line 3."""
    return LoadedFile(
        path=path,
        eval_set=EvalSet(eval_set_id=path, eval_cases=list(cases)),
        config=EvalConfig(source="test_config.json", criteria=tuple(criteria), **config),
        cases=cases,
        lines={case.eval_id: 3 + number for number, case in enumerate(cases)},
    )


def codes(problems: Iterable[Problem]) -> list[str]:
    return [problem.code for problem in problems]


def places(value: Any, path: JsonPath = ()) -> list[JsonPath]:
    """The paths of a value and of all values in it."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(below for step, child in children for below in places(child, (*path, step)))]


INTEGERS = st.integers()
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


def json_values(
    keys: st.SearchStrategy[str] = TEXT, *, most: int = 10, integers: st.SearchStrategy[int] = INTEGERS
) -> st.SearchStrategy[Any]:
    """Any JSON, of at most so many values."""
    numbers = integers | st.floats(allow_nan=False, allow_infinity=False)
    return st.recursive(
        st.none() | st.booleans() | numbers | TEXT,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
        max_leaves=most,
    )


@functools.cache
def _validator(name: str) -> Any:
    return Draft202012Validator(SCHEMAS[f"{name}.schema.json"]())


def schema_accepts(name: str, value: Any) -> bool:
    """Of `eval-set` or `test-config`."""
    return bool(_validator(name).is_valid(value))


def place(path: str) -> str:
    """With CASE for the first case, and TURN for its first turn."""
    return path.replace("TURN", "CASE.conversation[0]").replace("CASE", "eval_cases[0]")


def good(name: str, value: Any) -> Sample:
    return Sample(name=name, value=value)


def bad(name: str, code: str, value: Any, says: str = "", *, at: str = "", schema_agrees: bool = True) -> Sample:
    """With codes parted by spaces; in `at`, CASE is the first case, TURN its first turn, METRIC the only criterion."""
    path = place(at) or None
    if path and "METRIC" in path:
        path = path.replace("METRIC", f"criteria.{next(iter(value['criteria']))}")
    return Sample(name=name, value=value, codes=tuple(code.split()), path=path, says=says, schema_agrees=schema_agrees)


def models_only(name: str, code: str, value: Any, says: str = "", *, at: str = "") -> Sample:
    """Bad, which no JSON Schema can say."""
    return bad(name, code, value, says, at=at, schema_agrees=False)


def criterion(metric: str, **fields: Any) -> dict[str, Any]:
    return {"criteria": {metric: {"threshold": 1, **fields}}}


def eval_set(*cases: Any, **extra: Any) -> dict[str, Any]:
    return {"eval_set_id": "s", "eval_cases": list(cases), **extra}


def said(text: str) -> dict[str, Any]:
    return {"parts": [{"text": text}]}


def case(**fields: Any) -> dict[str, Any]:
    made = {"eval_id": "c", "conversation": [TURN], **fields}
    return {key: value for key, value in made.items() if value is not ...}


def turn(**fields: Any) -> dict[str, Any]:
    return {**TURN, **fields}


def with_turn(**fields: Any) -> dict[str, Any]:
    return eval_set(case(conversation=[turn(**fields)]))


def with_data(intermediate_data: Any) -> dict[str, Any]:
    return with_turn(intermediate_data=intermediate_data)


def with_part(part: Any) -> dict[str, Any]:
    return with_turn(user_content={"parts": [part]})


def with_turns(*turns: Any) -> dict[str, Any]:
    return eval_set(case(conversation=list(turns)))


def with_events(*events: Any) -> dict[str, Any]:
    return with_data({"invocation_events": list(events)})


def with_responses(*responses: Any) -> dict[str, Any]:
    return with_data({"intermediate_responses": list(responses)})


def with_case(**fields: Any) -> dict[str, Any]:
    return eval_set(case(**fields))


def rubric(rubric_id: str, **fields: Any) -> dict[str, Any]:
    return {"rubric_id": rubric_id, "rubric_content": {"text_property": "is kind"}, **fields}


def scenario(**fields: Any) -> dict[str, Any]:
    made = {"starting_prompt": "hi", "conversation_plan": "be brief", **fields}
    return {"eval_id": "c", "conversation_scenario": {key: value for key, value in made.items() if value is not ...}}


def with_scenario(**fields: Any) -> dict[str, Any]:
    return eval_set(scenario(**fields))


PERSONA: dict[str, Any] = {
    "id": "p",
    "description": "d",
    "behaviors": [{"name": "n", "description": "d", "behavior_instructions": ["i"], "violation_rubrics": ["v"]}],
}
CAMEL = {
    "evalId": "c",
    "conversation": [
        {
            "invocationId": "i",
            "userContent": {"parts": [{"functionResponse": {"name": "f", "response": {}}}]},
            "finalResponse": {"parts": [{"text": "hello"}]},
            "intermediateData": {"toolUses": [{"name": "f"}], "intermediateResponses": [["a", [{"text": "x"}]]]},
        }
    ],
    "sessionInput": {"appName": "a", "userId": "u", "sessionId": "s", "ours": 1},
    "finalSessionState": None,
}
WEB_UI_PART = {"text": "hello", "functionCall": None, "inlineData": None, "fileData": None, "thought": None}
EVENTS = {
    "invocation_events": [
        {
            "author": "a",
            "content": {"role": "model", "parts": [{"function_call": {"name": "f"}}]},
            "invocationIndex": 3,
        },
        {"author": "a", "grounding_metadata": {}, "usage_metadata": {"prompt_token_count": 1}, "model_version": "m"},
    ]
}

GOOD_EVAL_SETS = [
    good("minimal", with_case()),
    good("unknown top key", eval_set(case(), **{"$schema": "x", "color": 1})),
    good("camelCase case", eval_set(CAMEL)),
    good("unknown case key", with_case(tags=["a"], priority=1)),
    good("null role", with_turn(user_content={"role": None, "parts": [{"text": "x"}]})),
    good("web ui part", with_turn(final_response={"role": "model", "parts": [WEB_UI_PART]})),
    good("events", with_data(EVENTS)),
    good("empty intermediate data", with_data({})),
    good("null intermediate data", with_data(None)),
    good("numbers as strings", eval_set(case(creation_timestamp="1.5e3"), creation_timestamp=True)),
    good("bytes", with_part({"inline_data": {"data": "aGk=", "mime_type": "x/y"}})),
    good("url-safe bytes", with_part({"inline_data": {"data": "a_-A"}})),
    good("rubrics", with_case(rubrics=[rubric("a")], conversation=[turn(rubrics=[rubric("b")])])),
    good("app details", with_turn(app_details={"agent_details": {"a": {"name": "a", "tool_declarations": [{}]}}})),
]
GOOD_SCENARIOS = [
    good("scenario", with_scenario()),
    good("scenario and null conversation", eval_set({**scenario(), "conversation": None})),
    good("persona by name", with_scenario(user_persona="NOVICE")),
    good("persona inline", with_scenario(user_persona=PERSONA)),
]

A_RUBRIC, A_SPAN = rubric("a"), {"kind": "model", "start": 0, "end": 1}
UNANSWERED = {"user_content": TURN["user_content"]}
NO_TEMPLATE = {**PERSONA, "behaviors": [{**PERSONA["behaviors"][0], "behavior_instructions": ["{% if"]}]}
CAMEL_BEHAVIOR = {"name": "n", "description": "d", "behaviorInstructions": [], "violation_rubrics": []}
BAD_EVAL_SETS = [
    bad("no object", "not-an-eval-set", "hi"),
    bad("empty list", "not-an-eval-set", [], "empty list"),
    bad("list of cases", "not-an-eval-set", [case()], "list of cases"),
    bad("a case", "not-an-eval-set", case(), "single case"),
    bad("a config", "not-an-eval-set", {"criteria": {}}, "config file"),
    bad("a session", "not-an-eval-set", {"events": []}, "adk test"),
    bad("scenarios", "not-an-eval-set", {"scenarios": []}, "scenarios"),
    bad(
        "camelCase set", "camel-case-eval-set camel-case-eval-set", {"evalSetId": "s", "evalCases": []}, at="evalSetId"
    ),
    bad("no set id", "missing-field", {"eval_cases": []}, "eval_set_id"),
    bad("misspelt set id", "missing-field", {"eval_setid": "x", "eval_cases": []}, "Rename `eval_setid` to"),
    bad("cases an object", "wrong-type", {"eval_set_id": "x", "eval_cases": {}}, at="eval_cases"),
    bad("set id null", "wrong-type", {**eval_set(case()), "eval_set_id": None}, "null"),
    bad("eval id a number", "wrong-type", with_case(eval_id=7), "the number 7", at="CASE.eval_id"),
    bad("no eval id", "missing-field", with_case(eval_id=...), "eval_id", at="CASE"),
    bad("neither", "no-conversation", with_case(conversation=...), "exactly one", at="CASE"),
    bad("misspelt conversation", "no-conversation", with_case(conversation=..., converstion=[]), "of `conversation`"),
    bad("both null", "no-conversation", with_case(conversation=None), "exactly one"),
    bad("both", "conversation-and-scenario", eval_set({**scenario(), "conversation": []}), at="CASE"),
    bad("text as content", "wrong-type", with_turn(user_content="hi"), '{"parts": [{"text": "..."}]}'),
    bad("parts a string", "wrong-type", with_turn(final_response={"parts": "x"}), at="TURN.final_response.parts"),
    bad(
        "no user content", "missing-field", with_turns({"final_response": said("x")}), "`user_content` of an invocation"
    ),
    bad("unknown key of a turn", "unknown-key", with_turn(final_respones={}), "mean `final_response`"),
    bad("key of a recording in a turn", "unknown-key", with_turn(spans=[A_SPAN]), "Remove it", at="TURN.spans"),
    bad("older name in a turn", "unknown-key", with_turn(expected_tool_use=[]), "write `intermediate_data`"),
    bad("unknown content key", "unknown-key", with_turn(user_content={"part": []}), "Did you mean `parts`"),
    bad(
        "unknown event key is fine, its content's is not",
        "unknown-key",
        with_events({"author": "a", "x": 1, "content": {"rol": "m"}}),
        at="TURN.intermediate_data.invocation_events[0].content.rol",
    ),
    bad("event without author", "missing-field", with_events({}), "`author` of an invocation event"),
    bad("two kinds of data", "unknown-key", with_data({"invocation_events": [], "tool_uses": []}), "combined with"),
    bad("data a list", "wrong-type", with_data([]), "an object, not a list", at="TURN.intermediate_data"),
    bad("response an object", "wrong-type", with_responses({"author": "a"}), '["author", [{"text": "..."}]]'),
    bad(
        "response too short", "missing-field", with_responses(["a"]), "Item 2 of `intermediate_responses[0]` is missing"
    ),
    bad("response too long", "invalid-value", with_responses(["a", [], 1]), "must have 2 items, not 3"),
    bad("duration a word", "wrong-type", with_turn(duration="long"), 'must be a number, not the string "long"'),
    bad("bad base64", "invalid-value", with_part({"inline_data": {"data": "a$b"}}), "base64"),
    bad("base64 of a bad length", "invalid-value", with_part({"inline_data": {"data": "abcde"}})),
    bad("session without app", "missing-field", with_case(session_input={"user_id": "u"}), at="CASE.session_input"),
    bad("rubric weight", "unknown-key", with_case(rubrics=[rubric("a", weight=2)]), at="CASE.rubrics[0].weight"),
    bad("rubric a string", "wrong-type", with_case(rubrics=[{**A_RUBRIC, "rubric_content": "x"}]), "text_property"),
    models_only(
        "rubric twice in a case",
        "duplicate-rubric-id",
        with_case(rubrics=[A_RUBRIC] * 2),
        at="CASE.rubrics[1].rubric_id",
    ),
    models_only(
        "rubric of case and turn",
        "duplicate-rubric-id",
        with_case(rubrics=[rubric("a", type="X")], conversation=[turn(rubrics=[rubric("a", type="Y")])]),
        at="TURN.rubrics[0].rubric_id",
    ),
    models_only(
        "duplicate eval id",
        "duplicate-eval-id",
        eval_set(case(), case()),
        "first on line 4",
        at="eval_cases[1].eval_id",
    ),
    models_only("empty conversation", "empty-conversation", with_turns(), at="CASE.conversation"),
    bad(
        "unknown part key is a warning",
        "unknown-part-key",
        with_part({"txt": "x", "text": "y"}),
        at="TURN.user_content.parts[0].txt",
    ),
    bad(
        "misspelt optional keys are warnings",
        "misspelt-key misspelt-key",
        eval_set(case(sesion_input={}), descripton="x"),
        "Did you mean `session_input`",
        at="CASE.sesion_input",
    ),
    bad("both spellings", "duplicate-key", with_case(evalId="d"), "only the latter is read", at="CASE.eval_id"),
    bad("both spellings in a turn", "unknown-key", with_turn(finalResponse={"parts": []}), "and in camelCase"),
    models_only("no cases at all", "empty-eval-set no-eval-cases", eval_set()),
    bad(
        "a mistake hides no other",
        "wrong-type duplicate-eval-id duplicate-eval-id empty-conversation",
        eval_set(case(eval_id=1), case(), case(), case(conversation=[])),
    ),
    bad("turn without reference", "turn-without-reference", with_turns(TURN, UNANSWERED), "scores 0"),
    models_only(
        "case without reference",
        "needs-reference",
        with_turns({**UNANSWERED, "final_response": {}}),
        "ADK's default criteria",
        at="CASE",
    ),
    models_only(
        "scenario with default criteria",
        "needs-reference",
        with_scenario(),
        "`tool_trajectory_avg_score` and `response_match_score`",
        at="CASE.conversation_scenario",
    ),
    bad("scenario without plan", "missing-field unknown-key", eval_set(scenario(conversation_plan=..., plan="y"))),
    bad(
        "persona with camelCase",
        "missing-field",
        with_scenario(user_persona={**PERSONA, "behaviors": [CAMEL_BEHAVIOR]}),
        "Rename `behaviorInstructions` to `behavior_instructions`",
        at="CASE.conversation_scenario.user_persona.behaviors[0]",
    ),
    models_only(
        "scenario that ends at once",
        "needs-reference scenario-without-turns",
        with_scenario(starting_prompt="Hello </Finished>"),
    ),
    models_only(
        "persona with a broken template",
        "needs-reference persona-template-invalid",
        with_scenario(user_persona=NO_TEMPLATE),
    ),
    models_only("persona in small letters", "needs-reference unknown-persona", with_scenario(user_persona="novice")),
]

INSTRUCTIONS = (
    "Be a user. {{ conversation_plan }} {{ conversation_history }} {% for b in persona.behaviors %}"
    "{{ b.get_behavior_instructions_str() | upper }}{% endfor %} End with {{ stop_signal }}"
)


def scored(threshold: Any) -> dict[str, Any]:
    return {"criteria": {"response_match_score": threshold}}


def simulator(**fields: Any) -> dict[str, Any]:
    return {**scored(0), "user_simulator_config": fields}


def custom(name: str, code: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A config with a metric of somebody's code."""
    return {**criterion(name, **fields), "custom_metrics": {name: {"code_config": code}}}


GOOD_CONFIGS = [
    good("number", scored(0.5)),
    good("numeric string", scored("0.5")),
    good("bool", scored(True)),
    good("object", criterion("response_match_score")),
    good("camelCase", criterion("tool_trajectory_avg_score", matchType="in order", ignoreArgs=True)),
    good("match type number", criterion("tool_trajectory_avg_score", match_type=2.0)),
    good("ours", criterion("trajectory_single_tool_use", tool_name="f")),
    *(
        good(f"algorithm {name}", criterion("response_similarity", algorithm=name))
        for name in ("exact", "JACCARD", "rougeL", "rouge_l", "Rouge-1", "ROUGEL")
    ),
    good("similarity as a number", {"criteria": {"response_similarity": 0.8}}),
    good("partial trajectory", criterion("tool_trajectory_partial", strictOrder=False, strict_args=True)),
    good("args may be a subset", criterion("tool_trajectory_avg_score", args_match="subset")),
    good("recall", {"criteria": {"trajectory_recall": {"threshold": 0.5, "ignore_args": "yes"}}}),
    good("schema key", {"$schema": "x", "criteria": {"response_match_score": 0}}),
    good("simulator", simulator(type=None, model="m", maxAllowedInvocations=3)),
    good("custom instructions", simulator(customInstructions=INSTRUCTIONS)),
    good("custom metric", custom("mine", {"name": "agent.metrics.mine"}, threshold=7, anything=1)),
]
OLD_STYLE = "{conversation_plan} {conversation_history} {stop_signal}"
TOOL_RUBRICS = "rubric_based_tool_use_quality_v1"
BAD_CONFIGS = [
    bad("a list", "wrong-type", []),
    bad("no criteria", "no-criteria", {}),
    bad("empty criteria", "no-criteria", {"criteria": {}}, at="criteria"),
    bad("criteria a list", "wrong-type", {"criteria": ["x"]}, '{"response_match_score": 0.8}', at="criteria"),
    models_only("unknown metric", "unknown-metric", {"criteria": {"tool_trajectory_avg_scor": 1}}, at="METRIC"),
    *(
        models_only(f"metric of another tool: {metric}", "unknown-metric", {"criteria": {metric: 1}}, says)
        for metric, says in (
            ("semantic_match_score", "has a table of other tools' names"),
            ("safety_score", "Did you mean `safety_v1`?"),
        )
    ),
    models_only("informational metric", "informational-metric", {"criteria": {"token_usage_v1": 5}}),
    bad("null criterion", "wrong-type", scored(None)),
    bad("word", "wrong-type", scored("high")),
    bad("no threshold", "missing-field", scored({}), "`threshold`", at="METRIC"),
    models_only(
        "threshold too high", "threshold-out-of-range", scored(80), "every agent passes below it. Write 0.8 for 80%."
    ),
    models_only(
        "coherence below its range",
        "threshold-out-of-range",
        criterion("response_evaluation_score", threshold=0.5),
        "from 1 to 5",
        at="METRIC.threshold",
    ),
    bad("nan", "threshold-out-of-range", scored("nan")),
    bad(
        "bad match type",
        "invalid-value",
        criterion("tool_trajectory_avg_score", match_type="EXACTLY"),
        "EXACT, IN_ORDER or ANY_ORDER",
        at="METRIC.match_type",
    ),
    *(
        bad(f"bad algorithm {name!r}", "invalid-value", criterion("response_similarity", algorithm=name))
        for name in ("cosine", "rouge3", "rouge", "exact_", 1, None)
    ),
    bad("bad args match", "invalid-value", criterion("tool_trajectory_avg_score", args_match="superset")),
    models_only(
        "misspelt field",
        "misspelt-criterion-field",
        criterion("tool_trajectory_avg_score", match_typ="EXACT"),
        "`match_type`",
        at="METRIC.match_typ",
    ),
    *(
        models_only(
            f"field of another tool: {field}",
            "foreign-criterion-field",
            criterion(metric, **{field: value}),
            says,
            at=f"METRIC.{field}",
        )
        for metric, field, value, says in (
            ("tool_trajectory_avg_score", "strict_order", True, "`tool_trajectory_partial` has it"),
            ("tool_trajectory_avg_score", "strictArgs", False, "`tool_trajectory_partial` has it"),
            ("response_match_score", "ignore_case", True, "`response_similarity` has it"),
            ("tool_trajectory_partial", "match_type", "ANY_ORDER", "`tool_trajectory_avg_score` has it"),
            ("tool_trajectory_partial", "ignoreArgs", True, "`tool_trajectory_avg_score` has it"),
            ("response_similarity", "compat", "adk-rust", "has the fields of each metric"),
            ("rubric_based_tool_use_quality_v1", "levels", [], "has the fields of each metric"),
            ("response_match_score", "weight", 2, "has the fields of each metric"),
        )
    ),
    bad(
        "field of another criterion",
        "unknown-criterion-field",
        criterion("response_match_score", match_type="EXACT"),
        "belongs to",
    ),
    bad(
        "misspelt judge option",
        "unknown-key",
        criterion("final_response_match_v2", judge_model_options={"num_sample": 1}),
        at="METRIC.judge_model_options.num_sample",
    ),
    bad(
        "no samples",
        "invalid-value",
        criterion("final_response_match_v2", judgeModelOptions={"numSamples": 0}),
        at="METRIC.judgeModelOptions.numSamples",
    ),
    bad("misspelt rubric field", "unknown-key", criterion(TOOL_RUBRICS, rubrics=[rubric("a", typ="x")]), "mean `type`"),
    models_only("rubric twice", "duplicate-rubric-id", criterion(TOOL_RUBRICS, rubrics=[A_RUBRIC] * 2)),
    bad("negative weight", "invalid-value", criterion(TOOL_RUBRICS, rubric_weights={"a": -0.5})),
    *(
        models_only(
            f"levels {says}",
            "bad-rubric-levels",
            criterion(TOOL_RUBRICS, **{key: {"a": [{"score": score, "text": text} for score, text in levels]}}),
            says,
            at=f"METRIC.{key}.a",
        )
        for key, levels, says in (
            ("rubric_levels", [], "there are 0"),
            ("rubricLevels", [(0, "a")], "there are 1"),
            ("rubric_levels", [(step / 7, str(step)) for step in range(8)], "there are 8"),
            ("rubric_levels", [(0.1, "a"), (1, "b")], "from 0.1 to 1"),
            ("rubric_levels", [(1, "a"), (0, "b")], "from 1 to 0"),
            ("rubric_levels", [(0, "a"), (0.5, "b"), (0.5, "c"), (1, "d")], "higher than the one before"),
            ("rubric_levels", [(0, "a"), (1, " ")], "a text of its own"),
            ("rubric_levels", [(0, "a"), (1, "a ")], "a text of its own"),
        )
    ),
    bad("level without a text", "missing-field", criterion(TOOL_RUBRICS, rubric_levels={"a": [{"score": 0}]})),
    bad("unknown backend", "invalid-value", criterion("safety_v1", backend="openai")),
    bad("no tool name", "missing-field", {"criteria": {"trajectory_single_tool_use": 1}}, "tool_name"),
    bad(
        "unknown config keys are warnings",
        "unknown-config-key unknown-config-key",
        {**simulator(modell="x"), "custom_metric": {}},
        "Did you mean `custom_metrics`",
        at="custom_metric",
    ),
    bad("criteria beside criteria", "unknown-config-key no-criteria", {"response_match_score": 0.8}),
    bad(
        "a criterion beside criteria", "unknown-config-key", {**scored(0), "safety_v1": 0.8}, "Write `safety_v1` there."
    ),
    bad("live mode is a warning", "live-mode-ignored", {**scored(0), "liveModelConfig": {"timeoutSeconds": "30"}}),
    bad(
        "unknown simulator",
        "invalid-value",
        simulator(type="human"),
        "must have a `type` of 'llm_backed', 'llm_audio'",
        at="user_simulator_config",
    ),
    models_only(
        "instructions in the old style",
        "custom-instructions-invalid",
        simulator(custom_instructions=OLD_STYLE),
        "write `{{ stop_signal }}`",
        at="user_simulator_config.custom_instructions",
    ),
    *(
        models_only(f"instructions {name}", "custom-instructions-invalid", simulator(custom_instructions=text), says)
        for name, text, says in (
            ("without plan", "{{ conversation_history }} {{ stop_signal }}", "do not use `conversation_plan`"),
            ("that are no template", "\n{{ stop_signal }} {% if %}", "line 2 of the template"),
            ("with an unknown filter", INSTRUCTIONS + "{{ stop_signal | shout }}", "No filter named 'shout'"),
        )
    ),
    bad(
        "instructions with an unknown variable",
        "custom-instructions-unknown-variable",
        simulator(custom_instructions=INSTRUCTIONS + "{{ plan }}{% set x = 1 %}{{ x }}"),
        "`plan`, which is always empty",
    ),
    bad("speaking simulator", "audio-simulator-ignored", simulator(type="llm_audio"), at="user_simulator_config.type"),
    bad(
        "code config",
        "unknown-key",
        custom("mine", {"name": "a.b", "args": []}),
        at="custom_metrics.mine.code_config.args",
    ),
]

LEGACY_TURNS: list[dict[str, Any]] = [
    {
        "query": "Turn on the lamp",
        "expected_tool_use": [{"tool_name": "set", "tool_input": {"on": True}, "mock_tool_output": "ok"}],
        "expected_intermediate_agent_responses": [{"author": "helper", "text": "one moment"}],
        "reference": "Done.",
        "comment": "ignored, as in ADK",
    },
    {"query": "Thanks", "reference": "You are welcome."},
]
LEGACY_EVALS: list[dict[str, Any]] = [
    {"name": "lamp", "data": LEGACY_TURNS, "initial_session": {"state": {"a": 1}, "app_name": "home", "user_id": "u"}},
    {"name": "thanks", "data": LEGACY_TURNS[1:], "initial_session": {}},
    {"name": "plain", "data": LEGACY_TURNS[1:]},
    {"name": "half", "data": LEGACY_TURNS[1:], "initial_session": {"state": {"b": 2}}},
]
