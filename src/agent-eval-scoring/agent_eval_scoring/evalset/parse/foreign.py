"""Recognises files of other tools that have the names of ours: JSON with content, and no key of ADK's formats in it."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any

from agent_eval_scoring.core.files import MAX_TEXT, read_regular
from agent_eval_scoring.core.problem import Problem, Severity
from agent_eval_scoring.evalset.json import extras
from agent_eval_scoring.evalset.models import METRICS, ConfigFile
from agent_eval_scoring.evalset.parse.shape import keys_of, near_miss, spellings

_KEY = r"""(?<!\w)(?:%s)\b["'\u201d]?\s*[:=]"""
_OF_SETS = re.compile(  # also the older formats, and what ADK and this project write about eval sets
    _KEY % "eval_set_id|eval_cases|eval_id|invocation_id|user_content|final_response|intermediate_data|app_name|"
    "conversation_scenario|starting_prompt|expected_tool_use|expected_intermediate_agent_responses|initial_session|"
    r"eval_case_results|scoring_version|resourceSpans" + r"|eval-set\.schema"
)
_IN_CAMEL_CASE = re.compile(r'\A\s*\{(?=.*"evalSetId"\s*:)(?=.*"evalCases"\s*:)', re.DOTALL)
_OF_PARTS = re.compile(_KEY % "evalId|appName|evalCaseResults")
_OF_CONFIGS = re.compile(rf'\b(?:{"|".join(METRICS)})\b|"criteria"\s*:\s*\{{|test-config\.schema')
_CONFIG_KEYS = {"eval_metrics", "metrics_to_run", *spellings(keys_of(ConfigFile))}
_CRITERIA = ["criteria", "custom_metrics"]
_ALMOST = re.compile(_KEY % r"\w*criteri\w*|eval_?(?:set|case|metric)\w*|query")
"""In a text that is no JSON, these may be the keys of a file of ours with a mistake."""
_ANY_KEY = re.compile(r'\A\s*(?:/[/*]|[\[{]).*?"\s*:', re.DOTALL)


def foreign_eval_file(path: Path, name: str, *, named: bool) -> Problem | None:
    """A notice if a file with the name of an eval file is another tool's; None if it is ours, or may be.

    Args:
        path: The file.
        name: Its path relative to the root.
        named: The user names the file, so that it is an error.
    """
    text = _text(path)
    if text is None or _OF_SETS.search(text):
        return None
    if _IN_CAMEL_CASE.match(text):
        message = "is in camelCase throughout, as other tools (tRPC-Agent-Go) write it and ADK does not read it."
        return None if named else _found(name, Severity.WARNING, f"{message} It is not run.", "", code="foreign-file")
    value = _value(text)
    if _OF_PARTS.search(text) or not _has_content(text, value):
        return None
    if isinstance(value, dict) and any(near_miss(key, ["eval_set_id", "eval_cases", "criteria"]) for key in value):
        return None
    if isinstance(value, list) and any(_is_legacy(item) for item in value if isinstance(item, dict)):
        return None
    message = "is not an eval set: it has no key of one, so it seems to be another tool's."
    if named:
        hint = "Leave it out of the paths. Without paths, `agent-eval run` finds the eval files and skips other tools'."
        return _found(name, Severity.ERROR, message, hint, code="not-an-eval-set")
    return _found(name, Severity.NOTICE, f"{message} It is not run.", "", code="foreign-file")


def _is_legacy(item: dict[str, Any]) -> bool:
    """Whether an object can be a turn or an eval of the older formats, perhaps with mistakes."""
    inner = item.get("data")
    if isinstance(inner, list):
        return not inner or any(_is_legacy(turn) for turn in inner if isinstance(turn, dict))
    if any(near_miss(key, ["query"]) for key in item):
        return len(item) == 1 or any(near_miss(key, ["reference", "expected_tool_use"]) for key in item)
    return any(near_miss(key, ["expected_tool_use"]) for key in item)


def why_not_read(path: Path, name: str, *, excluded: bool) -> Problem | None:
    """A notice if a file with the name of a config is another tool's, or a warning if it is excluded and is not.

    Args:
        path: The file.
        name: Its path relative to the root.
        excluded: Whether `exclude` matches it, so that nothing is said of another tool's.
    """
    text = _text(path)
    value = _value(text or "")
    keys = value if isinstance(value, dict) else ()
    ours = text is None or _OF_CONFIGS.search(text) or not _has_content(text, value)
    if ours or any(key in _CONFIG_KEYS or "criteri" in key or near_miss(key, _CRITERIA) for key in keys):
        message = "is a config, but excluded, so its criteria don't apply."
        hint = "If `exclude` means another file of this name, write its path: `/test_config.json` is that of the root."
        return _found(name, Severity.WARNING, message, hint, code="config-excluded") if excluded else None
    message = "is not a config of evals: it has no key of one, so it seems to be another tool's."
    above = "A config above it applies, else ADK's defaults" if "/" in name else "ADK's defaults apply"
    hint = f"{above}; `config` names another."
    return None if excluded else _found(name, Severity.NOTICE, message, hint, code="foreign-file")


def _found(name: str, severity: Severity, message: str, hint: str, *, code: str) -> Problem:
    hint = f"{hint} `exclude` leaves the file out.".strip() if code == "foreign-file" else hint
    return Problem(severity=severity, code=code, message=f"The file {message}", hint=hint, file=name, line=1, column=1)


def _has_content(text: str, value: Any) -> bool:
    """Whether a file has members or items of somebody, or is no JSON but has keys that are not almost ours."""
    if value is None:
        return bool(_ANY_KEY.match(text)) and not _ALMOST.search(text)
    return bool(value) and isinstance(value, dict | list)


def _text(path: Path) -> str | None:
    """The text of a file, also of UTF-16; None if it can't be read, which is reported where it is parsed."""
    try:
        return read_regular(path, MAX_TEXT).replace(b"\0", b"").decode("utf-8", "replace").lstrip("\ufeff\ufffd")
    except OSError:
        return None


def _value(text: str) -> Any:
    """The value of JSON with or without comments and trailing commas; None for anything else."""
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(text)
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(extras(text).cleaned)
    return None
