"""Label files and criteria for the tests of calibration."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_eval.calibration.choosing import Chosen, choose
from agent_eval.calibration.labels import LabelSet, parse_labels
from agent_eval.core.problem import Problem

LOCAL = Path("/nonexistent")
RUBRICS = "rubric_based_final_response_quality_v1"


def criterion(name: str, **options: Any) -> Chosen:
    """A criterion by name, with options as a config file has them."""
    if not options:
        chosen, problems = choose(name, None, LOCAL)
        assert chosen is not None, problems
        return chosen
    from agent_eval.evalset.models.criteria import CRITERION_MODELS
    from agent_eval.evalset.parse.criteria import criterion as configured

    form = {"threshold": 0.5, **options}
    config = configured(name, CRITERION_MODELS[name].model_validate(form))
    return Chosen(config=config, source="test_config.json", threshold=config.threshold)


def rubrics(*ids: str) -> list[dict[str, Any]]:
    return [{"rubric_id": one, "rubric_content": {"text_property": f"It is {one}."}} for one in ids]


def jsonl(*rows: Mapping[str, Any] | str) -> bytes:
    return "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows).encode()


def row(label: Any = None, response: str = "Paris.", **more: Any) -> dict[str, Any]:
    """A line about the capital of France."""
    found = {"prompt": "The capital of France?", "response": response, "reference": "Paris", **more}
    return found if label is None else {**found, "label": label}


def labels(chosen: Chosen, *rows: Mapping[str, Any] | str) -> LabelSet:
    found, problems = parse_labels(jsonl(*rows), "labels.jsonl", chosen)
    assert found is not None, problems
    return found


def wrong(chosen: Chosen, *rows: Mapping[str, Any] | str) -> list[Problem]:
    found, problems = parse_labels(jsonl(*rows), "labels.jsonl", chosen)
    assert found is None
    return problems


def codes(problems: Sequence[Problem]) -> list[tuple[int | None, str]]:
    return [(problem.line, problem.code) for problem in problems]
