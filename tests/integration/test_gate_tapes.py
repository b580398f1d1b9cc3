"""`tools: record` and `tools: replay` as a user runs them: no change of a tool is green on its old answers."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import host_forks
import pytest
from adk_envs import FIXTURES, REFERENCE, packages_python
from base_repos import Repo
from gate_runs import Done, Repository, repository_in

EXAMPLE = Path(__file__).parents[2] / "examples" / "home_automation"
SAID, ANSWER = "Turn off the lamp in the bedroom.", "The bedroom lamp is now off."
CALLS = (
    {"name": "find_devices", "args": {"room": "bedroom"}},
    {"name": "set_device_status", "args": {"device_id": "bedroom_lamp", "status": "off"}},
)

TOOL_MUTATIONS: Mapping[str, tuple[str, str, str]] = {
    "body": ("tools.py", '"changed": device["status"] != status', '"changed": True'),
    "swallowed": ("tools.py", 'return {"error": f"there is no device {device_id}"}', "return {}"),
    "default": ("tools.py", 'room: str = ""', 'room: str = "kitchen"'),
    "helper": ("tools.py", "switched = tool_context.state", "switched = {} and tool_context.state"),
    "constant": ("tools.py", '"kind": "lamp", "status": "on"', '"kind": "lamp", "status": "off"'),
    "declaration": ("tools.py", "Switches a device on or off.", "Switches a device."),
    "parameter": (
        "tools.py",
        "device_id: str, status: str) ->",
        "device_id: str, status: str, force: bool = False) ->",
    ),
    "raises": ("tools.py", "    device = _devices(tool_context).get(device_id)", "    raise OSError('down')"),
    "state": ("tools.py", 'tool_context.state["devices"] =', 'tool_context.state["device"] ='),
    "depends": ("db.txt", "one", "two"),
}
"""Changes of tools: the file, and what is replaced in it."""

FIND, SWITCH = (f"{call['name']} {json.dumps(call['args'])}" for call in CALLS)
PROMPT_MUTATIONS: Mapping[str, tuple[str, str]] = {
    "case": ('"bedroom"', '"Bedroom"'),
    "dropped": (FIND, "find_devices {}"),
    "added": ('"bedroom"}', '"bedroom", "floor": 1}'),
    "type": ('"bedroom"', '["bedroom"]'),
    "device": ('"bedroom_lamp"', '"lamp"'),
    "status": ('"off"', '"OFF"'),
    "opposite": ('"off"', '"on"'),
    "key": ('"device_id"', '"id"'),
    "tool": (SWITCH, 'get_temperature {"room": "bedroom"}'),
    "again": (FIND, f'find_devices {{"room": "kitchen"}}\n{FIND}'),
}
"""Changes of a prompt that make the agent call something else: what is replaced in it."""
OBEDIENT = f'''
import json
import re
from google.adk.models import BaseLlm, LlmResponse
from google.genai import types


class ScriptedModel(BaseLlm):
    """Makes the calls that its prompt names, one on each line."""

    model: str = "obedient"

    async def generate_content_async(self, llm_request, stream=False):
        prompt = str(llm_request.config.system_instruction)
        calls = re.findall(r"^(\\w+) (\\{{.*\\}})$", prompt, re.MULTILINE)
        parts = [part for content in llm_request.contents for part in content.parts]
        done = sum(part.function_response is not None for part in parts)
        if done < len(calls):
            name, args = calls[done]
            part = types.Part(function_call=types.FunctionCall(name=name, args=json.loads(args)))
        else:
            part = types.Part(text="{ANSWER}")
        yield LlmResponse(content=types.Content(role="model", parts=[part]))
'''

ROUTER = """
from google.adk.agents.base_agent import BaseAgent
{imports}

AGENTS = {{{names}}}


class Router(BaseAgent):
    async def _run_async_impl(self, ctx):
        said = "".join(part.text or "" for part in ctx.user_content.parts)
        async for event in AGENTS[said.split(":")[0]].run_async(ctx):
            yield event


root_agent = Router(name="router")
"""
SETTINGS = '[[tool]]\nname = "look_up"\ndepends = ["home/t_depends/db.txt"]\n'


@pytest.fixture
def mutants(tmp_path: Path) -> Iterator[Repository]:
    """One agent with a copy of the example for each mutation, not changed yet, and a case for each copy."""
    names = [*(f"t_{name}" for name in TOOL_MUTATIONS), *(f"p_{name}" for name in PROMPT_MUTATIONS)]
    with repository_in(tmp_path / "repo") as repository:
        home = repository.root / "home"
        for name in names:
            shutil.copytree(
                EXAMPLE, home / name, ignore=shutil.ignore_patterns("evals", "__pycache__", "*.md", "*.txt")
            )
        for name in PROMPT_MUTATIONS:
            (home / f"p_{name}" / "model.py").write_text(OBEDIENT)
            _replace(home / f"p_{name}" / "agent.py", 'INSTRUCTION = """', f'INSTRUCTION = """{FIND}\n{SWITCH}\n')
        for file in ("tools.py", "model.py"):
            path = home / "t_depends" / file
            path.write_text(path.read_text().replace("find_devices", "look_up"))
        (home / "t_depends" / "db.txt").write_text("one")
        imports = "\n".join(f"from .{name}.agent import create_agent as {name}" for name in names)
        router = ROUTER.format(imports=imports, names=", ".join(f'"{name}": {name}()' for name in names))
        (home / "agent.py").write_text(router)
        (home / "__init__.py").write_text("from . import agent\n")
        (repository.root / "agent-eval.toml").write_text(SETTINGS)
        repository.evals(
            "home/home.evalset.json", {name: f"{name}: {SAID}" for name in names}, expect=dict.fromkeys(names, ANSWER)
        )
        yield repository


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text, (path, old)
    path.write_text(text.replace(old, new), encoding="utf-8")


def _errors(done: Done) -> dict[str, tuple[str, str, str]]:
    """Kind, owner and message of each case's error."""
    errors = {case.eval_id: case.runs[0].error for case in done.report.cases}
    return {name: (error.kind, error.owner, error.message) for name, error in errors.items() if error is not None}


def test_replay__no_mutation_is_green(mutants: Repository) -> None:
    recorded = mutants.gate("run", "--tools", "record", environment={"CI": ""})
    assert recorded.code == 0, recorded.out + recorded.err
    assert len(list((mutants.root / "home" / "home.evalset.tools").iterdir())) == 20
    assert "20 tapes written with 40 calls" in recorded.out
    replayed = mutants.gate("run", "--tools", "replay")
    assert replayed.code == 0, replayed.out
    use = [case.runs[0].tools for case in replayed.report.cases]
    assert {(tools.mode, tools.replayed, tools.live, tools.missed) for tools in use if tools} == {("replay", 2, 0, 0)}

    for name, (file, old, new) in TOOL_MUTATIONS.items():
        _replace(mutants.root / "home" / f"t_{name}" / file, old, new)
    for name, (old, new) in PROMPT_MUTATIONS.items():
        _replace(mutants.root / "home" / f"p_{name}" / "agent.py", old, new)
    # `tapes` and `plan` see most of it without the agent.
    lines = mutants.gate("tapes").out.splitlines()
    assert {line.split(":")[1] for line in lines if "; stale: " in line} == {f"t_{name}" for name in TOOL_MUTATIONS}
    assert (
        "Stale tapes, because tools have changed: 10 cases: "
        in mutants.gate("validate", "--plan", "--tools", "replay").out
    )
    changed = mutants.gate("run", "--tools", "replay", "--on-inconclusive", "pass")
    assert changed.code == 3, changed.out
    assert [case for case, status in changed.statuses.items() if status == "passed"] == []
    errors = _errors(changed)
    assert {errors[f"t_{name}"][:2] for name in TOOL_MUTATIONS} == {("tool-tape-stale", "gate")}
    assert "a file that it depends on" in errors["t_depends"][2]
    assert {errors[f"p_{name}"][:2] for name in PROMPT_MUTATIONS} == {("tool-not-recorded", "gate")}
    differences = {
        "case": 'find_devices(room): "bedroom" on the tape, "Bedroom" now',
        "dropped": 'find_devices(room): "bedroom" on the tape, none now',
        "added": "find_devices(floor): none on the tape, 1 now",
        "type": 'find_devices(room): "bedroom" on the tape, ',
        "device": 'set_device_status(device_id): "bedroom_lamp" on the tape, "lamp" now',
        "status": 'set_device_status(status): "off" on the tape, "OFF" now',
        "opposite": 'set_device_status(status): "off" on the tape, "on" now',
        "key": 'set_device_status(device_id): "bedroom_lamp" on the tape, none now',
        "tool": "no other call of `get_temperature` is",
        "again": 'find_devices(room): "bedroom" on the tape, "kitchen" now',
    }
    for name, text in differences.items():
        kind, owner, message = errors[f"p_{name}"]
        print(f"{name:<9} {kind} ({owner}): {message}")
        assert text in message

    # With `warn` a notice says which tools changed, also if parts are merged.
    (mutants.root / "agent-eval.toml").write_text(f'{SETTINGS}\n[[tool]]\nname = "*"\nstale = "warn"\n')
    one = ("home/home.evalset.json:t_depends", "--tools", "replay")
    assert mutants.gate("run", *one, "--shard", "1/1", "--output-dir", "shards/1").code == 0
    merged = mutants.gate("merge", "--paths", *one)
    assert merged.code == 0
    assert "The answers of `look_up` were recorded before it changed: a file that it depends on" in merged.out
    (mutants.root / "agent-eval.toml").write_text(SETTINGS)

    # Where the trajectory is compared exactly, a wrong call is the agent's failure.
    path = mutants.root / "home" / "home.evalset.json"
    data = json.loads(path.read_text())
    for case in data["eval_cases"]:
        case["conversation"][0]["intermediate_data"] = {"tool_uses": CALLS}
    path.write_text(json.dumps(data))
    (mutants.root / "home" / "test_config.json").write_text('{"criteria": {"tool_trajectory_avg_score": 1.0}}')
    exact = mutants.gate("run", "--tools", "replay")
    assert exact.code == 1
    errors = _errors(exact)
    assert {errors[f"p_{name}"][:2] for name in PROMPT_MUTATIONS} == {("tool-not-recorded", "agent")}
    assert {errors[f"t_{name}"][:2] for name in TOOL_MUTATIONS} == {("tool-tape-stale", "gate")}
    assert {exact.statuses[f"p_{name}"] for name in PROMPT_MUTATIONS} == {"failed"}
    assert "crash" not in exact.out


OBJECTS = '''
import collections
import functools
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


class V2(V1):
    def switch(self, room: str) -> dict:
        """Switches the lamp."""
        return {"now": "broken"}


class V3(V1):
    pass


def make(answer):
    def switch(room: str) -> dict:
        """Switches the lamp."""
        return {"now": answer}
    return switch


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


def logged(body):
    @functools.wraps(body)
    def around(room: str) -> dict:
        return body(room)
    return around


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
    "class_of_method": ('V1(Client("on")).switch', 'V2(Client("on")).switch', "it was home.tools:V1.switch, line"),
    "subclass": ('V1(Client("on")).switch', 'V3(Client("on")).switch', "behind it holds (self)"),
    "held_object": ('V1(Client("on")).switch', 'V1(Client("off")).switch', "behind it holds (self.client.answer)"),
    "below_decorator": ('logged(make("on"))', 'logged(make("off"))', "behind it holds (body.answer)"),
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
def test_replay__another_object_of_an_unchanged_file_is_not_green(tmp_path: Path) -> None:
    with repository_in(tmp_path / "repo") as repository:
        shutil.copy(FIXTURES / "scripted_model.py", repository.root)
        names = list(OBJECT_MUTATIONS)
        repository.evals(
            "home/home.evalset.json", {name: name for name in names}, expect=dict.fromkeys(names, "It is on.")
        )
        home = repository.root / "home"
        (home / "__init__.py").write_text("from . import agent\n")
        (home / "tools.py").write_text(OBJECTS)

        def write(which: int) -> None:
            tools = ", ".join(f"{name!r}: {mutation[which]}" for name, mutation in OBJECT_MUTATIONS.items())
            (home / "agent.py").write_text(OBJECTS_AGENT.replace("{TOOLS}", f"{{{tools}}}"))

        write(0)
        variables = {"CI": "", "JOB_SECRET": "s3cret-of-the-job", "RUNS_FILE": "/somewhere/else"}
        recorded = repository.gate("run", "--tools", "record", environment=variables)
        assert recorded.code == 0, recorded.out

        # Without the variables, at another time, before any call: the same objects.
        replayed = repository.gate("run", "--tools", "replay")
        assert replayed.code == 0, replayed.out
        assert {case.runs[0].tools.replayed for case in replayed.report.cases if case.runs[0].tools} == {2}

        write(1)
        # Live, those that act differently fail; a replay must not call one of them green.
        assert repository.gate("run").code == 1
        changed = repository.gate("run", "--tools", "replay")
        errors = _errors(changed)
        print("\n".join(f"{name}: {message}" for name, (_, _, message) in errors.items()))
        assert (changed.code, errors.keys()) == (3, OBJECT_MUTATIONS.keys()), changed.out
        for name, (_, _, text) in OBJECT_MUTATIONS.items():
            kind, _, message = errors[name]
            assert (kind, text in message) == ("tool-tape-stale", True), message


SHOP = '''
import os
from google.adk.agents.llm_agent import LlmAgent
from scripted_model import call, reply, scripted, text


def price(item: str) -> dict[str, int]:
    """The price of an item."""
    with open(os.environ["RUNS_FILE"], "a", encoding="utf-8") as file:
        file.write("ran\\n")
    return {"price": PRICE}


def script(said, count, request):
    if not count:
        return reply(call("price", item=said))
    answer = request.contents[-1].parts[0].function_response.response
    return reply(text(f"It costs {answer['price']}."))


root_agent = LlmAgent(name="shop", model=scripted(script), tools=[price])
'''


@pytest.mark.slow
def test_replay__the_base_branch_gets_the_tapes_of_the_head(tmp_path: Path) -> None:
    runs = tmp_path / "runs.txt"
    runs.touch()
    environment = {"CI": "", "RUNS_FILE": str(runs)}
    with repository_in(tmp_path / "repo") as repository:
        repo = Repo(repository.root)
        repo.git("init", "-q", "-b", "main")
        shutil.copy(FIXTURES / "scripted_model.py", repository.root)
        repository.evals("shop/shop.evalset.json", {"tea": "tea"}, expect={"tea": "It costs 2."})
        files = {"shop/__init__.py": "from . import agent\n", ".gitignore": "agent-eval-results/\n__pycache__/\n"}
        repo.commit({**files, "shop/agent.py": SHOP.replace("PRICE", "1")})
        repo.commit({"shop/agent.py": SHOP.replace("PRICE", "2")})
        recorded = repository.gate("run", "--tools", "record", environment=environment)
        assert (recorded.code, runs.read_text("utf-8")) == (0, "ran\n")
        repo.commit({})
        compare = ("--baseline", "rerun", "--base-ref", "HEAD~2")
        done = repository.gate("run", "--tools", "replay", *compare, environment=environment)
        assert done.code == 0, done.out
        assert runs.read_text("utf-8") == "ran\n", "a tool ran"
        assert done.report.baseline is not None
        assert (done.report.baseline.status, done.report.baseline.source) == ("found", "rerun")
        assert done.report.comparison is not None

        # Live, the base's own tool runs: the pull request fixed it.
        live = repository.gate("run", *compare, environment=environment)
        assert live.report.comparison is not None
        assert (live.code, runs.read_text("utf-8").count("ran")) == (0, 3)

        # A tool that the pull request breaks is never green, whatever the base branch does.
        repo.commit({"shop/agent.py": SHOP.replace("PRICE", "3")})
        broken = repository.gate("run", "--tools", "replay", *compare, environment=environment)
        assert (broken.code, broken.statuses) == (3, {"tea": "errored"})
        assert "record its tools again" in broken.out
        _check_refusals(repository, repository.root / "shop" / "shop.evalset.tools" / "tea.tape.json")


WEATHER = '''
from mcp.server.fastmcp import FastMCP

server = FastMCP("weather")


@server.tool()
def forecast(city: str) -> str:
    """Forecasts the weather of a city."""
    return f"sunny in {city}"


@server.tool()
def alarm(city: str) -> str:
    """Warns of the weather of a city."""
    return f"storm in {city}"


server.run()
'''
WEATHER_AGENT = """
import sys
from google.adk.agents.llm_agent import LlmAgent
from google.adk.tools.mcp_tool import McpToolset
from google.adk.tools.mcp_tool.mcp_session_manager import StdioConnectionParams
from mcp import StdioServerParameters
from scripted_model import call, reply, scripted, text

TOOLS = ["forecast"]


def script(said, count, request):
    if count:
        return reply(text(request.contents[-1].parts[0].function_response.response["content"][0]["text"]))
    return reply(call(TOOLS[-1], city=said))


server = StdioServerParameters(command=sys.executable, args=["-m", "weather.server"], cwd=".")
connection = StdioConnectionParams(server_params=server, timeout=30)
toolset = McpToolset(connection_params=connection, tool_filter=TOOLS)
root_agent = LlmAgent(name="weather", model=scripted(script), tools=[toolset])
"""


@pytest.mark.slow
def test_replay__needs_no_mcp_server(tmp_path: Path) -> None:
    packages = packages_python(f"adk-{REFERENCE}-mcp", f"google-adk=={REFERENCE}", "mcp<2")
    python = shlex.join(host_forks.command(packages))

    with repository_in(tmp_path / "repo") as repository:
        folder = repository.root / "weather"
        repository.evals("weather/weather.evalset.json", {"oslo": "Oslo"}, expect={"oslo": "sunny in Oslo"})
        shutil.copy(FIXTURES / "scripted_model.py", repository.root)
        (folder / "__init__.py").write_text("from . import agent\n")
        (folder / "agent.py").write_text(WEATHER_AGENT)
        (folder / "server.py").write_text(WEATHER)

        def gate(mode: str) -> Done:
            return repository.gate(
                "run", "--tools", mode, "--agent-python", python, python=False, environment={"CI": ""}
            )

        assert gate("record").code == 0
        tape = json.loads((folder / "weather.evalset.tools" / "oslo.tape.json").read_text())
        assert [tool["name"] for tool in tape["toolsets"]["weather/1"]] == ["forecast", "alarm"]
        assert tape["tools"]["forecast"]["files"] == ["weather/server.py"]

        # The server would not start, and its tool is another one.
        (folder / "server.py").write_text("import sys\nsys.exit(1)\n")
        assert "stale: forecast has changed (weather/server.py)" in repository.gate("tapes").out
        settings = repository.root / "agent-eval.toml"
        settings.write_text('[[tool]]\nname = "*"\nstale = "warn"\n')
        done = gate("replay")
        settings.unlink()
        assert (done.code, done.statuses) == (0, {"oslo": "passed"}), done.out
        assert "The answers of `forecast` were recorded before it changed: the file that defines it" in done.out

        # Code that lets the agent use more of the server's tools has an effect in a replay.
        _replace(folder / "agent.py", '["forecast"]', '["forecast", "alarm"]')
        (folder / "server.py").write_text(WEATHER)
        done = gate("replay")
        assert (done.code, _errors(done)["oslo"][0]) == (3, "tool-not-recorded")
        assert 'alarm(city="Oslo") is not on the tape' in _errors(done)["oslo"][2]


def _check_refusals(repository: Repository, tape: Path) -> None:
    """What ends with exit code 2 before an agent starts; and the command that lists tapes."""
    refused = repository.gate("run", "--tools", "record", environment={"CI": "true"})
    assert (refused.code, "tools-record-in-ci" in refused.out) == (2, True)
    refused = repository.gate(
        "run", "--tools", "replay", "--agent", f"recorded:{repository.root / 'shop'}", python=False
    )
    assert refused.code == 2
    refused = repository.gate("run", "--tools", "replay", "--agent", "adk:http://127.0.0.1:9", python=False)
    assert (refused.code, "[tools-unsupported]" in refused.out) == (2, True)
    refused = repository.gate("run", "--tools", "record", "--resume", environment={"CI": ""})
    assert (refused.code, "[tools-unsupported]" in refused.out) == (2, True)

    stray = tape.with_name("stray.tape.json")
    stray.write_bytes(tape.read_bytes())
    planned = repository.gate("validate", "--plan", "--tools", "replay")
    assert (planned.code, "No tape" in planned.out) == (0, False)
    listed = repository.gate("tapes")
    assert (listed.code, listed.out.splitlines()[-1]) == (0, "2 tapes, 1 without a case (--prune removes them)")
    assert "shop/shop.evalset.json:tea: 1 call; price; recorded today; 1 run" in listed.out
    validated = repository.gate("validate")
    assert (validated.code, "warning [tape-orphaned]" in validated.out) == (0, True)
    # An eval file that was removed has left its tapes; one that is merely not selected keeps them.
    deleted = tape.parent.with_name("gone.evalset.tools")
    shutil.copytree(tape.parent, deleted)
    elsewhere = tape.parent.parent / "unselected"
    shutil.copytree(tape.parent, elsewhere / "other.evalset.tools")
    elsewhere.joinpath("other.evalset.json").write_bytes(tape.parent.with_name("shop.evalset.json").read_bytes())
    tape.parent.with_name("linked.evalset.tools").symlink_to(elsewhere / "other.evalset.tools")
    pruned = repository.gate("tapes", "--prune", "--exclude", "unselected/")
    assert (pruned.code, deleted.exists(), stray.exists()) == (0, False, False), pruned.out
    assert "kept shop/linked.evalset.tools/tea.tape.json: its directory is a symbolic link" in pruned.out
    assert len(list(elsewhere.rglob("*.tape.json"))) == 2
    tape.parent.with_name("linked.evalset.tools").unlink()
    shutil.rmtree(elsewhere)
    moved = tape.rename(tape.with_suffix(".moved"))
    planned = repository.gate("validate", "--plan", "--tools", "replay")
    line = "No tape: 1 case, which must not call a tool: shop/shop.evalset.json:tea"
    assert (planned.code, line in planned.out) == (0, True), planned.out
    missing = repository.gate("run", "--tools", "replay", environment={"CI": "", "RUNS_FILE": str(tape)})
    assert (missing.code, [case.reason.code for case in missing.report.cases if case.reason]) == (
        3,
        ["tool-tape-missing"],
    )
    moved.rename(tape)

    tape.write_text(tape.read_text("utf-8").replace('"occurrence": 0', '"occurrence": "first"'), encoding="utf-8")
    invalid = repository.gate("run", "--tools", "replay")
    assert invalid.code == 2
    assert "shop/shop.evalset.tools/tea.tape.json:9:18: error" in invalid.out
    assert repository.gate("validate").code == 2
    assert repository.gate("tapes").code == 2
    # A tape that is not used does not matter.
    assert repository.gate("validate", "--plan").code == 0
