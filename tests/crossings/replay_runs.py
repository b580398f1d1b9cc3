"""Records the tools of many agents, changes the agents, and runs them live and in replays: one run for all cells."""

from __future__ import annotations

import functools
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import host_forks
import pytest
from adk_envs import FIXTURES, REFERENCE, adk_python, packages_python
from crossing_table import Cell, Table
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

    @classmethod
    def of_version(
        cls, table: Table, directories: pytest.TempPathFactory, write: Callable[[Path, Cell, bool], None]
    ) -> Callable[[str], Runs]:
        """Makes the runs of each version of a table once for each process of pytest."""
        cells: list[Cell] = [parameter.values[0] for parameter in table.cells_to_run(shared=("version",))]
        return functools.cache(lambda version: cls(directories.mktemp("replay"), version, cells, write))

    def __init__(
        self, root: Path, version: str, cells: Sequence[Cell], write: Callable[[Path, Cell, bool], None]
    ) -> None:
        """Records all cells, replays them unchanged, and runs them changed.

        Args:
            root: An empty directory.
            version: The version of google-adk.
            cells: Those of other versions are left out.
            write: Writes the package of a cell's agent, changed or not.
        """
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
