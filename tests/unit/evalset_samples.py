"""Good and bad eval sets and configs: what the models say of each, and whether its JSON Schema agrees."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

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

    @property
    def text(self) -> str:
        return json.dumps(self.value, indent=2, ensure_ascii=False)


def eval_set(*cases: Any, **extra: Any) -> dict[str, Any]:
    return {"eval_set_id": "s", "eval_cases": list(cases), **extra}


def case(**fields: Any) -> dict[str, Any]:
    made = {"eval_id": "c", "conversation": [TURN], **fields}
    return {key: value for key, value in made.items() if value is not ...}


def turn(**fields: Any) -> dict[str, Any]:
    return {**TURN, **fields}


def with_turn(**fields: Any) -> dict[str, Any]:
    return eval_set(case(conversation=[turn(**fields)]))


def rubric(rubric_id: str, **fields: Any) -> dict[str, Any]:
    return {"rubric_id": rubric_id, "rubric_content": {"text_property": "is kind"}, **fields}


def scenario(**fields: Any) -> dict[str, Any]:
    made = {"starting_prompt": "hi", "conversation_plan": "be brief", **fields}
    return {"eval_id": "c", "conversation_scenario": made}


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
    Sample(name="minimal", value=eval_set(case())),
    Sample(name="unknown top key", value=eval_set(case(), **{"$schema": "x", "color": 1})),
    Sample(name="camelCase case", value=eval_set(CAMEL)),
    Sample(name="unknown case key", value=eval_set(case(tags=["a"], priority=1))),
    Sample(name="null role", value=with_turn(user_content={"role": None, "parts": [{"text": "x"}]})),
    Sample(name="web ui part", value=with_turn(final_response={"role": "model", "parts": [WEB_UI_PART]})),
    Sample(name="events", value=with_turn(intermediate_data=EVENTS)),
    Sample(name="empty intermediate data", value=with_turn(intermediate_data={})),
    Sample(name="null intermediate data", value=with_turn(intermediate_data=None)),
    Sample(name="numbers as strings", value=eval_set(case(creation_timestamp="1.5e3"), creation_timestamp=True)),
    Sample(
        name="bytes", value=with_turn(user_content={"parts": [{"inline_data": {"data": "aGk=", "mime_type": "x/y"}}]})
    ),
    Sample(name="url-safe bytes", value=with_turn(user_content={"parts": [{"inline_data": {"data": "a_-A"}}]})),
    Sample(name="rubrics", value=eval_set(case(rubrics=[rubric("a")], conversation=[turn(rubrics=[rubric("b")])]))),
    Sample(
        name="app details",
        value=with_turn(app_details={"agent_details": {"a": {"name": "a", "tool_declarations": [{}]}}}),
    ),
]
GOOD_SCENARIOS = [
    Sample(name="scenario", value=eval_set(scenario())),
    Sample(name="scenario and null conversation", value=eval_set({**scenario(), "conversation": None})),
    Sample(name="persona by name", value=eval_set(scenario(user_persona="NOVICE"))),
    Sample(name="persona inline", value=eval_set(scenario(user_persona=PERSONA))),
]

BAD_EVAL_SETS = [
    Sample(name="no object", value="hi", codes=("not-an-eval-set",)),
    Sample(name="empty list", value=[], codes=("not-an-eval-set",), says="empty list"),
    Sample(name="list of cases", value=[case()], codes=("not-an-eval-set",), says="list of cases"),
    Sample(name="a case", value=case(), codes=("not-an-eval-set",), says="single case"),
    Sample(name="a config", value={"criteria": {}}, codes=("not-an-eval-set",), says="config file"),
    Sample(name="a session", value={"events": []}, codes=("not-an-eval-set",), says="adk test"),
    Sample(name="scenarios", value={"scenarios": []}, codes=("not-an-eval-set",), says="scenarios"),
    Sample(
        name="camelCase set",
        value={"evalSetId": "s", "evalCases": [case()]},
        codes=("camel-case-eval-set", "camel-case-eval-set"),
        path="evalSetId",
        says="eval_set_id",
    ),
    Sample(name="no set id", value={"eval_cases": []}, codes=("missing-field",), says="eval_set_id"),
    Sample(
        name="misspelt set id",
        value={"eval_setid": "x", "eval_cases": [case()]},
        codes=("missing-field",),
        says="Rename `eval_setid` to `eval_set_id`",
    ),
    Sample(name="no cases", value={"eval_set_id": "x"}, codes=("missing-field",), says="`eval_cases`"),
    Sample(
        name="cases an object", value={"eval_set_id": "x", "eval_cases": {}}, codes=("wrong-type",), path="eval_cases"
    ),
    Sample(name="set id null", value={**eval_set(case()), "eval_set_id": None}, codes=("wrong-type",), says="null"),
    Sample(
        name="eval id a number",
        value=eval_set(case(eval_id=7)),
        codes=("wrong-type",),
        path="eval_cases[0].eval_id",
        says="the number 7",
    ),
    Sample(
        name="no eval id",
        value=eval_set(case(eval_id=...)),
        codes=("missing-field",),
        path="eval_cases[0]",
        says="eval_id",
    ),
    Sample(
        name="neither",
        value=eval_set(case(conversation=...)),
        codes=("no-conversation",),
        path="eval_cases[0]",
        says="exactly one",
    ),
    Sample(
        name="misspelt conversation",
        value=eval_set(case(conversation=..., converstion=[])),
        codes=("no-conversation",),
        says="`converstion` looks like a misspelling of `conversation`",
    ),
    Sample(name="both null", value=eval_set(case(conversation=None)), codes=("no-conversation",), says="exactly one"),
    Sample(
        name="both",
        value=eval_set({**scenario(), "conversation": []}),
        codes=("conversation-and-scenario",),
        path="eval_cases[0]",
    ),
    Sample(
        name="text as content",
        value=with_turn(user_content="hi"),
        codes=("wrong-type",),
        path="eval_cases[0].conversation[0].user_content",
        says='{"parts": [{"text": "..."}]}',
    ),
    Sample(
        name="parts a string",
        value=with_turn(final_response={"parts": "x"}),
        codes=("wrong-type",),
        path="eval_cases[0].conversation[0].final_response.parts",
    ),
    Sample(
        name="no user content",
        value=eval_set(case(conversation=[{"final_response": {"parts": [{"text": "x"}]}}])),
        codes=("missing-field",),
        says="`user_content` of an invocation",
    ),
    Sample(
        name="unknown invocation key",
        value=with_turn(final_respones={}),
        codes=("unknown-key",),
        path="eval_cases[0].conversation[0].final_respones",
        says="Did you mean `final_response`",
    ),
    Sample(
        name="key of a recording in an invocation",
        value=with_turn(spans=[{"kind": "model", "start": 0, "end": 1}]),
        codes=("unknown-key",),
        path="eval_cases[0].conversation[0].spans",
        says="Remove it",
    ),
    Sample(
        name="older name in an invocation",
        value=with_turn(expected_tool_use=[]),
        codes=("unknown-key",),
        says="legacy format; write `intermediate_data`",
    ),
    Sample(
        name="older names in a call",
        value=with_turn(intermediate_data={"tool_uses": [{"tool_name": "x", "tool_input": {}}]}),
        codes=("unknown-key", "unknown-key"),
        path="eval_cases[0].conversation[0].intermediate_data.tool_uses[0].tool_name",
        says="write `name`",
    ),
    Sample(
        name="unknown content key",
        value=with_turn(user_content={"part": []}),
        codes=("unknown-key",),
        says="Did you mean `parts`",
    ),
    Sample(
        name="unknown event key is fine, its content's is not",
        value=with_turn(intermediate_data={"invocation_events": [{"author": "a", "x": 1, "content": {"rol": "m"}}]}),
        codes=("unknown-key",),
        path="eval_cases[0].conversation[0].intermediate_data.invocation_events[0].content.rol",
        says="Did you mean `role`",
    ),
    Sample(
        name="event without author",
        value=with_turn(intermediate_data={"invocation_events": [{}]}),
        codes=("missing-field",),
        path="eval_cases[0].conversation[0].intermediate_data.invocation_events[0]",
        says="`author` of an invocation event",
    ),
    Sample(
        name="both kinds of intermediate data",
        value=with_turn(intermediate_data={"invocation_events": [], "tool_uses": []}),
        codes=("unknown-key",),
        path="eval_cases[0].conversation[0].intermediate_data.tool_uses",
        says="can't be combined with `invocation_events`",
    ),
    Sample(
        name="intermediate data a list",
        value=with_turn(intermediate_data=[]),
        codes=("wrong-type",),
        path="eval_cases[0].conversation[0].intermediate_data",
        says="must be an object, not a list",
    ),
    Sample(
        name="intermediate response an object",
        value=with_turn(intermediate_data={"intermediate_responses": [{"author": "a"}]}),
        codes=("wrong-type",),
        says='["author", [{"text": "..."}]]',
    ),
    Sample(
        name="intermediate response too short",
        value=with_turn(intermediate_data={"intermediate_responses": [["a"]]}),
        codes=("missing-field",),
        path="eval_cases[0].conversation[0].intermediate_data.intermediate_responses[0]",
        says="Item 2 of `intermediate_responses[0]` is missing",
    ),
    Sample(
        name="intermediate response too long",
        value=with_turn(intermediate_data={"intermediate_responses": [["a", [], 1]]}),
        codes=("invalid-value",),
        says="must have 2 items, not 3",
    ),
    Sample(
        name="args a list",
        value=with_turn(intermediate_data={"tool_uses": [{"name": "f", "args": [1]}]}),
        codes=("wrong-type",),
        path="eval_cases[0].conversation[0].intermediate_data.tool_uses[0].args",
    ),
    Sample(
        name="duration a word",
        value=with_turn(duration="long"),
        codes=("wrong-type",),
        says='must be a number, not the string "long"',
    ),
    Sample(
        name="bad base64",
        value=with_turn(user_content={"parts": [{"inline_data": {"data": "a$b"}}]}),
        codes=("invalid-value",),
        says="base64",
    ),
    Sample(
        name="base64 of a bad length",
        value=with_turn(user_content={"parts": [{"inline_data": {"data": "abcde"}}]}),
        codes=("invalid-value",),
    ),
    Sample(
        name="session without app",
        value=eval_set(case(session_input={"user_id": "u"})),
        codes=("missing-field",),
        path="eval_cases[0].session_input",
        says="app_name",
    ),
    Sample(
        name="state null",
        value=eval_set(case(session_input={"app_name": "a", "user_id": "u", "state": None})),
        codes=("wrong-type",),
    ),
    Sample(
        name="rubric weight",
        value=eval_set(case(rubrics=[rubric("a", weight=2)])),
        codes=("unknown-key",),
        path="eval_cases[0].rubrics[0].weight",
        says="a rubric",
    ),
    Sample(
        name="rubric content a string",
        value=eval_set(case(rubrics=[{"rubric_id": "a", "rubric_content": "x"}])),
        codes=("wrong-type",),
        says="text_property",
    ),
    Sample(
        name="rubric twice in a case",
        value=eval_set(case(rubrics=[rubric("a"), rubric("a")])),
        codes=("duplicate-rubric-id",),
        path="eval_cases[0].rubrics[1].rubric_id",
        schema_agrees=False,
    ),
    Sample(
        name="rubric of case and turn",
        value=eval_set(case(rubrics=[rubric("a", type="X")], conversation=[turn(rubrics=[rubric("a", type="Y")])])),
        codes=("duplicate-rubric-id",),
        path="eval_cases[0].conversation[0].rubrics[0].rubric_id",
        schema_agrees=False,
    ),
    Sample(
        name="duplicate eval id",
        value=eval_set(case(), case()),
        codes=("duplicate-eval-id",),
        path="eval_cases[1].eval_id",
        says="first on line 4",
        schema_agrees=False,
    ),
    Sample(
        name="empty conversation",
        value=eval_set(case(conversation=[])),
        codes=("empty-conversation",),
        path="eval_cases[0].conversation",
        schema_agrees=False,
    ),
    Sample(
        name="unknown part key is a warning",
        value=with_turn(user_content={"parts": [{"txt": "x", "text": "y"}]}),
        codes=("unknown-part-key",),
        path="eval_cases[0].conversation[0].user_content.parts[0].txt",
        says="Did you mean `text`",
    ),
    Sample(
        name="misspelt optional keys are warnings",
        value=eval_set(case(sesion_input={}), descripton="x"),
        codes=("misspelt-key", "misspelt-key"),
        path="eval_cases[0].sesion_input",
        says="Did you mean `session_input`",
    ),
    Sample(
        name="both spellings",
        value=eval_set(case(evalId="d")),
        codes=("duplicate-key",),
        path="eval_cases[0].eval_id",
        says="only the latter is read",
    ),
    Sample(
        name="both spellings in an invocation",
        value=with_turn(finalResponse={"parts": []}),
        codes=("unknown-key",),
        path="eval_cases[0].conversation[0].final_response",
        says="in snake_case and in camelCase",
    ),
    Sample(name="no cases at all", value=eval_set(), codes=("empty-eval-set", "no-eval-cases"), schema_agrees=False),
    Sample(
        name="a mistake hides no other",
        value=eval_set(case(eval_id=1), case(), case(), case(conversation=[])),
        codes=("wrong-type", "duplicate-eval-id", "duplicate-eval-id", "empty-conversation"),
    ),
    Sample(
        name="turn without reference",
        value=eval_set(case(conversation=[TURN, {"user_content": {"parts": [{"text": "x"}]}}])),
        codes=("turn-without-reference",),
        path="eval_cases[0].conversation[1]",
    ),
    Sample(
        name="case without reference",
        value=eval_set(case(conversation=[{"user_content": {"parts": [{"text": "x"}]}, "final_response": {}}])),
        codes=("needs-reference",),
        path="eval_cases[0]",
        says="ADK's default criteria",
        schema_agrees=False,
    ),
    Sample(
        name="scenario with default criteria",
        value=eval_set(scenario()),
        codes=("needs-reference",),
        path="eval_cases[0].conversation_scenario",
        says="`tool_trajectory_avg_score` and `response_match_score`",
        schema_agrees=False,
    ),
    Sample(
        name="scenario without plan",
        value=eval_set({"eval_id": "c", "conversation_scenario": {"starting_prompt": "x", "plan": "y"}}),
        codes=("missing-field", "unknown-key"),
        says="conversation_plan",
    ),
    Sample(
        name="persona with camelCase",
        value=eval_set(
            scenario(
                user_persona={
                    "id": "p",
                    "description": "d",
                    "behaviors": [
                        {"name": "n", "description": "d", "behaviorInstructions": [], "violation_rubrics": []}
                    ],
                }
            )
        ),
        codes=("missing-field",),
        path="eval_cases[0].conversation_scenario.user_persona.behaviors[0]",
        says="Rename `behaviorInstructions` to `behavior_instructions`",
    ),
    Sample(
        name="scenario that ends at once",
        value=eval_set(scenario(starting_prompt="Hello </Finished>")),
        codes=("needs-reference", "scenario-without-turns"),
        says="scenario",
        schema_agrees=False,
    ),
    Sample(
        name="persona with a broken template",
        value=eval_set(
            scenario(
                user_persona={
                    "id": "p",
                    "description": "{{ is no template",
                    "behaviors": [
                        {"name": "n", "description": "d", "behavior_instructions": ["{% if"], "violation_rubrics": []}
                    ],
                }
            )
        ),
        codes=("needs-reference", "persona-template-invalid"),
        says="scenario",
        schema_agrees=False,
    ),
    Sample(
        name="persona in small letters",
        value=eval_set(scenario(user_persona="novice")),
        codes=("needs-reference", "unknown-persona"),
        says="scenario",
        schema_agrees=False,
    ),
]

JUDGE = {"threshold": 0.5, "judge_model_options": {"num_samples": 3}}
INSTRUCTIONS = (
    "Be a user. {{ conversation_plan }} {{ conversation_history }} {% for b in persona.behaviors %}"
    "{{ b.get_behavior_instructions_str() | upper }}{% endfor %} End with {{ stop_signal }}"
)


def simulator(**fields: Any) -> dict[str, Any]:
    return {"criteria": {"response_match_score": 0}, "user_simulator_config": fields}


GOOD_CONFIGS = [
    Sample(name="number", value={"criteria": {"response_match_score": 0.5}}),
    Sample(name="numeric string", value={"criteria": {"response_match_score": "0.5"}}),
    Sample(name="bool", value={"criteria": {"response_match_score": True}}),
    Sample(name="object", value={"criteria": {"response_match_score": {"threshold": 1}}}),
    Sample(
        name="camelCase",
        value={
            "criteria": {"tool_trajectory_avg_score": {"threshold": 1, "matchType": "in order", "ignoreArgs": True}}
        },
    ),
    Sample(
        name="match type number", value={"criteria": {"tool_trajectory_avg_score": {"threshold": 1, "match_type": 2.0}}}
    ),
    Sample(name="ours", value={"criteria": {"trajectory_single_tool_use": {"threshold": 1, "tool_name": "f"}}}),
    *(
        Sample(
            name=f"algorithm {name}", value={"criteria": {"response_similarity": {"threshold": 1, "algorithm": name}}}
        )
        for name in ("exact", "JACCARD", "rougeL", "rouge_l", "Rouge-1", "ROUGEL")
    ),
    Sample(name="similarity as a number", value={"criteria": {"response_similarity": 0.8}}),
    Sample(
        name="similarity as in adk-rust",
        value={"criteria": {"response_similarity": {"threshold": 1, "compat": "adk-rust"}}},
    ),
    Sample(
        name="partial trajectory",
        value={"criteria": {"tool_trajectory_partial": {"threshold": 1, "strictOrder": False, "strict_args": True}}},
    ),
    Sample(
        name="args may be a subset",
        value={"criteria": {"tool_trajectory_avg_score": {"threshold": 1, "args_match": "subset"}}},
    ),
    Sample(name="recall", value={"criteria": {"trajectory_recall": {"threshold": 0.5, "ignore_args": "yes"}}}),
    Sample(name="schema key", value={"$schema": "x", "criteria": {"response_match_score": 0}}),
    Sample(
        name="simulator",
        value={
            "criteria": {"response_match_score": 0},
            "user_simulator_config": {"type": None, "model": "m", "maxAllowedInvocations": 3},
        },
    ),
    Sample(
        name="custom instructions",
        value={
            "criteria": {"response_match_score": 0},
            "user_simulator_config": {"customInstructions": INSTRUCTIONS},
        },
    ),
    Sample(
        name="custom metric",
        value={
            "criteria": {"mine": {"threshold": 7, "anything": 1}},
            "custom_metrics": {"mine": {"code_config": {"name": "agent.metrics.mine"}}},
        },
    ),
]
BAD_CONFIGS = [
    Sample(name="a list", value=[], codes=("wrong-type",)),
    Sample(name="no criteria", value={}, codes=("no-criteria",)),
    Sample(name="empty criteria", value={"criteria": {}}, codes=("no-criteria",), path="criteria"),
    Sample(name="criteria a list", value={"criteria": []}, codes=("wrong-type",), path="criteria"),
    Sample(
        name="unknown metric",
        value={"criteria": {"tool_trajectory_avg_scor": 1}},
        codes=("unknown-metric",),
        path="criteria.tool_trajectory_avg_scor",
        says="Did you mean `tool_trajectory_avg_score`",
        schema_agrees=False,
    ),
    *(
        Sample(
            name=f"metric of another tool: {metric}",
            value={"criteria": {metric: 1}},
            codes=("unknown-metric",),
            says=says,
            schema_agrees=False,
        )
        for metric, says in (
            ("semantic_match", "`final_response_match_v2`"),
            ("semantic_match_score", "`final_response_match_v2`"),
            ("safety_score", "`safety_v1`"),
            ("hallucination_score", "`hallucinations_v1`"),
            ("rubric", "`rubric_based_final_response_quality_v1`"),
            ("response_match_config", "Did you mean `response_similarity`, which has these fields?"),
            ("tool_trajectory_config", "Did you mean `tool_trajectory_partial`, which has these fields?"),
            ("rubric_config", "`rubric_based_multi_turn_trajectory_quality_v1`, which have `rubrics`"),
            ("exact_tools()", '"strict_args": true'),
            ("tool_trajectory_score", "`tool_trajectory_partial`"),
            ("GEval", "`rubric_based_final_response_quality_v1`"),
            ("ToolCorrectnessMetric", "`tool_trajectory_partial`"),
            ("trajectory_in_order_match", '"match_type": "IN_ORDER"'),
            ("rougeL", '"algorithm": "rougeL"'),
        )
    ),
    Sample(
        name="informational metric",
        value={"criteria": {"token_usage_v1": 5}},
        codes=("informational-metric",),
        schema_agrees=False,
    ),
    Sample(name="null criterion", value={"criteria": {"response_match_score": None}}, codes=("wrong-type",)),
    Sample(name="word", value={"criteria": {"response_match_score": "high"}}, codes=("wrong-type",)),
    Sample(
        name="no threshold",
        value={"criteria": {"response_match_score": {}}},
        codes=("missing-field",),
        path="criteria.response_match_score",
        says="`threshold`",
    ),
    Sample(
        name="threshold too high",
        value={"criteria": {"response_match_score": 80}},
        codes=("threshold-out-of-range",),
        says="every agent passes below it. Write 0.8 for 80%.",
        schema_agrees=False,
    ),
    Sample(
        name="coherence below its range",
        value={"criteria": {"response_evaluation_score": {"threshold": 0.5}}},
        codes=("threshold-out-of-range",),
        path="criteria.response_evaluation_score.threshold",
        says="from 1 to 5",
        schema_agrees=False,
    ),
    Sample(
        name="nan",
        value={"criteria": {"response_match_score": "nan"}},
        codes=("threshold-out-of-range",),
    ),
    Sample(
        name="bad match type",
        value={"criteria": {"tool_trajectory_avg_score": {"threshold": 1, "match_type": "EXACTLY"}}},
        codes=("invalid-value",),
        path="criteria.tool_trajectory_avg_score.match_type",
        says="EXACT, IN_ORDER or ANY_ORDER",
    ),
    *(
        Sample(
            name=f"bad algorithm {name!r}",
            value={"criteria": {"response_similarity": {"threshold": 1, "algorithm": name}}},
            codes=("invalid-value",),
            path="criteria.response_similarity.algorithm",
            says="exact, contains, levenshtein, jaccard, rouge1, rouge2, rougeL",
        )
        for name in ("cosine", "rouge3", "rouge", "exact_", 1, None)
    ),
    Sample(
        name="bad compat",
        value={"criteria": {"tool_trajectory_partial": {"threshold": 1, "compat": "adk"}}},
        codes=("invalid-value",),
        path="criteria.tool_trajectory_partial.compat",
    ),
    Sample(
        name="bad args match",
        value={"criteria": {"tool_trajectory_avg_score": {"threshold": 1, "args_match": "superset"}}},
        codes=("invalid-value",),
        path="criteria.tool_trajectory_avg_score.args_match",
    ),
    Sample(
        name="misspelt field",
        value={"criteria": {"tool_trajectory_avg_score": {"threshold": 1, "match_typ": "EXACT"}}},
        codes=("misspelt-criterion-field",),
        path="criteria.tool_trajectory_avg_score.match_typ",
        says="Did you mean `match_type`",
        schema_agrees=False,
    ),
    *(
        Sample(
            name=f"field of another tool: {field}",
            value={"criteria": {metric: {"threshold": 1, field: value}}},
            codes=("foreign-criterion-field",),
            path=f"criteria.{metric}.{field}",
            says=says,
            schema_agrees=False,
        )
        for metric, field, value, says in (
            ("tool_trajectory_avg_score", "strict_order", True, '"match_type": "IN_ORDER"'),
            ("tool_trajectory_avg_score", "strictArgs", False, '"args_match": "subset"'),
            ("response_match_score", "algorithm", "levenshtein", "is ROUGE-1"),
            ("response_match_score", "ignore_case", True, "always ignores case"),
            ("tool_trajectory_partial", "match_type", "ANY_ORDER", '"strict_order": true'),
            ("tool_trajectory_partial", "ignoreArgs", True, "Omit the args"),
            ("trajectory_recall", "strict_args", False, "`tool_trajectory_partial` has this field"),
            ("safety_v1", "algorithm", "exact", "`response_similarity` has this field"),
            ("rubric_based_tool_use_quality_v1", "levels", [], "`rubric_levels`"),
            ("response_match_score", "weight", 2, "its own threshold"),
        )
    ),
    Sample(
        name="field of another criterion",
        value={"criteria": {"response_match_score": {"threshold": 1, "match_type": "EXACT"}}},
        codes=("unknown-criterion-field",),
        says="belongs to `tool_trajectory_avg_score`",
    ),
    Sample(
        name="misspelt judge option",
        value={"criteria": {"final_response_match_v2": {"threshold": 1, "judge_model_options": {"num_sample": 1}}}},
        codes=("unknown-key",),
        path="criteria.final_response_match_v2.judge_model_options.num_sample",
        says="Did you mean `num_samples`",
    ),
    Sample(
        name="no samples",
        value={"criteria": {"final_response_match_v2": {"threshold": 1, "judgeModelOptions": {"numSamples": 0}}}},
        codes=("invalid-value",),
        path="criteria.final_response_match_v2.judgeModelOptions.numSamples",
    ),
    Sample(
        name="misspelt rubric field",
        value={"criteria": {"rubric_based_tool_use_quality_v1": {"threshold": 1, "rubrics": [rubric("a", typ="x")]}}},
        codes=("unknown-key",),
        says="Did you mean `type`",
    ),
    Sample(
        name="rubric twice",
        value={
            "criteria": {"rubric_based_tool_use_quality_v1": {"threshold": 1, "rubrics": [rubric("a"), rubric("a")]}}
        },
        codes=("duplicate-rubric-id",),
        schema_agrees=False,
    ),
    Sample(
        name="negative weight",
        value={
            "criteria": {
                "rubric_based_tool_use_quality_v1": {
                    "threshold": 1,
                    "rubrics": [rubric("a")],
                    "rubric_weights": {"a": -0.5},
                }
            }
        },
        codes=("invalid-value",),
        path="criteria.rubric_based_tool_use_quality_v1.rubric_weights.a",
    ),
    *(
        Sample(
            name=f"levels {says}",
            value={
                "criteria": {
                    "rubric_based_tool_use_quality_v1": {
                        "threshold": 1,
                        "rubrics": [rubric("a")],
                        key: {"a": [{"score": score, "text": text} for score, text in levels]},
                    }
                }
            },
            codes=("bad-rubric-levels",),
            path=f"criteria.rubric_based_tool_use_quality_v1.{key}.a",
            says=says,
            schema_agrees=False,
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
    Sample(
        name="level without a text",
        value={
            "criteria": {"rubric_based_tool_use_quality_v1": {"threshold": 1, "rubric_levels": {"a": [{"score": 0}]}}}
        },
        codes=("missing-field",),
    ),
    Sample(
        name="unknown backend",
        value={"criteria": {"safety_v1": {"threshold": 1, "backend": "openai"}}},
        codes=("invalid-value",),
    ),
    Sample(
        name="no tool name",
        value={"criteria": {"trajectory_single_tool_use": 1}},
        codes=("missing-field",),
        says="tool_name",
    ),
    Sample(
        name="unknown config keys are warnings",
        value={"criteria": {"response_match_score": 0}, "custom_metric": {}, "user_simulator_config": {"modell": "x"}},
        codes=("unknown-config-key", "unknown-config-key"),
        path="custom_metric",
        says="Did you mean `custom_metrics`",
    ),
    Sample(
        name="criteria beside criteria",
        value={"tool_trajectory_score": 1.0, "response_match_score": 0.8},
        codes=("unknown-config-key", "unknown-config-key", "no-criteria"),
        path="tool_trajectory_score",
        says="Write `tool_trajectory_partial` (a share of the calls)",
    ),
    Sample(
        name="a built-in criterion beside criteria",
        value={"criteria": {"response_match_score": 0}, "safety_v1": 0.8},
        codes=("unknown-config-key",),
        path="safety_v1",
        says='Criteria are keys of "criteria": {...}. Write `safety_v1` there.',
    ),
    Sample(
        name="live mode is a warning",
        value={"criteria": {"response_match_score": 0}, "liveModelConfig": {"timeoutSeconds": "30"}},
        codes=("live-mode-ignored",),
        path="liveModelConfig",
        says="agents in the ordinary mode only",
    ),
    Sample(
        name="unknown simulator",
        value={"criteria": {"response_match_score": 0}, "user_simulator_config": {"type": "human"}},
        codes=("invalid-value",),
        says="must have a `type` of 'llm_backed', 'llm_audio'",
        path="user_simulator_config",
    ),
    Sample(
        name="instructions in the old style",
        value=simulator(custom_instructions="{conversation_plan} {conversation_history} {stop_signal}"),
        codes=("custom-instructions-invalid",),
        path="user_simulator_config.custom_instructions",
        says="write `{{ stop_signal }}`",
        schema_agrees=False,
    ),
    Sample(
        name="instructions without plan",
        value=simulator(custom_instructions="{{ conversation_history }} {{ stop_signal }}"),
        codes=("custom-instructions-invalid",),
        says="do not use `conversation_plan`",
        schema_agrees=False,
    ),
    Sample(
        name="instructions that are no template",
        value=simulator(custom_instructions="\n{{ stop_signal }} {% if %}"),
        codes=("custom-instructions-invalid",),
        says="line 2 of the template",
        schema_agrees=False,
    ),
    Sample(
        name="instructions with an unknown filter",
        value=simulator(custom_instructions=INSTRUCTIONS + "{{ stop_signal | shout }}"),
        codes=("custom-instructions-invalid",),
        says="No filter named 'shout'",
        schema_agrees=False,
    ),
    Sample(
        name="instructions with an unknown variable",
        value=simulator(custom_instructions=INSTRUCTIONS + "{{ plan }}{% set x = 1 %}{{ x }}"),
        codes=("custom-instructions-unknown-variable",),
        says="`plan`, which is always empty",
    ),
    Sample(
        name="speaking simulator",
        value=simulator(type="llm_audio"),
        codes=("audio-simulator-ignored",),
        path="user_simulator_config.type",
        says="only supports text",
    ),
    Sample(
        name="code config",
        value={"criteria": {"mine": 1}, "custom_metrics": {"mine": {"code_config": {"name": "a.b", "args": []}}}},
        codes=("unknown-key",),
        path="custom_metrics.mine.code_config.args",
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
