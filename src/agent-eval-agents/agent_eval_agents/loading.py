"""Loads of agents: as many at once as there are cores, because each computes for seconds."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

_Loaded = TypeVar("_Loaded")
_MOST = max(os.cpu_count() or 1, 2)
RUNS_OF_A_PROCESS = 60
"""Runs that earn another process of their agent: importing google-adk takes a second of CPU."""


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processes_for(runs: int) -> int:
    """How many processes so many planned runs of an agent can use, if a process costs little."""
    return min(runs // RUNS_OF_A_PROCESS + 1, cores())


class LoadQueue:
    """Where processes wait for their turn to load. Their time limits begin after that."""

    def __init__(self, most: int = _MOST) -> None:
        """`most`: loads at once."""
        self._most = most
        self._places = asyncio.Semaphore(most)
        self._alone = asyncio.Lock()

    async def load(self, start: Callable[[], Awaitable[_Loaded]]) -> _Loaded:
        """Loads; if that took too long, once more while nothing else loads.

        Raises:
            AgentFailure: It failed for another reason, or again.
        """
        from agent_eval_agents.protocol import LateLoad  # A parent of hosts starts without it.

        with contextlib.suppress(LateLoad):
            async with self._places:
                return await start()
        async with contextlib.AsyncExitStack() as held:
            for place in (self._alone, *[self._places] * self._most):
                await held.enter_async_context(place)
            return await start()
