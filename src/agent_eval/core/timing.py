"""When something began and how long it took."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Begun:
    """The beginning of something: as a date, and on the monotonic clock, which measures the duration."""

    at: float = field(default_factory=lambda: round(time.time(), 3))
    """Seconds since the epoch."""
    _monotonic: float = field(default_factory=time.monotonic)

    def duration(self) -> float:
        """Seconds since then, never negative, to the millisecond."""
        return round(time.monotonic() - self._monotonic, 3)
