"""Releases recorded answers in the order in which they came when they were recorded."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from agent_eval.agents.tapes._tape import ModelExchange, RecordedCall

PATIENCE = 5.0
"""Seconds after which an answer stops waiting for an earlier one that nobody has asked for."""
_USE, _PAUSE = 0.5, 0.02
"""Seconds that an agent has at most to deal with an answer, of a model and of a tool, before another agent's next one.
The host says when it has dealt with a model's."""


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
    _unused: dict[int, tuple[str, float, asyncio.Event]] = field(default_factory=dict)
    """Released answers: whose, until when the agent may need to deal with it, and that it has."""
    _moved: asyncio.Event = field(default_factory=asyncio.Event)

    def expect(self, calls: Iterable[RecordedCall | ModelExchange]) -> None:
        """Names all calls."""
        self._unasked.update((call.done, call.after) for call in calls if call.done is not None)
        self._left.extend(sorted(self._unasked))

    @property
    def left(self) -> frozenset[int]:
        """The places of the answers for which nobody has asked."""
        return frozenset(self._unasked)

    async def reach(self, call: RecordedCall | ModelExchange, *, runs: bool = False) -> int | None:
        """Waits until it is the turn of this call's answer, and releases it; if the tool `runs`, `release` does so.

        Returns:
            None; or the place of the call for which it has waited in vain.
        """
        assert call.done is not None, "only such calls are expected"
        self._unasked.pop(call.done, None)
        for agent, _, used in self._unused.values():
            if agent == call.agent:
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
        await self._others(call)
        if not runs:
            self.release(call)
        return None

    def release(self, call: RecordedCall | ModelExchange) -> None:
        """The answer whose turn it is has come."""
        assert call.done is not None and call.done == self._left[0], "reached before"
        self._left.popleft()
        until = time.monotonic() + (self.use if isinstance(call, ModelExchange) else self.pause)
        self._unused[call.done] = call.agent, until, asyncio.Event()
        self._move()

    def used(self, place: int) -> None:
        """The agent has dealt with an answer."""
        if place in self._unused:
            self._unused[place][2].set()

    def _move(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    def _first(self, place: int) -> int | None:
        """The place of a call that comes before the answer at this place; None if it is its turn."""
        if self._left[0] != place:
            return self._left[0]
        return next((done for done, after in self._unasked.items() if after <= place), None)

    async def _others(self, call: RecordedCall | ModelExchange) -> None:
        """Waits until other agents have dealt with the answers that came while the call was made."""
        for place, (agent, until, used) in list(self._unused.items()):
            if call.after <= place and agent != call.agent:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(until - time.monotonic()):
                        await used.wait()
                del self._unused[place]
