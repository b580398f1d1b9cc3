"""What was recorded can be scored again, also where it lies."""

from __future__ import annotations

import json

import pytest
from gate_runs import Done, Repository, eval_set

LOOKS = eval_set("a", {"looks": [("hi", "nothing there")]})
LOOKS["eval_cases"][0]["conversation"][0]["intermediate_data"] = {
    "tool_uses": [{"name": "look", "args": {"room": "hall"}}],
    "tool_responses": [{"name": "look", "response": {"devices": []}}],
}


@pytest.mark.parametrize("recording", ["agent-eval-results", "agent-eval-results/recordings.jsonl.gz"])
def test_rescoring__into_the_same_output_directory(repository: Repository, recording: str) -> None:
    def run(agent: str) -> Done:
        return repository.gate("run", "--agent", f"recorded:{agent}", python=False)

    repository.write({"a.test.json": LOOKS})
    assert run("a.test.json").code == 0
    repository.write({"test_config.json": {"criteria": {"trajectory_precision": 0.5}}})
    for _ in range(2):
        [case] = run(recording).report.cases
        assert (case.status, case.metrics[0].name) == ("passed", "trajectory_precision")

    # A failure shows the recorded answer.
    repository.write({"test_config.json": {"criteria": {"response_match_score": 0.8}}})
    repository.write({"a.test.json": json.dumps(LOOKS).replace("nothing there", "two lamps")})
    [failed] = run(recording).results["cases"]
    [said] = failed["conversation"]["turns"]
    assert said["steps"] == [{"call": 'look(room="hall")', "responses": ['{"devices": []}']}]
    assert (said["answer"], said["expected_answer"]) == ("nothing there", "two lamps")
