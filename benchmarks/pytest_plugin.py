"""Measures what the pytest plugin costs: a session without evals, and the collection of many cases.

    python benchmarks/pytest_plugin.py             # 20 rounds
    python benchmarks/pytest_plugin.py --rounds 5

Each round runs every side once, in alternating order; a difference is the median of the rounds' differences. Exit code
1 if a target is missed. Uses the Python environment that it runs with, which needs pytest and agent-eval.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

from measuring import Measurement, Spread, Void, measure

FILES, CASES_PER_FILE = 50, 20
OFF_TARGET = 0.020
"""Seconds that a session without evals may take longer, because agent-eval is installed."""
COLLECT_TARGET = 1.0
"""Seconds for `--collect-only` of all cases, with everything that pytest does."""
SIDES = {
    "without the plugin": ["-p", "no:adk_evals", "test_python.py"],
    "plugin installed, not used": ["test_python.py"],
    "1,000 cases, --collect-only": ["--adk-evals", "--collect-only", "-q", "evals"],
    "the same files, plugin off": ["--collect-only", "-q", "evals"],
}
EXIT_CODES = (0, 5)
"""5: nothing was collected."""


def write_repository(root: Path) -> None:
    """A Python test, and FILES eval files of CASES_PER_FILE cases."""
    (root / "test_python.py").write_text("def test_python():\n    pass\n", "utf-8")
    (root / "pytest.ini").write_text("[pytest]\n", "utf-8")
    (root / "evals").mkdir()
    (root / "evals/test_config.json").write_text('{"criteria": {"tool_trajectory_avg_score": 1.0}}', "utf-8")
    for number in range(FILES):
        cases = [
            {
                "eval_id": f"case_{number}_{case}",
                "conversation": [
                    {
                        "user_content": {"role": "user", "parts": [{"text": f"Turn on lamp {case}."}]},
                        "final_response": {"role": "model", "parts": [{"text": f"Lamp {case} is on."}]},
                        "intermediate_data": {"tool_uses": [{"name": "turn_on", "args": {"lamp": case}}]},
                    }
                ],
            }
            for case in range(CASES_PER_FILE)
        ]
        document = {"eval_set_id": f"set_{number}", "eval_cases": cases}
        (root / f"evals/set_{number}.evalset.json").write_text(json.dumps(document, indent=1), "utf-8")


def measure_sides(root: Path, rounds: int) -> dict[str, list[Measurement]]:
    """The measurements of each side, by round. The first round, which fills caches, is left out."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PYTEST_") and name != "PYTHONDONTWRITEBYTECODE"
    }
    # Of the other plugins, those of this environment would be measured, too.
    environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    plugin = ["-p", "agent_eval.pytest_plugin"]
    measurements: dict[str, list[Measurement]] = {side: [] for side in SIDES}
    for number in range(rounds + 1):
        for side in sorted(SIDES, reverse=number % 2 == 1):
            options = [] if side == "without the plugin" else plugin
            command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, *SIDES[side]]
            measurement = measure(command, cwd=root, environment=environment, exit_codes=EXIT_CODES)
            if "--adk-evals" in command and f"{FILES * CASES_PER_FILE} tests collected" not in measurement.output:
                raise Void(measurement.output)
            if number:
                measurements[side].append(measurement)
    return measurements


def differences(first: list[Measurement], second: list[Measurement]) -> Spread:
    """CPU seconds that the second side takes more, by round."""
    return Spread.of([b.cpu_seconds - a.cpu_seconds for a, b in zip(first, second, strict=True)])


def main() -> int:
    """Prints a table and compares with the targets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_repository(Path(folder))
        measurements = measure_sides(Path(folder), arguments.rounds)
    print(f"| {'session':<28} | wall seconds | CPU seconds |\n|---|---|---|")
    for side, rounds in measurements.items():
        wall, cpu = (
            Spread.of([getattr(measurement, name) for measurement in rounds]) for name in ("seconds", "cpu_seconds")
        )
        print(f"| {side:<28} | {wall} | {cpu} |")
    without, unused, collected, off = measurements.values()
    cost = differences(without, unused)
    print(f"\nan installed plugin costs {cost.median * 1000:.0f} ms of CPU (target: {OFF_TARGET * 1000:.0f} ms)")
    evals = differences(off, collected)
    print(f"collecting {FILES * CASES_PER_FILE:,} cases costs {evals.median:.2f} s of CPU more than collecting nothing")
    seconds = statistics.median(measurement.cpu_seconds for measurement in collected)
    print(f"the whole session takes {seconds:.2f} s of CPU (target: {COLLECT_TARGET:.0f} s)")
    return 0 if cost.median <= OFF_TARGET and seconds <= COLLECT_TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
