"""What agents say and do differently from the base branch, whatever their scores are. Pure.

A difference is in all runs of this side and in none of the base branch's. With few runs that may be chance, so
something else must speak for it: the eval case expects what the base branch said, or the pull request changes the tool
or the very words. Where it changes nothing that an agent reads, only many runs count.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from itertools import islice, zip_longest
from typing import Any

from agent_eval.core.content import text_of
from agent_eval.core.text import shorten
from agent_eval.criteria.facts import Fact, compare, differences, facts_of
from agent_eval.gate.causes import (
    NOTHING,
    CaseRuns,
    Turn,
    json_text,
    leaves,
    mentions,
    turn_of,
    word_changes,
    words,
)
from agent_eval.gate.changed_lines import tokens
from agent_eval.results import CaseReport, Recording
from agent_eval.results.comparison import ChangedAnswer, ChangedValue

_MOST_RUNS = 10
_MOST_VALUES = 20
_LONGEST = 200
"""Characters of a value."""
_LONGEST_TEXT = 20_000
"""Characters of an answer, or a value of a tool, that are read."""
_CHANCE = 0.025
"""How often a coin with the worst odds may show as many equal runs on both sides."""
_FEW_WORDS = 6
_NOW = timedelta(hours=36)
_LATE = 2
"""Minutes between the start of a run and what it calls now."""
_TIME_ZONES = 15
_STAMP = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?")
_EPOCH = re.compile(r"\b\d{10}(?:\d{3})?\b")
_PASSING = re.compile(
    r"(?:^|[_.])(?:\w*id|uuid|token|seed|nonce|time|\w*stamp|\w+_at|now|elapsed|latency|duration)$", re.I
)
"""Names of values that differ from run to run."""
Path = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Diff:
    """What the pull request changes, as far as it is known."""

    touches_agent: bool = True
    """Whether it changes a file that an agent may read; also if that is unknown."""
    tools: Set[str] = frozenset()
    """Names of tools that it changes."""
    gone: Set[str] = frozenset()
    """Words of the lines that it removes, as `changed_lines.tokens`."""
    new: Set[str] = frozenset()

    def has(self, before: str | None, after: str | None) -> bool:
        """Whether it replaces the one by the other, word by word."""
        sides = ((before, self.gone), (after, self.new))
        return all(said is None or (bool(found := tokens([said])) and found.keys() <= there) for said, there in sides)


@dataclass(frozen=True, kw_only=True)
class _Run:
    """A run, or what the case expects."""

    turns: Sequence[Turn]
    users: Sequence[str]
    start: datetime


@dataclass(frozen=True, kw_only=True)
class _Pair:
    """What differs in one place."""

    before: str | None
    after: str | None
    witnesses: int
    """Runs of the base branch, and the eval case, that have `before`; without it, those that lack `after`."""
    fact: str = ""


def changed_answers(cases: Iterable[CaseReport], runs_of: Callable[[str], CaseRuns], diff: Diff) -> list[ChangedAnswer]:
    """The cases whose answers, tool results or calls differ from the base branch's.

    Args:
        cases: Those with the same content on both sides.
        runs_of: Returns the recordings of a case. Only those of one case are in memory at once.
        diff: What the pull request changes.
    """
    found = []
    for case in cases:
        recorded = runs_of(case.case_id)
        head, base = ([*islice(map(_run, _whole(side)), _MOST_RUNS)] for side in (recorded.head, recorded.base))
        if not head or not base:
            continue
        values = list(_values(head, base, [turn_of(turn) for turn in recorded.expected], diff))
        if values:
            found.append(
                ChangedAnswer(
                    case_id=case.case_id,
                    file=case.file,
                    eval_id=case.eval_id,
                    passes=case.status == "passed",
                    runs=len(head),
                    base_runs=len(base),
                    values=values[:_MOST_VALUES],
                    more=max(len(values) - _MOST_VALUES, 0),
                )
            )
    return found


def _whole(recordings: Iterable[Recording]) -> Iterator[Recording]:
    return (recording for recording in recordings if recording.error is None and recording.invocations)


def _run(recording: Recording) -> _Run:
    return _Run(
        turns=[turn_of(turn, knows_calls=recording.calls_visible) for turn in recording.invocations],
        users=[text_of(turn.user_content) for turn in recording.invocations],
        start=datetime.fromtimestamp(recording.started_at, UTC),
    )


def _values(head: Sequence[_Run], base: Sequence[_Run], expected: Sequence[Turn], diff: Diff) -> Iterator[ChangedValue]:
    """The differences, those of tools before the answers that they explain, turn by turn.

    What a simulated user was told otherwise ends the comparison.
    """
    is_clock = _Clock(base=[run.start for run in base], head=[run.start for run in head])
    for number in range(min(len(run.turns) for run in (*head, *base))):
        if len({run.users[number] for run in (*head, *base)}) > 1:
            return
        here, there = ([run.turns[number] for run in side] for side in (head, base))
        wanted = expected[number] if number < len(expected) else None
        named: list[ChangedValue] = []
        for kind, sides in (("call", _calls), ("response", _responses)):
            known = [sides(turn) for turn in (*here, *there)]
            places = sorted(set[Path]().union(*known)) if kind == "call" else sorted(_common(known))
            for place in places:
                now, was = ([sides(turn).get(place, []) for turn in side] for side in (here, there))
                also = sides(wanted).get(place) if wanted is not None else None
                for pair in _pairs(was, now, also):
                    evident = place[0] in diff.tools and not _PASSING.search(place[-1])
                    if not is_clock(pair) and _counts(pair, len(head), len(base), diff, evident=evident):
                        named.append(_value(kind, number, pair, tool=place[0], path=place[2:]))
        was_said, said = ([turn.answer or "" for turn in side] for side in (there, here))
        for pair in _texts(was_said, said, wanted.answer if wanted is not None else None):
            evident = any(_passes_on(value, pair) for value in named if value.kind == "response")
            if not is_clock(pair) and _counts(pair, len(head), len(base), diff, evident=evident):
                named.append(_value("answer", number, pair))
        yield from sorted(named, key=lambda value: value.kind != "answer")


def _value(kind: Any, turn: int, pair: _Pair, *, tool: str = "", path: Path = ()) -> ChangedValue:
    before, after = (None if said is None else shorten(said, _LONGEST) for said in (pair.before, pair.after))
    return ChangedValue(
        kind=kind, turn=turn, tool=tool, path=".".join(path), fact=pair.fact, before=before, after=after
    )


def _counts(pair: _Pair, head: int, base: int, diff: Diff, *, evident: bool) -> bool:
    """Whether chance is no likely reason for a difference; `evident`: the pull request changes where it comes from."""
    total = pair.witnesses + head
    if base > 1 and pair.witnesses**pair.witnesses * head**head / total**total <= _CHANCE:
        return True
    if not diff.touches_agent:
        return False
    return evident or (pair.before is not None and pair.witnesses > 1) or diff.has(pair.before, pair.after)


def _passes_on(value: ChangedValue, pair: _Pair) -> bool:
    """Whether a changed value of a tool is what an answer says otherwise."""
    sides = ((value.before, pair.before), (value.after, pair.after))
    return any(
        ours is not None and theirs is not None and (mentions(words(theirs), ours) or mentions(words(ours), theirs))
        for ours, theirs in sides
    )


# Values of calls and responses


def _calls(turn: Turn) -> Mapping[Path, list[Any]]:
    """The values of the arguments, by tool and name; for each call one more without a name."""
    found: dict[Path, list[Any]] = {}
    for call in turn.calls:
        tool = call.call.name or ""
        found.setdefault((tool, ""), []).append(NOTHING)
        for path, leaf in leaves(call.args).items():
            if path:
                found.setdefault((tool, "", *_generic(path)), []).append(leaf)
    return {place: values if len(place) > 2 else [len(values)] for place, values in found.items()}


def _responses(turn: Turn) -> Mapping[Path, list[Any]]:
    """The values of the responses, by tool, arguments and name; those of a list together."""
    found: dict[Path, list[Any]] = {}
    for call in turn.calls:
        if call.waits:
            continue
        key = call.call.name or "", json_text(call.call.args)
        found.setdefault(key, [])
        for path, leaf in leaves(call.response).items():
            found.setdefault((*key, *_generic(path)), []).append(leaf)
    return found


def _generic(path: Sequence[str | int]) -> Path:
    return tuple(str(name) for name in path if not isinstance(name, int))


def _common(known: Sequence[Mapping[Path, Any]]) -> set[Path]:
    """The places of calls that all runs made with the same arguments."""
    calls = set.intersection(*({place[:2] for place in places} for places in known))
    return {place for places in known for place in places if place[:2] in calls and len(place) > 2}


def _pairs(was: Sequence[list[Any]], now: Sequence[list[Any]], expected: list[Any] | None) -> Iterator[_Pair]:
    """What a place no longer has in any run, and what is new in all of them."""
    before, after = ([{_key(value): value for value in values} for values in side] for side in (was, now))
    gone = [before[0][key] for key in before[0] if _all(before, key) and not _any(after, key)]
    new = [after[0][key] for key in after[0] if _all(after, key) and not _any(before, key)]
    wanted = {_key(value) for value in expected or ()}
    for old, other in zip_longest(gone, new, fillvalue=NOTHING):
        witnesses = len(was) + (old is not NOTHING and _key(old) in wanted)
        facts: list[_Pair] = []
        if isinstance(old, str) and isinstance(other, str):
            facts = [pair for pair in _texts([old], [other], None) if pair.fact]
        yield from (replace(pair, witnesses=witnesses) for pair in facts[:1])
        if not facts:
            yield _Pair(before=_shown(old), after=_shown(other), witnesses=witnesses)


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _shown(value: Any) -> str | None:
    """A value as text; None for none, and for an empty list or object."""
    return None if value is NOTHING or value in ([], {}) else value if isinstance(value, str) else json_text(value)


def _all(sides: Sequence[Mapping[str, Any]], key: str) -> bool:
    return all(key in side for side in sides)


def _any(sides: Sequence[Mapping[str, Any]], key: str) -> bool:
    return any(key in side for side in sides)


# Texts


def _texts(was: Sequence[str], now: Sequence[str], expected: str | None) -> Iterator[_Pair]:
    """What answers say otherwise: facts; without one a few words, if nothing else varies."""
    was, now = ([text[:_LONGEST_TEXT] for text in side] for side in (was, now))
    if set(was) & set(now):
        return
    gone, new = _missing(was, now), _missing(now, was)
    pairs = [*_spelled(was, now), *_together(gone, new)]
    is_expected = _expects(expected, was[0])
    for before, after in pairs:
        witnesses = len(was) + (before is not None and is_expected(before))
        kind = next(fact.kind for fact in (before, after) if fact is not None)
        texts = [None if fact is None else fact.text for fact in (before, after)]
        yield _Pair(before=texts[0], after=texts[1], witnesses=witnesses, fact=kind)
    same = [" ".join(text.split()) for text in was]
    if not pairs and len({*same}) == 1 and len({" ".join(text.split()) for text in now}) == 1:
        changes = word_changes(words(was[0]), words(now[0]))
        if changes and sum(len(old) + len(other) for old, other in changes) <= _FEW_WORDS:
            witnesses = len(was) + (expected is not None and words(expected) == words(was[0]))
            for old, other in changes:
                yield _Pair(before=" ".join(old) or None, after=" ".join(other) or None, witnesses=witnesses)


def _missing(ours: Sequence[str], theirs: Sequence[str]) -> list[Fact]:
    """The facts that all texts of a side have and none of the other."""
    found = list(_of(ours[0], theirs[0])[1])
    for text in ours[1:]:
        kept = {fact.start for fact in _of(ours[0], text)[0]}
        found = [fact for fact in found if fact.start in kept]
    for text in theirs[1:]:
        lost = {fact.start for fact in _of(ours[0], text)[1]}
        found = [fact for fact in found if fact.start in lost]
    return found


def _of(reference: str, text: str) -> tuple[Sequence[Fact], Sequence[Fact]]:
    result = compare(reference, text, names=True, states=True)
    return result.found, result.missing


def _expects(expected: str | None, reference: str) -> Callable[[Fact], bool]:
    if expected is None:
        return lambda _: False
    starts = {fact.start for fact in _of(reference, expected[:_LONGEST_TEXT])[0]}
    return lambda fact: fact.start in starts


def _together(gone: Sequence[Fact], new: Sequence[Fact]) -> Iterator[tuple[Fact | None, Fact | None]]:
    families = dict.fromkeys(fact.family for fact in (*gone, *new))
    sides = {family: [[fact for fact in side if fact.family == family] for side in (gone, new)] for family in families}
    left: list[list[Fact]] = [[], []]
    for family in families:
        old, other = sides[family]
        paired = min(len(old), len(other))
        yield from zip(old[:paired], other[:paired], strict=True)
        left[0] += old[paired:]
        left[1] += other[paired:]
    # A status may become a name, a number a code.
    yield from zip_longest(*(sorted(side, key=lambda fact: fact.start) for side in left))


def _spelled(was: Sequence[str], now: Sequence[str]) -> Iterator[tuple[Fact, Fact]]:
    """Facts that are only spelled otherwise, as open and OPEN, in all runs. A capital at the beginning is no change."""
    for pair in differences(was[0], now[0]):
        if pair.before is None or pair.after is None:
            continue
        old, new = pair.before.text, pair.after.text
        is_spelling = old.casefold() == new.casefold() and old.isupper() != new.isupper()
        if is_spelling and all(old in text for text in was) and all(new in text and old not in text for text in now):
            yield pair.before, pair.after


# Clocks


@dataclass(frozen=True, kw_only=True)
class _Clock:
    """Tells what says when a run took place: today's date, the time, a stamp."""

    base: Sequence[datetime]
    head: Sequence[datetime]

    def __call__(self, pair: _Pair) -> bool:
        """Whether both sides of a pair are as far from the start of their runs."""
        if pair.before is None or pair.after is None:
            return False
        return any(
            _is_same_moment(pair.before, there, pair.after, here) for there in self.base[:1] for here in self.head[:1]
        )


def _is_same_moment(before: str, there: datetime, after: str, here: datetime) -> bool:
    was, now = _moments(before, there), _moments(after, here)
    if there.date() != here.date() and was.days & now.days:
        return True
    if any(abs(one - other) <= _LATE for one in was.zones for other in now.zones):
        return True
    return was.is_now and now.is_now


@dataclass(frozen=True, kw_only=True)
class _Moments:
    """How far the dates and times of a text are from the start of its run."""

    days: Set[int]
    zones: Set[int]
    """Minutes: the time zones in which its times are when the run began."""
    is_now: bool
    """Whether it has a stamp of about that time."""


def _moments(text: str, start: datetime) -> _Moments:
    days, zones, stamps = set[int](), set[int](), list[datetime]()
    for match in _STAMP.findall(text):
        with contextlib.suppress(ValueError):
            stamps.append(datetime.fromisoformat(match.replace(" ", "T")).replace(tzinfo=UTC))
    stamps += [datetime.fromtimestamp(int(number[:10]), UTC) for number in _EPOCH.findall(text)]
    for fact in facts_of(text):
        for value in fact.values if fact.kind in {"date", "time"} else ():
            if fact.kind == "time":
                zones |= _zones(value, start)
            else:
                days |= _days(value, fact.units, start)
    return _Moments(days=days, zones=zones, is_now=any(abs(stamp - start) <= _NOW for stamp in stamps))


def _days(value: str, years: Set[str], start: datetime) -> set[int]:
    month, _, day = value.partition("-")
    found = set[int]()
    for year in [int(year) for year in years] or [start.year - 1, start.year, start.year + 1]:
        with contextlib.suppress(ValueError):
            found.add((date(year, int(month), int(day or 1)) - start.date()).days)
    return found


def _zones(value: str, start: datetime) -> set[int]:
    hours, minutes = (int(part) for part in value.split(":")[:2])
    minute = (60 * (hours - start.hour) + minutes - start.minute) % 1440
    return {minute} if min(minute % _TIME_ZONES, -minute % _TIME_ZONES) <= _LATE else set()
