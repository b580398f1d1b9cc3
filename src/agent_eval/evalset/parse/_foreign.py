"""What a JSON file is that somebody took for an eval set or a recording: files of ADK and of others look alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def what_is(value: Any) -> str | None:
    """What a document seems to be, and what reads it; None if it resembles nothing that we know.

    Args:
        value: A JSON value that is no eval set.
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
        "It is an eval set result of ADK (.adk/eval_history), which holds scores; `adk web` shows it.",
    ),
    (
        _has("tool_version", "scoring_version"),
        "It is a results.json of agent-eval, which holds scores; what the agent did is beside it, in "
        "recordings.jsonl.gz. `agent-eval show` and `agent-eval compare` read it.",
    ),
    (
        _has("resourceSpans", "resource_spans", "traceId", "trace_id", "span_id", "spanId"),
        "It is a trace (OpenTelemetry), which a viewer of traces reads.",
    ),
    (_has("criteria"), "It looks like a config file; give it with --config, or put it beside the eval files."),
    (
        _has("events"),
        "It is a recorded session of ADK, as of `adk test`, which `adk web` imports and `adk run --resume` reads. "
        "`adk web` also saves a session as a case of an eval set (tab Eval).",
    ),
    (_has("scenarios"), "It looks like a file of scenarios; `agent-eval migrate OLD NEW` makes an eval set of it."),
    (
        _has("eval_id", "evalId"),
        'It looks like a single case, or a list of cases; write {"eval_set_id": "...", "eval_cases": [...]} around it.',
    ),
)
"""How to recognize each kind, the most telling first."""
