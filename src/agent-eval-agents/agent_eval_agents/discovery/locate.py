"""Selects the agent of each eval file. Reads source files without importing them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agent_eval_agents.discovery.finder import (
    WHAT_IS_AN_AGENT,
    Finder,
    NoChoice,
    find_agents,
    is_agent,
    plain,
    sub_agent_in,
)
from agent_eval_agents.discovery.finder import AgentChoice as AgentChoice
from agent_eval_scoring.core.patterns import PathPatterns
from agent_eval_scoring.core.problem import Problem, Severity
from agent_eval_scoring.core.selectors import GLOB, parse_selector
from agent_eval_scoring.core.text import listed, plural
from agent_eval_scoring.evalset.json import read_document
from agent_eval_scoring.evalset.models import LoadedFile
from agent_eval_scoring.evalset.paths import repository_of, searched

CONFIG_FILE = "agent-eval.toml"


@dataclass(frozen=True, kw_only=True)
class AgentChoices:
    """The agents of a suite."""

    by_file: Mapping[str, AgentChoice]
    """The agent of each file, by LoadedFile.path, in the order of the files. Files with a problem have none."""
    problems: tuple[Problem, ...] = ()
    has_functions: bool = False
    """Whether a config of agents-cli has metrics that are code."""

    @property
    def runs_here(self) -> bool:
        """Whether code of the repository runs on this machine: that of an agent, or functions that score answers."""
        return self.has_functions or any(choice.runs_here for choice in self.by_file.values())

    @property
    def recorded(self) -> frozenset[str]:
        """The agents whose answers come from files."""
        return frozenset(choice.path for choice in self.by_file.values() if choice.driver.reads_file)

    @property
    def only_recorded(self) -> bool:
        """Whether all answers come from files."""
        return all(choice.driver.reads_file for choice in self.by_file.values())

    @property
    def remote(self) -> bool:
        """Whether any of the agents answers through a server."""
        return any(choice.driver.remote for choice in self.by_file.values())


def choose_agents(
    root: Path,
    files: Sequence[LoadedFile],
    *,
    explicit: str | None = None,
    mapping: Mapping[str, str] | None = None,
    everything: Callable[[], Sequence[str]] | None = None,
    stateless: Collection[str] = (),
    ignore_state: bool = False,
    runs: int | None = None,
) -> AgentChoices:
    """Selects the agent of every file.

    The first rule that matches applies: the explicit agent; the last pattern of the mapping that matches the file's
    path; the agent directory that the cases' `session_input.app_name` names; the nearest agent, walking up from the
    file (the directory itself, else the only agent among its children and those of its `src` and `agents`); the only
    agent in the repository.

    Args:
        root: The repository's root.
        files: The loaded files.
        explicit: `--agent`: a directory or a file in it or a dotted module, each also with `#SUB_AGENT`; or
            `recorded:FILE`, `adk:URL`, `server:NAME`.
        mapping: `[agents]` of agent-eval.toml: .gitignore patterns relative to the root, to agents. The last match
            has precedence.
        everything: Returns the names of all eval files of the repository, if `files` are only some of them. A pattern
            that matches no file of this run may match other files.
        stateless: Agents, by their names, whose sessions can't begin with a state, in addition to those of drivers that
            say so.
        ignore_state: Run cases without their state if their agent can't begin with one.
        runs: How many runs of each case there will be; None if that is unknown.

    Returns:
        The choices, and a problem for each group of files without an agent or with several.
    """
    choices = _choose(root, files, explicit, mapping or {}, everything)
    shared = _shared_set_ids(root, choices.by_file, files)
    agent_problems = _check_agents(root, choices, files, runs)
    lost_states = _without_state(choices, files, stateless, ignored=ignore_state)
    return AgentChoices(
        by_file=choices.by_file,
        problems=(*choices.problems, *shared, *agent_problems, *lost_states),
        has_functions=any("code" in metric for file in files for metric in file.config.custom_metrics.values()),
    )


def check_names(
    root: Path,
    files: Sequence[LoadedFile],
    mapping: Mapping[str, str],
    everything: Callable[[], Sequence[str]] | None = None,
    explicit: str | None = None,
) -> list[Problem]:
    """Problems of `[agents]`, of manifests and of the sets' ids alone, with no agent; see `choose_agents`."""
    if explicit is not None:
        return _shared_set_ids(
            root, dict.fromkeys((file.path for file in files), AgentChoice(path="", reason="")), files
        )
    finder = Finder(root=root.resolve())
    mapped, problems = _mapped(finder, mapping, files, everything)
    problems += finder.manifest_problems(file.path for file in files if file.path not in mapped)
    uses = Counter(file.eval_set.eval_set_id for file in files)
    # Which agents answer is searched only for these files: elsewhere the answer would not be used.
    shared = [file for file in files if uses[file.eval_set.eval_set_id] > 1]
    return [*problems, *_shared_set_ids(root, {file.path: _agent_of(file, finder, mapped) for file in shared}, shared)]


def _agent_of(
    file: LoadedFile, finder: Finder, mapped: Mapping[str, AgentChoice | None]
) -> AgentChoice | NoChoice | None:
    return mapped[file.path] if file.path in mapped else finder.agent_of(file)


def in_adk_order(root: Path, targets: Sequence[str]) -> tuple[str, list[str]] | None:
    """The agent's directory and the other paths of arguments in the order of `adk eval AGENT FILE ...`.

    Args:
        root: The repository's root.
        targets: The paths from the command line.

    Returns:
        None unless the first path is an agent, and all others are files, globs, or directories that are no agents.
    """
    if len(targets) < 2:
        return None
    agent, *files = targets
    directory = root / agent
    if directory.name in {"agent.py", "__init__.py"}:
        directory = directory.parent
    selected = (root / parse_selector(file, lambda path: (root / path).exists()).path for file in files)
    if not directory.is_dir() or not is_agent(directory):
        return None
    if not all(not is_agent(path) if path.is_dir() else path.is_file() or GLOB & set(path.name) for path in selected):
        return None
    return os.path.relpath(directory, root), files


def agent_as_path(root: Path, targets: Sequence[str]) -> list[Problem]:
    """A notice if the paths look like the arguments of `adk eval AGENT FILE ...`, where the first is the agent."""
    in_order = in_adk_order(root, targets)
    if in_order is None or any((root / path).is_dir() for path in in_order[1]):
        return []
    agent, files = in_order
    command = shlex.join(["agent-eval", "run", "--agent", agent, *files])
    return [
        Problem(
            severity=Severity.NOTICE,
            code="agent-as-path",
            message=f"`{plain(targets[0])}` is an agent with eval files inside it, which run, too. "
            "The agent of each file is selected as usual.",
            hint=f"In `adk eval`, the first argument is the agent. Here, use `{plain(command)}`.",
        )
    ]


def _choose(
    root: Path,
    files: Sequence[LoadedFile],
    explicit: str | None,
    mapping: Mapping[str, str],
    everything: Callable[[], Sequence[str]] | None,
) -> AgentChoices:
    finder = Finder(root=root.resolve())
    problems: list[Problem] = []
    if explicit is not None:
        # It answers every file, so nothing is searched: a broken agent elsewhere is not this run's problem.
        path, problem = finder.named(explicit, "`agent`", None)
        if path is None:
            return AgentChoices(by_file={}, problems=(problem,) if problem else ())
        choice = AgentChoice(path=path, reason="--agent", sub_agent=sub_agent_in(path, finder.root))
        return AgentChoices(by_file={file.path: choice for file in files})
    mapped, mapping_problems = _mapped(finder, mapping, files, everything)
    problems += mapping_problems
    by_file: dict[str, AgentChoice] = {}
    failures: dict[NoChoice, list[str]] = {}
    for file in files:
        choice_or_failure = _agent_of(file, finder, mapped)
        if isinstance(choice_or_failure, AgentChoice):
            by_file[file.path] = choice_or_failure
        elif choice_or_failure is not None:
            failures.setdefault(choice_or_failure, []).append(file.path)
    problems += [_problem(failure, paths, finder) for failure, paths in failures.items()]
    problems += finder.manifest_problems(file.path for file in files if file.path not in mapped)
    return AgentChoices(by_file=by_file, problems=tuple(problems))


def _mapped(
    finder: Finder,
    mapping: Mapping[str, str],
    files: Sequence[LoadedFile],
    everything: Callable[[], Sequence[str]] | None,
) -> tuple[dict[str, AgentChoice | None], list[Problem]]:
    """The choices of the mapping; None for files of which the agent does not exist."""
    if not mapping:
        return {}, []
    by_file: dict[str, AgentChoice | None] = {}
    problems: list[Problem] = []
    coming: list[str] = []
    others: Sequence[str] | None = () if everything is None else None
    for pattern, name in mapping.items():
        try:
            patterns = PathPatterns([pattern])
        except ValueError as error:
            problems.append(
                Problem(
                    code="agent-mapping-invalid",
                    message=f'"{pattern}" in [agents] is not a pattern: {error}',
                    hint="Patterns use .gitignore syntax, e.g. `evals/weather/**`.",
                    file=CONFIG_FILE,
                )
            )
            continue
        matched = [file.path for file in files if patterns.match(file.path)]
        # `init` writes the pattern before `record` makes the file: that is no mistake.
        if not matched and _is_new_file(finder.root, pattern):
            coming.append(pattern)
            continue
        if not matched:
            if others is None and everything is not None:
                # Only now, since it searches the repository: the pattern may be for files of another run.
                others = everything()
            if any(patterns.match(name) for name in others or ()):
                continue
            if not files and not others:
                continue  # There is no eval file at all, which is an error.
            hint = "Patterns use .gitignore syntax, relative to the repository's root, e.g. `evals/weather/**`."
            if "*" in name or (name.endswith(("/", ".json")) and ":" not in name):
                hint = f'The pattern comes first: write "{name}" = "{pattern}".'
            problems.append(
                Problem(
                    severity=Severity.WARNING,
                    code="agent-mapping-unused",
                    message=f'the pattern "{pattern}" in [agents] matches no eval file of the repository',
                    hint=hint,
                    file=CONFIG_FILE,
                    line=_line_of(finder.root, pattern),
                )
            )
            continue
        path, problem = finder.named(name, f'the mapping "{pattern}"', CONFIG_FILE)
        problems += [replace(problem, line=_line_of(finder.root, pattern))] if problem is not None else []
        choice = None
        if path is not None:
            reason = f'"{pattern}" in {CONFIG_FILE}'
            choice = AgentChoice(path=path, reason=reason, sub_agent=sub_agent_in(path, finder.root))
        by_file |= dict.fromkeys(matched, choice)
    if coming:
        problems.append(
            Problem(
                severity=Severity.NOTICE,
                code="agent-mapping-unused",
                message=f"[agents] names {_listed(coming)}, which {'do' if coming[1:] else 'does'} not exist.",
                hint=f"`agent-eval record {shlex.quote(coming[0])}` makes it. Or correct the name.",
                file=CONFIG_FILE,
            )
        )
    return by_file, problems


def _line_of(root: Path, pattern: str) -> int | None:
    """The line of the settings with a pattern of `[agents]`; None if it is not found."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        rows = (root / CONFIG_FILE).read_text("utf-8").split("\n")
        return next((number for number, row in enumerate(rows, 1) if row.strip().startswith(json.dumps(pattern))), None)
    return None


def _is_new_file(root: Path, pattern: str) -> bool:
    """Whether a pattern is the name of an eval file that is still to be recorded, as `agent-eval init` writes it."""
    is_name = pattern.endswith((".evalset.json", ".test.json")) and not GLOB & set(pattern)
    return is_name and not (root / pattern.lstrip("/")).exists()


def _shared_set_ids(
    root: Path, choices: Mapping[str, AgentChoice | NoChoice | None], files: Sequence[LoadedFile]
) -> list[Problem]:
    """Warnings about eval sets of the same agent with the same id, which `adk eval` rejects in one call."""
    first: dict[tuple[str, str], str] = {}
    problems = []
    for file in files:
        choice, set_id = choices.get(file.path), file.eval_set.eval_set_id
        # `adk eval` refuses them only in one call with one agent: sets of two agents may share an id.
        other = first.setdefault((choice.path, set_id), file.path) if isinstance(choice, AgentChoice) else file.path
        if other != file.path:
            line = _line_of_id(root, other)
            where = other if line is None else f"{other}:{line}"
            problems.append(
                Problem(
                    severity=Severity.WARNING,
                    code="duplicate-eval-set-id",
                    message=f"The eval set id `{set_id}` is also used in `{where}`, for the same agent.",
                    hint="`adk eval` rejects such files in one call; give each file a unique id.",
                    file=file.path,
                    line=_line_of_id(root, file.path),
                )
            )
    return problems


def _line_of_id(root: Path, name: str) -> int | None:
    """Reads a file again only for the position of its `eval_set_id`, because such problems are rare."""
    document, _ = read_document(root / name, name)
    has_id = document is not None and isinstance(document.value, dict) and "eval_set_id" in document.value
    return document.positions.of(("eval_set_id",)).line if document is not None and has_id else None


def _check_agents(root: Path, choices: AgentChoices, files: Sequence[LoadedFile], runs: int | None) -> list[Problem]:
    """Problems that the drivers of the agents find with the files."""
    files_of: dict[str, list[LoadedFile]] = {}
    for file in files:
        if (choice := choices.by_file.get(file.path)) is not None:
            files_of.setdefault(choice.path, []).append(file)
    choice_of = {choice.path: choice for choice in choices.by_file.values()}
    return [
        problem
        for agent, its_files in files_of.items()
        for problem in choice_of[agent].driver.check(choice_of[agent].source, root, its_files, runs)
    ]


def _without_state(
    choices: AgentChoices, files: Sequence[LoadedFile], stateless: Collection[str], *, ignored: bool
) -> list[Problem]:
    """A problem for each file with cases that begin with a state, if their agent can't: they test something else."""
    problems = []
    for file in files:
        choice = choices.by_file.get(file.path)
        if choice is None or (choice.driver.takes_state and choice.path not in stateless):
            continue
        problems += _without_history(file)
        sessions = ((case.eval_id, case.session_input) for case in file.cases)
        cases = [eval_id for eval_id, session in sessions if session is not None and session.state]
        if cases:
            message = f"A2A can't pass the state of `session_input`, with which {_listed(cases)} "
            problems.append(
                Problem(
                    severity=Severity.WARNING if ignored else Severity.ERROR,
                    code="a2a-no-state",
                    message=message + ("would begin: it is ignored." if ignored else "begins."),
                    hint="Remove the state, or evaluate the agent by `adk:URL` or in a process. "
                    "`remote-sessions: ignore-state` runs the cases without it.",
                    file=file.path,
                )
            )
    return problems


def _without_history(file: LoadedFile) -> list[Problem]:
    """A problem if cases begin with what was said before, which their agent can't be given."""
    cases = [case.eval_id for case in file.cases if case.past]
    message = f"A2A can't pass the history with which {_listed(cases)} begins."
    hint = "Evaluate the agent by `adk:URL` or in a process, or select other cases."
    return [Problem(code="a2a-no-state", message=message, hint=hint, file=file.path)] if cases else []


def _problem(failure: NoChoice, paths: Sequence[str], finder: Finder) -> Problem:
    who = paths[0] if len(paths) == 1 else f"{paths[0]} and {plural(len(paths) - 1, 'other file')} next to it"
    pattern = _pattern(paths[0] if len(paths) == 1 else failure.directory, is_directory=len(paths) > 1)
    candidates = failure.candidates
    if failure.code == "agent-ambiguous":
        named = [f"{name} ({by})" for name, by in zip(candidates, failure.cases, strict=False)] or candidates
        message = f"{who} could belong to more than one agent: {failure.what} {_listed(named)}"
    elif candidates:
        message = f"no agent was found around {who}; the repository has {_listed(candidates)}"
    else:
        lacking = "".join(f"; {why}" for why in finder.why_none())
        where = searched(finder.root)
        top = repository_of(finder.root) or finder.root
        # Started in a folder of the repository, agent-eval sees that folder alone.
        others = [] if top == finder.root else find_agents(top)[0]
        hint = f"{WHAT_IS_AN_AGENT}\nIf it is elsewhere, set `--agent DIRECTORY` or `--agent package.module`."
        # The agent is there under another name; the layouts of agents would not help.
        if "rename it" in lacking:
            hint = "ADK and agent-eval read the agent from `root_agent`. If you mean another, set `--agent DIRECTORY`."
        if others:
            hint = f"Start agent-eval in {plain(str(top))}, which has {_listed(others)}."
        return Problem(
            code=failure.code,
            message=f"no agent was found for {who}, nor anywhere in {where}{lacking}",
            hint=hint,
            file=paths[0],
        )
    # A TOML string has the same escapes as a JSON one.
    # Of far agents of one name, none may be meant: projects are copied with their eval files.
    one_name = len({candidate.rpartition("/")[2] for candidate in candidates}) == 1
    names = list(dict.fromkeys([*(finder.nearest_to(failure.directory) if one_name else ()), *candidates]))
    lines = [f"{json.dumps(pattern)} = {json.dumps(names[0])}"]
    lines += [f"#   or {json.dumps(name)}" for name in names[1:5]]
    mapping = "\n    ".join(("[agents]", *lines))
    todo = "Correct `app_name`, or move the cases of one agent to another file; or set" if failure.cases else "Set"
    return Problem(
        code=failure.code,
        message=message,
        hint=f"{todo} `--agent`, or add to {CONFIG_FILE} in the repository's root:\n    {mapping}",
        file=paths[0],
    )


def _pattern(path: str, *, is_directory: bool) -> str:
    """A pattern that matches only this file, or everything in this directory."""
    if path == ".":
        return "**"
    escaped = re.sub(r"([\\*?\[!#])", r"\\\1", path)
    return f"{escaped}/**" if is_directory else escaped if "/" in escaped else f"/{escaped}"


def _listed(names: Sequence[str]) -> str:
    return listed([plain(name) for name in names], 8)


def render_choices(choices: AgentChoices) -> str:
    """Each agent with its files and the reasons."""
    lines: list[str] = []
    by_agent: dict[str, list[tuple[str, str]]] = {}
    for path, choice in choices.by_file.items():
        by_agent.setdefault(choice.path, []).append((path, choice.reason))
    for agent, files in by_agent.items():
        lines.append(plain(agent))
        width = min(max(len(path) for path, _ in files), 72)
        lines += [f"  {plain(path):<{width}}  ({reason})" for path, reason in files]
    return "\n".join([*lines, ""])
