"""What it takes to run a workflow for real, by act."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from container_engine import REPOSITORY
from gate_runs import program


def find_act() -> Path:
    """The program."""
    act = Path(sys.executable).with_name("act")
    assert act.exists(), "act is in the dependency group `container`"
    return act


def run_act(
    *arguments: str, cwd: Path, environment: Mapping[str, str], timeout: float = 400
) -> subprocess.CompletedProcess[bytes]:
    """Runs a workflow of a checkout; what act says is in `stdout`.

    Args:
        arguments: The event first.
        cwd: The checkout.
        environment: All of it.
        timeout: Seconds after which it is killed.
    """
    return subprocess.run(
        [find_act(), *arguments, "--no-cache-server"],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=timeout,
        check=False,
    )


def copied(root: Path, base: str) -> Path:
    """A copy of what git has of us, that builds on this base image; no repository yet."""
    listed = program("git", "-c", f"safe.directory={REPOSITORY}", "-C", REPOSITORY, "ls-files", "-z")
    for name in filter(None, listed.stdout.split("\0")):
        if (REPOSITORY / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, root / name)
    dockerfile = root / "Dockerfile"
    dockerfile.write_text(
        re.sub(r"^ARG BASE_IMAGE=.*$", f"ARG BASE_IMAGE={base}", dockerfile.read_text("utf-8"), flags=re.MULTILINE),
        "utf-8",
    )
    return root
