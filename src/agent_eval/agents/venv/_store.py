"""Where made environments are kept, who may write to them when, and which of them is complete."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import fcntl
import json
import os
import shutil
import stat
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from agent_eval.agents.protocol import AgentFailure, FailureKind
from agent_eval.agents.sandbox import Account

_UNUSED_SECONDS = 30 * 24 * 3600


@dataclass(frozen=True, kw_only=True)
class Made:
    """What is known of a complete environment."""

    origin: str
    versions: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where one environment lies."""

    folder: Path
    """Holds all of them; ours alone to write to."""
    key: str

    @property
    def directory(self) -> Path:
        """The environment with all that belongs to it; the agent's user owns it while it is made."""
        return self.folder / self.key

    @property
    def venv(self) -> Path:
        return self.directory / "venv"

    @property
    def python(self) -> Path:
        return self.venv / "bin" / "python"

    @property
    def marker(self) -> Path:
        """Says that the environment is complete. It lies beside it, where the agent's user can't write."""
        return self.folder / f"{self.key}.json"

    @property
    def lock(self) -> Path:
        return self.folder / f"{self.key}.lock"

    def empty(self, account: Account | None) -> None:
        """Makes the directory anew, for the account to write to."""
        self.marker.unlink(missing_ok=True)
        if self.directory.exists():
            shutil.rmtree(self.directory)
        self.directory.mkdir(mode=0o755)
        if account is not None:
            os.chown(self.directory, account.uid, account.gid)

    def finish(self, made: Made) -> None:
        """Marks the environment as complete."""
        base = self.python.resolve()
        facts = {
            "origin": made.origin,
            "versions": dict(made.versions),
            "base": [str(base), base.stat().st_mtime_ns],
        }
        partial = self.marker.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(facts), "utf-8")
        partial.replace(self.marker)

    def made(self) -> Made | None:
        """The environment, if it is complete and the interpreter that it is based on is still the same."""
        try:
            facts = json.loads(self.marker.read_text("utf-8"))
            base, modified = facts["base"]
            made = Made(origin=str(facts["origin"]), versions={str(k): str(v) for k, v in facts["versions"].items()})
            if self.python.resolve() != Path(base) or Path(base).stat().st_mtime_ns != modified:
                return None
            os.utime(self.marker)  # says when it was last used
            return made
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None  # There is none, or somebody wrote something else there: it is made again.

    def damage(self) -> str | None:
        """What its packages lack of the files that were installed with them; None if all are there."""
        for record in sorted(self.venv.glob("lib/python*/site-packages/*.dist-info/RECORD")):
            packages = record.parent.parent
            for name, _, size in csv.reader(record.read_text("utf-8").splitlines()):
                try:
                    if size and not name.endswith("/RECORD") and (packages / name).stat().st_size != int(size):
                        return f"{packages / name} is another file than was installed"
                except FileNotFoundError:
                    return f"{packages / name} is missing"
        return None if self.python.exists() else f"{self.python} is missing"


def prune(folder: Path) -> None:
    """Removes environments that nobody used for a month, best effort."""
    for marker in folder.glob("*.json"):
        with contextlib.suppress(OSError):
            if time.time() - marker.stat().st_mtime > _UNUSED_SECONDS:
                marker.unlink()
                shutil.rmtree(marker.with_suffix(""), ignore_errors=True)


@contextlib.asynccontextmanager
async def locked(path: Path, *, timeout: float) -> AsyncIterator[None]:
    """Holds a lock file that other processes respect.

    Raises:
        AgentFailure: Another process held it all the time.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    deadline = asyncio.get_running_loop().time() + timeout
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if asyncio.get_running_loop().time() > deadline:
                    raise AgentFailure(
                        f"Another process has been making the same environment for {timeout:g} s",
                        kind=FailureKind.ENVIRONMENT,
                        hint=f"If there is no such process, remove {path}.",
                    ) from error
                await asyncio.sleep(0.1)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def gate(directory: Path, account: Account | None) -> Iterator[Path | None]:
    """Opens the installer's cache to the account while it installs, and closes it when nobody installs any more.

    An agent that runs later could otherwise change cached packages, and with them the environments of other pull
    requests on a machine that stays.

    Yields:
        The cache directory; None without an account, which leaves uv its usual one.
    """
    if account is None:
        yield None
        return
    directory.mkdir(mode=0o700, exist_ok=True)
    cache = directory / f"cache-{account.uid}"
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        os.fchmod(descriptor, 0o711)
        if not cache.exists():
            cache.mkdir(mode=0o700)
            os.chown(cache, account.uid, account.gid)
        yield cache
    finally:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.fchmod(descriptor, 0o700)
        os.close(descriptor)


def take_over(directory: Path) -> None:
    """Makes everything below a directory ours and unwritable for others: whoever built it can't change it any more.

    Symbolic links are not followed, also not if somebody swaps a directory for one meanwhile.
    """
    uid, gid = os.geteuid(), os.getegid()
    for _, folders, files, descriptor in os.fwalk(directory, follow_symlinks=False):
        os.fchown(descriptor, uid, gid)
        os.fchmod(descriptor, stat.S_IMODE(os.fstat(descriptor).st_mode) & ~0o022)
        for name in (*folders, *files):
            facts = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            os.chown(name, uid, gid, dir_fd=descriptor, follow_symlinks=False)
            if stat.S_ISREG(facts.st_mode) and facts.st_mode & 0o022:
                file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=descriptor)
                try:
                    os.fchmod(file, stat.S_IMODE(facts.st_mode) & 0o755)
                finally:
                    os.close(file)
