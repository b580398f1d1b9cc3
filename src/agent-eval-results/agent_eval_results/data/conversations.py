"""Converts a recorded run to a readable conversation: calls with their responses, expected next to actual."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_eval_results import CaseReport, ConversationReport, Recording, RunReport, RunResult, StepReport, TurnReport
from agent_eval_scoring.core.content import Content, FunctionCall, FunctionResponse, Part, text_of
from agent_eval_scoring.core.invocation import BELOW, Invocation, happened, intermediate_responses, tool_calls
from agent_eval_scoring.core.text import shorten
from agent_eval_scoring.criteria import literal, match_calls, name_of, render_call, with_hidden
from agent_eval_scoring.evalset.models import EvalCase

MOST_CHARACTERS = 10_000_000
"""Characters of all conversations in one results.json."""
MOST_OF_A_CASE = 12_000
"""Characters of one case's conversation."""
_LEAST_OF_A_CASE = 1_200
"""A shorter conversation is useless, so with more than 8,333 cases the rest have none."""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """How much of a conversation to keep. Counts of turns and steps, lengths in characters."""

    turns: int
    steps: int
    """Calls or intermediate texts of a turn, and as many expected calls and expected intermediate texts."""
    text: int
    """A user's message, an answer, an expected answer."""
    call: int
    """A call; also a response, and an expected intermediate response."""


_BOUNDS = (
    Bounds(turns=20, steps=20, text=2_000, call=1_000),
    Bounds(turns=10, steps=15, text=1_000, call=500),
    Bounds(turns=6, steps=10, text=500, call=300),
    Bounds(turns=2, steps=5, text=250, call=120),
    Bounds(turns=1, steps=3, text=100, call=70),
)
"""From the longest excerpt to the shortest. The last one has at most 3 * 100 + 12 * 70 characters and the names of
agents, unless a tool returns more than once."""


def attach_conversations(
    report: RunReport,
    cases: Mapping[str, EvalCase],
    recording_of: Callable[[str], Recording | None],
    *,
    most: int = MOST_CHARACTERS,
) -> None:
    """Adds to each case that did not pass the conversation of a run that shows why, in bounded size.

    Blocking cases come first, then failed cases, then the rest. If the space is not enough, the last cases get none.

    Args:
        report: The report; its cases get their `conversation`.
        cases: The eval cases by case id.
        recording_of: Returns the recording of a run id; None if there is none.
        most: Characters of all conversations together.
    """
    blocking = set(report.blocking)
    shown = {"failed", "errored", "quarantined"}
    not_passed = [case for case in report.cases if case.status in shown or case.case_id in blocking]
    not_passed.sort(key=lambda case: (case.case_id not in blocking, not case.failed))
    limit = min(MOST_OF_A_CASE, max(most // max(len(not_passed), 1), _LEAST_OF_A_CASE))
    # Fewer whole conversations say more than pieces of all: the first ones block.
    for case in not_passed[: most // limit]:
        for run in telling_first(report.runs_of(case)):
            if (recording := recording_of(run.run_id)) is not None:
                case.conversation = _within(recording, cases.get(case.case_id), _turns_to_show(case, recording), limit)
                break


def telling_first(runs: Iterable[RunResult]) -> list[RunResult]:
    """The runs of a case, failed runs first. If only the mean of a score is too low, all runs passed."""
    order = ("failed", "errored", "not_run", "passed", "quarantined")
    return sorted(runs, key=lambda run: order.index(run.status))


def _turns_to_show(case: CaseReport, recording: Recording) -> set[int]:
    """The turns that lowered a score of the run, or in which the run failed."""
    turns = {
        evidence.turn
        for metric in case.metrics
        for run in metric.runs
        if run.run == recording.run
        for evidence in run.evidence
    }
    if recording.error is not None and recording.error.turn is not None:
        turns.add(recording.error.turn)
    return turns


def _within(recording: Recording, case: EvalCase | None, first: Collection[int], limit: int) -> ConversationReport:
    for bounds in _BOUNDS:
        conversation = conversation_of(recording, case, bounds, first=first)
        if sum(map(_size, conversation.turns)) <= limit:
            break
    return conversation


def _size(turn: TurnReport) -> int:
    texts = [
        turn.user,
        turn.answer or "",
        turn.expected_answer or "",
        *(turn.expected_calls or ()),
        *(turn.expected_said or ()),
    ]
    for step in turn.steps:
        texts += [step.agent, step.call, step.text, step.error, *step.responses]
    return sum(map(len, texts))


def conversation_of(
    recording: Recording, case: EvalCase | None, bounds: Bounds | None = None, *, first: Collection[int] = ()
) -> ConversationReport:
    """What happened in a run, turn by turn.

    Args:
        recording: The run.
        case: The eval case; None if it is unknown.
        bounds: How much to keep; None for everything.
        first: Turns (0-based) to keep first if there are too many.
    """
    expected = (case.conversation if case is not None else None) or []
    turns: list[tuple[Invocation | None, Invocation | None]] = [
        (actual, expected[number] if number < len(expected) else None)
        for number, actual in enumerate(recording.invocations)
    ]
    error = recording.error
    reference = expected[len(turns)] if len(turns) < len(expected) else None
    # The message to which the run failed. That of a simulated user is in the recording alone.
    if error is not None and error.turn == len(turns) and (recording.unfinished or reference) is not None:
        turns.append((recording.unfinished, reference))
    numbers = list(range(len(turns)))
    if bounds is not None:
        # The turns that lowered a score are kept, wherever they are, and shown in their order.
        numbers = sorted(sorted(numbers, key=lambda number: number not in first)[: bounds.turns])
    return ConversationReport(
        run=recording.run,
        turns=[
            _turn(number, *turns[number], bounds, broken=number >= len(recording.invocations)) for number in numbers
        ],
        turns_left_out=len(turns) - len(numbers),
    )


def _turn(
    number: int, actual: Invocation | None, expected: Invocation | None, bounds: Bounds | None, *, broken: bool
) -> TurnReport:
    """One turn; `broken`: an error ended it, maybe before there was an answer."""
    asked = actual or expected
    said = actual is not None and actual.final_response is not None
    steps = _folded(_steps(actual)) if actual is not None else []
    most = len(steps) if bounds is None else bounds.steps
    several = len({step.agent for step in steps}) > 1
    expected_calls, as_expected = _expected_calls(actual, expected, bounds)
    return TurnReport(
        turn=number,
        user=_cut(_words(asked.user_content), bounds) if asked is not None else "",
        steps=[_reported(step, bounds, named=several) for step in steps[:most]],
        steps_left_out=sum(step.times for step in steps[most:]),
        answer=_cut(_words(actual.final_response), bounds) if actual is not None and (said or not broken) else None,
        expected_calls=expected_calls,
        calls_as_expected=as_expected,
        expected_said=_expected_said(actual, expected, bounds),
        expected_answer=_expected_answer(actual, expected, bounds),
    )


def _cut(text: str, bounds: Bounds | None) -> str:
    return text if bounds is None else shorten(text, bounds.text)


def _words(content: Content | None) -> str:
    """A message as text, with placeholders for other content."""
    if content is None:
        return ""
    parts = [part.text or _placeholder(part) for part in content.iter_parts()]
    return "\n".join(text for text in parts if text)


def _placeholder(part: Part) -> str:
    if part.inline_data is not None:
        return f"[{part.inline_data.mime_type or 'data'}, {len(part.inline_data.data or '') * 3 // 4:,} bytes]"
    if part.file_data is not None:
        return f"[{part.file_data.mime_type or 'file'}: {part.file_data.file_uri or 'no address'}]"
    if part.executable_code is not None:
        return f"[code] {part.executable_code.get('code', '')}"
    if part.code_execution_result is not None:
        return f"[output of the code] {part.code_execution_result.get('output', '')}"
    return ""


def _expected_calls(
    actual: Invocation | None, expected: Invocation | None, bounds: Bounds | None
) -> tuple[list[str] | None, bool]:
    """The expected calls if others were made, and whether the expected ones were made."""
    if expected is None or expected.intermediate_data is None:
        return None, False
    calls = tool_calls(expected.intermediate_data)
    actual_calls = tool_calls(actual.intermediate_data) if actual is not None else []
    try:
        if match_calls(calls, actual_calls):
            return None, True
    except RecursionError:
        return None, False  # Nested too deeply to compare; the criteria report it.
    return [_call(call, bounds) for call in calls[: None if bounds is None else bounds.steps]], False


def _expected_said(actual: Invocation | None, expected: Invocation | None, bounds: Bounds | None) -> list[str] | None:
    responses = intermediate_responses(expected) if expected is not None else []
    rest = iter(intermediate_responses(actual) if actual is not None else [])
    # `in` consumes `rest` up to the response, so the next one is searched only after it.
    if all(response in rest for response in responses):
        return None
    shown = responses[: None if bounds is None else bounds.steps]
    texts = [f"{author}: {text}" if author else text for author, text in shown]
    return texts if bounds is None else [shorten(text, bounds.call) for text in texts]


def _expected_answer(actual: Invocation | None, expected: Invocation | None, bounds: Bounds | None) -> str | None:
    if expected is None or expected.final_response is None:
        return None
    reference = text_of(expected.final_response)
    same = actual is not None and reference == text_of(actual.final_response)
    return None if same or not reference else _cut(reference, bounds)


def _call(call: FunctionCall, bounds: Bounds | None) -> str:
    if bounds is not None:
        return shorten(render_call(call, limit=bounds.call), bounds.call)
    args = ", ".join(f"{name_of(key)}={_json(value)}" for key, value in (call.args or {}).items())
    return f"{name_of(call.name)}({args})"


def _response(response: FunctionResponse, bounds: Bounds | None) -> str:
    value = response.response if response.response is not None else {}
    text = _json(value) if bounds is None else shorten(literal(value, bounds.call), bounds.call)
    return text + (f" and {len(response.parts)} attached" if response.parts else "")


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (RecursionError, TypeError, ValueError):  # Nested too deeply, or a number with more than 4,300 digits.
        return literal(value, 10_000)


@dataclass(kw_only=True)
class _Step:
    agent: str
    call: FunctionCall | None = None
    responses: list[FunctionResponse] = field(default_factory=list)
    text: str = ""
    error: str = ""
    times: int = 1


def _folded(steps: Iterable[_Step]) -> list[_Step]:
    """The steps; equal ones, one after the other, as one."""
    folded: list[_Step] = []
    last: StepReport | None = None
    for step in steps:
        before, last = last, _reported(step, None, named=True)
        if last == before:
            folded[-1].times += 1
        else:
            folded.append(step)
    return folded


def _steps(actual: Invocation) -> list[_Step]:
    """The steps before the answer, in order. A response belongs to the call with its id, else to one with its name."""
    steps: list[_Step] = []
    by_id: dict[str, _Step] = {}
    waiting: dict[str | None, deque[_Step]] = {}
    answer = text_of(actual.final_response)
    for agent, part, error in _parts(actual):
        if error:
            # An error after a call without a response is what came instead of one.
            if not steps or steps[-1].call is None or steps[-1].responses or steps[-1].error:
                steps.append(_Step(agent=agent))
            steps[-1].error = error
            continue
        call, response = part.function_call, part.function_response
        if call is not None:
            step = _Step(agent=agent, call=call)
            steps.append(step)
            if call.id is not None:
                # A long-running tool returns twice with one id: both responses are of the first call that has it.
                by_id.setdefault(call.id, step)
            else:
                waiting.setdefault(call.name, deque()).append(step)
        elif response is not None:
            same_name = waiting.get(response.name)
            owner = by_id.get(response.id or "") or (same_name.popleft() if same_name else None)
            if owner is None:  # Its call was in an earlier turn.
                owner = _Step(agent=agent, text=f"{name_of(response.name)} returned:")
                steps.append(owner)
            owner.responses.append(response)
        elif (text := part.text or _placeholder(part)) and text != answer:
            steps.append(_Step(agent=agent, text=f"[thought] {text}" if part.thought else text))
    return steps


def _reported(step: _Step, bounds: Bounds | None, *, named: bool) -> StepReport:
    responses = step.responses if bounds is None else step.responses[:3]
    return StepReport(
        agent=shorten(step.agent, 60) if named else "",
        call="" if step.call is None else _call(step.call, bounds),
        inside="" if step.call is None else (step.call.name or "").rpartition(BELOW)[0],
        responses=[_response(response, bounds) for response in responses],
        text=_cut(step.text, bounds),
        error=_cut(step.error, bounds),
        times=step.times,
    )


def _parts(actual: Invocation) -> Iterator[tuple[str, Part, str]]:
    """The parts of all events, and an empty one for each error."""
    for event, parts, error in happened(with_hidden(actual)):
        for part in parts or [Part()]:
            yield event.author or "agent", part, str(error or "")
