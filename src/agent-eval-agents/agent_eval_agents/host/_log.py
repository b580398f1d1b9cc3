"""Logs the output of a host process: masked, in a file of bounded size, never to our own output."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from io import FileIO
from pathlib import Path

from agent_eval_scoring.core.masking import Masker
from agent_eval_scoring.core.text import carriable

_CHUNK = 1 << 16
_TAIL = 4_000


class HostLog:
    """The log of one process: the first half and the last half of the limit, with a note on what is omitted.

    If the file can't be written (a full disk), only the last half is kept, in memory.
    """

    def __init__(self, path: Path, *, masker: Masker, limit: int) -> None:
        """Prepares a log; the file is created with the first byte.

        Args:
            path: The file. Its directory must exist.
            masker: Applied to all output.
            limit: Maximum bytes of the file, without the note.
        """
        self.path = path
        self._masker = masker
        self._half = max(limit // 2, 1)
        self._file: FileIO | None = None
        self._unwritable = False
        self._written = 0
        self._pending = b""
        self._last: deque[bytes] = deque()
        self._last_size = 0
        self._dropped = 0
        self._closed = False

    async def read(self, stream: asyncio.StreamReader) -> None:
        """Logs a stream until it ends."""
        while chunk := await stream.read(_CHUNK):
            self.feed(chunk)

    def feed(self, chunk: bytes) -> None:
        """Logs a chunk of output. The end of a line is kept back, because it may be the beginning of a secret."""
        raw = self._pending + chunk
        complete = self._masker.complete(raw)
        self._pending = raw[complete:]
        self._keep(self._masker.data(raw[:complete]))

    def _keep(self, data: bytes) -> None:
        if self._written < self._half:
            count = self._write(data[: self._half - self._written])
            self._written += count
            data = data[count:]
        if data:
            self._last.append(data)
            self._last_size += len(data)
            while self._last_size - len(self._last[0]) >= self._half:
                dropped = len(self._last.popleft())
                self._last_size -= dropped
                self._dropped += dropped

    def _write(self, data: bytes) -> int:
        """Writes to the file; returns the number of bytes written. Never raises."""
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
        """The last lines, about 4,000 bytes; "" without any output."""
        end = b""
        for chunk in reversed(self._last):
            end = chunk + end
            if len(end) >= _TAIL:
                break
        if len(end) < _TAIL and not self._dropped and self._written:
            with (
                contextlib.suppress(OSError),
                self.path.open("rb") as file,
            ):  # The file was removed: use what is in memory.
                start = file.seek(max(0, self._written - (_TAIL - len(end))))
                end = file.read(self._written - start) + end
        cut = end[-_TAIL:]
        if len(end) > _TAIL or self._written > _TAIL:  # begin with a whole line
            cut = cut[cut.find(b"\n") + 1 :]
        return carriable(cut.decode("utf-8", "replace")).strip("\r\n")

    def close(self) -> None:
        """Writes the rest to the file. Never raises; may be called twice."""
        if self._closed:
            return
        self._closed = True
        self._keep(self._masker.data(self._pending))
        self._pending = b""
        if self._file is None:
            return
        extra = max(0, self._last_size - self._half)
        if self._dropped or extra:
            self._write(f"\n[... {self._dropped + extra:,} bytes omitted ...]\n".encode())
        self._write(b"".join(self._last)[extra:])
        with contextlib.suppress(OSError):  # Some network disks report only now that they are full.
            self._file.close()
