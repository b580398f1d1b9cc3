"""How much of a core a process uses, from /proc."""

from __future__ import annotations

import os
import pathlib
import time
from collections.abc import Callable

_HIGH = 0.8
"""Share of one core. An agent that only waits for models uses a few percent for each session."""
_SPAN = 2.0
"""Seconds over which the share is measured: starting another process costs an agent one or two."""
_SPANS = 2
"""Consecutive spans that must be high. The first turns import a lot, which is no load that remains."""


def cpu_seconds(pid: int) -> float | None:
    """User and system time of a process; None if it is unknown, as outside of Linux."""
    try:
        with pathlib.Path(f"/proc/{pid}/stat").open(encoding="utf-8", errors="replace") as file:
            # The name of the program is in parentheses and may contain spaces: fields 14 and 15 count from after it.
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


class CpuShare:
    """Follows one process. Asks nothing of it, and measures only when it is called."""

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
