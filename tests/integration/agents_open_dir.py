"""Helpers for tests with another user: directories and an interpreter that it can get at."""

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_eval_agents.sandbox.sealing import blocked_at
from agent_eval_agents.sandbox.spawn import Account

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a process as another user")


def python_for(account: Account | None) -> str:
    """An interpreter that the account can start; ours may lie in root's home."""
    for candidate in (sys.executable, "/usr/local/bin/python3", "/usr/bin/python3"):
        if Path(candidate).exists() and blocked_at(Path(candidate), account, need=os.R_OK | os.X_OK) is None:
            return candidate
    pytest.skip("no interpreter that another user can start")


@contextlib.contextmanager
def open_directory() -> Iterator[Path]:
    """A directory that every user may enter; pytest's own are the user's."""
    directory = Path(tempfile.mkdtemp(dir="/var/tmp"))
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        remove(directory)


def remove(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
