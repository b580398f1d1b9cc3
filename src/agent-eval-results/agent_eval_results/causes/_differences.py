"""What a run did differently: from the base branch's run of the same case, or from what the case expects."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

from agent_eval_results import CauseData, Place, RunError, Waited
from agent_eval_results.causes import _values as values
from agent_eval_results.causes._runs import BETWEEN, HAND_OVER, NOTHING, Call, Difference, Key, Side, Turn
from agent_eval_scoring.core.tracebacks import Frame, exception_of, frames_of
from agent_eval_scoring.criteria import Alignment, align

_MOST_NAMES = 8
_MOST_CHANGES = 8
"""Places in an answer."""
_OUTAGES = frozenset(
    {
        *("APIConnectionError", "APITimeoutError", "ConnectError", "ConnectTimeout", "ConnectionError"),
        *("ConnectionRefusedError", "ConnectionResetError", "DeadlineExceeded", "InternalServerError"),
        *("RateLimitError", "ReadTimeout", "ResourceExhausted", "ServerError", "ServiceUnavailable", "TimeoutError"),
        "TooManyRequests",
    }
)
"""Exceptions that a model raises when its provider is away, also where its code is the agent's own."""
_EXPECTED = object()
"""In place of the response of an expected call, which may be any."""


def nearest(run: Side, others: Sequence[Side]) -> list[Difference]:
    """The differences from the run that differs least."""
    best: list[Difference] | None = None
    for other in others:
        found = differences(run, other)
        # An agent may have several good ways. The nearest one shows what is wrong with this run, any other what is not.
        if best is None or _count(found) < _count(best):
            best = found
        if not best:
            break
    return best or []


def _count(found: Sequence[Difference]) -> tuple[int, int]:
    return sum(not each.quiet for each in found), len(found)


def differences(run: Side, other: Side) -> list[Difference]:
    """How a run differs from another, in the order in which it happened. What follows an error is left out."""
    found: list[Difference] = []
    error = run.error
    for number, (turn, there) in enumerate(zip_longest(run.turns, other.turns)):
        if error is not None and error.turn is not None and number > error.turn:
            break
        if turn is not None and there is not None:
            ends = error if error is not None and error.turn == number else None
            found += _in_turn(number, run, other, ends)
    if error is not None and not _same_error(run, other):
        found.append(_error(run, error))
    return sorted(found, key=lambda difference: difference.at)


def unexpected(run: Side, case: Side) -> set[Key]:
    """All keys by which a run differs from what its case expects, with the responses that make its answer another."""
    keys = {key for difference in differences(run, case) for key in difference.keys}
    for turn, there in zip(run.turns, case.turns, strict=False):
        said, unsaid = ([*values.words(side.answer or ""), *_passed_words(side)] for side in (turn, there))
        for call in turn.calls:
            leaves = {} if call.waits else values.leaves(values.normal(call.response))
            used = [
                path for path, leaf in leaves.items() if values.mentions(said, leaf) > values.mentions(unsaid, leaf)
            ]
            names = tuple(sorted({str(path[0]) for path in used if path}))[:_MOST_NAMES]
            general: Key = ("tool-response", call.call.name or "")
            keys |= {general, (*general, names)} if used else set()
    return keys


def _passed_words(turn: Turn) -> list[str]:
    return [word for call in turn.calls for word in values.words(values.json_text(call.call.args))]


def _same_error(run: Side, other: Side) -> bool:
    if run.error is None or other.error is None:
        return False
    ours, theirs = ((e.kind, e.turn, exception_of(e.traceback or "")) for e in (run.error, other.error))
    return ours == theirs


def _in_turn(number: int, run: Side, other: Side, error: RunError | None) -> Iterator[Difference]:
    turn, there = run.turns[number], other.turns[number]
    lost_there = {lost.toolset for lost in there.lost}
    for lost in (lost for lost in turn.lost if lost.toolset not in lost_there):
        data = CauseData(agent=lost.agent, tool=lost.toolset, actual=lost.error)
        yield Difference(at=(number, -1.0), keys=(("toolset", lost.toolset),), data={("toolset", lost.toolset): data})
    last = len(turn.calls) - 1
    alignment = align([call.call for call in there.calls], [call.call for call in turn.calls])
    pairs = sorted([*alignment.matched, *alignment.moved, *alignment.changed], key=lambda pair: pair[1])
    quoted = [leaf for i, j in pairs for leaf in _quoted(turn, there, there.calls[i], turn.calls[j]).values()]
    answer = _answer(number, turn, there, quoted) if error is None else None
    if turn.knows_calls and there.knows_calls:
        gaps: dict[float, Difference] = {}
        for difference in _missing(number, turn, there, alignment, late=not other.is_run):
            gaps.setdefault(difference.at[1], difference)  # Of several missing calls the first one counts.
        for j in alignment.extra:
            extra, before = _extra(number, j, turn.calls[j], is_run=other.is_run), gaps.pop(j - BETWEEN, None)
            yield extra if before is None else _instead(before, extra)
        for i, j in pairs:
            yield from _pair(number, i, j, run, other, broken=error is not None)
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


def _missing(number: int, turn: Turn, there: Turn, alignment: Alignment, *, late: bool) -> Iterator[Difference]:
    """The missing calls, between those that should be before and after them; `late`: directly before the latter."""
    pairs = dict([*alignment.matched, *alignment.moved, *alignment.changed])
    for i in sorted(alignment.missing):
        if there.calls[i].call.name in turn.inner:
            continue  # It was called, where ADK does not look.
        if late:
            place = min((j for at, j in pairs.items() if at > i), default=len(turn.calls)) - BETWEEN
        else:
            place = max((j for at, j in pairs.items() if at < i), default=-1) + BETWEEN
        yield _unpaired(number, place, there.calls[i], extra=False)


def _extra(number: int, j: int, call: Call, *, is_run: bool) -> Difference:
    """A call that is on this side only. A case need not name every call, so its response may be what differs."""
    extra = _unpaired(number, float(j), call, extra=True)
    response = None if is_run or call.waits or call.call.name == HAND_OVER else _response(number, j, call)
    return extra if response is None else _together(response, extra, at=extra.at)


def _unpaired(number: int, place: float, call: Call, *, extra: bool) -> Difference:
    tool = call.call.name or ""
    if tool == HAND_OVER:
        name = str(call.args.get("agent_name", ""))
        return _hand_over((number, place), call.agent, None if extra else name, name if extra else None)
    general: Key = ("call-extra" if extra else "call-missing", tool)
    data = CauseData(agent=call.agent, tool=tool)
    return Difference(at=(number, place), keys=((*general, ""), general), data={(*general, ""): data, general: data})


def _instead(missing: Difference, extra: Difference) -> Difference:
    """A call in the place of another."""
    both = _together(missing, extra, at=extra.at)
    if len(missing.keys[0]) < 3 or missing.keys[0][0] == "sub-agent" or extra.keys[0][0] == "sub-agent":
        return both
    special: Key = (*missing.keys[1], extra.keys[1][1])
    keys = (special, missing.keys[1], extra.keys[1])
    return dataclasses.replace(both, keys=keys, data={**both.data, special: both.data[missing.keys[1]]})


def _hand_over(at: tuple[int, float], agent: str, expected: str | None, actual: str | None) -> Difference:
    keys: tuple[Key, ...] = (("sub-agent", expected, actual), ("sub-agent",))
    data = CauseData(agent=agent, expected=expected, actual=actual)
    return Difference(at=at, keys=keys, data=dict.fromkeys(keys, data))


def _pair(number: int, i: int, j: int, run: Side, other: Side, *, broken: bool) -> Iterator[Difference]:
    turn, there = run.turns[number], other.turns[number]
    actual, expected = turn.calls[j], there.calls[i]
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
        response = _paired_response(number, i, j, run, other) if other.is_run else _response(number, j, actual)
        if response is not None:
            yield response if arguments is None else dataclasses.replace(response, unless=arguments.keys)


def _quoted(turn: Turn, there: Turn, expected: Call, actual: Call) -> dict[values.Path, Any]:
    """The changed values of a response that make the answer another."""
    if expected.waits or actual.waits or actual.call.name == HAND_OVER or turn.answer is None or there.answer is None:
        return {}
    gone, new = values.changed_leaves(values.normal(expected.response), values.normal(actual.response))
    before, now = values.words(there.answer), values.words(turn.answer)
    return {
        path: leaf
        for leaves, said, unsaid in ((gone, before, now), (new, now, before))
        for path, leaf in leaves.items()
        if values.mentions(said, leaf) and not values.mentions(unsaid, leaf)
    }


def _passed_on(number: int, i: int, j: int, run: Side, other: Side) -> set[values.Path]:
    """The changed values of a response that make the arguments of later calls others."""
    expected, actual = other.turns[number].calls[i].response, run.turns[number].calls[j].response
    gone, new = values.changed_leaves(values.normal(expected), values.normal(actual))
    before, now = (
        [
            leaf
            for at, turn in enumerate(side.turns[number:])
            for call in turn.calls[0 if at else place + 1 :]
            for leaf in values.leaves(call.call.args).values()
        ]
        for side, place in ((other, i), (run, j))
    )
    # An error keeps a run from calls.
    return {
        path
        for leaves, passed, unpassed in (({} if run.error is not None else gone, before, now), (new, now, before))
        for path, leaf in leaves.items()
        if _has(passed, leaf) and not _has(unpassed, leaf)
    }


def _has(passed: Sequence[Any], leaf: Any) -> bool:
    if isinstance(leaf, bool) or values.is_empty(leaf):
        return False
    said = " ".join(values.words(str(leaf)))
    return leaf in passed or any(
        bool(said) and isinstance(each, str) and f" {said} " in f" {' '.join(values.words(each))} " for each in passed
    )


def _arguments(number: int, j: int, expected: Call, actual: Call) -> Difference | None:
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
        actual, expected = actual.get(name, NOTHING), expected.get(name, NOTHING)
    return {
        side: values.json_text(value)
        for side, value in (("actual", actual), ("expected", expected))
        if value is not NOTHING and value is not _EXPECTED
    }


def _response(number: int, j: int, call: Call, expected: Any = _EXPECTED) -> Difference | None:
    """A response that is an error or empty, and need not be."""
    tool, response = call.call.name or "", call.response
    data: dict[Key, CauseData] = {}
    whole = CauseData(agent=call.agent, tool=tool, **_shown((), response, expected))
    error = values.error_in(response)
    if error is not None:
        special = whole.model_copy(update={"actual": values.cut(error)})
        data = {("tool-error", tool, values.error_key(error)): special, ("tool-error", tool): special}
    elif values.is_empty(response):
        data[("tool-empty", tool)] = whole
    if data and expected is not _EXPECTED:
        data[("tool-response", tool)] = whole
    return Difference(at=(number, j + 0.1), keys=tuple(data), data=data, ends=True) if data else None


def _paired_response(number: int, i: int, j: int, run: Side, other: Side) -> Difference | None:
    """Another response than on the base branch, if its changed values make later calls others, or an answer."""
    call, there = run.turns[number].calls[j], other.turns[number].calls[i]
    if there.waits:
        return _response(number, j, call)
    before, now = values.normal(there.response), values.normal(call.response)
    if values.json_text(before) == values.json_text(now):  # 4 is not 4.0 in an answer.
        return None
    passed = _passed_on(number, i, j, run, other)
    later = zip(run.turns[number:], other.turns[number:], strict=False)
    used = passed or {path for turns in later for path in _quoted(*turns, there, call)}
    found = None
    if values.error_in(before) is None and not values.is_empty(before):
        found = _response(number, j, call, there.response)
    if found is not None:
        is_weak = found.keys[0][0] == "tool-empty" and not used and run.error is None
        return dataclasses.replace(found, ends=not is_weak, weak=is_weak)
    tool = call.call.name or ""
    names = tuple(sorted({str(path[0]) for path in used if path and isinstance(now, dict)}))[:_MOST_NAMES]
    if not used:
        names = values.differing(before, now)[:_MOST_NAMES]
    data: dict[Key, CauseData] = {}
    keys: list[Key] = [("tool-response", tool, names)] * bool(names) + [("tool-response", tool)]
    for key in keys if used else [("tool-response", tool, names, "quiet")]:
        shown = _shown(key[2:] and names, call.response, there.response)
        data[key] = CauseData(agent=call.agent, tool=tool, names=list(key[2:] and names), **shown)
    return Difference(
        at=(number, j + 0.1), keys=tuple(data), data=data, ends=bool(passed), weak=not passed, quiet=not used
    )


def _answer(number: int, turn: Turn, there: Turn, quoted: Sequence[Any]) -> Difference | None:
    """Another answer; `quoted`: the changed values of responses in it, which stand for themselves."""
    if there.answer is None or there.answer == turn.answer:
        return None
    actual, expected = values.plain_text(turn.answer or ""), values.plain_text(there.answer)
    if actual == expected:
        return None
    author = next(reversed(list(turn.agents)), "")
    whole: Key = ("answer", values.digest(actual))
    data = {whole: CauseData(agent=author, actual=values.cut(turn.answer or ""), expected=values.cut(there.answer))}
    changes = values.word_changes(values.words(expected), values.words(actual))
    of_responses = {word for leaf in quoted for word in values.words(str(leaf))}
    own = [
        change
        for change in changes
        if not any(word in of_responses or values.mentions([word], leaf) for word in sum(change, ()) for leaf in quoted)
    ]
    if quoted and all(any(map(str.isdigit, "".join(new))) for _, new in own):
        return None
    answered = [call for call in there.calls if not call.waits] or [call for call in turn.calls if not call.waits]
    said = {
        word
        for call in answered
        for leaf in values.leaves(call.response).values()
        for word in values.words(values.json_text(leaf))
    }
    found = values.phrases(own, said)
    for gone, new in found[:_MOST_CHANGES]:
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


def _late(at: tuple[int, float], waited: Waited | None, waiting: Call | None) -> Difference:
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
