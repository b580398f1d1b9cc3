"""`replay: tools` after a change of what a tool holds: never green on its old answers.

tests/crossings has the forms of tools and what can change in them.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping

import pytest
from adk_envs import FIXTURES
from gate_runs import Repository

OBJECTS = '''
import os
import sqlite3
import threading
import time
import typing
import uuid
from decimal import Decimal
from google.adk.tools.base_tool import BaseTool
from google.genai import types


class Client:
    def __init__(self, answer):
        self.answer = answer
        self.started, self.id = time.time(), f"client-{uuid.uuid4()}"
        self.address = os.environ.get("RUNS_FILE", "nowhere")
        self.api_key = os.environ.get("JOB_SECRET")
        self.calls = 0
        self.memory, self.shown = {}, str(object())
        self.login = f"db://me:{uuid.uuid4().hex[:9]}@db.example"


class Proxy:
    """What it stands for, it fetches when somebody asks for its class."""

    @property
    def __class__(self):
        raise ConnectionError("there is no service yet")


class V1:
    def __init__(self, client):
        self.client = client
        self.lock, self.service = threading.Lock(), Proxy()
        self.database = sqlite3.connect(":memory:", check_same_thread=False)
        self.here = os.path.dirname(os.path.abspath(__file__))

    def switch(self, room: str) -> dict:
        """Switches the lamp."""
        with self.lock:
            self.client.calls += 1
            self.client.memory[room] = self.database.execute("select 1").fetchone()
        return {"now": self.client.answer}


def make_at_least(least):
    def switch(room: str) -> dict:
        """Switches the lamp."""
        return {"now": "on" if least < Decimal("1.6") else "off"}
    return switch


def make_of(config):
    def switch(room: str) -> dict:
        """Switches the lamp."""
        return {"now": config.answer}
    return switch


class Config(typing.NamedTuple):
    answer: str


class Answers(dict):
    def items(self):
        raise RuntimeError("the gate runs the agent's code")


class Switch(BaseTool):
    def __init__(self, answers):
        super().__init__(name="switch", description="Switches the lamp.")
        self.answers = answers

    def _get_declaration(self):
        room = types.Schema(type="OBJECT", properties={"room": types.Schema(type="STRING")})
        return types.FunctionDeclaration(name=self.name, description=self.description, parameters=room)

    async def run_async(self, *, args, tool_context):
        return {"now": self.answers["now"]}
'''
OBJECTS_AGENT = """
from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from scripted_model import call, reply, scripted, text
from .tools import *


def script(said, count, request):
    if count < 2:  # the second call finds what the first one has changed
        return reply(call("switch", room="hall"))
    return reply(text(f"It is {request.contents[-1].parts[0].function_response.response['now']}."))


TOOLS = {TOOLS}
AGENTS = {name: LlmAgent(name=name, model=scripted(script), tools=[tool]) for name, tool in TOOLS.items()}


class Router(BaseAgent):
    async def _run_async_impl(self, ctx):
        async for event in AGENTS[ctx.user_content.parts[0].text].run_async(ctx):
            yield event


root_agent = Router(name="router")
"""
OBJECT_MUTATIONS: Mapping[str, tuple[str, str, str]] = {
    "held_object": ('V1(Client("on")).switch', 'V1(Client("off")).switch', "behind it holds (self.client.answer)"),
    "named_tuple": ('make_of(Config("on"))', 'make_of(Config("off"))', "behind it holds (config.value)"),
    "own_dict": ('Switch(Answers(now="on"))', 'Switch(Answers(now="off"))', "behind it holds (answers.value)"),
    "listed": (
        'Switch({"now": "on", "from": [Client("1")]})',
        'Switch({"now": "on", "from": [Client("2")]})',
        "behind it holds (answers['from'][0].answer)",
    ),
    "decimal": ('make_at_least(Decimal("1.5"))', 'make_at_least(Decimal("1.7"))', "behind it holds (least)"),
}
"""Other objects of an unchanged file, more than test_replay_crossing.py has: the tool before and after, and what the
message says."""


@pytest.mark.slow
def test_replay__another_object_of_an_unchanged_file_is_not_green(repository: Repository) -> None:
    shutil.copy(FIXTURES / "scripted_model.py", repository.root)
    names = {name: name for name in OBJECT_MUTATIONS}
    repository.evals("home/home.evalset.json", names, expect=dict.fromkeys(names, "It is on."))
    repository.write({"home/__init__.py": "from . import agent\n", "home/tools.py": OBJECTS})

    def write(which: int) -> None:
        tools = ", ".join(f"{name!r}: {mutation[which]}" for name, mutation in OBJECT_MUTATIONS.items())
        repository.write({"home/agent.py": OBJECTS_AGENT.replace("{TOOLS}", f"{{{tools}}}")})

    write(0)
    variables = {"CI": "", "JOB_SECRET": "s3cret-of-the-job", "RUNS_FILE": "/somewhere/else"}
    recorded = repository.gate("run", "--record", "all", environment=variables)
    assert recorded.code == 0, recorded.out

    # Without the secret, at another time, before any call: the same objects.
    place = {"RUNS_FILE": variables["RUNS_FILE"]}
    assert repository.gate("run", "--replay", "tools").code == 3, "another variable is another object"
    replayed = repository.gate("run", "--replay", "tools", environment=place)
    assert replayed.code == 0, replayed.out
    assert {case.runs[0].tools.replayed for case in replayed.report.cases if case.runs[0].tools} == {2}

    write(1)
    # Live, those that act differently fail; a replay must not call one of them green.
    assert repository.gate("run").code == 1
    changed = repository.gate("run", "--replay", "tools", environment=place)
    assert changed.code == 3, changed.out
    for case in changed.report.cases:
        error = case.runs[0].error
        assert error is not None and error.kind == "tool-tape-stale"
        assert OBJECT_MUTATIONS[case.eval_id][2] in error.message
