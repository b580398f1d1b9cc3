"""A process that is no child of ours: its end is noticed, and signals reach it and no later owner of its id."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable

_PIDFD_SIGNAL_PROCESS_GROUP = 4
"""From <linux/pidfd.h>; Linux 6.9."""


class Pidfd:
    """A descriptor of a process, pidfd_open(2)."""

    def __init__(self, pid: int, on_end: Callable[[], None]) -> None:
        """Opens the descriptor.

        Args:
            pid: The process, which leads its own group. It may have ended, but nothing may have waited for it yet.
            on_end: Called once, when the process has ended.

        Raises:
            OSError: There is no such process, or the kernel or a sandbox refuses.
        """
        if not hasattr(os, "pidfd_open"):
            raise OSError("this Python has no os.pidfd_open")
        self.pid = pid
        self.ended = asyncio.Event()
        self._on_end = on_end
        self._descriptor = os.pidfd_open(pid)
        asyncio.get_running_loop().add_reader(self._descriptor, self._has_ended)

    def _has_ended(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        self.ended.set()
        self._on_end()

    def kill_group(self) -> None:
        """Kills the process with its group; the rest of the group if it has ended.

        Raises:
            ProcessLookupError: There is none any more, or this was closed.
            PermissionError: We may not.
        """
        if self._descriptor < 0:
            raise ProcessLookupError
        try:
            signal.pidfd_send_signal(self._descriptor, signal.SIGKILL, None, _PIDFD_SIGNAL_PROCESS_GROUP)
        except ProcessLookupError:
            raise
        except OSError:  # an older kernel, or a sandbox
            if not self._has_lost_its_id():
                os.killpg(self.pid, signal.SIGKILL)

    def _has_lost_its_id(self) -> bool:
        """Whether another process has its id now. Then none of its group is left: an id stays with its group."""
        try:
            signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)
        except ProcessLookupError:
            with contextlib.suppress(ProcessLookupError):
                os.getpgid(self.pid)
                return True
        except OSError:
            pass
        return False

    def close(self) -> None:
        """Closes the descriptor; may be called twice."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)
