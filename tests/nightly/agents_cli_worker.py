"""What google-agents-cli gives a metric for each case of datasets on stdin, whose agent says given events."""

from __future__ import annotations

import json
import sys
from typing import Any

from agentplatform._genai import _evals_metric_handlers as handlers
from google.agents.cli._agent_platform_types import types
from google.agents.cli.eval import _events, cmd_generate, cmd_grade


def instance(case: Any, events: list[dict[str, Any]]) -> Any:
    """The instance, or None if `eval generate` refuses the case."""
    _events.rewrite_model_author_events(case, "cinema")
    try:
        cmd_generate.split_case_history(case)
    except ValueError:
        return None
    said = [event for event in map(_events.parse_content_event, events) if event is not None]
    _events.strip_thought_signatures(said)
    case = cmd_generate.merge_events_into_case(case, said, agents_map={})
    cmd_grade._drop_content_less_events([case])
    seen: list[Any] = []
    metric = types.Metric(name="m", custom_function=lambda given: seen.append(given) or 1)
    handlers.CustomMetricHandler(None, metric).get_metric_result(case, 0)
    return seen[0]


def instances(dataset: Any, events: list[dict[str, Any]]) -> Any:
    try:
        cases = types.EvaluationDataset.model_validate_json(json.dumps(dataset)).eval_cases
    except ValueError:
        return None
    return [instance(case, events) for case in cases]


given = json.load(sys.stdin)
print(json.dumps({name: instances(dataset, given["events"]) for name, dataset in given["datasets"].items()}))
