"""What keeps a case from passing: all findings, the most important first, and a few lines that sum them up.

Everything is plain text, not yet escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agent_eval.core.text import first_line, plural, shorten, unbroken
from agent_eval.report.views.numbers import score_text, threshold_text
from agent_eval.results import CaseReport, MetricReport, RunError, RunReport, TurnEvidence, reaches

_LINE = 300
"""Characters of one line of an explanation."""
_NO_NOTES: Mapping[str, str] = {}


@dataclass(frozen=True, kw_only=True)
class FindingTurn:
    """A turn to show, and the run it comes from."""

    run: int
    """0-based."""
    evidence: TurnEvidence


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
    turns: tuple[FindingTurn, ...] = ()
    """Turns that lowered the score, of the first run that has any."""
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
    listed = [*_error_findings(case), *_metric_findings(case)]
    if case.reason is not None and (not listed or case.reason.code not in {finding.subject for finding in listed}):
        message = first_line(case.reason.message, _LINE)
        if not listed:
            listed.append(Finding(subject=case.reason.code, summary=message))
        elif len(case.runs) > 1 and case.reason.code != "not-evaluated":
            # The scores don't show the rule about several runs.
            listed.append(Finding(subject=case.reason.code, summary=message))
    return listed


def cases_with_low_turns(report: RunReport) -> list[tuple[CaseReport, list[str]]]:
    """The cases that pass although a turn is below a threshold, with their `low_turns`."""
    return [(case, lines) for case in report.cases if case.status == "passed" and (lines := low_turns(case))]


def low_turns(case: CaseReport) -> list[str]:
    """The turns below the threshold of a metric that passes, a line each, e.g. `turn 2 of 2: a_score 0.00, below 0.50`.

    A score is the mean over the turns, so one wrong turn can pass.
    """
    lines = []
    for metric in case.metrics:
        for score in metric.runs if metric.status == "passed" and metric.threshold is not None else ():
            of_run = f" of run {score.run + 1}" if len(metric.runs) > 1 else ""
            lines += [
                f"turn {turn.turn + 1} of {len(score.turn_scores)}{of_run}: {metric.name} "
                f"{score_text(turn.score, metric.threshold)}, below {score_text(metric.threshold)}"
                for turn in score.evidence
                # A turn may reach the policy's threshold, and not that of test_config.json.
                if score.status == "passed" and turn.score is not None and not reaches(turn.score, metric)
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


def log_of(error: RunError | None) -> str:
    """The traceback of an error and the end of the agent's log; "" where there is neither."""
    texts = (error.traceback, error.log_tail) if error is not None else ()
    return "\n\n".join(text.strip("\n") for text in texts if text and text.strip())


def _which_runs(runs: Sequence[int], total: int) -> str:
    if len(runs) == total:
        return f"in all {total} runs"
    named = ", ".join(str(run + 1) for run in runs[:10]) + (" …" if len(runs) > 10 else "")
    return f"in {'run' if len(runs) == 1 else 'runs'} {named} of {total}"


def _metric_findings(case: CaseReport) -> Iterator[Finding]:
    for metric in case.metrics:
        if metric.status == "informational":
            continue
        bad = [run.run for run in metric.runs if run.status in {"failed", "not_evaluated"}]
        if metric.status == "passed" and (case.status == "passed" or not bad):
            continue
        turns = _turns(metric)
        judged = any("judge" in run.details for run in metric.runs)
        lines, highlights, runs, first = list[str](), list[str](), list[str](), ""
        broken = next((run.error for run in metric.runs if run.error is not None), None)
        if broken is not None and broken.hint:
            lines.append(first_line(broken.hint, _LINE))
        summary = _metric_summary(metric, bad)
        if metric.reason is not None and metric.status == "failed":
            reason = first_line(metric.reason.message, _LINE)
            lines += [reason] * (not summary.endswith(reason))
        notes = list(lines)
        for turn in turns:
            number = f"turn {turn.evidence.turn + 1}: "
            reasons = [shorten(unbroken(line.message), _LINE) for line in turn.evidence.why if line.message.strip()]
            lines += [number + reason for reason in reasons]
            # The first reason is a count, unless a judge gave it.
            differences = reasons if judged else reasons[1:] or reasons
            if differences and not highlights:
                first = differences[0] if turn.evidence.turn == 0 else number + differences[0]
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
            turns=turns,
            log=log_of(broken),
        )


def _metric_summary(metric: MetricReport, bad: Sequence[int]) -> str:
    reason = metric.reason or next((run.reason for run in metric.runs if run.reason is not None), None)
    missing = [run.run for run in metric.runs if run.status == "not_evaluated"]
    if metric.status == "not_evaluated" or missing:
        some = "" if len(metric.runs) == 1 or not missing else f" {_which_runs(missing, len(metric.runs))}"
        return f"{metric.name} not evaluated{some}" + (f": {first_line(reason.message, _LINE)}" if reason else "")
    needs = threshold_text(metric.threshold, at_most=metric.direction == "lower")
    needs += "" if metric.blocking else " (it only informs)"
    numbers = f"{metric.name} {score_text(metric.score, metric.threshold)}, needs {needs}"
    # The mean passes, but too many runs did not.
    return numbers if metric.status == "failed" else f"{numbers}, fell short {_which_runs(bad, len(metric.runs))}"


def _turns(metric: MetricReport) -> tuple[FindingTurn, ...]:
    """The turns of the run with the lowest score among those with evidence; the first of equals."""
    runs = [run for run in metric.runs if run.evidence]
    if not runs:
        return ()
    worst = min(runs, key=lambda run: float("inf") if run.score is None else run.score)
    return tuple(FindingTurn(run=worst.run, evidence=evidence) for evidence in worst.evidence)


_SIDE = 90
"""Characters of an expected or an actual answer in one line."""


def first_difference(case: CaseReport) -> str:
    """The one line that says most about why a case did not pass."""
    listed = findings(case)
    if not listed:
        return ""
    first = listed[0]
    if first.log or not first.turns:
        return next(iter(first.highlights), first.summary)
    turn = first.turns[0].evidence
    which = f"turn {turn.turn + 1}: " if turn.turn else ""
    if not compares_answers(first.subject):
        return first.first or next(iter(first.lines), first.summary)
    expected, actual = (_quoted(side) for side in (turn.expected, turn.actual))
    return f"{which}expected {expected}, got {actual}"


def compares_answers(metric: str) -> bool:
    """Whether a metric compares the texts of answers (ADK's names)."""
    return "response_match" in metric or metric == "response_evaluation_score"


def _quoted(value: str) -> str:
    text = " ".join(value.split())
    return f"“{shorten(text, _SIDE)}”" if text else "no text"
