"""The program of a host, as a directory or as an open archive, and its start."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import io
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from importlib.util import cache_from_source
from pathlib import Path
from typing import Literal

from agent_eval_agents.sandbox import Sandbox
from agent_eval_scoring.core.masking import Masker

PROGRAM = Path(__file__).parents[2] / "agent_eval_host"
"""Its directory, which Python can run."""


@dataclass(frozen=True, kw_only=True)
class ProgramSpec:
    """How to start the program."""

    python: Sequence[str]
    root: Path
    working_directory: Path | None = None
    """Its working directory; None for the root."""
    sandbox: Sandbox
    masker: Masker
    start_timeout: float = 120.0
    """Seconds that a host has to load the agent."""
    role: Literal["agent", "metrics", "functions"] = "agent"
    """What the hosts run: the agent, its custom metrics, or functions that need no google-adk."""

    @property
    def directory(self) -> Path:
        """Its working directory."""
        return self.working_directory or self.root

    async def start(self, connection: socket.socket, *arguments: str) -> asyncio.subprocess.Process:
        """Starts the program.

        Args:
            connection: The program's end of its connection.
            arguments: Its arguments before the connection.

        Raises:
            OSError: It can't be started.
        """
        with contextlib.ExitStack() as stack:
            program, passed = str(PROGRAM), [connection.fileno()]
            if self.sandbox.user is not None:  # who may be unable to open our files, but can read an open one
                archive = open_archive()
                stack.callback(os.close, archive)
                program, passed = f"/dev/fd/{archive}", [*passed, archive]
            argv = [*self.python, program, *arguments, str(connection.fileno())]
            return await self.sandbox.start(argv, cwd=self.directory, pass_fds=passed)


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
            if not compiled.is_file() or compiled.stat().st_mtime < path.stat().st_mtime:
                SourceFileLoader(path.stem, str(path)).get_code(path.stem)  # Writes it if that is possible.
            if compiled.is_file():  # Python ignores it if it is of another version, or older than the source.
                archive.write(compiled, f"{path.stem}.pyc")
    return content.getvalue()
