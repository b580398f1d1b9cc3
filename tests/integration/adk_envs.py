"""Interpreters with a given google-adk, made with uv once and kept in the user's cache."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

REFERENCE = "2.13.0"
MATRIX = ("1.18.0", "1.39.1", REFERENCE)
FIXTURES = Path(__file__).with_name("agents_fixtures")


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    path = Path(base) / "agent-eval-tests"
    path.mkdir(parents=True, exist_ok=True)
    return path


def _uv() -> str:
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    assert uv, "uv is a dependency of the project"
    return uv


def adk_python(version: str = REFERENCE, *, extra: str = "") -> Path:
    """The interpreter of an environment with `google-adk[extra]==version`, bytecode compiled.

    Without Vertex AI's SDK: google-adk 1.18.0 imports it for its services in Google's cloud, which no test uses, and
    that is half of its start, 4 s of CPU.
    """
    name = f"adk-{version}{'-' + extra if extra else ''}"
    without = ("vertexai",) if version == "1.18.0" else ()
    return packages_python(name, f"google-adk{f'[{extra}]' if extra else ''}=={version}", without=without)


def packages_python(name: str, *packages: str, without: tuple[str, ...] = ()) -> Path:
    """The interpreter of an environment with these packages, bytecode compiled.

    Safe to call from several test processes at once.

    Args:
        name: The name of the environment.
        packages: What to install.
        without: Import names of packages whose contents are taken out; an import of them succeeds.
    """
    name = "-without-".join((name, *without))
    name = f"{name}-py{sys.version_info.major}.{sys.version_info.minor}"
    home = _cache() / name
    python, done = home / "bin" / "python", home / ".complete"
    with (_cache() / f"{name}.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(home, ignore_errors=True)
            subprocess.run([_uv(), "venv", "-q", "--python", sys.executable, str(home)], check=True)
            subprocess.run(
                [_uv(), "pip", "install", "-q", "--compile-bytecode", "-p", str(python), *packages],
                check=True,
                env={key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"},
            )
            for package in without:
                (folder,) = home.glob(f"lib/python*/site-packages/{package}")
                shutil.rmtree(folder)
                folder.mkdir()
                (folder / "__init__.py").touch()
            done.touch()
    return python
