"""What ADK's drivers and A2A agents say becomes an invocation."""

from __future__ import annotations

import json
from typing import Any

import golden_files
import pytest
from evalset_samples import TEXT, json_values
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic.alias_generators import to_camel

from agent_eval_agents.a2a._dialect import ADK_EXTENSION, V03, V1, BadCard, payload, read_card, state_of
from agent_eval_agents.a2a._task import Numbers, TaskReader, read_parts, write_parts
from agent_eval_agents.adk.events import MalformedEvent, to_invocation
from agent_eval_agents.adk_rest._normalise import merged, normalised
from agent_eval_agents.http import parse_url
from agent_eval_agents.messages import TurnFacts
from agent_eval_scoring.core.content import Blob, Content, FileData, FunctionResponse, Part, user_message
from agent_eval_scoring.core.invocation import Invocation, InvocationEvents, tool_calls

# ADK's rules for turning a turn's events into an invocation (google-adk 2.13.0, measured).

CALL: dict[str, Any] = {"function_call": {"id": "1", "name": "add", "args": {"a": 1}}}
RESPONSE: dict[str, Any] = {"function_response": {"id": "1", "name": "add", "response": {"sum": 1}}}


def event(*parts: dict[str, Any], author: str = "bot", **more: Any) -> dict[str, Any]:
    return {"author": author, "invocation_id": "e-1", "content": {"role": "model", "parts": list(parts)}, **more}


def text(value: str, **more: Any) -> dict[str, Any]:
    return {"text": value, **more}


def read(*events: dict[str, Any], **facts: Any) -> Invocation:
    return to_invocation(events, user_message("hi"), TurnFacts.model_validate(facts))


META = {"usage_metadata": {"prompt_token_count": 3}, "model_version": "m", "grounding_metadata": {"g": 1}}
FUTURE = {
    "function_call": {**CALL["function_call"], "from_2030": True},
    "function_response": {**RESPONSE["function_response"], "from_2030": True},
}
REQUESTS = [
    {"agent": "bot", "instructions": "first", "tools": [{"function_declarations": []}]},
    {"agent": "bot", "instructions": "second", "tools": []},
    {"agent": "silent", "instructions": "inside a tool", "tools": []},
]
AUDIO, BINARY = ({"inline_data": {"data": data, "mime_type": "audio/wav"}} for data in ("AAAA", "_-8="))
RESULT = {"code_execution_result": {"output": "1"}}
TURNS: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    **{
        name: (events, {})
        for name, events in {
            "a text": [event(text("a"))],
            "text around a call": [event(text("one"), CALL), event(RESPONSE), event(text("two"))],
            "parallel calls alone": [event(CALL, CALL), event(RESPONSE, RESPONSE)],
            "two authors": [event(text("first")), event(text("second"), author="other")],
            "long-running": [event(text("asked"), CALL, long_running_tool_ids=["1"])],
            "no summary": [event(CALL), event(RESPONSE, actions={"skip_summarization": True})],
            "a thought": [event(text("thinking", thought=True), text("said"))],
            "a part of a text": [event(text("par"), partial=True), event(text("partial"))],
            "cut": [event(text("cut"), error_code="MAX_TOKENS")],
            "a call with an error": [event(CALL, error_code="MALFORMED")],
            "a part with an error": [event(text("only partial"), partial=True, error_code="X")],
            "a result at the end": [event(text("ran"), RESULT)],
            "a result at the beginning": [event(RESULT, text("so"))],
            "code": [event({"executable_code": {"code": "1"}})],
            "an error": [{"author": "bot", "error_code": "SAFETY"}],
            "nothing": [event()],
            "only metadata": [event(grounding_metadata={"a": 1})],
            "of the user": [event(text("mine"), author="USER")],
            "audio": [event(text("said")), event(AUDIO)],
            "binary data": [event(BINARY), event(text("said"))],
            "keys of newer versions": [{**event(FUTURE), "from_2030": {}}, event({**text("x"), "part_key_2030": 1})],
            "absent arguments are not empty": [
                event({"function_call": {"name": "f"}}, {"function_call": {"name": "f", "args": {}}})
            ],
            "a part that is a text": [event("text")],  # type: ignore[arg-type]
            "a call that is a text": [event({"function_call": "f"})],
            "a text that is a number": [event({"text": 5})],
            "a content that is a text": [{"author": "bot", "content": "text"}],
            "usage that is a text": [event(text("x"), usage_metadata="many")],
        }.items()
    },
    "metadata and times": (
        [{"content": {"parts": [text("x")]}, "invocation_id": "e-9", **META}],
        {"started_at": 12.5, "duration": 1.23456, "model_duration": 0.9996, "tool_duration": 0.0},
    ),
    "requests of those who spoke": ([event(text("x"))], {"requests": REQUESTS}),
}


def test_events__become_an_invocation() -> None:
    lines = []
    for name, (events, facts) in TURNS.items():
        try:
            read_turn = read(*events, **facts).model_dump(mode="json", exclude_defaults=True, exclude={"user_content"})
            lines.append(f"{name}: {json.dumps(read_turn)}")
        except MalformedEvent as error:
            lines.append(f"{name}: refused: {str(error).partition(': ')[0]}")
    golden_files.check("golden_events.txt", "\n".join(lines) + "\n")


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


def call(name: str, **more: Any) -> dict[str, Any]:
    return event({"function_call": {"id": f"c-{name}", "name": name, "args": {}}}, author="root", **more)


def result(name: str, author: str = "user", **more: Any) -> dict[str, Any]:
    return event({"function_response": {"id": f"c-{name}", "name": name, "response": {}}}, author=author, **more)


@pytest.mark.parametrize(
    ("events", "responses"),
    [
        ([call("task"), result("task"), event(text("done"))], [("root", "task")]),
        ([call("a"), call("b"), result("b"), result("a")], [("root", "b"), ("root", "a")]),
        ([call("task"), result("task"), result("task")], [("root", "task")]),
        ([call("task"), result("task", "bot"), result("task")], [("bot", "task")]),
        ([call("task", long_running_tool_ids=["c-task"]), result("task")], []),
        ([result("task"), call("task")], []),
        ([call("task"), result("other")], []),
        ([call("task"), result("task", content=None)], []),
        (
            [event({"function_call": {"name": "task"}}), event({"function_response": {"name": "task"}}, author="user")],
            [],
        ),
    ],
)
def test_events__result_of_a_task_is_the_response_to_its_call(
    events: list[dict[str, Any]], responses: list[tuple[str, str]]
) -> None:
    """google-adk 2 writes the result of a sub-agent with `mode="task"` as an event of the user."""
    data = read(*events).intermediate_data
    assert isinstance(data, InvocationEvents)
    parts = [(one.author, part) for one in data.invocation_events if one.content for part in one.content.iter_parts()]
    assert [(author, part.function_response.name) for author, part in parts if part.function_response] == responses


@pytest.mark.parametrize(
    ("events", "is_output"),
    [
        ([event(content=None, output=True)], True),
        ([event(content=None, output=0)], True),
        ([event(text("sunny"), output="sunny")], False),
        ([event(content=None, output=True), event(content=None)], False),
        ([], False),
    ],
)
def test_events__value_of_a_workflows_last_node(events: list[dict[str, Any]], is_output: bool) -> None:
    assert read(*events).node_output is is_output


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


INTERFACE = {"url": RPC, **JSON_RPC}
CARDS: dict[str, Any] = {
    "1.0": card(supportedInterfaces=[INTERFACE]),
    "0.3": card(url=f"{RPC}/", protocolVersion="0.3.0"),
    "no version": card(url=RPC),
    "1.0 as 0.3": card(url=RPC, protocolVersion="1.0"),
    "both": card(url=f"{RPC}/old", protocolVersion="0.3.0", supportedInterfaces=[GRPC, INTERFACE]),
    "another transport": card(
        **GRPC, preferredTransport="GRPC", additionalInterfaces=[{"url": RPC, "transport": "JSONRPC"}]
    ),
    "only another transport": card(**GRPC, preferredTransport="GRPC"),
    "streaming, and ADK's extension": card(
        url=RPC, capabilities={"streaming": True, "extensions": [{"uri": ADK_EXTENSION}]}
    ),
    "another extension": card(url=RPC, capabilities={"extensions": [{"uri": "https://other.example/extension"}]}),
    # A loopback address is the server of the card.
    **{
        f"at {url}": card(url=url)
        for url in (
            "http://localhost:8000/",
            "http://127.0.0.1:8000",
            "http://0.0.0.0:8000/a2a/dice",
            "/a2a/dice/",
            "https://other.example/x/",
        )
    },
    "a password": card(url="https://u:p@h/"),
    "a number": card(url=7),
    "2.0": card(url="https://h/", protocolVersion="2.0"),
    "nothing": None,
    "a list": [],
    "no name": {},
    "a number for a name": {"name": 7},
    "no address": card(),
}


def test_read_card__where_and_how_an_agent_is_asked() -> None:
    lines = []
    for name, raw in CARDS.items():
        try:
            found = read_card(raw, SOURCE)
            facts = f"streaming {found.streaming}, shows calls {found.shows_calls}"
            lines.append(f"{name}: {found.url}, {found.dialect.version}, {facts}")
        except BadCard as error:
            lines.append(f"{name}: unusable: {error}")
    golden_files.check("golden_agent_cards.txt", "\n".join(lines) + "\n")


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


ARTIFACTS = [({"artifactId": "x", "parts": [text(words)]}, words == "b") for words in ("a", "b", "abc")]
TASKS = {
    "a sentence that two events say is kept twice": [
        said("Rolling.", "WORKING", adk_event_id=event_id) for event_id in ("e1", "e1", "e2")
    ],
    "an artifact that is sent again replaces the first": [
        {"artifactUpdate": {"taskId": "t", "artifact": artifact, "append": append}} for artifact, append in ARTIFACTS
    ],
    "metadata of ADK: calls would be visible, and usage": [said("Hi!", adk_usage_metadata='{"promptTokenCount": 3.0}')],
    "without metadata": [said("Hi!")],
    "failed": [said("No.", "FAILED")],
    "it asks": [said("Which?", "INPUT_REQUIRED")],
}


def test_task__what_is_read_of_updates() -> None:
    lines = []
    for name, updates in TASKS.items():
        read = task_of(*updates)
        facts = (
            f"ended {read.ended}, failure {read.failure}, open calls {read.has_open_calls}, calls {read.shows_calls}"
        )
        lines += [f"{name}: {facts}", *(f"  {json.dumps(event)}" for event in read.events())]
    golden_files.check("golden_tasks.txt", "\n".join(lines) + "\n")


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
