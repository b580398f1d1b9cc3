"""`agent-eval mutate`: which mistakes the criteria of stored runs would miss, and what would notice them."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import time
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from agent_eval.baseline.reader import StoredResults, UnreadableError, check_ran, open_results, shown
from agent_eval.commands import CliIO
from agent_eval.commands.start import log_problems, log_start_directory, settings_of
from agent_eval.commands.stored_run import select_cases, split_words
from agent_eval.gate.policy import PolicyReader
from agent_eval.pipeline import default_model, load, model_settings, model_uses, placed
from agent_eval.settings import Settings
from agent_eval_results.report.views import visible
from agent_eval_scoring.core.problem import has_error
from agent_eval_scoring.core.text import harmless, without_commands
from agent_eval_scoring.evalset.json import PatchError
from agent_eval_scoring.evalset.models import JUDGED_METRICS
from agent_eval_workbench.authoring.terminal import Terminal, has_terminal
from agent_eval_workbench.authoring.writing import patch_problem, unified
from agent_eval_workbench.mutation.advice import Change, new_text, write
from agent_eval_workbench.mutation.report import LeftOut, MutationReport, text_of_report
from agent_eval_workbench.mutation.subjects import Rules, find_subjects
from agent_eval_workbench.mutation.survey import survey

NOTHING = 3
"""The exit code if there is nothing to mutate."""
JUDGE_CALLS = 200
"""The budget of `--judges` without `--max-judge-calls`."""
_PROMPT = "write this to {}? [y yes, n no, d diff, q stop] "


def execute(arguments: argparse.Namespace, io: CliIO) -> int:
    """Runs the command and returns its exit code."""
    log_start_directory(io)
    settings, problems = settings_of(arguments, io)
    log_problems(problems, io)
    if has_error(problems):
        return 2
    path, words = split_words(arguments.words, Path.cwd())
    try:
        with open_results(path) as stored:
            check_ran(stored.report, path)
            found = asyncio.run(_surveyed(stored, words, arguments, settings, io))
    except UnreadableError as error:
        io.log(f"agent-eval: {error}")
        return 2
    if found is None:
        return 2
    report, changes = found
    is_text = arguments.format == "text"
    if is_text:
        nothing = [] if report.mutants else [f"There is nothing to mutate in {harmless(str(path))}."]
        io.print_result("\n".join([*nothing, *text_of_report(report)]))
    asks = is_text and not arguments.apply and has_terminal()
    chosen = [change for change in changes if change.config.writable]
    chosen = _asked(chosen, io) if asks else chosen if arguments.apply else []
    written: list[str] = []
    for name, group in groupby(chosen, lambda change: change.config.path):
        try:
            write(settings.root, list(group))
            written.append(name)
        except PatchError as error:
            log_problems([patch_problem(name, error)], io)
            return 2
    for advice in report.advice:
        advice.applied = advice.config in written
    if not is_text:
        io.print_result(report.model_dump_json(indent=2))
    elif written:
        io.print_result(harmless(f"Written: {', '.join(written)}"))
    elif any(change.config.writable for change in changes) and not asks:
        io.print_result("Add --apply to write this.")
    score = report.total.score
    if score is None:
        return NOTHING if not report.mutants or arguments.min_score is not None else 0
    return int(arguments.min_score is not None and score < arguments.min_score)


async def _surveyed(
    stored: StoredResults, words: Sequence[str], arguments: argparse.Namespace, settings: Settings, io: CliIO
) -> tuple[MutationReport, list[Change]] | None:
    """The survey; None if judges can't be asked."""
    suite = load(dataclasses.replace(settings, paths=()))
    cases = select_cases(stored.report, words, shown(stored.path)) if words else stored.report.cases
    names = {case.case_id for case in cases}
    uses = [use for use in model_uses(suite.files, settings.judge_model) if use.case_id in names]
    uses = [use for use in uses if arguments.judges and use.purpose in JUDGED_METRICS]
    rules = Rules(policy=PolicyReader(settings.policy), tool_args=settings.tool_args)
    pool = None
    async with contextlib.AsyncExitStack() as stack:
        if uses:
            from agent_eval_scoring.criteria.judged import Judge
            from agent_eval_scoring.models.check import check_models, credential_problems
            from agent_eval_scoring.models.pool import open_models

            config = model_settings(settings)
            budget = dataclasses.replace(config.budget, max_calls=config.budget.max_calls or JUDGE_CALLS)
            config = dataclasses.replace(config, budget=budget)
            problems = placed(check_models(uses, config, io.environ).problems, settings.root)
            until = time.monotonic() + settings.run_timeout
            models = list(dict.fromkeys(use.model for use in uses))
            pool = await stack.enter_async_context(open_models(config, io.environ, models=models, until=until))
            problems += [] if has_error(problems) else credential_problems(await pool.prepare())
            log_problems(problems, io)
            if has_error(problems):
                return None
            judge = Judge(model=pool, default_model=default_model(settings.judge_model))
            rules = dataclasses.replace(rules, judge=judge)
        left_out: list[LeftOut] = []
        subjects = list(find_subjects(stored, cases, suite, rules, left_out))
        report, changes = await survey(subjects, suite, rules, settings.root, arguments.seed, left_out)
        report.judge_calls = None if pool is None else sum(entry.calls for entry in pool.ledger.by_model())
    return report, changes


def _asked(changes: Sequence[Change], io: CliIO) -> list[Change]:
    """The changes of those configs that the user wants."""
    terminal, chosen = Terminal(color=io.color), list[Change]()
    for path, group in groupby(changes, lambda change: change.config.path):
        of_config = list(group)
        while (key := terminal.read_key(_PROMPT.format(harmless(path)))) == "d":
            config = of_config[0].config
            diff = unified(config.text or "", new_text(of_config), config.path)
            io.print_result("\n" + without_commands(visible(diff)).rstrip("\n"))
        io.print_result(harmless(key) if key.isprintable() else "")
        if key in {"q", ""}:
            break
        chosen += of_config if key == "y" else []
    return chosen
