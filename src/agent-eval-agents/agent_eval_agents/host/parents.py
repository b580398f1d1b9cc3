"""Warm parents: processes that have imported google-adk, and fork hosts of agents with the same environment.

A parent starts like a host (its user, limits and variables; `agent_eval_host.forking`) and has no code of the
repository. Whatever keeps it from working, a host then starts by itself.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from io import FileIO
from pathlib import Path

from agent_eval_agents.host._program import ProgramSpec
from agent_eval_agents.sandbox import Account, Child, Sandbox, kill_group, kill_now
from agent_eval_scoring.core.masking import Masker

_LOG = logging.getLogger("agent_eval.hosts")
_ANSWER_SECONDS = 20.0
"""Seconds for a fork, or for the status of a host that has ended; a parent that takes longer is stopped or stuck."""
_LONGEST = 2_000
"""Bytes of an answer."""
_MOST_OUTPUT = 100_000
"""Bytes that imports may print. Each host's log begins with them."""
_PAYS_OFF = 2
"""Hosts for which a parent is started: it costs what the first one would have cost."""
_BUILT = 4
"""The host before which a parent builds all models: a fifth of a second, of which each host would need a third."""
_MOST_PARENTS = 4
"""Each takes 75 MB until the end of the run; a repository may have an environment for each agent."""
CAN_FORK = sys.platform == "linux" and hasattr(os, "pidfd_open")
_CREDENTIALS = struct.Struct("3i")
"""struct ucred: process, user and group of who has sent a message, filled in by the kernel."""


Fork = Callable[[Path, socket.socket], Awaitable["ForkedHost"]]
"""Makes a host: its working directory, its end of its connection."""


class Parents:
    """The parents of a run, one for each interpreter, user and complete environment.

    So it does not matter which variables an import reads. The working directory is each host's own, unless variables of
    Python may name places in it.
    """

    def __init__(self) -> None:
        """Without any; see `expecting`."""
        self._started: dict[object, asyncio.Task[Parent | None]] = {}
        self._became: list[asyncio.Task[Parent | None]] = []
        """Those that are hosts now."""
        self._hosts: Counter[object] = Counter()
        self._expected: Counter[Account | None] = Counter()
        self._blocks = 0

    @asynccontextmanager
    async def expecting(self, hosts: int, user: Account | None = None) -> AsyncIterator[None]:
        """Allows parents until the end of the block; the last block that ends, ends them.

        Args:
            hosts: How many with one interpreter to expect in it.
            user: Whose they are.
        """
        self._blocks += 1
        self._expected[user] += hosts
        try:
            yield
        finally:
            self._blocks -= 1
            self._expected[user] -= hosts
            if not self._blocks:
                await self.close()

    def begin(self, python: Path, root: Path, sandbox: Sandbox, masker: Masker) -> None:
        """Starts a parent before it is known what it is needed for. It ends with the others, or by `close`.

        Args:
            python: The interpreter.
            root: Where it starts.
            sandbox: With the interpreter's environment.
            masker: As for a host.
        """
        spec = ProgramSpec(python=[str(python)], root=root, sandbox=sandbox, masker=masker)
        if CAN_FORK and _place(spec) is None:
            self._started[_key(spec)] = asyncio.create_task(Parent.start(spec))

    async def close(self) -> None:
        """Ends all parents."""
        tasks, self._started, self._became = [*self._started.values(), *self._became], {}, []
        for task in tasks:
            task.cancel()
        for parent in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(parent, Parent):
                await parent.close()

    async def fork_of(self, spec: ProgramSpec) -> Fork | None:
        """What makes the host of a parent; None if it is to start by itself. Waits until the parent is ready."""
        if not CAN_FORK or not self._blocks or spec.role != "agent":
            return None
        key = _key(spec)
        self._hosts[key] += 1
        expected = max(self._expected[spec.sandbox.user], self._hosts[key] - 1)
        if key not in self._started:
            if expected < _PAYS_OFF or len(self._started) >= _MOST_PARENTS:
                return None
            self._started[key] = asyncio.create_task(Parent.start(spec))
        # Others wait for the same parent.
        parent = await asyncio.shield(self._started[key])
        if parent is None or parent.lost or parent.became:
            return None
        if parent.refused or expected < _PAYS_OFF:
            parent.became = True
            if not parent.refused:
                self._became.append(self._started.pop(key))
            return partial(parent.fork, "become")
        return partial(parent.fork, "built" if self._hosts[key] >= _BUILT else "fork")


def _key(spec: ProgramSpec) -> object:
    """What the hosts of one parent share."""
    return (*spec.python, *sorted(spec.sandbox.environment.items()), spec.sandbox.user, _place(spec))


def _place(spec: ProgramSpec) -> Path | None:
    """The working directory, if Python may have looked for something in it when it started."""
    return spec.directory if any(name.startswith("PYTHON") for name in spec.sandbox.environment) else None


class Parent:
    """A process that forks hosts, or becomes one."""

    def __init__(self, process: Child, control: socket.socket) -> None:
        """Use `start`."""
        self._process = process
        self._control = control
        self._lock = asyncio.Lock()
        self.printed = b""
        """What importing google-adk has printed."""
        self.refused = ""
        """Why it can't fork; it can still become a host."""
        self.became = False
        """Whether it is to become one."""
        self.lost = False
        """Whether it answers no more. It is killed then, and the kernel ends its hosts."""

    @property
    def forks(self) -> bool:
        """Whether it can fork hosts."""
        return not (self.lost or self.became or self.refused)

    @classmethod
    async def start(cls, spec: ProgramSpec) -> Parent | None:
        """Starts a parent like a host, and waits until it has imported google-adk; None if it can't be one."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        # So the kernel says which process has answered, which code of an agent can't forge.
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        try:
            process = await spec.start(theirs, "parent")
        except OSError as error:  # The host's own start explains it.
            _LOG.debug("no parent of hosts: %s", error)
            ours.close()
            return None
        finally:
            theirs.close()
        parent = cls(process, ours)
        printing = asyncio.create_task(parent._read_output())
        try:
            answer, _ = await parent._answer(spec.start_timeout)
            ready, _, parent.refused = answer.partition(" ")
            if ready == "ready":
                await asyncio.wait_for(printing, _ANSWER_SECONDS)
        except (OSError, TimeoutError) as error:
            ready, answer = "", f"{type(error).__name__} {error}"
        except BaseException:
            await parent.close()
            raise
        finally:
            printing.cancel()
        if ready == "ready" and not parent.refused:
            _LOG.debug("hosts of %s are forked by process %d", spec.python[0], process.pid)
            return parent
        printed = parent.printed[-_LONGEST:].decode("utf-8", "replace")
        _LOG.debug("each host of %s starts by itself: %s", spec.python[0], spec.masker.text(f"{answer} {printed}"))
        if ready == "ready":
            return parent
        await parent.close()
        return None

    async def _read_output(self) -> None:
        assert self._process.stdout is not None
        while chunk := await self._process.stdout.read(_MOST_OUTPUT):
            self.printed += chunk
            # Only an endless loop prints so much; each host's log would begin with it.
            if len(self.printed) > _MOST_OUTPUT:
                kill_now(self._process)

    async def fork(self, how: str, directory: Path, connection: socket.socket) -> ForkedHost:
        """Forks a host, or becomes it.

        Args:
            how: `fork`; `built`: with all models built; or `become`.
            directory: Its working directory.
            connection: The host's end of its connection.

        Raises:
            OSError: It can't.
        """
        read, write = os.pipe()
        try:
            request = b"%s %s" % (how.encode(), os.fsencode(directory))
            answer, pid = await self._ask(request, [connection.fileno(), write])
            if answer != "forked" or (pid == self._process.pid) is not self.became:
                raise OSError(answer)
            return await ForkedHost.of(self, pid, FileIO(os.dup(read)))
        finally:
            os.close(read)
            os.close(write)

    async def status_of(self, pid: int) -> int | None:
        """How a host that has ended did so, as a return code; None if that is unknown."""
        if self.became:
            return await self._process.wait()
        try:
            return os.waitstatus_to_exitcode(int((await self._ask(str(pid).encode()))[0]))
        except (OSError, ValueError):
            return None

    async def _ask(self, request: bytes, descriptors: Sequence[int] = ()) -> tuple[str, int]:
        """The answer, and the process that has given it. If we are cancelled, the answer is still received."""
        await self._lock.acquire()
        try:
            if self.lost:
                raise OSError("the parent of the hosts has ended")
            socket.send_fds(self._control, [request], list(descriptors))
        except OSError as error:
            self._lose(error)
            self._lock.release()
            raise
        # Without its receiver, the answer would be taken for that of the next request.
        answer = asyncio.ensure_future(self._answer_of_request())
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(answer)

    async def _answer_of_request(self) -> tuple[str, int]:
        try:
            return await self._answer(_ANSWER_SECONDS)
        except OSError as error:  # A later answer would be taken for another's.
            self._lose(error)
            raise
        finally:
            self._lock.release()

    async def _answer(self, seconds: float) -> tuple[str, int]:
        loop, readable = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._control, readable.set)
        try:
            async with asyncio.timeout(seconds):
                await readable.wait()
        finally:
            loop.remove_reader(self._control)
        data, extra, _, _ = self._control.recvmsg(_LONGEST, socket.CMSG_SPACE(_CREDENTIALS.size))
        if not data:
            raise OSError("the parent of the hosts has ended")
        return data.decode("utf-8", "replace"), _CREDENTIALS.unpack(extra[0][2])[0]

    def _lose(self, why: BaseException) -> None:
        if not self.lost:
            _LOG.debug("process %d forks no more hosts: %s", self._process.pid, why)
            self.lost = True
            kill_now(self._process)

    async def close(self) -> None:
        """Ends it. Never raises."""
        self.lost = True
        await kill_group(self._process)
        async with self._lock:  # Whoever waits for an answer gets none now.
            self._control.close()


class ForkedHost:
    """A process that a parent has forked, with what `asyncio.subprocess.Process` has."""

    def __init__(self, parent: Parent, pid: int, stdout: asyncio.StreamReader, pipe: asyncio.BaseTransport) -> None:
        """Use `of`."""
        self.pid = pid
        self.stdout = stdout
        self.returncode: int | None = None
        self.orphaned = False
        """Whether its parent ended first, which ends this one, too: nothing that it did itself."""
        self.parent = parent
        self._transport = pipe
        self._ended = asyncio.Event()
        # Only its parent can wait for it: a descriptor of the process says that it has ended.
        self._following = asyncio.create_task(self._follow(os.pidfd_open(pid)))

    @classmethod
    async def of(cls, parent: Parent, pid: int, output: FileIO) -> ForkedHost:
        """Follows a process.

        Args:
            parent: Its parent.
            pid: Its id.
            output: The file of our end of its output, which is closed with it.
        """
        stdout = asyncio.StreamReader()
        stdout.feed_data(parent.printed)
        loop = asyncio.get_running_loop()
        pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdout), output)
        return cls(parent, pid, stdout, pipe)

    async def _follow(self, descriptor: int) -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(descriptor, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)
        status = await self.parent.status_of(self.pid)
        self.orphaned = status is None
        # A parent that dies takes its forks with it: the kernel kills them.
        self.returncode = -9 if status is None else status
        self._ended.set()

    async def wait(self) -> int:
        """Waits for its end; returns the return code."""
        await self._ended.wait()
        assert self.returncode is not None, "set before"
        return self.returncode
