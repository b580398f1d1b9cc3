"""Runs a command and says what it cost: wall seconds, CPU seconds, peak memory."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


class Void(Exception):
    """A measurement that says nothing: a side failed, or the sides did different work."""


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One run of one command."""

    seconds: float
    """Wall time from start to exit."""
    cpu_seconds: float
    """User and system time of the command and of its descendants that it waited for."""
    peak_mb: float
    """Resident megabytes of the largest of these processes."""
    exit_code: int
    output: str
    """Standard output and error, together."""


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The middle and the ends of several measurements."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(median=statistics.median(values), low=min(values), high=max(values))

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f} to {self.high:.2f})"


def measure(
    argv: Sequence[str | Path],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    exit_codes: Sequence[int] = (0,),
    timeout: float = 600,
) -> Measurement:
    """Runs a command to its end.

    Args:
        argv: The command.
        cwd: Where it runs.
        environment: Its complete environment.
        exit_codes: What counts as success.
        timeout: Seconds after which it and its children are killed.

    Raises:
        Void: It ended otherwise.
    """
    # Through a small process of its own: a child starts as a copy of its parent, and its peak memory counts from there.
    command = [sys.executable, "-IS", __file__, str(timeout), *map(str, argv)]
    started = subprocess.run(
        command, cwd=cwd, env=dict(environment), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    reply = json.loads(started.stdout)
    if reply["exit_code"] not in exit_codes:
        raise Void(f"exit code {reply['exit_code']} of: {' '.join(map(str, argv))}\n{reply['output'][-3000:]}")
    return Measurement(**reply)


def peak_of_all(argv: Sequence[str | Path], *, cwd: Path, environment: Mapping[str, str]) -> float:
    """The most memory that a command and its descendants have at once, in megabytes; Linux only.

    Pages that several processes share count once (PSS). It is looked up four times a second, which takes time: measure
    seconds in another run.
    """
    process = subprocess.Popen(
        list(map(str, argv)), cwd=cwd, env=dict(environment), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    peak = 0.0
    while process.poll() is None:
        peak = max(peak, sum(map(_proportional_mb, _with_descendants(process.pid))))
        time.sleep(0.25)
    return peak


def _with_descendants(pid: int) -> list[int]:
    try:
        tasks = [path.read_text("ascii").split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:  # It has ended.
        return []
    return [pid, *(process for children in tasks for child in children for process in _with_descendants(int(child)))]


def _proportional_mb(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:")), 0.0)


def _measured(argv: Sequence[str], timeout: float) -> dict[str, float | int | str]:
    with tempfile.TemporaryFile() as sink:
        started = time.perf_counter()
        process = subprocess.Popen(argv, stdout=sink, stderr=subprocess.STDOUT, start_new_session=True)
        guard = threading.Timer(timeout, os.killpg, (process.pid, signal.SIGKILL))
        guard.start()
        # wait4 and not Popen.wait: only it reports what this one child used.
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        guard.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        sink.seek(0)
        output = sink.read().decode("utf-8", errors="replace")
    return {
        "seconds": seconds,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_mb": usage.ru_maxrss / (1024 if os.uname().sysname == "Linux" else 1024 * 1024),
        "exit_code": process.returncode,
        "output": output,
    }


if __name__ == "__main__":
    print(json.dumps(_measured(sys.argv[2:], float(sys.argv[1]))))
