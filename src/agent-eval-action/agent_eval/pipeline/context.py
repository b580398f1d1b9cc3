"""The context of a run, and factories for its agents and models."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_eval.pipeline.ci_context import LOCAL, CIContext
from agent_eval_agents.driver import AgentSpec, DriverContext, RemoteOptions
from agent_eval_agents.host.parents import Parents
from agent_eval_agents.loading import LoadQueue, processes_for
from agent_eval_agents.sandbox import (
    CREDENTIALS,
    Isolation,
    allow_list,
    child_environment,
    installer_environment,
    secrets_in,
)
from agent_eval_results import LOGS
from agent_eval_scoring.core.limiter import Limiter
from agent_eval_scoring.core.masking import Masker
from agent_eval_scoring.core.problem import Problem, Severity, errors_of, has_error

if TYPE_CHECKING:
    from agent_eval.runner import MissingModels, Progress
    from agent_eval.settings import Settings
    from agent_eval_agents.discovery import AgentChoices
    from agent_eval_agents.messages import AgentDescribed
    from agent_eval_agents.protocol import Agent
    from agent_eval_agents.venv import AgentInterpreter, AgentPlace, BegunEnvironment
    from agent_eval_scoring.core.process import Begun
    from agent_eval_scoring.evalset.models import LoadedFile, Suite
    from agent_eval_scoring.models import ModelSettings, ModelUse
    from agent_eval_scoring.models.pool import ModelPool

_MOST_RESERVED, _RESERVED = 5.0, 0.2
"""Seconds at the end of a run, and their share of `run-timeout`, in which no model is asked: the report can then name
the model's trouble as the cause of what was not answered, and not the end of the run."""


@dataclass(frozen=True, kw_only=True)
class Early:
    """What has been started before the files are read."""

    isolation: Isolation
    apart: contextlib.ExitStack
    """Ends the isolation."""
    interpreter: asyncio.Task[tuple[AgentInterpreter | None, list[Problem]]] | None = None
    """Whether the interpreter of `agent-python` can be used."""
    environment: BegunEnvironment | None = None
    """Of the first agent, without `agent-python`."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """The eval files of a run."""

    begun: Begun
    """The run."""
    files: tuple[Suite, AgentChoices]
    """What `find` returned."""


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """What a run uses besides its settings."""

    environ: Mapping[str, str]
    """The process environment; the agent gets an allow-list of it."""
    log: Callable[[str], None] = lambda _: None
    """Receives progress lines."""
    progress: Callable[[Progress], None] = lambda _: None
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    """Set it to end the run early with the results so far."""
    setting_up: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while `agent-setup` runs: two at once would disturb each other."""
    loads: LoadQueue = field(default_factory=LoadQueue)
    """Where the agents' processes wait for their turn to load."""
    parents: Parents = field(default_factory=Parents)
    """What may fork them."""
    early: Early | None = None
    """What has been started for them already."""
    found: Found | None = None
    """The eval files and their agents, if they have been read for that."""
    source_url: str | None = None
    """Where the tested files can be read, e.g. `https://github.com/o/r/blob/SHA`."""
    provenance: Mapping[str, str] = field(default_factory=dict)
    """Facts about the tested state, e.g. its commit."""
    warnings: Sequence[str] = ()
    """Shown above everything else, e.g. that the pull request changes the gate's own rules."""
    ci: CIContext = LOCAL
    """The event that started the run, and the commit it is compared with."""
    files_are_read: bool = True
    """Whether a program reads the result files of this run, even if it is invalid."""


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """Result of the checks before the agents start."""

    problems: Sequence[Problem] = ()
    """What prevents every agent from starting."""
    interpreter: AgentInterpreter | None = None
    """The interpreter of `agent-python`, once checked."""
    setup: asyncio.Future[None] | None = None
    """`agent-setup`, started; None without one."""


def masker_of(
    agent_headers: Mapping[str, str], agent_env: str | None, environ: Mapping[str, str], *, all_here: bool = False
) -> Masker:
    """The masker of a run: of what an agent in a process of ours gets, also where it runs elsewhere or is recorded.

    Args:
        agent_headers: Those of remote agents.
        agent_env: The setting.
        environ: The job's variables.
        all_here: Whether all agents are in processes of ours, so that they have the variables.

    Raises:
        ValueError: `agent_env` is invalid.
    """
    secrets: dict[str, str] = {}
    # No variable that an agent gets has them.
    if agent_headers:
        from agent_eval_agents.http import header_secrets

        secrets = header_secrets(agent_headers)
    credentials = {name: value for name, value in environ.items() if name == CREDENTIALS}
    given = child_environment(environ, allow_list(agent_env))
    # Also the credentials that it does not get: an agent of the same user can still read the file.
    secrets |= secrets_in(installer_environment(environ) | given | credentials)
    held = {name for value in secrets_in(given) for name in secrets[value].split()} if all_here else ()
    return Masker(secrets, held)


@contextlib.asynccontextmanager
async def open_agents(
    settings: Settings,
    context: RunContext,
    choices: AgentChoices,
    isolation: Isolation,
    limiter: Limiter,
    prepared: Preparation | None = None,
    described: dict[str, list[AgentDescribed]] | None = None,
    runs: Mapping[str, int] | None = None,
) -> AsyncIterator[Mapping[str, Agent]]:
    """Makes every agent and closes all at the end. An agent starts when its first run needs it.

    Args:
        settings: The checkout's settings.
        context: The run's context.
        choices: The checkout's agents.
        isolation: The agents' isolation.
        limiter: Is notified of throttling and answers of their models.
        prepared: Result of `prepare`. None: `agent-setup` starts here, and nothing has been checked.
        described: Receives what each agent is, by its name.
        runs: How many are planned, by the agent's name; None for one of each.
    """
    from agent_eval.pipeline._tapes import decides_tools

    root = settings.root.resolve()
    masker = masker_of(settings.agent_headers, settings.agent_env, context.environ)
    if prepared is None and choices.runs_here:
        prepared = Preparation(setup=_begin_setup(settings.agent_setup, context, isolation, masker, root))
    prepared = prepared or Preparation()
    setup = prepared.setup
    # Headers are secrets, and a fork decides where they would be sent.
    withheld = context.ci.activity.secrets_withheld
    headers = {} if withheld else settings.agent_headers
    shared = DriverContext(
        root=root,
        python=settings.agent_python,
        requirements=settings.agent_requirements,
        interpreter=prepared.interpreter,
        setup=setup,
        installer=installer_environment(context.environ),
        sandbox=isolation.sandbox,
        masker=masker,
        workers=settings.workers,
        cache_dir=cache_of(settings, context.environ, isolation),
        log_dir=settings.output / LOGS,
        log=context.log,
        loads=context.loads,
        parents=context.parents,
        begun=None if context.early is None else context.early.environment,
        limiter=limiter,
        turn_timeout=settings.turn_timeout,
        asks_for_tools=decides_tools(settings.tape_mode, settings.tool_rules),
        asks_for_models=settings.tape_mode not in {"live", "replay"},
        remote=RemoteOptions(
            headers=headers,
            secrets_withheld=withheld,
            environ=context.environ,
            user_ids="as-given" if "as-given" in settings.remote_sessions else "unique",
            keep_sessions="keep" in settings.remote_sessions,
            servers=settings.servers,
        ),
    )
    agents: dict[str, Agent] = {}
    hosts = 0
    # Once for each agent: several files have the same one.
    for choice in {choice.path: choice for choice in choices.by_file.values()}.values():
        spec = AgentSpec(
            source=choice.source,
            sub_agent=choice.sub_agent,
            directory=choice.directory(root),
            working_directory=choice.working_directory(root, settings.agent_cwd),
            context=shared,
            runs=1 if runs is None else runs.get(choice.path, 0),
            described=(described if described is not None else {}).setdefault(choice.path, []),
        )
        agents[choice.path] = agent = choice.driver.create(spec)
        if choices.has_functions and not choice.in_python:
            from agent_eval_agents.adk.functions import WithFunctions

            agents[choice.path] = WithFunctions(agent, spec)
        if choice.in_python and settings.agent_python is not None:  # Otherwise each may have an environment of its own.
            hosts += settings.workers or processes_for(spec.runs)
    try:
        async with context.parents.expecting(hosts, isolation.sandbox.user):
            try:
                yield agents
            finally:
                await asyncio.gather(*(agent.close() for agent in agents.values()))
    finally:
        if setup is not None:
            setup.cancel()
            await asyncio.gather(setup, return_exceptions=True)


async def prepare(
    settings: Settings, context: RunContext, choices: AgentChoices, isolation: Isolation, *, until: float
) -> Preparation:
    """Runs `agent-setup` and checks what would prevent every agent from starting, before anything is written.

    Args:
        settings: The checkout's settings.
        context: The run's context.
        choices: The checkout's agents.
        isolation: The agents' isolation.
        until: `time.monotonic()` at which the run must have ended.

    Returns:
        The result. If `agent-setup` fails, or the run is stopped meanwhile, nothing is checked: then the agents'
        start fails.
    """
    if not choices.runs_here:
        return Preparation()
    from agent_eval_agents.venv import EnvironmentRequest, checked_interpreter, unreachable

    root = settings.root.resolve()
    masker = masker_of(settings.agent_headers, settings.agent_env, context.environ)
    setup = _begin_setup(settings.agent_setup, context, isolation, masker, root)
    if setup is not None and not await _has_succeeded(setup, context.stop, until):
        return Preparation(setup=setup)
    places = agent_places(settings, choices)
    problems = [
        at_setting(each, settings, "agent-cwd") if each.code == "setting-invalid" else each
        for each in unreachable(places, root, isolation)
    ]
    if settings.agent_python is None or has_error(problems) or not places:
        return Preparation(problems=problems, setup=setup)
    request = EnvironmentRequest(start=root, root=root, python=settings.agent_python)
    if context.early is not None and context.early.interpreter is not None:
        # Probed while the eval files were read: a probe imports google-adk, which takes a second or more.
        interpreter, unusable = await context.early.interpreter
    else:
        interpreter, unusable = await checked_interpreter(request, isolation, masker, after_setup=setup is not None)
    unusable = [at_setting(problem, settings, "agent-python") for problem in unusable]
    return Preparation(problems=[*problems, *unusable], interpreter=interpreter, setup=setup)


def agent_places(settings: Settings, choices: AgentChoices) -> list[AgentPlace]:
    """Where the agents are that have an interpreter; a server has its own command and environment."""
    from agent_eval_agents.venv import AgentPlace

    root = settings.root.resolve()
    return [
        AgentPlace(
            name=choice.path,
            directory=choice.directory(root),
            working_directory=choice.working_directory(root, settings.agent_cwd),
        )
        for choice in dict.fromkeys(choices.by_file.values())
        if choice.in_python
    ]


def cache_of(settings: Settings, environ: Mapping[str, str], isolation: Isolation) -> Path:
    """Where environments are kept.

    Raises:
        PermissionError: As for `default_cache_dir`.
    """
    from agent_eval_agents.venv import default_cache_dir

    if settings.cache_dir is not None:
        return settings.root.resolve() / settings.cache_dir
    return default_cache_dir(environ, isolation.sandbox.user)


async def _has_succeeded(setup: asyncio.Future[None], stop: asyncio.Event, until: float) -> bool:
    """Waits for `agent-setup`, at most until the run must end."""
    # `agent-setup` may install packages for minutes, and a cancelled job has seconds to write its files.
    stopping = asyncio.ensure_future(stop.wait())
    either: set[asyncio.Future[Any]] = {setup, stopping}
    try:
        await asyncio.wait(either, timeout=max(until - time.monotonic(), 0.0), return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
    return setup.done() and setup.exception() is None


def _begin_setup(
    command: str | None, context: RunContext, isolation: Isolation, masker: Masker, root: Path
) -> asyncio.Future[None] | None:
    """Starts `agent-setup`, if there is one."""
    return None if command is None else asyncio.ensure_future(_set_up(command, context, isolation, masker, root))


async def _set_up(command: str, context: RunContext, isolation: Isolation, masker: Masker, root: Path) -> None:
    from agent_eval_agents.venv import run_setup

    async with context.setting_up:
        await run_setup(command, sandbox=isolation.sandbox, root=root, masker=masker, log=context.log)


def at_setting(problem: Problem, settings: Settings, name: str) -> Problem:
    """A problem of a setting's value that has no place, at the setting's line in agent-eval.toml if it is there."""
    from agent_eval.settings import CONFIG_FILE
    from agent_eval_scoring.core.toml_lines import lines_of

    if problem.file is not None or not settings.sources.get(name, "").endswith(CONFIG_FILE):
        return problem
    try:
        line = lines_of((settings.root / CONFIG_FILE).read_text("utf-8")).get((name,))
    except (OSError, ValueError):
        line = None
    message = problem.message if problem.message.startswith(name) else f"`{name}`: {problem.message}"
    return dataclasses.replace(problem, file=CONFIG_FILE, line=line, message=message)


def model_settings(settings: Settings) -> ModelSettings:
    """Settings of the model clients."""
    from agent_eval_scoring.models import Budget, ModelSettings, read_prices

    return ModelSettings(
        judge_model=settings.judge_model,
        api_key=settings.judge_api_key,
        base_url=settings.judge_base_url,
        budget=Budget(max_calls=settings.max_judge_calls, max_tokens=settings.max_tokens, max_cost=settings.max_cost),
        prices=read_prices(settings.prices),
        cache=None if settings.judge_cache == "off" else settings.root / settings.judge_cache,
        offline=settings.replay == "all",
    )


def model_uses(files: Sequence[LoadedFile], judge_model: str | None) -> list[ModelUse]:
    """The models that criteria and simulated users will call; empty if none."""
    from agent_eval_scoring.criteria import judge_of
    from agent_eval_scoring.models import ModelUse
    from agent_eval_scoring.simulation import PURPOSE, simulator_options

    default = default_model(judge_model)
    judges = [
        ModelUse(
            model=judge.model,
            config=judge.config,
            case_id=f"{file.path}:{case.eval_id}",
            purpose=config.name,
            file=file.config.source,
        )
        for file in files
        for config in file.config.criteria
        if (judge := judge_of(config, default)) is not None
        for case in file.cases
    ]
    users = [
        ModelUse(
            model=options.model,
            config=options.config,
            case_id=f"{file.path}:{case.eval_id}",
            purpose=PURPOSE,
            file=file.config.source,
        )
        for file in files
        for options in [simulator_options(file.config.user_simulator_config)]
        for case in file.cases
        if case.conversation_scenario is not None
    ]
    return judges + users


def misnamed_models(files: Sequence[LoadedFile], settings: ModelSettings, environ: Mapping[str, str]) -> list[Problem]:
    """Problems of model names and configs in the files, whether or not keys are set."""
    uses = model_uses(files, settings.judge_model)
    if not uses:
        return []
    from agent_eval_scoring.models.check import IN_FILES, check_models

    checked = check_models(uses, settings, environ)
    return [problem for problem in checked.problems if problem.code in IN_FILES]


async def open_models(
    configured: ModelSettings,
    context: RunContext,
    uses: Sequence[ModelUse],
    stack: contextlib.AsyncExitStack,
    without_keys: str,
    run_timeout: float,
    *,
    taped: bool,
) -> tuple[ModelPool | None, Sequence[Problem], MissingModels | None]:
    """Opens the models that will be called: the pool (None if none will be), problems, and models without a key."""
    if not uses:
        return None, (), None
    from agent_eval.runner import MissingModels
    from agent_eval_results import WITHOUT_KEY
    from agent_eval_scoring.models.check import NO_KEY, check_models, credential_problems
    from agent_eval_scoring.models.pool import open_models as open_pool

    checked = check_models(uses, configured, context.environ)
    problems: Sequence[Problem] = checked.problems
    without = None
    names = dict.fromkeys(use.model for use in uses)
    if without_keys in {"inconclusive", "deterministic-only"} and not configured.offline:
        missing = [name for name in names if name not in checked.endpoints]
        keyless = [problem for problem in problems if problem.code == NO_KEY]
        # Beside another mistake it stays an error: the run ends anyway, and both are seen at once.
        if keyless and len(keyless) == len(errors_of(problems)):
            code = WITHOUT_KEY if without_keys == "deterministic-only" else "judge-no-credentials"
            without = MissingModels(models=frozenset(missing), code=code, taped=taped)
            problems = [
                dataclasses.replace(problem, severity=Severity.WARNING) if problem.code == NO_KEY else problem
                for problem in problems
            ]
            names = {name: None for name in names if name in checked.endpoints}
    until = time.monotonic() + run_timeout - min(_MOST_RESERVED, run_timeout * _RESERVED)
    pool = await stack.enter_async_context(open_pool(configured, context.environ, models=names, until=until))
    # Credentials that can't be opened are a mistake of the set-up too, and nothing has been paid for yet.
    if not has_error(problems):
        problems = [*problems, *credential_problems(await pool.prepare())]
    return pool, problems, without


def default_model(judge_model: str | None) -> str:
    """The judge of criteria that name no model."""
    from agent_eval_scoring.evalset.models import DEFAULT_JUDGE

    return judge_model or DEFAULT_JUDGE
