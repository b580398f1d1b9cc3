"""Runs `agent-eval run` in a process of its own, and reads its results.

Not in the caller's process: the agent's processes, the signals, seals and event loops of a run must not meet those of a
test session or a notebook, and the engine ends all of its processes even if the caller is killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

from agent_eval.settings import BY_INPUT
from agent_eval_scoring.core.text import harmless

if TYPE_CHECKING:
    from agent_eval_results import RunReport

_OF_A_JOB = frozenset(
    {"GITHUB_ACTIONS", "GITHUB_EVENT_NAME", "GITHUB_EVENT_PATH", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITLAB_CI"}
)
"""Without them the run is a local one: it neither comments on a pull request nor adds to the job's summary."""
_TO_END = 60.0
"""Seconds for an interrupted engine to end its agents and write its results."""
_TO_DRAIN = 5.0
"""Seconds to read what is left of the log after the engine has ended."""
_LONGEST_LOG = 200
"""Lines of the log that are kept."""


@dataclass(frozen=True, kw_only=True)
class EngineRequest:
    """A run of the engine."""

    root: Path
    """The directory that the engine works in."""
    flags: Mapping[str, str | tuple[str, ...]]
    """Values by input name, as for `read_settings`, checked already."""
    initial_session: str | None = None
    """A JSON file with the initial session of legacy test files."""

    def with_flags(self, **flags: str | tuple[str, ...]) -> EngineRequest:
        """The same request with other values; names with underscores."""
        named = {name.replace("_", "-"): value for name, value in flags.items()}
        return replace(self, flags={**self.flags, **named})

    @property
    def output(self) -> Path:
        """The output directory, absolute."""
        return self.root / str(self.flags.get("output-dir", BY_INPUT["output-dir"].default))


@dataclass(frozen=True, kw_only=True)
class EngineOutcome:
    """What a run of the engine left."""

    exit_code: int
    """0 passed, 1 failed, 2 invalid, 3 inconclusive; anything else is a failure of the engine itself."""
    report: RunReport | None
    """None if the engine ended without results."""
    console: str
    """What it printed: the failed cases turn by turn, the verdict last."""
    log: str
    """The end of its log."""
    output: Path
    """The directory with its result files."""

    @property
    def verdict(self) -> str:
        """The verdict, or `no verdict`."""
        return self.report.verdict if self.report is not None else "no verdict"


class EngineInterrupted(KeyboardInterrupt):
    """Ctrl-C during a run. The engine has ended."""

    def __init__(self, outcome: EngineOutcome) -> None:
        """`outcome` has the cases that were finished."""
        super().__init__()
        self.outcome = outcome


def run_engine(request: EngineRequest, on_line: Callable[[str], None] = lambda _: None) -> EngineOutcome:
    """Runs the engine and waits for its end. Blocks, also inside an event loop.

    Args:
        request: What to run.
        on_line: Receives each line of its log, in the calling thread.

    Raises:
        EngineInterrupted: After Ctrl-C, when the engine has ended.
    """
    from agent_eval_results import FILES

    results = request.output / FILES["results-file"]
    before = _identity(results)
    with tempfile.TemporaryFile() as printed:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", "from agent_eval.__main__ import run_engine; run_engine()"],
            cwd=request.root,
            env={name: value for name, value in os.environ.items() if name not in _OF_A_JOB},
            stdin=subprocess.PIPE,
            stdout=printed,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C reaches us alone. We pass it on, and wait.
        )
        try:
            log, interrupted = _follow(process, request, on_line)
        finally:
            if process.poll() is None:
                _kill(process)
        printed.seek(0)
        console = printed.read().decode("utf-8", "replace")
    # A file of an earlier run says nothing about this one.
    report = _read_results(results) if _identity(results) not in {None, before} else None
    if report is not None and report.exit_code != process.returncode:
        report = None
    outcome = EngineOutcome(
        exit_code=process.returncode, report=report, console=harmless(console), log=log, output=request.output
    )
    if interrupted:
        raise EngineInterrupted(outcome)
    return outcome


def _read_results(path: Path) -> RunReport | None:
    from agent_eval.baseline.reader import UnreadableError, read_file

    try:
        return read_file(path)
    except UnreadableError:
        return None


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def _follow(
    process: subprocess.Popen[bytes], request: EngineRequest, on_line: Callable[[str], None]
) -> tuple[str, bool]:
    """Passes the request to the engine and its log on, until it has ended.

    Returns:
        The end of the log, and whether Ctrl-C was pressed meanwhile.
    """
    assert process.stdin is not None
    assert process.stderr is not None
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(process, process.stderr, lines), daemon=True).start()
    values = {BY_INPUT[name].field: value for name, value in request.flags.items()}
    if request.initial_session is not None:
        values["initial_session"] = request.initial_session
    with contextlib.suppress(BrokenPipeError), process.stdin as stream:
        stream.write(json.dumps(values).encode())
    kept: list[str] = []
    interrupted = False
    while True:
        try:
            line = lines.get(timeout=_TO_END if interrupted else None)
            if line is None:
                break
            kept = [*kept[1 - _LONGEST_LOG :], line]
            if not interrupted:
                on_line(line)
        except KeyboardInterrupt:
            if interrupted:
                raise
            interrupted = True
            process.send_signal(signal.SIGINT)
        except queue.Empty:
            break
    return "\n".join(kept), interrupted


def _read(process: subprocess.Popen[bytes], stream: IO[bytes], lines: queue.SimpleQueue[str | None]) -> None:
    """Puts the lines of a stream into a queue, then None when the process has ended."""

    def forward() -> None:
        for line in stream:
            lines.put(harmless(line.decode("utf-8", "replace").rstrip("\r\n")))

    reader = threading.Thread(target=forward, daemon=True)
    reader.start()
    process.wait()
    reader.join(_TO_DRAIN)
    if not reader.is_alive():
        stream.close()
    lines.put(None)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kills the engine's process group. Its agents end with it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
