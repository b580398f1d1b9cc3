"""What ADK's drivers and A2A agents say becomes an invocation."""

from __future__ import annotations

import json
from typing import Any

import pytest
from evalset_samples import TEXT, json_values
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic.alias_generators import to_camel

from agent_eval.agents.a2a._dialect import ADK_EXTENSION, V03, V1, BadCard, Dialect, payload, read_card, state_of
from agent_eval.agents.a2a._task import Numbers, TaskReader, read_parts, write_parts
from agent_eval.agents.adk.events import MalformedEvent, to_invocation
from agent_eval.agents.adk_rest._normalise import merged, normalised
from agent_eval.agents.http import parse_url
from agent_eval.agents.messages import TurnFacts
from agent_eval.core.content import Blob, Content, FileData, FunctionResponse, Part, text_of, user_message
from agent_eval.core.invocation import Invocation, InvocationEvents, tool_calls, tool_responses

# ADK's rules for turning a turn's events into an invocation (google-adk 2.13.0, measured).

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
        ([event(CALL, CALL), event(RESPONSE, RESPONSE)], None, ["call+call", "response+response"]),
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


def test_events__what_no_adk_would_write_is_refused() -> None:
    parts: list[Any] = ["text", {"function_call": "f"}, {"text": 5}]
    broken = [event(part) for part in parts]
    for item in (*broken, {"author": "bot", "content": "text"}, event(text("x"), usage_metadata="many")):
        with pytest.raises(MalformedEvent):
            read(item)


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


# Events of ADK's REST servers: only known keys are renamed, and the agent's data stays as it is.

OURS = {"function_call": 1, "functionCall": {"invocationId": None, "state_delta": [{"displayName": "x"}]}, "args": {}}
"""Data of an agent, with names like ours."""
BARE_CALL, BARE_RESPONSE = {"name": "f", "args": OURS}, {"name": "f", "response": OURS}
EVENT = {
    "id": "1",
    "invocation_id": "e-1",
    "author": "a",
    "content": {
        "role": "model",
        "parts": [
            {"text": "t", "thought": True, "thought_signature": "s"},
            {"function_call": {"id": "c", **BARE_CALL, "will_continue": True}},
            {"function_response": {"id": "c", **BARE_RESPONSE}},
            {"inline_data": {"mime_type": "image/png", "data": "AAAA", "display_name": "n"}},
            {"file_data": {"mime_type": "image/png", "file_uri": "gs://x"}},
            {"executable_code": {"code": "1", "language": "PYTHON"}},
            {"code_execution_result": {"outcome": "OK", "output": "o"}},
        ],
    },
    "partial": False,
    "error_code": "X",
    "long_running_tool_ids": ["c"],
    "model_version": "m",
    "usage_metadata": {"prompt_token_count": 3},
    "actions": {"skip_summarization": True, "state_delta": OURS, "transfer_to_agent": "b", "escalate": True},
    **{"branch": "b", "timestamp": 1.5, "turn_complete": True, "error_message": "no", "finish_reason": "STOP"},
}
"""With every key that a host would dump (`serving.EVENT_FIELDS`)."""


def camel(value: Any) -> Any:
    """As a server writes it: every key but those of the agent's data in camelCase."""
    if isinstance(value, dict) and value is not OURS:
        return {to_camel(key): camel(item) for key, item in value.items()}
    return [camel(item) for item in value] if isinstance(value, list) else value


def parts_of(*parts: Any) -> Any:
    return normalised({"content": {"parts": list(parts)}})["content"]["parts"]


def test_normalised__camel_case_and_back() -> None:
    assert normalised(camel(EVENT)) == normalised(EVENT) == EVENT


@pytest.mark.parametrize(
    ("bare", "wrapped"),
    [
        (BARE_CALL, {"function_call": BARE_CALL}),
        ({"id": "c", **BARE_CALL}, {"function_call": {"id": "c", **BARE_CALL}}),
        ({"function_response": BARE_RESPONSE}, {"function_response": BARE_RESPONSE}),
        ({"function_response": BARE_RESPONSE, "id": "c"}, {"function_response": {"id": "c", **BARE_RESPONSE}}),
        ({"thinking": "hm"}, {"text": "hm", "thought": True}),
        ({"text": "t"}, {"text": "t"}),
    ],
)
def test_normalised__parts_of_rust(bare: dict[str, Any], wrapped: dict[str, Any]) -> None:
    assert parts_of({"text": "t"}, bare) == [{"text": "t"}, wrapped]


DATA = json_values(st.sampled_from(["functionCall", "function_call", "name", "args", "parts"]) | TEXT)


@given(st.dictionaries(TEXT, DATA, max_size=4), DATA)
def test_normalised__never_raises(event: dict[str, Any], content: Any) -> None:
    normalised({**event, "content": content, "actions": content, "usageMetadata": content})
    normalised({"content": {"parts": content}})
    parts_of(content)


def test_normalised__nulls_unknown_keys_and_both_spellings() -> None:
    grounding = {"webSearchQueries": ["q"], "x": None}
    raw = {"author": "a", "errorCode": None, "nodeInfo": {"x": 1}, "error_code": "X", "groundingMetadata": grounding}
    assert normalised(raw) == {"author": "a", "error_code": "X", "grounding_metadata": {"web_search_queries": ["q"]}}
    assert parts_of({"text": "", "functionCall": {"name": "f", "args": None}}) == [{"function_call": {"name": "f"}}]


def test_merged__partial_and_split_events() -> None:
    first = {"id": "1", "content": {"parts": []}}
    assert merged([{"id": "1", "partial": True}, first, {"id": "1"}, {"id": "2"}]) == [first, {"id": "2"}]
    assert merged([{"id": "1"}, first]) == [first]
    assert merged([{}, {}]) == [{}, {}]


# A2A's cards, parts and numbers in both dialects, without a server.

SOURCE = parse_url("https://h.example/agents/dice")
RPC = "https://h.example/rpc"
JSON_RPC = {"protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
GRPC = {"url": "https://h.example/grpc", "protocolBinding": "GRPC"}


def card(**fields: Any) -> dict[str, Any]:
    return {"name": "dice", **fields}


@pytest.mark.parametrize(
    ("fields", "url", "dialect"),
    [
        ({"supportedInterfaces": [{"url": RPC, **JSON_RPC}]}, RPC, V1),
        ({"url": f"{RPC}/", "protocolVersion": "0.3.0"}, f"{RPC}/", V03),
        ({"url": RPC}, RPC, V03),
        ({"url": RPC, "protocolVersion": "1.0"}, RPC, V1),
        (
            {"url": f"{RPC}/old", "protocolVersion": "0.3.0", "supportedInterfaces": [GRPC, {"url": RPC, **JSON_RPC}]},
            RPC,
            V1,
        ),
        (
            {**GRPC, "preferredTransport": "GRPC", "additionalInterfaces": [{"url": RPC, "transport": "JSONRPC"}]},
            RPC,
            V03,
        ),
    ],
)
def test_read_card__interface(fields: dict[str, Any], url: str, dialect: Dialect) -> None:
    read = read_card(card(**fields), SOURCE)
    assert (read.url, read.dialect) == (url, dialect)
    assert not read.streaming


@pytest.mark.parametrize(("uri", "shows"), [(ADK_EXTENSION, True), ("https://other.example/extension", False)])
def test_read_card__calls_are_shown_by_the_extension_of_adk(uri: str, shows: bool) -> None:
    read = read_card(card(url=RPC, capabilities={"extensions": [{"uri": uri}]}), SOURCE)
    assert read.shows_calls == shows


@pytest.mark.parametrize(
    ("written", "reached"),
    [
        ("http://localhost:8000/", "https://h.example/agents/dice/"),
        ("http://127.0.0.1:8000", "https://h.example/agents/dice/"),
        ("http://0.0.0.0:8000/a2a/dice", "https://h.example/a2a/dice"),
        ("/a2a/dice/", "https://h.example/a2a/dice/"),
        ("https://other.example/x/", "https://other.example/x/"),
    ],
)
def test_read_card__a_loopback_address_is_the_server_of_the_card(written: str, reached: str) -> None:
    assert read_card(card(url=written), SOURCE).url == reached


def test_read_card__unusable() -> None:
    addresses: list[dict[str, Any]] = [
        {},
        {"url": "https://u:p@h/"},
        {"url": 7},
        {"url": "https://h/", "protocolVersion": "2.0"},
    ]
    cards: list[Any] = [None, [], {}, {"name": 7}, *(card(**address) for address in addresses)]
    for raw in cards:
        with pytest.raises(BadCard):
            read_card(raw, SOURCE)


def test_state_of__both_spellings_and_payload_of_something_else() -> None:
    for state, name in (("TASK_STATE_INPUT_REQUIRED", "input-required"), ("TASK_STATE_CANCELLED", "canceled"), (4, "")):
        assert state_of({"status": {"state": state}}) == name
    others: list[Any] = [None, [], {}, {"kind": "poem"}, {"task": 7}]
    assert (state_of({"status": {"state": "input-required"}}), state_of({})) == ("input-required", "")
    assert [payload(other) for other in others] == [None] * 5


def as_doubles(value: Any) -> Any:
    """As protobuf's JSON writes a value."""
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, dict):
        return {key: as_doubles(each) for key, each in value.items()}
    return [as_doubles(each) for each in value] if isinstance(value, list) else value


@given(json_values(integers=st.integers(-(2**53) + 1, 2**53 - 1)))
def test_numbers__are_equal_and_written_as_before(value: Any) -> None:
    numbers = Numbers(V1)
    restored = numbers.restore(as_doubles(value))
    assert restored == value
    if not any(character in json.dumps(value) for character in ".eI"):
        assert json.dumps(restored) == json.dumps(value)


@pytest.mark.parametrize(
    ("number", "lost"), [(2.0**53 - 1, False), (2.0**53, True), (-1e20, True), (1e300, True), (0.5, False)]
)
def test_numbers__beyond_the_exact_ones(number: float, lost: bool) -> None:
    numbers = Numbers(V1)
    assert numbers.restore([number]) == [number]
    assert numbers.lost_digits is lost
    assert repr(Numbers(V03).restore({"a": 10.0})) == "{'a': 10.0}", "0.3 has them as the agent wrote them"


FILE = Part(inline_data=Blob(data="aGk_", mime_type="text/plain", display_name="hi.txt"))
LINK = Part(file_data=FileData(file_uri="https://h/x", mime_type="text/plain"))
ANSWER = {"id": "c1", "name": "approve", "response": {"ok": True}}
DATA_PART = {"data": ANSWER, "metadata": {"adk_type": "function_response"}}
PARTS_OF: dict[str, list[dict[str, Any]]] = {
    "1.0": [
        {"text": "hi"},
        {"raw": "aGk/", "mediaType": "text/plain", "filename": "hi.txt"},
        {"url": "https://h/x", "mediaType": "text/plain"},
        DATA_PART,
    ],
    "0.3": [
        {"kind": "text", "text": "hi"},
        {"kind": "file", "file": {"bytes": "aGk/", "mimeType": "text/plain", "name": "hi.txt"}},
        {"kind": "file", "file": {"uri": "https://h/x", "mimeType": "text/plain"}},
        {"kind": "data", **DATA_PART},
    ],
}


@pytest.mark.parametrize("version", PARTS_OF)
def test_parts__are_written_and_survive_both_ways(version: str) -> None:
    dialect = V1 if version == "1.0" else V03
    response = Part(function_response=FunctionResponse.model_validate(ANSWER))
    written = write_parts(Content(parts=[Part(text="hi"), FILE, LINK, response, Part()]), dialect)
    assert written == PARTS_OF[version]
    parts, _ = read_parts(json.loads(json.dumps(written)), Numbers(dialect))
    assert parts[:3] == [
        {"text": "hi"},
        {"inline_data": {"data": "aGk/", "mime_type": "text/plain", "display_name": "hi.txt"}},
        {"file_data": {"file_uri": "https://h/x", "mime_type": "text/plain"}},
    ]
    assert parts[3]["function_response"]["response"] == {"ok": True}


def test_read_parts__keys_of_arguments_are_not_changed_and_other_data_is_a_document() -> None:
    args = {"functionCall": {"mimeType": 1.0}, "adk_type": "function_call", "args": {"camelCase": 2.0}}
    part = {"data": {"id": "1", "name": "f", "args": args}, "metadata": {"adk_type": "function_call"}}
    [read, document], _ = read_parts([part, {"data": {"rows": [1]}}], Numbers(V1))
    assert read["function_call"] == {"id": "1", "name": "f", "args": args}
    assert document["inline_data"]["mime_type"] == "application/json"


def task_of(*updates: dict[str, Any]) -> TaskReader:
    reader = TaskReader(V1, "dice", "m1", continues=None)
    for update in updates:
        reader.take(update)
    return reader


def said(words: str, state: str = "COMPLETED", **metadata: Any) -> dict[str, Any]:
    message = {"role": "ROLE_AGENT", "parts": [{"text": words}], "metadata": metadata}
    return {"statusUpdate": {"taskId": "t", "status": {"state": f"TASK_STATE_{state}", "message": message}}}


def texts(read: TaskReader) -> list[str]:
    return ["".join(part.get("text", "") for part in event["content"]["parts"]) for event in read.events()]


def test_task__a_sentence_that_two_events_say_is_kept_twice() -> None:
    read = task_of(*(said("Rolling.", "WORKING", adk_event_id=event_id) for event_id in ("e1", "e1", "e2")))
    assert texts(read) == ["Rolling.", "Rolling."]


def test_task__an_artifact_that_is_sent_again_replaces_the_first() -> None:
    artifacts = [({"artifactId": "x", "parts": [text(words)]}, words == "b") for words in ("a", "b", "abc")]
    updates = ({"taskId": "t", "artifact": artifact, "append": append} for artifact, append in artifacts)
    assert texts(task_of(*({"artifactUpdate": update} for update in updates))) == ["abc"]


def test_task__metadata_of_adk_show_that_calls_would_be_visible_and_usage() -> None:
    read, other = task_of(said("Hi!", adk_usage_metadata='{"promptTokenCount": 3.0}')), task_of(said("Hi!"))
    assert (read.shows_calls, other.shows_calls) == (True, False)
    assert read.events()[0]["usage_metadata"] == {"promptTokenCount": 3}


KEYS = (
    *("task", "statusUpdate", "artifactUpdate", "message", "status", "state", "artifact", "artifacts", "role", "id"),
    *("history", "parts", "text", "data", "metadata", "adk_type", "function_call", "kind", "adk_usage_metadata"),
    *("adk_actions", "artifactId", "append", "file", "raw", "contextId"),
)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=25,
)


@given(st.lists(JUNK, max_size=4))
@example(
    [{"task": {"id": 1, "history": [{"role": "agent", "parts": 2}, 3], "artifacts": [{}, 4]}}, {"task": {"id": 1}}]
)
def test_task__any_json_is_read_without_an_exception(results: list[Any]) -> None:
    read = task_of(*results)
    read.events()
    assert read.ended in {True, False}
    assert isinstance(read.failure, tuple)
    assert isinstance(read.has_open_calls, bool)
