"""What a pull request changes in the agent: from its processes and its code to results.json, also in parts."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from adk_envs import FIXTURES
from adk_harness import running, say
from base_repos import Repo, new_repo
from gate_runs import Done, repository_in
from pydantic import ValidationError

from agent_eval.agents.host.connection import RemoteError
from agent_eval.agents.host.process import HostProcess
from agent_eval.agents.messages import AgentDescribed, AgentsDescribed
from agent_eval.core.content import text_of
from agent_eval.results import RunReport

TOOLS = '''import functools

from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset

from .rooms import ROOMS


def logged(function):
    @functools.wraps(function)
    def wrapper(*args, **options):
        return function(*args, **options)

    return wrapper


@logged
def find(room: str) -> dict:
    """Finds a room."""
    return {"size": ROOMS.get(room)}


def heat(room: str) -> str:
    """Heats a room."""
    return "ok"


class Clock(BaseTool):
    def __init__(self):
        super().__init__(name="clock", description="The time.")


class Shelf(BaseToolset):
    async def get_tools(self, readonly_context=None):
        return []


class Greeter:
    def greet(self) -> str:
        """Greets."""
        return "hello"
'''
AGENT = """from google.adk.agents.llm_agent import LlmAgent
from google.adk.tools.agent_tool import AgentTool
from scripted_model import reply, scripted, text

from .tools import Clock, Greeter, Shelf, find, heat

SECRET = "sk-1234567890"
INSTRUCTION = "You run a home.\\nBe brief.\\n"


def script(said, count, request):
    return reply(text(said))


def check(tool, args, tool_context):
    return None


def describe(context):
    return "You plan."


planner = LlmAgent(name="planner", model="gemini-2.5-pro", instruction=describe)
cook = LlmAgent(name="cook", model="gemini-2.5-flash", description="Cooks.")
root_agent = LlmAgent(
    name="bot",
    model=scripted(script),
    instruction=INSTRUCTION,
    before_tool_callback=[check],
    sub_agents=[planner],
    tools=[find, heat, Clock(), Shelf(), Greeter().greet, AgentTool(cook)],
)
"""
FILES = {
    "bot/__init__.py": "from . import agent\n",
    "bot/agent.py": AGENT,
    "bot/tools.py": TOOLS,
    "bot/rooms.py": 'ROOMS = {"kitchen": 12}\n',
    ".gitignore": "__pycache__/\nagent-eval-results/\nparts/\n",
}


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = new_repo(tmp_path / "repo")
    shutil.copy(FIXTURES / "scripted_model.py", made.root)
    made.write(FILES)
    with repository_in(made.root) as repository:
        repository.evals("evals/talk.test.json", {"one": "Hello", "two": "Bye"})
    made.commit({})
    return made


@pytest.mark.slow
def test_agent_changes__from_the_host_to_results_json(repo: Repo) -> None:
    with repository_in(repo.root) as repository:
        recorded = repository.gate("run", "--output-dir", "parts/base")
        assert recorded.code == 0, recorded.err
        base = (repo.root / "parts/base/results.json").read_text(encoding="utf-8")
        _check_facts(RunReport.model_validate_json(base))

        changed = {
            "bot/rooms.py": 'ROOMS = {"kitchen": 14}\n',
            "bot/tools.py": TOOLS.replace("def heat(room: str)", "def heat(room: str, degrees: int = 20)"),
            "bot/agent.py": AGENT.replace("Be brief.\\n", "Be brief.\\nBe kind.\\n")
            .replace("gemini-2.5-pro", "gemini-2.5-flash")
            .replace("return None", "return {}")
            .replace('return "You plan."', 'return "You plan well."')
            .replace("Clock(), ", ""),
        }
        repo.branch("feature")
        repo.commit({**changed, "unrelated.txt": "x"})
        expected = [
            ("instruction", "bot", "", ["bot/agent.py:8 INSTRUCTION"]),
            ("callbacks", "bot", "", ["bot/agent.py:16 check"]),
            ("tool-source", "bot", "find", ["bot/rooms.py:1 ROOMS"]),
            ("tool-declaration", "bot", "heat", ["bot/tools.py:23 heat"]),
            ("tool-removed", "bot", "clock", ["bot/agent.py:31 tools"]),
            ("model", "planner", "", ["bot/agent.py:23 model"]),
            ("instruction", "planner", "", ["bot/agent.py:23 instruction", "bot/agent.py:20 describe"]),
        ]
        compared = ("--baseline", "rerun", "--base-ref", "main")
        done = repository.gate("run", *compared)
        assert _changes(done) == expected
        assert [each.message for each in done.report.agent_changes[:1]] == ["instruction +1 line"]

        # The same from parts, of which the merge starts no agent, and from a file, whose commit names the base's lines.
        for part in ("1", "2"):
            assert repository.gate("run", "--shard", f"{part}/2", "--output-dir", f"parts/{part}").code == 0
        assert _changes(repository.gate("merge", "parts/1", "parts/2", *compared)) == expected
        (repo.root / "base.json").write_text(base, encoding="utf-8")
        assert _changes(repository.gate("run", "--baseline", "file:base.json")) == expected

        # An older baseline: what the base branch has changed since is not this change's.
        (repo.root / "base.json").unlink()
        repo.branch("main", "main")
        repo.commit({"bot/agent.py": AGENT.replace("Cooks.", "Cooks well."), "base.json": base})
        repo.branch("later", "main")
        repo.commit({"bot/rooms.py": 'ROOMS = {"kitchen": 15}\n'})
        later = repository.gate("run", "--baseline", "file:base.json", "--base-ref", "main")
        assert _changes(later) == [("tool-source", "bot", "find", ["bot/rooms.py:1 ROOMS"])]


def _changes(done: Done) -> list[tuple[str, str, str, list[str]]]:
    assert done.code == 0, done.err
    return [
        (each.code, each.agent, each.tool, [f"{place.file}:{place.first} {place.symbol}" for place in each.places])
        for each in done.report.agent_changes
    ]


def _check_facts(report: RunReport) -> None:
    """test_adk_matrix.py has more of them."""
    assert "sk-1234567890" not in report.model_dump_json()
    [tree] = report.agents
    bot, planner, cook = tree.agents
    assert (tree.agent, planner.model, planner.instruction) == ("bot", "gemini-2.5-pro", "bot.agent.describe")
    assert (bot.instruction, cook.description) == ("You run a home.\nBe brief.\n", "Cooks.")
    assert list(bot.callbacks) == ["before_tool_callback"]
    assert all([*bot.callbacks.values(), planner.callbacks["instruction"]])
    assert {tool.name: f"{tool.place.file}:{tool.place.first}" if tool.place else "" for tool in bot.tools} == {
        "find": "bot/tools.py:17",
        "heat": "bot/tools.py:23",
        "clock": "bot/tools.py:28",
        "Shelf": "bot/tools.py:33",
        "greet": "bot/tools.py:39",
        "cook": "",
    }
    assert all(tool.declaration for tool in bot.tools if tool.name in {"find", "heat", "greet"})


@pytest.mark.parametrize(
    "sent",
    [
        {"agents": [{"name": "a"}] * 101},
        {"agents": [{"name": "a", "tools": [{"name": "t"}] * 501}]},
        {"agents": [{"name": "a", "code": {"file": "a.py", "line": -1}}]},
        {"agents": [{"name": "a" * 5_000}]},
        {"agents": [{"name": "a", "instruction": "x" * 50_000}]},
    ],
)
def test_agents_described__too_much_or_nonsense_is_refused(sent: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        AgentsDescribed.model_validate(sent)


async def test_agents_described__a_host_that_can_not_say_it_goes_on(tmp_path: Path) -> None:
    described: list[AgentDescribed] = []
    async with running("home", tmp_path / "logs", described=described) as agent:
        said = await say(agent, "hello", state={"guest": "Mona"})
        assert text_of(said.final_response) == "I heard 'hello'. Please."
        assert [each.name for each in described] == ["butler"]
    bad: list[AgentDescribed] = []
    answer = asyncio.get_running_loop().create_future()
    answer.set_exception(RemoteError("agents", "no", {}))
    await HostProcess._describe(bad, answer)
    answer = asyncio.get_running_loop().create_future()
    answer.set_result({"agents": 1})
    await HostProcess._describe(bad, answer)
    assert bad == []
