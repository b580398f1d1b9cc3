"""The environments of a bare clone: made once, kept while they are used, then removed. Nothing is installed here."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ENTRYPOINT = Path(__file__).resolve().parents[2] / "entrypoint"
LOAD = f"""
import importlib.machinery, importlib.util, sys
loader = importlib.machinery.SourceFileLoader("entrypoint", {str(ENTRYPOINT)!r})
module = importlib.util.module_from_spec(importlib.util.spec_from_loader("entrypoint", loader))
loader.exec_module(module)
"""


def started_by(python: str, clone: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as an interpreter starts it; instead of installing, it makes a link to this interpreter."""
    loader = importlib.machinery.SourceFileLoader("entrypoint", str(ENTRYPOINT))
    spec = importlib.util.spec_from_loader("entrypoint", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)

    def install(command: list[object], variables: object) -> None:
        if "venv" in command:
            (Path(str(command[-1])) / "bin").mkdir(parents=True)
            (Path(str(command[-1])) / "bin" / "python").symlink_to(sys.executable)

    for name in ("pyproject.toml", "requirements/build.txt", "requirements/run.txt", "entrypoint"):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).touch()
    monkeypatch.setattr(module, "CLONE", clone)
    monkeypatch.setattr(module, "PYTHON", python)
    monkeypatch.setattr(module, "run", install)
    monkeypatch.setattr(module.shutil, "which", lambda _: "uv")
    return module


def gate_in(environment: Path) -> subprocess.Popen[str]:
    """A gate that runs in an environment, as `execv` starts it."""
    script = f"{LOAD}\nfrom pathlib import Path\nmodule.in_use(Path({str(environment)!r}))\n"
    script += "import os\nos.execv(sys.executable, [sys.executable, '-c', 'print(1, flush=True); input()'])"
    gate = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert gate.stdout is not None
    assert gate.stdout.readline() == "1\n"
    return gate


def made(clone: Path) -> set[Path]:
    return {path for path in (clone / ".venv-cli").iterdir() if path.is_dir()}


def test_environment__is_kept_while_a_gate_uses_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with gate_in(started_by("/usr/bin/one", tmp_path, monkeypatch).environment().parents[1]) as gate:
        [first] = made(tmp_path)
        # Of this process; the lock of the gate remains.
        second = started_by("/usr/bin/two", tmp_path, monkeypatch).environment().parents[1]
        assert made(tmp_path) == {first, second}
        gate.communicate("\n", timeout=20)


def test_environment__unused_and_broken_ones_are_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = started_by("/usr/bin/one", tmp_path, monkeypatch)
    old = tmp_path / ".venv-cli" / "of-an-earlier-state"
    interrupted = tmp_path / ".venv-cli" / module.stamp()
    for folder in (old, interrupted):
        (folder / "bin").mkdir(parents=True)
    (old / ".ready").touch()
    python = module.environment()
    assert made(tmp_path) == {interrupted} == {python.parents[1]}
    assert python.exists()

    # Its interpreter was removed, and no gate runs in it.
    other = started_by("/usr/bin/two", tmp_path, monkeypatch)
    gone = tmp_path / ".venv-cli" / other.stamp() / "bin" / "python"
    gone.parent.mkdir(parents=True)
    gone.symlink_to("/nowhere/python3")
    (gone.parents[1] / ".ready").touch()
    assert other.environment() == gone
    assert gone.exists()


def test_python__is_none_of_a_virtual_environment(tmp_path: Path) -> None:
    """Else the environment that it belongs to could be removed for it."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True, timeout=60)
    python = tmp_path / "venv" / "bin" / "python"
    said = subprocess.run(
        [python, "-c", f"{LOAD}\nprint(module.PYTHON)"], stdout=subprocess.PIPE, text=True, timeout=60
    )
    assert said.stdout.strip() == os.path.realpath(getattr(sys, "_base_executable", sys.executable))


def test_main__a_start_that_fails_is_no_failed_verdict(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "requirements/build.txt", "requirements/run.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "entrypoint").write_bytes(ENTRYPOINT.read_bytes())
    (tmp_path / ".venv-cli").touch()
    environment = {**os.environ, "GITHUB_ACTIONS": ""}
    command = [sys.executable, str(tmp_path / "entrypoint"), "run"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 70, done.stderr
    assert "can't be started" in done.stderr
    assert "Traceback" not in done.stderr


def test_run__without_its_packages_is_no_failed_verdict(tmp_path: Path) -> None:
    """Somebody has removed the environment."""
    (tmp_path / "agent_eval").symlink_to(ENTRYPOINT.parent / "src/agent-eval-action/agent_eval")
    command = [
        getattr(sys, "_base_executable", sys.executable),
        "-S",
        "-c",
        "import agent_eval.__main__ as m; m.run()",
        "run",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 70, done.stderr
    assert "No module named" in done.stderr
