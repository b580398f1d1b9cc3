"""What is accepted of a turn, in each form and spelling of a case."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.core.content import Content, FunctionCall, FunctionResponse, Part, model_message, text_of, user_message
from agent_eval.core.invocation import (
    IntermediateData,
    Invocation,
    InvocationEvent,
    InvocationEvents,
    intermediate_responses,
    tool_calls,
    tool_responses,
)
from agent_eval_workbench.authoring.expectation import Field, NewTurn, accept_turn, accept_turns, adds_masked, too_large

ALL: frozenset[Field] = frozenset({"calls", "final", "intermediate"})


def event(**part: Any) -> InvocationEvent:
    return InvocationEvent(author="home", content=Content(role="model", parts=[Part(**part)]))


def call(name: str, **args: Any) -> FunctionCall:
    return FunctionCall(id=f"id-{name}", name=name, args=args)


def response(name: str, **value: Any) -> FunctionResponse:
    return FunctionResponse(id=f"id-{name}", name=name, response=value)


ACTUAL = Invocation(
    invocation_id="e-1",
    user_content=user_message("Off."),
    final_response=Content(
        role="model", parts=[Part(text="hm", thought=True), Part(text="It is off.", thought_signature="c2ln")]
    ),
    intermediate_data=InvocationEvents(
        invocation_events=[
            event(text="Let me look."),
            event(function_call=call("find", room="bedroom")),
            event(function_response=response("find", ids=[1])),
            event(function_call=call("switch", on=False)),
            event(function_response=response("switch", ok=True)),
        ]
    ),
)
USER = {"parts": [{"text": "Off."}]}


def test_accept_turn__flat_without_ids_and_thoughts() -> None:
    turn = {"user_content": USER, "rubrics": []}
    assert accept_turn(turn, NewTurn(actual=ACTUAL, fields=frozenset({"calls", "final"}))) == {
        "user_content": USER,
        "final_response": {"role": "model", "parts": [{"text": "It is off."}]},
        "intermediate_data": {
            "tool_uses": [{"name": "find", "args": {"room": "bedroom"}}, {"name": "switch", "args": {"on": False}}]
        },
        "rubrics": [],
    }


def test_accept_turn__flat_keeps_what_is_the_same_and_renews_responses() -> None:
    present = {"id": "kept", "name": "switch", "args": {"on": False}}
    turn = {
        "userContent": USER,
        "finalResponse": {"role": "model", "parts": [{"text": "Off", "thought": False}]},
        "intermediateData": {"toolUses": [present], "toolResponses": [{"name": "switch", "response": {}}]},
    }
    changed = accept_turn(turn, NewTurn(actual=ACTUAL, fields=ALL))
    assert [*changed] == [*turn], "the spelling of the file"
    assert changed["finalResponse"]["parts"] == [{"text": "It is off.", "thought": False}]
    data = changed["intermediateData"]
    assert data["toolUses"] == [{"name": "find", "args": {"room": "bedroom"}}, present]
    assert data["toolUses"][1] is present
    assert data["toolResponses"] == [
        {"name": "find", "response": {"ids": [1]}},
        {"name": "switch", "response": {"ok": True}},
    ]
    assert data["intermediateResponses"] == [["home", [{"text": "Let me look."}]]]
    only = accept_turn(turn, NewTurn(actual=ACTUAL, fields=frozenset({"calls"}), calls=(1,)))
    assert only["intermediateData"]["toolUses"] == [present]
    assert only["finalResponse"] is turn["finalResponse"]


@pytest.mark.parametrize("with_responses", [True, False])
def test_accept_turn__events_of_the_kinds_that_the_file_has(with_responses: bool) -> None:
    events = [
        {
            "author": "home",
            "content": {"parts": [{"functionCall": {"id": "7", "name": "switch", "args": {"on": False}}}]},
        },
        {"author": "home", "content": {"parts": [{"functionResponse": {"name": "switch", "response": {}}}]}},
    ][: 2 if with_responses else 1]
    turn = {"user_content": USER, "intermediate_data": {"invocation_events": events}}
    changed = accept_turn(turn, NewTurn(actual=ACTUAL, fields=frozenset({"calls"})))
    written = changed["intermediate_data"]["invocation_events"]
    assert [next(iter(item["content"]["parts"][0])) for item in written] == (
        ["functionCall", "functionResponse"] * 2 if with_responses else ["functionCall"] * 2
    )
    assert written[2 if with_responses else 1] is events[0], "an event that says the same stays, with its id"
    parsed = Invocation.model_validate(changed)
    assert [(item.name, item.args) for item in tool_calls(parsed.intermediate_data)] == [
        ("find", {"room": "bedroom"}),
        ("switch", {"on": False}),
    ]


def test_accept_turn__no_answer_and_what_can_not_be_accepted() -> None:
    silent = ACTUAL.model_copy(update={"final_response": None})
    turn = {"user_content": USER, "final_response": {"parts": [{"text": "Off"}]}}
    assert accept_turn(turn, NewTurn(actual=silent, fields=frozenset({"final"}))) == {"user_content": USER}
    assert adds_masked({"text": "a"}, {"text": "the key is ***"})
    assert adds_masked({}, {"***": 1})
    assert not adds_masked({"text": "rated ***"}, {"text": "rated ***", "more": "b"}), "it was there before"
    assert too_large({"a": "x"}, {"a": "x" * 1_000_001})
    assert not too_large({"a": "x"}, {"a": "x", "b": "y" * 1_000})


CALLS = st.lists(
    st.builds(
        lambda name, args: FunctionCall(name=name, args=args),
        st.sampled_from("abc"),
        st.dictionaries(st.sampled_from("xy"), st.integers(0, 1), max_size=2),
    ),
    max_size=4,
)
TURNS = st.builds(
    lambda calls, answer, said, events: Invocation(
        user_content=user_message("Go."),
        final_response=model_message(answer),
        intermediate_data=InvocationEvents(
            invocation_events=[event(function_call=item) for item in calls] + [event(text=text) for text in said]
        )
        if events
        else IntermediateData(tool_uses=calls, intermediate_responses=[("home", [Part(text=text)]) for text in said]),
    ),
    CALLS,
    st.sampled_from(["on", "off", "灯 💡"]),
    st.lists(st.sampled_from(["one", "two"]), max_size=2),
    st.booleans(),
)


@given(present=TURNS, actual=TURNS, by_alias=st.booleans())
def test_accept_turns__the_expectation_equals_the_recorded_behavior(
    present: Invocation, actual: Invocation, by_alias: bool
) -> None:
    turn = present.model_dump(mode="json", by_alias=by_alias, exclude_none=True, exclude_defaults=True)
    case = {"eval_id": "case", "conversation": [turn]}
    before = copy.deepcopy(case)
    changed = accept_turns(case, {0: NewTurn(actual=actual, fields=ALL)})
    assert case == before
    expected = Invocation.model_validate(changed["conversation"][0])
    assert text_of(expected.final_response) == text_of(actual.final_response)
    assert [(item.name, item.args) for item in tool_calls(expected.intermediate_data)] == [
        (item.name, item.args) for item in tool_calls(actual.intermediate_data)
    ]
    assert intermediate_responses(expected) == intermediate_responses(actual)
    assert not tool_responses(expected.intermediate_data)
    assert accept_turns(changed, {0: NewTurn(actual=actual, fields=ALL)}) == changed
