"""The registry of sealed directories: which gates sealed them, and their original permissions.

Several gates may run on one machine and seal the same directory, e.g. HOME. The last of them restores it. If a gate is
killed (SIGKILL), another gate restores what it sealed. Therefore seals are recorded in one file per machine before they
are applied. A gate is identified by the uid of its agent and locks that uid (`uids.locked_uid`) while it runs.
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
from agent_eval.agents.sandbox.uids import lock_directory, locked_uid
from agent_eval.core.process import naming

_LIST = "seals.json"
_LOCK_SECONDS = 90.0
"""Longer than it takes to end the processes of a killed gate."""
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


@dataclass(frozen=True, kw_only=True)
class Seal:
    """Permissions to remove from a path."""

    path: Path
    """A directory or a regular file."""
    remove: int
    """Permission bits of group and others."""


class _Sealed(BaseModel):
    path: str
    inode: int
    mode: int
    """The original mode."""
    removed: dict[int, int]
    """Removed permission bits, by gate."""

    @property
    def key(self) -> tuple[str, int]:
        return self.path, self.inode

    @property
    def current_mode(self) -> int:
        """The mode that the path should have now."""
        bits = 0
        for removed in self.removed.values():
            bits |= removed
        return self.mode & ~bits


class _Contents(BaseModel):
    gates: dict[int, str] = {}
    """The boot id at the start of each gate, by the uid of its agent."""
    closed: list[_Sealed] = []


class Seals:
    """The seals of one gate."""

    def __init__(self, gate: int) -> None:
        """`gate` is the uid that the gate has locked."""
        self._gate = gate
        self._open: dict[tuple[str, int], int] = {}
        """Open descriptors: they stay valid if a directory is renamed."""

    def close(self, seals: Sequence[Seal]) -> None:
        """Removes permissions. A path that does not exist, or is closed anyway, is skipped.

        Raises:
            OSError: A path can't be sealed, or the registry can't be written. Call `restore` even then.
        """
        with _locked() as folder:
            contents = _read(folder)
            contents.gates[self._gate] = _boot_id()
            sealed = [entry for seal in seals if (entry := self._add(contents, seal)) is not None]
            _write(folder, contents)
            for entry in sealed:
                with naming(Path(entry.path)):
                    os.fchmod(self._open[entry.key], entry.current_mode)

    def _add(self, contents: _Contents, seal: Seal) -> _Sealed | None:
        try:
            descriptor = os.open(seal.path, _OPEN)
        except FileNotFoundError:
            return None
        status = os.fstat(descriptor)
        key = (str(seal.path), status.st_ino)
        entry = next((entry for entry in contents.closed if entry.key == key), None)
        if (
            entry is None and not status.st_mode & seal.remove
        ):  # On a read-only disk, even chmod to the same mode fails.
            os.close(descriptor)
            return None
        self._open[key] = descriptor
        if entry is None:
            entry = _Sealed(path=key[0], inode=key[1], mode=stat.S_IMODE(status.st_mode), removed={})
            contents.closed.append(entry)
        entry.removed[self._gate] = seal.remove
        return entry

    def restore(self) -> None:
        """Restores permissions that no other gate needs removed.

        Raises:
            OSError: The registry can't be read, or stays locked.
        """
        try:
            with _locked() as folder:
                contents = _read(folder)
                _release(contents, self._gate, self._open)
                with contextlib.suppress(OSError):  # A full disk. The next gate finds the paths restored.
                    _write(folder, contents)
        finally:
            self.forget()

    def forget(self) -> None:
        """Leaves everything sealed. The next gate restores it when the agent has ended."""
        while self._open:
            os.close(self._open.popitem()[1])


def recover() -> None:
    """Ends the agents of gates that were killed, and restores what these gates sealed.

    If an agent can't be ended, its seals stay, and the next gate tries again.

    Raises:
        OSError: The registry can't be read or written.
    """
    with _locked() as folder:
        contents = _read(folder)
        if not contents.gates:
            return
        for gate, boot in list(contents.gates.items()):
            with locked_uid(gate) as has_ended, contextlib.suppress(AgentNotEnded):
                if has_ended:
                    if boot == _boot_id():  # After a reboot the uid may belong to others.
                        end_processes(gate)
                    _release(contents, gate, {})
        _write(folder, contents)


def _release(contents: _Contents, gate: int, descriptors: Mapping[tuple[str, int], int]) -> None:
    contents.gates.pop(gate, None)
    for entry in reversed(contents.closed):
        if gate in entry.removed:
            before = entry.current_mode
            del entry.removed[gate]
            _change_mode(entry, before, descriptors.get(entry.key))
    contents.closed = [entry for entry in contents.closed if entry.removed]


def _change_mode(entry: _Sealed, before: int, descriptor: int | None) -> None:
    """Sets the mode that a path should have now, unless someone else has changed it."""
    with contextlib.ExitStack() as stack:
        if descriptor is None:
            try:
                descriptor = os.open(entry.path, _OPEN)
            except OSError:  # It was removed, or replaced by a link.
                return
            stack.callback(os.close, descriptor)
        status = os.fstat(descriptor)
        if status.st_ino == entry.inode and stat.S_IMODE(status.st_mode) == before:
            os.fchmod(descriptor, entry.current_mode)


@contextlib.contextmanager
def _locked() -> Iterator[Path]:
    """Locks the registry; returns its directory."""
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
    except (FileNotFoundError, ValidationError):  # Only root can have written anything else.
        return _Contents()


def _write(folder: Path, contents: _Contents) -> None:
    if not contents.gates:  # Needs no space: a full disk must not prevent the next start.
        (folder / _LIST).unlink(missing_ok=True)
        return
    partial = folder / f"{_LIST}.new"
    with naming(partial):
        partial.write_text(contents.model_dump_json(), "utf-8")
        partial.chmod(0o600)
        partial.replace(folder / _LIST)


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
