"""Which agents a pull request can affect, for `only-affected`.

A changed file affects every agent, unless it clearly belongs to others only:

- A file in the directory of one or more agents affects these, and all agents whose own files lead there: they mention
  the directory by name (imports, sub-agents) or a module outside that does, link to it, or are in a directory below.
- A file that the settings give to every agent (`config`, `agent-requirements`, `depends` of tools) affects all.
- An eval file, and a tape beside it, affects its own agent.
- A `test_config.json` or `eval_config.json` affects the agents of the eval files in and below its directory.
- `README`, `CHANGELOG`, `LICENSE`, `CONTRIBUTING`, `CODEOWNERS` and `.gitignore` outside of them affect none.

So shared code, dependencies at the root, workflows and `agent-eval.toml` affect all agents. An agent that does not run
here, or has no directory, is always affected: what it depends on is unknown.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from agent_eval.baseline.git import Git
from agent_eval.core.patterns import PathPatterns
from agent_eval.core.text import listed, plural

if TYPE_CHECKING:
    from agent_eval.agents.discovery import AgentChoices
    from agent_eval.evalset.models import Suite
    from agent_eval.pipeline.ci_context import CIContext
    from agent_eval.results import UnaffectedReport
    from agent_eval.settings import Settings

_CONFIGS = frozenset({"test_config.json", "eval_config.json"})
_ABOUT = re.compile(
    r"(README|CHANGELOG|LICENSE|CONTRIBUTING|CODEOWNERS)(\.(md|txt|rst|adoc))?|\.gitignore", re.IGNORECASE
)
_MODULES = frozenset({".py", ".yaml", ".yml"})
"""Files outside of agents through which an agent may reach another one."""
_NOT_SEARCHED = frozenset({"__pycache__", "node_modules"})
_LARGEST = 1_000_000
"""Bytes of a file that is searched for other agents' names."""


@dataclass(frozen=True, kw_only=True)
class Affected:
    """What is left of a run with `only-affected`."""

    settings: Settings
    """Excludes the eval files of unaffected agents."""
    unaffected: tuple[UnaffectedReport, ...] = ()
    nothing_left: bool = False
    """No agent is affected."""
    notice: str = ""
    """For the report; "" without `only-affected`."""


def limit_to_affected(settings: Settings, ci: CIContext, suite: Suite, choices: AgentChoices) -> Affected:
    """Leaves out the eval files whose agents the pull request can't affect.

    Everything runs outside of pull requests, if the eval files have errors, and if the changed files are unknown.
    """
    everything = Affected(settings=settings)
    if not settings.only_affected or ci.activity.kind != "compare" or suite.errors or choices.problems:
        return everything
    changed = _changed(settings.root, ci)
    if changed is None:
        return dataclasses.replace(everything, notice="Everything ran: the changed files are unknown (`only-affected`)")
    agents = {file: choice.path for file, choice in choices.by_file.items()}
    directories = {
        choice.path: _relative(directory, settings.root)
        for choice in choices.by_file.values()
        if (directory := choice.directory(settings.root)) is not None
    }
    configs: dict[str, list[Path]] = {}
    for file in suite.files:
        if file.config.source is not None and file.path in agents:
            configs.setdefault(agents[file.path], []).append(settings.root / file.config.source)
    affected = set(agents.values())
    if not _concerns_all(settings, changed):
        affected = affected_agents(changed, agents, directories, _mentions(settings.root, directories, configs))
    left_out = [file for file in suite.files if agents.get(file.path, "") in set(agents.values()) - affected]
    if not left_out:
        return dataclasses.replace(
            everything, notice="Everything ran: this pull request can affect every agent (`only-affected`)"
        )
    from agent_eval.results import UnaffectedReport

    unaffected = tuple(
        UnaffectedReport(file=file.path, agent=agents[file.path], cases=len(file.cases)) for file in left_out
    )
    names = sorted({item.agent for item in unaffected})
    cases = sum(item.cases for item in unaffected)
    return Affected(
        settings=dataclasses.replace(
            settings, exclude=(*settings.exclude, *(_pattern(item.file) for item in unaffected))
        ),
        unaffected=unaffected,
        nothing_left=len(left_out) == len(suite.files),
        notice=f"Not affected by this pull request and not run: {plural(cases, 'case')} of {listed(names, 5)}",
    )


def affected_agents(
    changed: Iterable[str],
    agents: Mapping[str, str],
    directories: Mapping[str, PurePosixPath | None],
    mentions: Mapping[str, frozenset[str]],
) -> set[str]:
    """The agents that changed files can affect. Pure.

    Args:
        changed: Paths relative to the root.
        agents: The agent of each eval file.
        directories: The directory of each agent relative to the root; None or missing if it has none below the root.
        mentions: For each agent the others that its files lead to.
    """
    from agent_eval.agents.tapes import folder_of

    everyone = set(agents.values())
    tapes = {folder_of(file): agent for file, agent in agents.items()}
    affected = {agent for agent in everyone if directories.get(agent) is None}
    for path in map(PurePosixPath, changed):
        if path.as_posix() in agents:
            affected.add(agents[path.as_posix()])
            continue
        if path.parent.as_posix() in tapes:
            affected.add(tapes[path.parent.as_posix()])
            continue
        owners = {
            agent
            for agent, directory in directories.items()
            if directory is not None and path.is_relative_to(directory)
        }
        if path.name in _CONFIGS:
            owners |= {agent for file, agent in agents.items() if PurePosixPath(file).is_relative_to(path.parent)}
        if owners:
            affected |= owners
        elif not _ABOUT.fullmatch(path.name):
            return everyone
    while more := {agent for agent in everyone - affected if mentions.get(agent, frozenset()) & affected}:
        affected |= more
    return affected


def _changed(root: Path, ci: CIContext) -> list[str] | None:
    """Changed paths relative to the root; those outside of it with `..`. None if they are unknown."""
    changed, git = ci.changed_files(), ci.git
    if changed is None or not isinstance(git, Git):
        return None
    return [Path(os.path.relpath(git.top / path, root.resolve())).as_posix() for path in changed]


def _relative(directory: Path, root: Path) -> PurePosixPath | None:
    resolved, top = directory.resolve(), root.resolve()
    # An agent at the root, or outside of it, could depend on anything.
    return PurePosixPath(resolved.relative_to(top).as_posix()) if top in resolved.parents else None


def _concerns_all(settings: Settings, changed: Iterable[str]) -> bool:
    """Whether a file changed that the settings give to every agent, wherever it is."""
    named = {settings.config, settings.initial_session, settings.agent_requirements} - {None}
    files = {Path(os.path.relpath(settings.root / str(path), settings.root)).as_posix() for path in named}
    rules = settings.tool_rules if settings.tools != "live" else ()
    depends = PathPatterns([pattern for rule in rules for pattern in rule.depends or ()])
    setup = settings.agent_setup or ""
    return any(path in files or path in setup or depends.match(path) for path in changed)


def _mentions(
    root: Path, directories: Mapping[str, PurePosixPath | None], configs: Mapping[str, Collection[Path]]
) -> dict[str, frozenset[str]]:
    """For each agent the others that its files lead to.

    Args:
        root: The repository.
        directories: As for `affected_agents`.
        configs: For each agent the configs of its eval files, which name custom metrics.
    """
    top = root.resolve()
    inside = {agent: top / directory for agent, directory in directories.items() if directory is not None}
    if len(inside) < 2:
        return {}
    leads: dict[str, set[str]] = {}  # the agents that a name leads to
    for agent, directory in inside.items():
        leads.setdefault(directory.name, set()).add(agent)
    between = [path for path in _files(top, skip=inside.values()) if path.suffix in _MODULES]
    more = True
    while more:
        more = False
        for path in between:
            name = path.parent.name if path.stem == "__init__" else path.stem
            reached = _reached([path], leads, inside)
            if not reached <= leads.get(name, set()):
                leads.setdefault(name, set()).update(reached)
                more = True
    mentions = {}
    for agent, directory in inside.items():
        reached = _reached([*_files(directory), *configs.get(agent, ())], leads, inside)
        reached |= {other for other, outer in inside.items() if outer in directory.parents}
        mentions[agent] = frozenset(reached - {agent})
    return mentions


def _reached(paths: Iterable[Path], leads: Mapping[str, set[str]], inside: Mapping[str, Path]) -> set[str]:
    """The agents that files lead to: by a name in their text, or as symbolic links."""
    # The longest name first: `b-old` is not `b`.
    names = sorted(leads, key=len, reverse=True)
    pattern = re.compile(rb"(?<![A-Za-z0-9_])(" + b"|".join(re.escape(os.fsencode(name)) for name in names) + rb")\b")
    reached: set[str] = set()
    for path in paths:
        if path.is_symlink():
            target = path.resolve()
            reached |= {
                agent
                for agent, directory in inside.items()
                if target.is_relative_to(directory) or directory.is_relative_to(target)
            }
        if path.is_file() and path.stat().st_size <= _LARGEST:
            for name in set(pattern.findall(path.read_bytes())):
                reached |= leads[os.fsdecode(name)]
    return reached


def _files(directory: Path, *, skip: Collection[Path] = ()) -> Iterable[Path]:
    """The files below a directory, and its links to directories. Hidden ones and virtual environments are left out."""
    for folder, folders, files in os.walk(directory):
        if "pyvenv.cfg" in files:
            folders.clear()
            continue
        folders[:] = [
            name
            for name in folders
            if not name.startswith(".") and name not in _NOT_SEARCHED and Path(folder, name) not in skip
        ]
        linked = [name for name in folders if Path(folder, name).is_symlink()]
        yield from (Path(folder, name) for name in (*files, *linked))


def _pattern(file: str) -> str:
    """A .gitignore pattern for exactly this file."""
    return "/" + re.sub(r"([\\*?\[\]!# ])", r"\\\1", file)
