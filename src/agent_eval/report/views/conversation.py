"""A case turn by turn: user, calls, responses, answer, and what each criterion says about the turn.

`case_view` gives the turns to show, `rows` the lines of a turn in reading order. All texts are plain, not yet escaped.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from agent_eval.core.text import plural, shorten
from agent_eval.report.views._findings import Finding, findings
from agent_eval.report.views.numbers import score_text
from agent_eval.results import CaseReport, StepReport, TurnEvidence, TurnReport

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
    for metric in case.metrics if case.status == "passed" else ():  # turns that the mean hides
        for score in metric.runs if metric.status == "passed" else ():
            for item in score.evidence if score.run == run else ():
                if item.turn in shown:
                    by_turn.setdefault(item.turn, []).append(_remark(metric.name, item, shown[item.turn]))
    for result in case.runs:
        error = result.error
        if result.run == run and error is not None and error.turn in shown:
            # A finding has its message and its traceback.
            by_turn.setdefault(error.turn, []).append(Remark(summary=error.kind, wrong=error.owner == "agent"))
    return by_turn, general


def _without_turns(finding: Finding) -> Finding:
    return Finding(subject=finding.subject, summary=finding.summary, lines=finding.notes, log=finding.log)


def _remark(name: str, evidence: TurnEvidence, turn: TurnReport) -> Remark:
    return Remark(
        summary=name if evidence.score is None else f"{name} {score_text(evidence.score)}",
        details=tuple(line.message for line in evidence.why if line.message.strip()),
        expected="" if _is_shown(evidence.expected, turn) else evidence.expected,
        wrong=evidence.score is not None,
    )


def _is_shown(expected: str, turn: TurnReport) -> bool:
    """Whether the turn shows what a criterion expected: as its answer or as its calls."""
    calls = [step.call for step in turn.steps if step.call] if turn.expected_calls is None else turn.expected_calls
    said = "\n".join(turn.expected_said or ())
    texts = [turn.expected_answer or turn.answer or "", "\n".join(calls), said, turn.user]
    beginning = expected.strip()[:_ALIKE]
    return beginning in {"", "(no tool calls)", "(no text)"} or any(
        text.strip().startswith(beginning) for text in texts
    )


def _from_excerpts(case: CaseReport, all_findings: Sequence[Finding], most: int) -> CaseView | None:
    """The view made of the excerpts that the criteria kept of one run."""
    runs = [turn.run for finding in all_findings for turn in finding.turns]
    if not runs:
        return None
    run = runs[0]
    views: dict[int, list[tuple[str, TurnEvidence]]] = {}
    for finding in all_findings:
        for turn in finding.turns:
            if turn.run == run:
                views.setdefault(turn.evidence.turn, []).append((finding.subject, turn.evidence))
    turns = [
        TurnView(
            said=TurnReport(turn=number, user=excerpts[0][1].user, answer=None),
            remarks=tuple(_excerpt(name, evidence) for name, evidence in excerpts),
        )
        for number, excerpts in sorted(views.items())
    ]
    general = [
        _without_turns(finding) if all(turn.run == run for turn in finding.turns) else finding
        for finding in all_findings
    ]
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
    left = report.steps_left_out + max(len(report.steps) - steps, 0)
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


def _step(step: StepReport) -> Iterator[Row]:
    who = f"{step.agent}: " if step.agent else ""
    if step.text:
        yield Row(kind="said", text=who + step.text)
    if step.call:
        yield Row(kind="call", text=who + step.call)
    for response in step.responses:
        yield Row(kind="response", text=response)
    if step.call and not step.responses:
        yield Row(kind="response", text="(nothing: the turn ended before)")
