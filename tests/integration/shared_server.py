"""Servers that fork, shared by all workers of a session of pytest: what they import is imported once."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import os
import select
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator

_OWNER = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
"""The session's process."""
_FOLDER = "\0" if sys.platform == "linux" else f"{tempfile.gettempdir()}/"
"""Linux has abstract addresses."""
_LARGE = 2 << 20
_MADV_COLLAPSE = 25
_STARTED: list[subprocess.Popen[bytes]] = []
"""They outlive this process."""


@functools.cache
def address_of(name: str, *command: str) -> str:
    """The address of a server, which ends with the session. It is started if no worker has started it.

    Args:
        name: Of the server.
        command: What starts it; the descriptor of its socket and the session's process are added.
    """
    address = f"{_FOLDER}agent-eval-{_OWNER}-{name}"
    with socket.socket(socket.AF_UNIX) as listener, contextlib.suppress(OSError):  # Another worker has it.
        listener.bind(address)
        listener.listen(64)
        _STARTED.append(
            subprocess.Popen(
                [*command, str(listener.fileno()), str(_OWNER)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # A process with threads is not safe to fork.
                pass_fds=[listener.fileno()],
                start_new_session=True,
            )
        )
    return address


def prepare_to_fork() -> None:
    """Makes forks of this process cheaper: objects that stay are not looked at again, and large pages are shared.

    A fork copies the table of this process's pages, which is most of what it costs.
    """
    gc.collect()
    gc.freeze()
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None)
    libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    with open("/proc/self/maps", encoding="ascii") as maps:
        for span, permissions, *rest in map(str.split, maps):
            if permissions == "rw-p" and rest[3:] in ([], ["[heap]"]):
                start, end = (int(address, 16) // _LARGE * _LARGE for address in span.split("-"))
                # Without MADV_COLLAPSE (Linux 6.1) they stay as they are. The first of them may begin before the span.
                libc.madvise(start + _LARGE, max(end - start - _LARGE, 0), _MADV_COLLAPSE)


def connections(listener: socket.socket, owner: int) -> Iterator[socket.socket]:
    """Accepts connections until the owner has ended, and waits for children that have ended."""
    while True:
        ready, _, _ = select.select([listener], [], [], 1.0)
        if ready:
            yield listener.accept()[0]
        try:
            os.kill(owner, 0)
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        except ProcessLookupError:
            return
        except ChildProcessError:
            continue
