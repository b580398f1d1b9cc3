"""Starts hosts as forks of a process that has imported google-adk.

The first host of an agent forks that process, the template, before it loads the agent (`child.py`). A host that is a
fork of it imports only the agent, and shares the memory of all other modules.

The template runs as the agent's user, so the agent can stop it, kill it or speak for it. What it says is checked; if it
is gone or does not answer, hosts start in new interpreters.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import socket
import sys

from pydantic import BaseModel, ConfigDict, Field, ValidationError

_LONGEST_MESSAGE = 4096
_FORK_SECONDS = 5.0
_CLOSE_SECONDS = 1.0


class _Message(BaseModel):
    """What the template or a new host says: the answer to a request, or the end of a host."""

    model_config = ConfigDict(strict=True)

    request: int | None = None
    """The number of the request that is answered."""
    pid: int | None = Field(None, gt=1)
    """The new host; None if it could not be forked."""
    exited: int | None = None
    """A host has ended, with this `code`."""
    code: int | None = None
    """None if no one knows: a process that ignores SIGCHLD learns nothing about its children."""


class Fork:
    """A host's process that is no child of ours. Has what `HostProcess` needs of `asyncio.subprocess.Process`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.stdout: asyncio.StreamReader | None = None
        self.returncode: int | None = None
        """As for a child; also None if the process has ended and no one knows how."""
        self._transport: asyncio.BaseTransport | None = None  # closed by `close_pipe`
        self._ended = asyncio.Event()

    def attach(self, stdout: asyncio.StreamReader, transport: asyncio.BaseTransport) -> None:
        """Sets the stream of its output."""
        self.stdout, self._transport = stdout, transport

    def ended(self, returncode: int | None) -> None:
        """Called when it has ended."""
        self.returncode = returncode
        self._ended.set()

    async def wait(self) -> int | None:
        """Waits until it has ended, and returns its exit code."""
        await self._ended.wait()
        return self.returncode


class HostTemplate:
    """The gate's end of the connection to an agent's template."""

    def __init__(self, uid: int | None) -> None:
        """Describes a template; it starts with the first host.

        Args:
            uid: The user that the agent runs as, if it is another one.
        """
        self._uid = uid
        self._connection: socket.socket | None = None
        self._offered = False
        self._numbers = itertools.count(1)
        self._replies: dict[int, asyncio.Future[Fork | None]] = {}
        self._hosts: dict[int, Fork] = {}
        self._gone = asyncio.Event()

    @property
    def serves(self) -> bool:
        """Whether hosts can probably be forked."""
        return self._connection is not None

    @property
    def is_possible(self) -> bool:
        """Whether a host can start the template, or has started it."""
        return sys.platform == "linux" and (self.serves or not self._offered)

    def offer(self) -> socket.socket | None:
        """What an agent's first host needs to fork the template; None for further hosts, and where that is impossible.

        Returns:
            The other end of the connection. The caller closes it when the host has inherited it.
        """
        if self._offered or not self.is_possible:
            return None
        self._offered = True
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._connection.setblocking(False)
        asyncio.get_running_loop().add_reader(self._connection, self._receive)
        return theirs

    async def fork(self, channel: socket.socket) -> Fork | None:
        """Forks a host.

        Args:
            channel: The host's end of its channel. The host may get it even if this returns None.

        Returns:
            The host, with its output; None if it must be started in another way.
        """
        if self._connection is None:
            return None
        loop = asyncio.get_running_loop()
        reading, writing = os.pipe()
        stdout = asyncio.StreamReader()
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stdout), os.fdopen(reading, "rb", buffering=0)
        )
        fork = None
        try:
            reply = self._ask(channel.fileno(), writing)
            async with asyncio.timeout(_FORK_SECONDS):
                fork = await reply
        except TimeoutError:
            self._lose()
        finally:
            os.close(writing)
            if fork is None:
                transport.close()
        if fork is not None:
            fork.attach(stdout, transport)
        return fork

    def _ask(self, channel: int, output: int) -> asyncio.Future[Fork | None]:
        number = next(self._numbers)
        reply: asyncio.Future[Fork | None] = asyncio.get_running_loop().create_future()
        self._replies[number] = reply
        try:
            if self._connection is None:
                reply.set_result(None)
            else:
                socket.send_fds(self._connection, [b"%d" % number], [channel, output])
        except OSError:  # It has ended, or does not read.
            self._lose()
        return reply

    def _receive(self) -> None:
        assert self._connection is not None, "the reader is removed with the connection"
        try:
            data = self._connection.recv(_LONGEST_MESSAGE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        try:
            message = _Message.model_validate_json(data)
        except ValidationError:  # the end of the connection, or not the template
            self._lose()
            return
        if message.exited is not None:
            if (host := self._hosts.pop(message.exited, None)) is not None:
                host.ended(message.code)
            return
        reply = self._replies.pop(message.request or 0, None)
        if reply is None or (message.pid is not None and not self._may_be_host(message.pid)):
            if reply is not None and not reply.done():
                reply.set_result(None)
            self._lose()
            return
        fork = None
        if message.pid is not None:
            fork = self._hosts[message.pid] = Fork(message.pid)
        if not reply.done():  # Otherwise no one waits any more: the host ends, because its channel is closed.
            reply.set_result(fork)

    def _may_be_host(self, pid: int) -> bool:
        """Whether it is the agent's to end: we kill what the template names. A host leads its own session."""
        with contextlib.suppress(OSError):
            is_agents = self._uid is None or os.stat(f"/proc/{pid}").st_uid == self._uid  # noqa: PTH116
            return is_agents and pid not in self._hosts and os.getsid(pid) == pid != os.getsid(0)
        return False

    def _lose(self) -> None:
        """Ends the connection. The template ends with it, and its hosts with the template."""
        if self._connection is not None:
            asyncio.get_running_loop().remove_reader(self._connection)
            self._connection.close()
            self._connection = None
        self._gone.set()
        replies, self._replies = self._replies, {}
        for reply in replies.values():
            if not reply.done():
                reply.set_result(None)
        hosts, self._hosts = self._hosts, {}
        for host in hosts.values():
            host.ended(None)

    async def close(self) -> None:
        """Ends the template. Its hosts must have ended. Never raises."""
        if self._connection is None:
            return
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._gone.wait()  # It has closed its end, so it is gone.
        self._lose()
