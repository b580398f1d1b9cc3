"""What failing cases share, and one turn of a case with the expectation beside what happened. Plain text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from agent_eval_results import CaseReport, CauseReport, RunReport, StepReport, TurnReport
from agent_eval_results.outcome import Cause, compares_answers, never_ran
from agent_eval_results.report.views.case import (
    NO_ANSWER,
    Remark,
    TurnView,
    case_view,
    reason_lines,
    times,
    why_no_answer,
)
from agent_eval_results.report.views.digest import location
from agent_eval_results.report.views.links import Reference
from agent_eval_scoring.core.text import first_line, shorten, unbroken

_LINE = 300
_REASON = 600  # A metric's own words: what was expected may be at their end.
_BASE = 160
"""Characters of what a tool returned on the base branch."""
_MOST_ROWS = 8
_BEFORE = 1
"""Rows that are as expected, before the first that is not."""
_MOST_MADE = 6
"""Calls and responses, the last ones, where calls are not what is wrong."""
_MOST_REMARKS = 3
_BY_KEY = ("tool_rules", "final_session_state")
"""Metrics whose findings are several, each about something else."""
_ERROR = re.compile(r'\s*\{\s*"(?:error"|status": "error")', re.IGNORECASE)
"""How a tool's response begins that is an error (google-adk's convention)."""


@dataclass(frozen=True, kw_only=True)
class Side:
    """One line of a turn: the expectation, and what happened."""

    expected: str = ""
    now: str = ""
    wrong: bool = False
    code: bool = True
    """Whether both are code, else prose."""
    lead: str = ""
    """Words of ours before the expectation, e.g. `on main`."""
    now_lead: str = ""
    """Words of ours before what happened, e.g. `returned`, or instead of it."""


@dataclass(frozen=True, kw_only=True)
class Example:
    """The turn of a case that says most about why it did not pass."""

    case: CaseReport
    turn: int | None = None
    """0-based; None if no turn is known."""
    user: str = ""
    sides: tuple[Side, ...] = ()
    left_out: int = 0
    """Further lines."""
    remarks: tuple[str, ...] = ()
    """What a criterion or an error says that the lines don't show."""

    @property
    def reference(self) -> Reference:
        """The turn, leading to it in the report."""
        return Reference(text=f"turn {(self.turn or 0) + 1}", case_id=self.case.case_id, turn=self.turn)


def shared_causes(
    report: RunReport, cases: Sequence[CaseReport], branch: str
) -> tuple[list[tuple[CauseReport, Sequence[CaseReport], Example]], list[CaseReport]]:
    """The causes of these cases, each with its cases and an example; and the cases that no cause explains.

    Args:
        report: The report.
        cases: Some of its cases.
        branch: The base branch's name.
    """
    left = {case.case_id: case for case in cases if not never_ran(case)}
    shared: list[tuple[CauseReport, Sequence[CaseReport], Example]] = []
    for cause in report.causes:
        members = [case for case_id in cause.cases if (case := left.pop(case_id, None)) is not None]
        if members:
            shown = next((case for case in members if case.case_id == cause.example.case_id), members[0])
            shared.append((cause, members, example_of(shown, cause, branch)))
    return shared, [case for case in cases if case.case_id in left or never_ran(case)]


def example_of(case: CaseReport, cause: CauseReport | None = None, branch: str = "") -> Example:
    """The turn to show of a case: that of a cause's example if it is one, else the first that is wrong."""
    view = case_view(case, turns=1_000)
    turns = [] if view is None else list(view.turns)
    if cause is not None and (cause.example.case_id != case.case_id or view is None or view.run != cause.example.run):
        cause = None
    chosen = None
    if cause is not None:
        chosen = next((turn for turn in turns if turn.said.turn == cause.example.turn), None)
    if chosen is None:
        cause, chosen = None, next((turn for turn in turns if turn.remarks), turns[-1] if turns else None)
    if chosen is None:
        return Example(case=case, remarks=tuple(reason_lines(case)))
    errors = list(_errors(case, chosen.said.turn, last=turns[-1].said.turn))
    if cause is None and (errors or chosen.said.expected_calls is None):
        calls = list(_made(chosen.said))[-_MOST_MADE:]
    else:
        calls = list(_calls(chosen.said, cause, branch, counts=case.counts_inner_calls))
    sides = [*calls, *_answers(chosen, errors), *errors]
    shown, left = _from_first_difference(sides)
    most = _MOST_ROWS if any(remark.summary.startswith(_BY_KEY) for remark in chosen.remarks) else _MOST_REMARKS
    remarks = tuple(_remarks(chosen))[:most]
    if not any(side.wrong for side in shown) and not remarks:
        remarks = tuple(reason_lines(case))
    return Example(case=case, turn=chosen.said.turn, user=chosen.said.user, sides=shown, left_out=left, remarks=remarks)


def _from_first_difference(sides: Sequence[Side]) -> tuple[tuple[Side, ...], int]:
    first = next((number for number, side in enumerate(sides) if side.wrong), 0)
    rest = sides[max(first - _BEFORE, 0) :] if len(sides) > _MOST_ROWS else sides
    return tuple(rest[:_MOST_ROWS]), max(len(rest) - _MOST_ROWS, 0)


def _made(turn: TurnReport) -> Iterator[Side]:
    """The calls and responses of a turn in which no call was wrong, or none was expected."""
    for step in turn.steps:
        if step.call:
            yield Side(expected=step.call if turn.calls_as_expected else "", now=step.call + times(step))
            for response in step.responses[:1]:
                yield Side(now_lead="returned", now=response, wrong=_ERROR.match(response) is not None)


def _calls(turn: TurnReport, cause: CauseReport | None, branch: str, *, counts: bool) -> Iterator[Side]:
    """Expected calls beside those that were made; `counts`: those inside of others count for the criteria."""
    steps = turn.calls
    inside = {_tool(step.call.removeprefix(f"{step.inside} > ")): step.inside for step in turn.steps if step.inside}
    marked = cause.example.call if cause is not None else None
    pairs = _aligned(turn.expected_calls, steps)
    met = not any(_unmet(pair) for pair in pairs)
    for expected, step in pairs:
        number = next((index for index, other in enumerate(steps) if other is step), None)
        is_marked = marked is not None and number == marked
        if step is None:
            around = inside.get(_tool(expected))
            lead = "not called" if around is None else f"called inside {around}{'' if counts else ', not counted'}"
            yield Side(expected=expected or "", now_lead=lead, wrong=True)
            continue
        if turn.expected_calls is None and not is_marked:
            continue  # As expected, or nothing is.
        failures = [response for response in step.responses if _ERROR.match(response)]
        about_response = is_marked and cause is not None and cause.by_response
        differs = step.call != expected if expected is not None else met and turn.expected_calls is not None
        met_call = step.call if turn.calls_as_expected else ""
        yield Side(expected=expected or met_call, now=step.call, wrong=not about_response and (is_marked or differs))
        before = cause.data.expected if about_response and cause is not None and cause.base is not None else None
        for response in step.responses[:1] if about_response else failures[:1]:
            lead = f"on {branch}" if before else ""
            # An error that no cause names may be the same on the base branch: no difference is known.
            side = Side(lead=lead, expected=shorten(before or "", _BASE), now_lead="returned", now=response)
            yield replace(side, wrong=about_response)


def _tool(call: str | None) -> str:
    return (call or "").partition("(")[0]


def _unmet(pair: tuple[str | None, StepReport | None]) -> bool:
    expected, step = pair
    return expected is not None and (step is None or step.call != expected)


def _aligned(expected: Sequence[str] | None, steps: Sequence[StepReport]) -> list[tuple[str | None, StepReport | None]]:
    """Expected calls beside those that were made, in order: equal names are a pair."""
    if expected is None:
        return [(None, step) for step in steps]
    here, there = (list(map(_tool, side)) for side in (expected, [step.call for step in steps]))
    pairs: list[tuple[str | None, StepReport | None]] = []
    for tag, start, end, first, last in SequenceMatcher(None, here, there, autojunk=False).get_opcodes():
        if tag == "equal":
            pairs += zip(expected[start:end], steps[first:last], strict=True)
        else:
            pairs += [(call, None) for call in expected[start:end]]
            pairs += [(None, step) for step in steps[first:last]]
    return pairs


def _answers(turn: TurnView, errors: Sequence[Side]) -> Iterator[Side]:
    said = turn.said
    if said.expected_answer is not None:
        why = why_no_answer(said)
        is_told = any(why.strip(" ()") in error.now for error in errors)  # by the next line
        now = said.answer or NO_ANSWER + ("" if is_told else why)
        yield Side(expected=said.expected_answer, now=now, wrong=True, code=False)
    for remark in turn.remarks:  # Results without a conversation.
        if remark.actual and compares_answers(remark.summary):
            yield Side(expected=remark.expected, now=remark.actual, wrong=True, code=False)


def _errors(case: CaseReport, turn: int, last: int) -> Iterator[Side]:
    for run in case.runs:
        if run.error is not None and turn == (last if run.error.turn is None else run.error.turn):
            yield Side(now=first_line(run.error.message, _LINE), wrong=True, code=False)
            return


def _remarks(turn: TurnView) -> Iterator[str]:
    for remark in turn.remarks:
        if _is_side(remark, turn):
            yield from remark.overlooked[:_MOST_REMARKS]
        else:
            most = _MOST_ROWS if remark.summary.startswith(_BY_KEY) else 2
            first, *others = [shorten(unbroken(line), _REASON) for line in remark.details[:most]] or [""]
            yield f"{remark.summary}: {first}" if first else remark.summary
            yield from others


def _is_side(remark: Remark, turn: TurnView) -> bool:
    """Whether the lines of the turn show what a remark says."""
    name = remark.summary.partition(" ")[0]
    if compares_answers(name) and not name.startswith("final_"):  # A judge gives reasons.
        return turn.said.expected_answer is not None or bool(remark.actual)
    return turn.said.expected_calls is not None if "trajectory" in name else not remark.details


def example_place(example: Example) -> str:
    """`file:line`, and the turn."""
    where = location(example.case.file, example.case.line)
    return where if example.turn is None else f"{where}  turn {example.turn + 1}"


def acted_before(errors: Sequence[Cause]) -> list[CaseReport]:
    """The first case of each agent error, if the recording shows what the agent did before the error."""
    firsts = [error.cases[0] for error in errors if error.by_agent]
    return [case for case in firsts if case.conversation is not None and any(t.steps for t in case.conversation.turns)]
