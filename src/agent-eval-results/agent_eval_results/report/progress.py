"""The progress of a run: a live bar on a terminal, a plain line every few seconds in a CI log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO

_EVERY = 5.0
"""Seconds between plain lines."""

ProgressCallback = Callable[[int, int, Mapping[str, int]], None]
"""Called with the finished runs, all runs, and the finished runs by status."""


def progress_line(done: int, total: int, counts: Mapping[str, int]) -> str:
    """`12 of 50 runs: 10 passed, 2 failed`."""
    ended = ", ".join(f"{count:,} {status.replace('_', ' ')}" for status, count in counts.items() if count)
    return f"{done:,} of {total:,} runs" + (f": {ended}" if ended else "")


def plain_progress(write: Callable[[str], None], *, clock: Callable[[], float] = time.monotonic) -> ProgressCallback:
    """Writes a line at most every five seconds, and none for a shorter run."""
    last = clock()

    def update(done: int, total: int, counts: Mapping[str, int]) -> None:
        nonlocal last
        if clock() - last >= _EVERY and done < total:
            last = clock()
            write(progress_line(done, total, counts))

    return update


@contextmanager
def live_progress(stream: IO[str]) -> Iterator[ProgressCallback]:
    """A bar that disappears at the end."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(bar_width=30), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(file=stream), transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def update(done: int, total: int, counts: Mapping[str, int]) -> None:
            bar.update(task, completed=done, total=total, description=progress_line(done, total, counts))

        yield update
