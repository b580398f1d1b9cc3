"""The published JSON Schemas are up to date, and agree with the models on mutated files, too."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
from eval_schemas import SCHEMAS, main
from evalset_samples import BAD_CONFIGS, BAD_EVAL_SETS, GOOD_EVAL_SETS, GOOD_SCENARIOS, places, schema_accepts
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from agent_eval.evalset.models.schema import EvalSet

ROOT = Path(__file__).parents[2]


def test_main__writes_the_committed_schemas(tmp_path: Path) -> None:
    main(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(SCHEMAS)
    for path in tmp_path.iterdir():
        committed = (ROOT / "schemas" / path.name).read_text(encoding="utf-8")
        assert committed == path.read_text(encoding="utf-8"), "run: python tools/eval_schemas.py schemas/"


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas__are_valid(name: str) -> None:
    schema = SCHEMAS[name]()
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"].endswith(f"/schemas/{name}")
    references = set(re.findall(r'"\$ref": "#/\$defs/([^"]+)"', json.dumps(schema)))
    assert references <= set(schema["$defs"])


def test_jsonschema__codes_that_only_the_models_find_are_listed() -> None:
    """The tests of the models hold that these samples have these codes."""
    result = {code for sample in BAD_EVAL_SETS + BAD_CONFIGS if not sample.schema_agrees for code in sample.codes}
    text = (ROOT / "docs" / "problems.md").read_text(encoding="utf-8")
    section = text.split("## JSON Schemas for editors", 1)[1].split("\n## ", 1)[0]
    listed = set(re.findall(r"^\* `([a-z0-9-]+)`", section, re.MULTILINE))
    # These take more than one file, or a config that is not the default. The last one is a warning.
    more = {"duplicate-eval-set-id", "needs-scenario", "no-rubrics", "zero-rubric-weights"}
    assert listed == (result | more) - {"empty-eval-set"}


SMALL: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, 1, 2.5, -1, "", "x", "1", "1.5", "true", "yes", [], {}, [[]], ["x", []], [{}]]
)


@given(data=st.data())
def test_schemas__agree_on_mutated_files(data: st.DataObject) -> None:
    sample = data.draw(st.sampled_from([*GOOD_EVAL_SETS, *GOOD_SCENARIOS]))
    value = copy.deepcopy(sample.value)
    path = data.draw(st.sampled_from(places(value)[1:]))
    holder = value
    for step in path[:-1]:
        holder = holder[step]
    match data.draw(st.sampled_from(["replace", "delete", "add"])):
        case "replace":
            holder[path[-1]] = data.draw(SMALL)
        case "delete":
            del holder[path[-1]]
        case _ if isinstance(holder, dict):
            holder[data.draw(st.sampled_from(["text", "evalId", "unheardOf", "conversation", "intermediateData"]))] = (
                data.draw(SMALL)
            )
        case _:
            holder.append(data.draw(SMALL))
    try:
        EvalSet.model_validate(value)
        accepted = True
    except ValidationError:
        accepted = False
    assert schema_accepts("eval-set", value) == accepted, value
