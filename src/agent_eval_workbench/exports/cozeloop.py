"""Eval cases as items of a CozeLoop evaluation set.

The format is the one that `veadk uploadevalset` of veadk-python 1.1.19 sends, with keys: an item for each turn with the
columns `input` and `output`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from agent_eval.core.content import text_of
from agent_eval.core.invocation import Invocation, tool_calls
from agent_eval.core.text import carriable
from agent_eval.evalset.models import LoadedFile

Json = dict[str, Any]
TRAJECTORY = "trajectory"


def cozeloop_items(files: Sequence[LoadedFile], *, trajectory: bool = False) -> list[Json]:
    """The items of all turns. A scenario has no turns, and therefore no items.

    Args:
        files: The eval files.
        trajectory: Whether to add a column with the expected tool calls as JSON.
    """
    return [
        {
            "item_key": _key(f"{file.path}:{selected.case.eval_id}", number),
            "turns": [{"field_datas": _columns(turn, trajectory=trajectory)}],
        }
        for file in files
        for selected in file.cases
        for number, turn in enumerate(selected.case.conversation or ())
    ]


def _key(case_id: str, turn: int) -> str:
    """The same for every upload, so that the service recognises the item."""
    return hashlib.sha256(json.dumps([case_id, turn]).encode()).hexdigest()


def _columns(turn: Invocation, *, trajectory: bool) -> list[Json]:
    columns = {"input": text_of(turn.user_content), "output": text_of(turn.final_response)}
    if trajectory:
        calls = [{"name": call.name, "args": call.args or {}} for call in tool_calls(turn.intermediate_data)]
        columns[TRAJECTORY] = json.dumps(calls, ensure_ascii=False)
    return [
        {"name": name, "content": {"content_type": "text", "text": carriable(text)}} for name, text in columns.items()
    ]


def cozeloop_schema(*, trajectory: bool = False) -> Json:
    """The columns of a new evaluation set."""
    columns = [("input", "plain_text"), ("output", "plain_text"), *([(TRAJECTORY, "json")] if trajectory else [])]
    return {
        "field_schemas": [
            {
                "name": name,
                "content_type": "text",
                "is_required": name == "input",
                "default_display_format": display,
                "schema_key": "string",
            }
            for name, display in columns
        ]
    }
