"""Finds agents in a repository: those named by settings or eval files, and the nearest one to an eval file.

Reads source files without importing them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

from agent_eval_agents.driver import Driver
from agent_eval_agents.registry import DRIVERS, driver_of
from agent_eval_scoring.core.files import open_regular
from agent_eval_scoring.core.problem import Problem, Severity
from agent_eval_scoring.core.selectors import nearby
from agent_eval_scoring.core.text import carriable, plural, without_credentials
from agent_eval_scoring.evalset.models import LoadedFile

_CONTAINERS = ("src", "agents")
"""Directories next to eval files that may contain agents: src layout, and the directory of `adk web agents`."""
_NOT_AGENTS = {"node_modules", "__pycache__", "venv", "env", "site-packages", "build", "dist"}
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
_ROOT_AGENT = re.compile(r"\b(root_agent|get_agent_async)\b")
# Web frameworks use the name `app`, too, so it counts only in files that mention ADK.
_APP = re.compile(r"^\s*(app\s*(:[^=\n]+)?=|from\s.+\simport\s.*\bapp\b)", re.MULTILINE)
_WEB_APP = re.compile(r"^app\b[^\n]*\b(?:FastAPI|Starlette|Flask|get_fast_api_app)\b", re.MULTILINE)
_ADK = re.compile(r"adk\b", re.IGNORECASE)
_PASSED_ON = re.compile(r"^from\s+(\.*)(\w[\w.]*)\s+import\s+(?:\*|\([^)]{0,999}\bapp\b|.*\bapp\b)", re.M)
"""An import of all names of a module, or of its `app`."""
_DEFINED = re.compile(
    r"^(root_agent\s*(:.*)?=|async\s+def\s+get_agent_async\b|app\b[^=\n]*=[^(\n]*\bApp\()", re.MULTILINE
)
_BEYOND = re.compile(r"^\s*from\s+\.\.", re.MULTILINE)
"""A relative import from the package above."""
_OTHER_NAME = re.compile(r"^(\w++)[ \t]*+(?::[^=\n]*+)?=[ \t]*+[\w.]*(?:Agent|App)\(", re.MULTILINE)
"""An agent assigned to a variable. Possessive quantifiers limit the time for long lines."""
_SOURCES = ("agent.py", "__init__.py")
_OTHER_LANGUAGES = {"Go": "go.mod", "Java": "pom.xml", "JavaScript": "package.json", "Rust": "Cargo.toml"}
PROJECT_FILES = ("pyproject.toml", "requirements.txt", "setup.py", "setup.cfg")
"""Files that mark the directory of a Python project."""
_MAX_DIRECTORIES = 20_000
_MOST_ABOVE = 5
_MAX_SOURCE_BYTES = 1_000_000


WHAT_IS_AN_AGENT = """\
An agent has one of these layouts:
    my_agent/agent.py (or __init__.py)   with `root_agent = LlmAgent(...)`
    my_agent/root_agent.yaml
    my_agent.py"""


MANIFEST = "agents-cli-manifest.yaml"
_AGENTS_CLI = re.compile(r"^\[tool\.agents-cli\]", re.MULTILINE)
_AGENT_DIRECTORY = re.compile(r"""^agent_directory\s*[:=]\s*["']?([\w./-]+)""", re.MULTILINE)
"""In the manifest, and in the table of pyproject.toml that projects had before version 0.3."""


@dataclass(frozen=True, kw_only=True)
class AgentChoice:
    """The agent of a file."""

    path: str
    """A directory or a `.py` file (relative to the root with forward slashes, absolute outside of it), a dotted module,
    or a driver's prefix and its source: `recorded:FILE`, `adk:URL`, `server:NAME`."""
    reason: str
    """Why the agent was selected, for messages."""
    sub_agent: str = ""
    """The agent in its tree that is evaluated as the root: the NAME of `DIRECTORY#NAME`; empty for the root agent."""

    @property
    def driver(self) -> Driver:
        """The driver that runs the agent."""
        return driver_of(self.path)

    @property
    def source(self) -> str:
        """The path without the driver's prefix and the sub-agent, e.g. the FILE of `recorded:FILE`."""
        source = self.path.removeprefix(self.driver.prefix)
        return source.removesuffix(f"#{self.sub_agent}") if self.sub_agent else source

    @property
    def runs_here(self) -> bool:
        """Whether the agent's code runs on this machine; see `Driver`."""
        return self.driver.runs_here

    @property
    def in_python(self) -> bool:
        """Whether the agent's code runs in a Python interpreter of ours; see `Driver`."""
        return self.driver.in_python

    def directory(self, root: Path) -> Path | None:
        """The agent's directory; that of a file; None for a dotted module and for an agent that does not run here."""
        path = root / self.source
        if path.suffix == ".py" and path.is_file():
            path = path.parent
        return path if self.in_python and path.is_dir() else None

    def working_directory(self, root: Path, setting: str) -> Path:
        """The working directory of the agent's process.

        Args:
            root: The repository's root, absolute.
            setting: `agent-cwd`: project, root, agent, or a path.

        Returns:
            An absolute path. If the setting is a path, it may not exist.
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
    """Why a file has no agent. Files with equal reasons are reported together."""

    code: str
    directory: str
    candidates: tuple[str, ...] = ()
    what: str = ""
    cases: tuple[str, ...] = field(default=(), compare=False)
    """For each candidate, who names it in the first of these files."""


def _in_cases(eval_ids: Sequence[str], file: LoadedFile) -> str:
    line = file.lines.get(eval_ids[0])
    first = f"case `{plain(eval_ids[0])}`" + (f" in line {line}" if line else "")
    return first + (f" and {plural(len(eval_ids) - 1, 'other')}" if eval_ids[1:] else "")


def sub_agent_in(name: str, root: Path) -> str:
    """The sub-agent of `DIRECTORY#NAME` or `MODULE#NAME`; "" for other names, such as a directory `a#b`."""
    agent, mark, sub_agent = name.rpartition("#")
    in_python = not driver_of(name).prefix
    return sub_agent if mark and agent and in_python and not (root / name).exists() else ""


def project_of(directory: Path, root: Path) -> Path:
    """The project of an agent: the nearest directory above it with one of PROJECT_FILES, else the root.

    `adk eval` runs agents in its working directory, and users start it there. The agent's own directory is excluded,
    because it is a package that Python imports from its parent directory.
    """
    for folder in directory.parents:
        if not folder.is_relative_to(root) or folder == root:
            break
        if any((folder / name).is_file() for name in PROJECT_FILES):
            return folder
    return root


def is_agent(path: Path) -> bool:
    """Whether a directory contains an agent that ADK can load, or a file is one.

    A directory has a root_agent.yaml, or an agent.py or `__init__.py` that mentions `root_agent` or `get_agent_async`,
    or that mentions ADK and defines or imports `app` (not a web framework's), or imports all names of such a file. Or
    its `agent` is such a package, which then is no agent itself.
    """
    with contextlib.suppress(PermissionError):
        if (path / "root_agent.yaml").is_file():
            return True
    if path.suffix == ".py" and path.is_file():
        return bool(_DEFINED.search(_source_of(path)))
    if path.name == "agent" and _owns_agent(path.parent):
        return False
    return _is_source(path) or _owns_agent(path)


def _is_source(directory: Path) -> bool:
    return any(_mentions_agent(directory / name) for name in _SOURCES)


def _owns_agent(directory: Path) -> bool:
    """Whether a directory is a package whose `agent` is a package with the agent, and not only contains it."""
    inner = directory / "agent"
    if not _mentions_agent(inner / "__init__.py") or (directory / ".git").exists():
        return False
    return (directory / "__init__.py").is_file() or any(_BEYOND.search(_source_of(path)) for path in inner.glob("*.py"))


def _source_of(path: Path) -> str:
    """The start of a source file; "" if it can't be read."""
    try:
        with open_regular(path) as file:
            return file.read(_MAX_SOURCE_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _mentions_agent(source: Path, depth: int = 3) -> bool:
    text = _source_of(source)
    if _ROOT_AGENT.search(text):
        return True
    passed_on: list[Path] = []
    # Modules may import each other.
    for dots, module in _PASSED_ON.findall(text) if depth else ():
        # An absolute import begins where ADK puts the directory of the package on the path, or at a package above it.
        folders = list(source.parents)[len(dots) - 1 : len(dots)] if dots else list(source.parents)[1:_MOST_ABOVE]
        for path in (folder.joinpath(*module.split(".")) for folder in folders):
            passed_on += (path.with_name(f"{path.name}.py"), path / "__init__.py")
    # `adk api_server` apps have `app = get_fast_api_app(...)`, which is no agent but serves some.
    if any(_WEB_APP.search(each) for each in (text, *map(_source_of, passed_on))):
        return False
    return bool(_ADK.search(text) and _APP.search(text)) or any(_mentions_agent(file, depth - 1) for file in passed_on)


@dataclass(frozen=True, kw_only=True)
class Finder:
    """Searches the repository and caches its findings."""

    root: Path
    without_agent: list[Path] = field(default_factory=list)
    """Files named agent.py that define no agent. Filled by `everywhere`."""
    _is_agent: dict[Path, bool] = field(default_factory=dict)
    _agents_in: dict[Path, tuple[Path, ...]] = field(default_factory=dict)

    def is_agent(self, directory: Path) -> bool:
        if directory not in self._is_agent:
            self._is_agent[directory] = is_agent(directory)
        return self._is_agent[directory]

    def label(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else str(path)

    @cached_property
    def everywhere(self) -> tuple[Path, ...]:
        """All agents of the repository, without those inside another agent: directories, else single files."""
        agents: list[Path] = []
        files: list[Path] = []
        for count, (name, folders, names) in enumerate(os.walk(self.root)):
            folder = Path(name)
            # A virtual environment of any name has agents of installed packages.
            if count > _MAX_DIRECTORIES or "pyvenv.cfg" in names:
                folders.clear()
                continue
            folders[:] = sorted(name for name in folders if name not in _NOT_AGENTS and not name.startswith("."))
            if self.is_agent(folder):
                agents.append(folder)
                folders.clear()
            elif "agent.py" in names:
                self.without_agent.append(folder / "agent.py")
            if "__init__.py" not in names:
                files += [folder / name for name in sorted(names) if name.endswith(".py") and name not in _SOURCES]
        # Tests often define an agent of their own.
        single = (path for path in files if not path.name.startswith("test_") and self.is_agent(path))
        return tuple(agents or single)

    def named(self, name: str, who: str, file: str | None) -> tuple[str | None, Problem | None]:
        """The agent that `who` names, or the problem with the name."""
        if (wrong := self._other_thing(name, who)) is not None:
            return None, dataclasses.replace(wrong, file=file)
        driver = driver_of(name)
        if driver.prefix:
            problem = driver.refuse(name.removeprefix(driver.prefix), self.root, who)
            return (name, None) if problem is None else (None, dataclasses.replace(problem, file=file))
        if sub_agent := sub_agent_in(name, self.root):
            agent, problem = self.named(name.removesuffix(f"#{sub_agent}"), who, file)
            return (None, problem) if agent is None else (f"{agent}#{sub_agent}", None)
        path = (self.root / name).resolve()
        source = path if path.is_file() else path.parent / f"{path.name}.py"
        is_file = path != self.root and source.suffix == ".py" and source.name not in _SOURCES
        if not self.is_agent(source):
            is_file = is_file and not self.is_agent(source.parent) and _mentions_agent(source)
        if is_file and not (path.is_dir() and self.is_agent(path)):
            return self._module_or_file(source), None
        path = path.parent if path.is_file() else path
        # ADK would import it as a top-level package, where its relative imports fail.
        if path.name == "agent" and _owns_agent(path.parent) and not _is_source(path.parent):
            path = path.parent
        if path.is_dir():
            inner = path != self.root and _mentions_agent(path / "agent" / "__init__.py")
            if inner or self.is_agent(path) or _is_source(path):
                return self.label(path), None
            inside = self._children(path)
            message = f"{who} names {name}, which contains no agent: {self._missing_files(path)}"
            suggestions = [self.label(agent) for agent in inside] or self._similar(name)
        elif _MODULE.fullmatch(name) and not name.endswith(".py"):
            return name, None
        else:
            message = f"{who} names {name}, which is neither a directory, a file nor a dotted module"
            suggestions = self._similar(name)
            if (near := Path.cwd() / name).exists() and near.resolve().is_relative_to(self.root):
                message += f" of {self.root}, which paths are relative to"
                suggestions = [self.label(near.resolve())]
            elif name.startswith("."):
                message += f" of {self.root}, which paths are relative to"
        hint = WHAT_IS_AN_AGENT
        if (module := name.partition(":")[0]) != name and self.named(module, who, file)[0] is not None:
            hint = f"Write it without `{name.removeprefix(module)}`: `{module}`."
        elif suggestions:
            hint = f"Did you mean {' or '.join(suggestions[:5])}?"
        return None, Problem(code="agent-not-found", message=message, hint=hint, file=file)

    def _other_thing(self, name: str, who: str) -> Problem | None:
        """The problem with an address without its protocol, and with a file of answers or cases."""
        if name.startswith(("http://", "https://")):
            address = plain(without_credentials(name))
            message = f"{who} names the address {address}, but not its protocol"
            hint = f"Write `adk:{address}` for ADK's REST interface (`adk api_server`), or `a2a:{address}` for A2A."
            return Problem(code="remote-agent-url", message=message, hint=hint)
        if driver_of(name).prefix == "" and (other := re.match(r"([\w.+-]+:)(https?://.*)", name)) is not None:
            address = plain(without_credentials(other[2]))
            message = f"{who} names the address {address} with the unknown protocol `{plain(other[1])}`"
            hint = f"Write `adk:{address}` for ADK's REST interface (`adk api_server`), or `a2a:{address}` for A2A."
            return Problem(code="remote-agent-url", message=message, hint=hint)
        prefix, colon, rest = name.partition(":")
        if colon and driver_of(name).prefix == "" and not (self.root / prefix).exists():
            near = nearby(prefix, [driver.prefix.removesuffix(":") for driver in DRIVERS if driver.prefix], 1, 0.7)
            if near or (rest.endswith((".json", ".jsonl")) and (self.root / rest).is_file()):
                message = f"{who} names {plain(name)}, but there are no agents with `{plain(prefix)}:`"
                hint = f"Did you mean `{near[0] if near else 'recorded'}:{plain(rest)}`?"
                return Problem(code="agent-not-found", message=message, hint=hint)
        if name.endswith(".json") and (self.root / name).is_file():
            message = f"{who} names {plain(name)}, which is a file of JSON, not an agent"
            hint = f"An eval file goes without `--agent`: `agent-eval run {plain(name)}`. Recorded answers: "
            return Problem(code="agent-not-found", message=message, hint=f"{hint}`recorded:{plain(name)}`.")
        return None

    def _module_or_file(self, file: Path) -> str:
        """A file in a package as a dotted module, so that it can import what is beside it; else its path."""
        # Imported by its path, the module would have no package, and relative imports would fail.
        top = next(folder for folder in file.parents if not (folder / "__init__.py").is_file())
        if file.parent == top or top not in {self.root, self.root / "src"}:
            return self.label(file)
        return ".".join(file.relative_to(top).with_suffix("").parts)

    def _missing_files(self, directory: Path) -> str:
        """Why the files of a directory are not an agent."""
        sources = [directory / name for name in _SOURCES if (directory / name).is_file()]
        if not sources:
            return f"it has neither {' nor '.join(_SOURCES)}, and no root_agent.yaml"
        return "; ".join(map(self.lacking, sources))

    def lacking(self, source: Path) -> str:
        """A message that a source file defines no `root_agent`, with the name of an agent that it does define."""
        label = plain(self.label(source))
        text = _source_of(source)
        other = _OTHER_NAME.search(text)
        if other is None:
            return f"{label} defines no `root_agent`"
        line = text.count("\n", 0, other.start()) + 1
        return f"{label}:{line} names its agent `{other[1]}`: rename it to `root_agent`"

    def in_other_modules(self) -> list[str]:
        """Files of packages, other than those that ADK reads, that define an agent."""
        files = sorted(self.root.glob("*/*.py"))
        return [self.label(path) for path in files if path.name not in _SOURCES and _DEFINED.search(_source_of(path))]

    def why_none(self) -> Iterator[str]:
        """Clauses about why the repository has no agent in Python, once `everywhere` is known to be empty."""
        yield from (self.lacking(source) for source in self.without_agent[:3])
        for name in self.in_other_modules()[:1]:
            yield f"{name} defines one, but ADK reads agent.py: rename it, or set `--agent {name}`"
        for language, file in _OTHER_LANGUAGES.items():
            if _ADK.search(_source_of(self.root / file)):
                yield f"{file} looks like an agent in {language}: start its server, and set `--agent adk:URL`"

    def _similar(self, name: str) -> list[str]:
        labels = {self.label(agent): agent.name for agent in self.everywhere}
        last = PurePosixPath(name).name
        close = difflib.get_close_matches(last, labels.values(), n=5, cutoff=0.6)
        return [label for label, folder in labels.items() if folder in close] or list(labels)[:5]

    def agent_of(self, file: LoadedFile) -> AgentChoice | NoChoice:
        """The agent of a file by app name, else the nearest one."""
        directory = (self.root / file.path).parent
        # The app's name of a dataset's cases is that of every project of agents-cli.
        of_dataset = any(case.dataset_case is not None for case in file.cases)
        by_name = None if of_dataset else self._by_app_name(file, directory)
        return by_name or self._by_manifest(directory) or self._nearest(directory)

    def _by_manifest(self, directory: Path) -> AgentChoice | None:
        """The agent that the nearest manifest of agents-cli names."""
        for folder in self._upwards(directory):
            text = _source_of(folder / MANIFEST)
            if text or _AGENTS_CLI.search(_source_of(folder / "pyproject.toml")):
                named = _AGENT_DIRECTORY.search(text or _source_of(folder / "pyproject.toml"))
                agent = folder / (named[1] if named else "app")
                if self.is_agent(agent):
                    return AgentChoice(path=self.label(agent), reason="agent_directory of the agents-cli project")
                return None
        return None

    def manifest_problems(self, files: Iterable[str]) -> Iterator[Problem]:
        """A warning for each manifest above the files whose `agent_directory` is no agent, so that it selects none."""
        checked: set[Path] = set()
        for file in files:
            folders = self._upwards((self.root / file).parent)
            folder = next((folder for folder in folders if (folder / MANIFEST).is_file()), None)
            if folder is None or folder in checked:
                continue
            checked.add(folder)
            text = _source_of(folder / MANIFEST)
            line = next((n for n, row in enumerate(text.split("\n"), 1) if row.startswith("agent_directory")), None)
            named = _AGENT_DIRECTORY.search(text)
            if line is None or (named and self.is_agent(folder / named[1])):
                continue
            message, hint = "`agent_directory` can't be read.", "Write it on one line, e.g. `agent_directory: app`."
            if named:
                agent = folder / named[1]
                what = f"contains no agent: {self._missing_files(agent)}" if agent.is_dir() else "does not exist"
                message = f"`agent_directory` is `{plain(named[1])}`, which {what}."
                below = [agent.relative_to(folder) for agent in self.everywhere if agent.is_relative_to(folder)]
                names = " or ".join(f"`agent_directory: {plain(path.as_posix())}`" for path in below[:3])
                hint = f"Write {names}." if below else "Name the directory of the agent."
            yield Problem(
                severity=Severity.WARNING,
                code="agent-directory-missing",
                message=f"{message} The agent of the eval files is selected without it.",
                hint=hint,
                file=self.label(folder / MANIFEST),
                line=line,
            )

    def _by_app_name(self, file: LoadedFile, directory: Path) -> AgentChoice | NoChoice | None:
        names: dict[str, list[str]] = {}
        for case in file.cases:
            if case.session_input is not None:
                names.setdefault(case.session_input.app_name, []).append(case.eval_id)
        matches: dict[Path, str] = {}
        for name in sorted(names):
            # The name comes from an eval file, and is joined with paths.
            if name in {"", ".", ".."} or "/" in name or "\\" in name or "\0" in name:
                continue
            for agent in self._with_name(name, directory):
                matches[agent] = name
        if not matches:
            return None
        if len(matches) == 1:
            [(agent, name)] = matches.items()
            return AgentChoice(path=self.label(agent), reason=f"session_input.app_name `{plain(name)}` names it")
        return NoChoice(
            code="agent-ambiguous",
            directory=self.label(directory),
            candidates=tuple(self.label(agent) for agent in matches),
            what="session_input.app_name names",
            # Of one name, no case is wrong.
            cases=tuple(_in_cases(names[name], file) for name in matches.values())
            if len({*matches.values()}) > 1
            else (),
        )

    def _with_name(self, name: str, directory: Path) -> Sequence[Path]:
        """The agent directories with a name: the nearest one above the file, else all in the repository."""
        for folder in self._upwards(directory):
            for candidate in (folder, *self._children(folder)):
                if candidate.name == name and candidate != self.root and self.is_agent(candidate):
                    return [candidate]
        return [agent for agent in self.everywhere if agent.name in {name, f"{name}.py"}]

    def nearest_to(self, directory: str) -> list[str]:
        """The agent that a directory's eval files would have without a name; none if there is not exactly one."""
        choice = self._nearest(self.root / directory)
        return [choice.path] if isinstance(choice, AgentChoice) else []

    def _nearest(self, directory: Path) -> AgentChoice | NoChoice:
        for folder in self._upwards(directory):
            if self.is_agent(folder):
                return AgentChoice(path=self.label(folder), reason="the eval file is inside this agent's directory")
            agents = self._children(folder)
            if len(agents) == 1:
                place = self.label(folder)
                return AgentChoice(
                    path=self.label(agents[0]), reason=f"the only agent in {'the root' if place == '.' else place}"
                )
            if agents:
                return NoChoice(
                    code="agent-ambiguous",
                    directory=self.label(directory),
                    candidates=tuple(self.label(agent) for agent in agents),
                    what=f"in {'the root' if folder == self.root else self.label(folder)} there are",
                )
        if len(self.everywhere) == 1:
            return AgentChoice(path=self.label(self.everywhere[0]), reason="the only agent in the repository")
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
        """The agents directly in a folder and in its `src` and `agents`, cached."""
        if folder not in self._agents_in:
            self._agents_in[folder] = tuple(self._list_children(folder))
        return self._agents_in[folder]

    def _list_children(self, folder: Path) -> Iterator[Path]:
        for container in (folder, *(folder / name for name in _CONTAINERS)):
            try:
                # Unlike DirEntry.is_dir(), Path.is_dir() returns False for links to themselves.
                names = sorted(path.name for path in container.iterdir() if path.is_dir())
            except OSError:
                continue
            for name in names:
                if not name.startswith(".") and name not in _NOT_AGENTS and self.is_agent(container / name):
                    yield container / name


def find_agents(root: Path) -> tuple[list[str], list[str]]:
    """The agents of a repository; if there are none, why.

    Args:
        root: The repository.

    Returns:
        Directories relative to the root, without agents inside of another one; and clauses.
    """
    finder = Finder(root=root.resolve())
    agents = [finder.label(agent) for agent in finder.everywhere]
    return agents, [] if agents else list(finder.why_none())


def plain(text: str) -> str:
    """The text on one line without control characters."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in carriable(text))
