"""Strict parsing of replies."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.models._openai_chat import is_strict
from agent_eval.models._provider import parse_reply

SCHEMA = {
    "type": "object",
    "properties": {"verdict": {"enum": ["yes", "no"]}, "why": {"type": "string"}},
    "required": ["verdict", "why"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("around", ["", " ", "\n"])
def test_parse_reply__fits(around: str) -> None:
    value = {"verdict": "yes", "why": "ça marche"}
    assert parse_reply(around + json.dumps(value) + around, SCHEMA) == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("yes", "not JSON"),
        ('{"verdict": "yes", "why": "cut o', "not JSON"),
        ('```json\n{"verdict": "yes", "why": ""}\n```', "not JSON"),
        ('{"verdict": "yes", "why": ""} I hope this helps', "not JSON"),
        ('{"verdict": "no", "why": ""}{"verdict": "yes", "why": ""}', "not JSON"),
        ('{"verdict": "no", "why": "", "verdict": "yes"}', "twice"),
        ('{"verdict": "Yes", "why": ""}', "['verdict']"),
        ('{"verdict": "yes"}', "why"),
        ('{"verdict": "yes", "why": "", "score": 1}', "score"),
        ('["yes"]', "type 'object'"),
        ("null", "type 'object'"),
        ("NaN", "not JSON"),
        ("[" * 200_000, "nested"),
    ],
)
def test_parse_reply__does_not_fit(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=r"it |NaN") as error:
        parse_reply(text, SCHEMA)
    assert why in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    )
)
def test_parse_reply__parses_any_json(value: Any) -> None:
    assert parse_reply(json.dumps(value), {}) == value


@given(st.text())
def test_parse_reply__any_text_fits_or_raises_value_error(text: str) -> None:
    try:
        value = parse_reply(text, SCHEMA)
    except ValueError:
        return
    assert value["verdict"] in {"yes", "no"}


def test_structured__is_strict() -> None:
    assert is_strict(SCHEMA)
    assert is_strict({"type": "array", "items": SCHEMA})
    assert not is_strict({**SCHEMA, "required": ["verdict"]})
    assert not is_strict({**SCHEMA, "additionalProperties": True})
    assert not is_strict({**SCHEMA, "properties": {"verdict": {"type": "object", "properties": {}}, "why": {}}})
