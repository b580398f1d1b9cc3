"""The store of environments: paths, locks, ownership, and completeness."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import dataclasses
import fcntl
import json
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_eval_agents.protocol import EnvironmentFailure
from agent_eval_agents.sandbox import Account

_UNUSED_SECONDS = 30 * 24 * 3600
_UNUSED_WITHOUT_PROJECT = 24 * 3600
"""A checkout of the base branch is removed after each run. No run takes so long that it could still be used."""


@dataclass(frozen=True, kw_only=True)
class EnvironmentInfo:
    """Metadata of a complete environment."""

    origin: str
    versions: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Place:
    """The location of one environment."""

    folder: Path
    """The directory of all environments; only our user can write to it."""
    key: str
    shared: str = ""
    """The same for environments with the same packages; "" for none."""
    project: str | None = None
    """The directory of the project that can be imported in it."""

    @property
    def directory(self) -> Path:
        """The environment's directory; the agent's user owns it while it is built."""
        return self.folder / self.key

    @property
    def venv(self) -> Path:
        return self.directory / "venv"

    @property
    def python(self) -> Path:
        return self.venv / "bin" / "python"

    @property
    def marker(self) -> Path:
        """Its existence marks the environment as complete. The agent's user can't write to it."""
        return self.folder / f"{self.key}.json"

    @property
    def lock(self) -> Path:
        return self.folder / f"{self.shared or self.key}.lock"

    @property
    def build_settings(self) -> Path:
        """A configuration file of setuptools."""
        return self.directory / "setuptools.cfg"

    @property
    def build(self) -> str:
        """Where setuptools builds a local package, in its directory.

        In its usual place setuptools keeps files of earlier builds, also those that a package no longer has.
        """
        return f"build/agent-eval-{self.key[:12]}"

    def empty(self, account: Account | None) -> None:
        """Recreates the directory; the account can write to it."""
        self.marker.unlink(missing_ok=True)
        if self.directory.exists():
            shutil.rmtree(self.directory)
        self.directory.mkdir(mode=0o755)
        self.build_settings.write_text(f"[build]\nbuild_base = {self.build}\n", "utf-8")
        if account is not None:
            os.chown(self.directory, account.uid, account.gid)

    def finish(self, info: EnvironmentInfo) -> None:
        """Marks the environment as complete."""
        base = self.python.resolve()
        facts = {
            "origin": info.origin,
            "versions": dict(info.versions),
            "base": [str(base), base.stat().st_mtime_ns],
            "shared": self.shared,
            "project": self.project,
            "compiled": False,
        }
        self._mark(facts)

    def _mark(self, facts: Mapping[str, Any]) -> None:
        partial = self.marker.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(facts), "utf-8")
        partial.replace(self.marker)

    def is_compiled(self) -> bool:
        """Whether each of its modules has bytecode."""
        return _fact(self.marker, "compiled") is not False

    def note_compiled(self) -> None:
        """Notes that each of its modules has bytecode, if the environment is still there; best effort."""
        with contextlib.suppress(OSError, ValueError, RecursionError):
            self._mark({**json.loads(self.marker.read_text("utf-8")), "compiled": True})

    def read(self) -> EnvironmentInfo | None:
        """The environment's metadata, if it is complete and its base interpreter is unchanged."""
        try:
            content = json.loads(self.marker.read_text("utf-8"))
            base, modified = content["base"]
            versions = {str(name): str(version) for name, version in content["versions"].items()}
            info = EnvironmentInfo(origin=str(content["origin"]), versions=versions)
            if self.python.resolve() != Path(base) or Path(base).stat().st_mtime_ns != modified:
                return None
            os.utime(self.marker)  # the time of the last use
            return info
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None  # Missing or invalid: the environment is built again.

    def twin(self) -> Place | None:
        """A complete environment with the same packages."""
        for marker in self.folder.glob("*.json"):
            other = dataclasses.replace(self, key=marker.stem)
            if self.shared and _fact(marker, "shared") == self.shared and other.read() and other.damage() is None:
                return other
        return None

    def damage(self) -> str | None:
        """The first missing or changed file of the installed packages; None if there is none."""
        for record in sorted(self.venv.glob("lib/python*/site-packages/*.dist-info/RECORD")):
            packages, name = record.parent.parent, ""
            try:
                for name, _, size in csv.reader(record.read_text("utf-8").splitlines()):
                    # Bytecode that a wheel brings along, as numpy's does, was compiled again by the installation.
                    if not size or name.endswith(("/RECORD", ".pyc")):
                        continue
                    if (packages / name).stat().st_size != int(size):
                        return f"{packages / name} was changed after the installation"
            except FileNotFoundError:
                return f"{packages / name} is missing"
            except (OSError, ValueError, csv.Error):  # A disk may have damaged the list as well.
                return f"{record} can't be read"
        return None if self.python.exists() else f"{self.python} is missing"


def _fact(marker: Path, name: str) -> Any:
    try:
        facts = json.loads(marker.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return facts.get(name) if isinstance(facts, dict) else None


def prune(folder: Path) -> None:
    """Removes environments that have not been used for a month, or for a day if their project is gone; best effort."""
    for marker in folder.glob("*.json"):
        with contextlib.suppress(OSError):
            project = _fact(marker, "project")
            is_gone = isinstance(project, str) and not Path(project).exists()
            if time.time() - marker.stat().st_mtime > (_UNUSED_WITHOUT_PROJECT if is_gone else _UNUSED_SECONDS):
                marker.unlink()
                shutil.rmtree(marker.with_suffix(""), ignore_errors=True)


@contextlib.asynccontextmanager
async def locked(path: Path, *, timeout: float) -> AsyncIterator[None]:
    """Locks a file.

    Raises:
        AgentFailure: Another process kept it locked until the timeout.
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
                    raise EnvironmentFailure(
                        f"Another process has been building the same environment for {timeout:g} s",
                        hint=f"If there is no such process, remove {path}.",
                    ) from error
                await asyncio.sleep(0.1)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def installer_cache(directory: Path, account: Account | None) -> Iterator[Path | None]:
    """Lets the account write to the installer's cache during an installation, and never otherwise.

    An agent that runs later could change cached packages, and with them the environments of other pull requests on a
    persistent machine.

    Yields:
        The cache directory; None without an account, where uv uses its default.
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


async def seal(directory: Path) -> None:
    """Makes our user the owner of an environment, in a process of its own (take_over.py).

    Raises:
        OSError: It can't be sealed.
    """
    script = str(Path(__file__).with_name("take_over.py"))
    argv = [sys.executable, "-I", "-S", script, str(directory)]
    null, pipe = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*argv, stdin=null, stdout=null, stderr=pipe, cwd="/", env={})
    try:
        _, said = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode != 0:
        raise OSError(f"{directory} can't be sealed: {said.decode('utf-8', 'replace').strip().rpartition(chr(10))[2]}")
