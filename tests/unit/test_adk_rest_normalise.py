"""Events of ADK's REST servers: only known keys are renamed, and the agent's data stays as it is."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic.alias_generators import to_camel

from agent_eval.agents.adk_rest._normalise import merged, normalised

OURS = [
    "functionCall",
    "function_call",
    "invocationId",
    "longRunningToolIds",
    "state_delta",
    "displayName",
    "name",
    "args",
]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
KEYS = st.sampled_from(OURS) | st.text(max_size=8)
DATA = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3))
OBJECTS = st.dictionaries(KEYS, DATA, max_size=4)
NAMES = st.text(min_size=1, max_size=10)


def without_nones(value: dict[str, Any]) -> dict[str, Any]:
    return {key: item for key, item in value.items() if item is not None}


CALLS = st.fixed_dictionaries({"name": NAMES, "args": OBJECTS}, optional={"id": NAMES, "will_continue": st.booleans()})
RESPONSES = st.fixed_dictionaries({"name": NAMES, "response": OBJECTS}, optional={"id": NAMES})
PARTS = st.one_of(
    st.fixed_dictionaries({"text": NAMES}, optional={"thought": st.booleans(), "thought_signature": NAMES}),
    st.fixed_dictionaries({"function_call": CALLS}),
    st.fixed_dictionaries({"function_response": RESPONSES}),
    st.fixed_dictionaries({"inline_data": st.fixed_dictionaries({"mime_type": NAMES, "data": st.just("AAAA")})}),
    st.fixed_dictionaries({"code_execution_result": st.fixed_dictionaries({"outcome": NAMES, "output": NAMES})}),
)
EVENTS = st.fixed_dictionaries(
    {"author": NAMES, "invocation_id": NAMES},
    optional={
        "id": NAMES,
        "content": st.fixed_dictionaries({"role": NAMES, "parts": st.lists(PARTS, max_size=3)}),
        "partial": st.booleans(),
        "error_code": NAMES,
        "long_running_tool_ids": st.lists(NAMES, max_size=2),
        "model_version": NAMES,
        "usage_metadata": st.fixed_dictionaries({"prompt_token_count": st.integers()}),
        "actions": st.fixed_dictionaries({"skip_summarization": st.booleans()}),
    },
)
DATA_KEYS = {"args", "response"}


def camel(value: Any) -> Any:
    """As a server writes it: every key but those of the agent's data in camelCase."""
    if isinstance(value, dict):
        return {to_camel(key): item if key in DATA_KEYS else camel(item) for key, item in value.items()}
    return [camel(item) for item in value] if isinstance(value, list) else value


@given(EVENTS)
def test_normalised__camel_case_and_back(event: dict[str, Any]) -> None:
    assert normalised(camel(event)) == event
    assert normalised(event) == event


@given(st.lists(CALLS | RESPONSES | st.fixed_dictionaries({"text": NAMES}), max_size=3))
def test_normalised__parts_of_rust(members: list[dict[str, Any]]) -> None:
    bare: list[dict[str, Any]] = []
    wrapped: list[dict[str, Any]] = []
    for member in members:
        plain = {key: value for key, value in member.items() if key != "will_continue"}
        if "args" in plain:
            bare, wrapped = [*bare, plain], [*wrapped, {"function_call": plain}]
        elif "response" in plain:
            response = {key: plain[key] for key in ("name", "response")}
            identity = {key: plain[key] for key in ("id",) if key in plain}
            bare = [*bare, {"function_response": response, **identity}]
            wrapped = [*wrapped, {"function_response": plain}]
        else:
            bare, wrapped = [*bare, plain], [*wrapped, plain]
    event = {"author": "a", "content": {"role": "model", "parts": bare}}
    assert normalised(event)["content"]["parts"] == wrapped


@given(OBJECTS, DATA)
def test_normalised__never_raises(event: dict[str, Any], content: Any) -> None:
    normalised({**event, "content": content, "actions": content, "usageMetadata": content})
    normalised({"content": {"parts": content}})
    normalised({"content": {"parts": [content]}})


def test_normalised__nulls_unknown_keys_and_both_spellings() -> None:
    grounding = {"webSearchQueries": ["q"], "x": None}
    raw = {"author": "a", "errorCode": None, "nodeInfo": {"x": 1}, "error_code": "X", "groundingMetadata": grounding}
    assert normalised(raw) == {"author": "a", "error_code": "X", "grounding_metadata": {"web_search_queries": ["q"]}}
    part = {"text": "", "functionCall": {"name": "f", "args": None}}
    assert normalised({"content": {"parts": [part]}}) == {"content": {"parts": [{"function_call": {"name": "f"}}]}}


def test_merged__partial_and_split_events() -> None:
    first = {"id": "1", "content": {"parts": []}}
    assert merged([{"id": "1", "partial": True}, first, {"id": "1"}, {"id": "2"}]) == [first, {"id": "2"}]
    assert merged([{"id": "1"}, first]) == [first]
    assert merged([{}, {}]) == [{}, {}]
