"""Ends all processes of the agent's user."""

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
"""A killed process needs time to release its memory; one that waits for a dead disk may never end."""
_ATTEMPTS = 3


class AgentNotEnded(Exception):
    """Processes of the agent's user are still running after they were killed."""

    def __init__(self, uid: int, why: str) -> None:
        super().__init__(f"the agent's processes (uid {uid}) can't be ended: {why}")


class Killer:
    """A process that waits to kill all processes of a user. It starts before the agent, which could use up all ids.

    It also kills them if the gate itself is killed (SIGKILL).
    """

    def __init__(self, uid: int) -> None:
        """Starts the process.

        Raises:
            OSError: The process can't be started, or no uid is free for it.
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
                start_new_session=True,  # Ctrl-C in a terminal must not end it.
                cwd="/",
                env={},
            )
            self._stack.callback(self._reap)
            if (answer := self._line()) != "ready":
                raise OSError(f"the process that ends the agent could not be started: {answer}")
            self._stack = self._stack.pop_all()

    def close(self) -> None:
        """Ends the process. It kills nothing unless `kill` was called."""
        self._write(b"q")
        self._stack.close()

    def kill(self) -> str:
        """Kills the user's processes; works once. Returns "killed", or why it failed."""
        self._write(b"k")
        answer = self._line()
        self._stack.close()
        return answer

    def _write(self, byte: bytes) -> None:
        assert self._process.stdin is not None
        if self._process.stdin.closed:
            return
        with contextlib.suppress(OSError):  # The process has ended: there will be no answer.
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
        uid: An agent's uid that no other gate uses (`uids.claim`).
        killer: A killer that was started before the agent.

    Raises:
        AgentNotEnded: Some are still running, or their end can't be verified.
    """
    result = ""
    for _ in range(_ATTEMPTS):
        try:
            killer = killer or Killer(uid)
            result = killer.kill()
        except OSError as error:
            result = str(error)
        killer = None
        if result == "killed":
            break
    if result == "killed":
        if not (running := _wait_until_ended(uid)):
            return
        result = f"{len(running)} of them, e.g. process {running[0]}, were killed and did not end"
    raise AgentNotEnded(uid, result)


def _wait_until_ended(uid: int) -> list[int]:
    end = time.monotonic() + _GONE_SECONDS
    while (running := processes_of(uid)) and time.monotonic() < end:
        time.sleep(0.01)
    return running
