"""Releases recorded answers in the order in which they came when they were recorded."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

PATIENCE = 5.0
"""Seconds after which an answer stops waiting for an earlier one that nobody has asked for."""
_PAUSE = 0.02
"""Seconds between an answer and the next one if that was waiting: so the agent has dealt with the first one."""


@dataclass(kw_only=True)
class Order:
    """The answers of a conversation: with parallel branches their order decides what the agent does next."""

    patience: float = PATIENCE
    pause: float = _PAUSE
    running: set[int] = field(default_factory=set)
    """The tools that run, by `ToolAsked.call`: meanwhile every answer may wait."""
    _left: deque[int] = field(default_factory=deque)
    _moved: asyncio.Event = field(default_factory=asyncio.Event)

    def expect(self, places: Iterable[int]) -> None:
        """Names the places of all answers."""
        self._left.extend(sorted(places))

    @property
    def left(self) -> frozenset[int]:
        """The places of the answers that have not been released."""
        return frozenset(self._left)

    async def reach(self, place: int) -> int | None:
        """Waits until all earlier answers are released, and releases the one at this place.

        Returns:
            None; or the place of the earlier answer for which it has waited in vain.
        """
        waited = False
        while self._left[0] != place:
            waited = True
            try:
                async with asyncio.timeout(self.patience):
                    await self._moved.wait()
            except TimeoutError:
                if not self.running and self._left[0] != place:
                    return self._left[0]
        if waited:
            await asyncio.sleep(self.pause)
        self._left.popleft()
        self._moved.set()
        self._moved = asyncio.Event()
        return None
