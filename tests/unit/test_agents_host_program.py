"""The archive that another user runs: of any installation, and with frames that are known to be ours."""

from __future__ import annotations

import compileall
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agent_eval.agents.host import PROGRAM, _program

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only on Linux can another user open it")
_IS_OURS = """
import sys, types
package = sys.modules["agent_eval_host"] = types.ModuleType("agent_eval_host")
package.__path__ = sys.argv[1:]
from agent_eval_host import frames, values
print(frames.is_ours(values.cut.__code__.co_filename))
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the program, not compiled, of which archives are made."""
    copy = tmp_path / PROGRAM.name
    shutil.copytree(PROGRAM, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(_program, "PROGRAM", copy)
    monkeypatch.setattr(_program, "_archive", _program._archive.__wrapped__)
    return copy


def answer(code: str) -> str:
    """What this code prints; its argument is an archive."""
    archive = _program.open_archive()
    try:
        command = [sys.executable, "-c", code, f"/dev/fd/{archive}"]
        return subprocess.run(
            command, pass_fds=[archive], stdout=subprocess.PIPE, text=True, check=True, timeout=30
        ).stdout.strip()
    finally:
        os.close(archive)


@pytest.mark.parametrize("case", ["plain", "compiled", "without memfd_create", "0", str(2**33)])
def test_archive__its_frames_are_ours(program: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    """Compiled modules keep the name of the file that they were compiled from.

    Conda's Python lacks memfd_create, and so did uv's until 2026: they are built for an old glibc. A number is the time
    of the files: Nix, Bazel and reproducible images set all to the beginning of 1970, and no archive can have it.
    """
    if case == "compiled":
        compileall.compile_dir(program, quiet=1)
    elif case == "without memfd_create":
        monkeypatch.delattr(os, "memfd_create", raising=False)
    elif case.isdigit():
        for path in program.glob("*.py"):
            os.utime(path, (int(case), int(case)))
    assert answer(_IS_OURS) == "True"
