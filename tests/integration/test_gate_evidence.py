"""What a recorded answer depends on besides its tool's code: if it changes, no replay is green; nothing else counts.

All agents are in one repository, and each answers with what its tool returns: "one", until something changes. They are
recorded, replayed unchanged, changed, and then replayed and run live. `data/evidence_cells.toml` has the tools.
"""

from __future__ import annotations

import shutil
import sqlite3
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from adk_envs import FIXTURES
from base_repos import Repo
from gate_runs import Done, Repository
from golden_files import DATA, check

ROUTER = """
import importlib
import os
import sys

sys.path.append(os.environ["ADK_LIBRARIES"])
from google.adk.agents.base_agent import BaseAgent


class Router(BaseAgent):
    async def _run_async_impl(self, ctx):
        name = ctx.user_content.parts[0].text.split()[0]
        async for event in AGENTS[name].root.run_async(ctx):
            yield event


AGENTS = {name: importlib.import_module(f".{name}", __package__) for name in NAMES}
root_agent = Router(name="router")
"""
AGENT = """
from google.adk.agents.llm_agent import LlmAgent
from google.genai import types
from scripted_model import call, reply, text

from . import held, models, tools


def script(said, count, request):
    if not count:
        return reply(call("look", key=said.split()[1]))
    return reply(text(f"It is {request.contents[-1].parts[0].function_response.response['value']}."))


async def before(callback_context):
    state = callback_context.state
    ACT


root = LlmAgent(name="NAME", model=models.make(script), tools=[tools.look], before_agent_callback=before)
"""
TOOLS = """
import asyncio
import functools
import glob
import importlib
import json
import os
import runpy
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
"""
MODELS = """
from pathlib import Path

from scripted_model import Scripted, text


class Wrapped(Scripted):
    async def generate_content_async(self, llm_request, stream=False):
        async for response in super().generate_content_async(llm_request, stream):
            if response.content.parts[0].text:
                response.content.parts = [text(CHANGED)]
            yield response


def make(script):
    return Scripted(model="scripted", script=script)
"""
CELLS: Mapping[str, Any] = tomllib.loads((DATA / "evidence_cells.toml").read_text("utf-8"))
KEYS = ("a", "b")
"""Of each agent's two cases: the second one finds what the first one has read."""
VARIABLES = {"ADK_SHOWN": "one", "ADK_SHOP_API_KEY": "the-key-of-the-job"}


def write(root: Path, name: str, files: Mapping[str, str]) -> None:
    """Writes files of an agent's package, and of the libraries beside the repository."""
    for file, content in files.items():
        path = root / "desk" / name / file
        if file.startswith("LIB/"):
            path = root.parent / "libraries" / file.removeprefix("LIB/")
        if file == "model":  # the answer of a model class of the repository
            path, content = (
                path.with_name("models.py"),
                MODELS.replace("Scripted(model", "Wrapped(model").replace("CHANGED", content),
            )
        if file == "agent":
            path, content = path.with_name("__init__.py"), AGENT.replace("NAME", name).replace("ACT", content.strip())
        path.parent.mkdir(parents=True, exist_ok=True)
        if file.endswith(".db"):
            path.unlink(missing_ok=True)
            with sqlite3.connect(path) as made:
                made.execute(f"create table t as select '{content}' v")
        elif file not in VARIABLES:
            path.write_text(content, "utf-8")


def outcomes(done: Done) -> dict[str, str]:
    """What became of each case: its status, or the kind of its error with what changed."""
    errors = {case.eval_id: case.runs[0].error for case in done.report.cases}
    return {
        name: done.statuses[name] if error is None else f"{error.kind}: {error.message}"
        for name, error in errors.items()
    }


@pytest.mark.slow
def test_replay__is_green_only_if_nothing_that_decided_an_answer_has_changed(repository: Repository) -> None:
    repo = Repo(repository.root)
    repo.git("init", "-q", "-b", "main")
    shutil.copy(FIXTURES / "scripted_model.py", repository.root)
    repository.write({"desk/__init__.py": "", "desk/agent.py": f"NAMES = {[*CELLS]}\n{ROUTER}"})
    for name, cell in CELLS.items():
        tool = TOOLS + cell["tool"]
        given = {"agent": "pass", "held.py": "DATA = {}\nUNIT = ''\n", "tools.py": tool, "b_rules.py": "V = 'one'"}
        given |= {"models.py": MODELS}
        write(repository.root, name, {**given, **cell.get("files", {})})
    cases = {f"{name}_{key}": f"{name} {key}" for name in CELLS for key in KEYS}
    repository.evals("desk/desk.evalset.json", cases, expect=dict.fromkeys(cases, "It is one."))
    repository.write({".gitignore": "agent-eval-results/\n__pycache__/\n"})
    repo.commit({}, "Agents")
    variables = {"CI": "", "ADK_LIBRARIES": str(repository.root.parent / "libraries"), **VARIABLES}

    def run(*arguments: str) -> dict[str, str]:
        return outcomes(repository.gate("run", *arguments, environment=variables, timeout=300))

    assert run("--record", "all") == dict.fromkeys(cases, "passed")
    assert "the-key-of-the-job" not in "".join(path.read_text() for path in repository.root.rglob("*.tape.json"))
    assert run("--replay", "all") == dict.fromkeys(cases, "passed")
    for name, cell in CELLS.items():
        changes = cell.get("changes", {})
        write(repository.root, name, changes)
        variables |= {key: value for key, value in changes.items() if key in VARIABLES}
    replayed, live = run("--replay", "all"), run()
    changed = {case: why.partition("; what changed is ")[2] or why for case, why in replayed.items()}
    lines = [f"{case}: live {live[case]}, {why}" for case, why in changed.items()]
    check("golden_gate/evidence.txt", "\n".join(lines) + "\n")
    assert [case for case, why in replayed.items() if why == "passed" and live[case] != "passed"] == []
    assert [case for case, why in replayed.items() if why != "passed" and case.startswith("ok_")] == []
