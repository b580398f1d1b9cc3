"""`entrypoint` from a bare clone, on machines with and without uv."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from gate_runs import program

import agent_eval

pytestmark = pytest.mark.container  # It needs no engine, but a minute of installing.
REPOSITORY = Path(__file__).resolve().parents[2]
PYTHON: str = getattr(sys, "_base_executable", sys.executable)
"""None of a virtual environment."""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What git would give a newcomer of the files that the entrypoint needs."""
    target = tmp_path / "a clone"
    target.mkdir()
    for name in ("entrypoint", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, target)
    shutil.copytree(REPOSITORY / "requirements", target / "requirements")
    shutil.copytree(REPOSITORY / "src", target / "src", ignore=shutil.ignore_patterns("__pycache__"))
    return target


def start(
    clone: Path, *arguments: str, path: str, code: int = 0, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs the clone's entrypoint with this interpreter and a PATH, to this exit code."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "VIRTUAL_ENV"))}
    env = {**kept, "PATH": path, **environment}
    return program(PYTHON, clone / "entrypoint", *arguments, code=code, env=env, cwd=clone.parent, timeout=180)


@pytest.fixture
def path_with_uv(tmp_path: Path) -> str:
    """A PATH on which uv is."""
    from uv import find_uv_bin

    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "uv").symlink_to(find_uv_bin())
    return f"{folder}:/usr/bin:/bin"


WITHOUT_UV = "/nowhere"
"""A PATH with nothing on it: the interpreter is started by its full name."""


def test_bare_clone__sets_itself_up_once_and_runs_the_command(clone: Path, path_with_uv: str, tmp_path: Path) -> None:
    first = start(clone, "--version", path=path_with_uv, CI="true")
    assert agent_eval.__version__ in first.stdout
    steps = first.stderr.splitlines()
    assert "setting up" in steps[0]
    assert [step for step in steps if re.fullmatch(r"  Installed \d\d packages in .*", step)]
    assert len(steps) < 30, "its progress, not each package"

    began = time.perf_counter()
    second = start(clone, "--version", path=path_with_uv)
    assert time.perf_counter() - began < 5
    assert (second.stdout, second.stderr) == (first.stdout, "")
    ignored = (clone / ".venv-cli" / ".gitignore").read_text("utf-8")
    assert ignored == "*\n", "the environment must not show up in git status"

    helped = start(clone, path=path_with_uv)
    assert "usage:" in helped.stdout.lower()

    inputs = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_WORKSPACE": str(tmp_path),
        "INPUT_PATHS": "no-such-folder",
        "INPUT_MIN-PASS-RATE": "0.5",
    }
    gated = start(clone, path=path_with_uv, code=2, **inputs)
    assert "no-such-folder" in gated.stdout + gated.stderr

    locked = clone / "requirements/run.txt"
    locked.write_text(locked.read_text("utf-8") + "\n", "utf-8")
    third = start(clone, "--version", path=path_with_uv, CI="")
    [line] = third.stderr.splitlines()
    assert "setting up" in line
    environments = [entry for entry in (clone / ".venv-cli").iterdir() if (entry / "bin").exists()]
    assert len(environments) == 1, "the environment of the former state is removed"


def test_bare_clone__set_up_that_is_interrupted_shows_no_traceback(clone: Path, path_with_uv: str) -> None:
    command = [PYTHON, str(clone / "entrypoint"), "--version"]
    environment = {**os.environ, "PATH": path_with_uv, "UV_NO_CACHE": "1"}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, start_new_session=True) as process:
        assert process.stderr is not None
        assert b"setting up" in process.stderr.readline()
        os.killpg(process.pid, signal.SIGINT)
        said = process.stderr.read()
        assert process.wait(60) == 130
    assert b"Traceback" not in said
    assert not list((clone / ".venv-cli").glob("*/.ready"))


def test_bare_clone__without_uv(clone: Path) -> None:
    assert agent_eval.__version__ in start(clone, "--version", path=WITHOUT_UV).stdout


@pytest.mark.parametrize(("with_uv", "words"), [(False, "DO NOT MATCH THE HASHES"), (True, "Hash mismatch")])
def test_bare_clone__a_uv_or_a_build_backend_that_is_not_the_locked_one_is_refused(
    clone: Path, path_with_uv: str, with_uv: bool, words: str
) -> None:
    locked = clone / "requirements/build.txt"
    text, count = re.subn(r"--hash=sha256:[0-9a-f]{8}", "--hash=sha256:00000000", locked.read_text("utf-8"))
    assert count > 20
    locked.write_text(text, "utf-8")
    assert (
        words in start(clone, "--version", path=path_with_uv if with_uv else WITHOUT_UV, code=2, UV_NO_CACHE="1").stderr
    )


def test_bare_clone__old_python_says_what_to_do(clone: Path) -> None:
    script = (clone / "entrypoint").read_text("utf-8")
    assert "OLDEST = (3, 11)" in script
    (clone / "entrypoint").write_text(script.replace("OLDEST = (3, 11)", "OLDEST = (4, 0)"), "utf-8")
    done = start(clone, "--version", path=WITHOUT_UV, code=2)
    assert "needs Python 4.0 or newer" in done.stderr
    assert "install uv" in done.stderr


def test_bare_clone__failing_set_up_shows_why(clone: Path, path_with_uv: str) -> None:
    (clone / "pyproject.toml").write_text("[project]\nname = 'x'\nversion = '1'\n[tool.uv]\nsources = 1\n", "utf-8")
    assert "setting up the environment failed" in start(clone, "--version", path=path_with_uv, code=2).stderr
    assert not list((clone / ".venv-cli").glob("*/.ready"))
