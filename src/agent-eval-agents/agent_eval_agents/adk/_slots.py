"""The host processes of one agent: how many sessions each has, and whether it is busy computing."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

from agent_eval_agents.host import HostProcess

_SESSIONS_OF_A_BUSY_HOST = 2
"""One session can't use a second process."""
_HIGH = 0.8
"""Share of one core. An agent that only waits for models uses a few percent for each session."""
_QUICK_LOAD = 0.5
"""Seconds to import the agent itself, without google-adk: a second process of it costs little but time."""
_SPAN = 1.0
"""Seconds over which the share is measured: starting another process costs an agent one or two."""
_SPANS = 2
"""Consecutive spans that must be high. The first turns import a lot, which is no load that remains."""


class Slot:
    """One of the agent's host processes, which is started again after it died."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.host: HostProcess | None = None
        self.reserved = 0
        self._cpu: CpuShare | None = None

    @property
    def load(self) -> int:
        """Open sessions, and those about to be opened."""
        return self.reserved + (self.host.sessions if self.host is not None and self.host.exit is None else 0)

    @property
    def is_fork(self) -> bool:
        """Whether another process costs little: this one's import of google-adk was not its own."""
        return self.host is not None and self.host.is_fork

    def has_much_to_do(self, sessions: int, in_all: int) -> bool:
        """Whether an agent that loads quickly has so many sessions at once, and had so many before."""
        host = self.host
        quick = host is not None and host.loaded.seconds.get("agent", _QUICK_LOAD) < _QUICK_LOAD
        return quick and host is not None and self.load >= sessions and len(host.served) >= in_all

    def is_busy(self) -> bool:
        """Whether the host has several sessions and has computed nearly all the time for some seconds."""
        host = self.host
        if host is None or host.exit is not None or host.sessions < _SESSIONS_OF_A_BUSY_HOST:
            self._cpu = None
            return False
        if self._cpu is None or self._cpu.pid != host.pid:
            self._cpu = CpuShare(host.pid)
        return self._cpu.has_been_high()


def cpu_seconds(pid: int) -> float | None:
    """User and system time of a process; None if it is unknown, as outside of Linux."""
    try:
        with Path(f"/proc/{pid}/stat").open(encoding="utf-8", errors="replace") as file:
            # The name of the program is in parentheses and may contain spaces: fields 14 and 15 count from after it.
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


class CpuShare:
    """Follows how much of a core one process uses. Asks nothing of it, and measures only when it is called."""

    def __init__(
        self,
        pid: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        used: Callable[[int], float | None] = cpu_seconds,
    ) -> None:
        self.pid = pid
        self._clock = clock
        self._used = used
        self._since, self._cpu = clock(), used(pid)
        self._high_spans = 0

    def has_been_high(self) -> bool:
        """Whether the process has used nearly a whole core for the last seconds; then the measurement begins again."""
        now = self._clock()
        elapsed = now - self._since
        if elapsed < _SPAN:
            return False
        cpu = self._used(self.pid)
        is_high = cpu is not None and self._cpu is not None and (cpu - self._cpu) / elapsed >= _HIGH
        self._since, self._cpu = now, cpu
        self._high_spans = self._high_spans + 1 if is_high else 0
        if self._high_spans < _SPANS:
            return False
        self._high_spans = 0
        return True
