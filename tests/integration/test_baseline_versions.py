"""Base and head need different versions of a package: each agent gets an environment of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from rerun_repos import BASE, HEAD, TwoVersions, two_versions

from agent_eval.agents.environment import AgentInterpreter, EnvironmentRequest, ensure_environment
from agent_eval.agents.locate import choose_agents
from agent_eval.agents.spawn import Sandbox
from agent_eval.baseline.rerun import agents_on_base, opened_base
from agent_eval.core.masking import Masker
from agent_eval.evalset.loading import load_suite

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
        [*interpreter.python, "-c", _GREET], cwd=root, capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout.strip() or done.stderr


async def test_the_same_eval_files_with_each_agent_in_its_own_environment(made: TwoVersions, tmp_path: Path) -> None:
    root = made.repo.root
    suite = load_suite(root)
    choices = choose_agents(root, suite.files)
    head = await _environment(root, root / "bot", made, tmp_path / "cache")

    async with opened_base(made.repo.opened(), made.base, directory=tmp_path) as checkout:
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
