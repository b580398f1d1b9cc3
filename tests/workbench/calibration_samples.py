"""Label files and criteria for the tests of calibration."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_eval_scoring.core.problem import Problem
from agent_eval_workbench.calibration.labels import LabelSet, parse_labels
from agent_eval_workbench.calibration.target import TargetCriterion, choose_target

NO_ROOT = Path("/nonexistent")
RUBRICS = "rubric_based_final_response_quality_v1"


def criterion(name: str, **options: Any) -> TargetCriterion:
    """A criterion by name, with options as a config file has them."""
    if not options:
        target, problems = choose_target(name, None, NO_ROOT)
        assert target is not None, problems
        return target
    from agent_eval_scoring.evalset.models.criteria import CRITERION_MODELS
    from agent_eval_scoring.evalset.parse.criteria import criterion as configured

    form = {"threshold": 0.5, **options}
    config = configured(name, CRITERION_MODELS[name].model_validate(form))
    return TargetCriterion(config=config, source="test_config.json", threshold=config.threshold)


def rubrics(*ids: str) -> list[dict[str, Any]]:
    return [{"rubric_id": name, "rubric_content": {"text_property": f"It is {name}."}} for name in ids]


def jsonl(*rows: Mapping[str, Any] | str) -> bytes:
    return "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows).encode()


def row(label: Any = None, response: str = "Paris.", **more: Any) -> dict[str, Any]:
    """A line about the capital of France."""
    line = {"prompt": "The capital of France?", "response": response, "reference": "Paris", **more}
    return line if label is None else {**line, "label": label}


def labels(target: TargetCriterion, *rows: Mapping[str, Any] | str) -> LabelSet:
    parsed, problems = parse_labels(jsonl(*rows), "labels.jsonl", target)
    assert parsed is not None, problems
    return parsed


def wrong(target: TargetCriterion, *rows: Mapping[str, Any] | str) -> list[Problem]:
    parsed, problems = parse_labels(jsonl(*rows), "labels.jsonl", target)
    assert parsed is None
    return problems


def invocation(prompt: str, response: str, *calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """One of ADK's invocations; each call is a tool's name and what it returned."""
    parts = []
    for name, result in calls:
        parts += [{"function_call": {"name": name}}, {"function_response": {"name": name, "response": result}}]
    return {
        "user_content": {"role": "user", "parts": [{"text": prompt}]},
        "final_response": {"role": "model", "parts": [{"text": response}]},
        "intermediate_data": {
            "invocation_events": [{"author": "agent", "content": {"role": "model", "parts": [part]}} for part in parts]
        },
    }
