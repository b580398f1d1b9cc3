"""Names of metrics and fields of other tools, with their equivalents here.

The tools are adk-rust (zavora-ai/adk-rust, adk-eval), DeepEval, Vertex AI, and libraries for text similarity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic.alias_generators import to_snake

_SIMILARITY = '`response_similarity` with "algorithm": "{}"'
_RUBRICS = (
    "`rubric_based_final_response_quality_v1`, `rubric_based_tool_use_quality_v1` or "
    "`rubric_based_multi_turn_trajectory_quality_v1`"
)
_TRAJECTORY = "`tool_trajectory_partial` (a share of the calls) or `tool_trajectory_avg_score` (all or nothing)"
_TEXTS = (
    "`response_similarity` (similar words) or, with a judge, `final_response_match_v2` (the same meaning); "
    "there are no embeddings"
)
_MATCHES = '`tool_trajectory_avg_score` with "match_type": "{}"'

METRICS_OF_OTHER_TOOLS: dict[str, str] = {
    # adk-rust
    "tool_trajectory": _TRAJECTORY,
    "tool_trajectory_score": _TRAJECTORY,
    "tool_trajectory_config": "`tool_trajectory_partial`, which has these fields",
    "exact_tools": '`tool_trajectory_avg_score`, or `tool_trajectory_partial` with "strict_args": true, both with 1.0',
    "response_match": "`response_similarity`",
    "response_match_config": "`response_similarity`, which has these fields",
    "semantic_match": "`final_response_match_v2`",
    "semantic_match_score": "`final_response_match_v2`",
    "rubric": _RUBRICS,
    "rubrics": _RUBRICS,
    "rubric_config": f"{_RUBRICS}, which have `rubrics`",
    "rubric_quality": _RUBRICS,
    "rubric_quality_score": _RUBRICS,
    "safety": "`safety_v1`",
    "safety_score": "`safety_v1`",
    "hallucination": "`hallucinations_v1`",
    "hallucination_score": "`hallucinations_v1`",
    "structured_judge": _RUBRICS,
    "embedding_similarity": _TEXTS,
    # DeepEval
    "g_eval": _RUBRICS,
    "answer_relevancy": f"a rubric of {_RUBRICS}",
    "faithfulness": "`hallucinations_v1`",
    "toxicity": "`safety_v1`",
    "bias": "`safety_v1`, or a rubric of `rubric_based_final_response_quality_v1`",
    "task_completion": "`multi_turn_task_success_v1`",
    "tool_correctness": _TRAJECTORY,
    "argument_correctness": "`rubric_based_tool_use_quality_v1`",
    # Vertex AI
    "trajectory_exact_match": _MATCHES.format("EXACT"),
    "trajectory_in_order_match": _MATCHES.format("IN_ORDER"),
    "trajectory_any_order_match": _MATCHES.format("ANY_ORDER"),
    # Text similarity
    "exact_match": _SIMILARITY.format("exact"),
    "contains": _SIMILARITY.format("contains"),
    "levenshtein": _SIMILARITY.format("levenshtein"),
    "edit_distance": _SIMILARITY.format("levenshtein"),
    "jaccard": _SIMILARITY.format("jaccard"),
    "rouge_1": "`response_match_score`",
    "rouge_2": _SIMILARITY.format("rouge2"),
    "rouge_l": _SIMILARITY.format("rougeL"),
    "bleu": _TEXTS,
    "bert_score": _TEXTS,
}
"""The equivalent of each metric, as the object of "use"."""


def equivalent_of(metric: str) -> str | None:
    """The equivalent of another tool's metric; None if the name is not one of them.

    Args:
        metric: Its name in any style: `exact_tools()`, `GEval`, `ToolCorrectnessMetric`, `rougeL`.
    """
    name = to_snake(metric.strip().removesuffix("()")).replace("-", "_").replace(" ", "_").removesuffix("_metric")
    return METRICS_OF_OTHER_TOOLS.get(name)


_TEXT = {
    "response_match_score": "It always ignores case, punctuation and white space (ROUGE-1): remove it, or use "
    "`response_similarity`, which has this field."
}
_IN_ORDER = (
    'Write "match_type": "IN_ORDER" instead of true, "ANY_ORDER" instead of false; or use `tool_trajectory_partial`, '
    "which has this field."
)
_FOREIGN: dict[str, dict[str, str]] = {
    "strict_order": {"tool_trajectory_avg_score": _IN_ORDER},
    "strict_args": {
        "tool_trajectory_avg_score": 'For false write "args_match": "subset", which allows further arguments; true is '
        'the default; "ignore_args": true compares only the names of tools.'
    },
    "algorithm": {
        "response_match_score": "It is ROUGE-1: remove it, or use `response_similarity`, which has this field."
    },
    "ignore_case": _TEXT,
    "ignore_punctuation": _TEXT,
    "normalize": _TEXT,
    "direction": {},
    "compat": {},
    "weight": {},
    "levels": {},
    "match_type": {
        "tool_trajectory_partial": 'Write "strict_order": true instead of IN_ORDER, false instead of ANY_ORDER; a '
        "threshold of 1.0 is EXACT."
    },
    "ignore_args": {
        "tool_trajectory_partial": "Omit the args of the expected calls instead: then any arguments match."
    },
    "args_match": {"tool_trajectory_partial": 'Write "strict_args": false instead of "subset", true instead of exact.'},
}
"""Hints by field and by metric."""
_OWNERS = {
    "strict_order": "`tool_trajectory_partial` has this field.",
    "strict_args": "`tool_trajectory_partial` has this field.",
    **dict.fromkeys(
        ("algorithm", "ignore_case", "ignore_punctuation", "normalize", "direction"),
        "`response_similarity` has this field.",
    ),
    "compat": "`response_similarity` and `tool_trajectory_partial` have this field.",
    "weight": "Each criterion must reach its own threshold; only rubrics have weights, in `rubric_weights`.",
    "levels": "The rubric metrics have graded levels, in `rubric_levels`.",
}
"""Hints for every other metric."""


def hint_for_field(field: str, metric: str) -> str | None:
    """What to write instead of another tool's field, or of a field of a similar metric; None if it is not one.

    Args:
        field: A field that the metric lacks, in any spelling.
        metric: A built-in metric.
    """
    name = to_snake(field)
    return _FOREIGN.get(name, {}).get(metric) or _OWNERS.get(name)


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
