"""What a run did differently: from the base branch's run of the same case, or from what the case expects."""

from __future__ import annotations

import dataclasses
import math
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from agent_eval.core.content import FunctionCall, text_of
from agent_eval.core.invocation import Invocation, contents_of, tool_calls
from agent_eval.core.tracebacks import Frame, exception_of, frames_of
from agent_eval.criteria import Alignment, align
from agent_eval.gate.causes import _values as values
from agent_eval.results import CauseData, Place, Recording, RunError, Waited

Key = tuple[Any, ...]
"""What runs are grouped by: the code of a cause, and what it is about."""
HAND_OVER = "transfer_to_agent"
_MOST_CALLS = 400
"""Calls of a turn that are compared."""
_MOST_NAMES = 8
_OUTAGES = frozenset(
    {
        *("APIConnectionError", "APITimeoutError", "ConnectError", "ConnectTimeout", "ConnectionError"),
        *(
            "ConnectionRefusedError",
            "ConnectionResetError",
            "DeadlineExceeded",
            "InternalServerError",
            "RateLimitError",
        ),
        *("ReadTimeout", "ResourceExhausted", "ServerError", "ServiceUnavailable", "TimeoutError"),
        "TooManyRequests",
    }
)
"""Exceptions that a model raises when its provider is away, also where its code is the agent's own."""
_BETWEEN = 0.5
"""The fraction of a place between two calls."""
_NOTHING = object()
"""In place of the response of a call that has none."""
_EXPECTED = object()
"""In place of the response of an expected call, which may be any."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One place in a run."""

    at: tuple[int, float]
    """The turn (0-based), and the place in it: the number of the call, or a fraction more."""
    keys: tuple[Key, ...]
    """Special to general; empty for what explains nothing."""
    data: Mapping[Key, CauseData] = field(default_factory=dict)
    """What to report, by key."""
    ends: bool = False
    """Whether what comes later follows from it, so that nothing is claimed if it does not count itself."""
    unless: tuple[Key, ...] = ()
    """It matters only if these keys are noise: it follows from what they stand for."""
    expects: str = ""
    """A key of the expected answer."""

    @property
    def call(self) -> int | None:
        """The number of the call in its turn; None for the answer, the whole turn, or a call that was not made."""
        place = self.at[1]
        return int(place) if 0 <= place < math.inf and place % 1 < _BETWEEN else None

    def bare(self) -> Difference:
        """The same without data, which takes most of the memory."""
        return dataclasses.replace(self, data={})


@dataclass(frozen=True, kw_only=True)
class _Call:
    agent: str
    call: FunctionCall
    """Its args are normalised."""
    args: dict[str, Any]
    response: Any = _NOTHING

    @property
    def waits(self) -> bool:
        """Whether there is no response."""
        return self.response is _NOTHING


@dataclass(frozen=True, kw_only=True)
class _Turn:
    calls: Sequence[_Call]
    answer: str | None
    """None: unknown."""
    agents: Collection[str]
    """The authors of its events."""
    knows_calls: bool = True


@dataclass(frozen=True, kw_only=True)
class Side:
    """A run, or what a case expects, ready to be compared."""

    turns: Sequence[_Turn]
    error: RunError | None = None
    agent: str = ""
    """The agent's path."""
    tools: Collection[str] = ()
    """Names of tools."""
    is_run: bool = True


def side_of_run(recording: Recording, agent: str, tools: Collection[str] = ()) -> Side:
    """A recorded run.

    Args:
        recording: The run.
        agent: The path of its agent.
        tools: Names of tools that are known from elsewhere.
    """
    turns = [_turn(turn, knows_calls=recording.calls_visible) for turn in recording.all_turns]
    return Side(turns=turns, error=recording.error, agent=agent, tools=tools)


def tools_of(recording: Recording) -> set[str]:
    """The names of the tools that were called, or offered to a model."""
    names: set[str] = set()
    for turn in recording.all_turns:
        names.update(call.name or "" for call in tool_calls(turn.intermediate_data))
        for agent in turn.app_details.agent_details.values() if turn.app_details is not None else ():
            for tool in agent.tool_declarations:
                declared = tool.get("function_declarations") if isinstance(tool, dict) else None
                names.update(str(each.get("name")) for each in declared or () if isinstance(each, dict))
    return names


def side_of_case(conversation: Sequence[Invocation]) -> Side:
    """What a case expects."""
    turns = [_turn(turn, knows_calls=turn.intermediate_data is not None) for turn in conversation]
    return Side(turns=turns, is_run=False)


def _turn(turn: Invocation, *, knows_calls: bool) -> _Turn:
    calls: list[_Call] = []
    waiting: dict[str | None, deque[int]] = {}
    agents: dict[str, None] = {}
    for event, parts in contents_of(turn.intermediate_data):
        agents[event.author] = None
        for part in parts:
            if part.function_call is not None and knows_calls and len(calls) < _MOST_CALLS:
                args = part.function_call.args or {}
                same = FunctionCall.model_construct(name=part.function_call.name or "", args=values.normal(args))
                for key in {part.function_call.id, part.function_call.name}:
                    waiting.setdefault(key, deque()).append(len(calls))
                calls.append(_Call(agent=event.author, call=same, args=args))
            elif part.function_response is not None:
                answered = part.function_response
                places = (waiting.get(answered.id) if answered.id else None) or waiting.get(answered.name)
                while places and not calls[places[0]].waits:
                    places.popleft()
                if places:
                    place = places.popleft()
                    calls[place] = dataclasses.replace(calls[place], response=answered.response)
    answer = None if turn.final_response is None else text_of(turn.final_response)
    return _Turn(calls=calls, answer=answer, agents=agents, knows_calls=knows_calls)


def nearest(run: Side, others: Sequence[Side]) -> list[Difference]:
    """The differences from the run that differs least."""
    best: list[Difference] | None = None
    for other in others:
        found = differences(run, other)
        if best is None or len(found) < len(best):
            best = found
        if not best:
            break
    return best or []


def differences(run: Side, other: Side) -> list[Difference]:
    """How a run differs from another, in the order in which it happened. What follows an error is left out."""
    found: list[Difference] = []
    error = run.error
    for number, (turn, there) in enumerate(zip_longest(run.turns, other.turns)):
        if error is not None and error.turn is not None and number > error.turn:
            break
        if turn is not None and there is not None:
            ends = error if error is not None and error.turn == number else None
            found += _in_turn(number, turn, there, other, ends)
    if error is not None and not _same_error(run, other):
        found.append(_error(run, error))
    return sorted(found, key=lambda difference: difference.at)


def _same_error(run: Side, other: Side) -> bool:
    if run.error is None or other.error is None:
        return False
    ours, theirs = ((e.kind, e.turn, exception_of(e.traceback or "")) for e in (run.error, other.error))
    return ours == theirs


def _in_turn(number: int, turn: _Turn, there: _Turn, other: Side, error: RunError | None) -> Iterator[Difference]:
    last = len(turn.calls) - 1
    answer = _answer(number, turn, there, other) if error is None else None
    if turn.knows_calls and there.knows_calls:
        alignment = align([call.call for call in there.calls], [call.call for call in turn.calls])
        gaps: dict[float, Difference] = {}
        for difference in _missing(number, turn, there, alignment, late=not other.is_run):
            gaps.setdefault(difference.at[1], difference)  # Of several missing calls the first one counts.
        for j in alignment.extra:
            extra, before = _extra(number, j, turn.calls[j], first=other.is_run), gaps.pop(j - _BETWEEN, None)
            yield extra if before is None else _together(before, extra, at=extra.at)
        for i, j in sorted([*alignment.matched, *alignment.moved, *alignment.changed], key=lambda pair: pair[1]):
            yield from _pair(number, j, turn, there.calls[i], there, other, broken=error is not None)
        for place, difference in gaps.items():
            if place > last:
                if error is not None:
                    continue  # The error kept the run from it.
                if answer is not None:  # It answered instead.
                    difference, answer = _together(difference, answer), None
            yield difference
    if answer is not None:
        yield answer


def _together(one: Difference, other: Difference, at: tuple[int, float] | None = None) -> Difference:
    """Two sides of one step of the model."""
    return dataclasses.replace(
        one,
        at=at or one.at,
        keys=(*one.keys, *other.keys),
        data={**one.data, **other.data},
        expects=one.expects or other.expects,
    )


def _missing(number: int, turn: _Turn, there: _Turn, alignment: Alignment, *, late: bool) -> Iterator[Difference]:
    """The missing calls, between those that should be before and after them; `late`: directly before the latter."""
    pairs = dict([*alignment.matched, *alignment.moved, *alignment.changed])
    for i in sorted(alignment.missing):
        if late:
            place = min((j for at, j in pairs.items() if at > i), default=len(turn.calls)) - _BETWEEN
        else:
            place = max((j for at, j in pairs.items() if at < i), default=-1) + _BETWEEN
        yield _unpaired(number, place, there.calls[i], extra=False)


def _extra(number: int, j: int, call: _Call, *, first: bool) -> Difference:
    """A call that is on this side only; `first`: before what its response may be. A case need not name every call."""
    extra = _unpaired(number, float(j), call, extra=True)
    response = None if call.waits or call.call.name == HAND_OVER else _response(number, j, call, _EXPECTED)
    if response is None:
        return extra
    return _together(extra, response) if first else _together(response, extra, at=extra.at)


def _unpaired(number: int, place: float, call: _Call, *, extra: bool) -> Difference:
    tool = call.call.name or ""
    if tool == HAND_OVER:
        name = str(call.args.get("agent_name", ""))
        return _hand_over((number, place), call.agent, None if extra else name, name if extra else None)
    key: Key = ("call-extra" if extra else "call-missing", tool)
    return Difference(at=(number, place), keys=(key,), data={key: CauseData(agent=call.agent, tool=tool)})


def _hand_over(at: tuple[int, float], agent: str, expected: str | None, actual: str | None) -> Difference:
    keys: tuple[Key, ...] = (("sub-agent", expected, actual), ("sub-agent",))
    data = CauseData(agent=agent, expected=expected, actual=actual)
    return Difference(at=at, keys=keys, data=dict.fromkeys(keys, data))


def _pair(
    number: int, j: int, turn: _Turn, expected: _Call, there: _Turn, other: Side, *, broken: bool
) -> Iterator[Difference]:
    actual = turn.calls[j]
    tool = actual.call.name or ""
    if tool == HAND_OVER:
        names = [str(call.args.get("agent_name", "")) for call in (expected, actual)]
        if names[0] != names[1]:
            yield _hand_over((number, float(j)), actual.agent, names[0], names[1])
        elif broken and names[1] not in turn.agents and (names[1] in there.agents or not other.is_run):
            yield dataclasses.replace(_hand_over((number, j + 0.4), actual.agent, names[0], None), ends=True)
        return
    arguments = _arguments(number, j, expected, actual)
    if arguments is not None:
        yield arguments
    if not actual.waits:
        response = _response(number, j, actual, expected.response if other.is_run else _EXPECTED)
        if response is not None:
            yield response if arguments is None else dataclasses.replace(response, unless=arguments.keys)


def _arguments(number: int, j: int, expected: _Call, actual: _Call) -> Difference | None:
    if (expected.call.args or {}) == (actual.call.args or {}):
        return None
    tool = actual.call.name or ""
    names = values.differing(expected.call.args, actual.call.args)[:_MOST_NAMES]
    new = tuple(name for name in names if name not in expected.args)
    gone = tuple(name for name in names if name not in actual.args)
    special: Key = ("call-argument", tool, names, new, gone)
    general: Key = ("call-argument", tool)
    data = CauseData(agent=actual.agent, tool=tool, **_shown(names, actual.args, expected.args))
    special_data = data.model_copy(
        update={"names": list(names), "renamed": bool(new or gone), "new": list(new), "gone": list(gone)}
    )
    return Difference(at=(number, float(j)), keys=(special, general), data={special: special_data, general: data})


def _shown(names: Sequence[str], actual: Any, expected: Any) -> dict[str, Any]:
    """The values that differ; of several names the whole ones."""
    if len(names) == 1 and isinstance(actual, dict) and isinstance(expected, dict):
        [name] = names
        actual, expected = actual.get(name, _NOTHING), expected.get(name, _NOTHING)
    return {
        side: values.json_text(value)
        for side, value in (("actual", actual), ("expected", expected))
        if value is not _NOTHING and value is not _EXPECTED
    }


def _response(number: int, j: int, call: _Call, expected: Any) -> Difference | None:
    tool, response = call.call.name or "", call.response
    if expected is _NOTHING:
        expected = _EXPECTED
    same = values.normal(response)
    before = _EXPECTED if expected is _EXPECTED else values.normal(expected)
    if same == before or values.only_adds(before, same):
        return None
    data: dict[Key, CauseData] = {}
    whole = _shown((), response, expected)
    error = values.error_in(response)
    if error is not None:
        shown = {**whole, "actual": values.cut(error)}
        special = CauseData(agent=call.agent, tool=tool, **shown)
        data = {("tool-error", tool, values.error_key(error)): special, ("tool-error", tool): special}
    elif values.is_empty(response) and (expected is _EXPECTED or not values.is_empty(expected)):
        data[("tool-empty", tool)] = CauseData(agent=call.agent, tool=tool, **whole)
    elif before is not _EXPECTED and (names := values.differing(before, same)[:_MOST_NAMES]):
        shown = _shown(names, response, expected)
        data[("tool-response", tool, names)] = CauseData(agent=call.agent, tool=tool, names=list(names), **shown)
    if before is not _EXPECTED:
        data[("tool-response", tool)] = CauseData(agent=call.agent, tool=tool, **whole)
    return Difference(at=(number, j + 0.1), keys=tuple(data), data=data, ends=True) if data else None


def _answer(number: int, turn: _Turn, there: _Turn, other: Side) -> Difference | None:
    if there.answer is None:
        return None
    actual, expected = values.plain_text(turn.answer or ""), values.plain_text(there.answer)
    if actual == expected:
        return None
    author = next(reversed(list(turn.agents)), "")
    whole: Key = ("answer", values.digest(actual))
    data = {whole: CauseData(agent=author, actual=values.cut(turn.answer or ""), expected=values.cut(there.answer))}
    changes = values.word_changes(expected, actual)
    if changes is not None:
        gone, new = changes
        said = {
            word for call in turn.calls for word in values.words("" if call.waits else values.json_text(call.response))
        }
        if not any(word in said or any(map(str.isdigit, word)) for word in new):
            data[("answer-change", gone, new)] = CauseData(agent=author, gone=list(gone), new=list(new))
    at = (number, math.inf)
    return Difference(at=at, keys=tuple(data), data=data, expects=values.digest(expected))


def _error(run: Side, error: RunError) -> Difference:
    """The error that ended a run, after the last call of its turn if that is recorded."""
    number = error.turn or 0
    recorded = run.turns[number] if number < len(run.turns) else None
    calls = recorded.calls if recorded is not None else ()
    at = (number, len(calls) - 1 + 0.3 if recorded is not None else -1.0)
    waiting = next((call for call in reversed(calls) if call.waits), None)
    tool = waiting.call.name or "" if waiting is not None else ""
    agent = waiting.agent if waiting is not None else ""
    if error.kind == "deadline":
        return _late(at, error.waited, waiting)
    traceback = error.traceback or ""
    frames, kind = frames_of(traceback, run.agent), exception_of(traceback)
    if (raised := error.raised) is not None and raised.file and raised.line is not None:
        frames, kind = [*frames, Frame(file=raised.file, line=raised.line, function=raised.symbol)], raised.type
    raised_in = next((frame.function for frame in reversed(frames) if frame.function in run.tools), "")
    tool = tool or raised_in
    # An unrecorded turn may have had another failure first, unless the code of a tool raised.
    seen = recorded is not None or raised_in or error.turn is None
    if not kind or not seen or not (frames or tool) or (kind in _OUTAGES and not tool):
        return Difference(at=at, keys=(), ends=True)
    if not frames:  # ADK raised it, e.g. because there is no such tool.
        key: Key = ("exception", kind, "", tool)
        own = CauseData(agent=agent, tool=tool, exception=kind, actual=values.cut(error.message))
        return Difference(at=at, keys=(key,), data={key: own}, ends=True)
    frame = frames[-1]
    named_frames = (each for each in reversed(frames) if each.file == frame.file and not each.function.startswith("<"))
    function = next((each.function for each in named_frames), "")  # That of a comprehension or a lambda.
    general: Key = ("exception", kind, frame.file)
    special: Key = (*general, function)
    place = Place(file=frame.file, first=frame.line, last=frame.line, symbol=function)
    data = CauseData(agent=agent, exception=kind, place=place, actual=values.cut(error.message))
    named = {(*special, tool): data.model_copy(update={"tool": tool})} if tool else {}
    found: dict[Key, CauseData] = {**named, special: data, general: data}
    return Difference(at=at, keys=tuple(found), data=found, ends=True)


def _late(at: tuple[int, float], waited: Waited | None, waiting: _Call | None) -> Difference:
    """A turn that ran out of time: a difference only if a tool had not returned. A model may be a slow machine."""
    tool = waited.name if waited is not None and waited.kind == "tool" else ""
    if waited is not None and not waited.kind and waiting is not None:  # It blocked its process, so no one could ask.
        tool = waiting.call.name or ""
    if waited is None or not tool:
        return Difference(at=at, keys=(("deadline", ""),), ends=True)
    place = Place(file=waited.file, first=waited.line, symbol=waited.symbol) if waited.file else None
    agent, seconds = waiting.agent if waiting is not None else "", round(waited.seconds, 1) or None
    data = CauseData(agent=agent, tool=tool, seconds=seconds, place=place)
    return Difference(at=at, keys=(("deadline", tool),), data={("deadline", tool): data}, ends=True)
