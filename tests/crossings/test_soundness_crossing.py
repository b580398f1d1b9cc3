"""What decides an answer or what is asked, changed after a recording: no replay is green where a live run is not.

Some 80 agents are in one repository, and each answers with what its tool returns: "one", until something changes. They
are recorded, replayed unchanged, changed, replayed again and run live. Where nearly any change counts, because nothing
can observe the tool, its change is also made alone. `data/soundness_cells.txt` has the changes. By default a few are
made; with `CROSSINGS=all` all are.
"""

from __future__ import annotations

import functools
import gzip
import json
import os
import re
import shutil
import sqlite3
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from adk_envs import FIXTURES
from base_repos import Repo
from gate_runs import repository_in
from golden_files import DATA

AGENTS = """
import importlib
import os
import sys

sys.path += [os.environ["ADK_LIBRARIES"], os.environ["ADK_LIBRARIES"] + "/src"]
from google.adk.agents.base_agent import BaseAgent
from google.adk.apps.app import App
from google.adk.plugins.base_plugin import BasePlugin


class Router(BaseAgent):
    async def _run_async_impl(self, ctx):
        async for event in AGENTS[ctx.user_content.parts[0].text.split()[0]].root.run_async(ctx):
            yield event


class Plugin(BasePlugin):
    async def before_agent_callback(self, *, agent, callback_context):
        if agent.name == "state_of_plugin":
            callback_context.state["plugged"] = AGENTS[agent.name].plug_value.UNIT

    async def before_model_callback(self, *, callback_context, llm_request):
        if callback_context.agent_name == "asked_plugin":
            llm_request.append_instructions([AGENTS["asked_plugin"].plug_prompt.PROMPT])


AGENTS = {name: importlib.import_module(f".{name}", __package__) for name in NAMES}
root_agent = Router(name="router")
app = App(name="desk", root_agent=root_agent, plugins=[Plugin(name="plugin")])
"""
SCRIPTS = '''
import hashlib
import os
import re

from scripted_model import call, reply, text


def asked(request):
    """Notes what a model was asked; returns what the user said."""
    name, key, tools = request.contents[0].parts[0].text.split()[:3]
    config = request.config.model_dump(exclude={"http_options", "labels"})
    schema = getattr(request.config.response_schema, "model_json_schema", str)()
    shown = re.sub("adk-[0-9a-f-]+|0x[0-9a-f]+", "", repr([request.model, request.contents, config, schema]))
    with open(os.path.join(os.environ["ADK_ASKED"], f"{name}_{key}"), "a") as file:
        file.write(hashlib.sha256(shown.encode()).hexdigest() + os.linesep)
    return name, key, tools


def script(said, count, request):
    """Calls the tools, and says what the last one returned."""
    name, key, tools = asked(request)
    calls = tools.split(",") if request.config.tools else []
    if count < len(calls):
        return reply(call(calls[count], key=key))
    if not calls:
        return reply(text("It is one."))
    response = request.contents[-1].parts[0].function_response.response
    return reply(text(f"It is {str(response.get('value')).strip()}."))


def silent(said, count, request):
    asked(request)
    return reply(text("Hm."))


def asks_inner(said, count, request):
    if not count:
        return reply(call("inner", request=said))
    return reply(text(request.contents[-1].parts[0].function_response.response["result"]))
'''
AGENT = """
import logging

from google.adk.agents import LlmAgent, SequentialAgent
from google.adk.code_executors import BuiltInCodeExecutor
from google.adk.planners import BuiltInPlanner, PlanReActPlanner
from google.genai import types
from pydantic import Field, create_model

from ..scripts import asks_inner, script, silent
from scripted_model import reply, text
from . import held, models, tools
PLUGS

def make(**more):
    about = {"name": "NAME", "model": models.make(script), "tools": [tools.look]}
    callbacks = {"before_agent_callback": "before", "before_tool_callback": "before_tool"}
    callbacks |= {"after_tool_callback": "after_tool", "before_model_callback": "before_model"}
    about |= {key: globals()[name] for key, name in callbacks.items() if name in globals()}
    return LlmAgent(**{**about, **more})


def says(value):
    def after(callback_context, llm_response):
        said = llm_response.content.parts[0].text
        return reply(text(said.replace("Hm.", value).replace("one", value))) if said else None

    return after


def sets(value):
    def before(callback_context):
        callback_context.state["unit"] = value

    return before


def appends(callback_context, llm_request):
    llm_request.append_instructions(["More."])


"""
MODULES = "asyncio codecs configparser contextlib csv filecmp fileinput functools glob gzip importlib.metadata"
MODULES += " importlib.resources inspect io json linecache mmap operator os pickle pkgutil queue random shutil sqlite3"
MODULES += " string subprocess tempfile threading time tokenize tomllib zipfile"
TOOLS = "".join(f"import {name}\n" for name in MODULES.split()) + (
    "from concurrent.futures import ThreadPoolExecutor\nfrom pathlib import Path\nimport yaml\n"
    "from dotenv import dotenv_values, load_dotenv\nfrom google.genai import types\nfrom . import held\n"
    "HERE = Path(__file__).parent\n"
)
LOOK = 'def look(key: str, tool_context) -> dict:\n    """Looks."""\n    return {"value": '
EVALS = "desk/desk.evalset.json"
MODELS = 'from scripted_model import Scripted\ndef make(script): return Scripted(model="scripted", script=script)\n'
KEYS = ("a", "b")
"""Of each agent's two cases: the second one finds what the first one has read."""


@dataclass
class Cell:
    """An agent, and what changes."""

    name: str
    hidden: str = ""
    """The words of docs/tools.md, "What replay hides", that cover it; `OPEN`: nothing says so yet."""
    calls: str = "look"
    before: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Contents and options by file."""
    after: dict[str, tuple[str, str] | None] = field(default_factory=dict)


def cells() -> list[Cell]:
    """`=== NAME`, the tool's code (`= EXPRESSION`: what it returns), and `--- FILE MARK`: what is in its files.

    Marks: `*` one becomes two, `+` added, `-` removed, `>` the changed content, `@` a link and its changed target.
    """
    found = []
    for block in (DATA / "soundness_cells.txt").read_text("utf-8").split("=== ")[1:]:
        head, *parts = block.split("\n--- ")
        title, _, code = head.partition("\n")
        title, _, hidden = title.partition(" | ")
        name, _, calls = title.partition(" calls=")
        cell = Cell(name, hidden, calls or "look")
        code = re.sub(r"^= (.*)$", lambda line: f"{LOOK}{line[1]}}}", code, flags=re.MULTILINE)
        cell.before = {
            "tools.py": (TOOLS + code + "\n", ""),
            "held.py": ("UNIT = ''\n", ""),
            "models.py": (MODELS, ""),
            "agent": ("", ""),
        }
        for part in parts:
            head, _, content = part.partition("\n")
            file, mark, *options = [*head.split(" "), ""]
            option = " ".join(filter(None, options))
            content = content.rstrip("\n") + "\n"
            if file == "tools.py":
                content = cell.before[file][0]
            if mark == "@":
                targets = option.split()
                cell.before[file] = (targets[0], "link")
                cell.after |= {file: (targets[-1], "link")} if len(targets) > 1 else {}
            elif mark in {"+", ">"}:
                cell.after[file] = (content, option)
            else:
                cell.before[file] = (content, option)
                cell.after |= {file: (changed(content), option)} if mark == "*" else {file: None} if mark == "-" else {}
        found.append(cell)
    return found


def changed(text: str) -> str:
    """The other answer."""
    text = text.replace("1.0", "2.0") if "Version:" in text else text
    return re.sub(r"\bone\b|Vone", lambda found: found[0].replace("one", "two"), text).replace("the first", "the other")


CELLS = {cell.name: cell for cell in cells()}
ALL = os.environ.get("CROSSINGS") == "all"
CHOSEN = [*CELLS] if ALL else [*CELLS][::8]
GROUPS = [CHOSEN[first :: -(-len(CHOSEN) // 80)] for first in range(-(-len(CHOSEN) // 80))]


class Runs:
    """The runs of a group of agents."""

    def __init__(self, root: Path, names: Sequence[str]) -> None:
        self._libraries = root.parent / "libraries"
        self._asked = root.parent / "asked"
        self._variables: dict[str, str] = {}
        with repository_in(root) as repository:
            self._repository = repository
            repo = Repo(root)
            repo.git("init", "-q", "-b", "main")
            shutil.copy(FIXTURES / "scripted_model.py", root)
            repository.write({"desk/__init__.py": "", "desk/agent.py": f"NAMES = {[*names]}\n{AGENTS}"})
            ignored = "agent-eval-results/\n__pycache__/\n*.ignored\n"
            repository.write({"desk/scripts.py": SCRIPTS, ".gitignore": ignored})
            for name in names:
                self._write(CELLS[name], CELLS[name].before)
            said = {f"{name}_{key}": f"{name} {key} {CELLS[name].calls}" for name in names for key in KEYS}
            repository.evals(EVALS, said, expect=dict.fromkeys(said, "It is one."))
            repo.commit({}, "Agents")
            self.recorded, asked = self._run("--record", "all")
            self.unchanged, _ = self._run("--replay", "all")
            self.alone = {name: self._changed_alone(name) for name in self._unobservable(names)[: None if ALL else 2]}
            for name in names:
                self._write(CELLS[name], CELLS[name].after)
            self.replayed, _ = self._run("--replay", "all")
            self.missing_live = self._run("--replay", "missing-live")[0] if names is GROUPS[0] else None
            self.live, now = self._run()
            self.asks_otherwise = {case for case in said if asked.get(case) != now.get(case)}

    def _unobservable(self, names: Sequence[str]) -> list[str]:
        """The agents whose tool depends on all packages."""
        tapes = [json.loads(path.read_text("utf-8")) for path in self._repository.root.rglob("*.tape.json")]
        tools = [(tape["eval_id"].rpartition("_")[0], tape.get("tools", {})) for tape in tapes]
        used = {name for name, made in tools if any("*" in tool.get("packages", {}) for tool in made.values())}
        return sorted(used.intersection(names), key=lambda name: (not CELLS[name].hidden, name))

    def _changed_alone(self, name: str) -> str:
        """What a replay says if nothing but this agent is changed."""
        cell, case = CELLS[name], f"{name}_{KEYS[0]}"
        self._write(cell, cell.after)
        outcome = self._run(f"{EVALS}:{case}", "--replay", "all")[0][case]
        self._write(cell, {**dict.fromkeys(cell.after), **cell.before})
        return outcome

    def _write(self, cell: Cell, files: Mapping[str, tuple[str, str] | None]) -> None:
        folder = self._repository.root / "desk" / cell.name
        for file, what in files.items():
            path = folder / file if not file.startswith("LIB/") else self._libraries / file.removeprefix("LIB/")
            if file == "agent":
                path, content = folder / "__init__.py", what[0] if what else ""
                plugs = "".join(f"from . import {name[:-3]}\n" for name in cell.before if name.startswith("plug_"))
                end = "" if "root = " in content else "root = make()\n"
                what = (AGENT.replace("NAME", cell.name).replace("PLUGS", plugs) + content + end, "")
            elif file.startswith("$"):
                self._variables[file[1:]] = what[0].strip() if what else ""
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            if what is None:
                continue
            content, option = what
            if option == "link":
                path.symlink_to(content)
            elif path.suffix == ".db":
                with sqlite3.connect(path) as made:
                    made.execute(f"create table t as select '{content.strip()}' v")
            elif path.suffix == ".zip":
                with zipfile.ZipFile(path, "w") as archive:
                    for name in ("a", "zipped.py", "zipped2.py"):
                        archive.writestr(name, content)
            else:
                data = content.replace("\n", "\r\n" if option == "crlf" else "\n").encode()
                path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
                if option == "x":
                    path.chmod(0o755)

    def _run(self, *arguments: str) -> tuple[dict[str, str], dict[str, list[str]]]:
        shutil.rmtree(self._asked, ignore_errors=True)
        self._asked.mkdir()
        places = {"ADK_LIBRARIES": str(self._libraries), "ADK_ASKED": str(self._asked)}
        variables = {"CI": "", **places, **{name: value for name, value in self._variables.items() if value}}
        done = self._repository.gate("run", "--num-runs", "1", *arguments, environment=variables, timeout=600)
        assert done.code in {0, 1, 3}, done.out + done.err
        outcomes = {}
        for case in done.report.cases:
            error = case.runs[0].error
            outcomes[case.eval_id] = f"{error.kind}: {error.message}" if error else done.statuses[case.eval_id]
        return outcomes, {path.name: sorted({*path.read_text().split()}) for path in self._asked.iterdir()}


@pytest.fixture(scope="module")
def runs_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Runs]:
    """Returns the runs of a group, made once."""
    return functools.cache(lambda group: Runs(tmp_path_factory.mktemp("soundness") / "repository", GROUPS[group]))


@pytest.mark.parametrize(
    ("group", "name"), [pytest.param(at, name, id=f"{at}@{name}") for at, names in enumerate(GROUPS) for name in names]
)
def test_replay__is_not_green_where_a_live_run_differs(group: int, name: str, runs_of: Callable[[int], Runs]) -> None:
    runs, is_harmless, is_hidden = runs_of(group), name.startswith("ok_"), bool(CELLS[name].hidden)
    for case in (f"{name}_{key}" for key in KEYS):
        assert runs.recorded[case] == runs.unchanged[case] == "passed", "nothing is recorded, or it does not replay"
        differs = runs.live[case] != "passed" or case in runs.asks_otherwise
        assert differs != is_harmless, "another change than the table says"
        replayed = runs.alone.get(name, runs.replayed[case])
        assert (replayed == "passed") == (is_harmless or is_hidden), replayed
        if runs.missing_live is not None and not is_hidden:
            assert runs.missing_live[case] == runs.live[case]


def test_soundness_cells__name_what_the_docs_say() -> None:
    section = (Path(__file__).parents[2] / "docs" / "tools.md").read_text("utf-8").partition("## What replay hides")[2]
    said = " ".join(section.split())
    assert [name for name, cell in CELLS.items() if cell.hidden not in said] == []
    assert section.count("\n- ") <= 7
