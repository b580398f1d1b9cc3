"""Server-sent events, parsed as the HTML standard says.

https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_EVENT = 64_000_000
"""Bytes of one event."""
_LINE_END = re.compile(rb"\r\n|\r|\n")
_BOM = b"\xef\xbb\xbf"


class TooLarge(Exception):
    """An event or a body exceeds its limit. The message is a sentence without a full stop."""


@dataclass(frozen=True, kw_only=True)
class ServerSentEvent:
    """One event."""

    data: str
    """The `data` lines, joined by line feeds."""
    event: str = "message"
    """The event's type."""


class SseParser:
    """Parses a stream that arrives in chunks of any size.

    Comments, ids and retry times are ignored, and so are events without data.
    """

    def __init__(self, limit: int = MAX_EVENT) -> None:
        """Begins a stream.

        Args:
            limit: Maximum bytes of one event.
        """
        self._limit = limit
        self._buffer = bytearray()
        self._at_start = True
        self._skip_line_feed = False
        self._type = ""
        self._data: list[bytes] = []
        self._size = 0

    @property
    def incomplete(self) -> bool:
        """Whether the stream, if it ends here, ends within an event."""
        return bool(self._data or self._buffer)

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """The events that a chunk completes.

        Raises:
            TooLarge: An event exceeds the limit.
        """
        for line in self._lines(chunk):
            if line:
                self._field(line)
                continue
            if self._data:
                data = b"\n".join(self._data).decode("utf-8", "replace")
                yield ServerSentEvent(data=data, event=self._type or "message")
            self._type, self._data, self._size = "", [], 0

    def _lines(self, chunk: bytes) -> Iterator[bytes]:
        if self._skip_line_feed and chunk:
            # The previous chunk ended with a carriage return, which was treated as a whole line end.
            chunk, self._skip_line_feed = chunk.removeprefix(b"\n"), False
        searched = len(self._buffer)
        self._buffer += chunk
        if self._at_start:
            if len(self._buffer) < len(_BOM) and _BOM.startswith(self._buffer):
                return
            self._at_start = False
            searched = 0
            if self._buffer.startswith(_BOM):
                del self._buffer[: len(_BOM)]
        begin = 0
        while (end := _LINE_END.search(self._buffer, max(begin, searched))) is not None:
            line = bytes(self._buffer[begin : end.start()])
            begin = end.end()
            self._skip_line_feed = end[0] == b"\r" and begin == len(self._buffer)
            yield line
        del self._buffer[:begin]
        self._check(len(self._buffer))

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._check(len(value))
            self._size += len(value) + 1
            self._data.append(value)
        elif name == b"event":
            self._type = value.decode("utf-8", "replace")

    def _check(self, more: int) -> None:
        if self._size + more > self._limit:
            raise TooLarge(f"an event is larger than {self._limit / 1_000_000:g} MB")
