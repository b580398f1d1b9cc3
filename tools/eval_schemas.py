"""Generates the JSON Schemas for editors from the models: `python tools/eval_schemas.py schemas/`.

The schemas accept what the models accept: both spellings of a key where the model does, and numbers written as strings.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
import textwrap
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.alias_generators import to_camel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from agent_eval_agents.tapes import Tape
from agent_eval_scoring.core.invocation import MEASURED, Invocation, InvocationEvent
from agent_eval_scoring.evalset.models import CRITERION_MODELS, ConfigFile, EvalCase, EvalSet

_BASE = "https://raw.githubusercontent.com/org/agent-eval-action/v1/schemas/"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_ONLY_RECORDED = {Invocation: MEASURED, InvocationEvent: ("branch",)}
"""Keys of recordings that eval files don't have, by model."""
_NUMBER_TEXT = r"^\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*$"
_TRUTH_TEXT = r"^([tT]([rR][uU][eE])?|[fF]([aA][lL][sS][eE])?|[yY]([eE][sS])?|[nN]([oO])?|[oO][nN]|[oO][fF][fF]|0|1)$"
"""What pydantic reads as true or false (https://docs.pydantic.dev/latest/concepts/conversion_table/)."""


class _Schema(GenerateJsonSchema):
    """Describes what the models accept in files."""

    schema_dialect = _DIALECT

    def field_title_should_be_set(self, schema: Any) -> bool:
        """No titles, because they would only repeat the keys."""
        return False

    def float_schema(self, schema: core_schema.FloatSchema) -> JsonSchemaValue:
        """Numbers, as strings too."""
        return {**super().float_schema(schema), "type": ["number", "string", "boolean"], "pattern": _NUMBER_TEXT}

    def int_schema(self, schema: core_schema.IntSchema) -> JsonSchemaValue:
        """Whole numbers, as strings too."""
        return {**super().int_schema(schema), "type": ["integer", "string", "boolean"], "pattern": r"^\s*[+-]?\d+\s*$"}

    def bool_schema(self, schema: core_schema.BoolSchema) -> JsonSchemaValue:
        """True, false and their other spellings."""
        return {"type": ["boolean", "integer", "string"], "minimum": 0, "maximum": 1, "pattern": _TRUTH_TEXT}

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> JsonSchemaValue:
        """`anyOf` instead of `oneOf`, because `{}` matches several members."""
        result = super().tagged_union_schema(schema)
        result.pop("discriminator", None)
        if "oneOf" in result:
            result["anyOf"] = result.pop("oneOf")
        return result

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """The model's schema, with camelCase keys if the model reads them."""
        result = super().model_schema(schema)
        model: type[BaseModel] = schema["cls"]
        for key in _ONLY_RECORDED.get(model, ()):
            result["properties"].pop(key, None)
        if "properties" in result:
            for name, attribute in _attribute_docs(model):
                if name in result["properties"]:
                    result["properties"][name].setdefault("description", attribute)
            if model.model_config.get("alias_generator") is to_camel:
                _add_camel_case(result)
        if model is EvalCase:
            result.setdefault("allOf", []).append({"oneOf": [_has("conversation"), _has("conversation_scenario")]})
        return result


def _has(name: str) -> dict[str, Any]:
    """Matches if the key is present, in either spelling, and not null."""
    spellings = dict.fromkeys((name, to_camel(name)))
    return {"anyOf": [{"required": [key], "properties": {key: {"not": {"type": "null"}}}} for key in spellings]}


def _add_camel_case(schema: JsonSchemaValue) -> None:
    properties = schema["properties"]
    for name in list(properties):
        camel = to_camel(name)
        if camel != name:
            properties[camel] = {
                key: value for key, value in properties[name].items() if key not in ("title", "default")
            }
    either = [name for name in schema.get("required", ()) if to_camel(name) != name]
    required = [name for name in schema.pop("required", ()) if name not in either]
    if required:
        schema["required"] = required
    rules: list[dict[str, Any]] = [{"anyOf": [{"required": [name]}, {"required": [to_camel(name)]}]} for name in either]
    if schema.get("additionalProperties") is False:
        # A strict model reads one spelling and rejects the other as an unknown key.
        pairs = [(name, to_camel(name)) for name in properties if "_" in name]
        rules += [{"not": {"required": list(pair)}} for pair in pairs]
    if rules:
        schema["allOf"] = rules


def _attribute_docs(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """The docstrings under the fields of a model and of its bases."""
    for base in reversed(model.__mro__):
        if base is BaseModel or not issubclass(base, BaseModel):
            continue
        tree = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        for field, below in pairwise(tree.body if isinstance(tree, ast.ClassDef) else []):
            match field, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    yield name, " ".join(inspect.cleandoc(text).split())


def _published(model: type[BaseModel], file_name: str, title: str) -> dict[str, Any]:
    """The JSON Schema of a model with the id of its file in `schemas/` and the title that editors show."""
    schema = model.model_json_schema(by_alias=False, schema_generator=_Schema)
    schema.pop("title", None)
    return {"$schema": _DIALECT, "$id": f"{_BASE}{file_name}", "title": title, **schema}


def _eval_set() -> dict[str, Any]:
    schema = _published(EvalSet, "eval-set.schema.json", "Eval set of Google ADK")
    schema["properties"] = {"$schema": {"description": "For editors; nothing else reads it."}} | schema["properties"]
    return schema


def _test_config() -> dict[str, Any]:
    """The schema of a config. The object form of a criterion depends on its name."""
    schema = _published(ConfigFile, "test-config.schema.json", "test_config.json of Google ADK and agent-eval")
    definitions = schema.setdefault("$defs", {})
    threshold = {"type": ["number", "string", "boolean"], "pattern": _NUMBER_TEXT}
    by_metric: dict[str, Any] = {}
    for metric, model in CRITERION_MODELS.items():
        form = model.model_json_schema(by_alias=False, schema_generator=_Schema, ref_template="#/$defs/{model}")
        definitions |= form.pop("$defs", {})
        definitions[model.__name__] = form
        by_metric[metric] = {"anyOf": [threshold, {"$ref": f"#/$defs/{model.__name__}"}]}
    by_metric["trajectory_single_tool_use"] = {"$ref": "#/$defs/SingleToolUseCriterion"}
    schema["properties"] = {"$schema": {"description": "For editors; nothing else reads it."}} | schema["properties"]
    schema["properties"]["criteria"] |= {
        "properties": by_metric,
        "additionalProperties": {"anyOf": [threshold, {"$ref": "#/$defs/BaseCriterion"}]},
        "minProperties": 1,
    }
    schema["required"] = ["criteria"]
    return schema


def _tape() -> dict[str, Any]:
    return _published(Tape, "tape.schema.json", "Recorded tool calls of a case (agent-eval)")


SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "eval-set.schema.json": _eval_set,
    "test-config.schema.json": _test_config,
    "tape.schema.json": _tape,
}
"""The function that generates each schema, by file name."""


def schema_text(schema: dict[str, Any]) -> str:
    """The content of a schema's file."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def main(directory: Path) -> None:
    """Writes all schemas into a directory."""
    for name, make in SCHEMAS.items():
        (directory / name).write_text(schema_text(make()), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
