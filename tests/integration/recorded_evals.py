"""Eval files with recorded answers: evals that cost no agent and no model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gate_runs import eval_case

AGENT = "recorded:answers.json"
WITHOUT_PLUGINS = "-p no:hypothesispytest -p no:anyio"
"""PYTEST_ADDOPTS of a session that a test starts: plugins that it does not use take a third of its start."""


def case(eval_id: str, *, called: Iterable[str] = ("lamp",), **more: Any) -> dict[str, Any]:
    """A case of one turn in which tools are called; its text doesn't matter."""
    return eval_case(eval_id, ("Go.", [(name, {}) for name in called], "Done."), **more)


def write_evals(root: Path, path: str, answers: Mapping[str, Iterable[str]], *, missing: Iterable[str] = ()) -> None:
    """Writes an eval file in which `lamp` has to be called, and adds to answers.json what was called.

    Args:
        root: Where answers.json is.
        path: The eval file.
        answers: The tools that the recorded agent called, by eval id. `["lamp"]` passes.
        missing: More cases, of which nothing is recorded.
    """
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    cases = [case(eval_id) for eval_id in [*answers, *missing]]
    file.write_text(json.dumps({"eval_set_id": file.name.split(".")[0], "eval_cases": cases}, indent=1), "utf-8")
    (file.parent / "test_config.json").write_text('{"criteria": {"tool_trajectory_avg_score": 1.0}}', "utf-8")
    recording = root / "answers.json"
    earlier = json.loads(recording.read_text("utf-8"))["eval_cases"] if recording.exists() else []
    recorded = [*earlier, *(case(eval_id, called=called) for eval_id, called in answers.items())]
    recording.write_text(json.dumps({"eval_set_id": "answers", "eval_cases": recorded}), "utf-8")
