"""JSON files with the position of every value: syntax, reading, writing, changing."""

from agent_eval.evalset.json._syntax import ONE_DOCUMENT
from agent_eval.evalset.json.patching import (
    PatchError,
    patched_text,
    replaced,
    value_text,
    with_item,
    with_member,
    without,
    write_if_unchanged,
)
from agent_eval.evalset.json.positions import JsonPath
from agent_eval.evalset.json.reading import Document, parse_document, parse_value, read_document
from agent_eval.evalset.json.writing import eval_set_text, write_text

__all__ = [
    "ONE_DOCUMENT",
    "Document",
    "JsonPath",
    "PatchError",
    "eval_set_text",
    "parse_document",
    "parse_value",
    "patched_text",
    "read_document",
    "replaced",
    "value_text",
    "with_item",
    "with_member",
    "without",
    "write_if_unchanged",
    "write_text",
]
