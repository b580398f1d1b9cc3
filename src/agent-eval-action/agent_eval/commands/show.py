"""`agent-eval show`: shows what the agent did in a case, from the output files of a run."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_eval.baseline.reader import StoredResults, UnreadableError, check_ran, open_results
from agent_eval.commands import CliIO
from agent_eval.commands.stored_run import expected_cases, read_recordings, select_cases, split_words
from agent_eval_results import CaseReport, ConversationReport, Recording, RunReport, RunResult
from agent_eval_results.data.conversations import conversation_of, telling_first
from agent_eval_results.outcome import Lookups
from agent_eval_results.report.phrases import answer_lines
from agent_eval_results.report.renderers import RunView, case_text
from agent_eval_results.report.renderers.results_json import results_json
from agent_eval_results.report.views import view_of
from agent_eval_scoring.core.text import harmless, plural
from agent_eval_scoring.evalset.models import EvalCase


def execute(arguments: argparse.Namespace, io: CliIO) -> int:
    """Runs the command and returns its exit code."""
    root = Path.cwd()
    try:
        results, cases = split_words(arguments.words, root)
        request = Request(results=results, cases=cases)
        if arguments.format == "json":
            text = _as_json(request, root, arguments.run)
        else:
            text = show(request, root, run=arguments.run, width=io.width, color=io.color)
    except UnreadableError as error:
        io.log(f"agent-eval: {error}")
        return 2
    io.print_result(text.rstrip())
    return 0


@dataclass(frozen=True, kw_only=True)
class Request:
    """The cases to show."""

    results: Path
    cases: Sequence[str] = ()
    """Selectors as for `run`; empty for the cases that did not pass."""
    every: bool = False
    """Show all cases and ignore `cases`."""


def show(request: Request, root: Path, *, run: int | None = None, width: int = 100, color: bool = False) -> str:
    """The cases as text for a terminal.

    Args:
        request: The results and the cases.
        root: The repository. Without the run's cases.jsonl.gz, expectations are complete only if its eval files have
            not changed since.
        run: The run of each case, from 1; None for the one that explains most: a failed run, else one with an error.
        width: Columns.
        color: Whether to write ANSI colours.

    Raises:
        UnreadableError: The results or the recordings can't be read, or do not contain the case or run.
    """
    with open_results(request.results) as stored:
        if not request.every:
            check_ran(stored.report, request.results)
        return _shown(stored, request, root, run=run, width=width, color=color)


def _as_json(request: Request, root: Path, run: int | None) -> str:
    """The cases with whole conversations, as in results.json, and what the report says of several cases."""
    with open_results(request.results) as stored:
        check_ran(stored.report, request.results)
        cases = _selected(stored.report, request.cases, harmless(str(request.results)))
        for read in _read(stored, cases, root, run):
            read.case.conversation = read.conversation
        whole = json.loads(results_json(stored.report.changed(cases=cases)))
    shown = {name: whole.get(name, []) for name in ("verdict", "causes", "agent_changes", "cases")}
    changed = (whole.get("comparison") or {}).get("changed_answers", [])
    ids = {case.case_id for case in cases}
    shown["changed_answers"] = [each for each in changed if each["case_id"] in ids]
    return json.dumps(shown, indent=1, ensure_ascii=False)


@dataclass(frozen=True, kw_only=True)
class _Read:
    """A case with a run of it."""

    case: CaseReport
    result: RunResult | None
    conversation: ConversationReport | None
    is_whole: bool


def _read(stored: StoredResults, cases: Sequence[CaseReport], root: Path, run: int | None) -> Iterator[_Read]:
    runs = {case.case_id: _run_of(case, stored.report, run) for case in cases}
    recordings = read_recordings(stored.folder, {result.run_id for result in runs.values() if result is not None})
    expected = expected_cases(cases, stored.folder, root)
    for case in cases:
        result = runs[case.case_id]
        recording = recordings.get(result.run_id) if result is not None else None
        yield _Read(
            case=case,
            result=result,
            conversation=_conversation(case, result, recording, expected.get(case.case_id)),
            is_whole=recording is not None,
        )


def _shown(stored: StoredResults, request: Request, root: Path, *, run: int | None, width: int, color: bool) -> str:
    report = stored.report
    source = harmless(str(request.results))
    cases = list(report.cases) if request.every else _selected(report, request.cases, source)
    if request.every and not cases:
        return ""
    if not cases:
        passed = plural(report.totals.passed, "case")
        return f"No case of {source} failed or could not be evaluated; {passed} passed. Name the cases to show.\n"
    texts = [f"{source} is {report.caution}.\n"] if report.caution and not request.every else []
    texts += [_text(read, report, width=width, color=color) for read in _read(stored, cases, root, run)]
    return "\n".join(texts)


def _selected(report: RunReport, selectors: Sequence[str], source: str) -> list[CaseReport]:
    return select_cases(report, selectors, source) if selectors else Lookups(report=report).to_look_at()


def _run_of(case: CaseReport, report: RunReport, number: int | None) -> RunResult | None:
    runs = report.runs_of(case)
    if number is None:
        return next(iter(telling_first(runs)), None)
    result = next((run for run in runs if run.run == number - 1), None)
    if result is None:
        numbers = ", ".join(str(run.run + 1) for run in runs) or "none"
        raise UnreadableError(f"{harmless(case.case_id)} has no run {number}.", f"Its runs: {numbers}.")
    return result


def _text(read: _Read, report: RunReport, *, width: int, color: bool) -> str:
    view = RunView(
        case=read.case,
        runs=report.runs_of(read.case),
        shown=read.result,
        conversation=read.conversation,
        is_whole=read.is_whole,
        added=[part for part in report.confirmations if part.case_id == read.case.case_id],
        remarks=answer_lines(view_of(report), read.case.case_id),
    )
    return case_text(view, width=width, color=color)


def _conversation(
    case: CaseReport, result: RunResult | None, recording: Recording | None, expected: EvalCase | None
) -> ConversationReport | None:
    stored = case.conversation
    if stored is None or result is None or stored.run != result.run:
        stored = None
    if recording is None:
        return stored
    conversation = conversation_of(recording, expected)
    if expected is None and stored is not None:
        # The eval file was removed or changed. results.json has excerpts of its expectations at the time of the run.
        excerpts = {turn.turn: turn for turn in stored.turns}
        for turn in conversation.turns:
            if (excerpt := excerpts.get(turn.turn)) is not None:
                turn.expected_calls, turn.expected_answer = excerpt.expected_calls, excerpt.expected_answer
                turn.calls_as_expected = excerpt.calls_as_expected
                turn.expected_said = excerpt.expected_said
    return conversation
