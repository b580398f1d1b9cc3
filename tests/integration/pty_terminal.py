"""A command on a real pseudo-terminal: press keys, and wait for what it shows."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gate_runs import AGENT_EVAL, patience
from gate_server import OnTerminal

_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\x07|\x08")


class Terminal:
    """The user's side of the terminal."""

    def __init__(self, process: subprocess.Popen[bytes] | OnTerminal, descriptor: int) -> None:
        self.process = process
        self._descriptor = descriptor
        self._data = b""
        self._seen = 0

    @property
    def text(self) -> str:
        """All that was shown, without colours and other escape sequences."""
        return _SEQUENCE.sub("", self._data.decode("utf-8", "replace")).replace("\r\n", "\n").replace("\r", "")

    def expect(self, pattern: str, *, seconds: float = 60) -> str:
        """Waits for text after the last match, and returns what was shown up to its end."""
        deadline = time.monotonic() + seconds * patience()
        while True:
            new = self.text[self._seen :]
            if match := re.search(pattern, new):
                self._seen += match.end()
                return new[: match.end()]
            left = deadline - time.monotonic()
            if left <= 0 or not self._read(left):
                raise AssertionError(f"{pattern!r} was not shown. Shown was:\n{self.text}")

    def type(self, text: str, *patterns: str) -> None:
        """Types a line, and waits for texts."""
        self.press(f"{text}\n", *patterns)

    def press(self, keys: str, *patterns: str) -> str:
        """Presses keys, and waits for texts: `\\x03` is Ctrl-C, `\\x04` is Ctrl-D. What was shown up to these."""
        os.write(self._descriptor, keys.encode())
        return "".join([self.expect(pattern) for pattern in patterns])

    def interrupt(self, pattern: str) -> None:
        """Presses Ctrl-C and waits for a text.

        Presses again after a while: Python's `input` misses a signal between showing its prompt and waiting for keys.
        """
        for _ in range(3):
            self.press("\x03")
            with contextlib.suppress(AssertionError):
                self.expect(pattern, seconds=10)
                return
        raise AssertionError(f"Ctrl-C did not show {pattern!r}. Shown was:\n{self.text}")

    def code(self, *, seconds: float = 60) -> int:
        """The exit code, once the command has ended."""
        deadline = time.monotonic() + seconds * patience()
        while time.monotonic() < deadline and self._read(0.2):
            pass
        return self.process.wait(timeout=seconds)

    def is_line_buffered(self) -> bool:
        """Whether the terminal waits for the end of a line and echoes, as a shell expects it."""
        local = termios.tcgetattr(self._descriptor)[3]
        return bool(local & termios.ICANON and local & termios.ECHO)

    def _read(self, seconds: float) -> bool:
        """Reads what is there; False at the end of the output."""
        if not select.select([self._descriptor], [], [], seconds)[0]:
            return self.process.poll() is None
        try:
            data = os.read(self._descriptor, 65_536)
        except OSError:  # EIO: the other side is closed
            return False
        self._data += data
        return bool(data)


@contextlib.contextmanager
def on_terminal(
    command: Sequence[str], *, cwd: Path, environment: Mapping[str, str], columns: int = 100
) -> Iterator[Terminal]:
    """Starts a command whose three streams are a terminal of its own session; `agent-eval` in a fork."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
    environment = {**environment, "TERM": "xterm", "LC_ALL": "C.UTF-8"}
    start = _forked if tuple(command[:3]) == AGENT_EVAL else _started
    with start(command, cwd, environment, theirs) as process:
        os.close(theirs)
        try:
            yield Terminal(process, ours)
        finally:
            os.close(ours)


@contextlib.contextmanager
def _forked(command: Sequence[str], cwd: Path, environment: Mapping[str, str], terminal: int) -> Iterator[OnTerminal]:
    process = OnTerminal(command[3:], cwd=cwd, environment=environment, terminal=terminal)
    try:
        yield process
    finally:
        process.close()


@contextlib.contextmanager
def _started(
    command: Sequence[str], cwd: Path, environment: Mapping[str, str], terminal: int
) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=environment,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=10)
