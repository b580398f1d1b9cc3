"""What `init` and `record` write passes `adk eval` of google-adk, as it passes `agent-eval run`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from adk_envs import adk_python

pytestmark = pytest.mark.conformance
ROOT = Path(__file__).parents[2]


def command(*arguments: str, cwd: Path) -> str:
    """Runs a command that must succeed. Returns its output."""
    done = subprocess.run(arguments, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("form", ["flat", "events"])
def test_recorded_cases__pass_adk_eval(form: str, tmp_path: Path) -> None:
    agent = tmp_path / "agents" / "home_automation"
    shutil.copytree(ROOT / "examples" / "home_automation", agent, ignore=shutil.ignore_patterns("evals", "__pycache__"))
    python = adk_python(extra="eval")
    ours = (sys.executable, "-m", "agent_eval")
    command(*ours, "init", "--yes", cwd=tmp_path)
    file = "evals/home_automation.evalset.json"
    for said in (["Turn off the lamp in the bedroom", "Turn it on again"], ["Which devices are in the kitchen?"]):
        messages = [word for text in said for word in ("--say", text)]
        command(*ours, "record", file, *messages, "--form", form, "--agent-python", str(python), cwd=tmp_path)
    assert "Passed: both cases pass" in command(*ours, "run", "--agent-python", str(python), cwd=tmp_path)
    adk = str(python.with_name("adk"))
    config = ("--config_file_path", "evals/test_config.json", "--print_detailed_results")
    shown = command(adk, "eval", "agents/home_automation", file, *config, cwd=tmp_path)
    assert "Tests passed: 2" in shown, shown
    assert "Tests failed: 0" in shown, shown
