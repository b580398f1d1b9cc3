"""The road: find and check the files, run the agents, score, judge, write the texts.

Free of arguments, exit codes and signal handlers, so that a test, a pytest plugin or a notebook can take it too.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from agent_eval import __version__
from agent_eval.core.problem import Problem, Severity
from agent_eval.core.text import plural
from agent_eval.results.folder import FILES, JOURNAL, LOGS, give_to_owner, relative, remove_logs

if TYPE_CHECKING:
    from agent_eval.agents.isolation import Isolation
    from agent_eval.agents.locate import AgentChoices
    from agent_eval.agents.protocol import Agent
    from agent_eval.core.limiter import Limiter
    from agent_eval.evalset.suite import Suite
    from agent_eval.results.report import FileReport, RunReport
    from agent_eval.runner.execution import Progress
    from agent_eval.runner.plan import Plan
    from agent_eval.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Clients:
    """What a run uses of the world around it."""

    environ: Mapping[str, str]
    """Where the agent's variables come from (by an allow-list)."""
    log: Callable[[str], None] = lambda _: None
    """Gets a line for what takes time."""
    progress: Callable[[Progress], None] = lambda _: None
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    """Set it to end early with what there is."""
    source_url: str | None = None
    """Where the tested files can be read, e.g. `https://github.com/o/r/blob/SHA`."""
    provenance: Mapping[str, str] = field(default_factory=dict)
    """What the caller knows of the tested state, e.g. its commit."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came out."""

    report: RunReport
    files: Mapping[str, Path]
    """What was written, by the names of FILES; absolute. An invalid run writes no recordings."""


async def run(settings: Settings, clients: Clients) -> Outcome:
    """Takes the whole road.

    Returns:
        The report, already written to the output directory. Invalid files are a verdict, not an exception.

    Raises:
        OSError: The output directory can't be written.
        ValueError: `settings.agent_env` can't be read; `settings.read_settings` would have told.
    """
    begun = time.time()
    suite, choices, plan = prepare(settings)
    remove_logs(settings.output)
    problems = [*suite.problems, *choices.problems, *plan.problems]
    report = _report(settings, clients, begun, problems, _file_reports(suite, choices))
    if _has_error(problems):
        return _write(settings, clients, report, lines=None)
    return await _run(settings, clients, plan, choices, report)


def invalid(settings: Settings, clients: Clients, problems: Sequence[Problem]) -> Outcome:
    """The outcome when the settings themselves are wrong."""
    remove_logs(settings.output)
    return _write(settings, clients, _report(settings, clients, time.time(), problems, []), lines=None)


def prepare(settings: Settings) -> tuple[Suite, AgentChoices, Plan]:
    """Everything that can be known before anything runs. Each of the three has its problems."""
    from agent_eval.agents.locate import choose_agents
    from agent_eval.evalset.loading import load_suite
    from agent_eval.runner.plan import make_plan, source_fingerprint

    root = settings.root
    suite = load_suite(
        root,
        settings.paths,
        include=settings.include,
        exclude=settings.exclude,
        config=settings.config,
        initial_session=settings.initial_session,
        skip=[settings.output],
    )
    choices = choose_agents(root, suite.files, explicit=settings.agent, mapping=settings.agents)
    agents = {path: choice.path for path, choice in choices.by_file.items()}
    directories = {choice.path: choice.directory(root) for choice in choices.by_file.values()}
    fingerprints = {
        path: source_fingerprint(directory, skip=[settings.output]) for path, directory in directories.items()
    }
    return suite, choices, make_plan(suite.files, agents, fingerprints, settings.num_runs)


def _has_error(problems: Iterable[Problem]) -> bool:
    return any(problem.severity is Severity.ERROR for problem in problems)


async def _run(settings: Settings, clients: Clients, plan: Plan, choices: AgentChoices, report: RunReport) -> Outcome:
    from agent_eval.agents.forwarding import allow_list
    from agent_eval.agents.isolation import isolated
    from agent_eval.core.limiter import Limiter
    from agent_eval.gate.verdict import decide
    from agent_eval.runner.execution import Execution, Limits
    from agent_eval.runner.journal import Journal

    allow = allow_list(settings.agent_env)
    output = settings.output
    reachable = [] if settings.cache_dir is None else [settings.root / settings.cache_dir]
    with contextlib.ExitStack() as stack, contextlib.ExitStack() as apart:
        isolation = apart.enter_context(
            isolated(clients.environ, root=settings.root, output_dir=output, allow=allow, reachable=reachable)
        )
        report = _with_problems(report, isolation.problems)
        if _has_error(isolation.problems):
            apart.close()
            return _write(settings, clients, report, lines=None)
        recordings = {(settings.root / one.recording).resolve() for one in choices.by_file.values() if one.recording}
        for name in FILES.values():  # An earlier run's file must not pass for this one's, unless this one reads it.
            if recordings.isdisjoint({output.resolve(), (output / name).resolve()}):
                (output / name).unlink(missing_ok=True)
        journal = stack.enter_context(contextlib.closing(Journal(output / JOURNAL, resume=settings.resume)))
        limiter = Limiter(settings.concurrency)
        loading = asyncio.create_task(asyncio.to_thread(_load_scorers, plan))
        async with _agents(settings, clients, choices, isolation, limiter) as agents:
            execution = Execution(
                plan=plan,
                agents=agents,
                journal=journal,
                limits=Limits(
                    concurrency=settings.concurrency,
                    turn_timeout=settings.turn_timeout,
                    case_timeout=settings.case_timeout,
                    run_timeout=settings.run_timeout,
                    fail_fast=settings.fail_fast,
                    min_pass_rate=settings.min_pass_rate,
                ),
                limiter=limiter,
                on_progress=clients.progress,
                stop=clients.stop,
            )
            cases = await execution.run()
            provenance = _provenance(agents)
        await loading
        report.cases = cases
        report.provenance |= provenance
        if execution.reused:
            report.notices.append(f"{plural(execution.reused, 'run')} taken from the journal of an earlier run")
        verdict = decide(cases)
        report.verdict, report.reasons = verdict.value, list(verdict.reasons)
        report.duration = round(time.time() - report.started_at, 3)
        ids = [planned.run_id(number) for planned, number in plan.runs()]
        complete = not any(case.status in {"not_run", "errored"} for case in cases)
        if not complete:
            report.notices.append(f"{JOURNAL} keeps what is done: with --resume the next run goes on from there")
        # Permissions come back first: the files must be readable for whoever uploads them.
        apart.close()
        outcome = _write(settings, clients, report, lines=journal.lines(ids))
        journal.close(remove=complete)
    return outcome


def _load_scorers(plan: Plan) -> None:
    """Imports what scoring needs while the agents start, instead of when the first answer is there."""
    from agent_eval.criteria.tokenize import warm_up

    if any(criterion.name == "response_match_score" for planned in plan.cases for criterion in planned.criteria):
        warm_up()


@contextlib.asynccontextmanager
async def _agents(
    settings: Settings, clients: Clients, choices: AgentChoices, isolation: Isolation, limiter: Limiter
) -> AsyncIterator[Mapping[str, Agent]]:
    """Makes every agent, started by whoever needs it, and closes all in the end."""
    from agent_eval.agents.environment import EnvironmentRequest, default_cache_dir, run_setup
    from agent_eval.agents.forwarding import installer_environment, secrets_in
    from agent_eval.agents.managed import ManagedAdkAgent
    from agent_eval.agents.recorded import RecordedAgent
    from agent_eval.core.masking import Masker

    root = settings.root.resolve()
    installer = installer_environment(clients.environ)
    masker = Masker([*isolation.secrets, *secrets_in(installer)])
    cache_dir = (
        root / settings.cache_dir
        if settings.cache_dir is not None
        else default_cache_dir(clients.environ, isolation.sandbox.user)
    )
    setup: asyncio.Future[None] | None = None
    if settings.agent_setup is not None and any(choice.recording is None for choice in choices.by_file.values()):
        command = settings.agent_setup
        setup = asyncio.ensure_future(
            run_setup(command, sandbox=isolation.sandbox, root=root, masker=masker, log=clients.log)
        )
    agents: dict[str, Agent] = {}
    for choice in dict.fromkeys(choices.by_file.values()):
        if choice.path in agents:
            continue
        if choice.recording is not None:
            agents[choice.path] = RecordedAgent(root / choice.recording)
            continue
        directory = choice.directory(root)
        agents[choice.path] = ManagedAdkAgent(
            agent_path=choice.path if directory is None else str(directory.resolve()),
            request=EnvironmentRequest(
                start=directory or root,
                root=root,
                python=settings.agent_python,
                requirements=settings.agent_requirements,
                installer=installer,
            ),
            sandbox=isolation.sandbox,
            masker=masker,
            workers=settings.workers,
            cache_dir=cache_dir,
            log_dir=settings.output / LOGS,
            log=clients.log,
            on_throttle=limiter.throttled,
            setup=setup,
        )
    try:
        yield agents
    finally:
        await asyncio.gather(*(agent.close() for agent in agents.values()))
        if setup is not None:
            setup.cancel()
            await asyncio.gather(setup, return_exceptions=True)


def _provenance(agents: Mapping[str, Agent]) -> dict[str, str]:
    """What the agents tell of themselves; with several of them each name says whose it is."""
    if len(agents) == 1:
        return dict(next(iter(agents.values())).provenance)
    return {f"{name} ({path})": value for path, agent in agents.items() for name, value in agent.provenance.items()}


def _report(
    settings: Settings, clients: Clients, begun: float, problems: Sequence[Problem], files: Sequence[FileReport]
) -> RunReport:
    """A report as it stands before anything runs."""
    from agent_eval.results.report import RunReport

    report = RunReport(
        tool_version=__version__,
        verdict="invalid",
        started_at=round(begun, 3),
        duration=round(time.time() - begun, 3),
        num_runs=settings.num_runs,
        min_pass_rate=settings.min_pass_rate,
        provenance=dict(clients.provenance),
        files=list(files),
    )
    return _with_problems(report, problems)


def _with_problems(report: RunReport, problems: Iterable[Problem]) -> RunReport:
    from agent_eval.results.report import ProblemReport

    added = [ProblemReport(**{**_fields(problem), "severity": problem.severity.value}) for problem in problems]
    return report.model_copy(update={"problems": [*report.problems, *added]})


def _fields(problem: Problem) -> dict[str, object]:
    """The fields of a problem."""
    return {name: getattr(problem, name) for name in problem.__dataclass_fields__}


def _file_reports(suite: Suite, choices: AgentChoices) -> list[FileReport]:
    from agent_eval.results.report import FileReport

    return [
        FileReport(
            file=file.path,
            eval_set_id=file.eval_set.eval_set_id,
            config=file.config.source,
            criteria={criterion.metric: criterion.threshold for criterion in file.config.criteria},
            agent=choice.path if (choice := choices.by_file.get(file.path)) else "",
            agent_reason=choice.reason if choice else "",
            legacy=file.legacy,
        )
        for file in suite.files
    ]


def _write(settings: Settings, clients: Clients, report: RunReport, *, lines: Iterable[bytes] | None) -> Outcome:
    """Writes every file of the output directory and hands them to the workspace's owner."""
    from agent_eval.evalset.writing import write_text
    from agent_eval.report.junit import junit_xml
    from agent_eval.report.results_json import results_json
    from agent_eval.report.summary import summary_markdown
    from agent_eval.results.report import Reason
    from agent_eval.runner.journal import write_recordings

    if report.verdict == "invalid":
        errors = sum(problem.severity == "error" for problem in report.problems)
        message = f"{plural(errors, 'error')} in the eval files or the configuration"
        report.reasons = [Reason(code="invalid", message=message)]
    output = settings.output
    output.mkdir(parents=True, exist_ok=True)
    files = {name: output / file for name, file in FILES.items()}
    if lines is None:
        del files["recordings-file"]  # Nothing was run: what an earlier run paid for stays.
    else:
        write_recordings(files["recordings-file"], lines)
    write_text(files["results-file"], results_json(report))
    write_text(files["junit-file"], junit_xml(report))
    shown = {name: relative(path, settings.root) for name, path in files.items()}
    summary = summary_markdown(report, source_url=clients.source_url, files=shown)
    write_text(files["summary-file"], summary)
    give_to_owner(output, settings.root)
    return Outcome(report=report, files=files)
