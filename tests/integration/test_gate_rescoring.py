"""What was recorded can be scored again, also where it lies."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import gate_server
import pytest


def _run(root: Path, *arguments: str) -> dict[str, Any]:
    """Runs the gate and gives results.json of its default output directory."""
    gate_server.run(["run", *arguments], cwd=root, environment=os.environ, timeout=60)
    results: dict[str, Any] = json.loads((root / "agent-eval-results" / "results.json").read_text("utf-8"))
    return results


@pytest.mark.parametrize("recording", ["agent-eval-results", "agent-eval-results/recordings.jsonl.gz"])
def test_rescoring__into_the_same_output_directory(tmp_path: Path, recording: str) -> None:
    turn = {"user_content": {"parts": [{"text": "hi"}]}, "final_response": {"parts": [{"text": "hello there"}]}}
    case = {"eval_id": "greets", "conversation": [turn]}
    (tmp_path / "a.test.json").write_text(json.dumps({"eval_set_id": "a", "eval_cases": [case]}), "utf-8")
    first = _run(tmp_path, "--agent", "recorded:a.test.json")
    assert first["verdict"] == "passed"
    (tmp_path / "test_config.json").write_text('{"criteria": {"trajectory_precision": 0.5}}', "utf-8")

    for _ in range(2):
        again = _run(tmp_path, "--agent", f"recorded:{recording}")

        assert again["verdict"] == "passed", again["cases"]
        assert again["cases"][0]["metrics"][0]["name"] == "trajectory_precision"


def test_rescoring__a_failure_shows_the_recorded_answer(tmp_path: Path) -> None:
    call, response = {"name": "look", "args": {"room": "hall"}}, {"name": "look", "response": {"devices": []}}
    turn: dict[str, Any] = {
        "user_content": {"parts": [{"text": "hi"}]},
        "final_response": {"parts": [{"text": "nothing there"}]},
        "intermediate_data": {"tool_uses": [call], "tool_responses": [response]},
    }
    file = tmp_path / "a.test.json"
    cases = [{"eval_id": "looks", "conversation": [turn]}]
    file.write_text(json.dumps({"eval_set_id": "a", "eval_cases": cases}), "utf-8")
    assert _run(tmp_path, "--agent", "recorded:a.test.json")["verdict"] == "passed"
    turn["final_response"] = {"parts": [{"text": "two lamps"}]}
    file.write_text(json.dumps({"eval_set_id": "a", "eval_cases": cases}), "utf-8")

    [failed] = _run(tmp_path, "--agent", "recorded:agent-eval-results")["cases"]

    [said] = failed["conversation"]["turns"]
    assert said["steps"] == [{"call": 'look(room="hall")', "responses": ['{"devices": []}']}]
    assert (said["answer"], said["expected_answer"]) == ("nothing there", "two lamps")
