"""ADK's rules for turning a turn's events into an invocation (google-adk 2.13.0, measured)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.agents.adk.events import MalformedEvent, to_invocation
from agent_eval.agents.messages import TurnFacts
from agent_eval.core.content import text_of, user_message
from agent_eval.core.invocation import Invocation, InvocationEvents, tool_calls, tool_responses

CALL: dict[str, Any] = {"function_call": {"id": "1", "name": "add", "args": {"a": 1}}}
RESPONSE: dict[str, Any] = {"function_response": {"id": "1", "name": "add", "response": {"sum": 1}}}


def event(*parts: dict[str, Any], author: str = "bot", **more: Any) -> dict[str, Any]:
    return {"author": author, "invocation_id": "e-1", "content": {"role": "model", "parts": list(parts)}, **more}


def text(value: str, **more: Any) -> dict[str, Any]:
    return {"text": value, **more}


def read(*events: dict[str, Any], **facts: Any) -> Invocation:
    return to_invocation(events, user_message("hi"), TurnFacts.model_validate(facts))


def kept(invocation: Invocation) -> list[str]:
    assert isinstance(invocation.intermediate_data, InvocationEvents)
    return [
        "blank" if item.content is None else "+".join(_kind(part) for part in item.content.iter_parts())
        for item in invocation.intermediate_data.invocation_events
    ]


def _kind(part: Any) -> str:
    return "call" if part.function_call else "response" if part.function_response else "text"


@pytest.mark.parametrize(
    ("events", "final", "shape"),
    [
        ([event(text("a"))], "a", ["blank"]),
        ([event(text("one"), CALL), event(RESPONSE), event(text("two"))], "two", ["text+call", "response", "blank"]),
        (
            [event(CALL, CALL), event(RESPONSE, RESPONSE), event(text("x"))],
            "x",
            ["call+call", "response+response", "blank"],
        ),
        ([event(text("first")), event(text("second"), author="other")], "second", ["text", "blank"]),
        ([event(text("asked"), CALL, long_running_tool_ids=["1"])], "asked", ["text+call"]),
        ([event(CALL), event(RESPONSE, actions={"skip_summarization": True})], "", ["call", "blank"]),
        ([event(text("thinking", thought=True), text("said"))], "thinking\nsaid", ["blank"]),
        ([event(text("par"), partial=True), event(text("partial"))], "partial", ["text", "blank"]),
        ([event(text("cut"), error_code="MAX_TOKENS")], "cut", ["blank"]),
        ([event(CALL, error_code="MALFORMED")], None, ["call"]),
        ([event(text("only partial"), partial=True, error_code="X")], None, ["text"]),
        ([event(text("ran"), {"code_execution_result": {"output": "1"}})], None, ["text+text"]),
        ([event({"code_execution_result": {"output": "1"}}, text("so"))], "so", ["blank"]),
        ([event({"executable_code": {"code": "1"}})], "", []),
        ([{"author": "bot", "error_code": "SAFETY"}], None, []),
        ([event()], None, []),
        ([event(grounding_metadata={"a": 1})], None, [""]),
        ([event(text("mine"), author="USER")], None, []),
        (
            [event(text("said")), event({"inline_data": {"data": "AAAA", "mime_type": "audio/wav"}})],
            "said",
            ["blank", "text"],
        ),
        ([event({"inline_data": {"data": "_-8="}}), event(text("said"))], "said", ["text", "blank"]),
    ],
)
def test_events__shapes(events: list[dict[str, Any]], final: str | None, shape: list[str]) -> None:
    invocation = read(*events)
    assert (None if invocation.final_response is None else text_of(invocation.final_response)) == final
    assert kept(invocation) == shape


def test_events__metadata_is_copied_and_survives_a_blank_event() -> None:
    facts = {"usage_metadata": {"prompt_token_count": 3}, "model_version": "m", "grounding_metadata": {"g": 1}}
    said = {"content": {"parts": [text("x")]}, "invocation_id": "e-9", **facts}
    invocation = read(said, started_at=12.5, duration=1.23456, model_duration=0.9996, tool_duration=0.0)
    assert isinstance(invocation.intermediate_data, InvocationEvents)
    (only,) = invocation.intermediate_data.invocation_events
    assert only.model_dump(exclude_none=True) == {"author": "agent", **facts}, "an unknown author is the agent"
    assert (invocation.invocation_id, invocation.creation_timestamp) == ("e-9", 12.5)
    durations = (invocation.duration, invocation.model_duration, invocation.tool_duration)
    assert durations == (1.235, 1.0, 0.0), "to the millisecond"


def test_events__keys_of_newer_versions_are_left_out() -> None:
    future = {"function_call": {**CALL["function_call"], "from_2030": True}, "part_key_2030": 1}
    answer = {"function_response": {**RESPONSE["function_response"], "from_2030": True}}
    bare = event({"function_call": {"name": "f"}}, {"function_call": {"name": "f", "args": {}}})
    invocation = read(
        {**event(future), "from_2030": {}},
        bare,
        event(answer),
        {**event(text("x")), "content": {"parts": [text("x")], "more": 1}},
    )
    args = [call.args for call in tool_calls(invocation.intermediate_data)]
    assert args == [{"a": 1}, None, {}], "absent ones are not empty"
    assert tool_responses(invocation.intermediate_data)[0].response == {"sum": 1}


def test_events__app_details_come_from_the_first_request_of_those_who_spoke() -> None:
    requests = [
        {"agent": "bot", "instructions": "first", "tools": [{"function_declarations": []}]},
        {"agent": "bot", "instructions": "second", "tools": []},
        {"agent": "silent", "instructions": "inside a tool", "tools": []},
    ]
    details = read(event(text("x")), requests=requests).app_details
    assert details is not None
    assert list(details.agent_details) == ["bot"]
    assert details.agent_details["bot"].instructions == "first"
    assert details.agent_details["bot"].tool_declarations == [{"function_declarations": []}]


@pytest.mark.parametrize(
    "broken",
    [
        {"author": "bot", "content": "text"},
        {"author": "bot", "content": {"parts": ["text"]}},
        {"author": "bot", "content": {"parts": [{"function_call": "f"}]}},
        {"author": "bot", "content": {"parts": [{"text": 5}]}},
        {"author": "bot", "content": {"parts": [{"text": "x"}]}, "usage_metadata": "many"},
    ],
)
def test_events__what_no_adk_would_write_is_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(MalformedEvent):
        read(broken)


PARTS = st.sampled_from(
    [text("a"), text(""), CALL, RESPONSE, {"code_execution_result": {"output": ""}}, text("t", thought=True)]
)
EVENTS = st.builds(
    lambda parts, author, more: event(*parts, author=author, **more),
    st.lists(PARTS, max_size=3),
    st.sampled_from(["bot", "other", "user"]),
    st.fixed_dictionaries(
        {},
        optional={
            "partial": st.booleans(),
            "error_code": st.just("X"),
            "long_running_tool_ids": st.sampled_from([[], ["1"]]),
            "actions": st.sampled_from([{}, {"skip_summarization": True}]),
            "grounding_metadata": st.just({}),
        },
    ),
)


@given(st.lists(EVENTS, max_size=6))
def test_events__no_call_is_lost_and_no_final_text_counted_twice(events: list[dict[str, Any]]) -> None:
    invocation = read(*events)
    calls = sum(
        "function_call" in part for item in events if item["author"] != "user" for part in item["content"]["parts"]
    )
    assert len(tool_calls(invocation.intermediate_data)) == calls
    assert isinstance(invocation.intermediate_data, InvocationEvents)
    blanks = [item for item in invocation.intermediate_data.invocation_events if item.content is None]
    assert len(blanks) <= 1
    if blanks:
        assert invocation.final_response is not None
