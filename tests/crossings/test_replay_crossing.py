"""Recorded tools, crossed with what changes afterwards: no replay is green where a live run is not.

The first table has tools of every form; the second one tools that do more than answer: they set state, raise, save
artifacts, answer the same call differently. All cells of one version of google-adk are cases of one repository: each
has a package with an agent of its own. The tools are recorded, each package is changed, and the cases run once live
and once in a replay for each setting.
"""

from __future__ import annotations

import functools
import shlex
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import host_forks
import pytest
from adk_envs import FIXTURES, REFERENCE, adk_python, packages_python
from crossing_table import Cell, Impossible, Row, Table
from gate_runs import Done, Repository, repository_in

VERSIONS = ("1.18.0", "1.39.1", REFERENCE)
SETTINGS: Mapping[str, str] = {"error": "", "stale: warn": 'stale = "warn"', "miss: live": 'miss = "live"'}
"""What `[[tool]]` says about all tools."""
FLAGS = {"live": (), "record": ("--record", "all"), "replay": ("--replay", "tools")}
Edits = tuple[tuple[str, str, str], ...]
"""Files, what is replaced in them, and by what."""


def python_of(version: str) -> str:
    """Starts hosts with this version, and with `mcp`, which older versions bring with them."""
    if version == REFERENCE:
        python = packages_python(f"adk-{version}-mcp", f"google-adk=={version}", "mcp<2")
    else:
        python = adk_python(version)
    return shlex.join(host_forks.command(python))


def edit(package: Path, edits: Edits) -> None:
    """Changes the files of a package."""
    for name, old, new in edits:
        text = (package / name).read_text()
        assert old in text, (name, old)
        (package / name).write_text(text.replace(old, new))


def copy(fixture: str, package: Path) -> None:
    """Writes a package as its fixture has it."""
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(FIXTURES / fixture, package, ignore=shutil.ignore_patterns("__pycache__"))


ROUTER = """
import importlib
from google.adk.agents.base_agent import BaseAgent


class Router(BaseAgent):
    async def _run_async_impl(self, ctx):
        said = ctx.user_content.parts[0].text
        async for event in AGENTS[said].run_async(ctx):
            yield event


AGENTS = {name: importlib.import_module(f".{name}.agent", __package__).root for name in NAMES}
root_agent = Router(name="router")
"""


def outcomes_of(done: Done) -> dict[str, str]:
    """What became of each case: the kind of its error, or its status."""
    runs = {case.eval_id: case.runs[0] for case in done.report.cases}
    return {name: run.error.kind if run.error else done.statuses[name] for name, run in runs.items()}


def key_of(cell: Cell) -> str:
    """The case of a cell: what neither its version nor its setting change."""
    values = (value for axis, value in cell.items() if axis not in {"version", "setting"})
    return "_".join("".join(filter(str.isalnum, value)) for value in values)


class Runs:
    """The runs of the cells of one version."""

    def __init__(self, root: Path, table: Table, version: str) -> None:
        """Records all cells of a version of google-adk, replays them unchanged, and runs them changed."""
        write = WRITERS[table.name]
        cells: list[Cell] = [parameter.values[0] for parameter in table.cells_to_run()]
        self._python = python_of(version)
        self._write = write
        self.cases = {key_of(cell): cell for cell in cells if cell["version"] == version}
        with repository_in(root) as self._repository:
            self._prepare(self._repository)
            self.recorded = self._run("record")
            self.unchanged = self._run("replay")
            for name, cell in self.cases.items():
                write(root / "home" / name, cell, True)
            self.live = self._run("live")
            self.replayed = {
                setting: self._run("replay", rule)
                for setting, rule in SETTINGS.items()
                if any((cell["version"], cell["setting"]) == (version, setting) for cell in cells)
            }

    def _prepare(self, repository: Repository) -> None:
        shutil.copy(FIXTURES / "scripted_model.py", repository.root)
        names = {name: name for name in self.cases}
        repository.evals("home/home.evalset.json", names, expect=dict.fromkeys(names, "It is on."))
        (repository.root / "home" / "__init__.py").write_text("from . import agent\n")
        (repository.root / "home" / "agent.py").write_text(f"NAMES = {list(names)}\n{ROUTER}")
        for name, cell in self.cases.items():
            self._write(repository.root / "home" / name, cell, False)

    def _run(self, mode: str, rule: str = "") -> dict[str, str]:
        rules = f'[[tool]]\nname = "*"\n{rule}\n' if rule else ""
        (self._repository.root / "agent-eval.toml").write_text(rules, "utf-8")
        arguments = ("run", *FLAGS[mode], "--agent-python", self._python)
        done = self._repository.gate(*arguments, python=False, environment={"CI": ""}, timeout=600)
        assert done.code in {0, 1, 3}, done.out + done.err
        return outcomes_of(done)


# Tools of every form.

TOOLS: Mapping[str, tuple[str, str, str]] = {
    "function": ("function(True)", "", "function(False)"),
    "closure": ('closure("on")', 'closure("off")', 'other_closure("on")'),
    "method": ('Lamp("on").switch', 'Lamp("off").switch', 'OtherLamp("on").switch'),
    "partial": ('partial(valued, "on")', 'partial(valued, "off")', 'partial(other_valued, "on")'),
    "decorated": ('decorated(closure("on"))', 'decorated(closure("off"))', 'decorated(other_closure("on"))'),
    "cached": ('cached(closure("on"))', 'cached(closure("off"))', 'cached(other_closure("on"))'),
    "lambda": ('lambda_of("real")', "", 'lambda_of("other")'),
    "callable": ('Caller("on")', 'Caller("off")', 'OtherCaller("on")'),
    "BaseTool": ('LampTool("on")', 'LampTool("off")', 'OtherLampTool("on")'),
    "FunctionTool": ('Wrapping("on")', 'Wrapping("off")', 'OtherWrapping("on")'),
    "toolset": ('Lamps("on")', 'Lamps("off")', 'OtherLamps("on")'),
    "made at each request": ('FreshLamps("on")', 'FreshLamps("off")', 'OtherFreshLamps("on")'),
    "MCP": ('mcp("server.py", "on")', 'mcp("server.py", "off")', 'mcp("other_server.py", "on")'),
    "MCP environment": (
        'mcp("server.py", "", env={"LAMP": "on"})',
        'mcp("server.py", "", env={"LAMP": "off"})',
        'mcp("other_server.py", "", env={"LAMP": "on"})',
    ),
}
"""The forms of the tool: as it is recorded, with another value, and with other code of an unchanged file."""
MCP = ("MCP", "MCP environment")
BEFORE_CREATE, SWITCHES = "root = ", "Switches the lamp."
CHANGES: Mapping[str, Edits] = {
    "prompt": (("agent.py", '"The lamp is', '"Look: the lamp is'),),
    "declaration": (("tools.py", SWITCHES, "Switches it."), ("server.py", SWITCHES, "Switches it.")),
    "other value": (),
    "other code": (),
    "body": (("tools.py", 'room != "attic"', 'room == "attic"'), ("server.py", 'room != "attic"', 'room == "attic"')),
    "constant elsewhere": (("elsewhere.py", 'CONSTANT = "on"', 'CONSTANT = "off"'),),
    "helper elsewhere": (("elsewhere.py", 'return "on"', 'return "off"'),),
    "variable of the module": (("agent.py", BEFORE_CREATE, f'tools.HERE = "off"\n{BEFORE_CREATE}'),),
    "patched function": (("agent.py", BEFORE_CREATE, f'tools.answer = lambda *_: {{"now": "off"}}\n{BEFORE_CREATE}'),),
    "arguments": (("agent.py", '"kitchen"]', '"attic"]'),),
    "before_tool: arguments": (("agent.py", "BEFORE = AFTER = None", "BEFORE, AFTER = renames, None"),),
    "before_tool: answer": (("agent.py", "BEFORE = AFTER = None", "BEFORE, AFTER = blocks, None"),),
    "after_tool: answer": (("agent.py", "BEFORE = AFTER = None", "BEFORE, AFTER = None, changes"),),
}
"""What changes after the recording; `TOOLS` has the other values and the other code. Before, a replay must be green."""
HARMLESS = ("prompt", "declaration")
CALLS = ("arguments", "before_tool: arguments")
ANSWERS = ("before_tool: answer", "after_tool: answer")

TABLE = Table(
    name="replay",
    axes={
        "tool": tuple(TOOLS),
        "where": ("the agent", "AgentTool", "sub-agent", "second of a sequence"),
        "change": tuple(CHANGES),
        "version": VERSIONS,
        "setting": tuple(SETTINGS),
    },
    impossible=(
        Impossible(
            where={"tool": ("partial", "cached", "callable"), "version": ("1.18.0", "1.39.1")},
            why="google-adk 1 reads `__code__` of a tool, which only functions and methods have",
        ),
        Impossible(where={"tool": ("function", "lambda"), "change": "other value"}, why="it holds no value"),
        Impossible(
            where={"tool": MCP, "change": ("variable of the module", "patched function")},
            why="its server is another process",
        ),
    ),
    rows=(
        Row(where={"change": "prompt"}, expect="passed"),
        Row(
            where={"tool": MCP, "change": ("constant elsewhere", "helper elsewhere")},
            expect="passed",
            cause="what the script of an MCP server imports is only compared if `depends` names it",
        ),
        Row(where={"change": CALLS, "setting": "miss: live"}, expect="failed"),
        Row(where={"change": CALLS}, expect="tool-not-recorded"),
        Row(where={"change": ANSWERS}, expect="failed"),
        # The maintainer has chosen the old answers, and a notice names the tool.
        Row(where={"setting": "stale: warn"}, expect="passed"),
        Row(where={}, expect="tool-tape-stale"),
    ),
)


def write_form(package: Path, cell: Cell, changed: bool) -> None:
    """Writes the package of a cell's agent."""
    copy("replayed", package)
    server = (package / "server.py").read_text()
    (package / "other_server.py").write_text(server.replace('(sys.argv[1] or os.environ["LAMP"])', '"off"'))
    change = cell["change"] if changed else ""
    now, other_value, other_code = TOOLS[cell["tool"]]
    tool = {"other value": other_value, "other code": other_code}.get(change, now)
    agent = (package / "agent.py").read_text().replace('WHERE = "the agent"', f'WHERE = "{cell["where"]}"')
    (package / "agent.py").write_text(f"{agent}\n\n{BEFORE_CREATE}create({tool}, {now})\n")
    edit(package, CHANGES.get(change, ()))


# Tools that do more than answer.

REFUSED = ("saves", "runs_long", "acts", "confirms")
SAME = ("answers", "in_parallel", "sets_state", "raises")
"""What the tool does that answers a repeated call as the first one on its tape."""
ROOMS = '["hall", "kitchen"]'
EFFECT_CHANGES: Mapping[str, Edits] = {
    "prompt": (("agent.py", '"The lamp is {lamp?}."', '"Look! The lamp is {lamp?}."'),),
    "code": (("tools.py", "if count <= 2", "if count <= 1"),),
    "reads other state": (("agent.py", "{lamp?}", "{light?}"),),
    "one more call": (("agent.py", ROOMS, '["hall", "kitchen", "hall"]'),),
    "another call": (("agent.py", ROOMS, '["hall", "kitchen", "attic"]'),),
}
MISS = {"setting": "miss: live"}
STALE = {"change": "code", "setting": ("error", "miss: live")}

EFFECTS = Table(
    name="replay-effects",
    axes={
        "does": (*SAME, "counts", "random", *REFUSED),
        "where": ("the agent", "AgentTool"),
        "change": tuple(EFFECT_CHANGES),
        "version": VERSIONS,
        "setting": tuple(SETTINGS),
    },
    rows=(
        Row(where={"does": REFUSED}, expect="tool-not-replayable"),
        Row(where=STALE, expect="tool-tape-stale"),
        Row(where={"does": "random", "change": ("prompt", "reads other state"), **MISS}, expect="passed"),
        Row(where={"does": "random", **MISS}, expect="failed"),
        Row(where={"does": "random"}, expect="tool-not-recorded"),
        Row(where={"does": "sets_state", "change": "reads other state"}, expect="failed"),
        Row(where={"change": ("prompt", "reads other state")}, expect="passed"),
        Row(where={"change": "code"}, expect="passed"),  # the maintainer has chosen the old answers
        Row(
            where={"does": SAME, "change": "one more call", "setting": "stale: warn"},
            expect="passed",
            cause="a tool has no memory in a replay: a repeated call gets the answer of the first one",
        ),
        Row(where={"does": SAME, "change": "one more call"}, expect="tool-tape-stale"),  # the state says so
        Row(where={"change": ("one more call", "another call"), **MISS}, expect="failed"),
        Row(where={"change": ("one more call", "another call")}, expect="tool-not-recorded"),
    ),
)


def write_effects(package: Path, cell: Cell, changed: bool) -> None:
    """Writes the package of a cell's agent."""
    copy("effects", package)
    values = (("agent.py", '"answers"\n', f'"{cell["does"]}"\n'), ("agent.py", '"the agent"\n', f'"{cell["where"]}"\n'))
    edit(package, (*values, *(EFFECT_CHANGES[cell["change"]] if changed else ())))


WRITERS = {TABLE.name: write_form, EFFECTS.name: write_effects}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Runs]:
    """The runs of a version of a table, made once for each process of pytest."""
    tables = {table.name: table for table in (TABLE, EFFECTS)}
    return functools.cache(lambda name, version: Runs(tmp_path_factory.mktemp("replay"), tables[name], version))


@pytest.mark.parametrize("cell", TABLE.cells_to_run(shared=("version",)))
def test_replay_crossing__is_not_green_where_a_live_run_is_not(cell: Cell, runs: Callable[[str, str], Runs]) -> None:
    of_version, case = runs(TABLE.name, cell["version"]), key_of(cell)
    assert of_version.recorded[case] == of_version.unchanged[case] == "passed", "the recording says nothing"
    assert (of_version.live[case] == "passed") == (cell["change"] in HARMLESS), "the change changes nothing"
    replayed = of_version.replayed[cell["setting"]][case]
    assert replayed == TABLE.expected(cell)
    is_chosen = cell["setting"] == "stale: warn" or bool(TABLE.row(cell).cause)
    assert replayed != "passed" or of_version.live[case] == "passed" or is_chosen


@pytest.mark.parametrize("cell", EFFECTS.cells_to_run(shared=("version",)))
def test_replay_effects__are_not_green_where_a_live_run_is_not(cell: Cell, runs: Callable[[str, str], Runs]) -> None:
    of_version, case = runs(EFFECTS.name, cell["version"]), key_of(cell)
    unchanged = {"random": "tool-not-recorded", **dict.fromkeys(REFUSED, "tool-not-replayable")}
    assert of_version.unchanged[case] == unchanged.get(cell["does"], "passed")
    live, replayed = of_version.live[case], of_version.replayed[cell["setting"]][case]
    if cell["does"] != "confirms":  # whose turn ends with the question
        is_read = cell["does"] == "sets_state" and cell["change"] == "reads other state"
        assert (live == "passed") == (cell["change"] in {"prompt", "reads other state"} and not is_read)
    assert replayed == EFFECTS.expected(cell)
    is_chosen = cell["setting"] == "stale: warn" and cell["change"] == "code"
    assert replayed != "passed" or live == "passed" or is_chosen or EFFECTS.row(cell).cause
