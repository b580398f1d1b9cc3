"""The connection to the gate."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import fcntl
import itertools
import json
import os
import threading
from collections.abc import Iterable
from typing import Any

from agent_eval_host.turns import Turn
from agent_eval_host.values import plain

VERSION = 1
last_call: contextvars.ContextVar[int | None] = contextvars.ContextVar("agent_eval_last_call", default=None)
"""The last call of a tool or a model in this context: what the same code, or what it starts, calls later follows it."""


class Channel:
    """Our end of the connection to the gate: lines of JSON, protected from what the agent prints or closes."""

    def __init__(self, descriptor: int) -> None:
        # A high number, because some code closes all descriptors below 256 or reuses low numbers. Processes that the
        # agent starts do not inherit it.
        self._descriptor = descriptor
        for lowest in (640, 200, 20):
            with contextlib.suppress(OSError):
                self._descriptor = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, lowest)
                os.close(descriptor)
                break
        self._lock = threading.Lock()
        self._ids = itertools.count(1)
        self.pending: dict[int, concurrent.futures.Future[Any]] = {}
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """A fork of this process must neither write to the gate nor keep the connection open."""
        with contextlib.suppress(OSError):
            os.close(self._descriptor)
        self._descriptor = -1

    def _send(self, message: dict[str, Any]) -> None:
        message["v"] = VERSION
        try:
            text = json.dumps(message, ensure_ascii=False, allow_nan=False)
        except (ValueError, TypeError):
            text = json.dumps(plain(message), ensure_ascii=False, allow_nan=False)
        # A lone surrogate can't be encoded and becomes a question mark.
        line = memoryview(text.encode("utf-8", "replace") + b"\n")
        with self._lock:
            while line and self._descriptor >= 0:
                try:
                    line = line[os.write(self._descriptor, line) :]
                except OSError:  # the gate is gone
                    os._exit(0)

    def request(self, method: str, params: dict[str, Any], number: int | None = None) -> concurrent.futures.Future[Any]:
        """Sends a request, also from other threads; the future gets its result."""
        number, answer = number or next(self._ids), concurrent.futures.Future[Any]()
        self.pending[number] = answer
        self._send({"id": number, "type": "request", "method": method, "params": params})
        return answer

    def number(self) -> int:
        """A number for a question."""
        return next(self._ids)

    async def ask(
        self, turn: Turn, method: str, params: dict[str, Any], number: int | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Asks whether something of a turn runs: the number of the question, and the decision."""
        number, follows = number or next(self._ids), last_call.get()
        if method != "toolset":
            last_call.set(number)
        answer = self.request(method, {"turn": turn.number, "call": number, "follows": follows, **params}, number)
        turn.asking.add(answer)
        try:
            return number, await asyncio.wrap_future(answer)  # also works in the loop of another thread
        finally:
            turn.asking.discard(answer)

    def notify(self, method: str, params: dict[str, Any]) -> None:
        self._send({"type": "notify", "method": method, "params": params})

    def answer(self, number: Any, result: Any) -> None:
        self._send({"id": number, "type": "response", "result": result})

    def refuse(self, number: Any, code: str, message: str, data: dict[str, Any] | None = None) -> None:
        self._send({"id": number, "type": "response", "error": {"code": code, "message": message, "data": data or {}}})

    def messages(self) -> Iterable[dict[str, Any]]:
        """The gate's messages, until it closes the connection."""
        partial = b""
        while True:
            try:
                chunk = os.read(self._descriptor, 1 << 16)
            except OSError:
                return
            if not chunk:
                return
            *lines, partial = (partial + chunk).split(b"\n")
            for line in lines:
                if line.strip():
                    yield json.loads(line)
