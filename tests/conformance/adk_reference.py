"""The reference: a process with google-adk[eval], asked over a pipe."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from adk_envs import packages_python


def interpreter() -> Path:
    """A Python of our own version (its Unicode tables decide what a letter is), and libraries that decide scores."""
    return packages_python("adk-2.13.0-scores", "google-adk[eval]==2.13.0", "rouge-score==0.1.2", "nltk==3.10.4")


def status_of(score: float | None, threshold: float) -> str:
    """As google-adk names it."""
    if score is None:
        return "NOT_EVALUATED"
    return "PASSED" if score >= threshold else "FAILED"


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
        **more: Any,
    ) -> dict[str, Any]:
        """What `adk_worker.score` returns."""
        given = {"metric": metric, "actual": actual, "expected": expected, "criterion": criterion}
        answer: dict[str, Any] = self.ask("score", **given, **more)
        return answer

    def ask(self, function: str, **request: Any) -> Any:
        """What a function of adk_worker.py returns."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"ask": function, **request}) + "\n")
        self._process.stdin.flush()
        watchdog = threading.Timer(120, self._process.kill)
        watchdog.start()
        line = self._process.stdout.readline()
        watchdog.cancel()
        assert line, f"the worker ended on {json.dumps(request)}"
        return json.loads(line)


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reference]:
    """The reference of all these tests."""
    log = tmp_path_factory.mktemp("adk") / "worker.log"
    with log.open("w", encoding="utf-8") as errors:
        process = subprocess.Popen(
            [str(interpreter()), "-W", "ignore", str(Path(__file__).with_name("adk_worker.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            encoding="utf-8",
        )
        try:
            yield Reference(process)
        finally:
            try:
                process.communicate(timeout=120)  # It ends with its input.
            finally:
                process.kill()
    assert process.returncode == 0, log.read_text(encoding="utf-8")
