"""The example agents in forked hosts, in one that their early interpreter becomes, and in new ones: all equal."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from adk_envs import adk_python
from fake_gemini import FakeGemini
from gate_runs import Done, program
from hotel_concierge.roles import Roles

pytestmark = pytest.mark.nightly
EXAMPLES = Path(__file__).parents[2] / "examples"


def weather() -> Any:
    return runpy.run_path(str(EXAMPLES / "gemini_weather/serve.py"))["lead_weather_agent"]


MODELS: Mapping[str, Callable[[], Any]] = {
    "home_automation": weather,
    "home_automation_broken": weather,
    "gemini_weather": weather,
    "hotel_concierge": Roles,
}
"""What answers the agents' models; those of home_automation have their own."""
NEW = "import agent_eval_agents.host.parents as parents; parents.CAN_FORK = False; "
WAYS = {"new": (NEW, "1"), "become": ("", "1"), "fork": ("", "2")}
"""What the gate runs before, and its `workers`."""
_OWN = {"invocation_id", "creation_timestamp", "duration", "model_duration", "tool_duration", "spans", "started_at"}
_CALL = re.compile(r"adk-[0-9a-f-]{36}")


def outcome(root: Path, name: str, python: Path, way: str) -> dict[str, Any]:
    """What each case did and scored, without times and ids."""
    before, workers = WAYS[way]
    agent = ("--agent", name) if name.endswith("_broken") else ()
    folder = name.removesuffix("_broken")
    with FakeGemini(MODELS[name]()) as server:
        where = {"GOOGLE_GEMINI_BASE_URL": server.url, "GOOGLE_API_KEY": "any", "CI": ""}
        code = f"{before}from agent_eval.__main__ import run; run()"
        options = ("--agent-python", python, "--workers", workers, "-vv")
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        done = program(
            *(sys.executable, "-c", code, "run", folder, *agent, *options),
            cwd=root,
            env={**environment, **where},
            code=None,
            timeout=180,
        )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert ("are forked by" in done.stderr) is (way != "new"), done.stderr
    run = Done(code=done.returncode, out="", err="", output=root / "agent-eval-results", seconds=0)
    scores = {
        (case.case_id, metric.name): [(each.score, each.turn_scores) for each in metric.runs]
        for case in run.report.cases
        for metric in case.metrics
        if metric.name != "invocation_duration_v1"
    }
    turns = {}
    for recording in run.recordings:
        text = json.dumps([each.model_dump(mode="json", exclude=_OWN) for each in recording.invocations])
        for number, call in enumerate(dict.fromkeys(_CALL.findall(text))):
            text = text.replace(call, f"call {number}")
        turns[recording.case_id] = (json.loads(text), recording.error and recording.error.message)
    assert turns
    return {"scores": scores, "turns": turns, "statuses": {case.case_id: case.status for case in run.report.cases}}


@pytest.mark.parametrize("version", ["1.18.0", "1.39.1", "2.5.0", "2.13.0"])
@pytest.mark.parametrize("name", MODELS)
def test_examples__are_equal_however_their_hosts_start(tmp_path: Path, name: str, version: str) -> None:
    for folder in {name, name.removesuffix("_broken")}:
        shutil.copytree(EXAMPLES / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    python = adk_python(version)
    new, became, forked = (outcome(tmp_path, name, python, way) for way in WAYS)
    assert became == new
    assert forked == new
