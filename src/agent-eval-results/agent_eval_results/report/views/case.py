"""A case: what keeps it from passing, the most important first, and what happened turn by turn.

`findings` are all reasons, `reason_lines` a few lines that sum them up; `case_view` gives the turns to show, `rows` the
lines of a turn in reading order. All texts are plain, not yet escaped.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from agent_eval_results import (
    CaseReport,
    MetricReport,
    RunError,
    RunReport,
    StepReport,
    TurnEvidence,
    TurnReport,
    reaches,
)
from agent_eval_results.outcome import compares_answers, log_of
from agent_eval_results.report.views.numbers import score_text, threshold_text
from agent_eval_scoring.core.reason import looks_alike
from agent_eval_scoring.core.text import first_line, plural, shorten, unbroken

_LINE = 300
"""Characters of one line of an explanation."""
_NO_NOTES: Mapping[str, str] = {}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that keeps a case from passing."""

    subject: str
    """The metric's name, or the error's kind."""
    summary: str
    """One line, e.g. `tool_trajectory_avg_score 0.50, needs 1.00`."""
    lines: tuple[str, ...] = ()
    """Details, a line each."""
    highlights: tuple[str, ...] = ()
    """The lines to show if there is no space for all: differences rather than counts."""
    first: str = ""
    """The first highlight, which names its turn only if that is not the first one."""
    notes: tuple[str, ...] = ()
    """The lines that are not about a single turn."""
    run: int | None = None
    """The run that `turns` are of, 0-based."""
    turns: tuple[TurnEvidence, ...] = ()
    """Turns that lowered the score, of the run with the lowest one."""
    log: str = ""
    """A traceback and the end of the agent's log; many lines."""


def reason_lines(case: CaseReport, limit: int = 3, base_notes: Mapping[str, str] = _NO_NOTES) -> list[str]:
    """Why a case did not pass, in at most `limit` lines: each finding's summary first, then details.

    `base_notes` has what to say about a metric on the base branch (`grouping.metric_base_notes`).

    If the findings alone fill three lines or more, the first one gets a detail and the last ones are named in one line:
    one reason says more than all numbers.
    """
    return lines_of(findings(case), limit, base_notes)


def base_note(finding: Finding, base_notes: Mapping[str, str]) -> str:
    """The note to append to the summary of a finding; "" for none."""
    return f", {base_notes[finding.subject]}" if finding.subject in base_notes else ""


def lines_of(listed: Sequence[Finding], limit: int, base_notes: Mapping[str, str] = _NO_NOTES) -> list[str]:
    """The same of findings."""
    summaries = [finding.summary + base_note(finding, base_notes) for finding in listed]
    reason = (listed[0].highlights or listed[0].lines)[:1] if listed and limit > 2 else ()
    # One line is a cell of a table: it must not read as if it were all.
    if limit == 1 and len(listed) > 1:
        return [f"{summaries[0]}; and {plural(len(listed) - 1, 'more finding')}"]
    if len(listed) + len(reason) > limit:
        shown = limit - 1 - len(reason)
        named = shorten(", ".join(finding.subject for finding in listed[shown:]), _LINE)
        first, *others = summaries[:shown]
        return [first, *reason, *others, f"and {plural(len(listed) - shown, 'more finding')}: {named}"]
    free = limit - len(listed)
    lines = []
    for finding, summary in zip(listed, summaries, strict=True):
        details = (finding.highlights or finding.lines)[:free]
        free -= len(details)
        lines += [summary, *details]
    return lines


def findings(case: CaseReport) -> list[Finding]:
    """Everything that keeps a case from passing, the most important first: errors, then metrics, then the rest."""
    # A run that ended with an error has no scores, or wrong ones: the error explains them.
    listed = [*_error_findings(case), *_metric_findings(case)]
    # Beside other findings it is the rule about several runs, which the scores don't show.
    shown = {"not-evaluated", *(finding.subject for finding in listed)}
    if case.reason is not None and (not listed or (len(case.runs) > 1 and case.reason.code not in shown)):
        listed.append(Finding(subject=case.reason.code, summary=first_line(case.reason.message, _LINE)))
    return listed


def cases_with_low_turns(report: RunReport) -> list[tuple[CaseReport, list[str]]]:
    """The cases that pass although a turn is below a threshold, with their `low_turns`."""
    return [(case, lines) for case in report.cases if case.passed and (lines := low_turns(case))]


def low_turns(case: CaseReport) -> list[str]:
    """The turns below the threshold of a metric that passes, a line each, e.g. `turn 2 of 2: a_score 0.00, below 0.50`.

    A score is the mean over the turns, so one wrong turn can pass.
    """
    lines = []
    for metric in case.metrics:
        for score in metric.runs if metric.passed and metric.threshold is not None else ():
            if not score.evidence:
                continue
            of_run = f" of run {score.run + 1}" if len(metric.runs) > 1 else ""
            lines += [
                f"turn {turn.turn + 1} of {len(score.turn_scores)}{of_run}: {metric.name} "
                f"{score_text(turn.score, metric.threshold)}, below {score_text(metric.threshold)}"
                for turn in score.evidence
                # A turn may reach the policy's threshold, and not that of test_config.json.
                if score.passed and turn.score is not None and not reaches(turn.score, metric)
            ]
    return lines


def _error_findings(case: CaseReport) -> Iterator[Finding]:
    groups: dict[tuple[str, str, int | None], tuple[RunError, list[int]]] = {}
    for run in case.runs:
        if run.error is not None:
            key = (run.error.kind, run.error.message, run.error.turn)
            groups.setdefault(key, (run.error, []))[1].append(run.run)
    for error, runs in groups.values():
        where = "" if error.turn is None else f" in turn {error.turn + 1}"
        lines = [first_line(error.hint, _LINE)] if error.hint else []
        if len(case.runs) > 1:
            lines.append(_which_runs(runs, len(case.runs)))
        yield Finding(
            subject=error.kind,
            summary=f"{error.kind}{where}: {first_line(error.message, _LINE)}",
            lines=tuple(lines),
            notes=tuple(lines),
            log=log_of(error),
        )


def _which_runs(runs: Sequence[int], total: int) -> str:
    if len(runs) == total:
        return f"in all {total} runs"
    named = ", ".join(str(run + 1) for run in runs[:10]) + (" …" if len(runs) > 10 else "")
    return f"in {'run' if len(runs) == 1 else 'runs'} {named} of {total}"


def _metric_findings(case: CaseReport) -> Iterator[Finding]:
    # What failed comes before what could not be evaluated: only that is a finding about the agent.
    gating = [metric for metric in case.metrics if not (metric.only_measures or (metric.passed and case.passed))]
    for metric in sorted(gating, key=lambda metric: not metric.failed):
        bad = [run.run for run in metric.runs if run.failed or run.lacks_result]
        if metric.passed and not bad:
            continue
        scored = [run for run in metric.runs if run.evidence]
        worst = min(scored, key=lambda run: float("inf") if run.score is None else run.score, default=None)
        judged = any(run.judge is not None for run in metric.runs)
        lines, highlights, runs, first = list[str](), list[str](), list[str](), ""
        broken = next((run.error for run in metric.runs if run.error is not None), None)
        if broken is not None and broken.hint:
            lines.append(first_line(broken.hint, _LINE))
        summary = _metric_summary(metric, bad)
        if metric.reason is not None and metric.failed:
            reason = first_line(metric.reason.message, _LINE)
            lines += [reason] * (not summary.endswith(reason))
        notes = list(lines)
        for turn in worst.evidence if worst is not None else ():
            number = f"turn {turn.turn + 1}: "
            reasons = [shorten(unbroken(line.message), _LINE) for line in turn.why if line.message.strip()]
            lines += [number + reason for reason in reasons]
            # The first reason is a count, unless a judge gave it.
            differences = reasons if judged else reasons[1:] or reasons
            if differences and not highlights:
                first = differences[0] if turn.turn == 0 else number + differences[0]
            highlights += [number + reason for reason in differences]
        if len(metric.runs) > 1:
            runs = ["runs: " + ", ".join(score_text(run.score, metric.threshold) for run in metric.runs[:20])]
        yield Finding(
            subject=metric.name,
            summary=summary,
            lines=(*lines, *runs),
            notes=(*notes, *runs),
            highlights=tuple(highlights),
            first=first,
            run=worst.run if worst is not None else None,
            turns=tuple(worst.evidence) if worst is not None else (),
            log=log_of(broken),
        )


def _metric_summary(metric: MetricReport, bad: Sequence[int]) -> str:
    reason = metric.reason or next((run.reason for run in metric.runs if run.reason is not None), None)
    missing = [run.run for run in metric.runs if run.lacks_result]
    if metric.lacks_result or missing:
        some = "" if len(metric.runs) == 1 or not missing else f" {_which_runs(missing, len(metric.runs))}"
        return f"{metric.name} not evaluated{some}" + (f": {first_line(reason.message, _LINE)}" if reason else "")
    needs = threshold_text(metric.threshold, at_most=metric.lower_is_better)
    needs += "" if metric.blocking else " (it only informs)"
    numbers = f"{metric.name} {score_text(metric.score, metric.threshold)}, needs {needs}"
    # The mean passes, but too many runs did not.
    return numbers if metric.failed else f"{numbers}, fell short {_which_runs(bad, len(metric.runs))}"


_SIDE = 90
"""Characters of an expected or an actual answer in one line."""


def first_difference(case: CaseReport, listed: Sequence[Finding] | None = None) -> str:
    """The one line that says most about why a case did not pass; `listed` are its `findings`, if they are known."""
    listed = findings(case) if listed is None else listed
    if not listed:
        return ""
    first = listed[0]
    # A traceback, or the text of an error, says more than what was expected.
    if first.log or not first.turns:
        return next(iter(first.highlights), first.summary)
    turn = first.turns[0]
    which = f"turn {turn.turn + 1}: " if turn.turn else ""
    if not compares_answers(first.subject):
        return first.first or next(iter(first.lines), first.summary)
    expected, actual = (_quoted(side) for side in (turn.expected, turn.actual))
    turns = case.conversation.turns if case.conversation is not None else []
    why = next((why_no_answer(said) for said in turns if said.turn == turn.turn), "")
    return f"{which}expected {expected}, got {actual}{why}"


def why_no_answer(turn: TurnReport) -> str:
    """The error that an event reported instead of an answer, in brackets; "" if there is none."""
    error = "" if turn.answer or not turn.steps else turn.steps[-1].error
    return f" ({first_line(error, _SIDE)})" if error else ""


def _quoted(value: str) -> str:
    text = " ".join(value.split())
    return f"“{shorten(text, _SIDE)}”" if text else "no text"


RowKind = Literal[
    "user",
    "call",
    "response",
    "said",
    "expected said",
    "expected call",
    "answer",
    "expected answer",
    "actual",
    "verdict",
    "detail",
]
"""What a row shows. `said`: text of the agent before its answer. `actual`: what a criterion saw, for results without a
conversation. `verdict`: a criterion's score of the turn, or the error that ended it. `detail`: the reason, below it."""

CODE: frozenset[RowKind] = frozenset({"call", "response", "expected call"})
"""Rows that are code; all others are prose."""

LABELS: dict[RowKind, str] = {
    "user": "user",
    "call": "call",
    "response": "returned",
    "said": "says",
    "expected said": "expected",
    "expected call": "expected",
    "answer": "answer",
    "expected answer": "expected",
    "actual": "actual",
    "verdict": "✗",
    "detail": "",
}
"""What to print before a row."""

NO_ANSWER = "(no answer)"
ERROR_EVENT = "[an event reports an error]"
_ALIKE = 80
"""Two texts with so many equal characters at the beginning are the same text, cut to different sizes."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line, or paragraph, of a turn."""

    kind: RowKind
    text: str
    wrong: bool = False
    """What differs from the expectation, or says what is wrong."""


@dataclass(frozen=True, kw_only=True)
class Remark:
    """What a criterion, or the error that ended the run, says about a turn."""

    summary: str
    """E.g. `response_match_score 0.35`."""
    details: tuple[str, ...] = ()
    """A line each, the important ones first; lists of words come last."""
    expected: str = ""
    """What the criterion expects, if the conversation doesn't show it (a rubric's text)."""
    actual: str = ""
    """What the criterion saw, if there is no conversation."""
    wrong: bool = True
    """False if the criterion has no score or the error is not the agent's."""
    overlooked: tuple[str, ...] = ()
    """The details whose two values look alike, e.g. the text "3" and the number 3."""


@dataclass(frozen=True, kw_only=True)
class TurnView:
    """A turn to show."""

    said: TurnReport
    remarks: tuple[Remark, ...] = ()

    @property
    def number(self) -> int:
        """1-based."""
        return self.said.turn + 1


@dataclass(frozen=True, kw_only=True)
class CaseView:
    """A case to show."""

    run: int
    """Of which run the turns are, 0-based."""
    several: bool
    """Whether the case ran more than once."""
    turns: tuple[TurnView, ...]
    """In order."""
    turns_left_out: int
    findings: tuple[Finding, ...]
    """What keeps the case from passing. What they say about a turn shown here is left out of their `lines`."""

    def title(self, turn: TurnView) -> str:
        """`turn 1`, or `turn 1 of run 3`."""
        return f"turn {turn.number}" + (f" of run {self.run + 1}" if self.several else "")


def case_view(case: CaseReport, *, turns: int = 10) -> CaseView | None:
    """What to show of a case.

    Args:
        case: The case.
        turns: The most turns to show; those with a remark come before the others.

    Returns:
        None without a record of what the agent did: it was not called, or the results are from an older version and no
        criterion kept an excerpt.
    """
    all_findings = findings(case)
    conversation = case.conversation
    if conversation is None:
        return _from_excerpts(case, all_findings, turns)
    remarks, general = _remarks(case, conversation.run, conversation.turns, all_findings)
    views = [TurnView(said=turn, remarks=tuple(remarks.get(turn.turn, ()))) for turn in conversation.turns]
    shown = _most_relevant(views, turns)
    return CaseView(
        run=conversation.run,
        several=len(case.runs) > 1,
        turns=shown,
        turns_left_out=conversation.turns_left_out + len(views) - len(shown),
        findings=tuple(general),
    )


def _most_relevant(turns: Sequence[TurnView], most: int) -> tuple[TurnView, ...]:
    chosen = sorted(turns, key=lambda turn: not turn.remarks)[: max(most, 0)]
    return tuple(sorted(chosen, key=lambda turn: turn.number))


def _remarks(
    case: CaseReport, run: int, turns: Sequence[TurnReport], all_findings: Sequence[Finding]
) -> tuple[dict[int, list[Remark]], list[Finding]]:
    """The remarks on each turn, and the findings without them."""
    by_turn: dict[int, list[Remark]] = {}
    shown = {turn.turn: turn for turn in turns}
    metrics = {metric.name: metric for metric in case.metrics}
    general = []
    for finding in all_findings:
        metric = metrics.get(finding.subject)
        scores = [score for score in metric.runs if score.run == run] if metric is not None else []
        evidence = [item for score in scores for item in score.evidence if item.turn in shown]
        for item in evidence:
            by_turn.setdefault(item.turn, []).append(_remark(finding.subject, item, shown[item.turn]))
        # The lines of a finding stay if another run than the one shown lowered the score.
        general.append(_without_turns(finding) if evidence else finding)
    for metric in case.metrics if case.passed else ():  # turns that the mean hides
        for score in metric.runs if metric.passed else ():
            for item in score.evidence if score.run == run else ():
                if item.turn in shown:
                    by_turn.setdefault(item.turn, []).append(_remark(metric.name, item, shown[item.turn]))
    for result in case.runs:
        error = result.error
        if result.run == run and error is not None and error.turn in shown:
            # A finding has its message and its traceback.
            by_turn.setdefault(error.turn, []).append(Remark(summary=error.kind, wrong=error.by_agent))
    return by_turn, general


def _without_turns(finding: Finding) -> Finding:
    return Finding(subject=finding.subject, summary=finding.summary, lines=finding.notes, log=finding.log)


def _remark(name: str, evidence: TurnEvidence, turn: TurnReport) -> Remark:
    return Remark(
        summary=name if evidence.score is None else f"{name} {score_text(evidence.score)}",
        details=tuple(line.message for line in evidence.why if line.message.strip()),
        expected="" if _is_shown(evidence.expected, turn) else evidence.expected,
        wrong=evidence.score is not None,
        overlooked=tuple(line.message for line in evidence.why if looks_alike(line)),
    )


def _is_shown(expected: str, turn: TurnReport) -> bool:
    """Whether the turn shows what a criterion expected: as its answer or as its calls."""
    calls = [step.call for step in turn.calls] if turn.expected_calls is None else turn.expected_calls
    said = "\n".join(turn.expected_said or ())
    texts = [turn.expected_answer or turn.answer or "", "\n".join(calls), said, turn.user]
    # Excerpts of the two were cut to different lengths, so that only their beginnings can be compared.
    beginning = expected.strip()[:_ALIKE]
    return beginning in {"", "(no tool calls)", "(no text)"} or any(
        text.strip().startswith(beginning) for text in texts
    )


def _from_excerpts(case: CaseReport, all_findings: Sequence[Finding], most: int) -> CaseView | None:
    """The view made of the excerpts that the criteria kept of one run."""
    run = next((finding.run for finding in all_findings if finding.run is not None), None)
    if run is None:
        return None
    views: dict[int, list[tuple[str, TurnEvidence]]] = {}
    for finding in all_findings:
        for turn in finding.turns if finding.run == run else ():
            views.setdefault(turn.turn, []).append((finding.subject, turn))
    turns = [
        TurnView(
            said=TurnReport(turn=number, user=excerpts[0][1].user, answer=None),
            remarks=tuple(_excerpt(name, evidence) for name, evidence in excerpts),
        )
        for number, excerpts in sorted(views.items())
    ]
    general = [_without_turns(finding) if finding.run in {run, None} else finding for finding in all_findings]
    shown = tuple(turns[: max(most, 0)])
    left = len(turns) - len(shown)
    return CaseView(run=run, several=len(case.runs) > 1, turns=shown, turns_left_out=left, findings=tuple(general))


def _excerpt(name: str, evidence: TurnEvidence) -> Remark:
    remark = _remark(name, evidence, TurnReport(turn=evidence.turn))
    return dataclasses.replace(remark, expected=evidence.expected, actual=evidence.actual)


def rows(turn: TurnView, *, text: int = 2_000, code: int = 1_000, steps: int = 10, details: int = 4) -> Iterator[Row]:
    """The lines of a turn: user, calls with what they returned, answer, expectation, then what the criteria say.

    Args:
        turn: The turn.
        text: Characters of a paragraph of prose.
        code: Characters of a call or a response.
        steps: Calls, and texts on the way, to show.
        details: Lines below each criterion's score.
    """
    for row in _rows(turn, steps, details):
        limit = code if row.kind in CODE else text
        yield Row(kind=row.kind, text=shorten(row.text, max(limit, 60)), wrong=row.wrong)


def _rows(turn: TurnView, steps: int, details: int) -> Iterator[Row]:
    report = turn.said
    if report.user:
        yield Row(kind="user", text=report.user)
    for step in report.steps[:steps]:
        yield from _step(step)
    left = report.steps_left_out + sum(step.times for step in report.steps[steps:])
    if left:
        yield Row(kind="said", text=f"[… and {plural(left, 'more step')}]")
    for text in (report.expected_said or ())[:steps]:
        yield Row(kind="expected said", text=text)
    for call in (report.expected_calls or ())[:steps]:
        yield Row(kind="expected call", text=call)
    if report.expected_calls == []:
        yield Row(kind="expected call", text="(no tool calls)")
    if report.answer is not None:
        yield Row(kind="answer", text=report.answer or NO_ANSWER)
    if report.expected_answer is not None:
        yield Row(kind="expected answer", text=report.expected_answer)
    for remark in turn.remarks:
        yield Row(kind="verdict", text=remark.summary, wrong=remark.wrong)
        if remark.expected:
            yield Row(kind="expected answer", text=remark.expected)
        if remark.actual:
            yield Row(kind="actual", text=remark.actual)
        for line in remark.details[:details]:
            yield Row(kind="detail", text=line)
        if len(remark.details) > details:
            yield Row(kind="detail", text=f"and {len(remark.details) - details:,} more")


def times(step: StepReport) -> str:
    """How often a step was repeated, in brackets; "" for once."""
    return f" ({step.times:,} times)" if step.times > 1 else ""


def _step(step: StepReport) -> Iterator[Row]:
    who = f"{step.agent}: " if step.agent else ""
    if step.text:
        yield Row(kind="said", text=who + step.text + times(step))
    if step.call:
        yield Row(kind="call", text=who + step.call + times(step))
    for response in step.responses:
        yield Row(kind="response", text=response)
    if step.error:
        yield Row(kind="said", text=f"{who}{ERROR_EVENT} {step.error}{'' if step.call else times(step)}", wrong=True)
    elif step.call and not step.responses:
        yield Row(kind="response", text="(nothing: the turn ended before)")
