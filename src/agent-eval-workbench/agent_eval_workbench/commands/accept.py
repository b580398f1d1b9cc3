"""`agent-eval accept`: makes what the agent did the expectation of the cases that failed."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from agent_eval.baseline.reader import StoredResults, UnreadableError, check_ran, open_results, shown
from agent_eval.commands import CliIO
from agent_eval.commands.start import log_problems, log_start_directory, settings_of
from agent_eval.commands.stored_run import select_cases, split_words
from agent_eval_results import CaseReport, RunReport
from agent_eval_results.data.conversations import conversation_of, telling_first
from agent_eval_results.outcome import Lookups
from agent_eval_results.report.renderers import RunView, case_text
from agent_eval_results.report.views import visible
from agent_eval_scoring.core.problem import has_error
from agent_eval_scoring.core.text import harmless, plural, without_commands
from agent_eval_scoring.evalset.json import PatchError
from agent_eval_workbench.authoring.acceptance import (
    Decisions,
    Offer,
    Options,
    WorkingTree,
    accept_all,
    find_prospects,
    listing,
)
from agent_eval_workbench.authoring.expectation import FIELDS
from agent_eval_workbench.authoring.proposals import Proposal
from agent_eval_workbench.authoring.prospects import Prospect
from agent_eval_workbench.authoring.review import Review, Tools
from agent_eval_workbench.authoring.review_text import summary
from agent_eval_workbench.authoring.terminal import Terminal, edit, has_terminal
from agent_eval_workbench.authoring.writing import by_file, changed_text, patch_problem, unified, write

_NO_TERMINAL = (
    "agent-eval: accept asks about each case, and there is no terminal. Use --list to see what may be accepted, "
    "--dry-run for the changes as a diff, or --all to accept everything that holds."
)
_IN_CI = (
    "agent-eval: accept --all changes expectations that no one has looked at, and CI is set: a person should do that. "
    "Add --yes if that is meant."
)
_AFTERWARDS = (
    "On a pull request a changed case is held to its thresholds instead of being compared, and the comment lists it."
)


def execute(arguments: argparse.Namespace, io: CliIO) -> int:
    """Runs the command and returns its exit code."""
    asks = not (arguments.all or arguments.list or arguments.dry_run)
    if arguments.all and not (arguments.dry_run or arguments.list or arguments.yes) and io.environ.get("CI"):
        io.log(_IN_CI)
        return 2
    log_start_directory(io)
    settings, problems = settings_of(arguments, io)
    if has_error(problems):
        log_problems(problems, io)
        return 2
    path, words = split_words(arguments.words, Path.cwd())
    try:
        with open_results(path) as stored:
            check_ran(stored.report, path)
            if asks and not has_terminal():
                io.log(_NO_TERMINAL)
                return 2
            tree = WorkingTree(
                root=settings.root, exclude=settings.exclude, config=settings.config, skip=[settings.output]
            )
            return _accept(stored, words, arguments, io, tree)
    except UnreadableError as error:
        io.log(f"agent-eval: {error}")
        return 2
    except KeyboardInterrupt:
        io.log("agent-eval: nothing was written")
        return 130


def _accept(
    stored: StoredResults, words: Sequence[str], arguments: argparse.Namespace, io: CliIO, tree: WorkingTree
) -> int:
    source = shown(stored.path)
    cases = select_cases(stored.report, words, source) if words else _not_passed(stored.report)
    options = Options(
        only=frozenset(arguments.only), run=arguments.run, calls_from=arguments.calls, rescore=not arguments.no_rescore
    )
    unknown = _unknown(arguments.only, cases)
    if unknown:
        io.log(f"agent-eval: --only {harmless(unknown)}: {_only_hint(cases)}")
        return 2
    offer = find_prospects(stored, cases, tree, _named(words, stored.report), options)
    if arguments.list:
        io.print_result("\n".join(listing(offer, options)))
        return 0
    if not cases:
        io.print_result(f"No case of {source} failed; there is nothing to accept.")
        return 0
    if arguments.all or arguments.dry_run:
        decisions = accept_all(offer.prospects, options)
    else:
        decisions = _review(offer.prospects, stored, options, io)
    decisions.refusals[:0] = [refusal.problem for refusal in offer.refusals]
    if arguments.dry_run:
        return _dry_run(decisions, io)
    return _write(decisions, offer, stored, tree, io)


def _not_passed(report: RunReport) -> list[CaseReport]:
    bad = {case.case_id for case in Lookups(report=report).to_look_at()}
    return [case for case in report.cases if case.case_id in bad or case.had_in_quarantine("failed")]


def _named(words: Sequence[str], report: RunReport) -> set[str]:
    """The files that the user has named in full."""
    files = {case.file for case in report.cases}
    spelled = {word.removeprefix("./") for word in words}
    return {file for file in files if any(word == file or word.startswith(f"{file}:") for word in spelled)}


def _unknown(only: Iterable[str], cases: Sequence[CaseReport]) -> str:
    names = {*FIELDS, *(metric.name for case in cases for metric in case.metrics)}
    return next((name for name in only if name not in names), "")


def _only_hint(cases: Sequence[CaseReport]) -> str:
    names = sorted({metric.name for case in cases for metric in case.metrics if metric.threshold is not None})
    listed = f" The metrics of these cases: {', '.join(names)}." if names else ""
    return harmless(f"no such field or metric. The fields are calls, final and intermediate.{listed}")


def _review(prospects: Sequence[Prospect], stored: StoredResults, options: Options, io: CliIO) -> Decisions:
    tools = Tools(
        edit=lambda text, name: edit(text, name, io.environ),
        details=lambda prospect: _details(prospect, stored.report, io),
    )
    review = Review(prospects=prospects, options=options, terminal=Terminal(color=io.color), tools=tools)
    return review.run()


def _details(prospect: Prospect, report: RunReport, io: CliIO) -> str:
    """The case as `agent-eval show` prints it: its runs, scores, reasons and votes."""
    case = prospect.report
    runs = report.runs_of(case)
    shown = telling_first(runs)[0]
    recording = next((item for item in prospect.runs if item.run_id == shown.run_id), None)
    view = RunView(
        case=case,
        runs=runs,
        shown=shown,
        conversation=conversation_of(recording, prospect.case) if recording else case.conversation,
        is_whole=recording is not None,
        added=[part for part in report.confirmations if part.case_id == case.case_id],
    )
    return case_text(view, width=io.width, color=io.color)


def _dry_run(decisions: Decisions, io: CliIO) -> int:
    for file, proposals in by_file(decisions.accepted):
        try:
            text = changed_text(file, proposals)
        except PatchError as error:
            decisions.refusals.append(patch_problem(file.loaded.path, error))
            continue
        diff = unified(file.text, text, file.loaded.path)
        io.print_result(without_commands(visible(diff)).rstrip("\n"))
    log_problems(decisions.refusals, io)
    return 1 if has_error(decisions.refusals) else 0


def _write(decisions: Decisions, offer: Offer, stored: StoredResults, tree: WorkingTree, io: CliIO) -> int:
    written: list[Proposal] = []
    try:
        for file, proposals in by_file(decisions.accepted):
            problems = write(tree.root, file, proposals)
            decisions.refusals += problems
            if not problems:
                written += proposals
                io.print_result(f"{harmless(file.loaded.path)}: {plural(len(proposals), 'case')} changed")
                io.print_result("\n".join(f"  {summary(proposal)}" for proposal in proposals))
    except KeyboardInterrupt:
        io.log("agent-eval: interrupted while files were written; each is either as it was or complete")
        return 130
    is_refused = has_error(decisions.refusals)
    if not written:
        io.print_result("Nothing was accepted." if is_refused else "There is nothing left to accept.")
    else:
        for line in _next_steps(written, stored):
            io.print_result(line)
    log_problems(decisions.refusals, io)
    return 1 if is_refused else 0


def _next_steps(written: Sequence[Proposal], stored: StoredResults) -> Iterable[str]:
    yield _AFTERWARDS
    quarantined = [p.prospect.report.eval_id for p in written if p.prospect.report.is_quarantined]
    if quarantined:
        yield harmless(f"Remove from [[quarantine]] in agent-eval.toml: {', '.join(quarantined)}")
    judged = [proposal for proposal in written if proposal.judged]
    if judged:
        ids = " ".join(f"'{proposal.prospect.report.case_id}'" for proposal in judged[:5])
        more = " ..." if len(judged) > 5 else ""
        folder = "DIRECTORY (unpack the zip)" if stored.unpacked else str(stored.folder)
        names = ", ".join(sorted({name for proposal in judged for name in proposal.judged}))
        yield harmless(f"To let the judge score {names} again: agent-eval run {ids}{more} --agent recorded:{folder}")
