"""Releases recorded answers in the order in which they came when they were recorded."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections import deque
from collections.abc import Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass, field

from agent_eval.agents.tapes._tape import ModelExchange, RecordedCall

PATIENCE = 5.0
"""Seconds after which an answer stops waiting for an earlier one that nobody has asked for."""
_USE, _PAUSE = 2.0, 0.1
"""Seconds that an agent has at most to deal with an answer, of a model and of a tool, before another agent's next one:
less than the patience of who waits behind it. An agent deals with the answers of several tools at once."""


@dataclass(kw_only=True)
class _Call:
    agent: str
    call_id: str | None
    """ADK's id of a call of a tool; None: a call of a model."""
    asked: int
    came: int | None = None
    """When its answer came; None: it has not."""
    dealt: int | None = None
    """When the agent had dealt with the answer."""


@dataclass(kw_only=True)
class Times:
    """When the calls of a conversation were made, when their answers came, and when the agents had dealt with these.

    Its agents are shown what others did in the order of the latter.
    """

    _calls: dict[Hashable, _Call] = field(default_factory=dict)
    _clock: Iterator[int] = field(default_factory=itertools.count)

    def asked(self, key: Hashable, agent: str, call_id: str | None = None) -> None:
        """A call is made."""
        for call in self._calls.values():
            if call.agent == agent and (call_id is None or call.call_id is None):
                self._deal(call)
        self._calls[key] = _Call(agent=agent, call_id=call_id, asked=next(self._clock))

    def came(self, key: Hashable) -> None:
        """Its answer has come."""
        self._calls[key].came = next(self._clock)

    def event(self, author: str, answered: Collection[str]) -> None:
        """An event of an agent, with the tool calls that are answered in it."""
        for call in self._calls.values():
            if _is_in(call.agent, call.call_id, author, answered):
                self._deal(call)

    def places(self) -> dict[Hashable, tuple[str, int, int]]:
        """`agent`, `after` and `done` of each call that has an answer."""
        calls = [(key, call, call.came) for key, call in self._calls.items() if call.came is not None]
        calls.sort(key=lambda each: each[2] if each[1].dealt is None else each[1].dealt)
        return {
            key: (call.agent, 1 + max((n for n, (*_, came) in enumerate(calls) if came < call.asked), default=-1), done)
            for done, (key, call, _) in enumerate(calls)
        }

    def _deal(self, call: _Call) -> None:
        came = call.came
        if came is not None and call.dealt is None:
            # What was asked later may follow from it.
            late = any(each.came is not None and each.asked > came for each in self._calls.values())
            call.dealt = came if late else next(self._clock)


def _is_in(agent: str, call_id: str | None, author: str, answered: Collection[str]) -> bool:
    """Whether the answer of a call is in an event."""
    return call_id in answered if call_id is not None else agent == author and not answered


@dataclass(kw_only=True)
class Order:
    """The answers of a conversation: with parallel branches their order decides what the agent does next.

    An answer is released when all earlier ones are, and when all calls have been made that were made before it.
    """

    patience: float = PATIENCE
    use: float = _USE
    pause: float = _PAUSE
    rounds: int = 20
    """How often an answer is patient while a tool runs: that may have been cancelled, which nobody reports."""
    running: set[int] = field(default_factory=set)
    """The tools that run, by `ToolAsked.call`: meanwhile every answer may wait longer."""
    _left: deque[int] = field(default_factory=deque)
    _unasked: dict[int, int] = field(default_factory=dict)
    """`after` of the calls that the agent has not made, by `done`, as the next one."""
    _unused: dict[int, tuple[str, str | None, float, asyncio.Event]] = field(default_factory=dict)
    """Released answers: whose, `_Call.call_id`, until when the agent may need to deal with it, and that it has."""
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
        since = min(call.after, self._left[0])  # It may be made earlier than when it was recorded.
        for agent, earlier, _, used in self._unused.values():
            if agent == call.agent and (call_id is None or earlier is None):
                used.set()
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
        await self._others(call.agent, since)
        if not runs:
            self.release(call, call_id)
        return None

    def release(self, call: RecordedCall | ModelExchange, call_id: str | None = None) -> None:
        """The answer whose turn it is has come."""
        assert call.done is not None and call.done == self._left[0], "reached before"
        self._left.popleft()
        until = time.monotonic() + (self.use if isinstance(call, ModelExchange) else self.pause)
        self._unused[call.done] = call.agent, call_id, until, asyncio.Event()
        self._move()

    def used(self, place: int) -> None:
        """The agent has dealt with an answer."""
        if place in self._unused:
            self._unused[place][-1].set()

    def event(self, author: str, answered: Collection[str]) -> None:
        """See Times."""
        for agent, call_id, _, used in self._unused.values():
            if _is_in(agent, call_id, author, answered):
                used.set()

    def _move(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    def _first(self, place: int) -> int | None:
        """The place of a call that comes before the answer at this place; None if it is its turn."""
        if self._left[0] != place:
            return self._left[0]
        return next((done for done, after in self._unasked.items() if after <= place), None)

    async def _others(self, agent: str, since: int) -> None:
        """Waits until other agents have dealt with the answers from a place on, which came while the call was made."""
        for place, (other, _, until, used) in list(self._unused.items()):
            if place >= since and other != agent:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(until - time.monotonic()):
                        await used.wait()
                del self._unused[place]
