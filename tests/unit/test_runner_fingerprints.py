"""What counts as the content of a case: every field of an eval file is listed here, as content or not."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from pydantic import BaseModel

from agent_eval.runner.plan import Plan, PlannedCase
from agent_eval_agents.fingerprints import case_fingerprint, earlier_fingerprint, is_content, with_tape
from agent_eval_scoring.core.content import Blob, Content, FileData, FunctionCall, FunctionResponse, Part
from agent_eval_scoring.core.invocation import (
    IntermediateData,
    Invocation,
    InvocationEvent,
    InvocationEvents,
    Rubric,
    RubricContent,
)
from agent_eval_scoring.evalset.models import EvalCase, EvalSet, LlmBackedUserSimulatorConfig, SessionInput
from agent_eval_scoring.evalset.models.schema import ConversationScenario, UserBehavior, UserPersona

CALL = {"id": "c1", "name": "lamp", "args": {"on": True}}
ANSWER = {"id": "c1", "name": "lamp", "response": {"ok": True}}
BLOB, FILE = {"data": "aGk=", "mime_type": "image/png"}, {"file_uri": "gs://a/b", "mime_type": "image/png"}
RUBRIC = {"rubric_id": "r", "rubric_content": {"text_property": "It asks."}, "type": "TOOL_USE_QUALITY"}
SAID = [["home", [{"text": "Wait."}]]]
EVENTS = [
    {"author": "home", "content": {"parts": [{"text": "Wait."}]}},
    {"author": "home", "content": {"parts": [{"function_call": CALL}, {"function_response": ANSWER}]}},
]
TURN: dict[str, Any] = {
    "invocation_id": "i",
    "user_content": {"role": "user", "parts": [{"text": "Go."}, {"inline_data": BLOB}, {"file_data": FILE}]},
    "final_response": {"role": "model", "parts": [{"text": "Done."}, {"inline_data": BLOB}, {"file_data": FILE}]},
    "intermediate_data": {"tool_uses": [CALL], "tool_responses": [ANSWER], "intermediate_responses": SAID},
    "rubrics": [RUBRIC],
}
BEHAVIOR = {"name": "n", "description": "d", "behavior_instructions": ["i"], "violation_rubrics": ["v"]}
TALK: dict[str, Any] = {
    "eval_id": "a",
    "conversation": [TURN, {**TURN, "intermediate_data": {"invocation_events": EVENTS}}],
    "session_input": {"app_name": "app", "user_id": "u", "state": {"room": 1}},
    "rubrics": [RUBRIC],
}
LED = {
    "eval_id": "a",
    "conversation_scenario": {
        "starting_prompt": "hi",
        "conversation_plan": "ask",
        "user_persona": {"id": "p", "description": "d", "behaviors": [BEHAVIOR]},
    },
}
VALUES: dict[str, Any] = {
    "conversation": [TURN],
    "rubrics": [{**RUBRIC, "rubric_id": "other"}],
    "session_input": {"app_name": "b", "user_id": "u"},
    "creation_timestamp": 7.0,
    "duration": 2.0,
    "model_duration": 1.0,
    "tool_duration": 1.0,
    "state": {"room": 2},
    "final_session_state": {"room": 2},
    "user_content": {"role": "user", "parts": [{"text": "Stop."}]},
    "final_response": {"role": "model", "parts": [{"text": "No."}]},
    "intermediate_data": {"tool_uses": [{"name": "fan"}]},
    "app_details": {"agent_details": {"home": {"name": "home"}}},
    "spans": [{"kind": "tool", "start": 0, "end": 1}],
    "session_state": {"room": 2},
    "errors": [{"code": "429"}],
    "lost_toolsets": [],
    "node_output": True,
    "tool_uses": [{"name": "fan"}],
    "tool_responses": [{"name": "fan"}],
    "intermediate_responses": [["b", [{"text": "x"}]]],
    "invocation_events": [],
    "content": {"parts": [{"text": "Hurry."}]},
    "rubric_content": {"text_property": "It waits."},
    "args": {"on": False},
    "partial_args": [1],
    "will_continue": True,
    "response": {"ok": False},
    "inline_data": BLOB,
    "file_data": FILE,
    "function_call": CALL,
    "function_response": ANSWER,
    "data": "aG8=",
    "thought": True,
    "behaviors": [],
    "behavior_instructions": ["other"],
    "violation_rubrics": ["other"],
    "user_persona": "EXPERT",
    "conversation_scenario": {"starting_prompt": "hi", "conversation_plan": "other"},
    "parts": [{"text": "other"}],
    "events": [{"author": "user", "content": {"parts": [{"text": "before"}]}}],
    "dataset_case": {"context": "other"},
    "thought_signature": "aGk=",
    **{key: {"a": 1} for key in ("grounding_metadata", "usage_metadata", "video_metadata", "part_metadata")},
    **{key: {"a": 1} for key in ("executable_code", "code_execution_result", "tool_call", "tool_response")},
}
"""Other values of fields; of all others the text `other`."""
ALL = "*"
T, E = ("conversation", 0), ("conversation", 1, "intermediate_data")
CONTENT: list[tuple[dict[str, Any], tuple[str | int, ...], type[BaseModel], str]] = [
    (TALK, (), EvalCase, "conversation session_input rubrics dataset_case"),
    (LED, (), EvalCase, "conversation_scenario session_input rubrics dataset_case"),
    (TALK, ("session_input",), SessionInput, ALL),
    (LED, ("conversation_scenario",), ConversationScenario, ALL),
    (LED, ("conversation_scenario", "user_persona"), UserPersona, ALL),
    (LED, ("conversation_scenario", "user_persona", "behaviors", 0), UserBehavior, ALL),
    (TALK, ("rubrics", 0), Rubric, "rubric_id rubric_content type"),
    (TALK, ("rubrics", 0, "rubric_content"), RubricContent, ALL),
    (TALK, T, Invocation, "user_content final_response intermediate_data rubrics"),
    (TALK, (*T, "rubrics", 0), Rubric, "rubric_id rubric_content type"),
    (TALK, (*T, "user_content"), Content, ALL),
    (TALK, (*T, "user_content", "parts", 0), Part, ALL),
    (TALK, (*T, "user_content", "parts", 1, "inline_data"), Blob, ALL),
    (TALK, (*T, "user_content", "parts", 2, "file_data"), FileData, ALL),
    (TALK, (*T, "final_response"), Content, "parts"),
    (
        TALK,
        (*T, "final_response", "parts", 0),
        Part,
        "text inline_data file_data executable_code code_execution_result",
    ),
    (TALK, (*T, "final_response", "parts", 1, "inline_data"), Blob, ALL),
    (TALK, (*T, "final_response", "parts", 2, "file_data"), FileData, ALL),
    (TALK, (*T, "intermediate_data"), IntermediateData, ALL),
    (TALK, (*T, "intermediate_data", "tool_uses", 0), FunctionCall, "name args"),
    (TALK, (*T, "intermediate_data", "tool_responses", 0), FunctionResponse, "name response"),
    (TALK, E, InvocationEvents, ALL),
    (TALK, (*E, "invocation_events", 0), InvocationEvent, "author content"),
    (TALK, (*E, "invocation_events", 0, "content", "parts", 0), Part, "text thought function_call function_response"),
    (TALK, (*E, "invocation_events", 1, "content", "parts", 0, "function_call"), FunctionCall, "name args"),
    (TALK, (*E, "invocation_events", 1, "content", "parts", 1, "function_response"), FunctionResponse, "name response"),
]
"""Where in which case each model stands, and its fields that are content there; no other field is."""


def fingerprint(case: dict[str, Any], user: dict[str, Any] | None = None) -> str:
    return case_fingerprint(EvalCase.model_validate(case), user)


def changed(case: dict[str, Any], path: tuple[str | int, ...], value: dict[str, Any], *drop: str) -> dict[str, Any]:
    """A copy in which the object at a path has these values, and lacks the fields to drop."""
    case = at = copy.deepcopy(case)
    for step in path:
        at = at[step]  # type: ignore[index]
    at.update(value)
    for name in drop:
        at.pop(name, None)
    return case


def test_case_fingerprint__every_field_of_an_eval_file_is_content_or_not() -> None:
    """A new field fails here, until it is read and listed, or gets a value that changes nothing."""
    for case, path, model, content in CONTENT:
        counts = set()
        for name in model.model_fields:
            if (case is TALK) and model is EvalCase and name == "conversation_scenario":
                continue
            if (case is LED) and model is EvalCase and name == "conversation":
                continue
            other = changed(case, path, {name: VALUES.get(name, "other")})
            if fingerprint(other) != fingerprint(case):
                counts.add(name)
        listed = set(model.model_fields) if content == ALL else set(content.split())
        assert counts == listed, (path, model.__name__)
    assert EvalSet.model_fields.keys() == {"eval_set_id", "name", "description", "eval_cases", "creation_timestamp"}


def test_case_fingerprint__every_option_of_a_simulated_user_counts_if_there_is_one() -> None:
    values: dict[str, Any] = {"model": "m", "model_configuration": {}, "max_allowed_invocations": 3}
    values |= {"custom_instructions": "x", "include_function_calls": True}
    assert LlmBackedUserSimulatorConfig.model_fields.keys() == {*values, "type"}
    for name, value in values.items():
        assert fingerprint(LED, {name: value}) != fingerprint(LED)
        assert fingerprint(TALK, {name: value}) == fingerprint(TALK)
    defaults = LlmBackedUserSimulatorConfig().model_dump()
    assert fingerprint(LED, defaults) == fingerprint(LED, None) == fingerprint(LED, {"note": "x"})


PLAIN: dict[str, Any] = {
    "eval_id": "a",
    "conversation": [{**TURN, "rubrics": None, "intermediate_data": {"tool_uses": [], "tool_responses": []}}],
    "session_input": {"app_name": "app", "user_id": "u", "state": {}},
}
DATA = (*T, "intermediate_data")
SAME: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "tags": (PLAIN, changed(PLAIN, (), {"tags": ["smoke"]})),
    "a note": (PLAIN, changed(PLAIN, (), {"note": "Why."})),
    "a description": (PLAIN, changed(PLAIN, (), {"description": "Why."})),
    "the state at the end": (PLAIN, changed(PLAIN, (), {"final_session_state": {"on": True}})),
    "no rubrics at the case": (PLAIN, changed(PLAIN, (), {"rubrics": []})),
    "rubrics at the case are null": (PLAIN, changed(PLAIN, (), {"rubrics": None})),
    "no rubrics at a turn": (PLAIN, changed(PLAIN, T, {"rubrics": []})),
    "the agents of a turn": (PLAIN, changed(PLAIN, T, {"app_details": VALUES["app_details"]})),
    "data left out": (PLAIN, changed(PLAIN, T, {}, "intermediate_data")),
    "data is null": (PLAIN, changed(PLAIN, T, {"intermediate_data": None})),
    "data is empty": (PLAIN, changed(PLAIN, T, {"intermediate_data": {}})),
    "no intermediate responses": (PLAIN, changed(PLAIN, DATA, {"intermediate_responses": []})),
    "no events": (PLAIN, changed(PLAIN, T, {"intermediate_data": {"invocation_events": []}})),
    "no role of a message": (PLAIN, changed(PLAIN, (*T, "user_content"), {}, "role")),
    "no role of an answer": (PLAIN, changed(PLAIN, (*T, "final_response"), {"role": None})),
    "an id of a turn": (PLAIN, changed(PLAIN, T, {"invocation_id": "other"})),
    "a time of a turn": (PLAIN, changed(PLAIN, T, {"creation_timestamp": 7.5})),
    "a duration": (PLAIN, changed(PLAIN, T, {"duration": 3.0})),
    "nulls spelled out": (
        PLAIN,
        changed(PLAIN, (*T, "user_content", "parts", 0), {"thought": None, "functionCall": None}),
    ),
    "no state": (PLAIN, changed(PLAIN, ("session_input",), {}, "state")),
    "a session id that is null": (PLAIN, changed(PLAIN, ("session_input",), {"session_id": None})),
    # Not among the rewritings that were reported:
    "another id": (PLAIN, changed(PLAIN, (), {"eval_id": "b", "creation_timestamp": 1.0})),
    "a key of the session": (PLAIN, changed(PLAIN, ("session_input",), {"note": "x"})),
    "ADK's names of a session": (
        changed(PLAIN, (), {}, "session_input"),
        changed(PLAIN, (), {"session_input": {"app_name": "EvaluationGenerator", "user_id": "test_user_id"}}),
    ),
    "camelCase": (
        TALK,
        {
            ("evalId" if name == "eval_id" else "sessionInput" if name == "session_input" else name): value
            for name, value in TALK.items()
        },
    ),
    "ids of calls": (TALK, changed(TALK, (*DATA, "tool_uses", 0), {"id": "adk-1"})),
    "a signature of an answer": (
        TALK,
        changed(TALK, (*T, "final_response", "parts", 0), {"thought_signature": "aGk="}),
    ),
    "a key of an answer": (TALK, changed(TALK, (*T, "final_response", "parts", 0), {"note": "x"})),
    "an empty text of an answer": (
        PLAIN,
        changed(PLAIN, (*T, "final_response"), {"parts": [*TURN["final_response"]["parts"], {"text": ""}]}),
    ),
    "no answer": (
        changed(PLAIN, T, {"final_response": {"role": "model", "parts": []}}),
        changed(PLAIN, T, {}, "final_response"),
    ),
    "usage of an event": (
        TALK,
        changed(TALK, (*E, "invocation_events", 0), {"usage_metadata": {"a": 1}, "branch": "b"}),
    ),
    "the newer form": (
        changed(TALK, (), {"conversation": [TURN]}),
        changed(TALK, (), {"conversation": [TALK["conversation"][1]]}),
    ),
    "a description of a rubric": (TALK, changed(TALK, ("rubrics", 0), {"description": "x"})),
}


@pytest.mark.parametrize("name", SAME)
def test_case_fingerprint__what_nothing_reads_does_not_change_a_case(name: str) -> None:
    one, other = SAME[name]
    assert one != other
    assert fingerprint(one) == fingerprint(other)


def test_case_fingerprint__the_state_at_the_end_counts_if_a_criterion_reads_it() -> None:
    def of(**more: Any) -> str:
        return case_fingerprint(EvalCase.model_validate({**PLAIN, **more}), None, compares_state=True)

    on, off = ({"final_session_state": {"on": value, "temp:x": value}} for value in (True, False))
    assert of() == fingerprint(PLAIN) == of(final_session_state={"temp:x": 1}) == of(final_session_state=None)
    assert len({of(), of(**on), of(**off)}) == 3
    assert is_content(EvalCase.model_validate({**PLAIN, **on}), None, of(**on))
    assert not is_content(EvalCase.model_validate({**PLAIN, **on}), None, of(**off))


def test_case_fingerprint__no_arguments_are_not_empty_ones_as_in_adk() -> None:
    none = changed(TALK, (*DATA, "tool_uses", 0), {"args": None})
    empty = changed(TALK, (*DATA, "tool_uses", 0), {"args": {}})
    assert fingerprint(none) != fingerprint(empty)


def test_rename_contents__of_results_of_older_versions() -> None:
    """A stored run of the whole case, its notes included, is a run of the case that has the same content now."""
    tagged, other = (EvalCase.model_validate(changed(each, (), {"tags": ["smoke"]})) for each in (TALK, PLAIN))
    facts = {"file": "a", "line": 1, "eval_set_id": "s", "criteria": (), "agent": "x", "fingerprint": "f"}
    cases = [
        PlannedCase(case_id=tape, case=case, content=with_tape(case_fingerprint(case, None), tape), tape=tape, **facts)  # type: ignore[arg-type]
        for case, tape in ((tagged, ""), (other, "tape"))
    ]

    class Stored(BaseModel):
        fingerprint: str

    old = [earlier_fingerprint(tagged, None), with_tape(earlier_fingerprint(other, None), "tape"), "of something else"]
    stored = [Stored(fingerprint=each) for each in old]
    Plan(cases=tuple(cases), num_runs=1).rename_contents(stored)  # type: ignore[arg-type]
    assert [each.fingerprint for each in stored] == [cases[0].content, cases[1].content, "of something else"]
    assert is_content(tagged, None, old[0])
    assert not is_content(other, None, old[0])
