"""The gate's side of the protocol with its host processes (docs/host-protocol.md).

A message is one line of JSON. Both sides send requests; ids match responses with requests. All incoming messages come
from a process that runs the pull request's code, so they are masked and validated.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from pydantic import ValidationError

from agent_eval_agents.messages import Looked
from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.masking import Masked, Masker, shorten
from agent_eval_scoring.core.text import carriable, encodable

VERSION = 1
MAX_LINE = 64 * 1024 * 1024
"""Maximum bytes of a message."""

NO_ANSWER = object()
"""Returned by the handler of a request that gets no response: what it belongs to is about to be cancelled."""


class ProtocolError(AgentEvalError):
    """The other side sent something that is not our protocol."""


class ConnectionLost(AgentEvalError):
    """The other side or we closed the connection."""


class RemoteError(AgentEvalError):
    """The other side responded with an error."""

    def __init__(self, code: str, message: str, data: Mapping[str, Any]) -> None:
        """Takes the three fields of an error response."""
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


def decode(line: bytes, masker: Masker) -> dict[str, Any]:
    """Reads one message, masks its texts, and checks its envelope.

    Texts are masked after parsing: a line has them in another spelling, and masking it would break it if a secret
    occurs in a number.

    Raises:
        ProtocolError: The line is not JSON, not an object, of another version or without a type.
    """
    try:
        message = json.loads(line.decode("utf-8", "replace"), parse_constant=str)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"not a line of JSON: {_shown(line, masker)}") from error
    if not isinstance(message, dict):
        raise ProtocolError(f"not a JSON object: {_shown(line, masker)}")
    if message.get("v") != VERSION:
        raise ProtocolError(f"not of protocol version {VERSION}: {_shown(line, masker)}")
    if message.get("type") not in ("request", "response", "notify"):
        raise ProtocolError(f"neither request, response nor notify: {_shown(line, masker)}")
    # Escaped letters ("\u0061bc") and lone surrogates are only visible in parsed texts.
    if b"\\u" in line or masker.may_be_in(line):
        try:
            for key in message.keys() & {"params", "result", "error"}:
                message[key] = masker.values(encodable(message[key]))
        except RecursionError as error:
            raise ProtocolError(f"nested too deeply: {_shown(line, masker)}") from error
    return message


def _shown(line: bytes, masker: Masker) -> str:
    return shorten(Masked(carriable(masker.decoded(line))), 400)


class Connection:
    """One connection. `run` reads until it ends; the other methods may be called meanwhile."""

    def __init__(
        self,
        *,
        masker: Masker,
        on_notify: Callable[[str, dict[str, Any]], None],
        on_request: Callable[[str, dict[str, Any]], Awaitable[Any]],
        max_line: int = MAX_LINE,
    ) -> None:
        """Creates a connection that is not yet open.

        Args:
            masker: Applied to every incoming text.
            on_notify: Called with method and params of each notification, in order.
            on_request: Handles a request; if it raises a RemoteError, that is the response. NO_ANSWER: none. While it
                waits, other messages are read.
            max_line: Maximum bytes of a message.
        """
        self._masker = masker
        self._on_notify = on_notify
        self._on_request = on_request
        self._max_line = max_line
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._last_id = 0
        self._writer: asyncio.StreamWriter | None = None
        self._unsent = bytearray()
        self._reader: asyncio.StreamReader | None = None
        self._lost: Exception | None = None
        self._replies: set[asyncio.Task[None]] = set()

    @property
    def lost(self) -> bool:
        """Whether the connection has ended."""
        return self._lost is not None

    async def open(self, ours: socket.socket) -> None:
        """Opens the connection on our end of a socket pair."""
        self._reader, self._writer = await asyncio.open_connection(sock=ours, limit=self._max_line)

    async def run(self) -> None:
        """Reads until the other side closes.

        Raises:
            ProtocolError: The other side sent something that is not our protocol. The connection is unusable.
        """
        try:
            while (line := await self._line()) is not None:
                if line.strip():
                    await self._receive(decode(line, self._masker))
        except ProtocolError as error:
            self._fail(error)
            raise
        else:
            self._fail(ConnectionLost("the connection was closed"))

    async def _line(self) -> bytes | None:
        assert self._reader is not None, "open() comes first"
        try:
            return await self._reader.readuntil(b"\n")
        except asyncio.IncompleteReadError:
            # Also in the middle of a line: the process was probably killed, and its exit explains more.
            return None
        except asyncio.LimitOverrunError as error:
            start = self._masker.beginning(await self._reader.read(400 + self._masker.longest))
            raise ProtocolError(
                f"a line of more than {self._max_line:,} bytes, beginning {_shown(start[:400], self._masker)}"
            ) from error
        except OSError:
            return None

    async def _receive(self, message: dict[str, Any]) -> None:
        number, method = message.get("id"), str(message.get("method"))
        params = message.get("params") or {}
        if not isinstance(params, dict):
            raise ProtocolError(f"params of {method} are not an object")
        match message["type"]:
            case "notify":
                self._on_notify(method, params)
            case "request":
                task = asyncio.create_task(self._reply(number, method, params))
                await asyncio.sleep(0)  # It begins before the next message is read, and most end.
                if task.done():
                    task.result()
                else:
                    self._replies.add(task)
                    task.add_done_callback(self._replies.discard)
            case _:
                future = self._pending.pop(number, None) if isinstance(number, int) else None
                if future is None or future.done():
                    return  # the request was given up
                error = message.get("error")
                if isinstance(error, dict):
                    data = error.get("data")
                    future.set_exception(
                        RemoteError(
                            str(error.get("code")), str(error.get("message")), data if isinstance(data, dict) else {}
                        )
                    )
                else:
                    future.set_result(message.get("result"))

    async def _reply(self, number: Any, method: str, params: dict[str, Any]) -> None:
        reply: dict[str, Any] = {"id": number, "type": "response"}
        try:
            result = await self._on_request(method, params)
            if result is NO_ANSWER:
                return
            reply["result"] = result
        except RemoteError as error:
            reply["error"] = {"code": error.code, "message": error.message, "data": dict(error.data)}
        with contextlib.suppress(ConnectionLost, ProtocolError, OSError):  # It may have taken its time.
            self._write(reply)

    def _write(self, message: dict[str, Any]) -> None:
        if self._lost is not None or self._writer is None:
            raise self._lost or ConnectionLost("the connection is not open")
        if not self._unsent:  # What this step of the loop says wakes the host once.
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent += json.dumps({"v": VERSION, **message}, ensure_ascii=False).encode("utf-8", "replace") + b"\n"

    def _flush(self) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(bytes(self._unsent))
        self._unsent.clear()

    def ask(self, method: str, params: Mapping[str, Any]) -> tuple[int, asyncio.Future[Any]]:
        """Sends a request.

        Returns:
            Its id, and a future of the result, a RemoteError, a ProtocolError or a ConnectionLost.
        """
        self._last_id += 1
        number = self._last_id
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        # Retrieve the exception: the caller may have been cancelled.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._pending[number] = future
        try:
            self._write({"id": number, "type": "request", "method": method, "params": dict(params)})
        except (ConnectionLost, ProtocolError, OSError) as error:
            self._pending.pop(number, None)
            future.set_exception(error if not isinstance(error, OSError) else ConnectionLost(str(error)))
        return number, future

    async def look(self, call: int, names: Collection[str]) -> Mapping[str, str]:
        """What a call of a tool would see now; nothing where its host can't say it."""
        try:
            return Looked.model_validate({"saw": await self.ask("look", {"call": call, "names": [*names]})[1]}).saw
        except (RemoteError, ConnectionLost, ProtocolError, ValidationError):
            return {}

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Sends a notification; does nothing if the connection has ended."""
        with contextlib.suppress(ConnectionLost, ProtocolError, OSError):
            self._write({"type": "notify", "method": method, "params": dict(params)})

    def _fail(self, error: Exception) -> None:
        self._lost = self._lost or error
        waiting, self._pending = self._pending, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(error)

    async def close(self) -> None:
        """Closes our end. Never raises."""
        self._fail(ConnectionLost("the gate closed the connection"))
        if self._writer is not None:
            self._flush()
            self._writer.close()
            with contextlib.suppress(OSError):
                await self._writer.wait_closed()
