"""What agents say and do differently from the base branch, whatever their scores are. Pure.

A difference is in all runs of this side and in none of the base branch's. With few runs that may be chance, so it
counts only if the pull request explains it: it changes these very words, or the tool that returns another value. What
else differs counts if the agent is steady, or if there are many runs.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice, zip_longest
from typing import Any

from agent_eval_results import CaseReport, Recording
from agent_eval_results.causes import (
    NOTHING,
    CaseRuns,
    Turn,
    error_in,
    json_text,
    leaves,
    mentions,
    turn_of,
    word_changes,
    words,
)
from agent_eval_results.causes.agent_diff import Diff
from agent_eval_results.data.comparison import ChangedAnswer, ChangedValue
from agent_eval_scoring.core.content import text_of
from agent_eval_scoring.core.text import shorten
from agent_eval_scoring.criteria.facts import Fact, compare, differences

_MOST_RUNS = 10
_MOST_VALUES = 20
_LONGEST = 200
"""Characters of a value."""
_LONGEST_TEXT = 20_000
"""Characters of an answer, or a value of a tool, that are read."""
_CHANCE = 0.05
"""How many differences of an agent may be chance, if all that varies does so like a coin."""
_STEADY = 0.9
"""Share of an agent's answers that are the same, word by word."""
_FEW_WORDS = 6
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d|\d\d?:\d\d|^\d{10}(?:\d{3})?(?:\.\d+)?$")
"""What may say when a run took place."""
_PASSING = re.compile(
    r"[a-z]I[dD]$|(?i:(?:^|[_.:])(?:(?:request|session|trace|span|run|message|event|invocation|call)?id|[ug]uid|token|seed"
    r"|nonce|\w*stamp|now|elapsed|latency)$)"
)
"""Names of values that differ from run to run; not `paid` or `valid`."""
Path = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class _Pair:
    """What differs in one place."""

    before: str | None
    after: str | None
    runs: int
    """Of the base branch, all of which have `before`, or lack `after`."""
    is_expected: bool = False
    """Whether the eval case has `before`, too."""
    fact: str = ""
    whole: tuple[str | None, str | None] = (None, None)
    """The values that these facts are a part of."""

    @property
    def witnesses(self) -> int:
        """Who says `before`. What may be the time of a run is the base branch's own only if the case says it, too."""
        is_moment = self.fact in {"date", "time"} or _MOMENT.search(self.before or self.after or "")
        return self.runs + 1 if self.is_expected else 0 if is_moment else self.runs


@dataclass(kw_only=True)
class _Habits:
    """How much an agent varies without a reason: in its answers, its calls, its state, or the responses of a tool."""

    compared: int = 0
    """Turns of the base branch that could be compared with another run, or with what the case expects."""
    same: int = 0
    varying: int = 0
    """Values that only some runs of a side have, or that differ without a witness."""
    witnessed: int = 0
    """Values that differ from what the base branch and the case say."""

    def is_unlikely(self, runs: int) -> bool:
        """Whether a difference is unlikely to be chance, if so many runs agree on it."""
        is_steady = self.compared > 0 and self.same >= _STEADY * self.compared
        return (runs > 2 and is_steady and not self.varying) or (self.varying + 1) * 2.0 ** (1 - runs) <= _CHANCE

    def is_reliable(self) -> bool:
        """Whether most of what differs has a witness."""
        return self.witnessed > self.varying


@dataclass(kw_only=True)
class _Difference:
    """A difference, which counts if the agent's habits, once all cases are known, allow it."""

    value: ChangedValue
    counts: Callable[[], bool] = lambda: True


def changed_answers(
    cases: Iterable[CaseReport],
    runs_of: Callable[[str], CaseRuns],
    agent_of: Callable[[str], str],
    diff_of: Callable[[str], Diff],
) -> list[ChangedAnswer]:
    """The cases whose answers, tool results, calls or final state differ from the base branch's.

    Args:
        cases: Those with the same content on both sides.
        runs_of: Returns the recordings of a case. Only those of one case are in memory at once.
        agent_of: Returns the path of the agent that answers a file.
        diff_of: Returns what the pull request changes for an agent.
    """
    habits = defaultdict[tuple[str, ...], _Habits](_Habits)
    by_case: list[tuple[CaseReport, int, int, list[_Difference]]] = []
    for case in cases:
        agent = agent_of(case.file)
        diff = diff_of(agent)
        # An agent that the pull request does not touch can only differ by chance.
        if not diff.is_any:
            continue
        recorded = runs_of(case.case_id)
        head, base = _turns(recorded.head), _turns(recorded.base)
        if head and base:
            expected = [turn_of(turn) for turn in recorded.expected]
            differing = _differing(head, base, expected, diff, lambda *key, agent=agent: habits[agent, *key])
            by_case.append((case, len(head), len(base), [*differing]))
    return [
        ChangedAnswer(
            case_id=case.case_id,
            file=case.file,
            eval_id=case.eval_id,
            passes=case.passed,
            runs=runs,
            base_runs=base_runs,
            values=values[:_MOST_VALUES],
            more=max(len(values) - _MOST_VALUES, 0),
        )
        for case, runs, base_runs, differing in by_case
        if (values := [each.value for each in differing if each.counts()])
    ]


def _turns(recordings: Iterable[Recording]) -> list[list[tuple[str, Turn]]]:
    """What the user says in each turn of the first whole runs, and what happens."""
    # A run that broke off says less than it would have, and that is no change of its answers.
    whole = (each for each in recordings if each.error is None and each.invocations)
    return [
        [(text_of(turn.user_content), turn_of(turn, knows_calls=run.calls_visible)) for turn in run.invocations]
        for run in islice(whole, _MOST_RUNS)
    ]


def _differing(
    head: Sequence[Sequence[tuple[str, Turn]]],
    base: Sequence[Sequence[tuple[str, Turn]]],
    expected: Sequence[Turn],
    diff: Diff,
    habits: Callable[..., _Habits],
) -> Iterator[_Difference]:
    """The differences, turn by turn, those of answers first, until the user says something else; the state last."""
    lengths = {len(run) for run in (*head, *base)}
    for number, (here, there) in enumerate(zip(zip(*head, strict=False), zip(*base, strict=False), strict=False)):
        # A simulated user went another way: from here on the sides are two conversations.
        if len({message for message, _ in (*here, *there)}) > 1:
            return
        turn = _Sides(
            number=number,
            head=[each for _, each in here],
            base=[each for _, each in there],
            expected=expected[number] if number < len(expected) else None,
            diff=diff,
            habits=habits,
        )
        acts = [*turn.responses()]
        acts += turn.calls(acts)
        yield from turn.answers(acts)
        yield from acts
        if lengths == {number + 1}:
            yield from turn.state(acts)


@dataclass(frozen=True, kw_only=True)
class _Sides:
    """A turn on both sides, and what the case expects of it."""

    number: int
    head: Sequence[Turn]
    base: Sequence[Turn]
    expected: Turn | None
    diff: Diff
    habits: Callable[..., _Habits]

    def responses(self) -> Iterator[_Difference]:
        """What tools return otherwise for equal arguments."""
        said = words((self.expected.answer or "")[:_LONGEST_TEXT]) if self.expected is not None else []
        known = [_responses(turn) for turn in (*self.head, *self.base)]
        for place in sorted(_common(known)):
            habits = self.habits("response", place[0])
            for pair in self._pairs(_responses, place, habits):
                difference = self._difference("response", pair, place)
                is_passing = _PASSING.search(place[-1]) is not None
                if self._is_explained(pair) and (self.diff.is_known or not is_passing):
                    yield difference
                    continue
                if is_passing or self._failed_once:
                    continue
                if pair.witnesses > 1 or _is_said(said, pair.before or ""):
                    habits.witnessed += 1
                    difference.counts = habits.is_reliable
                else:
                    # Each case adds to the tool's habits, so that a tool whose values vary is no proof in any case.
                    habits.varying += 1
                    difference.counts = lambda: False
                # A tool that the pull request does not touch returns another value for another reason.
                if place[0] in self.diff.tools:
                    yield difference

    def calls(self, responses: Sequence[_Difference]) -> Iterator[_Difference]:
        """Calls and arguments that differ."""
        habits = self.habits("call")
        runs = [[(call.call.name, call.call.args) for call in turn.calls] for turn in self._known]
        if len(runs) > 1:
            habits.compared += 1
            habits.same += all(calls == runs[0] for calls in runs)
        known = [_calls(turn) for turn in (*self.head, *self.base)]
        for place in sorted(set[Path]().union(*known)):
            for pair in self._pairs(_calls, place, habits):
                # A place without a name is the number of calls, which no changed word explains.
                if self._is_explained(pair) and len(place) > 2:
                    yield self._difference("call", pair, place)
                elif pair.witnesses < 2 or self._failed_once:
                    habits.varying += 1
                elif self.diff.agent or any(_passes_on(each.value, pair) for each in responses):
                    difference = self._difference("call", pair, place)
                    # Asked later: by then the other cases have shown how much the agent varies.
                    difference.counts = partial(habits.is_unlikely, pair.witnesses + len(self.head))
                    yield difference

    def answers(self, acts: Sequence[_Difference]) -> Iterator[_Difference]:
        """What answers say otherwise."""
        habits = self.habits("answer")
        texts = [" ".join((turn.answer or "").split()) for turn in self._known]
        if len(texts) > 1:
            habits.compared += 1
            habits.same += len({*texts}) == 1
        now, was = ([(turn.answer or "")[:_LONGEST_TEXT] for turn in side] for side in (self.head, self.base))
        for side in (now, was):
            habits.varying += sum(len(_kept_and_lost(side[0], text)[1]) for text in {*side[1:]} - {side[0]})
        for pair in _texts(was, now, self.expected.answer if self.expected is not None else None):
            responses = [act for act in acts if act.value.kind == "response"]
            yield self._follows("answer", pair, habits, responses, bool(self.diff.agent or acts))

    def state(self, acts: Sequence[_Difference]) -> Iterator[_Difference]:
        """What the session keeps otherwise. A text that is worded otherwise is no difference, as in answers."""
        states = [turn.state for turn in (*self.head, *self.base) if turn.state is not None]
        # A run without a state would let every key of the other runs look new.
        if len(states) < len(self.head) + len(self.base):
            return
        habits = self.habits("state")
        wanted = (self.expected.state if self.expected is not None else None) or {}
        kept = self.base[0].state or {}
        if len(self.base) > 1 or wanted:
            habits.compared += 1
            habits.same += all(turn.state == kept for turn in self.base) and {**kept, **wanted} == kept
        may_differ = bool(self.diff.agent or acts or len(self.head) > 2)
        said = words((self.expected.answer or "")[:_LONGEST_TEXT]) if self.expected is not None else []
        names = {
            name for state in states for name in state if not all(each.get(name) == state[name] for each in states)
        }
        for place in sorted({place for turn in (*self.head, *self.base) for place in _state(turn, names)}):
            is_passing = _PASSING.search(place[-1]) is not None
            for pair in self._pairs(partial(_state, names=names), place, habits):
                if is_passing and not (self.diff.is_known and self._is_explained(pair)):
                    continue
                if pair.fact or any(len(words(text or "")) <= _FEW_WORDS for text in (pair.before, pair.after)):
                    known = replace(pair, is_expected=pair.is_expected or _is_said(said, pair.before or ""))
                    yield self._follows("state", known, habits, acts, may_differ, place)

    def _follows(
        self,
        kind: Any,
        pair: _Pair,
        habits: _Habits,
        acts: Iterable[_Difference],
        may_differ: bool,
        place: Path = (),
    ) -> _Difference:
        """A difference that counts if the pull request explains it, or acts from which it follows; else if chance is
        unlikely, where something may differ.
        """
        difference = self._difference(kind, pair, place)
        reasons = [act.counts for act in acts if _passes_on(act.value, pair)]
        if not self._is_explained(pair):
            if pair.witnesses < 2 or self._failed_once:
                habits.varying += not reasons
            elif may_differ:
                reasons.append(partial(habits.is_unlikely, pair.witnesses + len(self.head)))
            difference.counts = partial(lambda reasons: any(counts() for counts in reasons), reasons)
        return difference

    def _is_explained(self, pair: _Pair) -> bool:
        # Without the code of both sides nothing can be excluded; the base branch's own values are then enough.
        if not self.diff.is_known:
            return pair.witnesses > 0
        return any(self.diff.explains(*sides) for sides in ((pair.before, pair.after), pair.whole))

    @cached_property
    def _failed_once(self) -> bool:
        """Whether the only run of a side has an error of a tool, which may be gone in the next one."""
        failed = [any(error_in(call.response) for call in turns[0].calls) for turns in (self.head, self.base)]
        return failed != [False, False] and min(len(self.head), len(self.base)) == 1

    @property
    def _known(self) -> Sequence[Turn]:
        """What the base branch is known to do: some runs, or one and what the case expects."""
        return self.base if len(self.base) > 1 or self.expected is None else [*self.base, self.expected]

    def _pairs(
        self, values_of: Callable[[Turn], Mapping[Path, list[Any]]], place: Path, habits: _Habits
    ) -> Iterator[_Pair]:
        now, was = ([values_of(turn).get(place, []) for turn in side] for side in (self.head, self.base))
        for side in (now, was):
            habits.varying += len({_key(values) for values in side}) > 1
        wanted = None if self.expected is None else values_of(self.expected).get(place)
        return _pairs(was, now, wanted)

    def _difference(self, kind: Any, pair: _Pair, place: Path = ()) -> _Difference:
        before, after = (None if said is None else shorten(said, _LONGEST) for said in (pair.before, pair.after))
        tool, path = "".join(place[:1]), ".".join(place[2:])
        value = ChangedValue(
            kind=kind, turn=self.number, tool=tool, path=path, fact=pair.fact, before=before, after=after
        )
        return _Difference(value=value)


def _is_said(said: Sequence[str], value: str) -> bool:
    """Whether words have a value, other than a digit, which they may have for another reason."""
    try:
        return len(value.strip("-")) > 1 and mentions(said, float(value))
    except ValueError:
        return mentions(said, value)


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
        # What a long-running tool says first is no result.
        if call.waits:
            continue
        key = call.call.name or "", json_text(call.call.args)
        found.setdefault(key, [])
        for path, leaf in leaves(call.response).items():
            found.setdefault((*key, *_generic(path)), []).append(leaf)
    return found


def _state(turn: Turn, names: Collection[str]) -> Mapping[Path, list[Any]]:
    """The values of these keys of the state, by name."""
    found: dict[Path, list[Any]] = {}
    for name in names:
        if turn.state is not None and name in turn.state and not name.startswith("temp:"):
            for path, leaf in leaves(turn.state[name]).items():
                found.setdefault(("", "", name, *_generic(path)), []).append(leaf)
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
    gone, new = (
        [
            ours[0][key]
            for key in ours[0]
            if all(key in each for each in ours) and not any(key in each for each in theirs)
        ]
        for ours, theirs in ((before, after), (after, before))
    )
    wanted = {_key(value) for value in expected or ()}
    for old, other in zip_longest(gone, new, fillvalue=NOTHING):
        is_expected = old is not NOTHING and _key(old) in wanted
        facts: list[_Pair] = []
        if isinstance(old, str) and isinstance(other, str):
            facts = [pair for pair in _texts([old], [other], None) if pair.fact]
        whole = _shown(old), _shown(other)
        yield from (replace(pair, is_expected=is_expected, whole=whole, runs=len(was)) for pair in facts[:1])
        if not facts and whole != (None, None):
            yield _Pair(before=whole[0], after=whole[1], runs=len(was), is_expected=is_expected)


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _shown(value: Any) -> str | None:
    """A value as text; None for none, and for an empty list or object."""
    return None if value is NOTHING or value in ([], {}) else value if isinstance(value, str) else json_text(value)


# Texts


def _texts(was: Sequence[str], now: Sequence[str], expected: str | None) -> Iterator[_Pair]:
    """What answers say otherwise: facts; without one a few words, if nothing else varies."""
    was, now = ([text[:_LONGEST_TEXT] for text in side] for side in (was, now))
    # A text that both sides have shows that the agent still says the same at times.
    if set(was) & set(now):
        return
    gone, new = _missing(was, now), _missing(now, was)
    pairs = [*_spelled(was, now), *_together(gone, new)]
    said = {fact.start for fact in _kept_and_lost(was[0], (expected or "")[:_LONGEST_TEXT])[0]} if pairs else set[int]()
    for fact, other in pairs:
        before, after = (None if each is None else each.text for each in (fact, other))
        kind, is_expected = (fact or other or gone[0]).kind, fact is not None and fact.start in said
        yield _Pair(before=before, after=after, runs=len(was), is_expected=is_expected, fact=kind)
    same = [{" ".join(text.split()) for text in side} for side in (was, now)]
    # Few words without a fact count only of an agent that always says the same: others put it otherwise each time.
    if not pairs and [*map(len, same)] == [1, 1]:
        changes = word_changes(words(was[0]), words(now[0]))
        if sum(len(old) + len(other) for old, other in changes) <= _FEW_WORDS:
            is_expected = words(expected or "") == words(was[0])
            for words_before, words_after in changes:
                before, after = " ".join(words_before) or None, " ".join(words_after) or None
                yield _Pair(before=before, after=after, runs=len(was), is_expected=is_expected)


def _missing(ours: Sequence[str], theirs: Sequence[str]) -> list[Fact]:
    """The facts that all texts of a side have and none of the other."""
    facts = list(_kept_and_lost(ours[0], theirs[0])[1])
    for text in ours[1:]:
        kept = {fact.start for fact in _kept_and_lost(ours[0], text)[0]}
        facts = [fact for fact in facts if fact.start in kept]
    for text in theirs[1:]:
        lost = {fact.start for fact in _kept_and_lost(ours[0], text)[1]}
        facts = [fact for fact in facts if fact.start in lost]
    return facts


def _kept_and_lost(reference: str, text: str) -> tuple[Sequence[Fact], Sequence[Fact]]:
    """The facts of the first text that the second one has, and those that it lacks."""
    # A contrary is only missing, never found: whether the case expects it could not be said.
    result = compare(reference, text, names=True, states=True, contraries=False)
    return result.found, result.missing


def _together(gone: Sequence[Fact], new: Sequence[Fact]) -> Iterator[tuple[Fact | None, Fact | None]]:
    """In pairs: of one family, then the others, since a state may become a name, a number a code."""
    come, left = [*new], list[Fact]()
    for fact in gone:
        other = next((each for each in come if each.family == fact.family), None)
        if other is None:
            left.append(fact)
        else:
            come.remove(other)
            yield fact, other
    yield from zip_longest(left, come)


def _spelled(was: Sequence[str], now: Sequence[str]) -> Iterator[tuple[Fact, Fact]]:
    """Facts that are only spelled otherwise, as open and OPEN, in all runs. A capital at the beginning is no change."""
    old_words, new_words = ({*words.split()} for words in (was[0], now[0]))
    other = [{word.casefold() for word in side} for side in (old_words - new_words, new_words - old_words)]
    for pair in differences(was[0], now[0]) if other[0] & other[1] else ():
        if pair.before is None or pair.after is None:
            continue
        old, new = pair.before.text, pair.after.text
        is_spelling = old.casefold() == new.casefold() and old.isupper() != new.isupper()
        if is_spelling and all(old in text for text in was) and all(new in text and old not in text for text in now):
            yield pair.before, pair.after
