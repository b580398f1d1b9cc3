"""Runs the gate in a child process, and ends the processes that it leaves behind.

A process that an agent starts and abandons (setsid, a double fork) becomes a child of the nearest ancestor that is a
subreaper. The gate itself can't be one: it waits for its own children by their ids, so orphans would accumulate.
Therefore the gate has a parent that does nothing else, and imports nothing. As process 1 of a container it would get
the orphans anyway.
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
"""siginfo_t.si_code of a signal from the terminal. The child is in the same process group and gets it too."""
_ENDING_SECONDS = 5.0


def supervised(
    work: Callable[[], int], *, recover: Callable[[], None] = lambda: None, ends_with_parent: bool = False
) -> int:
    """Runs work in a child process, forwards signals to it, and kills the processes that it leaves behind.

    Call it before any thread starts. On systems other than Linux, work runs in this process.

    Args:
        work: Returns the exit code.
        recover: Removes, for root, the seals of a child that was killed.
        ends_with_parent: Whether the work gets SIGTERM when our parent, or its thread that started us, ends.

    Returns:
        The exit code. If a signal killed the child: 128 plus its number, as in a shell.
    """
    if sys.platform != "linux" or not _prctl(_PR_SET_CHILD_SUBREAPER, 1):
        return work()
    if ends_with_parent:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    ours = os.getpid()
    # Inherited, it would hide the end of every child from us, from our child and from the agent.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    awaited = {*_FORWARDED, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    child = os.fork()
    if child == 0:
        # Without the parent no one would forward signals, or end the orphans.
        if not end_with_parent(ours):
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
        _clean_up(signal.Signals(-code), recover)
    return code if code >= 0 else 128 - code


def end_with_parent(parent: int) -> bool:
    """Has the kernel kill this process when its parent ends; Linux only.

    Args:
        parent: The id of the process that has forked this one.

    Returns:
        False if that is impossible, or if the parent has ended already.
    """
    return _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) and os.getppid() == parent


def _prctl(option: int, value: int) -> bool:
    try:
        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (OSError, AttributeError):  # no such function in this libc
        return False


def _reap(child: int) -> int | None:
    """Reaps all children that have ended. Returns the status of the awaited child if it is among them."""
    child_status = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == child:
                child_status = status
    return child_status


def _end_children() -> None:
    """Kills our children, including orphans that become our children, until there are none."""
    end = time.monotonic() + _ENDING_SECONDS
    listed = Path(f"/proc/self/task/{os.getpid()}/children")
    while time.monotonic() < end:
        _reap(0)
        try:
            children = [int(pid) for pid in listed.read_text("ascii").split()]
        except OSError:  # no /proc, or a kernel without that list
            return
        killed = [pid for pid in children if _kill(pid)]
        if not killed:  # Only other users' processes are left, e.g. a service that agent-setup started with sudo.
            return


def _kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _clean_up(killed_by: signal.Signals, recover: Callable[[], None]) -> None:
    """Reports the death of the gate, and removes its seals."""
    # Of a merge there is nothing to resume: it only reads.
    message = f"agent-eval: was killed by {killed_by.name}; there is no verdict. `run --resume` continues a run."
    with contextlib.suppress(OSError):
        os.write(2, message.encode() + b"\n")
    if os.geteuid() == 0:
        with contextlib.suppress(OSError):  # The next gate tries again.
            recover()
