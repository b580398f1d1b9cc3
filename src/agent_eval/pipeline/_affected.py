"""Which agents a pull request can affect, for `only-affected`.

An agent is left out only with evidence: the files that its processes opened in the last run of the base branch
(`RunReport.opened`). A change affects it if

- a file on that list, or in the agent's own directory, was modified;
- a file was added, deleted or replaced by a link: whether a file exists can be looked up unseen. Not so in the
  directory of another agent that was there before, and of which this agent opened and listed nothing;
- the file installs or configures, or is one of its eval files, their criteria or tapes.

An agent without such a list always runs.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from agent_eval.agents.protocol import AgentFailure
from agent_eval.baseline import Baseline, Found, Git
from agent_eval.core.patterns import PathPatterns
from agent_eval.core.text import harmless
from agent_eval.evalset.models import LoadedFile, Suite
from agent_eval.pipeline.ci_context import CIContext, deciding_files, in_checkout, touches

if TYPE_CHECKING:
    from agent_eval.agents.discovery import AgentChoices
    from agent_eval.results import Reason, RunReport, UnaffectedReport
    from agent_eval.settings import Settings

_CONFIGS = frozenset({"test_config.json", "eval_config.json"})
_INSTALLS_OR_CONFIGURES = PathPatterns(
    [
        *("agent-eval.toml", ".env", ".env.*", "*.env", ".github/", "action.yml", "action.yaml"),
        *(".gitlab-ci.yml", ".gitlab/", "Jenkinsfile*", ".circleci/", "azure-pipelines*.yml", "bitbucket-*.yml"),
        *(".gitmodules", ".gitattributes", "Dockerfile*", "*.Dockerfile", "*compose*.yml", "*compose*.yaml"),
        *("*.lock", "pyproject.toml", "uv.toml", "setup.py", "setup.cfg", "Pipfile", "environment.y*ml"),
        *("*requirements*.txt", "*requirements*.in", "requirements/", "*constraints*.txt", "*.pth"),
        *("*.pem", "*.crt", "*.cer"),  # OpenSSL reads them unseen.
        *(".python-version", ".tool-versions", "mise.toml", "Makefile", "package.json", "*-lock.*", "*.whl"),
    ]
)
_MODIFIED = "M"


@dataclass(frozen=True, kw_only=True)
class Affected:
    """What is left of a run with `only-affected`."""

    settings: Settings
    """Excludes the eval files of unaffected agents."""
    unaffected: tuple[UnaffectedReport, ...] = ()
    nothing_left: bool = False
    """No agent is affected."""
    notices: tuple[Reason, ...] = ()
    """For the report."""
    base: Baseline | None = None
    """The base branch's results, if they were looked for."""


@dataclass(frozen=True, kw_only=True)
class KnownAgent:
    """What is known of an agent. All paths are relative to the top of the git checkout."""

    directory: PurePosixPath | None
    """None: it has none below the root, or is new. What the root's agent depends on is unknown."""
    inputs: frozenset[PurePosixPath]
    """Its eval files and their criteria, the directories of their tapes, and the files that declare what it needs."""
    opened: frozenset[str] | None
    """What it opened in the run of the base branch; directories that it listed end with a slash. None: unknown."""

    @functools.cached_property
    def _reached(self) -> set[str]:
        """What it opened, and the directories around it."""
        return _with_directories(name.removesuffix("/") for name in self.opened or ())

    @functools.cached_property
    def _input_names(self) -> set[str]:
        return _with_directories(map(str, self.inputs))

    def has_opened(self, path: str) -> bool:
        """Whether it opened a file, or something below (a changed submodule or link to a directory)."""
        return path in self._reached

    def has_looked_into(self, directory: PurePosixPath) -> bool:
        """Whether it opened or listed anything in a directory, or listed a directory around it."""
        around = {f"{folder}/" for folder in (directory, *directory.parents)}
        return str(directory) in self._reached or not around.isdisjoint(self.opened or ())

    def is_asked_with(self, path: PurePosixPath) -> bool:
        """Whether a file is one of its inputs, is in one, or leads to one as a link."""
        return str(path) in self._input_names or not self.inputs.isdisjoint(path.parents)


def _with_directories(names: Iterable[str]) -> set[str]:
    reached: set[str] = set()
    for name in names:
        while name and name not in reached:
            reached.add(name)
            name = name.rpartition("/")[0]
    return reached


async def limit_to_affected(settings: Settings, ci: CIContext, suite: Suite, choices: AgentChoices) -> Affected:
    """Leaves out the eval files whose agents the pull request can't affect.

    Everything runs outside of pull requests, if the eval files have errors, and without results of the base branch that
    say what its agents opened.
    """
    everything = Affected(settings=settings)
    if not settings.only_affected or ci.activity.kind != "compare" or suite.errors or choices.problems:
        return everything
    from agent_eval.pipeline._regression import find_base
    from agent_eval.results import Reason

    base = await find_base(settings, ci, None)
    everything = dataclasses.replace(everything, base=base)
    git = ci.git
    if not isinstance(base, Found) or not isinstance(git, Git):
        return _all_of_them(everything, "affected-without-base")
    report, commit = base.report, base.provenance.commit
    changes = None if commit is None else ci.changes(commit)
    if changes is None:
        return _all_of_them(everything, "changes-unknown")
    if not report.opened:
        return _all_of_them(everything, "opened-unknown")
    agents = known_agents(settings, git, suite, choices, report)
    affected = affected_agents(changes, agents, _given_to_all(settings, git, changes))
    unseen = [f"{harmless(entry.agent)} ({harmless(entry.unseen)})" for entry in report.opened if entry.unseen]
    reasons = (Reason.of("always-affected", agents=unseen),) if unseen else ()
    left_out = [file for file in suite.files if choices.by_file[file.path].path not in affected]
    if not left_out:
        return dataclasses.replace(everything, notices=(Reason.of("all-affected"), *reasons))
    return _without(everything, left_out, choices, len(suite.files), reasons)


def _all_of_them(everything: Affected, why: str) -> Affected:
    from agent_eval.results import Reason

    return dataclasses.replace(everything, notices=(Reason.of(why),))


def _without(
    everything: Affected,
    left_out: Collection[LoadedFile],
    choices: AgentChoices,
    total: int,
    reasons: tuple[Reason, ...],
) -> Affected:
    from agent_eval.results import UNAFFECTED, Reason, UnaffectedReport

    unaffected = tuple(
        UnaffectedReport(file=file.path, agent=choices.by_file[file.path].path, cases=len(file.cases))
        for file in left_out
    )
    names = sorted({item.agent for item in unaffected})
    cases = sum(item.cases for item in unaffected)
    settings = everything.settings
    patterns = (_pattern(item.file) for item in unaffected)
    return dataclasses.replace(
        everything,
        settings=dataclasses.replace(settings, exclude=(*settings.exclude, *patterns)),
        unaffected=unaffected,
        nothing_left=len(left_out) == total,
        notices=(
            Reason.of(UNAFFECTED, count=cases, agents=names),
            *reasons,
        ),
    )


def known_agents(
    settings: Settings, git: Git, suite: Suite, choices: AgentChoices, base: RunReport
) -> dict[str, KnownAgent]:
    """What is known of each agent, by its name.

    Its list counts only if the base branch's run had the same agent for each of its files, and all of its cases.
    """
    opened = {entry.agent: frozenset(entry.paths) for entry in base.opened if not entry.unseen}
    answered = {file.file: file.agent for file in base.files}
    cases = {case.case_id for case in base.cases}
    files: dict[str, list[LoadedFile]] = {}
    for file in suite.files:
        files.setdefault(choices.by_file[file.path].path, []).append(file)
    agents = {}
    for name, own in files.items():
        same = all(
            answered.get(file.path) == name and all(f"{file.path}:{case.eval_id}" in cases for case in file.cases)
            for file in own
        )
        directory = choices.by_file[own[0].path].directory(settings.root)
        place = None if directory is None else in_checkout(directory.resolve(), settings.root, git)
        is_known = name in answered.values() and place != git.prefix
        agents[name] = KnownAgent(
            directory=place if is_known else None,
            inputs=_inputs(own, settings.root, git) | _declaring(directory, settings, git),
            opened=opened.get(name) if same else None,
        )
    return agents


def _inputs(files: Iterable[LoadedFile], root: Path, git: Git) -> frozenset[PurePosixPath]:
    """The eval files, the directories of their tapes, and their criteria, also where they are behind links."""
    from agent_eval.agents.tapes import folder_of

    names = [name for file in files for name in (file.path, folder_of(file.path), file.config.source) if name]
    paths = [path for name in names for path in (root / name, (root / name).resolve())]
    return frozenset(place for path in paths if (place := in_checkout(path, root, git)) is not None)


def _declaring(directory: Path | None, settings: Settings, git: Git) -> set[PurePosixPath]:
    """The files that declare what is installed for the agent: requirements include files of any name."""
    from agent_eval.agents.venv import declaring_files, dependencies_of

    root = settings.root.resolve()
    try:
        paths = declaring_files(dependencies_of(directory or root, root, settings.agent_requirements), root)
    except AgentFailure:  # It is shown when the agent starts.
        return set()
    return {place for path in paths if (place := in_checkout(path, root, git)) is not None}


def affected_agents(
    changes: Mapping[str, str], agents: Mapping[str, KnownAgent], given_to_all: Collection[str] = ()
) -> set[str]:
    """The agents that changed files can affect. Pure.

    Args:
        changes: Git's letter of each changed path.
        agents: What is known of them.
        given_to_all: Those of the changed paths that the settings give to every agent.
    """
    affected = {name for name, agent in agents.items() if agent.opened is None or agent.directory is None}
    for path, letter in changes.items():
        pure = PurePosixPath(path)
        owners = {name for name, agent in agents.items() if agent.is_asked_with(pure)}
        if path in given_to_all or _INSTALLS_OR_CONFIGURES.match(path) or (pure.name in _CONFIGS and not owners):
            return set(agents)
        affected |= owners
        affected |= {name for name in agents.keys() - affected if _affects(pure, letter, name, agents)}
    return affected


def _affects(path: PurePosixPath, letter: str, name: str, agents: Mapping[str, KnownAgent]) -> bool:
    agent = agents[name]
    assert agent.directory is not None, "else it is affected in any case"
    if path.is_relative_to(agent.directory) or agent.has_opened(path.as_posix()):
        return True
    if letter == _MODIFIED:
        return False
    others = {other.directory for other in agents.values()} & set(path.parents)
    if path.name == "__init__.py":  # It can make the directory importable in place of another module.
        others.discard(path.parent)
    return all(agent.has_looked_into(directory) for directory in others if directory is not None)


def _given_to_all(settings: Settings, git: Git, changes: Iterable[str]) -> set[str]:
    """The changed files that the settings give to every agent."""
    given = [*deciding_files(settings), *([settings.agent_requirements] if settings.agent_requirements else [])]
    inputs = [path for file in given if (path := in_checkout(file, settings.root, git)) is not None]
    rules = settings.tool_rules if settings.tape_mode != "live" else ()
    depends = PathPatterns([pattern for rule in rules for pattern in rule.depends or ()])
    below = "" if git.prefix == PurePosixPath() else f"{git.prefix}/"
    return {path for path in changes if touches(path, inputs) or depends.match(path.removeprefix(below))}


def _pattern(file: str) -> str:
    """A .gitignore pattern for exactly this file."""
    return "/" + re.sub(r"([\\*?\[\]!# ])", r"\\\1", file)
