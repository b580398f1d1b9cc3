"""A2A's cards, parts and numbers in both dialects, without a server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from evalset_samples import json_values
from hypothesis import example, given
from hypothesis import strategies as st

from agent_eval.agents.a2a._dialect import V03, V1, BadCard, Dialect, payload, read_card, state_of
from agent_eval.agents.a2a._task import Numbers, TaskReader, read_parts, write_parts
from agent_eval.agents.discovery.finder import Finder
from agent_eval.agents.http import parse_url
from agent_eval.core.content import Blob, Content, FileData, FunctionResponse, Part

SOURCE = parse_url("https://h.example/agents/dice")
JSON_RPC = {"protocolBinding": "JSONRPC", "protocolVersion": "1.0"}


def card(**fields: Any) -> dict[str, Any]:
    return {"name": "dice", **fields}


@pytest.mark.parametrize(
    ("fields", "url", "dialect"),
    [
        ({"supportedInterfaces": [{"url": "https://h.example/rpc", **JSON_RPC}]}, "https://h.example/rpc", V1),
        ({"url": "https://h.example/rpc/", "protocolVersion": "0.3.0"}, "https://h.example/rpc/", V03),
        ({"url": "https://h.example/rpc"}, "https://h.example/rpc", V03),
        ({"url": "https://h.example/rpc", "protocolVersion": "1.0"}, "https://h.example/rpc", V1),
        (
            {
                "url": "https://h.example/old",
                "protocolVersion": "0.3.0",
                "supportedInterfaces": [
                    {"url": "https://h.example/grpc", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
                    {"url": "https://h.example/new", **JSON_RPC},
                ],
            },
            "https://h.example/new",
            V1,
        ),
        (
            {
                "url": "https://h.example/grpc",
                "preferredTransport": "GRPC",
                "additionalInterfaces": [{"url": "https://h.example/rpc", "transport": "JSONRPC"}],
            },
            "https://h.example/rpc",
            V03,
        ),
    ],
)
def test_read_card__interface(fields: dict[str, Any], url: str, dialect: Dialect) -> None:
    read = read_card(card(**fields), SOURCE)
    assert (read.url, read.dialect) == (url, dialect)
    assert not read.streaming


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


@pytest.mark.parametrize(
    "raw",
    [
        None,
        [],
        {},
        {"name": 7},
        card(),
        card(url="https://u:p@h/"),
        card(url=7),
        card(url="https://h/", protocolVersion="2.0"),
    ],
)
def test_read_card__unusable(raw: Any) -> None:
    with pytest.raises(BadCard):
        read_card(raw, SOURCE)


@pytest.mark.parametrize("url", ["", "127.0.0.1:80", "ftp://h/", "http://u:p@h/", "http://h/#app"])
def test_agent__invalid_url(url: str, tmp_path: Path) -> None:
    path, problem = Finder(root=tmp_path).named(f"a2a:{url}", "--agent", None)
    assert path is None
    assert problem is not None
    assert problem.code == "remote-agent-url"
    assert "a2a:http" in (problem.hint or "")


def test_state_of__both_spellings() -> None:
    assert state_of({"status": {"state": "TASK_STATE_INPUT_REQUIRED"}}) == "input-required"
    assert state_of({"status": {"state": "input-required"}}) == "input-required"
    assert state_of({"status": {"state": "TASK_STATE_CANCELLED"}}) == "canceled"
    assert state_of({"status": {"state": 4}}) == state_of({}) == ""


@pytest.mark.parametrize("result", [None, [], {}, {"kind": "poem"}, {"task": 7}])
def test_payload__of_something_else(result: Any) -> None:
    assert payload(result) is None


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
RESPONSE = Part(function_response=FunctionResponse(id="c1", name="approve", response={"ok": True}))


TEXT_PART, FILE_FACTS = {"text": "hi"}, {"mediaType": "text/plain"}
CALL = {"id": "c1", "name": "approve", "response": {"ok": True}}


@pytest.mark.parametrize(
    ("dialect", "expected"),
    [
        (
            V1,
            [
                TEXT_PART,
                {"raw": "aGk/", **FILE_FACTS, "filename": "hi.txt"},
                {"url": "https://h/x", **FILE_FACTS},
                {"data": CALL, "metadata": {"adk_type": "function_response"}},
            ],
        ),
        (
            V03,
            [
                {"kind": "text", **TEXT_PART},
                {"kind": "file", "file": {"bytes": "aGk/", "mimeType": "text/plain", "name": "hi.txt"}},
                {"kind": "file", "file": {"uri": "https://h/x", "mimeType": "text/plain"}},
                {"kind": "data", "data": CALL, "metadata": {"adk_type": "function_response"}},
            ],
        ),
    ],
    ids=["1.0", "0.3"],
)
def test_parts__are_written_and_survive_both_ways(dialect: Dialect, expected: list[Any]) -> None:
    written = write_parts(Content(parts=[Part(text="hi"), FILE, LINK, RESPONSE, Part()]), dialect)
    assert written == expected
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


def reader() -> TaskReader:
    return TaskReader(V1, "dice", "m1", continues=None)


def said(text: str, **metadata: Any) -> dict[str, Any]:
    return {"role": "ROLE_AGENT", "parts": [{"text": text}], "metadata": metadata}


def status(state: str, message: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"statusUpdate": {"taskId": "t", "status": {"state": f"TASK_STATE_{state}", "message": message}}}


def texts(read: TaskReader) -> list[str]:
    return ["".join(part.get("text", "") for part in event["content"]["parts"]) for event in read.events()]


def test_task__a_sentence_that_two_events_say_is_kept_twice() -> None:
    read = reader()
    for event_id in ("e1", "e1", "e2"):
        read.take(status("WORKING", said("Rolling.", adk_event_id=event_id)))
    assert texts(read) == ["Rolling.", "Rolling."]


def test_task__an_artifact_that_is_sent_again_replaces_the_first() -> None:
    read = reader()
    for parts, append in ((["a"], False), (["b"], True), (["abc"], False)):
        artifact = {"artifactId": "x", "parts": [{"text": text} for text in parts]}
        read.take({"artifactUpdate": {"taskId": "t", "artifact": artifact, "append": append}})
    assert texts(read) == ["abc"]


def test_task__metadata_of_adk_show_that_calls_would_be_visible_and_usage() -> None:
    read, other = reader(), reader()
    read.take(status("COMPLETED", said("Hi!", adk_usage_metadata='{"promptTokenCount": 3.0}')))
    other.take(status("COMPLETED", said("Hi!")))
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
    read = reader()
    for result in results:
        read.take(result)
    read.events()
    assert read.ended in {True, False}
    assert isinstance(read.failure, tuple)
    assert isinstance(read.has_open_calls, bool)
