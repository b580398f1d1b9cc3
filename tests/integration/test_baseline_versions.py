"""Base and head need different versions of a package: each agent gets an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from gate_runs import AGENT_EVAL
from rerun_repos import BASE, HEAD, TwoVersions, two_versions

from agent_eval.agents.discovery.locate import choose_agents
from agent_eval.agents.sandbox.spawn import Sandbox
from agent_eval.agents.venv.environment import AgentInterpreter, EnvironmentRequest, ensure_environment
from agent_eval.baseline.rerun import agents_on_base, open_base
from agent_eval.core.masking import Masker
from agent_eval.evalset.loading import load_suite

pytestmark = pytest.mark.slow

_GREET = """
import asyncio, sys
import bot.agent
from google.adk.models.llm_request import LlmRequest
from google.genai import types

async def main():
    said = types.Content(role="user", parts=[types.Part(text="Hello")])
    async for answer in bot.agent.root_agent.model.generate_content_async(LlmRequest(contents=[said])):
        print(answer.content.parts[0].text)

asyncio.run(main())
"""


@pytest.fixture
def made(tmp_path: Path) -> TwoVersions:
    return two_versions(tmp_path)


async def _environment(root: Path, directory: Path, made: TwoVersions, cache: Path) -> AgentInterpreter:
    path = f"{Path(sys.executable).resolve().parent}:/usr/local/bin:/usr/bin:/bin"
    return await ensure_environment(
        EnvironmentRequest(start=directory, root=root, installer=made.environment),
        sandbox=Sandbox(environment={"PATH": path, "HOME": str(cache)}),
        masker=Masker(),
        cache_dir=cache,
        log=lambda _: None,
    )


def _greeting(interpreter: AgentInterpreter, root: Path) -> str:
    done = subprocess.run(
        [*interpreter.python, "-c", _GREET],
        cwd=root,
        env={"PYTHONPATH": str(root / "lib"), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout.strip() or done.stderr


async def test_versions__the_same_eval_files_with_each_agent_in_its_own_environment(
    made: TwoVersions, tmp_path: Path
) -> None:
    root = made.repo.root
    suite = load_suite(root)
    choices = choose_agents(root, suite.files)
    head = await _environment(root, root / "bot", made, tmp_path / "cache")

    async with open_base(made.repo.opened(), made.base, directory=tmp_path) as checkout:
        agents = agents_on_base(choices, checkout, root)
        [choice] = agents.choices.by_file.values()
        directory = choice.directory(checkout.root)
        assert directory == checkout.root / "bot"
        base = await _environment(checkout.root, directory, made, tmp_path / "cache")

        assert agents.missing == {}
        assert head.python != base.python
        assert _greeting(base, checkout.root) == BASE
        assert _greeting(head, root) == HEAD
        # The wrong way round neither starts, so neither can have been tested with the other's packages.
        assert "has no attribute 'formal'" in _greeting(head, checkout.root)


def test_versions__the_whole_gate_compares_the_two(made: TwoVersions, tmp_path: Path) -> None:
    """`agent-eval run --baseline rerun`, as a user starts it on a laptop."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "INPUT_", "RUNNER_"))}
    path = f"{Path(sys.executable).resolve().parent}{os.pathsep}{ours['PATH']}"
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    done = subprocess.run(
        [*AGENT_EVAL, "run", "--baseline", "rerun", "--cache-dir", str(tmp_path / "cache")],
        cwd=made.repo.root,
        env={**ours, **made.environment, "PATH": path, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    results = json.loads((made.repo.root / "agent-eval-results" / "results.json").read_text(encoding="utf-8"))
    assert done.returncode == 1, done.stderr
    baseline = results["baseline"]
    assert (baseline["status"], baseline["source"], baseline["distance"]) == ("found", "rerun", 0), baseline["message"]
    assert baseline["commit"] == baseline["wanted_commit"] == made.base
    comparison = results["comparison"]
    assert [(case["eval_id"], case["change"]) for case in comparison["cases"]] == [("hello", "newly_failing")]
    assert (comparison["compared"], comparison["unchanged"]) == (2, 1)  # with the case that only the head's file has
    assert made.repo.git("worktree", "list").count("\n") == 0
    assert list(temporary.glob("agent-eval-base-*")) == []
    assert made.repo.git("status", "--porcelain", "--untracked-files=no") == ""
