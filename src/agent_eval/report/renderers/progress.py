"""How far a run has come: a live bar on a terminal, a plain line every few seconds in a CI log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO

_EVERY = 5.0
"""Seconds between plain lines."""

Tell = Callable[[int, int, Mapping[str, int]], None]
"""Called with runs done, runs in all, and the ended runs by status."""


def progress_line(done: int, total: int, counts: Mapping[str, int]) -> str:
    """`12 of 50 runs: 10 passed, 2 failed`."""
    ended = ", ".join(f"{count:,} {status.replace('_', ' ')}" for status, count in counts.items() if count)
    return f"{done:,} of {total:,} runs" + (f": {ended}" if ended else "")


def plain_progress(write: Callable[[str], None], *, clock: Callable[[], float] = time.monotonic) -> Tell:
    """Writes a line at most every five seconds, and none for a run that is over before."""
    last = clock()

    def tell(done: int, total: int, counts: Mapping[str, int]) -> None:
        nonlocal last
        if clock() - last >= _EVERY and done < total:
            last = clock()
            write(progress_line(done, total, counts))

    return tell


@contextmanager
def live_progress(stream: IO[str]) -> Iterator[Tell]:
    """A bar that goes away when all is done."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(bar_width=30), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(file=stream), transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def tell(done: int, total: int, counts: Mapping[str, int]) -> None:
            bar.update(task, completed=done, total=total, description=progress_line(done, total, counts))

        yield tell
