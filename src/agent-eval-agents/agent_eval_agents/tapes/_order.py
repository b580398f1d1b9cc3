"""Releases recorded answers in the order in which they came when they were recorded."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections import deque
from collections.abc import Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass, field

from agent_eval_agents.messages import ModelAsked, ToolAsked
from agent_eval_agents.tapes._tape import ModelExchange, RecordedCall

PATIENCE = 5.0
"""Seconds after which an answer stops waiting for an earlier one that nobody has asked for."""
_USE = 2.0
"""Seconds that an agent has at most to deal with an answer before a later one comes: less than the patience of those
that wait behind it. Nobody says it of every answer."""


@dataclass(kw_only=True)
class _Call:
    agent: str
    call_id: str | None
    """ADK's id of a call of a tool; None: a call of a model."""

    def is_in(self, author: str, answered: Collection[str]) -> bool:
        """Whether its answer is in an event."""
        return self.call_id in answered if self.call_id is not None else self.agent == author and not answered

    def is_before(self, agent: str, call_id: str | None) -> bool:
        """Whether a call follows from its answer: an agent waits for the answers of its tools together."""
        return self.agent == agent and (self.call_id is None or call_id is None)


@dataclass(kw_only=True)
class _Recorded(_Call):
    number: int
    follows: int | None
    """The number of the call before it."""
    asked: int
    came: int | None = None
    """When its answer came; None: it has not."""
    dealt: int | None = None
    """When the agent had dealt with the answer."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a call is among those of its conversation; see `ModelExchange`."""

    agent: str
    after: int
    done: int
    dealt: int | None


@dataclass(kw_only=True)
class Times:
    """When the calls of a conversation were made, when their answers came, and when the agents had dealt with these.

    Its agents are shown what others did in the order of the latter.
    """

    _calls: dict[Hashable, _Recorded] = field(default_factory=dict)
    _clock: Iterator[int] = field(default_factory=itertools.count)

    def asked(self, key: Hashable, call: ToolAsked | ModelAsked) -> None:
        """A call is made."""
        call_id = call.call_id if isinstance(call, ToolAsked) else None
        self._deal(earlier for earlier in self._calls.values() if earlier.is_before(call.agent, call_id))
        self._calls[key] = _Recorded(
            agent=call.agent, call_id=call_id, number=call.call, follows=call.follows, asked=next(self._clock)
        )

    def came(self, key: Hashable) -> None:
        """Its answer has come."""
        self._calls[key].came = next(self._clock)

    def used(self, key: Hashable) -> None:
        """The agent has dealt with the answer."""
        self._deal([self._calls[key]])

    def event(self, author: str, answered: Collection[str]) -> None:
        """An event of an agent, with the tool calls that are answered in it."""
        self._deal(call for call in self._calls.values() if call.is_in(author, answered))

    def places(self) -> dict[Hashable, Place]:
        """The place of each call that has an answer."""
        came = {key: call.came for key, call in self._calls.items() if call.came is not None}
        moments = {key: self._moment(self._calls[key], at) for key, at in came.items()}
        keys = sorted(came, key=lambda key: (moments[key], came[key]))
        places = {}
        for done, key in enumerate(keys):
            call = self._calls[key]
            after = 1 + max((at for at, other in enumerate(keys) if came[other] < call.asked), default=-1)
            dealt = None if call.dealt is None else sum(moments[other] <= call.dealt for other in keys)
            places[key] = Place(agent=call.agent, after=after, done=done, dealt=dealt)
        return places

    def _moment(self, call: _Recorded, came: int) -> int:
        """What decides about the place of an answer: when it was dealt with, or when it came, if calls came of it."""
        if call.dealt is None:
            return came
        followed = (
            each.came
            for each in self._calls.values()
            if each.asked > came and each.follows in {None, call.number}  # None: it may follow from anything
        )
        return came if any(at is not None and at < call.dealt for at in followed) else call.dealt

    def _deal(self, calls: Iterable[_Recorded]) -> None:
        now = next(self._clock)
        for call in calls:
            if call.came is not None and call.dealt is None:
                call.dealt = now


@dataclass(kw_only=True)
class _Released(_Call):
    """An answer that the agent may not have dealt with."""

    dealt: int
    """See `ModelExchange`."""
    until: float
    """How long others wait for it; by time.monotonic()."""
    used: asyncio.Event = field(default_factory=asyncio.Event)
    """Whether the agent has."""


@dataclass(kw_only=True)
class Order:
    """The answers of a conversation: with parallel branches their order decides what the agent does next.

    An answer is released when all earlier ones are, and when all calls have been made that were made before it.
    """

    patience: float = PATIENCE
    use: float = _USE
    rounds: int = 20
    """How often an answer is patient while a tool runs: that may have been cancelled, which nobody reports."""
    running: set[int] = field(default_factory=set)
    """The tools that run, by `ToolAsked.call`: meanwhile every answer may wait longer."""
    _left: deque[int] = field(default_factory=deque)
    _unasked: dict[int, int] = field(default_factory=dict)
    """`after` of the calls that the agent has not made, by `done`, as the next one."""
    _unused: dict[int, _Released] = field(default_factory=dict)
    _moved: asyncio.Event = field(default_factory=asyncio.Event)

    def expect(self, calls: Iterable[RecordedCall | ModelExchange]) -> None:
        """Names all calls."""
        self._unasked.update((call.done, call.after) for call in calls if call.done is not None)
        self._left.extend(sorted(self._unasked))

    @property
    def left(self) -> frozenset[int]:
        """The places of the answers for which nobody has asked."""
        return frozenset(self._unasked)

    async def reach(
        self, call: RecordedCall | ModelExchange, call_id: str | None = None, *, runs: bool = False
    ) -> int | None:
        """Waits until it is the turn of this call's answer, and releases it; if the tool `runs`, `release` does so.

        `call_id`: None for a model.

        Returns:
            None; or the place of the call for which it has waited in vain.
        """
        assert call.done is not None, "only such calls are expected"
        self._unasked.pop(call.done, None)
        self._use(answer for answer in self._unused.values() if answer.is_before(call.agent, call_id))
        self._move()
        rounds = self.rounds
        while (first := self._first(call.done)) is not None:
            if rounds < 0:
                return first
            try:
                async with asyncio.timeout(self.patience):
                    await self._moved.wait()
            except TimeoutError:
                rounds -= 1 if self.running else self.rounds + 1
        await self._others(call.done)
        if not runs:
            self.release(call, call_id)
        return None

    def release(self, call: RecordedCall | ModelExchange, call_id: str | None = None) -> None:
        """The answer whose turn it is has come."""
        assert call.done is not None and call.done == self._left[0], "reached before"
        self._left.popleft()
        if call.dealt is not None:
            self._unused[call.done] = _Released(
                agent=call.agent, call_id=call_id, dealt=call.dealt, until=time.monotonic() + self.use
            )
        self._move()

    def used(self, place: int) -> None:
        """The agent has dealt with an answer."""
        self._use([self._unused[place]] if place in self._unused else [])

    def event(self, author: str, answered: Collection[str]) -> None:
        """See Times."""
        self._use(answer for answer in self._unused.values() if answer.is_in(author, answered))

    def _use(self, answers: Iterable[_Released]) -> None:
        for answer in answers:
            answer.used.set()

    def _move(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    def _first(self, place: int) -> int | None:
        """The place of a call that comes before the answer at this place; None if it is its turn."""
        if self._left[0] != place:
            return self._left[0]
        return next((done for done, after in self._unasked.items() if after <= place), None)

    async def _others(self, place: int) -> None:
        """Waits until agents have dealt with the earlier answers, as they had before the one at this place."""
        for earlier, answer in list(self._unused.items()):
            if not answer.used.is_set() and answer.dealt <= place:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(answer.until - time.monotonic()):
                        await answer.used.wait()
            if answer.dealt <= place:
                self._unused.pop(earlier, None)
