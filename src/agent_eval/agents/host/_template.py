"""Starts hosts as forks of a process that has imported google-adk.

The first host of an agent forks that process, the template, before it loads the agent (`agent_eval_host/forks.py`). A
host that is a fork of it imports only the agent, and shares the memory of all other modules.

The template runs as the agent's user, so the agent can stop it, kill it or speak for it. What it says is checked; if it
is gone or does not answer, hosts start in new interpreters. Those run the package `agent_eval_host`, as a directory or
as an open archive.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import io
import itertools
import os
import signal
import socket
from collections.abc import Callable
from importlib.util import cache_from_source
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

_LONGEST_MESSAGE = 4096
_FORK_SECONDS = 5.0
_CLOSE_SECONDS = 1.0
_CODE_SECONDS = 0.5
"""Seconds that the template has to report how a host has ended, after its end."""


class _Message(BaseModel):
    """What the template or a new host says: who it is, the answer to a request, or the end of a host."""

    model_config = ConfigDict(strict=True)

    template: int | None = Field(None, gt=1, lt=1 << 31)
    """The template's process id, at its start."""
    request: int | None = None
    """The number of the request that is answered."""
    pid: int | None = Field(None, gt=1, lt=1 << 31)
    """The new host; None if it could not be forked."""
    exited: int | None = None
    """A host has ended, with this `code`."""
    code: int | None = None
    """None if no one knows: a process that ignores SIGCHLD learns nothing about its children."""


class Fork:
    """A host's process that is no child of ours: a `sandbox.ForeignProcess`."""

    def __init__(self, pid: int) -> None:
        """Opens the process.

        Raises:
            OSError: See `Pidfd`.
        """
        self.pid = pid
        self.stdout: asyncio.StreamReader | None = None
        self.returncode: int | None = None
        """As for a child; also None if the process has ended and no one knows how."""
        self._transport: asyncio.BaseTransport | None = None
        self.ended_with_template = False
        """Whether it has ended because the template has, as far as anyone knows."""
        self._ended = asyncio.Event()
        self._is_orphan = False
        self._pidfd = Pidfd(pid, self._end_seen)

    def attach(self, stdout: asyncio.StreamReader, transport: asyncio.BaseTransport) -> None:
        """Sets the stream of its output."""
        self.stdout, self._transport = stdout, transport

    def _end_seen(self) -> None:
        """Its end was seen; only the template knows how it ended, and may be unable to say so."""
        if self._is_orphan:
            self.ended(None)
        else:
            asyncio.get_running_loop().call_later(_CODE_SECONDS, self.ended, None)

    def ended(self, returncode: int | None) -> None:
        """Called when it has ended. Only the first call counts."""
        if not self._ended.is_set():
            self.returncode = returncode
            self.ended_with_template = self._is_orphan
            self._ended.set()

    def orphaned(self) -> None:
        """Called when the template has ended, which ends it."""
        self._is_orphan = True
        with contextlib.suppress(OSError):
            self.kill_group()
        if self._pidfd.ended.is_set():
            self.ended(None)

    async def wait(self) -> int | None:
        """Waits until it has ended, and returns its exit code."""
        await self._ended.wait()
        return self.returncode

    def kill_group(self) -> None:
        """Kills it with its group; the rest of its group if it has ended.

        Raises:
            OSError: There is none any more, or we may not.
        """
        self._pidfd.kill_group()

    def close(self) -> None:
        """Closes its output. It must have ended."""
        if self._transport is not None:
            self._transport.close()
        self._pidfd.close()


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
        self._process: Pidfd | None = None

    @property
    def serves(self) -> bool:
        """Whether hosts can probably be forked."""
        return self._connection is not None

    @property
    def is_possible(self) -> bool:
        """Whether a host can start the template, or has started it."""
        return hasattr(os, "pidfd_open") and (self.serves or not self._offered)

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
        if message.template is not None:
            self._introduced(message.template)
        elif message.exited is not None:
            self._exited(message.exited, message.code)
        else:
            self._answered(message.request or 0, message.pid)

    def _introduced(self, pid: int) -> None:
        if self._process is None:
            with contextlib.suppress(OSError):  # There is no such process, or no such descriptor on this system.
                self._process = Pidfd(pid, self._lose)
                if self._may_be_agents(pid):
                    return
                self._process.close()
                self._process = None
        self._lose()

    def _exited(self, pid: int, code: int | None) -> None:
        assert self._connection is not None, "it has just said so"
        if (host := self._hosts.pop(pid, None)) is not None:
            host.ended(code)
        try:
            self._connection.send(b"%d" % pid)  # Only now can another process get its id.
        except OSError:
            self._lose()

    def _answered(self, request: int, pid: int | None) -> None:
        reply = self._replies.pop(request, None)
        fork = None if pid is None else self._fork_of(pid)
        if reply is None or (pid is not None and fork is None):
            if fork is not None:
                fork.close()
            if reply is not None and not reply.done():
                reply.set_result(None)
            self._lose()
        elif not reply.done():
            if fork is not None:
                self._hosts[fork.pid] = fork
            reply.set_result(fork)
        elif fork is not None:  # No one waits any more. The host ends, because its channel is closed.
            fork.close()

    def _fork_of(self, pid: int) -> Fork | None:
        """A new host; None if this process can't be one."""
        if pid not in self._hosts:
            with contextlib.suppress(OSError):
                fork = Fork(pid)
                if self._may_be_agents(pid):
                    return fork
                fork.close()
        return None

    def _may_be_agents(self, pid: int) -> bool:
        """Whether it is the agent's to end: we kill what the template names. All of these lead their own sessions."""
        with contextlib.suppress(OSError):
            is_agents = self._uid is None or os.stat(f"/proc/{pid}").st_uid == self._uid  # noqa: PTH116
            return is_agents and os.getsid(pid) == pid != os.getsid(0)
        return False

    def _lose(self) -> None:
        """Ends the connection and the template, and with it its hosts."""
        if self._connection is not None:
            asyncio.get_running_loop().remove_reader(self._connection)
            self._connection.close()
            self._connection = None
        if self._process is not None:
            with contextlib.suppress(OSError):
                self._process.kill_group()  # It may be stopped.
        self._gone.set()
        replies, self._replies = self._replies, {}
        for reply in replies.values():
            if not reply.done():
                reply.set_result(None)
        hosts, self._hosts = self._hosts, {}
        for host in hosts.values():
            host.orphaned()

    async def close(self) -> None:
        """Ends the template. Its hosts must have ended. Never raises."""
        if self._process is not None:
            self._lose()
            ended = self._process.ended
        elif self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.shutdown(socket.SHUT_WR)
            ended = self._gone  # It has closed its end.
        else:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await ended.wait()
        self._lose()
        if self._process is not None:
            self._process.close()
            self._process = None


_PIDFD_SIGNAL_PROCESS_GROUP = 4
"""From <linux/pidfd.h>; Linux 6.9."""


class Pidfd:
    """A descriptor of a process that is no child of ours, pidfd_open(2).

    Its end is noticed, and signals reach it and no later owner of its id.
    """

    def __init__(self, pid: int, on_end: Callable[[], None]) -> None:
        """Opens the descriptor.

        Args:
            pid: The process, which leads its own group. It may have ended, but nothing may have waited for it yet.
            on_end: Called once, when the process has ended.

        Raises:
            OSError: There is no such process, or the kernel or a sandbox refuses.
        """
        self.pid = pid
        self.ended = asyncio.Event()
        self._on_end = on_end
        self._descriptor = os.pidfd_open(pid)
        asyncio.get_running_loop().add_reader(self._descriptor, self._has_ended)

    def _has_ended(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        self.ended.set()
        self._on_end()

    def kill_group(self) -> None:
        """Kills the process with its group; the rest of the group if it has ended.

        Raises:
            ProcessLookupError: There is none any more, or this was closed.
            PermissionError: We may not.
        """
        if self._descriptor < 0:
            raise ProcessLookupError
        try:
            signal.pidfd_send_signal(self._descriptor, signal.SIGKILL, None, _PIDFD_SIGNAL_PROCESS_GROUP)
        except ProcessLookupError:
            raise
        except OSError:  # an older kernel, or a sandbox
            if not self._has_lost_its_id():
                os.killpg(self.pid, signal.SIGKILL)

    def _has_lost_its_id(self) -> bool:
        """Whether another process has its id now. Then none of its group is left: an id stays with its group."""
        try:
            signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)
        except ProcessLookupError:
            with contextlib.suppress(ProcessLookupError):
                os.getpgid(self.pid)
                return True
        except OSError:
            pass
        return False

    def close(self) -> None:
        """Closes the descriptor; may be called twice."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)


PROGRAM = Path(__file__).parents[3] / "agent_eval_host"
"""Its directory, which Python can run."""


def open_archive() -> int:
    """Opens a copy of the program that any user can run as `/dev/fd/N`, also if that user can't read our files.

    Returns:
        A descriptor, which the caller closes. Linux only.
    """
    import tempfile

    # Not os.memfd_create: a Python that was built for an old glibc lacks it, such as conda's.
    with tempfile.TemporaryFile() as file:
        file.write(_archive())
        file.flush()
        os.fchmod(file.fileno(), 0o444)
        return os.dup(file.fileno())


@functools.cache
def _archive() -> bytes:
    import zipfile

    content = io.BytesIO()
    # Not compressed: Python may lack zlib. Nix, Bazel and reproducible images set all times to before 1980.
    with zipfile.ZipFile(content, "w", strict_timestamps=False) as archive:
        for path in PROGRAM.glob("*.py"):
            archive.write(path, path.name)
            compiled = Path(cache_from_source(str(path)))
            if compiled.is_file():  # Python ignores it if it is of another version, or older than the source.
                archive.write(compiled, f"{path.stem}.pyc")
    return content.getvalue()
