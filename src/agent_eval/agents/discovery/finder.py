"""Looks for agents in a repository: those that somebody named, and the one nearest to an eval file.

Reads source text; imports nothing of the agent.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

from agent_eval.agents.driver import Driver
from agent_eval.agents.registry import driver_of
from agent_eval.core.files import open_regular
from agent_eval.core.problem import Problem, Severity
from agent_eval.core.text import carriable
from agent_eval.evalset.models import LoadedFile

_CONTAINERS = ("src", "agents")
"""Directories beside the eval files whose children are looked at too: src layout, and what `adk web agents` shows."""
_NOT_AGENTS = {"node_modules", "__pycache__", "venv", "env", "site-packages", "build", "dist"}
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
_ROOT_AGENT = re.compile(r"\b(root_agent|get_agent_async)\b")
# `app` is also what web frameworks call theirs, so it counts only in a file that has to do with ADK.
_APP = re.compile(r"^\s*(app\s*(:[^=\n]+)?=|from\s.+\simport\s.*\bapp\b)", re.MULTILINE)
_ADK = re.compile(r"adk\b", re.IGNORECASE)
_OTHER_NAME = re.compile(r"^(\w++)[ \t]*+(?::[^=\n]*+)?=[ \t]*+[\w.]*(?:Agent|App)\(", re.MULTILINE)
"""An agent that is assigned to a variable. Possessive: a line of a million letters must not take forever."""
_SOURCES = ("agent.py", "__init__.py")
PROJECT_FILES = ("pyproject.toml", "requirements.txt", "setup.py", "setup.cfg")
"""What the directory of a Python project has."""
_MAX_DIRECTORIES = 20_000
_MAX_SOURCE_BYTES = 1_000_000


WHAT_IS_AN_AGENT = """\
An agent is a directory in one of these two layouts:
    my_agent/agent.py (or __init__.py)   with `root_agent = LlmAgent(...)`
    my_agent/root_agent.yaml"""


@dataclass(frozen=True, kw_only=True)
class AgentChoice:
    """The agent of a file."""

    path: str
    """A directory (relative to the root with forward slashes, absolute outside of it), a dotted module, or
    `recorded:FILE`."""
    reason: str
    """Why this one, for people."""

    @property
    def driver(self) -> Driver:
        """The driver that runs the agent."""
        return driver_of(self.path)

    @property
    def source(self) -> str:
        """The path without the driver's prefix, e.g. the FILE of `recorded:FILE`."""
        return self.path.removeprefix(self.driver.prefix)

    @property
    def runs_here(self) -> bool:
        """Whether the agent's code runs on this machine; see `Driver`."""
        return self.driver.runs_here

    def directory(self, root: Path) -> Path | None:
        """The agent's directory; None for a dotted module and for an agent that does not run here."""
        path = root / self.path
        return path if self.runs_here and path.is_dir() else None

    def working_directory(self, root: Path, setting: str) -> Path:
        """Where the agent's process starts.

        Args:
            root: The repository's root, absolute.
            setting: `agent-cwd`: project, root, agent, or a path.

        Returns:
            An absolute path; that of a setting may not exist.
        """
        directory = self.directory(root)
        if setting not in {"project", "root", "agent"}:
            return root / setting
        if setting == "root" or directory is None:
            return root
        directory = directory.resolve()
        return directory if setting == "agent" else project_of(directory, root)


@dataclass(frozen=True, kw_only=True)
class NoChoice:
    """Why a file has no agent; files that fail alike are told of together."""

    code: str
    directory: str
    candidates: tuple[str, ...] = ()
    what: str = ""


def project_of(directory: Path, root: Path) -> Path:
    """The project that an agent is a part of: the nearest directory above it with one of PROJECT_FILES, else the root.

    `adk eval` keeps the directory in which it is called, and people call it there. The agent's own directory doesn't
    count: it is a package, which Python imports from outside of it.
    """
    for folder in directory.parents:
        if not folder.is_relative_to(root) or folder == root:
            break
        if any((folder / name).is_file() for name in PROJECT_FILES):
            return folder
    return root


def is_agent(directory: Path) -> bool:
    """Whether a directory holds an agent that ADK could load.

    It has a root_agent.yaml; or an agent.py or `__init__.py` that mentions `root_agent` or `get_agent_async`, or that
    has to do with ADK and defines or imports `app`.
    """
    with contextlib.suppress(PermissionError):
        if (directory / "root_agent.yaml").is_file():
            return True
    return any(_mentions_agent(directory / name) for name in _SOURCES)


def _source_of(path: Path) -> str:
    """The text of a source file as far as it is looked at; "" if it can't be read."""
    try:
        with open_regular(path) as file:
            return file.read(_MAX_SOURCE_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _mentions_agent(source: Path) -> bool:
    text = _source_of(source)
    return bool(_ROOT_AGENT.search(text) or (_ADK.search(text) and _APP.search(text)))


@dataclass(frozen=True, kw_only=True)
class Finder:
    """Looks around in the repository; remembers what it saw."""

    root: Path
    without: list[Path] = field(default_factory=list)
    """Files called agent.py that define no agent; known once `everywhere` is."""
    _seen: dict[Path, bool] = field(default_factory=dict)
    _inside: dict[Path, tuple[Path, ...]] = field(default_factory=dict)

    def is_agent(self, directory: Path) -> bool:
        known = self._seen.get(directory)
        if known is None:
            known = self._seen[directory] = is_agent(directory)
        return known

    def label(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else str(path)

    @cached_property
    def everywhere(self) -> tuple[Path, ...]:
        """All agents of the repository; those inside another one are its parts."""
        found: list[Path] = []
        for seen, (folder, folders, files) in enumerate(os.walk(self.root)):
            if seen > _MAX_DIRECTORIES or "pyvenv.cfg" in files:
                folders.clear()
                continue
            folders[:] = sorted(name for name in folders if name not in _NOT_AGENTS and not name.startswith("."))
            if self.is_agent(Path(folder)):
                found.append(Path(folder))
                folders.clear()
            elif "agent.py" in files:
                self.without.append(Path(folder, "agent.py"))
        return tuple(found)

    def named(self, name: str, who: str, file: str | None) -> tuple[str | None, Problem | None]:
        """The agent that somebody named, or what is wrong with the name."""
        driver = driver_of(name)
        if driver.prefix:
            problem = driver.refuse(name.removeprefix(driver.prefix), self.root, who)
            return (name, None) if problem is None else (None, dataclasses.replace(problem, file=file))
        path = (self.root / name).resolve()
        if path.is_file():
            path = path.parent
        if path.is_dir():
            if self.is_agent(path):
                return self.label(path), None
            inside = self._children(path)
            message = f"{who} names {name}, which holds no agent: {self._what_is_there(path)}"
            known = [self.label(agent) for agent in inside] or self._similar(name)
        elif _MODULE.fullmatch(name):
            return name, None
        else:
            message = f"{who} names {name}, which is neither a directory nor a dotted module"
            known = self._similar(name)
        hint = WHAT_IS_AN_AGENT
        if known:
            hint = f"Did you mean {' or '.join(known[:5])}?\n{hint}"
        return None, Problem(severity=Severity.ERROR, code="agent-not-found", message=message, hint=hint, file=file)

    def _what_is_there(self, directory: Path) -> str:
        """Which files were looked at, and what they lack."""
        there = [directory / name for name in _SOURCES if (directory / name).is_file()]
        if not there:
            return f"it has neither {' nor '.join(_SOURCES)}, and no root_agent.yaml"
        return "; ".join(map(self.lacking, there))

    def lacking(self, source: Path) -> str:
        """Says of a source file that it defines no agent that ADK finds, and which agent it has under another name."""
        label = plain(self.label(source))
        other = _OTHER_NAME.search(_source_of(source))
        return f"{label} defines no `root_agent`" + (f" (its agent is called `{other[1]}`)" if other else "")

    def _similar(self, name: str) -> list[str]:
        labels = {self.label(agent): agent.name for agent in self.everywhere}
        last = PurePosixPath(name).name
        close = difflib.get_close_matches(last, labels.values(), n=5, cutoff=0.6)
        return [label for label, folder in labels.items() if folder in close] or list(labels)[:5]

    def agent_of(self, file: LoadedFile) -> AgentChoice | NoChoice:
        """By app name, else the nearest."""
        directory = (self.root / file.path).parent
        by_name = self._by_app_name(file, directory)
        return by_name if by_name is not None else self._nearest(directory)

    def _by_app_name(self, file: LoadedFile, directory: Path) -> AgentChoice | NoChoice | None:
        names = {case.case.session_input.app_name for case in file.cases if case.case.session_input is not None}
        found: dict[Path, str] = {}
        for name in sorted(names):
            if name in {"", ".", ".."} or "/" in name or "\\" in name or "\0" in name:
                continue
            for agent in self._called(name, directory):
                found[agent] = name
        if not found:
            return None
        if len(found) == 1:
            [(agent, name)] = found.items()
            return AgentChoice(path=self.label(agent), reason=f"session_input.app_name `{plain(name)}` names it")
        return NoChoice(
            code="agent-ambiguous",
            directory=self.label(directory),
            candidates=tuple(self.label(agent) for agent in found),
            what="session_input.app_name names",
        )

    def _called(self, name: str, directory: Path) -> Sequence[Path]:
        """The agent directories of a name: the nearest one on the way up, else all of the repository."""
        for folder in self._upwards(directory):
            for candidate in (folder, *self._children(folder)):
                if candidate.name == name and candidate != self.root and self.is_agent(candidate):
                    return [candidate]
        return [agent for agent in self.everywhere if agent.name == name]

    def _nearest(self, directory: Path) -> AgentChoice | NoChoice:
        for folder in self._upwards(directory):
            if self.is_agent(folder):
                return AgentChoice(path=self.label(folder), reason="the eval file lies in it")
            beside = self._children(folder)
            if len(beside) == 1:
                where = self.label(folder)
                return AgentChoice(
                    path=self.label(beside[0]),
                    reason=f"the only agent in {'the root' if where == '.' else where}",
                )
            if beside:
                return NoChoice(
                    code="agent-ambiguous",
                    directory=self.label(directory),
                    candidates=tuple(self.label(agent) for agent in beside),
                    what=f"in {'the root' if folder == self.root else self.label(folder)} there are",
                )
        if len(self.everywhere) == 1:
            return AgentChoice(path=self.label(self.everywhere[0]), reason="the only agent of the repository")
        return NoChoice(
            code="agent-not-found",
            directory=self.label(directory),
            candidates=tuple(self.label(agent) for agent in self.everywhere),
        )

    def _upwards(self, directory: Path) -> Iterator[Path]:
        for folder in (directory, *directory.parents):
            yield folder
            if folder == self.root:
                return

    def _children(self, folder: Path) -> tuple[Path, ...]:
        """The agents directly in a folder, and in its `src` and `agents`; looked for once."""
        if folder not in self._inside:
            self._inside[folder] = tuple(self._list_children(folder))
        return self._inside[folder]

    def _list_children(self, folder: Path) -> Iterator[Path]:
        for container in (folder, *(folder / name for name in _CONTAINERS)):
            try:
                # Unlike DirEntry's, this is_dir() has an answer for links that lead to themselves.
                names = sorted(path.name for path in container.iterdir() if path.is_dir())
            except OSError:
                continue
            for name in names:
                if not name.startswith(".") and name not in _NOT_AGENTS and self.is_agent(container / name):
                    yield container / name


def plain(text: str) -> str:
    """One line without control characters."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in carriable(text))
