"""A command on a real pseudo-terminal: what it prints, and keys that are typed into it."""

from __future__ import annotations

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
from contextlib import contextmanager
from pathlib import Path

from gate_runs import patience

_COLORS = re.compile(r"\x1b\[[\d;?]*[a-zA-Z]")


class Terminal:
    """The side of a pseudo-terminal at which a person sits."""

    def __init__(self, process: subprocess.Popen[bytes], descriptor: int) -> None:
        self.process = process
        self._descriptor = descriptor
        self._data = b""
        self._seen = 0

    @property
    def output(self) -> str:
        """All that was printed, with colours."""
        return self._data.decode("utf-8", "replace")

    @property
    def text(self) -> str:
        """All that was printed, without colours, with the terminal's line ends as newlines."""
        return _COLORS.sub("", self.output).replace("\r\n", "\n")

    def type(self, keys: str | bytes) -> None:
        """Types keys. `\\x03` is Ctrl-C, `\\x04` is Ctrl-D."""
        os.write(self._descriptor, keys.encode() if isinstance(keys, str) else keys)

    def expect(self, pattern: str, *, seconds: float = 10) -> str:
        """Waits until new output matches a regular expression. Returns the new output up to there.

        Raises:
            AssertionError: It does not appear in time, or the command ends before.
        """
        until = time.monotonic() + seconds * patience()
        while True:
            new = self.text[self._seen :]
            match = re.search(pattern, new)
            if match is not None:
                self._seen += match.end()
                return new[: match.end()]
            ended = self.process.poll() is not None
            if time.monotonic() > until or not self._read() or ended:
                raise AssertionError(f"{pattern!r} was not printed; printed was:\n{new}")

    def ask(self, keys: str, pattern: str) -> str:
        """Types keys, and waits for output."""
        self.type(keys)
        return self.expect(pattern)

    def end(self, *, seconds: float = 30) -> int:
        """Waits for the end of the command. Returns its exit code."""
        until = time.monotonic() + seconds * patience()
        while self.process.poll() is None and time.monotonic() < until:
            self._read()
        while select.select([self._descriptor], [], [], 0)[0] and self._read():
            pass
        return self.process.wait(timeout=1)

    def is_line_buffered(self) -> bool:
        """Whether the terminal waits for the end of a line and echoes, as a shell expects it."""
        local = termios.tcgetattr(self._descriptor)[3]
        return bool(local & termios.ICANON and local & termios.ECHO)

    def _read(self) -> bool:
        """Reads what there is, or waits for a moment. Returns False at the end."""
        if not select.select([self._descriptor], [], [], 0.2)[0]:
            return True
        try:
            data = os.read(self._descriptor, 65536)
        except OSError:  # EIO: the other side is closed
            return False
        self._data += data
        return bool(data)


@contextmanager
def on_terminal(
    command: Sequence[str], *, cwd: Path, environment: Mapping[str, str], columns: int = 100
) -> Iterator[Terminal]:
    """Starts a command on a new terminal, and kills it at the end."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))

    def take_terminal() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(
        command,
        cwd=cwd,
        env={**environment, "TERM": "xterm"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=take_terminal,
    )
    try:
        yield Terminal(process, ours)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=10)
        os.close(ours)
        os.close(theirs)
