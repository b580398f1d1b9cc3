"""Which agents have processes: they start when a run needs them, and end when others need their place."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass, field

from agent_eval_agents.protocol import Agent, AgentFailure

MOST = max(8, 2 * (os.cpu_count() or 1))
"""Agents that may have processes at once: each takes 100 MB with google-adk alone, and the base branch has as many."""


@dataclass(kw_only=True)
class Roster:
    """The agents of a checkout."""

    agents: Mapping[str, Agent]
    limited: Collection[str] = ()
    """The agents that have processes here."""
    most: int = MOST
    failures: dict[str, AgentFailure] = field(default_factory=dict)
    """Why agents could not be started."""
    _starts: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _ends: set[asyncio.Task[None]] = field(default_factory=set)
    _users: Counter[str] = field(default_factory=Counter)
    _freed: asyncio.Event = field(default_factory=asyncio.Event)

    @contextlib.asynccontextmanager
    async def running(self, key: str) -> AsyncIterator[None]:
        """Starts the agent, unless it runs already, and keeps it until the end."""
        if key in self.limited:
            await self._find_place(key)
        if key not in self._starts:
            self._starts[key] = asyncio.create_task(self._start(key))
        self._users[key] += 1
        try:
            await asyncio.shield(self._starts[key])
            yield
        finally:
            self._users[key] -= 1
            self._freed.set()

    async def _start(self, key: str) -> None:
        try:
            if key not in self.failures:
                await self.agents[key].start()
        except AgentFailure as failure:
            self.failures[key] = failure

    async def _find_place(self, key: str) -> None:
        """Ends agents that no run uses while there are too many."""
        while key not in self._starts:
            here = [other for other in self._starts if other in self.limited]
            if len(here) + len(self._ends) < self.most:
                return
            idle = next((other for other in here if not self._users[other]), None)
            if idle is not None:
                del self._starts[idle]
                end = asyncio.create_task(self.agents[idle].close())
                self._ends.add(end)
                end.add_done_callback(self._ended)
            self._freed.clear()
            await self._freed.wait()

    def _ended(self, end: asyncio.Task[None]) -> None:
        self._ends.discard(end)
        self._freed.set()

    async def stop(self) -> None:
        """Cancels what is starting for no run, and waits for what is ending. Other executions may have runs."""
        starting = {key: task for key, task in self._starts.items() if not task.done() and not self._users[key]}
        for key, task in starting.items():
            del self._starts[key]
            task.cancel()
        await asyncio.gather(*starting.values(), *self._ends, return_exceptions=True)
