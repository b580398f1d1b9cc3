"""Events of ADK's REST servers: only known keys are renamed, and the agent's data stays as it is."""

from __future__ import annotations

from typing import Any

import pytest
from evalset_samples import TEXT, json_values
from hypothesis import given
from hypothesis import strategies as st
from pydantic.alias_generators import to_camel

from agent_eval.agents.adk_rest._normalise import merged, normalised

OURS = {"function_call": 1, "functionCall": {"invocationId": None, "state_delta": [{"displayName": "x"}]}, "args": {}}
"""Data of an agent, with names like ours."""
CALL, RESPONSE = {"name": "f", "args": OURS}, {"name": "f", "response": OURS}
EVENT = {
    "id": "1",
    "invocation_id": "e-1",
    "author": "a",
    "content": {
        "role": "model",
        "parts": [
            {"text": "t", "thought": True, "thought_signature": "s"},
            {"function_call": {"id": "c", **CALL, "will_continue": True}},
            {"function_response": {"id": "c", **RESPONSE}},
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
        (CALL, {"function_call": CALL}),
        ({"id": "c", **CALL}, {"function_call": {"id": "c", **CALL}}),
        ({"function_response": RESPONSE}, {"function_response": RESPONSE}),
        ({"function_response": RESPONSE, "id": "c"}, {"function_response": {"id": "c", **RESPONSE}}),
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
