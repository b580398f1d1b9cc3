"""Which agents a pull request can affect, for `only-affected`.

A changed file affects every agent, unless it clearly belongs to others only:

- A file in the directory of one or more agents affects these, and all agents whose own files mention one of the
  directories by name: they may import it, or load it as a sub-agent.
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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from agent_eval.baseline.git import Git, GitError
from agent_eval.core.text import listed, plural

if TYPE_CHECKING:
    from agent_eval.agents.discovery import AgentChoices
    from agent_eval.evalset.models import Suite
    from agent_eval.pipeline.ci_context import CIContext
    from agent_eval.results import UnaffectedReport
    from agent_eval.settings import Settings

_CONFIGS = frozenset({"test_config.json", "eval_config.json"})
_ABOUT = re.compile(r"(README|CHANGELOG|LICENSE|CONTRIBUTING|CODEOWNERS)(\.\w+)?|\.gitignore", re.IGNORECASE)
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
    from agent_eval.results import UnaffectedReport

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
    affected = affected_agents(changed, agents, directories, _mentions(settings.root, directories))
    left_out = [file for file in suite.files if agents.get(file.path, "") in set(agents.values()) - affected]
    if not left_out:
        return dataclasses.replace(
            everything, notice="Everything ran: this pull request can affect every agent (`only-affected`)"
        )
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
        mentions: For each agent the others whose directories its files mention.
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
    git, request = ci.git, ci.baseline_request
    if not isinstance(git, Git) or request is None:
        return None
    try:
        git.need(request.commit, ci.remote)
        changed = git.changed_files(request.commit, ci.origin.commit)
    except GitError:
        return None
    return [Path(os.path.relpath(git.top / path, root.resolve())).as_posix() for path in changed]


def _relative(directory: Path, root: Path) -> PurePosixPath | None:
    resolved, top = directory.resolve(), root.resolve()
    # An agent at the root, or outside of it, could depend on anything.
    return PurePosixPath(resolved.relative_to(top).as_posix()) if top in resolved.parents else None


def _mentions(root: Path, directories: Mapping[str, PurePosixPath | None]) -> dict[str, frozenset[str]]:
    """For each agent the others whose directories its files mention by name."""
    names = {agent: directory.name for agent, directory in directories.items() if directory is not None}
    if len(names) < 2:
        return {}
    pattern = re.compile(
        rb"(?<![A-Za-z0-9_])(" + b"|".join(re.escape(os.fsencode(name)) for name in names.values()) + rb")\b"
    )
    mentions = {}
    for agent, directory in directories.items():
        if directory is None:
            continue
        mentioned = {os.fsdecode(match) for text in _texts(root / directory) for match in set(pattern.findall(text))}
        mentions[agent] = frozenset(other for other, name in names.items() if name in mentioned and other != agent)
    return mentions


def _texts(directory: Path) -> Iterable[bytes]:
    for folder, folders, files in os.walk(directory):
        folders[:] = [name for name in folders if not name.startswith(".") and name != "__pycache__"]
        for name in files:
            path = Path(folder, name)
            if path.is_file() and path.stat().st_size <= _LARGEST:
                yield path.read_bytes()


def _pattern(file: str) -> str:
    """A .gitignore pattern for exactly this file."""
    return "/" + re.sub(r"([\\*?\[\]!# ])", r"\\\1", file)
