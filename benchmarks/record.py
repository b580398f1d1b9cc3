"""What it costs to make a case of a recorded session, and to ask for help. Exit code 1 if a goal is missed.

    python benchmarks/record.py [--turns 50] [--repeat 5]

A session of 50 turns with a call each becomes a case; no agent, no network. On a busy machine, compare the CPU seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from measuring import Spread, measure

GOAL_RECORD, GOAL_HELP = 1.0, 0.35
"""Seconds on a quiet machine."""


def session(turns: int) -> dict[str, Any]:
    """A session as `adk run --save_session` writes it."""
    events = []
    for number in range(turns):
        parts: list[tuple[str, dict[str, Any]]] = [
            ("user", {"text": f"Please do step {number} of the list"}),
            ("home", {"functionCall": {"name": "step", "args": {"number": number}}}),
            ("home", {"functionResponse": {"name": "step", "response": {"done": True}}}),
            ("home", {"text": f"Step {number} of the list is finished, and nothing else has changed."}),
        ]
        events += [
            {
                "invocationId": f"e-{number}",
                "author": author,
                "timestamp": float(number),
                "content": {"role": "user" if author == "user" else "model", "parts": [part]},
            }
            for author, part in parts
        ]
    return {"id": "s", "appName": "home", "userId": "u", "state": {}, "events": events}


def measured(command: Sequence[str], folder: Path, repeat: int, made: Path | None = None) -> tuple[Spread, Spread]:
    """Wall and CPU seconds of a command, which must succeed. What it makes is removed before each run."""
    runs = []
    for _ in range(repeat):
        if made is not None:
            made.unlink(missing_ok=True)
        runs.append(measure([sys.executable, "-m", "agent_eval", *command], cwd=folder, environment=os.environ))
        assert runs[-1].exit_code == 0, runs[-1].output
    return Spread.of([run.seconds for run in runs]), Spread.of([run.cpu_seconds for run in runs])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=50)
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "s.json").write_text(json.dumps(session(arguments.turns)), "utf-8")
        made = folder / "home.evalset.json"
        record = measured(["record", made.name, "--from", "s.json"], folder, arguments.repeat, made)
        cases = json.loads(made.read_text("utf-8"))["eval_cases"]
        assert len(cases[0]["conversation"]) == arguments.turns
        usage = measured(["--help"], folder, arguments.repeat)
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"record --from, {arguments.turns} turns: {record[0]} s, CPU {record[1]} s (goal {GOAL_RECORD} s)")
    print(f"--help: {usage[0]} s, CPU {usage[1]} s (goal {GOAL_HELP} s)")
    return int(record[0].median > GOAL_RECORD or usage[0].median > GOAL_HELP)


if __name__ == "__main__":
    sys.exit(main())
