"""The pipeline: find and check the files, run the agents, score, compare, decide, write the reports.

Free of arguments, exit codes and signal handlers, so that a test, a pytest plugin or a notebook can call it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import logging
import time
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from agent_eval.baseline import FetchFailed
from agent_eval.pipeline._agents import agent_trees
from agent_eval.pipeline._base_rules import held_rules
from agent_eval.pipeline._causes import BothSides, toolset_warnings
from agent_eval.pipeline._checkout import Checkout, Resources, open_checkout, surroundings
from agent_eval.pipeline._draft import died_with_others, draft_report, misspelt_tools, with_problems
from agent_eval.pipeline._files import baseline_problems, find, placed, plan_runs, policy_problems
from agent_eval.pipeline._tapes import chosen_runs, is_missed, open_tapes, plan_tapes, replay_notices, tapes_unsupported
from agent_eval.pipeline.budget import Budget, open_bill, times
from agent_eval.pipeline.context import (
    Found,
    default_model,
    masker_of,
    model_settings,
    model_uses,
    open_models,
    prepare,
)
from agent_eval.pipeline.context import RunContext as RunContext
from agent_eval.pipeline.early import NotIsolated, isolate
from agent_eval.pipeline.features import Coverage, Feature, Run
from agent_eval.pipeline.output import Outcome as Outcome
from agent_eval.pipeline.output import Recorded, remove_results, warm_up, write, write_if_possible, write_refusal
from agent_eval.pipeline.queued import MergeQueue
from agent_eval.pipeline.shards import shards_of
from agent_eval_agents.protocol import AgentRefused
from agent_eval_agents.sandbox import AgentNotEnded
from agent_eval_results import JOURNAL, remove_logs
from agent_eval_scoring.core.limiter import Limiter
from agent_eval_scoring.core.problem import Problem, docs_page, has_error
from agent_eval_scoring.core.process import FULL, Begun
from agent_eval_scoring.evalset.models import LoadedFile

if TYPE_CHECKING:
    from pathlib import Path

    from agent_eval.gate.evaluation import Compared
    from agent_eval.gate.verdict import Verdict
    from agent_eval.pipeline._base_checkout import BaseCheckout
    from agent_eval.pipeline._regression import Base
    from agent_eval.pipeline.ci_context import CIContext
    from agent_eval.settings import Settings
    from agent_eval.settings.parsers import Shard
    from agent_eval_results import AgentTree, Reason, RunReport

_LOG = logging.getLogger(__name__)


def features_of(part: Shard | None, durations: Path | None, *, merges: bool) -> Sequence[Feature]:
    """The features of a run. Their hooks are called in this order."""
    alone = part is None and not merges  # The parts of a run don't know what the queue's parts had.
    return (
        # Shards first: a merge adds the usage of its parts to the report, to which the budget adds this job's.
        shards_of(part, durations, merges=merges),
        *([MergeQueue()] if alone else []),
        Budget(),
        Coverage(),
    )


async def run(settings: Settings, context: RunContext) -> Outcome:
    """Runs the whole pipeline.

    Returns:
        The report, already written to the output directory. Invalid files are a verdict, not an exception.

    Raises:
        OSError: The output directory can't be written.
        ValueError: `settings.agent_env` is invalid; `read_settings` reports this earlier.
    """
    found = context.found or Found(begun=Begun(), files=find(settings))
    begun, (suite, choices) = found.begun, found.files
    for file, choice in choices.by_file.items():
        _LOG.debug("%s: agent %s, %s", file, choice.path, choice.reason)
    async with contextlib.AsyncExitStack() as stack:
        rules = await held_rules(settings, context.ci, suite, choices, find)
        is_replay = settings.replay == "all" and not choices.recorded  # It is the same every time.
        settings = dataclasses.replace(settings, policy=rules.policy, num_runs=1 if is_replay else settings.num_runs)
        ruled = dataclasses.replace(suite, files=rules.files)
        uses = model_uses(ruled.files, settings.judge_model)
        configured, taped = model_settings(settings), settings.tape_mode == "all"
        models, unusable, without = await open_models(
            configured, context, uses, stack, settings.without_keys, settings.run_timeout, taped=taped
        )
        all_here = all(choice.runs_here for choice in choices.by_file.values())
        masker = masker_of(settings.agent_headers, settings.agent_env, context.environ, all_here=all_here)
        plan = plan_runs(settings, ruled, choices, models, without, masker)
        tapes = open_tapes(settings, rules.changed_tapes, masker, choices)
        plan = plan_tapes(plan, tapes)
        run = Run(
            settings=settings,
            context=context,
            begun=begun,
            suite=suite,
            files=ruled.files,
            choices=choices,
            rules=rules,
            models=models,
            bill=open_bill(configured, models),
            tapes=tapes,
            plan=plan,
            features=features_of(settings.shard, settings.shard_plan, merges=settings.merges),
            problems=[
                *suite.problems,
                *choices.problems,
                *plan.problems,
                *placed(unusable, settings.root),
                *policy_problems(settings, suite),
                *baseline_problems(settings.baseline, settings.gate, settings.root, context.ci),
                *tapes_unsupported(settings, choices),
            ],
        )
        for feature in run.features:
            feature.plan(run)
            run.problems += feature.problems(run)
        if has_error(run.problems):
            return write_refusal(settings, context, run.report)
        for feature in run.features:
            feature.before(run)
        silent = without.models if without is not None else frozenset()
        if settings.replay != "all" and any(use.model not in silent for use in uses):
            _log_plan(settings.num_runs, settings.judge_model, context, ruled.files, silent)
        if any(feature.idle for feature in run.features):
            _set_verdict(run, run.report, None)
            remove_logs(run.settings.output)
            return write(run.settings, context, run.report, Recorded(runs=(), cases=()))
        try:
            return await _run(run)
        except AgentNotEnded as error:
            # A process that still runs could read what is unsealed now: keep everything sealed, and don't pass.
            return write(run.settings, context, with_problems(run.report, [_not_ended(error)]))
        except AgentRefused as refused:
            return write(run.settings, context, with_problems(run.report, [refused.problem]))
        except OSError as error:
            if error.errno not in FULL:
                raise
            return write_if_possible(run.settings, context, with_problems(run.report, [_disk_full(error)]))


def _set_verdict(run: Run, report: RunReport, verdict: Verdict | None) -> Verdict:
    """Writes the verdict that holds into the report, and returns it; None: a feature has the only one."""
    for feature in run.features:
        verdict = feature.outcome(report, verdict)
    assert verdict is not None
    report.verdict, report.reasons = verdict.value, list(verdict.reasons)
    return verdict


def _not_ended(error: Exception) -> Problem:
    return Problem(
        code="agent-not-ended",
        message=f"At the end of the run {error}. The sealed directories stay sealed",
        hint="End these processes (as root) and run again: the next run unseals the directories "
        f"({docs_page('security')}).",
    )


def _disk_full(error: OSError) -> Problem:
    return Problem(
        code="disk-full",
        message=f"The run ended early: {error}",
        hint="Free space there and run again with --resume, which continues after the finished runs; or name another "
        "--output-dir. The agent may have filled it: look at what it writes.",
    )


def _log_plan(
    num_runs: int, judge_model: str | None, context: RunContext, files: Sequence[LoadedFile], silent: Collection[str]
) -> None:
    """Logs the planned model calls, without those of models that have no key."""
    from agent_eval_scoring.criteria.cost_estimate import estimate

    planned = estimate(files, num_runs=num_runs, default_model=default_model(judge_model))
    for file in planned.files:
        file.criteria = [criterion for criterion in file.criteria if criterion.model not in silent]
    asked = f"{times(planned.calls)} ({', '.join(planned.models)})"
    context.log(f"agent-eval: Judges and simulated users will be asked {asked}.")


def invalid(settings: Settings, context: RunContext, problems: Sequence[Problem]) -> Outcome:
    """The outcome for invalid settings."""
    return write_refusal(settings, context, draft_report(settings, context, Begun(), problems, []))


async def _run(run: Run) -> Outcome:
    """Runs what is planned, and writes the results."""
    from agent_eval.pipeline._base_checkout import open_base_checkout
    from agent_eval.runner import Journal

    settings, context, plan, choices = run.settings, run.context, run.plan, run.choices
    until = time.monotonic() + settings.run_timeout
    with contextlib.ExitStack() as stack, contextlib.ExitStack() as apart:
        try:
            isolation = isolate(settings, context, apart, runs_here=choices.runs_here)
        except NotIsolated as refused:
            return write_refusal(settings, context, with_problems(run.report, refused.problems))
        prepared = await prepare(settings, context, choices, isolation, until=until)
        problems = [*isolation.problems, *prepared.problems]
        if has_error(problems):
            apart.close()
            return write_refusal(settings, context, with_problems(run.report, problems))

        @functools.cache
        def drafted() -> RunReport:
            return with_problems(run.report, problems)

        remove_results(settings.output, settings.root, choices)
        journal = stack.enter_context(contextlib.closing(Journal(settings.output / JOURNAL, resume=settings.resume)))
        compares = context.ci.baseline_request is not None
        waits = not any(feature.computes for feature in run.features)  # Else it would only compute later.
        loading = asyncio.create_task(
            load_meanwhile(settings.report, compares=compares, waits=waits, starts=waits and choices.runs_here)
        )
        limiter = Limiter.of(settings.concurrency, remote=choices.remote)
        resources = Resources(
            journal=journal,
            limiter=limiter,
            models=run.models,
            until=until,
            tapes=run.tapes,
            bill=run.bill,
            around=surroundings(
                isolation,
                prepared,
                settings.root,
                settings.written_directories,
                (settings.agent_requirements, settings.agent_cwd, settings.agent_setup, settings.servers),
            ),
        )
        async with (
            open_checkout(settings, context, choices, isolation, resources, plan, prepared) as checkout,
            open_base_checkout(checkout, plan, choices) as base_checkout,
        ):
            base = None
            base_agents: Sequence[AgentTree] = ()
            if not all(feature.judges for feature in run.features):
                verdict = _set_verdict(run, await _with_cases(run, drafted, checkout), None)
            else:
                verdict, base = await _judged(run, drafted, checkout, base_checkout)
                if base is not None:
                    base_agents = base.report.agents
                if not base_agents and base_checkout is not None:  # those of its runs of today
                    base_agents = base_checkout.agents
            await loading
        report = drafted()
        from agent_eval.gate.stats import pass_rates
        from agent_eval_results import NOT_COMPARED
        from agent_eval_results.data.conversations import attach_conversations
        from agent_eval_results.report.phrases import pass_rates_notices, say, text
        from agent_eval_results.report.views.grouping import branch_name

        report.provenance |= {name: value for name, value in checkout.provenance.items() if value}
        if settings.concurrency is None and resources.limiter.peak:
            report.provenance["concurrency"] = resources.limiter.summary
        report.pass_rates = pass_rates(report.cases, report.num_runs)
        branch = branch_name(report)
        said = [reason.data.get("because") for reason in verdict.reasons]  # The first note of an advisory gate.
        report.warnings = [*(text(warning, branch) for warning in verdict.warnings), *died_with_others(report)]
        report.warnings += [*toolset_warnings(report), *misspelt_tools(report, settings.tool_rules)]
        if run.tapes is not None:
            adk = {path: agent.provenance.get("adk", "") for path, agent in checkout.agents.items()}
            run.remarks += [  # Beside those of features, e.g. of a merge queue.
                *replay_notices(report, run.tapes.ages, checkout.not_replayed, run.bill),
                *run.tapes.notices(adk),
                *run.tapes.write(adk, chosen_runs(report.cases)),
            ]
            report.warnings += run.tapes.unwritten
        report.notices += [
            *pass_rates_notices(report.pass_rates),
            *(notice for feature in run.features for notice in feature.notices(run, report)),
            *(text(note, branch) for note in verdict.notes if note not in said),
        ]
        report.notices += [remark for remark in run.remarks if remark not in report.notices]
        if report.origin is not None and (changed := report.origin.uncommitted):
            report.notices.append(say("uncommitted", subject=report.origin.commit[:8], files=changed))
        if checkout.reused:
            report.notices.append(say("runs-reused", count=checkout.reused))
        if journal.damaged_line is not None:
            report.notices.append(say("journal-damaged", file=JOURNAL, line=journal.damaged_line))
        report.duration = run.begun.duration()
        waiting = report.every_case
        open_ends = report.has_reason(NOT_COMPARED) or any(
            # A replay of models would miss again.
            case.lacks_result and not (settings.replay == "all" and is_missed(case))
            for case in waiting
        )
        complete = not (waits and open_ends)  # What other jobs have run is not resumed.
        # On a runner the directory is gone afterwards; what was recorded is not resumed.
        kept = not complete and any(case.is_judged for case in report.cases)
        if kept and not context.ci.event.name and settings.record == "off":
            report.notices.append(say("journal-kept", file=JOURNAL))
        if report.has_verdict:
            sides = BothSides(
                report=report, plan=plan, recording_of=journal.recording, base=base, output=settings.output
            )
            sides.explain(base_agents, settings.root, context.ci)
        attach_conversations(report, {case.case_id: case.case for case in plan.cases}, journal.recording)
        # Restore permissions first: the step that uploads the files must be able to read them.
        apart.close()
        recorded = Recorded(
            runs=journal.lines(dict.fromkeys(checkout.run_ids)),
            cases=plan.cases,
            tapes_missing=run.tapes is not None and bool(run.tapes.unwritten),
        )
        journal.release_reserve()
        outcome = write(settings, context, report, recorded)
        journal.close(remove=complete)
    return dataclasses.replace(outcome, memory=run.memory)


async def _with_cases(
    run: Run, drafted: Callable[[], RunReport], checkout: Checkout, *, fail_fast: bool = False
) -> RunReport:
    """The report with its cases: those that a feature has from elsewhere, or those that have run."""
    found = [cases for feature in run.features if (cases := await feature.cases(run, checkout)) is not None]
    [cases] = found or [await checkout.execute(run.plan, fail_fast=fail_fast)]
    report = drafted()
    report.cases = list(cases)
    report.agents = agent_trees(checkout)
    for feature in run.features:
        feature.after(report, checkout)
    return report


async def _judged(
    run: Run, drafted: Callable[[], RunReport], checkout: Checkout, base_checkout: BaseCheckout | None
) -> tuple[Verdict, Base | None]:
    """Runs the plan while the base's results are fetched, compares and decides.

    Returns:
        The verdict, and the base's results; None if there are none, or the run was stopped before.
    """
    from agent_eval.pipeline._attempts import memory_of
    from agent_eval.pipeline._facts import hold_to_facts
    from agent_eval.pipeline._regression import compare_with_base, find_base, pair_with_base

    settings, ci, plan, rules = checkout.settings, checkout.context.ci, run.plan, run.rules
    stop = checkout.context.stop
    finding = asyncio.create_task(find_base(settings.baseline, settings.root, settings.num_runs, ci, base_checkout))
    try:
        repeatable = all(choice.driver.repeatable for choice in run.choices.by_file.values())
        fail_fast = settings.fail_fast and failure_blocks(settings.gate, ci, repeatable=repeatable)
        report = await _with_cases(run, drafted, checkout, fail_fast=fail_fast)
        from agent_eval.gate.regression import apply_policy
        from agent_eval.gate.verdict import decide, unfinished
        from agent_eval_results import NOT_COMPARED, Reason
        from agent_eval_results.report.phrases import say

        report.cases = apply_policy(report.cases, settings.policy, min_pass_rate=settings.min_pass_rate)
        report.verdict = decide(report.cases).value  # Until it is decided: what is compared has been run.
        compared, baseline, base = None, None, None
        stopped = stop.is_set()
        if not stopped:  # A stopped run doesn't wait for GitHub.
            baseline = await finding
            base = pair_with_base(report, baseline, settings.history, plan)
            compared = await compare_with_base(
                report, baseline, base, checkout, plan, base_checkout, repeatable=repeatable, hold=hold_to_facts
            )
            # Runs of other jobs or of an earlier attempt would count twice, as that one's and as this one's.
            if not settings.merges and not checkout.reused:
                run.memory = memory_of(report, compared.gathered if compared is not None else None)
        if settings.fail_fast and not fail_fast:
            compares = compared is not None or stopped
            report.notices.append(say("fail-fast-compared" if compares else "fail-fast-alone"))
    finally:
        finding.cancel()
        await asyncio.gather(finding, return_exceptions=True)
    report.rule_changes = rules.report(report.cases)
    changed_rules = rules.reasons(report.cases)
    missing = baseline or ci.no_baseline
    base_outage = missing.outage if isinstance(missing, FetchFailed) else None
    verdict = decide_on(report, checkout, compared, changed_rules, repeatable=repeatable, base_outage=base_outage)
    if stopped and ci.baseline_request is not None and not verdict.is_inconclusive:
        verdict = unfinished(verdict, Reason.of(NOT_COMPARED, records=ci.activity.kind == "record"))
    return _set_verdict(run, report, verdict), base


def failure_blocks(gate: str, ci: CIContext, *, repeatable: bool) -> bool:
    """Whether a failed case blocks whatever the base branch's results: only then does `fail-fast` end the run.

    Args:
        gate: The setting.
        ci: Says whether the run is compared with a base branch.
        repeatable: False for recorded answers.
    """
    if not ci.compares or ci.baseline_request is None or gate in {"thresholds", "both"}:
        return True
    return gate == "auto" and not repeatable


def decide_on(
    report: RunReport,
    checkout: Checkout,
    compared: Compared | None,
    rules: Sequence[Reason] = (),
    *,
    repeatable: bool,
    base_outage: Reason | None = None,
) -> Verdict:
    """Decides, and writes the verdict into the report.

    Args:
        report: With its cases, after the policy was applied.
        checkout: The head's.
        compared: Result of `compare_with_base`.
        rules: Reasons to fail whatever the cases did.
        repeatable: False for recorded answers.
        base_outage: See `evaluate`.
    """
    from agent_eval.gate.evaluation import evaluate
    from agent_eval.gate.verdict import no_secrets

    settings, ci = checkout.settings, checkout.context.ci
    verdict = evaluate(
        report.cases,
        settings.policy,
        # Recorded answers don't vary and can't be repeated, so the thresholds alone decide.
        gate="thresholds" if settings.gate == "auto" and not repeatable else settings.gate,
        pull_request=ci.compares,
        compared=compared,
        base_outage=base_outage,
        rules=rules,
    )
    about = ci.activity
    if verdict.is_inconclusive and about.secrets_withheld:
        is_fork = about.pull_request is not None and about.pull_request.is_fork
        if (cause := no_secrets(report.cases, is_fork=is_fork)) is not None:
            verdict = dataclasses.replace(verdict, reasons=(cause, *verdict.reasons))
    report.verdict, report.reasons, report.gate = verdict.value, list(verdict.reasons), verdict.mode
    report.blocking = list(verdict.blocking)
    return verdict


_STARTS = 0.1
"""Seconds in which the agents' processes are started. A second thread of ours would only delay that."""


async def load_meanwhile(report: str, *, compares: bool, waits: bool, starts: bool) -> None:
    """Imports what the decision and the reports need while the agents start and answer, not when it is needed.

    Args:
        report: The setting.
        compares: Whether there may be a comparison with the base branch.
        waits: Whether the run waits for agents.
        starts: Whether it starts their processes.
    """
    if starts:
        await asyncio.sleep(_STARTS)
        from agent_eval.runner.scoring import build_models

        build_models()
    await asyncio.to_thread(_load, report, compares=compares, waits=waits)


def _load(report: str, *, compares: bool, waits: bool) -> None:
    from agent_eval_results import RunReport

    RunReport.model_rebuild()  # builds its validator and those of all models in it
    if compares:
        import numpy as np  # noqa: F401 - for the statistics of the comparison
    import agent_eval.gate.evaluation  # noqa: F401
    import agent_eval.gate.history  # noqa: F401
    import agent_eval.gate.regression  # noqa: F401
    import agent_eval.gate.rule_changes  # noqa: F401

    if waits:
        warm_up(report)
