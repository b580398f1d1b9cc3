"""Reads the eval files and finds their agents, checks the policy, and plans the runs. Nothing is run."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from agent_eval.pipeline.ci_context import CIContext
from agent_eval.pipeline.context import at_setting, default_model, model_settings, model_uses
from agent_eval_scoring.core.problem import Problem, Severity
from agent_eval_scoring.evalset.models import Suite

if TYPE_CHECKING:
    from agent_eval.gate.policy_checks import KnownCase
    from agent_eval.runner import MissingModels, Plan
    from agent_eval.settings import Settings
    from agent_eval_agents.discovery import AgentChoices
    from agent_eval_scoring.core.masking import Masker
    from agent_eval_scoring.models.pool import ModelPool


def load(settings: Settings) -> Suite:
    """Reads the eval files with their cases and all their problems."""
    from agent_eval_agents.fingerprints import lasting_fingerprint
    from agent_eval_scoring.evalset.loading import load_suite

    agents = [agent for agent in (settings.agent, *settings.agents.values()) if agent is not None]
    suite = load_suite(
        settings.root,
        settings.paths,
        exclude=settings.exclude,
        config=settings.config,
        initial_session=settings.initial_session,
        tool_args=settings.tool_args,
        packed=lasting_fingerprint,
        # The FILE of `recorded:FILE` has eval cases, too.
        skip=[settings.output, *(settings.root / agent.partition(":")[2] for agent in agents if ":" in agent)],
    )
    problems = (
        at_setting(problem, settings, "paths") if problem.code in {"path-not-found", "no-eval-files"} else problem
        for problem in suite.problems
    )
    return dataclasses.replace(suite, problems=(*problems, *_unused_settings(settings, suite)))


def _unused_settings(settings: Settings, suite: Suite) -> list[Problem]:
    """Warnings about settings of judges where nothing asks one: the next judged criterion would make them errors."""
    configured = model_settings(settings)
    if (configured.judge_model or configured.cache) is None or model_uses(suite.files, settings.judge_model):
        return []
    from agent_eval_scoring.models.check import check_settings

    return [
        at_setting(dataclasses.replace(problem, severity=Severity.WARNING), settings, problem.code[:11])
        for problem in check_settings(configured)
    ]


def with_agent_of_paths(settings: Settings) -> Settings:
    """`AGENT FILE ...`, the order of `adk eval`: it is meant if the agent has no eval file, or all files are in it.

    Paths of the command line replace the agent of agent-eval.toml, unless the paths are from there, too.
    """
    from agent_eval.settings import CONFIG_FILE
    from agent_eval_agents.discovery import in_adk_order
    from agent_eval_scoring.evalset.discovery import discover

    from_file = {name for name, source in settings.sources.items() if source.endswith(CONFIG_FILE)}
    is_open = settings.agent is None or ("agent" in from_file and "paths" not in from_file)
    in_order = in_adk_order(settings.root, settings.paths) if is_open else None
    if in_order is None:
        return settings
    agent, files = in_order
    directory = (settings.root / agent).resolve()
    is_inside = all((settings.root / file).resolve().is_relative_to(directory) for file in files)
    if not is_inside and discover(settings.root, [agent], exclude=settings.exclude, skip=[settings.output]).files:
        return settings
    return dataclasses.replace(settings, agent=agent, paths=tuple(files))


def find(settings: Settings) -> tuple[Suite, AgentChoices]:
    """Reads the eval files and finds the agent of each; both results carry their problems."""
    from agent_eval_agents.discovery import agent_as_path, choose_agents

    suite = load(settings)
    choices = choose_agents(
        settings.root,
        suite.files,
        explicit=settings.agent,
        mapping=settings.agents,
        everything=lambda: _every_file(settings.root, settings.output),
        stateless={f"server:{name}" for name, server in settings.servers.items() if server.protocol == "a2a"},
        ignore_state="ignore-state" in settings.remote_sessions,
        runs=settings.num_runs,
    )
    notices = agent_as_path(settings.root, settings.paths) if settings.agent is None else ()
    return suite, dataclasses.replace(choices, problems=(*choices.problems, *notices))


def named_agents_problems(settings: Settings, suite: Suite) -> list[Problem]:
    """Problems of the agents that `[agents]` or a manifest of agents-cli names, where no agent is chosen."""
    from agent_eval_agents.discovery import check_names

    if suite.errors:
        return []
    return check_names(
        settings.root,
        suite.files,
        settings.agents,
        lambda: _every_file(settings.root, settings.output),
        settings.agent,
    )


def _every_file(root: Path, output: Path) -> list[str]:
    from agent_eval_scoring.evalset.discovery import discover

    return [file.name for file in discover(root, skip=[output]).files]


def policy_problems(settings: Settings, suite: Suite) -> Sequence[Problem]:
    """Problems of the policy with regard to these cases; none where the files themselves are invalid."""
    if suite.errors:
        return ()  # With half a suite, a pattern that matches nothing may still be right.
    from agent_eval.gate.policy_checks import check_policy, known_cases

    def everything() -> Sequence[KnownCase]:
        return known_cases(load(dataclasses.replace(settings, paths=(), exclude=())))

    chosen = bool(settings.paths or settings.exclude)
    today = datetime.now(UTC).date()
    return check_policy(settings.policy, known_cases(suite), today=today, everything=everything if chosen else None)


def baseline_problems(baseline: str, gate: str, root: Path, ci: CIContext) -> list[Problem]:
    """The error that `gate` is to compare with files that don't exist: the thresholds alone would decide, unasked."""
    if gate not in {"regressions", "both"} or (ci.activity.kind == "compare" and ci.baseline_request is None):
        return []
    from agent_eval.baseline.file import FileSource
    from agent_eval.settings import parse_order

    nowhere = []
    for choice in parse_order(baseline):
        if choice.path is None:
            return []  # Another source may have one.
        source = FileSource(path=choice.path, root=root, git=ci.git, remote=ci.remote)
        if (where := source.where_missing(ci.baseline_request)) is None:
            return []
        nowhere.append(where)
    if not nowhere:
        return []
    return [
        Problem(
            code="baseline-not-found",
            message=f"There is no {'; no '.join(nowhere)}: `gate: {gate}` has nothing to compare with.",
            hint="Correct the path in `baseline`, which is relative to the repository's root. To record the first one, "
            "run with --baseline none on the base branch, and commit its results.json there.",
        )
    ]


def plan_runs(
    settings: Settings,
    suite: Suite,
    choices: AgentChoices,
    models: ModelPool | None,
    without: MissingModels | None,
    masker: Masker,
) -> Plan:
    """Plans the runs of the eval files.

    Args:
        settings: The effective settings.
        suite: The eval files.
        choices: Their agents.
        models: The judge's; None: nothing calls a model.
        without: The models without a key whose criteria are skipped.
        masker: Of what the agents say.
    """
    from agent_eval.runner import make_plan
    from agent_eval_agents.fingerprints import function_source
    from agent_eval_agents.sources import source_fingerprint

    agents = {path: choice.path for path, choice in choices.by_file.items()}
    directories = {
        # A server may be built from any file of the repository.
        choice.path: settings.root if choice.runs_here and not choice.in_python else choice.directory(settings.root)
        for choice in choices.by_file.values()
    }
    skip, root = settings.written_directories, settings.root
    in_checkout = functools.cache(lambda: source_fingerprint(root, root, skip=skip))
    fingerprints = {
        path: in_checkout()
        if directory is not None and directory.resolve().is_relative_to(root.resolve())
        else source_fingerprint(root, directory, skip=skip)
        for path, directory in directories.items()
    }
    judge = None
    if models is not None:
        from agent_eval_scoring.criteria.judged import Judge

        judge = Judge(model=models, default_model=default_model(settings.judge_model))
    return make_plan(
        suite.files,
        agents,
        fingerprints,
        settings.num_runs,
        judge,
        without,
        without_code={choice.path for choice in choices.by_file.values() if not choice.in_python},
        sources=lambda agent, function: function_source(function, settings.root, directories[agent]),
        masker=masker,
    )


def placed(problems: Iterable[Problem], root: Path) -> list[Problem]:
    """Problems of models, each that concerns one criterion with the place in the config that chose the model.

    The check knows criteria but no files, and only what is wrong is worth reading a file again.
    """
    from agent_eval_scoring.evalset.json import read_document
    from agent_eval_scoring.simulation import PURPOSE

    found = []
    for problem in problems:
        if problem.file is not None and problem.path is not None:
            document, _ = read_document(root / problem.file, problem.file, lenient=True)
            if document is not None:
                of_criterion = ("criteria", problem.path, "judge_model_options", "judge_model")
                path = ("user_simulator_config", "model") if problem.path == PURPOSE else of_criterion
                at = document.error(problem.code, problem.message, path=path)
                problem = dataclasses.replace(problem, line=at.line, column=at.column)
        found.append(dataclasses.replace(problem, path=None))
    return found
