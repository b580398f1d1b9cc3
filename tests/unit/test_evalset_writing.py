"""The writer of eval sets: what it writes reads the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from evalset_samples import TEXT, json_values
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from agent_eval.core.content import Content, FunctionCall, FunctionResponse, Part
from agent_eval.core.invocation import (
    IntermediateData,
    Invocation,
    InvocationEvent,
    InvocationEvents,
    Rubric,
    RubricContent,
)
from agent_eval.evalset.json.patching import eval_set_text, write_text
from agent_eval.evalset.models.schema import ConversationScenario, EvalCase, EvalSet, SessionInput

OBJECTS = st.dictionaries(TEXT, json_values(most=5), max_size=3)


def optional(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


def build(model: type[BaseModel], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Like `st.builds`, which would fill in the aliases of fields as well."""
    return st.fixed_dictionaries(fields).map(lambda values: model(**values))


CALLS = build(FunctionCall, id=optional(TEXT), name=TEXT, args=optional(OBJECTS))
RESPONSES = build(FunctionResponse, name=TEXT, response=optional(OBJECTS))
PARTS = build(Part, text=optional(TEXT), thought=optional(st.booleans()), function_call=optional(CALLS))
CONTENTS = build(Content, role=optional(TEXT), parts=optional(st.lists(PARTS, max_size=2)))
EVENTS = build(InvocationEvent, author=TEXT, content=optional(CONTENTS), grounding_metadata=optional(OBJECTS))
DATA = build(
    IntermediateData,
    tool_uses=st.lists(CALLS, max_size=2),
    tool_responses=st.lists(RESPONSES, max_size=2),
    intermediate_responses=st.lists(st.tuples(TEXT, st.lists(PARTS, max_size=2)), max_size=2),
) | build(InvocationEvents, invocation_events=st.lists(EVENTS, min_size=1, max_size=2))
RUBRICS = st.lists(
    build(Rubric, rubric_id=TEXT, rubric_content=build(RubricContent, text_property=optional(TEXT))), max_size=2
)
TURNS = build(
    Invocation,
    invocation_id=TEXT,
    user_content=CONTENTS,
    final_response=optional(CONTENTS),
    intermediate_data=optional(DATA),
    rubrics=optional(RUBRICS),
    creation_timestamp=st.floats(0, 1e10),
)
SESSIONS = build(SessionInput, app_name=TEXT, user_id=TEXT, session_id=optional(TEXT), state=OBJECTS)
CASES = build(
    EvalCase,
    eval_id=TEXT,
    conversation=st.lists(TURNS, max_size=2),
    session_input=optional(SESSIONS),
    rubrics=optional(RUBRICS),
) | build(
    EvalCase,
    eval_id=TEXT,
    conversation_scenario=build(ConversationScenario, starting_prompt=TEXT, conversation_plan=TEXT),
)
EVAL_SETS = build(EvalSet, eval_set_id=TEXT, name=optional(TEXT), eval_cases=st.lists(CASES, max_size=2))


@given(eval_set=EVAL_SETS)
def test_eval_set_text__round_trip(eval_set: EvalSet) -> None:
    assert EvalSet.model_validate(json.loads(eval_set_text(eval_set))) == eval_set


def test_eval_set_text__format() -> None:
    """Indented, in the names of ADK, without what is unset, but with what somebody has set to null."""
    call = FunctionCall(name="f", args={"x": None})
    turn = Invocation(
        user_content=Content(parts=[Part(text="日本語")]), intermediate_data=IntermediateData(tool_uses=[call])
    )
    case = EvalCase.model_validate({"evalId": "c", "conversation": [turn], "tags": ["ours"], "rubrics": None})
    written = {
        "user_content": {"parts": [{"text": "日本語"}]},
        "intermediate_data": {"tool_uses": [{"name": "f", "args": {"x": None}}]},
    }
    cases = [{"eval_id": "c", "conversation": [written], "tags": ["ours"]}]
    text = json.dumps({"eval_set_id": "s", "eval_cases": cases}, indent=2, ensure_ascii=False) + "\n"
    assert eval_set_text(EvalSet(eval_set_id="s", eval_cases=[case])) == text


def test_write_text__failure_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "x.evalset.json"
    write_text(path, eval_set_text(EvalSet(eval_set_id="old", eval_cases=[])))
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "\ud800")
    assert json.loads(path.read_text()) == {"eval_set_id": "old", "eval_cases": []}
    assert [file.name for file in path.parent.iterdir()] == ["x.evalset.json"]
