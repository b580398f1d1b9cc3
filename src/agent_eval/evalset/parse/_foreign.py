"""Recognizes JSON files that are mistaken for eval sets or recordings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def what_is(value: Any) -> str | None:
    """Describes a document and names the tool that reads it; None if it is not recognized.

    Args:
        value: A JSON value that is not an eval set.
    """
    items = value if isinstance(value, list) else [value]
    objects = [item for item in items[:100] if isinstance(item, dict)]
    for is_kind, text in _KINDS:
        if any(is_kind(item) for item in objects):
            return text
    return None


def _has(*keys: str) -> Callable[[dict[str, Any]], bool]:
    return lambda item: any(key in item for key in keys)


_KINDS: tuple[tuple[Callable[[dict[str, Any]], bool], str], ...] = (
    (
        _has("eval_case_results", "evalCaseResults"),
        "It is an eval set result of ADK (.adk/eval_history), which contains scores; `adk web` shows it. "
        "`agent-eval migrate FILE NEW` makes eval cases of it.",
    ),
    (
        _has("tool_version", "scoring_version"),
        "It is a results.json of agent-eval, which contains scores; the recordings are next to it, in "
        "recordings.jsonl.gz. `agent-eval show` and `agent-eval compare` read it.",
    ),
    (
        _has("resourceSpans", "resource_spans", "traceId", "trace_id", "span_id", "spanId"),
        "It is a trace (OpenTelemetry). `agent-eval migrate FILE NEW` makes eval cases of its conversations.",
    ),
    (_has("criteria"), "It looks like a config file; use it with --config, or put it next to the eval files."),
    (
        _has("events"),
        "It is a recorded session of ADK, e.g. of `adk test`, for `adk web` and `adk run --resume`. "
        "`agent-eval migrate FILE NEW` makes an eval case of it.",
    ),
    (_has("scenarios"), "It looks like a file of scenarios; `agent-eval migrate OLD NEW` converts it to an eval set."),
    (
        _has("eval_id", "evalId"),
        'It looks like a single case, or a list of cases; write {"eval_set_id": "...", "eval_cases": [...]} around it.',
    ),
)
"""Recognizers and descriptions, the most specific first."""
