"""The road: find and check the files, run the agents, score, judge, write the texts.

Free of arguments, exit codes and signal handlers, so that a test, a pytest plugin or a notebook can take it too.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agent_eval import __version__
from agent_eval.clients import Clients as Clients
from agent_eval.clients import model_settings, model_uses
from agent_eval.core.problem import Problem, Severity
from agent_eval.core.text import plural
from agent_eval.results.folder import FILES, JOURNAL, give_to_owner, relative, remove_logs

if TYPE_CHECKING:
    from agent_eval.agents.locate import AgentChoices
    from agent_eval.base_side import BaseSide
    from agent_eval.baseline.outcome import BaselineOutcome
    from agent_eval.core.limiter import Limiter
    from agent_eval.evalset.suite import Suite
    from agent_eval.models.check import ModelUse
    from agent_eval.models.pool import ModelPool
    from agent_eval.results.report import FileReport, RunReport
    from agent_eval.runner.plan import Plan, Without
    from agent_eval.settings import Settings
    from agent_eval.workbench import Workbench


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
    suite, choices = find(settings)
    remove_logs(settings.output)
    async with contextlib.AsyncExitStack() as stack:
        uses = model_uses(suite.files, settings)
        models, unusable, without = await _models(settings, clients, uses, stack)
        plan = _plan(settings, suite, choices, models, without)
        problems = [*suite.problems, *choices.problems, *plan.problems, *unusable]
        report = _report(settings, clients, begun, problems, _file_reports(suite, choices))
        if _has_error(problems):
            return _write(settings, clients, report, lines=None)
        if uses:
            _tell_plan(settings, clients, suite)
        return await _run(settings, clients, plan, choices, report, models)


def _tell_plan(settings: Settings, clients: Clients, suite: Suite) -> None:
    from agent_eval.planning import default_model, one_line
    from agent_eval.runner.estimate import estimate

    found = estimate(suite.files, num_runs=settings.num_runs, default_model=default_model(settings))
    clients.log(f"agent-eval: {one_line(found)}")


async def _models(
    settings: Settings, clients: Clients, uses: Sequence[ModelUse], stack: contextlib.AsyncExitStack
) -> tuple[ModelPool | None, Sequence[Problem], Without | None]:
    """The models that will be asked, what is wrong with them, and which have no key; None if none will be asked."""
    if not uses:
        return None, (), None
    from agent_eval.models.check import NO_KEY, check_models, opening_problems
    from agent_eval.models.pool import open_models
    from agent_eval.results.merge import WITHOUT_KEY
    from agent_eval.runner.plan import Without

    given = model_settings(settings)
    checked = check_models(uses, given, clients.environ)
    problems: Sequence[Problem] = checked.problems
    without = None
    names = dict.fromkeys(use.model for use in uses)
    if settings.without_keys in {"inconclusive", "deterministic-only"} and given.replay is None:
        missing = [name for name in names if name not in checked.endpoints]
        keyless = [problem for problem in problems if problem.code == NO_KEY]
        if keyless and len(keyless) == sum(problem.severity is Severity.ERROR for problem in problems):
            code = WITHOUT_KEY if settings.without_keys == "deterministic-only" else "judge-no-credentials"
            without = Without(models=frozenset(missing), code=code)
            problems = [problem if problem.code != NO_KEY else _milder(problem) for problem in problems]
            names = {name: None for name in names if name in checked.endpoints}
    until = time.monotonic() + settings.run_timeout
    pool = await stack.enter_async_context(open_models(given, clients.environ, models=names, until=until))
    # Credentials that can't be opened are a mistake of the set-up too, and nothing has been paid for yet.
    if not _has_error(problems):
        problems = [*problems, *opening_problems(await pool.prepare())]
    return pool, problems, without


def _milder(problem: Problem) -> Problem:
    return dataclasses.replace(problem, severity=Severity.WARNING)


def invalid(settings: Settings, clients: Clients, problems: Sequence[Problem]) -> Outcome:
    """The outcome when the settings themselves are wrong."""
    remove_logs(settings.output)
    return _write(settings, clients, _report(settings, clients, time.time(), problems, []), lines=None)


def find(settings: Settings) -> tuple[Suite, AgentChoices]:
    """The files with their cases, and the agent of each. Both have their problems."""
    from agent_eval.agents.locate import choose_agents
    from agent_eval.evalset.loading import load_suite

    suite = load_suite(
        settings.root,
        settings.paths,
        include=settings.include,
        exclude=settings.exclude,
        config=settings.config,
        initial_session=settings.initial_session,
        skip=[settings.output],
    )
    return suite, choose_agents(settings.root, suite.files, explicit=settings.agent, mapping=settings.agents)


def _plan(
    settings: Settings, suite: Suite, choices: AgentChoices, models: ModelPool | None, without: Without | None
) -> Plan:
    from agent_eval.criteria.judged.judge import DEFAULT_JUDGE, Judge
    from agent_eval.runner.plan import make_plan, source_fingerprint

    agents = {path: choice.path for path, choice in choices.by_file.items()}
    directories = {choice.path: choice.directory(settings.root) for choice in choices.by_file.values()}
    fingerprints = {
        path: source_fingerprint(directory, skip=[settings.output]) for path, directory in directories.items()
    }
    judge = Judge(model=models, default_model=settings.judge_model or DEFAULT_JUDGE) if models is not None else None
    return make_plan(suite.files, agents, fingerprints, settings.num_runs, judge, without)


def _has_error(problems: Iterable[Problem]) -> bool:
    return any(problem.severity is Severity.ERROR for problem in problems)


async def _run(
    settings: Settings,
    clients: Clients,
    plan: Plan,
    choices: AgentChoices,
    report: RunReport,
    models: ModelPool | None,
) -> Outcome:
    from agent_eval.against_base import find_base
    from agent_eval.core.limiter import Limiter
    from agent_eval.gate.verdict import decide
    from agent_eval.report.bill import bill, bill_line
    from agent_eval.report.digest import close_votes
    from agent_eval.runner.journal import Journal
    from agent_eval.workbench import NotIsolated, open_isolation, open_workbench

    until = time.monotonic() + settings.run_timeout
    with contextlib.ExitStack() as stack, contextlib.ExitStack() as apart:
        try:
            isolation = apart.enter_context(open_isolation(settings, clients, choices))
        except NotIsolated as refused:
            return _write(settings, clients, _with_problems(report, refused.problems), lines=None)
        report = _with_problems(report, isolation.problems)
        _remove_results(settings, choices)
        journal = stack.enter_context(contextlib.closing(Journal(settings.output / JOURNAL, resume=settings.resume)))
        loading = asyncio.create_task(asyncio.to_thread(_load_scorers, plan))
        limiter = Limiter(settings.concurrency)
        async with (
            open_workbench(
                settings,
                clients,
                choices,
                isolation,
                journal=journal,
                limiter=limiter,
                models=models,
                until=until,
            ) as bench,
            _base_side(settings, clients, plan, choices, limiter, models, until) as side,
        ):
            finding = asyncio.create_task(find_base(settings, clients.situation, side))
            try:
                cases = report.cases = await bench.execute(plan, fail_fast=settings.fail_fast)
                await loading
                if not clients.stop.is_set():
                    repeatable = all(one.recording is None for one in choices.by_file.values())
                    await _against_base(
                        settings, clients, report, await finding, bench, plan, side, repeatable=repeatable
                    )
            finally:
                finding.cancel()
                await asyncio.gather(finding, return_exceptions=True)
        report.provenance |= bench.provenance
        if models is not None:
            report.model_usage = [bill(entry) for entry in models.ledger.by_model()]
            report.notices += [bill_line(one) for one in report.model_usage]
            report.notices += close_votes(cases)
        if bench.reused:
            report.notices.append(f"{plural(bench.reused, 'run')} taken from the journal of an earlier run")
        verdict = decide(cases)
        report.verdict, report.reasons = verdict.value, list(verdict.reasons)
        report.duration = round(time.time() - report.started_at, 3)
        complete = not any(case.status in {"not_run", "errored"} for case in cases)
        if not complete:
            report.notices.append(f"{JOURNAL} keeps what is done: with --resume the next run goes on from there")
        # Permissions come back first: the files must be readable for whoever uploads them.
        apart.close()
        outcome = _write(settings, clients, report, lines=journal.lines(bench.run_ids))
        journal.close(remove=complete)
    return outcome


def _base_side(
    settings: Settings,
    clients: Clients,
    plan: Plan,
    choices: AgentChoices,
    limiter: Limiter,
    models: ModelPool | None,
    until: float,
) -> contextlib.AbstractAsyncContextManager[BaseSide | None]:
    """The base's agent, if it may be asked for."""
    from agent_eval.base_side import BaseSide

    situation = clients.situation
    if not situation.compares or situation.wanted is None:
        return contextlib.nullcontext()

    def own_plan(base: Settings) -> tuple[Plan, AgentChoices]:
        suite, found = find(base)
        return _plan(base, suite, found, models, None), found

    side = BaseSide(
        settings=settings,
        clients=clients,
        plan=plan,
        choices=choices,
        git=situation.git,
        commit=situation.wanted.commit,
        remote=situation.remote,
        limiter=limiter,
        models=models,
        until=until,
        own_plan=own_plan if settings.baseline_evals == "base" else None,
    )
    return side.closing()


async def _against_base(
    settings: Settings,
    clients: Clients,
    report: RunReport,
    outcome: BaselineOutcome | None,
    bench: Workbench,
    plan: Plan,
    side: BaseSide | None,
    *,
    repeatable: bool,
) -> None:
    """Compares with the base, and finds out what of the difference is more than noise."""
    from agent_eval.against_base import Confirmation, history_of, told_baseline, told_decision
    from agent_eval.baseline.compatibility import with_head
    from agent_eval.gate.comparison import compare
    from agent_eval.gate.history import extend

    situation = clients.situation
    if situation.activity.kind == "record":
        report.history = extend(history_of(outcome, settings.history), report, settings.history)
        return
    if outcome is not None:
        outcome = with_head(outcome, report)
    report.baseline = told_baseline(situation, outcome)
    base, history = outcome.report if outcome else None, history_of(outcome, settings.history)
    if base is None or history is None:
        return
    report.comparison = compare(report, base)
    confirmation = Confirmation(
        settings=settings,
        clients=clients,
        bench=bench,
        plan=plan,
        side=side,
        report=report,
        history=history,
        same_day=report.baseline is not None and report.baseline.source == "rerun",
        repeatable=settings.gate != "thresholds" and repeatable,
    )
    decision = await confirmation.decide()
    report.decision = told_decision(decision, settings.policy.alpha)
    report.confirmations, report.base_runs = confirmation.head, confirmation.base
    report.notices += confirmation.notices


def _remove_results(settings: Settings, choices: AgentChoices) -> None:
    """An earlier run's file must not pass for this one's, unless this one reads it."""
    output = settings.output
    recordings = {(settings.root / one.recording).resolve() for one in choices.by_file.values() if one.recording}
    for name in FILES.values():
        if recordings.isdisjoint({output.resolve(), (output / name).resolve()}):
            (output / name).unlink(missing_ok=True)


def _load_scorers(plan: Plan) -> None:
    """Imports what scoring needs while the agents start, instead of when the first answer is there."""
    from agent_eval.criteria.tokenize import warm_up

    if any(criterion.name == "response_match_score" for planned in plan.cases for criterion in planned.criteria):
        warm_up()


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
    from agent_eval.report.results_json import results_pieces
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
    write_text(files["results-file"], results_pieces(report))
    write_text(files["junit-file"], junit_xml(report))
    shown = {name: relative(path, settings.root) for name, path in files.items()}
    summary = summary_markdown(report, source_url=clients.source_url, files=shown)
    write_text(files["summary-file"], summary)
    give_to_owner(output, settings.root)
    return Outcome(report=report, files=files)
