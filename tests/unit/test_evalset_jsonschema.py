"""The published JSON Schemas are up to date and agree with the models."""

from __future__ import annotations

import copy
import functools
import json
import re
from pathlib import Path
from typing import Any

import pytest
from eval_schemas import SCHEMAS, main, schema_text
from evalset_samples import (
    BAD_CONFIGS,
    BAD_EVAL_SETS,
    GOOD_CONFIGS,
    GOOD_EVAL_SETS,
    GOOD_SCENARIOS,
    Sample,
)
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from agent_eval.core.problem import Problem, Severity
from agent_eval.evalset.json.reading import parse_document
from agent_eval.evalset.loading import load_suite
from agent_eval.evalset.models.schema import EvalSet
from agent_eval.evalset.parse.config import parse_config

ROOT = Path(__file__).parents[2]


@functools.cache
def validator(name: str) -> Any:
    """Of `eval-set` or `test-config`."""
    return Draft202012Validator(SCHEMAS[f"{name}.schema.json"]())


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas__committed_files_are_up_to_date(name: str) -> None:
    committed = (ROOT / "schemas" / name).read_text(encoding="utf-8")
    assert committed == schema_text(SCHEMAS[name]()), "run: python tools/eval_schemas.py schemas/"


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas__are_valid(name: str) -> None:
    schema = SCHEMAS[name]()
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"].endswith(f"/schemas/{name}")
    assert schema["description"]
    references = set(re.findall(r'"\$ref": "#/\$defs/([^"]+)"', json.dumps(schema)))
    assert references <= set(schema["$defs"])


def test_schemas__descriptions() -> None:
    eval_set, config = validator("eval-set").schema, validator("test-config").schema
    definitions = eval_set["$defs"]
    assert definitions["EvalCase"]["properties"]["rubrics"]["description"] == "Apply to every turn of the case."
    assert "sessionInput" in definitions["EvalCase"]["properties"]
    assert "evalSetId" not in eval_set["properties"]
    assert "tool_trajectory_avg_score" in config["properties"]["criteria"]["properties"]


def test_main__writes_all_schemas(tmp_path: Path) -> None:
    main(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(SCHEMAS)


def problems_of(sample: Sample, directory: Path) -> list[Problem]:
    (directory / "a.test.json").write_text(sample.text, encoding="utf-8")
    return list(load_suite(directory).problems)


def config_problems(value: Any) -> list[Problem]:
    document, problems = parse_document(json.dumps(value).encode(), "test_config.json")
    assert document is not None
    return parse_config(document, problems)[1]


def has_errors(problems: list[Problem]) -> bool:
    return any(problem.severity is Severity.ERROR for problem in problems)


@pytest.mark.parametrize("sample", [*GOOD_EVAL_SETS, *GOOD_SCENARIOS, *BAD_EVAL_SETS], ids=lambda sample: sample.name)
def test_eval_set_schema__agrees_with_the_models(sample: Sample, tmp_path: Path) -> None:
    wrong = sample not in GOOD_SCENARIOS and has_errors(problems_of(sample, tmp_path))
    assert validator("eval-set").is_valid(sample.value) == (not (wrong and sample.schema_agrees)), list(
        validator("eval-set").iter_errors(sample.value)
    )


@pytest.mark.parametrize("sample", [*GOOD_CONFIGS, *BAD_CONFIGS], ids=lambda sample: sample.name)
def test_config_schema__agrees_with_the_models(sample: Sample) -> None:
    wrong = has_errors(config_problems(sample.value))
    assert validator("test-config").is_valid(sample.value) == (not (wrong and sample.schema_agrees)), list(
        validator("test-config").iter_errors(sample.value)
    )


def test_jsonschema__codes_that_only_the_models_find_are_listed(tmp_path: Path) -> None:
    result: set[str] = set()
    for sample in BAD_EVAL_SETS:
        if not sample.schema_agrees:
            result |= {problem.code for problem in problems_of(sample, tmp_path) if problem.severity is Severity.ERROR}
    for sample in BAD_CONFIGS:
        if not sample.schema_agrees:
            result |= {problem.code for problem in config_problems(sample.value)}
    text = (ROOT / "docs" / "problems.md").read_text(encoding="utf-8")
    section = text.split("## JSON Schemas for editors", 1)[1].split("\n## ", 1)[0]
    listed = set(re.findall(r"^\* `([a-z0-9-]+)`", section, re.MULTILINE))
    # These take more than one file, or a config that is not the default.
    assert listed == result | {"duplicate-eval-set-id", "needs-scenario", "no-rubrics", "zero-rubric-weights"}


SMALL: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, 1, 2.5, -1, "", "x", "1", "1.5", "true", "yes", [], {}, [[]], ["x", []], [{}]]
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    result = [path]
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, child in children:
        result += places(child, (*path, step))
    return result


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
    assert validator("eval-set").is_valid(value) == accepted, value
