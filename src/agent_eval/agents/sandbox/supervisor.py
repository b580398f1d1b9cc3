"""Runs the gate in a child process of ours, and ends what it leaves behind.

Whatever an agent starts and abandons (setsid, a double fork) becomes a child of the nearest ancestor that asked for
orphans. That can't be the gate: it waits for children of its own by their ids, and orphans would pile up. So it has a
parent that does nothing else. As process 1 of a container that parent would get the orphans anyway.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_SI_KERNEL = 0x80
"""siginfo_t.si_code of a signal from the terminal: the child, in the same process group, got it too."""
_ENDING_SECONDS = 5.0


def supervised(work: Callable[[], int]) -> int:
    """Runs work in a child process, passes signals on to it, and kills what it leaves.

    Call it before there are threads. Where Linux's means for it are missing, work runs in this process.

    Args:
        work: Gives the exit code.

    Returns:
        The exit code; 128 plus the number of the signal that killed the child, as a shell reports it.
    """
    if sys.platform != "linux" or not _prctl(_PR_SET_CHILD_SUBREAPER, 1):
        return work()
    ours = os.getpid()
    awaited = {*_FORWARDED, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    child = os.fork()
    if child == 0:
        # Nobody would pass signals on any more, or end what it leaves.
        if not _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) or os.getppid() != ours:
            os._exit(128 + signal.SIGKILL)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return work()
    status = None
    while status is None:
        received = signal.sigwaitinfo(awaited)
        if received.si_signo == signal.SIGCHLD:
            status = _reap(child)
        elif received.si_code != _SI_KERNEL:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, received.si_signo)
    _end_children()
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        _clean_up(signal.Signals(-code))
    return code if code >= 0 else 128 - code


def _prctl(option: int, value: int) -> bool:
    try:
        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (OSError, AttributeError):  # no such function in this libc
        return False


def _reap(child: int) -> int | None:
    """Takes all children that have ended; gives the status of the one that we wait for, if it is among them."""
    found = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == child:
                found = status
    return found


def _end_children() -> None:
    """Kills what has become our child, and what becomes it then, until there is none."""
    end = time.monotonic() + _ENDING_SECONDS
    listed = Path(f"/proc/self/task/{os.getpid()}/children")
    while time.monotonic() < end:
        _reap(0)
        try:
            children = [int(pid) for pid in listed.read_text("ascii").split()]
        except OSError:  # no /proc, or a kernel without that list
            return
        may = [pid for pid in children if _kill(pid)]
        if not may:  # None is left but other users' processes, e.g. a service that agent-setup started with sudo.
            return


def _kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _clean_up(by: signal.Signals) -> None:
    """Says what happened to the gate, and opens what it had closed."""
    message = f"agent-eval: was killed by {by.name}; there is no verdict. With --resume the next run goes on."
    with contextlib.suppress(OSError):
        os.write(2, message.encode() + b"\n")
    if os.geteuid() == 0:
        from agent_eval.agents.sandbox._seal_registry import recover

        with contextlib.suppress(OSError):  # The next gate tries it again.
            recover()
