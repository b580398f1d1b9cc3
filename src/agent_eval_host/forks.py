"""The template: a process that has imported google-adk, and of which further hosts are forks."""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import random
import select
import signal
import socket
import sys
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1


class IsTemplate(BaseException):
    """This process is now the template."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__()
        self.connection = connection


def can_fork() -> bool:
    """Whether a fork of this process is sound: it has no thread but the main one and the one that reads messages."""
    try:
        os.close(os.pidfd_open(os.getpid()))
        return len(list(Path("/proc/self/task").iterdir())) <= 2
    except (OSError, AttributeError):  # an old kernel, a sandbox, not Linux
        return False


def fork_orphan() -> bool:
    """Forks a process that is no child of this one: an agent may wait for all its children. True in that process."""
    try:
        between = os.fork()
    except OSError:  # no process ids left
        return False
    if between:
        with contextlib.suppress(ChildProcessError):  # This process may have inherited that it ignores SIGCHLD.
            os.waitpid(between, 0)
        return False
    try:
        orphan = os.fork() == 0
    except OSError:
        orphan = False
    if not orphan:
        os._exit(0)
    return True


def serve_forks(connection: socket.socket) -> int:
    """Forks a host for each request of the gate, and reports how each one ends, until the gate closes the connection.

    A host's id stays its own until the gate has seen its end.

    Returns:
        In each fork, the descriptor of its channel.
    """
    os.setsid()  # It outlives the host that it was forked from, and must not keep that host's log open.
    _tell(connection, {"template": os.getpid()})
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        os.dup2(nothing, stream)
    os.close(nothing)
    with contextlib.suppress(ImportError):  # before the forks
        importlib.import_module("ctypes")
    # Hosts must not draw the same numbers. Searched without touching other objects, whose memory would then be copied.
    gc.unfreeze()
    generators = [one for one in gc.get_referrers(random.Random) if type(one) is random.Random]  # noqa: S311
    gc.freeze()
    hosts: dict[int, int] = {}
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    while True:
        for descriptor, _ in poll.poll():
            if descriptor in hosts:
                poll.unregister(descriptor)
                os.close(descriptor)
                pid = hosts.pop(descriptor)
                _tell(connection, {"exited": pid, "code": _code_of(pid)})
                continue
            request, passed, _, _ = socket.recv_fds(connection, 64, 2)
            if not request:
                os._exit(0)
            if not passed:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(int(request), os.WNOHANG)
                continue
            try:
                pid = os.fork()
            except OSError:  # no process ids left
                _tell(connection, {"request": int(request), "pid": None})
            else:
                if pid == 0:
                    for other in hosts:
                        os.close(other)
                    for generator in generators:
                        generator.seed()
                    if "numpy.random" in sys.modules:
                        sys.modules["numpy.random"].seed()
                    return _become_host(connection, int(request), *passed)
                hosts[os.pidfd_open(pid)] = pid
                poll.register(next(reversed(hosts)), select.POLLIN)
            for descriptor in passed:
                os.close(descriptor)


def _code_of(pid: int) -> int | None:
    """The exit code of a child, which keeps its id; None if this process ignores SIGCHLD, as it may have inherited."""
    try:
        end = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:
        return None
    assert end is not None, "only with WNOHANG"
    return end.si_status if end.si_code == os.CLD_EXITED else -end.si_status


def _become_host(connection: socket.socket, request: int, channel: int, output: int) -> int:
    os.setsid()  # before the gate knows its group
    _end_with_parent()
    for stream in (1, 2):
        os.dup2(output, stream)
    os.close(output)
    _tell(connection, {"request": request, "pid": os.getpid()})
    connection.close()
    return channel


def _end_with_parent() -> None:
    """Has the kernel kill this process when the template ends, which ends with the gate. Linux only."""
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def _tell(connection: socket.socket, message: dict[str, Any]) -> None:
    try:
        connection.send(json.dumps(message).encode())
    except OSError:  # the gate is gone
        os._exit(0)
