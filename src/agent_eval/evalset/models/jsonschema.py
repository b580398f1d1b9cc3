"""JSON Schemas for editors, generated from the models: `python -m agent_eval.evalset.models.jsonschema schemas/`.

They accept what the models accept: both spellings of a key where the model takes both, and numbers written as strings.
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
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core import core_schema

from agent_eval.evalset.models.criteria import CRITERION_MODELS, ConfigFile
from agent_eval.evalset.models.schema import EvalCase, EvalSet

_BASE = "https://raw.githubusercontent.com/org/agent-eval-action/v1/schemas/"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_NUMBER_TEXT = r"^\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*$"
_TRUTH_TEXT = r"^([tT]([rR][uU][eE])?|[fF]([aA][lL][sS][eE])?|[yY]([eE][sS])?|[nN]([oO])?|[oO][nN]|[oO][fF][fF]|0|1)$"
"""What pydantic reads as true or false (https://docs.pydantic.dev/latest/concepts/conversion_table/)."""


class _Schema(GenerateJsonSchema):
    """Says what the models accept in files."""

    schema_dialect = _DIALECT

    def field_title_should_be_set(self, schema: Any) -> bool:
        """No: a title that repeats the key says nothing."""
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
        """Any member: `{}` is one of several."""
        made = super().tagged_union_schema(schema)
        made.pop("discriminator", None)
        if "oneOf" in made:
            made["anyOf"] = made.pop("oneOf")
        return made

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """The model's own, with camelCase twins where it reads them."""
        made = super().model_schema(schema)
        model: type[BaseModel] = schema["cls"]
        if "properties" in made:
            for name, attribute in _attribute_docs(model):
                if name in made["properties"]:
                    made["properties"][name].setdefault("description", attribute)
            if model.model_config.get("alias_generator") is to_camel:
                _add_twins(made)
        if model is EvalCase:
            made.setdefault("allOf", []).append({"oneOf": [_has("conversation"), _has("conversation_scenario")]})
        return made


def _has(name: str) -> dict[str, Any]:
    """The key is there, in either spelling, and not null."""
    spellings = dict.fromkeys((name, to_camel(name)))
    return {"anyOf": [{"required": [key], "properties": {key: {"not": {"type": "null"}}}} for key in spellings]}


def _add_twins(made: JsonSchemaValue) -> None:
    properties = made["properties"]
    for name in list(properties):
        twin = to_camel(name)
        if twin != name:
            properties[twin] = {
                key: value for key, value in properties[name].items() if key not in ("title", "default")
            }
    either = [name for name in made.get("required", ()) if to_camel(name) != name]
    required = [name for name in made.pop("required", ()) if name not in either]
    if required:
        made["required"] = required
    rules: list[dict[str, Any]] = [{"anyOf": [{"required": [name]}, {"required": [to_camel(name)]}]} for name in either]
    if made.get("additionalProperties") is False:
        # A strict model reads one spelling and takes the other for an unknown key.
        twins = [(name, to_camel(name)) for name in properties if "_" in name]
        rules += [{"not": {"required": list(pair)}} for pair in twins]
    if rules:
        made["allOf"] = rules


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


def schema_of(
    model: type[BaseModel], file_name: str, title: str, *, mode: JsonSchemaMode = "validation"
) -> dict[str, Any]:
    """The JSON Schema of a model, as it is published.

    Args:
        model: What to describe.
        file_name: Under which name it is published in `schemas/`.
        title: What editors call it.
        mode: `serialization` for what we write, `validation` for what users write.
    """
    generator = _Schema if mode == "validation" else GenerateJsonSchema
    made = model.model_json_schema(by_alias=False, mode=mode, schema_generator=generator)
    made.pop("title", None)
    return {"$schema": _DIALECT, "$id": f"{_BASE}{file_name}", "title": title, **made}


def _eval_set() -> dict[str, Any]:
    made = schema_of(EvalSet, "eval-set.schema.json", "Eval set of Google ADK")
    made["properties"] = {"$schema": {"description": "For editors; nothing else reads it."}} | made["properties"]
    return made


def _test_config() -> dict[str, Any]:
    """The config's schema: which object form a criterion has depends on its name."""
    made = schema_of(ConfigFile, "test-config.schema.json", "test_config.json of Google ADK and agent-eval")
    definitions = made.setdefault("$defs", {})
    threshold = {"type": ["number", "string", "boolean"], "pattern": _NUMBER_TEXT}
    by_metric: dict[str, Any] = {}
    for metric, model in CRITERION_MODELS.items():
        form = model.model_json_schema(by_alias=False, schema_generator=_Schema, ref_template="#/$defs/{model}")
        definitions |= form.pop("$defs", {})
        definitions[model.__name__] = form
        by_metric[metric] = {"anyOf": [threshold, {"$ref": f"#/$defs/{model.__name__}"}]}
    by_metric["trajectory_single_tool_use"] = {"$ref": "#/$defs/SingleToolUseCriterion"}
    made["properties"] = {"$schema": {"description": "For editors; nothing else reads it."}} | made["properties"]
    made["properties"]["criteria"] |= {
        "properties": by_metric,
        "additionalProperties": {"anyOf": [threshold, {"$ref": "#/$defs/BaseCriterion"}]},
        "minProperties": 1,
    }
    made["required"] = ["criteria"]
    return made


SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "eval-set.schema.json": _eval_set,
    "test-config.schema.json": _test_config,
}
"""What makes each published schema of what users write, by file name."""


def schema_text(schema: dict[str, Any]) -> str:
    """A schema as it stands in its file."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def main(directory: Path) -> None:
    """Writes all schemas into a directory."""
    for name, make in SCHEMAS.items():
        (directory / name).write_text(schema_text(make()), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
