"""Good and bad eval sets and configs, by what is special; golden files hold what is said of the bad ones."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from agent_eval_scoring.core.problem import Problem
from agent_eval_scoring.evalset.json import JsonPath
from agent_eval_scoring.evalset.loading import load_suite
from agent_eval_scoring.evalset.models.schema import CriterionConfig, EvalCase, EvalConfig, EvalSet, LoadedFile, Suite
from agent_eval_scoring.evalset.problem_texts import render_text

TURN = {"user_content": {"parts": [{"text": "hi"}]}, "final_response": {"parts": [{"text": "hello"}]}}


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


def seen(suite: Suite) -> str:
    """What a selection amounts to: per file its config, its cases with their lines, and what is said of all."""
    text = ""
    for file in suite.files:
        criteria = ", ".join(f"{each.metric} {each.threshold}" for each in file.config.criteria)
        cases = ", ".join(f"{one.eval_id} (line {file.lines.get(one.eval_id)})" for one in file.cases)
        text += f"{file.path}: {cases}\n  config {file.config.source}: {criteria}\n"
    return f"{text}{render_text(suite.problems)}" or "nothing\n"


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

GOOD_EVAL_SETS: dict[str, Any] = {
    "no state at the end": with_case(final_session_state={}),
    "a state that lasts for a turn": with_case(final_session_state={"temp:a": 1}),
    "minimal": with_case(),
    "unknown top key": eval_set(case(), **{"$schema": "x", "color": 1}),
    "camelCase case": eval_set(CAMEL),
    "unknown case key": with_case(tags=["a"], priority=1),
    "null role": with_turn(user_content={"role": None, "parts": [{"text": "x"}]}),
    "web ui part": with_turn(final_response={"role": "model", "parts": [WEB_UI_PART]}),
    "events": with_data(EVENTS),
    "empty intermediate data": with_data({}),
    "null intermediate data": with_data(None),
    "numbers as strings": eval_set(case(creation_timestamp="1.5e3"), creation_timestamp=True),
    "bytes": with_part({"inline_data": {"data": "aGk=", "mime_type": "x/y"}}),
    "url-safe bytes": with_part({"inline_data": {"data": "a_-A"}}),
    "rubrics": with_case(rubrics=[rubric("a")], conversation=[turn(rubrics=[rubric("b")])]),
    "app details": with_turn(app_details={"agent_details": {"a": {"name": "a", "tool_declarations": [{}]}}}),
}
GOOD_SCENARIOS: dict[str, Any] = {
    "scenario": with_scenario(),
    "scenario and null conversation": eval_set({**scenario(), "conversation": None}),
    "persona by name": with_scenario(user_persona="NOVICE"),
    "persona inline": with_scenario(user_persona=PERSONA),
}

A_RUBRIC, A_SPAN = rubric("a"), {"kind": "model", "start": 0, "end": 1}
UNANSWERED = {"user_content": TURN["user_content"]}
NO_TEMPLATE = {**PERSONA, "behaviors": [{**PERSONA["behaviors"][0], "behavior_instructions": ["{% if"]}]}
CAMEL_BEHAVIOR = {"name": "n", "description": "d", "behaviorInstructions": [], "violation_rubrics": []}
BAD_EVAL_SETS: dict[str, Any] = {
    "a state at the end is a warning": with_case(final_session_state={"seen": "London"}),
    "no object": "hi",
    "empty list": [],
    "list of cases": [case()],
    "a case": case(),
    "a config": {"criteria": {}},
    "a session": {"app_name": "bot", "events": []},
    "scenarios": {"scenarios": [{"starting_prompt": "Hi"}]},
    "camelCase set": {"evalSetId": "s", "evalCases": [case()]},
    "signatures": eval_set(
        case(conversation=[{**TURN, "user_content": {"parts": [{"text": "a", "thought_signature": "YW\nJj"}]}}])
    ),
    "no set id": {"eval_cases": []},
    "misspelt set id": {"eval_setid": "x", "eval_cases": []},
    "cases an object": {"eval_set_id": "x", "eval_cases": {}},
    "set id null": {**eval_set(case()), "eval_set_id": None},
    "eval id a number": with_case(eval_id=7),
    "no eval id": with_case(eval_id=...),
    "an empty eval id is a warning": with_case(eval_id=" "),
    "cases by a name of other tools": {"eval_set_id": "x", "test_cases": [case()]},
    "a session that is a name": with_case(session_input="bot"),
    "an expected call without a name is a warning": with_case(
        conversation=[{**TURN, "intermediate_data": {"tool_uses": [{"args": {"city": "Bern"}}]}}]
    ),
    "neither": with_case(conversation=...),
    "misspelt conversation": with_case(conversation=..., converstion=[]),
    "both null": with_case(conversation=None),
    "both": eval_set({**scenario(), "conversation": []}),
    "text as content": with_turn(user_content="hi"),
    "parts a string": with_turn(final_response={"parts": "x"}),
    "no user content": with_turns({"final_response": said("x")}),
    "unknown key of a turn": with_turn(final_respones={}),
    "key of a recording in a turn": with_turn(spans=[A_SPAN]),
    "older name in a turn": with_turn(expected_tool_use=[]),
    "unknown content key": with_turn(user_content={"part": []}),
    "unknown event key is fine, its content's is not": with_events({"author": "a", "x": 1, "content": {"rol": "m"}}),
    "event without author": with_events({}),
    "two kinds of data": with_data({"invocation_events": [], "tool_uses": []}),
    "data a list": with_data([]),
    "response an object": with_responses({"author": "a"}),
    "response too short": with_responses(["a"]),
    "response too long": with_responses(["a", [], 1]),
    "duration a word": with_turn(duration="long"),
    "bad base64": with_part({"inline_data": {"data": "a$b"}}),
    "base64 of a bad length": with_part({"inline_data": {"data": "abcde"}}),
    "session without app": with_case(session_input={"user_id": "u"}),
    "rubric weight": with_case(rubrics=[rubric("a", weight=2)]),
    "rubric a string": with_case(rubrics=[{**A_RUBRIC, "rubric_content": "x"}]),
    "rubric twice in a case": with_case(rubrics=[A_RUBRIC] * 2),
    "rubric of case and turn": with_case(
        rubrics=[rubric("a", type="X")], conversation=[turn(rubrics=[rubric("a", type="Y")])]
    ),
    "duplicate eval id": eval_set(case(), case()),
    "empty conversation": with_turns(),
    "unknown part key is a warning": with_part({"txt": "x", "text": "y"}),
    "a part with nothing else": with_part({"content": "x"}),
    "other names for keys": with_case(eval_id=..., id="a", conversation=[turn(expected_response={}, comment="x")]),
    "cases by another name": {"eval_set_id": "s", "cases": []},
    "a set in an object": {"eval_set": eval_set()},
    "a result of ADK": {"eval_set_id": "s", "eval_case_results": []},
    "a chat": with_case(conversation=..., messages=[]),
    "keys of the session in the case": with_case(state={"a": 1}, user_id="u"),
    "lists of other things": with_case(
        rubrics=["x"], conversation=[turn(user_content={"parts": ["x"]}, intermediate_data={"tool_uses": ["f"]})]
    ),
    "a conversation that is a turn": with_case(conversation=TURN),
    "misspelt optional keys are warnings": eval_set(case(sesion_input={}), descripton="x"),
    "both spellings": with_case(evalId="d"),
    "both spellings in a turn": with_turn(finalResponse={"parts": []}),
    "no cases at all": eval_set(),
    "a mistake hides no other": eval_set(case(eval_id=1), case(), case(), case(conversation=[])),
    "turn without reference": with_turns(TURN, UNANSWERED),
    "case without reference": with_turns({**UNANSWERED, "final_response": {}}),
    "scenario with default criteria": with_scenario(),
    "scenario without plan": eval_set(scenario(conversation_plan=..., plan="y")),
    "persona with camelCase": with_scenario(user_persona={**PERSONA, "behaviors": [CAMEL_BEHAVIOR]}),
    "scenario that ends at once": with_scenario(starting_prompt="Hello </Finished>"),
    "persona with a broken template": with_scenario(user_persona=NO_TEMPLATE),
    "persona in small letters": with_scenario(user_persona="novice"),
}

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


ALGORITHMS = ("exact", "JACCARD", "rougeL", "rouge_l", "Rouge-1", "ROUGEL")
GOOD_CONFIGS: dict[str, Any] = {
    "number": scored(0.5),
    "numeric string": scored("0.5"),
    "object": criterion("response_match_score"),
    "camelCase": criterion("tool_trajectory_avg_score", matchType="in order", ignoreArgs=True),
    "match type number": criterion("tool_trajectory_avg_score", match_type=2.0),
    "ours": criterion("trajectory_single_tool_use", tool_name="f"),
    **{f"algorithm {name}": criterion("response_similarity", algorithm=name) for name in ALGORITHMS},
    "similarity as a number": {"criteria": {"response_similarity": 0.8}},
    "facts": criterion("response_facts", names=True, states="yes", negation=False, extra="forbid"),
    "partial trajectory": criterion("tool_trajectory_partial", strictOrder=False, strict_args=True),
    "calls at all depths": criterion("trajectory_recall", depth="all"),
    "calls at some depths": criterion("tool_trajectory_avg_score", depth=["weather > *"]),
    "args may be a subset": criterion("tool_trajectory_avg_score", args_match="subset"),
    "tool rules": criterion(
        "tool_rules",
        rules=[
            *({"before": ["a", "b*"]}, {"success_before": ["a", "b"]}, {"never": "c > d*"}, {"at_most": {"d": 2}}),
            *({"some_of": ["e"]}, {"succeeds": "f"}),
        ],
    ),
    "state": {"criteria": {"final_session_state": 1}},
    "state, by rules": criterion(
        "final_session_state", match="exact", keys={"cart.total": {"tolerance": 1}, "at": "any"}
    ),
    "rules for args": criterion(
        "trajectory_recall",
        args={
            "search#2": {"q": {"pattern": "R-\\d+"}, "n": {"tolerance": "5%"}, "day": {"date_within": "1.5 d"}},
            "*": {"_auth_*": "ignore", "city": {"one_of": ["Rome", 1]}, "m": {"tolerance": 0}},
            "log": "ignore",
        },
    ),
    "several": {
        "criteria": {
            "tool_trajectory_avg_score": {"threshold": "1", "matchType": "any-order"},
            "final_response_match_v2": {"threshold": 0.5, "judgeModelOptions": {"numSamples": "3"}},
            "hallucinations_v1": "0.5",
        }
    },
    "recall": {"criteria": {"trajectory_recall": {"threshold": 0.5, "ignore_args": "yes"}}},
    "schema key": {"$schema": "x", "criteria": {"response_match_score": 0}},
    "simulator": simulator(type=None, model="m", maxAllowedInvocations=3),
    "custom instructions": simulator(customInstructions=INSTRUCTIONS),
    "custom metric": custom("mine", {"name": "agent.metrics.mine"}, threshold=7, anything=1),
}
OLD_STYLE = "{conversation_plan} {conversation_history} {stop_signal}"
TOOL_RUBRICS = "rubric_based_tool_use_quality_v1"
BAD_CONFIGS: dict[str, Any] = {
    "a threshold that is true": scored(True),
    "a list": [],
    "no criteria": {},
    "empty criteria": {"criteria": {}},
    "criteria beside": {"response_match_score": 0.5},
    "criteria by another name": {"criterion": {"response_match_score": 0.5}},
    "an eval set": {"eval_set_id": "s", "eval_cases": []},
    "percent": scored("80%"),
    "a rubric with a text": criterion("rubric_based_tool_use_quality_v1", rubrics=[{"rubric_id": "a", "text": "x"}]),
    "a prompt by another name": criterion("judge_prompt", prompt="{response}"),
    "a prompt without the answer": criterion("judge_prompt", prompt_template="{answer}", scale="1-5"),
    "a custom metric as text": {"criteria": {"a": 1}, "custom_metrics": {"a": "b.c"}},
    "a custom metric without a criterion": {**scored(1), "custom_metrics": {"a": {"code_config": {"name": "b.c"}}}},
    "metric of Ragas": {"criteria": {"faithfulness": 1}},
    "criteria a list": {"criteria": ["x"]},
    "unknown metric": {"criteria": {"tool_trajectory_avg_scor": 1}},
    "metric of another tool": {"criteria": {"semantic_match_score": 1}},
    "options of another tool's metric": {"criteria": {"tool_trajectory_config": {"strict_order": True}}},
    "metric of another tool, like one of ours": {"criteria": {"safety_score": 1}},
    "informational metric": {"criteria": {"token_usage_v1": 5}},
    "null criterion": scored(None),
    "word": scored("high"),
    "no threshold": scored({}),
    "threshold too high": scored(80),
    "coherence below its range": criterion("response_evaluation_score", threshold=0.5),
    "nan": scored("nan"),
    "bad match type": criterion("tool_trajectory_avg_score", match_type="EXACTLY"),
    **{
        f"bad algorithm {name!r}": criterion("response_similarity", algorithm=name)
        for name in ("cosine", "rouge3", "rouge", "exact_", 1, None)
    },
    "bad extra": criterion("response_facts", extra="none"),
    "bad depth": criterion("trajectory_recall", depth="inner"),
    "no depth": criterion("trajectory_recall", depth=[]),
    "bad match": criterion("final_session_state", match="all"),
    "bad rule for a key": criterion("final_session_state", keys={"a": "ignore-case"}),
    "bad args match": criterion("tool_trajectory_avg_score", args_match="superset"),
    **{
        f"tool rules: {rules}": criterion("tool_rules", rules=rules)
        for rules in tuple[Any, ...](
            (
                *([], {}, [{}], ["never"], [{"never": ""}], [{"never": "a", "before": ["a", "b"]}], [{"some_of": []}]),
                *([{"before": ["a"]}], [{"after": ["a", "b"]}], [{"at_most": {"a": 0}}], [{"at_most": {"a": True}}]),
            )
        )
    },
    **{
        f"rules for args: {rules}": criterion("tool_trajectory_partial", args=rules)
        for rules in tuple[Any, ...](
            (
                [],
                {"": {"a": "any"}},
                {"f#0": "ignore"},
                {"f": "any"},
                {"f": {}},
                {"f": {"a": "ignore-case"}},
                {"f": {"a": {"regex": "x"}}},
                {"f": {"a": {"pattern": "x", "one_of": [1]}}},
                {"f": {"a": {"tolerance": -1}}},
                {"f": {"a": {"tolerance": "5"}}},
                {"f": {"a": {"pattern": "(a+)+"}}},
                {"f": {"a": {"pattern": 1}}},
                {"f": {"a": {"one_of": []}}},
                {"f": {"a": {"date_within": 1}}},
            )
        )
    },
    "misspelt field": criterion("tool_trajectory_avg_score", match_typ="EXACT"),
    **{
        f"field of another tool: {field}": criterion(metric, **{field: value})
        for metric, field, value in (
            ("tool_trajectory_avg_score", "strict_order", True),
            ("tool_trajectory_avg_score", "strictArgs", False),
            ("response_match_score", "ignore_case", True),
            ("tool_trajectory_partial", "match_type", "ANY_ORDER"),
            ("tool_trajectory_partial", "ignoreArgs", True),
            ("response_similarity", "compat", "adk-rust"),
            (TOOL_RUBRICS, "levels", []),
            ("response_match_score", "weight", 2),
        )
    },
    "field of another criterion": criterion("response_match_score", match_type="EXACT"),
    "misspelt judge option": criterion("final_response_match_v2", judge_model_options={"num_sample": 1}),
    "no samples": criterion("final_response_match_v2", judgeModelOptions={"numSamples": 0}),
    "misspelt rubric field": criterion(TOOL_RUBRICS, rubrics=[rubric("a", typ="x")]),
    "rubric twice": criterion(TOOL_RUBRICS, rubrics=[A_RUBRIC] * 2),
    "negative weight": criterion(TOOL_RUBRICS, rubric_weights={"a": -0.5}),
    **{
        f"levels {levels}": criterion(
            TOOL_RUBRICS, rubricLevels={"a": [{"score": score, "text": text} for score, text in levels]}
        )
        for levels in (
            [],
            [(0, "a")],
            [(0, "a")] * 8,
            [(0.1, "a"), (1, "b")],
            [(1, "a"), (0, "b")],
            [(0, "a"), (0.5, "b"), (0.5, "c"), (1, "d")],
            [(0, "a"), (1, " ")],
            [(0, "a"), (1, "a ")],
        )
    },
    "level without a text": criterion(TOOL_RUBRICS, rubric_levels={"a": [{"score": 0}]}),
    "unknown backend": criterion("safety_v1", backend="openai"),
    "no tool name": {"criteria": {"trajectory_single_tool_use": 1}},
    "unknown config keys are warnings": {**simulator(modell="x"), "custom_metric": {}},
    "criteria beside criteria": {"response_match_score": 0.8},
    "a criterion beside criteria": {**scored(0), "safety_v1": 0.8},
    "live mode is a warning": {**scored(0), "liveModelConfig": {"timeoutSeconds": "30"}},
    "unknown simulator": simulator(type="human"),
    "instructions in the old style": simulator(custom_instructions=OLD_STYLE),
    **{
        f"instructions {name}": simulator(custom_instructions=text)
        for name, text in (
            ("without plan", "{{ conversation_history }} {{ stop_signal }}"),
            ("that are no template", "\n{{ stop_signal }} {% if %}"),
            ("with an unknown filter", INSTRUCTIONS + "{{ stop_signal | shout }}"),
            ("with an unknown variable", INSTRUCTIONS + "{{ plan }}{% set x = 1 %}{{ x }}"),
        )
    },
    "speaking simulator": simulator(type="llm_audio"),
    "code config": custom("mine", {"name": "a.b", "args": []}),
}

LEGACY_TURNS: list[dict[str, Any]] = [
    {
        "query": "Turn on the lamp",
        "expected_tool_use": [{"tool_name": "set", "tool_input": {"on": True}}],
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
