"""`record: all` and `replay: tools` as a user runs them: no change of a tool is green on its old answers.

tests/crossings has the forms of tools and what can change in them.
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Mapping

import host_forks
import pytest
from adk_envs import FIXTURES, REFERENCE, packages_python
from base_repos import Repo
from gate_runs import Done, Repository

SCRIPTED = """from google.adk.agents.llm_agent import LlmAgent
from scripted_model import call, reply, scripted, text

from .tools import price


def script(said, count, request):
    if not count:
        return reply(call("price", item=said))
    answer = request.contents[-1].parts[0].function_response.response
    return reply(text(f"It costs {answer['price']}."))


root_agent = LlmAgent(name="shop", model=scripted(script), tools=[price])
"""
TOOLS = '''import os


def price(item: str) -> dict[str, int]:
    """The price of an item."""
    with open(os.environ["RUNS_FILE"], "a", encoding="utf-8") as file:
        file.write("ran\\n")
    return {"price": PRICE}
'''
EVALS, TAPE = "shop/shop.evalset.json", "shop/shop.evalset.tools/tea.tape.json"
DEPENDS = '[[tool]]\nname = "price"\ndepends = ["db.txt"]\n'


@pytest.fixture
def shop(repository: Repository) -> Repository:
    """A base branch whose tool is wrong, and a pull request that repairs and records it."""
    repo = Repo(repository.root)
    repo.git("init", "-q", "-b", "main")
    shutil.copy(FIXTURES / "scripted_model.py", repository.root)
    repository.evals(EVALS, {"tea": "tea"}, expect={"tea": "It costs 2."})
    files = {"shop/__init__.py": "from . import agent\n", "shop/agent.py": SCRIPTED, "db.txt": "one"}
    ignored = {".gitignore": "agent-eval-results/\n__pycache__/\nruns.txt\n", "agent-eval.toml": DEPENDS}
    repo.commit({**files, **ignored, "shop/tools.py": TOOLS.replace("PRICE", "1")})
    repo.commit({"shop/tools.py": TOOLS.replace("PRICE", "2")})
    repository.write({"runs.txt": ""})
    recorded = gate(repository, "record")
    assert (recorded.code, runs(repository)) == (0, 1), recorded.out
    assert "1 tape written with 3 calls" in recorded.out
    repo.commit({})
    return repository


FLAGS: dict[str, tuple[str, ...]] = {"live": (), "record": ("--record", "all"), "replay": ("--replay", "tools")}


def gate(repository: Repository, mode: str, *arguments: str, ci: str = "") -> Done:
    environment = {"CI": ci, "RUNS_FILE": str(repository.root / "runs.txt")}
    return repository.gate("run", *FLAGS[mode], *arguments, environment=environment)


def runs(repository: Repository) -> int:
    """How often the tool ran."""
    return (repository.root / "runs.txt").read_text("utf-8").count("ran")


def error(done: Done, eval_id: str) -> tuple[str, str, str]:
    """Kind, owner and message of a case's error."""
    [found] = [case.runs[0].error for case in done.report.cases if case.eval_id == eval_id]
    assert found is not None, done.out
    return found.kind, found.owner, found.message


def test_replay__the_base_branch_gets_the_tapes_of_the_head(shop: Repository) -> None:
    compare = ("--baseline", "rerun", "--base-ref", "HEAD~2")
    done = gate(shop, "replay", *compare)
    assert done.code == 0, done.out
    use = done.report.cases[0].runs[0].tools
    assert use is not None and (use.mode, use.replayed, use.live, use.missed) == ("replay", 1, 0, 0)
    assert runs(shop) == 1, "a tool ran"
    assert done.report.baseline is not None and done.report.comparison is not None
    assert (done.report.baseline.status, done.report.baseline.source) == ("found", "rerun")

    # Live, the base's own tool runs: the pull request fixed it.
    live = gate(shop, "live", *compare)
    assert live.report.comparison is not None
    assert (live.code, runs(shop)) == (0, 3)

    # A tool that the pull request breaks is never green, whatever the base branch does.
    shop.write({"shop/tools.py": TOOLS.replace("PRICE", "3")})
    broken = gate(shop, "replay", *compare)
    assert (broken.code, broken.statuses) == (3, {"tea": "errored"})
    assert "record its tools again" in broken.out


def test_replay__no_change_of_a_tool_or_of_a_call_is_green(shop: Repository) -> None:
    shop.write({"db.txt": "two"})
    # `tapes` and `plan` see it without the agent.
    assert "; stale: " in shop.gate("tapes").out
    assert (
        "Stale tapes, because tools have changed: 1 case: " in shop.gate("validate", "--plan", "--replay", "tools").out
    )
    stale = gate(shop, "replay", "--on-inconclusive", "pass")
    kind, owner, message = error(stale, "tea")
    assert (stale.code, kind, owner) == (3, "tool-tape-stale", "gate")
    assert "a file that it depends on" in message

    # With `warn` a notice says which tools changed, also if parts are merged.
    shop.write({"agent-eval.toml": f'{DEPENDS}\n[[tool]]\nname = "*"\nstale = "warn"\n'})
    assert gate(shop, "replay", "--shard", "1/1", "--output-dir", "shards/1").code == 0
    merged = shop.gate("merge", "--replay", "tools")
    assert merged.code == 0
    assert "The answers of `price` were recorded before it changed: a file that it depends on" in merged.out

    # Where the trajectory is compared exactly, a wrong call is the agent's failure.
    shop.write({"shop/agent.py": SCRIPTED.replace("item=said", "item=said.upper()"), "db.txt": "one"})
    missed = gate(shop, "replay")
    kind, owner, message = error(missed, "tea")
    assert (missed.code, kind, owner) == (3, "tool-not-recorded", "gate")
    assert 'price(item): "tea" on the tape, "TEA" now' in message
    evals = json.loads((shop.root / EVALS).read_text("utf-8"))
    evals["eval_cases"][0]["conversation"][0]["intermediate_data"] = {
        "tool_uses": [{"name": "price", "args": {"item": "tea"}}]
    }
    shop.write({EVALS: evals, "shop/test_config.json": {"criteria": {"tool_trajectory_avg_score": 1.0}}})
    exact = gate(shop, "replay")
    assert (exact.code, exact.statuses, error(exact, "tea")[:2]) == (
        1,
        {"tea": "failed"},
        ("tool-not-recorded", "agent"),
    )
    assert "crash" not in exact.out


def test_tapes__what_is_refused_before_an_agent_starts_and_what_is_listed(shop: Repository) -> None:
    tape = shop.root / TAPE
    for code, ci, *arguments in (
        ("record-in-ci", "true", "record"),
        ("tapes-unsupported", "", "replay", "--agent", f"recorded:{EVALS}"),
        ("tapes-unsupported", "", "replay", "--agent", "adk:http://127.0.0.1:9"),
        ("tapes-unsupported", "", "record", "--resume"),
    ):
        refused = gate(shop, *arguments, ci=ci)
        assert (refused.code, f"[{code}]" in refused.out) == (2, True), refused.out

    stray = tape.with_name("stray.tape.json")
    stray.write_bytes(tape.read_bytes())
    planned = shop.gate("validate", "--plan", "--replay", "tools")
    assert (planned.code, "No tape" in planned.out) == (0, False)
    listed = shop.gate("tapes")
    assert (listed.code, listed.out.splitlines()[-1]) == (0, "2 tapes, 1 without a case (--prune removes them)")
    assert "shop/shop.evalset.json:tea: 1 call; price; 2 model calls; recorded today; 1 run" in listed.out
    validated = shop.gate("validate")
    assert (validated.code, "warning [tape-orphaned]" in validated.out) == (0, True)
    # An eval file that was removed has left its tapes; one that is merely not selected keeps them.
    deleted = tape.parent.with_name("gone.evalset.tools")
    shutil.copytree(tape.parent, deleted)
    elsewhere = tape.parent.parent / "unselected"
    shutil.copytree(tape.parent, elsewhere / "other.evalset.tools")
    elsewhere.joinpath("other.evalset.json").write_bytes(tape.parent.with_name("shop.evalset.json").read_bytes())
    tape.parent.with_name("linked.evalset.tools").symlink_to(elsewhere / "other.evalset.tools")
    pruned = shop.gate("tapes", "--prune", "--exclude", "unselected/")
    assert (pruned.code, deleted.exists(), stray.exists()) == (0, False, False), pruned.out
    assert "kept shop/linked.evalset.tools/tea.tape.json: its directory is a symbolic link" in pruned.out
    assert len(list(elsewhere.rglob("*.tape.json"))) == 2
    tape.parent.with_name("linked.evalset.tools").unlink()
    shutil.rmtree(elsewhere)
    moved = tape.rename(tape.with_suffix(".moved"))
    planned = shop.gate("validate", "--plan", "--replay", "tools")
    line = "No tape: 1 case, which must not call a tool: shop/shop.evalset.json:tea"
    assert (planned.code, line in planned.out) == (0, True), planned.out
    missing = gate(shop, "replay")
    assert (missing.code, [case.reason.code for case in missing.report.cases if case.reason]) == (
        3,
        ["tool-tape-missing"],
    )
    moved.rename(tape)

    tape.write_text(tape.read_text("utf-8").replace('"occurrence": 0', '"occurrence": "first"'), encoding="utf-8")
    invalid = gate(shop, "replay")
    assert invalid.code == 2
    at = 1 + [' "first"' in text for text in tape.read_text("utf-8").splitlines()].index(True)
    assert f"shop/shop.evalset.tools/tea.tape.json:{at}:18: error" in invalid.out
    assert shop.gate("validate").code == 2
    assert shop.gate("tapes").code == 2
    # A tape that is not used does not matter.
    assert shop.gate("validate", "--plan").code == 0


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

    # Without the variables, at another time, before any call: the same objects.
    replayed = repository.gate("run", "--replay", "tools")
    assert replayed.code == 0, replayed.out
    assert {case.runs[0].tools.replayed for case in replayed.report.cases if case.runs[0].tools} == {2}

    write(1)
    # Live, those that act differently fail; a replay must not call one of them green.
    assert repository.gate("run").code == 1
    changed = repository.gate("run", "--replay", "tools")
    assert changed.code == 3, changed.out
    for name, (_, _, text) in OBJECT_MUTATIONS.items():
        kind, _, message = error(changed, name)
        assert (kind, text in message) == ("tool-tape-stale", True), message


WEATHER = '''
from mcp.server.fastmcp import FastMCP

server = FastMCP("weather")


@server.tool()
def forecast(city: str) -> str:
    """Forecasts the weather of a city."""
    return f"sunny in {city}"


server.run()
'''
WEATHER_AGENT = """
import sys
from google.adk.agents.llm_agent import LlmAgent
from google.adk.tools.mcp_tool import McpToolset
from google.adk.tools.mcp_tool.mcp_session_manager import StdioConnectionParams
from mcp import StdioServerParameters
from scripted_model import call, reply, scripted, text

def script(said, count, request):
    if count:
        return reply(text(request.contents[-1].parts[0].function_response.response["content"][0]["text"]))
    return reply(call("forecast", city=said))


server = StdioServerParameters(command=sys.executable, args=["-m", "weather.server"], cwd=".")
connection = StdioConnectionParams(server_params=server, timeout=30)
toolset = McpToolset(connection_params=connection)
root_agent = LlmAgent(name="weather", model=scripted(script), tools=[toolset])
"""


@pytest.mark.slow
def test_replay__needs_no_mcp_server(repository: Repository) -> None:
    packages = packages_python(f"adk-{REFERENCE}-mcp", f"google-adk=={REFERENCE}", "mcp<2")
    python = shlex.join(host_forks.command(packages))
    repository.evals("weather/weather.evalset.json", {"oslo": "Oslo"}, expect={"oslo": "sunny in Oslo"})
    shutil.copy(FIXTURES / "scripted_model.py", repository.root)
    files = {"weather/__init__.py": "from . import agent\n", "weather/agent.py": WEATHER_AGENT}
    repository.write({**files, "weather/server.py": WEATHER})

    def run(mode: str) -> Done:
        arguments = ("run", *FLAGS[mode], "--agent-python", python)
        return repository.gate(*arguments, python=False, environment={"CI": ""})

    assert run("record").code == 0
    tape = json.loads((repository.root / "weather/weather.evalset.tools/oslo.tape.json").read_text("utf-8"))
    [(toolset, tools)] = tape["toolsets"].items()
    assert (toolset.partition("#")[0], [tool["name"] for tool in tools]) == ("weather/1", ["forecast"])
    assert tape["tools"]["forecast"]["files"] == ["weather/server.py"]

    # The server would not start, and its tool is another one.
    repository.write({"weather/server.py": "import sys\nsys.exit(1)\n"})
    assert "stale: forecast has changed (weather/server.py)" in repository.gate("tapes").out
    repository.write({"agent-eval.toml": '[[tool]]\nname = "*"\nstale = "warn"\n'})
    done = run("replay")
    assert (done.code, done.statuses) == (0, {"oslo": "passed"}), done.out
    assert "The answers of `forecast` were recorded before it changed: the file that defines it" in done.out
