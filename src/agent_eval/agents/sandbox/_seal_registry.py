"""Which directories are closed to agents, for which gates, and how they were before.

Several gates may run on one machine and close the same directory, e.g. HOME. It is opened when the last of them has
ended, and what a gate that was killed (SIGKILL) has closed is opened by another one. So what is closed is written down
before it is closed, in one file for the machine. A gate is known by the uid of its agent: it holds the lock of that uid
(`uids.holding`) as long as it lives.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ValidationError

from agent_eval.agents.sandbox.ending import AgentNotEnded, end_processes
from agent_eval.agents.sandbox.uids import holding, lock_directory
from agent_eval.core.disk import naming

_LIST = "seals.json"
_LOCK_SECONDS = 90.0
"""Longer than it takes to end what a killed gate left."""
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


@dataclass(frozen=True, kw_only=True)
class Seal:
    """What to take away from whom."""

    path: Path
    """A directory or a regular file."""
    remove: int
    """Permission bits of group and others."""


class _Closed(BaseModel):
    path: str
    inode: int
    mode: int
    """Before anybody closed it."""
    removed: dict[int, int]
    """What is taken away, by the gate that needs it so."""

    @property
    def key(self) -> tuple[str, int]:
        return self.path, self.inode

    @property
    def present(self) -> int:
        """The mode that it should have now."""
        bits = 0
        for removed in self.removed.values():
            bits |= removed
        return self.mode & ~bits


class _Contents(BaseModel):
    gates: dict[int, str] = {}
    """The machine's start (boot id) under which each gate was begun, by the uid of its agent."""
    closed: list[_Closed] = []


class Seals:
    """What one gate has closed."""

    def __init__(self, gate: int) -> None:
        """Of the gate that holds the lock of this uid."""
        self._gate = gate
        self._open: dict[tuple[str, int], int] = {}
        """A descriptor stays with its directory, even if somebody renames it."""

    def close(self, seals: Sequence[Seal]) -> None:
        """Takes permissions away. A path that is not there is passed over.

        Raises:
            OSError: One can't be closed, or it can't be written down. Call `open_again` all the same.
        """
        with _locked() as folder:
            contents = _read(folder)
            contents.gates[self._gate] = _boot_id()
            closed = [one for seal in seals if (one := self._add(contents, seal)) is not None]
            _write(folder, contents)
            for one in closed:
                os.fchmod(self._open[one.key], one.present)

    def _add(self, contents: _Contents, seal: Seal) -> _Closed | None:
        try:
            descriptor = os.open(seal.path, _OPEN)
        except FileNotFoundError:
            return None
        facts = os.fstat(descriptor)
        key = (str(seal.path), facts.st_ino)
        self._open[key] = descriptor
        closed = next((one for one in contents.closed if one.key == key), None)
        if closed is None:
            closed = _Closed(path=key[0], inode=key[1], mode=stat.S_IMODE(facts.st_mode), removed={})
            contents.closed.append(closed)
        closed.removed[self._gate] = seal.remove
        return closed

    def open_again(self) -> None:
        """Gives back what no other gate needs closed.

        Raises:
            OSError: The list can't be read, or others hold it all the time.
        """
        try:
            with _locked() as folder:
                contents = _read(folder)
                _release(contents, self._gate, self._open)
                with contextlib.suppress(OSError):  # A full disk. The next gate finds them opened and leaves them so.
                    _write(folder, contents)
        finally:
            self.forget()

    def forget(self) -> None:
        """Leaves everything closed: the next gate opens it when the agent has ended."""
        while self._open:
            os.close(self._open.popitem()[1])


def recover() -> None:
    """Ends the agents of gates that were killed, and opens what these had closed.

    What can't be ended keeps everything closed, and is tried again by the next gate.

    Raises:
        OSError: The list can't be read or written.
    """
    with _locked() as folder:
        contents = _read(folder)
        if not contents.gates:
            return
        for gate, boot in list(contents.gates.items()):
            with holding(gate) as has_ended, contextlib.suppress(AgentNotEnded):
                if has_ended:
                    if boot == _boot_id():  # Since the machine was started again the number may be somebody else's.
                        end_processes(gate)
                    _release(contents, gate, {})
        _write(folder, contents)


def _release(contents: _Contents, gate: int, descriptors: Mapping[tuple[str, int], int]) -> None:
    contents.gates.pop(gate, None)
    for closed in reversed(contents.closed):
        if gate in closed.removed:
            before = closed.present
            del closed.removed[gate]
            _change(closed, before, descriptors.get(closed.key))
    contents.closed = [closed for closed in contents.closed if closed.removed]


def _change(closed: _Closed, before: int, descriptor: int | None) -> None:
    """Gives a directory the mode that it should have now, unless somebody has changed what we gave it."""
    with contextlib.ExitStack() as stack:
        if descriptor is None:
            try:
                descriptor = os.open(closed.path, _OPEN)
            except OSError:  # It was removed, or replaced by a link.
                return
            stack.callback(os.close, descriptor)
        facts = os.fstat(descriptor)
        if facts.st_ino == closed.inode and stat.S_IMODE(facts.st_mode) == before:
            os.fchmod(descriptor, closed.present)


@contextlib.contextmanager
def _locked() -> Iterator[Path]:
    """Holds the list; gives the directory that it is in."""
    import fcntl  # not on Windows, where other commands need this module

    folder = lock_directory()
    descriptor = os.open(folder / "seals.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        end = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > end:
                    message = f"another process has held the lock for {_LOCK_SECONDS:g} s"
                    raise OSError(error.errno, message, str(folder / "seals.lock")) from error
                time.sleep(0.02)
        yield folder
    finally:
        os.close(descriptor)


def _read(folder: Path) -> _Contents:
    try:
        return _Contents.model_validate_json((folder / _LIST).read_bytes())
    except (FileNotFoundError, ValidationError):  # Only root can have written anything else there.
        return _Contents()


def _write(folder: Path, contents: _Contents) -> None:
    if not contents.gates:  # That takes no space: a disk that an agent filled keeps nobody from starting again.
        (folder / _LIST).unlink(missing_ok=True)
        return
    partial = folder / f"{_LIST}.new"
    with naming(partial):
        partial.write_text(contents.model_dump_json(), "utf-8")
        partial.chmod(0o600)
        partial.replace(folder / _LIST)


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
