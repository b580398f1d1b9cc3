"""Everything that a run says in English. Below this package a reason is a code with data.

A code's phrase is its row in `SENTENCES` of one of the private modules, or the function of that name, with underscores
for the hyphens: what stands in braces, or its parameters, are the facts that it needs (`agent_eval_results.Facts`). To
reword something, search for its code here.
"""

from __future__ import annotations

import inspect
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Unpack

from agent_eval_results import CaseDecisionReport, CaseReport, ComparisonReport, Facts, Reason, RunReport
from agent_eval_results.data.origin import PULL_REQUEST
from agent_eval_results.data.outcome import RunOutcome
from agent_eval_results.report.phrases import _cases, _evidence, _notes, _run, _verdict
from agent_eval_results.report.phrases._agent_changes import (
    agent_change,
    agent_changes,
    agent_unchanged,
    coverage_lines,
    relevant_changes,
    uncovered_changes,
)
from agent_eval_results.report.phrases._answers import (
    answer_lines,
    changed_lines,
    changed_note,
    changed_overview,
    changed_place,
    changed_title,
    changed_verb,
    sides,
)
from agent_eval_results.report.phrases._causes import (
    cause_evidence,
    cause_line,
    cause_sentence,
    cause_title,
    changed_here,
    changed_lead,
    place_name,
    place_reference,
)
from agent_eval_results.report.phrases._headline import headline, headline_status, other_reasons
from agent_eval_results.report.phrases._next import Page, Step, ToRun, next_label, next_step, next_text, sentence
from agent_eval_results.report.phrases._run import RAISED, RAN_LIVE
from agent_eval_results.report.phrases._significance import (
    are_alike,
    case_details,
    case_difference,
    case_evidence,
    change_label,
    drift_notices,
    extra_runs,
    metric_base_notes,
    pass_rates_notices,
    suite_lines,
    why_not_passed,
)
from agent_eval_results.report.phrases._words import STATUSES, VERDICTS, as_often, evidence, lacking, parts
from agent_eval_results.report.views.digest import backend_notes, missing_verdict_notes, truncation_notes
from agent_eval_results.report.views.grouping import NO_NAME, View, branch_name
from agent_eval_scoring.core.text import shorten


class _Sentence:
    """A row of `SENTENCES` as a function of its facts."""

    def __init__(self, template: str) -> None:
        self.template = template
        names = [name for _, name, _, _ in string.Formatter().parse(template) if name]
        self.__signature__ = inspect.Signature([inspect.Parameter(name, _BY_NAME) for name in dict.fromkeys(names)])

    def __call__(self, **facts: object) -> str:
        return self.template.format(**facts)


_BY_NAME = inspect.Parameter.KEYWORD_ONLY


def _phrases(module: ModuleType) -> Iterator[tuple[str, Callable[..., str]]]:
    yield from ((code, _Sentence(template)) for code, template in module.SENTENCES.items())
    for name, function in vars(module).items():
        if inspect.isfunction(function) and function.__module__ == module.__name__ and not name.startswith("_"):
            yield name.replace("_", "-"), function


PHRASES: Mapping[str, Callable[..., str]] = {
    name: function for module in (_verdict, _cases, _evidence, _notes, _run) for name, function in _phrases(module)
}
"""By code, or by the `phrase` of a reason's data."""
_TAKES = {name: inspect.signature(function).parameters for name, function in PHRASES.items()}
_NEEDS = {name: {fact.name for fact in facts.values() if fact.default is fact.empty} for name, facts in _TAKES.items()}


_LONGEST_LINE = 400


def text(reason: Reason, base: str = NO_NAME, change: str = PULL_REQUEST) -> str:
    """A reason in English.

    Args:
        reason: With data of a run of this version: data of a file can't be trusted, and its reasons have a message.
        base: The base branch's name.
        change: What the forge calls a proposed change.
    """
    if reason.message:
        return reason.message
    name, facts = reason.data.get("phrase", reason.code), {"base": base, "change": change, **reason.data}
    if name not in PHRASES or not _NEEDS[name] <= facts.keys():
        return reason.code  # That of a criterion from outside, which gave no message.
    if "because" in facts:
        facts["because"] = text(facts["because"], base, change)
    if "parts" in facts:
        facts["parts"] = [text(part, base, change) for part in facts["parts"]]
    return PHRASES[name](**{fact: value for fact, value in facts.items() if fact in _TAKES[name]})


def live_notices(notices: Sequence[str]) -> list[str]:
    """Why cases ran live (`not_replayed`), of all notices of a run."""
    return [notice for notice in notices if RAN_LIVE in notice[:40]]


def without_words(sentence: str) -> str:
    """A notice or a warning without what an agent or a tool wrote: the call that no tape answers, a toolset's error."""
    said, live, rest = sentence.partition(RAN_LIVE)
    names, why, _ = rest.partition("): ")
    return f"{said}{live}{names}{')' * bool(why)}" if live else said.partition(RAISED)[0]


def say(code: str, **facts: Unpack[Facts]) -> str:
    """A fact in English, for a notice."""
    return text(Reason.of(code, **facts))


def put_into_words(report: RunReport) -> None:
    """Gives every reason and cause of a report its message. Existing messages are kept."""
    base = branch_name(report)
    for reason in _reasons(report):
        reason.message = text(reason, base, report.change)
    for line in _evidence_of(report):
        line.message = evidence_line(line)
    for cause in report.causes:
        cause.message = cause.message or cause_sentence(cause, base)
    for case in report.decision.cases if report.decision is not None else ():
        numbers_in_words(case, base)
    for change in report.agent_changes:
        change.message = change.message or agent_change(change)


def outcome_in_words(view: View) -> RunOutcome:
    """What a run is to a reader; headline and steps have their messages."""
    made = view.outcome
    made.headline.message = headline(view)
    for step in made.next:
        step.message = next_text(sentence(view, step))
    return made


def numbers_in_words(case: CaseDecisionReport, base: str = NO_NAME) -> None:
    """Gives a decision its evidence and what would decide, as `text` gives a reason its message."""
    case.evidence = case.evidence or evidence(case.numbers, base)
    if case.lacks is not None:
        case.would_decide = lacking(case.lacks, base)


def evidence_line(line: Reason) -> str:
    """Why the score of a turn is low, on one line of bounded length."""
    return line.message or shorten(text(line), _LONGEST_LINE)


def _evidence_of(report: RunReport) -> Iterator[Reason]:
    metrics = (metric for case in report.every_case for metric in case.metrics)
    for turn in (turn for metric in metrics for run in metric.runs for turn in run.evidence):
        yield from turn.why


def _reasons(report: RunReport) -> Iterator[Reason]:
    yield from report.reasons
    yield from notes_of(report.comparison) if report.comparison is not None else ()
    yield from report.decision.reasons if report.decision is not None else ()
    for case in report.every_case:
        yield from (reason for reason in _reasons_of(case) if reason is not None)


def notes_of(comparison: ComparisonReport) -> Iterator[Reason]:
    """All remarks of a comparison."""
    yield from comparison.notes
    yield from (metric.note for metric in comparison.metrics if metric.note is not None)
    for case in comparison.cases:
        yield from (note for note in (case.note, *(metric.note for metric in case.metrics)) if note is not None)


def _reasons_of(case: CaseReport) -> Iterator[Reason | None]:
    yield case.reason
    for metric in case.metrics:
        yield metric.reason
        yield from (run.reason for run in metric.runs)
