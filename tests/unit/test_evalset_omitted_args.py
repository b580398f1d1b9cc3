"""Expected calls without `args`: what each criterion makes of them is said before the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from evalset_samples import case, eval_set, turn

from agent_eval.core.problem import Severity
from agent_eval.evalset.loading import load_suite


def problems(
    directory: Path, metric: str, calls: list[dict[str, Any]], **options: Any
) -> list[tuple[str, Severity, str]]:
    value = turn(intermediate_data={"tool_uses": calls})
    (directory / "a.test.json").write_text(json.dumps(eval_set(case(conversation=[value]))))
    config = {"criteria": {metric: {"threshold": 1, **options}}}
    (directory / "test_config.json").write_text(json.dumps(config))
    return [(problem.code, problem.severity, problem.message) for problem in load_suite(directory).problems]


BARE, EMPTY = {"name": "look_up"}, {"name": "look_up", "args": {}}


@pytest.mark.parametrize(
    ("metric", "options", "severity", "says"),
    [
        ("tool_trajectory_partial", {}, Severity.NOTICE, "`tool_trajectory_partial` accepts any arguments"),
        ("tool_trajectory_partial", {"strict_args": True}, Severity.NOTICE, "accepts any arguments"),
        ("tool_trajectory_avg_score", {"args_match": "subset"}, Severity.NOTICE, "accepts any arguments"),
    ],
)
def test_omitted_args__one_finding_for_each_turn(
    metric: str, options: dict[str, Any], severity: Severity, says: str, tmp_path: Path
) -> None:
    [(code, result, message)] = problems(tmp_path, metric, [EMPTY, BARE, BARE], **options)

    assert (code, result) == ("omitted-args", severity)
    assert "`look_up`" in message
    assert says in message
    assert problems(tmp_path, metric, [EMPTY], **options) == []


@pytest.mark.parametrize("options", [{}, {"ignore_args": True, "args_match": "subset"}])
def test_omitted_args__not_mentioned_where_they_change_nothing(options: dict[str, Any], tmp_path: Path) -> None:
    assert problems(tmp_path, "tool_trajectory_avg_score", [BARE], **options) == []


def test_turn_without_reference__effect_on_similarity(tmp_path: Path) -> None:
    turns = [turn(), turn(final_response=None)]
    (tmp_path / "a.test.json").write_text(json.dumps(eval_set(case(conversation=turns))))
    (tmp_path / "test_config.json").write_text(json.dumps({"criteria": {"response_similarity": 1}}))
    [problem] = load_suite(tmp_path).problems
    assert problem.code == "turn-without-reference"
    assert "without a score" in (problem.hint or "")
