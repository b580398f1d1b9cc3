"""Keeps what a host process prints: masked, in a file of bounded size, never on our own output."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from io import FileIO
from pathlib import Path

from agent_eval.core.masking import Masker
from agent_eval.core.text import carriable

_CHUNK = 1 << 16
_TAIL = 4_000


class HostLog:
    """The log of one process: the first and the last half of the limit, and how much is missing between them.

    A file that can't be written (a full disk) is given up; the last half is kept in memory all the same.
    """

    def __init__(self, path: Path, *, masker: Masker, limit: int) -> None:
        """Prepares a log; the file appears with the first byte.

        Args:
            path: The file. Its directory must exist.
            masker: Applied before anything is kept.
            limit: Bytes of the file, at most (not counting the note on what is missing).
        """
        self.path = path
        self._masker = masker
        self._half = max(limit // 2, 1)
        self._file: FileIO | None = None
        self._unwritable = False
        self._written = 0
        self._held = b""
        self._last: deque[bytes] = deque()
        self._last_size = 0
        self._dropped = 0
        self._closed = False

    async def read(self, stream: asyncio.StreamReader) -> None:
        """Takes everything from a stream until it ends."""
        while chunk := await stream.read(_CHUNK):
            self.feed(chunk)

    def feed(self, chunk: bytes) -> None:
        """Takes what was printed. The end of a line that may be the beginning of a secret is held back."""
        data = self._masker.data(self._held + chunk)
        # Each line of a secret is a secret of its own to the masker, so nothing is split by a line's end.
        hold = min(max(self._masker.longest - 1, 0), len(data) - data.rfind(b"\n") - 1)
        self._held = data[len(data) - hold :]
        self._keep(data[: len(data) - hold])

    def _keep(self, data: bytes) -> None:
        if self._written < self._half:
            taken = self._write(data[: self._half - self._written])
            self._written += taken
            data = data[taken:]
        if data:
            self._last.append(data)
            self._last_size += len(data)
            while self._last_size - len(self._last[0]) >= self._half:
                gone = len(self._last.popleft())
                self._last_size -= gone
                self._dropped += gone

    def _write(self, data: bytes) -> int:
        """Writes to the file as long as it takes anything, and gives how much it took. Never raises."""
        done = 0
        try:
            while done < len(data) and not self._unwritable:
                if self._file is None:
                    self.path.parent.mkdir(parents=True, exist_ok=True)
                    self._file = self.path.open("wb", buffering=0)
                done += self._file.write(data[done:])
        except OSError:  # A full disk must not stop the agent.
            self._unwritable = True
        return done

    def tail(self) -> str:
        """The last lines, about 4,000 bytes; "" when nothing was printed."""
        end = b""
        for chunk in reversed(self._last):
            end = chunk + end
            if len(end) >= _TAIL:
                break
        if len(end) < _TAIL and not self._dropped and self._written:
            with (
                contextlib.suppress(OSError),
                self.path.open("rb") as file,
            ):  # Somebody has removed it: what we have then.
                start = file.seek(max(0, self._written - (_TAIL - len(end))))
                end = file.read(self._written - start) + end
        cut = end[-_TAIL:]
        if len(end) > _TAIL or self._written > _TAIL:  # begin with a whole line
            cut = cut[cut.find(b"\n") + 1 :]
        return carriable(cut.decode("utf-8", "replace")).strip("\r\n")

    def close(self) -> None:
        """Writes what is still in memory. Never raises; may be called twice."""
        if self._closed:
            return
        self._closed = True
        self._keep(self._masker.data(self._held))
        self._held = b""
        if self._file is None:
            return
        extra = max(0, self._last_size - self._half)
        if self._dropped or extra:
            self._write(f"\n[... {self._dropped + extra:,} bytes left out ...]\n".encode())
        self._write(b"".join(self._last)[extra:])
        with contextlib.suppress(OSError):  # Some network disks say only now that they are full.
            self._file.close()
