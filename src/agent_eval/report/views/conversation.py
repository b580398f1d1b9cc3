"""A case turn by turn: what was said, called, returned and answered, and what each criterion says about the turn.

Plain data for every renderer: `case_view` gives the turns to show, `rows` the lines of one turn in reading order. As in
`digest`, all texts are as they were found; the renderers escape them for their medium.
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
    "user", "call", "response", "said", "expected call", "answer", "expected answer", "actual", "verdict", "detail"
]
"""What a row holds. `said`: an agent's words before its answer. `actual`: what a criterion saw, of results that have no
conversation. `verdict`: a criterion's score of the turn, or the error that ended it; `detail`: why, below it."""

CODE: frozenset[RowKind] = frozenset({"call", "response", "expected call"})
"""Rows that are code; all others are prose."""

LABELS: dict[RowKind, str] = {
    "user": "user",
    "call": "call",
    "response": "returned",
    "said": "says",
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
"""Two texts that agree in so many characters at the beginning are the same text, cut to different sizes."""


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
    """A line each, the telling ones first; lists of words come last."""
    expected: str = ""
    """What the criterion demands, where the conversation doesn't show it (a rubric's text)."""
    actual: str = ""
    """What the criterion saw, where there is no conversation."""
    wrong: bool = True
    """False where the criterion has no score, or the error is not the agent's: nobody knows what the turn is worth."""


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
        turns: How many turns to show at most; those that say why come before the others.

    Returns:
        None if nothing is known of what the agent did: the agent was not asked, or the results are of an older version
        and no criterion kept an excerpt.
    """
    found = findings(case)
    said = case.conversation
    if said is None:
        return _from_excerpts(case, found, turns)
    remarks, general = _remarks(case, said.run, said.turns, found)
    views = [TurnView(said=turn, remarks=tuple(remarks.get(turn.turn, ()))) for turn in said.turns]
    shown = _weightiest(views, turns)
    return CaseView(
        run=said.run,
        several=len(case.runs) > 1,
        turns=shown,
        turns_left_out=said.turns_left_out + len(views) - len(shown),
        findings=tuple(general),
    )


def _weightiest(turns: Sequence[TurnView], most: int) -> tuple[TurnView, ...]:
    chosen = sorted(turns, key=lambda turn: not turn.remarks)[: max(most, 0)]
    return tuple(sorted(chosen, key=lambda turn: turn.number))


def _remarks(
    case: CaseReport, run: int, turns: Sequence[TurnReport], found: Sequence[Finding]
) -> tuple[dict[int, list[Remark]], list[Finding]]:
    """What is said about each of the turns, and the findings without it."""
    by_turn: dict[int, list[Remark]] = {}
    shown = {turn.turn: turn for turn in turns}
    metrics = {metric.name: metric for metric in case.metrics}
    general = []
    for finding in found:
        metric = metrics.get(finding.subject)
        scores = [score for score in metric.runs if score.run == run] if metric is not None else []
        evidence = [one for score in scores for one in score.evidence if one.turn in shown]
        for one in evidence:
            by_turn.setdefault(one.turn, []).append(_remark(finding.subject, one, shown[one.turn]))
        # What the turns say is not said twice; where another run lowered the score, its lines stay.
        general.append(_without_turns(finding) if evidence else finding)
    for result in case.runs:
        error = result.error
        if result.run == run and error is not None and error.turn in shown:
            # What it says and its traceback are a finding.
            by_turn.setdefault(error.turn, []).append(Remark(summary=error.kind, wrong=error.owner == "agent"))
    return by_turn, general


def _without_turns(finding: Finding) -> Finding:
    return Finding(subject=finding.subject, summary=finding.summary, lines=finding.notes, log=finding.log)


def _remark(name: str, evidence: TurnEvidence, turn: TurnReport) -> Remark:
    return Remark(
        summary=name if evidence.score is None else f"{name} {score_text(evidence.score)}",
        details=tuple(line for line in evidence.why if line.strip()),
        expected="" if _is_shown(evidence.expected, turn) else evidence.expected,
        wrong=evidence.score is not None,
    )


def _is_shown(expected: str, turn: TurnReport) -> bool:
    """Whether the turn shows what a criterion expected: as its answer or as its calls."""
    calls = [step.call for step in turn.steps if step.call] if turn.expected_calls is None else turn.expected_calls
    texts = [turn.expected_answer or turn.answer or "", "\n".join(calls), turn.user]
    beginning = expected.strip()[:_ALIKE]
    return beginning in {"", "(no tool calls)", "(no text)"} or any(
        text.strip().startswith(beginning) for text in texts
    )


def _from_excerpts(case: CaseReport, found: Sequence[Finding], most: int) -> CaseView | None:
    """The same from what the criteria kept, of one run: each shows the turn as it saw it."""
    runs = [turn.run for finding in found for turn in finding.turns]
    if not runs:
        return None
    run = runs[0]
    views: dict[int, list[tuple[str, TurnEvidence]]] = {}
    for finding in found:
        for turn in finding.turns:
            if turn.run == run:
                views.setdefault(turn.evidence.turn, []).append((finding.subject, turn.evidence))
    turns = [
        TurnView(
            said=TurnReport(turn=number, user=kept[0][1].user, answer=None),
            remarks=tuple(_excerpt(name, evidence) for name, evidence in kept),
        )
        for number, kept in sorted(views.items())
    ]
    general = [_without_turns(one) if all(turn.run == run for turn in one.turns) else one for one in found]
    shown = tuple(turns[: max(most, 0)])
    left = len(turns) - len(shown)
    return CaseView(run=run, several=len(case.runs) > 1, turns=shown, turns_left_out=left, findings=tuple(general))


def _excerpt(name: str, evidence: TurnEvidence) -> Remark:
    made = _remark(name, evidence, TurnReport(turn=evidence.turn))
    return dataclasses.replace(made, expected=evidence.expected, actual=evidence.actual)


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
    said = turn.said
    if said.user:
        yield Row(kind="user", text=said.user)
    for step in said.steps[:steps]:
        yield from _step(step)
    left = said.steps_left_out + max(len(said.steps) - steps, 0)
    if left:
        yield Row(kind="said", text=f"[… and {plural(left, 'more step')}]")
    for call in (said.expected_calls or ())[:steps]:
        yield Row(kind="expected call", text=call)
    if said.expected_calls == []:
        yield Row(kind="expected call", text="(no tool calls)")
    if said.answer is not None:
        yield Row(kind="answer", text=said.answer or NO_ANSWER)
    if said.expected_answer is not None:
        yield Row(kind="expected answer", text=said.expected_answer)
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
