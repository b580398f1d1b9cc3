"""Every example agent in a host, behind a real `adk api_server`, and recorded: equal scores."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "integration"))
from adk_envs import REFERENCE, adk_python

pytestmark = pytest.mark.conformance
ROOT = Path(__file__).parents[2]
EXAMPLES = (("home_automation", "home_automation_broken", "gemini_weather"), ("hotel_concierge",))
"""The examples of one server: at most one of them asks a fake of Gemini, which comes last."""


@contextlib.contextmanager
def model(example: str) -> Iterator[dict[str, str]]:
    """The variables that point an example at its own fake of Gemini; none if it needs no model."""
    serve = ROOT / "examples" / example / "serve.py"
    if not serve.exists():
        yield {}
        return
    process = subprocess.Popen([sys.executable, str(serve), "--port", "0"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        lines = [process.stdout.readline().strip() for _ in range(2)]
        yield dict(line.removeprefix("export ").split("=", 1) for line in lines)
    finally:
        process.kill()
        process.communicate()


@contextlib.contextmanager
def api_server(version: str, agents: Path, environment: dict[str, str], log: Path) -> Iterator[str]:
    """The address of `adk api_server` for all agents of a directory."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [str(adk_python(version)), "-m", "google.adk.cli", "api_server", "--port", str(port), str(agents)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + 120
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/list-apps") as reply:
                if reply.status == 200:
                    break
            assert process.poll() is None, log.read_text("utf-8")
            assert time.monotonic() < deadline, log.read_text("utf-8")
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def scores(directory: Path, agent: str, evals: Path, output: Path, environment: dict[str, str], *more: str) -> Any:
    """Runs the gate. Returns status and scores of all runs of each case, but for the metric that measures time."""
    command = [
        sys.executable,
        "-m",
        "agent_eval",
        "run",
        str(evals),
        "--agent",
        agent,
        "--output-dir",
        str(output),
        *more,
    ]
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    report = json.loads((output / "results.json").read_text("utf-8"))
    return {
        case["case_id"]: (
            case["status"],
            {
                metric["name"]: [run["score"] for run in metric["runs"]]
                for metric in case["metrics"]
                if metric["name"] != "invocation_duration_v1"
            },
        )
        for case in report["cases"]
    }


@pytest.mark.parametrize("version", ["1.39.1", REFERENCE])
@pytest.mark.parametrize("examples", EXAMPLES, ids="+".join)
def test_examples__scores_are_equal_behind_a_server_and_recorded(
    examples: tuple[str, ...], version: str, tmp_path: Path
) -> None:
    agents = tmp_path / "agents"
    shutil.copytree(ROOT / "examples", agents, ignore=shutil.ignore_patterns("__pycache__", ".adk"))
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    python = ("--agent-python", str(adk_python(version)))
    with contextlib.ExitStack() as stack:
        environment |= stack.enter_context(model(examples[-1]))
        served = {**environment, "PYTHONPATH": str(agents)}
        address = stack.enter_context(api_server(version, agents, served, tmp_path / "server.log"))
        for example in examples:
            evals, output = agents / example.removesuffix("_broken") / "evals", tmp_path / example
            host = scores(tmp_path, str(agents / example), evals, output / "host", environment, *python)
            remote = scores(tmp_path, f"adk:{address}#{example}", evals, output / "remote", environment)
            recording = f"recorded:{output / 'host' / 'recordings.jsonl.gz'}"
            recorded = scores(tmp_path, recording, evals, output / "recorded", environment)
            assert host, "cases were run"
            assert any(score is not None for _, metrics in host.values() for runs in metrics.values() for score in runs)
            assert remote == host, example
            assert recorded == host, example
