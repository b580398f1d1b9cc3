"""Work in a second process, beside this one: what computes for seconds gains nothing from a thread of Python."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_TASKS = Path("/proc/self/task")
_THREADS_END = 0.2
"""Seconds for idle threads to end after they were asked to."""


class LoopThreads:
    """The threads of `asyncio.to_thread`, which can be ended while the loop runs."""

    def __init__(self) -> None:
        """Gives the running loop an executor of ours."""
        self._renew()

    def _renew(self) -> None:
        self._executor = ThreadPoolExecutor(thread_name_prefix="asyncio")
        asyncio.get_running_loop().set_default_executor(self._executor)

    def end_idle(self) -> None:
        """Ends the idle threads. Later calls of `asyncio.to_thread` start new ones."""
        self._executor.shutdown(wait=False)
        self._renew()


@contextlib.contextmanager
def beside(work: Callable[[], object], *, if_worth: bool = True) -> Iterator[Callable[[], bool] | None]:
    """Does work in a fork of this process, which shares its memory as long as neither changes it.

    The fork has ended when the context ends, and it does not outlive this process.

    Args:
        work: Leaves its result in files, and raises an exception if it fails. It must not print or log.
        if_worth: False: nothing is started.

    Yields:
        A function that waits for the work and returns whether it was done. If not, for whatever reason, do it here:
        then it fails here, if at all. None if nothing was started: a fork was unsafe, because there are other threads,
        or there is no core for it.
    """
    try:
        child = _fork(work) if if_worth and _can_fork() else None
    except OSError:  # no memory, or too many processes
        child = None
    if child is None:
        yield None
        return
    status = functools.cache(functools.partial(_status, child))
    try:
        yield lambda: status() == 0
    finally:
        status()


def _can_fork() -> bool:
    """Whether there is a core for a second process, and no other thread, which could hold a lock."""
    if sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2:
        return False
    end = time.monotonic() + _THREADS_END
    while (threads := _threads()) > 1 and time.monotonic() < end:
        time.sleep(0.005)
    return threads == 1


def _threads() -> int:
    """The number of this process's threads, also of those that Python did not start; 0 if it is unknown."""
    try:
        return sum(1 for _ in _TASKS.iterdir())
    except OSError:
        return 0


def _fork(work: Callable[[], object]) -> int:
    from agent_eval.agents.sandbox import end_with_parent

    ours = os.getpid()
    # The parent decides what a signal means: in the fork they stay blocked.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
    try:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                if end_with_parent(ours):
                    work()
                    code = 0
            finally:
                os._exit(code)  # without the cleanup that is the parent's
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return child


def _status(child: int) -> int:
    """Waits for a child, and returns its exit code; less than 0 if a signal ended it, or if it is unknown."""
    try:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    except ChildProcessError:
        return -1
