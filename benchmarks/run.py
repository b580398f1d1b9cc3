"""Compares the gate with `adk eval` on this machine, and with its own targets.

    python benchmarks/run.py [--quick] [--only one --only fifty ...] [--json FILE]

Needs uv, a package index, and about 1.5 GB under `.bench/`. A whole run takes about ten minutes. See README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from environments import ADK_VERSION, PROJECT, prepare, python_version
from measuring import Void
from scenarios import NEED_PEER, SCENARIOS, Bench, Result


def machine() -> dict[str, str]:
    """What the numbers depend on."""
    facts = {"python": python_version(), "system": f"{platform.system()} {platform.release()}"}
    facts["cores"] = str(os.cpu_count())
    facts["google-adk"] = ADK_VERSION
    facts["load before"] = ", ".join(f"{load:.2f}" for load in os.getloadavg())
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        models = [line for line in cpuinfo.read_text(encoding="utf-8").splitlines() if line.startswith("model name")]
        facts["processor"] = models[0].partition(":")[2].strip() if models else platform.machine()
    return facts


def table(results: Sequence[Result]) -> str:
    """The measurements as Markdown: every side with its median, minimum and maximum, then the targets."""
    lines = ["| what | who | seconds: median (min to max) | CPU s | peak MB | runs |", "|---|---|---|---|---|---|"]
    for result in results:
        for side, measurements in result.sides.items():
            cpu = sorted(measurement.cpu_seconds for measurement in measurements)[len(measurements) // 2]
            row = [result.title, side, str(result.seconds(side)), f"{cpu:.1f}", f"{result.peak_mb(side):.0f}"]
            lines.append(f"| {' | '.join([*row, str(len(measurements))])} |")
    lines += ["", "| what | target | reached | met |", "|---|---|---|---|"]
    for result in results:
        for target in result.targets:
            met = "yes" if target.met else "**no**"
            lines.append(f"| {result.title} | {target.text} | {target.reached} | {met} |")
    return "\n".join(lines)


def as_json(results: Sequence[Result], facts: dict[str, str], void: dict[str, str]) -> str:
    """Everything, for a machine."""
    listed = [
        {
            "name": result.name,
            "title": result.title,
            "sides": {
                side: [
                    {key: value for key, value in asdict(measurement).items() if key != "output"}
                    for measurement in measurements
                ]
                for side, measurements in result.sides.items()
            },
            "targets": [asdict(target) for target in result.targets],
        }
        for result in results
    ]
    return json.dumps({"machine": facts, "results": listed, "void": void}, indent=1) + "\n"


def main() -> int:
    """Exit code 0: all targets met; 1: one was not; 2: a scenario gave no measurement."""
    parser = argparse.ArgumentParser(description="Compares the gate with adk eval.")
    parser.add_argument("--only", action="append", choices=list(SCENARIOS), help="a scenario; may be repeated")
    parser.add_argument("--quick", action="store_true", help="fewer repeats and a tenth of the files: a smoke test")
    parser.add_argument("--repeats", type=int, help="measurements of each side (default 5, quick 2)")
    parser.add_argument("--json", type=Path, help="write all measurements to this file as well")
    parser.add_argument("--cache", type=Path, default=PROJECT / ".bench", help="where environments are kept")
    parser.add_argument("--limit", type=int, default=10, help="requests in flight in `limited` (default 10)")
    options = parser.parse_args()
    names = options.only or list(SCENARIOS)
    cache = options.cache.resolve()
    facts = machine()
    started = time.monotonic()
    bench = Bench(
        environments=prepare(cache, peer=bool(NEED_PEER & set(names))),
        directory=cache / "work",
        repeats=options.repeats or (2 if options.quick else 5),
        quick=options.quick,
        limit=options.limit,
    )
    bench.directory.mkdir(parents=True, exist_ok=True)
    results: list[Result] = []
    void: dict[str, str] = {}
    for name in names:
        print(f"{name}: {(SCENARIOS[name].__doc__ or '').splitlines()[0]}", flush=True)
        try:
            results.append(SCENARIOS[name](bench))
        except Void as error:
            void[name] = str(error)
            print(f"  void: {error}", file=sys.stderr, flush=True)
    facts["load after"] = ", ".join(f"{load:.2f}" for load in os.getloadavg())
    print("\n" + "\n".join(f"- {key}: {value}" for key, value in facts.items()))
    print(f"\n{table(results)}\n\n{time.monotonic() - started:.0f} s in all")
    if options.json:
        options.json.write_text(as_json(results, facts, void), encoding="utf-8")
    if void:
        print(f"void: {', '.join(void)}", file=sys.stderr)
        return 2
    return 0 if all(target.met for result in results for target in result.targets) else 1


if __name__ == "__main__":
    sys.exit(main())
