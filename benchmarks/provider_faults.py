"""What the faults of a model provider cost: runs of the weather agent against a Gemini that fails, beside their goals.

    python benchmarks/provider_faults.py                     # everything, about half an hour
    python benchmarks/provider_faults.py --only mixed        # one kind of row; may be repeated
    python benchmarks/provider_faults.py --cases 40          # smaller suites under mixed faults

Exit code 0 when all goals are met, 1 when one is not. The rows are those of benchmarks/RESULTS.md.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from environments import ADK, PROJECT, base_environment, uv
from workload import weather_workspace

sys.path.insert(0, str(PROJECT / "examples"))
sys.path.insert(0, str(PROJECT / "examples" / "gemini_weather"))

from fake_gemini import Answer, FakeGemini, Fault, GenerateRequest
from serve import lead_weather_agent

TURN_TIMEOUT = 180
LATENCY = 0.2
MIXED: dict[int | str, float] = {429: 0.30, 503: 0.10, "reset": 0.05, "hang": 0.05, "cut": 0.02, "cut-json": 0.02}
"""Shares of the attempts; the rest is answered."""
SLOWEST_RATIO = 10.0
"""Mixed faults may take so many times the time without faults."""
OUTAGES: tuple[int | str, ...] = ("refused", "name", "hang", 503, 429, 401)
GOALS = {1: TURN_TIMEOUT + 30.0, 24: 180.0, 50: 90.0}
"""Seconds until the verdict on so many cases, when the provider is wholly down."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run of the gate, and what was wanted of it."""

    name: str
    cases: int
    seconds: float
    exit_code: int
    requests: int
    kinds: Counter[str]
    """Cases by status, and by kind of failure."""
    goal: str
    met: bool

    def __str__(self) -> str:
        kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(self.kinds.items()))
        mark = "" if self.met else " **missed**"
        return (
            f"| {self.name} | {self.cases} | {self.seconds:.1f} s | {self.exit_code} | {kinds} | {self.requests} | "
            f"{self.goal}{mark} |"
        )


@contextmanager
def provider(kind: int | str | None, *, seed: int = 1, retry_after: int | None = None) -> Iterator[FakeGemini]:
    """A Gemini with these faults: none, mixed ones, or nothing but one."""
    chance = random.Random(seed)

    def script(request: GenerateRequest) -> Answer | Fault:
        if kind is None:
            return lead_weather_agent(request)
        if kind != "mixed":
            return Fault(kind=kind)  # type: ignore[arg-type]
        drawn = chance.random()
        for fault, share in MIXED.items():
            drawn -= share
            if drawn < 0:
                return Fault(kind=fault, retry_after=retry_after if fault == 429 else None)  # type: ignore[arg-type]
        return lead_weather_agent(request)

    with FakeGemini(script, latency=LATENCY) as gemini:
        yield gemini


def run(cases: int, url: str, python: Path) -> tuple[float, int, Counter[str]]:
    """One run of the gate: seconds, exit code, and what became of the cases."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = weather_workspace(Path(folder) / "work", cases=cases)
        environment = base_environment(
            Path(folder), PYTHONPATH=":".join(map(str, PROJECT.glob("src/*"))), GOOGLE_GEMINI_BASE_URL=url
        )
        command = [sys.executable, "-m", "agent_eval", "run", "--agent", "gemini_weather"]
        command += ["--agent-python", str(python), "--turn-timeout", str(TURN_TIMEOUT)]
        begun = time.monotonic()
        done = subprocess.run(command, cwd=workspace, env=environment, capture_output=True, text=True, timeout=4000)
        seconds = time.monotonic() - begun
        results = workspace / "agent-eval-results" / "results.json"
        if not results.is_file():
            sys.exit(f"no results, exit code {done.returncode}:\n{done.stdout}\n{done.stderr}")
        kinds: Counter[str] = Counter()
        for case in json.loads(results.read_text(encoding="utf-8"))["cases"]:
            reason = (case.get("reason") or {}).get("code")
            kinds[case["status"] + (f" ({reason})" if reason else "")] += 1
        return seconds, done.returncode, kinds


def mixed_rows(cases: int, python: Path) -> Iterator[Row]:
    """Mixed faults beside the same suite without any."""
    free = 0.0
    for name, kind, retry_after in (
        ("no faults", None, None),
        ("30% 429, 10% 503, 5% reset, 5% hang, 2% + 2% cut", "mixed", None),
        ("the same, 429 with `Retry-After: 1`", "mixed", 1),
    ):
        with provider(kind, retry_after=retry_after) as gemini:
            seconds, code, kinds = run(cases, gemini.url, python)
            requests = gemini.stats.requests
        if kind is None:
            free = seconds
        yield Row(
            name=name,
            cases=cases,
            seconds=seconds,
            exit_code=code,
            requests=requests,
            kinds=kinds,
            goal="all passed" if kind is None else f"all passed, within {free * SLOWEST_RATIO:.0f} s",
            met=kinds == Counter(passed=cases) and seconds <= free * SLOWEST_RATIO,
        )


def outage_rows(python: Path) -> Iterator[Row]:
    """A provider that is wholly down, in several ways and for suites of several sizes."""
    for kind in OUTAGES:
        for cases, goal in GOALS.items():
            with provider(503 if kind in ("refused", "name") else kind) as gemini:
                url, stats = gemini.url, gemini.stats
                if kind not in ("refused", "name"):
                    seconds, code, kinds = run(cases, url, python)
            if kind in ("refused", "name"):
                seconds, code, kinds = run(cases, url if kind == "refused" else "http://gemini.invalid", python)
            yield Row(
                name=f"wholly down: {f'HTTP {kind}' if isinstance(kind, int) else kind}",
                cases=cases,
                seconds=seconds,
                exit_code=code,
                requests=stats.requests,
                kinds=kinds,
                goal=f"exit 3, nobody failed, within {goal:.0f} s",
                met=code == 3 and seconds <= goal and set(kinds) == {"errored (provider-unavailable)"},
            )


def agent_python(cache: Path) -> Path:
    """An interpreter with google-adk, made once."""
    python = cache / "provider-faults" / "bin" / "python"
    if not python.exists():
        subprocess.run([uv(), "venv", "-q", str(python.parents[1])], check=True)
        subprocess.run([uv(), "pip", "install", "-q", "--compile-bytecode", "-p", str(python), ADK], check=True)
    return python


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description="What the faults of a model provider cost.")
    parser.add_argument("--only", action="append", choices=("mixed", "outages"), help="one kind of row")
    parser.add_argument("--cases", type=int, default=200, help="under mixed faults")
    parser.add_argument("--agent-python", type=Path, help="an interpreter with google-adk; default: made with uv")
    parser.add_argument("--cache", type=Path, default=PROJECT / ".bench")
    options = parser.parse_args()
    python = options.agent_python or agent_python(options.cache)
    print(f"{os.cpu_count()} cores, turn-timeout {TURN_TIMEOUT}, a model of {LATENCY:g} s\n")
    print("| provider | cases | wall time | exit | cases ended | requests | goal |\n|---|---|---|---|---|---|---|")
    kinds: dict[str, Callable[[], Iterator[Row]]] = {
        "mixed": lambda: mixed_rows(options.cases, python),
        "outages": lambda: outage_rows(python),
    }
    met = True
    for name, rows in kinds.items():
        if options.only is None or name in options.only:
            for row in rows():
                print(row, flush=True)
                met = met and row.met
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
