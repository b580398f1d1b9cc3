"""The reference: a process with google-adk[eval], asked over a pipe."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ADK = "google-adk[eval]==2.13.0"
LIBRARIES = ("rouge-score==0.1.2", "nltk==3.10.4")
"""Pinned: scores depend on them."""


class Reference:
    """google-adk's own scorers."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def score(
        self,
        metric: str,
        actual: Sequence[Mapping[str, Any]],
        expected: Sequence[Mapping[str, Any]] | None,
        criterion: Mapping[str, Any] | None,
    ) -> dict[str, Any]:
        return self.ask({"metric": metric, "actual": actual, "expected": expected, "criterion": criterion})

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Sends a request as the worker understands it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        watchdog = threading.Timer(120, self._process.kill)
        watchdog.start()
        line = self._process.stdout.readline()
        watchdog.cancel()
        assert line, f"the worker ended on {json.dumps(request)}"
        answer: dict[str, Any] = json.loads(line)
        return answer


def _cache_directory() -> Path:
    if root := os.environ.get("XDG_CACHE_HOME"):
        return Path(root) / "agent-eval-tests"
    return Path.home() / ".cache" / "agent-eval-tests"


def _interpreter() -> Path:
    """A Python of our own version (its Unicode tables decide what a letter is) with the reference installed."""
    if given := os.environ.get("AGENT_EVAL_ADK_PYTHON"):
        return Path(given)
    home = _cache_directory() / f"adk-eval-2.13.0-py{sys.version_info.major}.{sys.version_info.minor}"
    home.parent.mkdir(parents=True, exist_ok=True)
    with home.with_name(f"{home.name}.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "complete").exists():
            _install(home)
            (home / "complete").touch()
    return home / "bin" / "python"


def _install(home: Path) -> None:
    uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    shutil.rmtree(home, ignore_errors=True)
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(home)], check=True, timeout=120)
    install = [uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", str(home / "bin" / "python")]
    subprocess.run([*install, ADK, *LIBRARIES], check=True, timeout=900)


@pytest.fixture(scope="session")
def adk_interpreter() -> Path:
    """A Python with the reference installed, for tests that ask it in their own way."""
    return _interpreter()


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reference]:
    with _worker("adk_worker.py", tmp_path_factory) as running:
        yield running


@pytest.fixture(scope="session")
def judged_reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reference]:
    """The same with a judge that follows a script."""
    with _worker("judged_worker.py", tmp_path_factory) as running:
        yield running


@pytest.fixture(scope="session")
def vertex_reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reference]:
    """The same with Google's SDK, which asks the service that the request names."""
    with _worker("vertex_worker.py", tmp_path_factory) as running:
        yield running


@contextmanager
def _worker(script: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reference]:
    log = tmp_path_factory.mktemp("adk") / "worker.log"
    with log.open("w", encoding="utf-8") as errors:
        process = subprocess.Popen(
            [str(_interpreter()), "-W", "ignore", str(Path(__file__).with_name(script))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            encoding="utf-8",
        )
        try:
            yield Reference(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                code = process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
            finally:
                assert process.stdout is not None
                process.stdout.close()
    assert code == 0, log.read_text(encoding="utf-8")
