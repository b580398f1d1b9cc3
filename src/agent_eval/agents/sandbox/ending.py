"""The end of everything that runs as the agent's user."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from pathlib import Path

from agent_eval.agents.sandbox.uids import claim, free_uids, processes_of

_SCRIPT = Path(__file__).with_name("kill_uid.py")
_ANSWER_SECONDS = 20.0
_GONE_SECONDS = 15.0
"""A killed process needs a moment to give back its memory; one that writes to a dead disk may never end."""
_ATTEMPTS = 3


class AgentNotEnded(Exception):
    """Processes of the agent's user go on running although they were killed."""

    def __init__(self, uid: int, why: str) -> None:
        super().__init__(f"the agent's processes (uid {uid}) can't be ended: {why}")


class Killer:
    """Waits to kill all processes of a user. It is started before the agent, which could use up all process ids.

    It also kills them when the gate dies without a word (SIGKILL).
    """

    def __init__(self, uid: int) -> None:
        """Starts it.

        Raises:
            OSError: It can't be started, or there is no uid for it.
        """
        self._stack = contextlib.ExitStack()
        with self._stack:
            self._uid = uid
            cover = claim(self._stack, reversed(list(free_uids())))
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_SCRIPT), str(uid), str(cover)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C in a terminal is not meant for it.
                cwd="/",
                env={},
            )
            self._stack.callback(self._reap)
            if (answer := self._line()) != "ready":
                raise OSError(f"the process that ends the agent could not be started: {answer}")
            self._stack = self._stack.pop_all()

    def close(self) -> None:
        """Ends it without killing anything, if it has not killed already."""
        self._write(b"q")
        self._stack.close()

    def kill(self) -> str:
        """Kills, once. Gives "killed", or why it did not."""
        self._write(b"k")
        answer = self._line()
        self._stack.close()
        return answer

    def _write(self, byte: bytes) -> None:
        assert self._process.stdin is not None
        if self._process.stdin.closed:
            return
        with contextlib.suppress(OSError):  # It has ended: there is no answer then.
            os.write(self._process.stdin.fileno(), byte)

    def _line(self) -> str:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], _ANSWER_SECONDS)
        if not ready:
            return f"no answer within {_ANSWER_SECONDS:g} s"
        return self._process.stdout.readline().decode("utf-8", "replace").strip() or "it ended without an answer"

    def _reap(self) -> None:
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_ANSWER_SECONDS)


def end_processes(uid: int, killer: Killer | None = None) -> None:
    """Kills every process of a user and waits until none is left.

    Args:
        uid: Of an agent; ours alone (`uids.claim`).
        killer: One that was started before the agent.

    Raises:
        AgentNotEnded: Some go on running, or it can't be found out.
    """
    why = ""
    for _ in range(_ATTEMPTS):
        try:
            killer = killer or Killer(uid)
            why = killer.kill()
        except OSError as error:
            why = str(error)
        killer = None
        if why == "killed":
            break
    if why == "killed":
        if not (left := _wait_gone(uid)):
            return
        why = f"{len(left)} of them, among them process {left[0]}, were killed and did not end"
    raise AgentNotEnded(uid, why)


def _wait_gone(uid: int) -> list[int]:
    end = time.monotonic() + _GONE_SECONDS
    while (left := processes_of(uid)) and time.monotonic() < end:
        time.sleep(0.01)
    return left
