"""JSON files with the position of every value: syntax, reading, writing, changing."""

from agent_eval_scoring.evalset.json._syntax import ONE_DOCUMENT, extras
from agent_eval_scoring.evalset.json.patching import (
    PatchError,
    eval_set_text,
    patched_text,
    replaced,
    value_text,
    with_item,
    without,
    write_if_unchanged,
    write_text,
)
from agent_eval_scoring.evalset.json.positions import JsonPath
from agent_eval_scoring.evalset.json.reading import Document, parse_document, parse_value, read_document
