"""results.json: the report for programs, and the JSON Schema that describes it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError

from agent_eval_results import RunReport
from agent_eval_scoring.core.text import REPLACEMENT

SCHEMA_ID = "https://raw.githubusercontent.com/org/agent-eval-action/v1/schemas/results.schema.json"


_SURROGATE = re.compile("[\ud800-\udfff]")


def results_json(report: RunReport) -> str:
    """The report as JSON to be written in UTF-8: keys in the model's order, indented, with a newline at the end.

    A number that JSON doesn't know (infinity, not a number) becomes null, a character that UTF-8 can't carry U+FFFD.
    """
    return "".join(results_pieces(report))


_BEHIND_CASES = '\n "gate": '
"""The key after `cases`. Nothing else has this indentation, and a JSON string has no line breaks."""


def results_pieces(report: RunReport) -> Iterator[str]:
    """The same, a piece for each case: the text of 10,000 cases takes more memory than the cases."""
    head, key, tail = _dumped(report, exclude={"cases"}).partition(_BEHIND_CASES)
    yield f'{head}\n "cases": ['
    for number, case in enumerate(report.cases):
        yield (",\n  " if number else "\n  ") + _dumped(case).replace("\n", "\n  ")
    yield ("\n ]," if report.cases else "],") + key + tail + "\n"


def _dumped(model: BaseModel, exclude: set[str] | None = None) -> str:
    try:
        return model.model_dump_json(indent=1, exclude=exclude)
    except PydanticSerializationError:  # A lone surrogate. Searching for one beforehand costs more.
        return model.model_construct(**_carried(dict(model))).model_dump_json(indent=1, exclude=exclude)


def _carried(value: Any) -> Any:
    """The value, copied, with each lone surrogate in any text replaced."""
    if isinstance(value, str):
        return _SURROGATE.sub(REPLACEMENT, value)
    if isinstance(value, BaseModel):
        return value.model_construct(**{name: _carried(item) for name, item in value})
    if isinstance(value, dict):
        return {_carried(key): _carried(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_carried(item) for item in value]
    return value


def results_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of what `results_json` writes."""
    schema = RunReport.model_json_schema(mode="serialization", by_alias=False)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": "Results of agent-eval",
        **{key: value for key, value in schema.items() if key != "title"},
    }
