"""VeADK's own agent, eval set and trace, with the model on loopback."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from adk_envs import packages_python
from gate_runs import program
from upload_server import Received, Reply, upload_server

pytestmark = pytest.mark.nightly
VERSION = "1.1.19"
HERE = Path(__file__).parent
GATE = [sys.executable, "-P", "-m", "agent_eval"]


def model(request: Received) -> Reply:
    """Calls the tool; answers once it has its result."""
    if request.json["messages"][-1]["role"] == "tool":
        message: dict[str, object] = {"role": "assistant", "content": "The lamp is on."}
        reason = "stop"
    else:
        call = {"id": "c1", "type": "function", "function": {"name": "set_lamp", "arguments": '{"on": true}'}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        reason = "tool_calls"
    choice = {"index": 0, "finish_reason": reason, "message": message}
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    return Reply(
        body={"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
    )


def test_veadk__its_eval_set_and_its_trace_pass_on_its_agent(tmp_path: Path) -> None:
    python = packages_python(f"veadk-{VERSION}", f"veadk-python=={VERSION}")
    root = tmp_path / "repo"
    shutil.copytree(HERE / "veadk_agent", root, ignore=shutil.ignore_patterns("__pycache__"))
    evals = root / "evals"
    evals.mkdir()
    config = {"criteria": {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8}}
    (evals / "test_config.json").write_text(json.dumps(config), "utf-8")
    environment = {name: os.environ[name] for name in ("PATH", "HOME")}
    with upload_server(model) as server:
        environment |= {"MODEL_AGENT_API_BASE": f"{server.url}/v1", "MODEL_AGENT_API_KEY": "k-123456"}

        def run(*command: str | Path, timeout: int = 300) -> str:
            return program(*command, cwd=root, env=environment, timeout=timeout).stdout

        saved = json.loads(run(python, HERE / "veadk_worker.py").splitlines()[-1])
        shutil.move(saved["eval_set"], evals / "recorded.evalset.json")
        run(*GATE, "record", "evals/trace.evalset.json", "--from", saved["trace"])
        run(*GATE, "run", "evals", "--agent", "home", "--agent-python", python, timeout=600)

    results = json.loads((root / "agent-eval-results/results.json").read_text("utf-8"))
    assert [(case["eval_set_id"], case["status"]) for case in results["cases"]] == [
        ("recorded", "passed"),
        ("trace", "passed"),
    ]
    for case in results["cases"]:
        scores = {metric["name"]: metric["score"] for metric in case["metrics"] if metric["threshold"] is not None}
        assert scores == {"tool_trajectory_avg_score": 1.0, "response_match_score": 1.0}
    assert len(server.received) == 12  # Two turns of two calls: recorded once, run for two cases.
