"""`agent-eval accept`: seconds for 12 cases of a file of 1,000 (5 MB), and bytes changed outside of accepted values.

    python benchmarks/accept.py                  # the file in five styles
    python benchmarks/accept.py --corpus DIR     # also each eval set below a directory, each expected text changed once

It runs in the environment of the repository (`.venv`). Exit code 0 when the targets are met, 1 when one is not.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from agent_eval_scoring.evalset.json import patched_text, replaced

CASES, FAILED = 1_000, 12
SECONDS = 1.5
"""Target for `accept --all --no-rescore`, with the start of Python."""
FILE = "evals/home.evalset.json"
OLD, NEW = "The lamp is off.", "I have switched off the lamp in the bedroom."
STYLES: dict[str, Callable[[Any], str]] = {
    "two spaces": lambda value: json.dumps(value, indent=2, ensure_ascii=False) + "\n",
    "tabs, escapes": lambda value: json.dumps(value, indent="\t"),
    "CRLF": lambda value: json.dumps(value, indent=4, ensure_ascii=False).replace("\n", "\r\n") + "\r\n",
    "one line": lambda value: json.dumps(value, ensure_ascii=False),
    "compact": lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":")),
}


def main() -> int:
    """Prints the measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, help="a directory with eval sets")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    fine = True
    print(f"load of the machine: {os.getloadavg()[0]:.1f}")
    for style, write in STYLES.items():
        with tempfile.TemporaryDirectory(prefix="accept-") as folder:
            fine &= measure(Path(folder), style, write, arguments.rounds)
    if arguments.corpus is not None:
        fine &= corpus(arguments.corpus)
    return 0 if fine else 1


def measure(root: Path, style: str, write: Callable[[Any], str], rounds: int) -> bool:
    """Accepts 12 of 1,000 cases, and compares the file with what it should be."""
    eval_set = {"eval_set_id": "home", "eval_cases": [case(number) for number in range(CASES)]}
    failed = range(0, CASES, CASES // FAILED)[:FAILED]
    before = write(eval_set)
    file = root / FILE
    file.parent.mkdir()
    (root / "evals" / "test_config.json").write_text('{"criteria": {"response_match_score": 0.9}}')
    answers = {**eval_set, "eval_cases": [case(n, NEW if n in failed else OLD) for n in range(CASES)]}
    (root / "answers.json").write_text(json.dumps(answers))
    file.write_bytes(before.encode())
    environment = {**os.environ, "CI": ""}
    agent_eval = [sys.executable, "-m", "agent_eval"]
    run = [*agent_eval, "run", "--agent", "recorded:answers.json"]
    done = subprocess.run(run, cwd=root, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 1:
        print(done.stdout, done.stderr)
        return False
    seconds, cpu = [], []
    for _ in range(rounds):
        file.write_bytes(before.encode())
        started, used = time.perf_counter(), os.times()
        command = [*agent_eval, "accept", "--all", "--no-rescore"]
        subprocess.run(command, cwd=root, env=environment, stdout=subprocess.DEVNULL, check=True)
        seconds.append(time.perf_counter() - started)
        now = os.times()
        cpu.append(now.children_user + now.children_system - used.children_user - used.children_system)
    # The texts of failed cases are the only ones that differ, so replacing them in the text is the ideal change.
    ideal = write({**eval_set, "eval_cases": [case(n, NEW if n in failed else OLD) for n in range(CASES)]})
    outside = 0 if file.read_bytes() == ideal.encode() else differing(file.read_bytes(), ideal.encode())
    print(
        f"{style:14} {len(before.encode()) / 1e6:.1f} MB  {median(seconds):5.2f} s  {median(cpu):5.2f} CPU s"
        f" (target {SECONDS} s)  bytes changed outside: {outside}"
    )
    return min(seconds) < SECONDS and outside == 0


def case(number: int, answer: str = OLD) -> dict[str, Any]:
    """A case of about 5 kB, with letters of several scripts."""
    note = f"Schalte die Lampe aus — 灯を消して {number} " * 80
    turn = {
        "user_content": {"parts": [{"text": f"Lamp off. {note}"}], "role": "user"},
        "final_response": {"parts": [{"text": answer}], "role": "model"},
    }
    return {"eval_id": f"case_{number}", "conversation": [turn]}


def differing(left: bytes, right: bytes) -> int:
    """Bytes that are not equal at their place."""
    return abs(len(left) - len(right)) + sum(a != b for a, b in zip(left, right, strict=False))


def corpus(folder: Path) -> bool:
    """Changes each expected text of each eval set once. The text around it has to stay."""
    files = changes = outside = 0
    for path in sorted(folder.rglob("*.json")):
        try:
            text = path.read_bytes().decode()
            value = json.loads(text)
        except (ValueError, OSError):
            continue
        if not isinstance(value, dict) or not {"eval_cases", "evalCases"} & value.keys():
            continue
        files += 1
        for place, old in texts(value):
            new = f"{old} changed"
            changed = patched_text(text, value, replaced(value, place, new))
            changes += 1
            start = next((at for at, (a, b) in enumerate(zip(text, changed, strict=False)) if a != b), len(text))
            end = len(changed) - len(text) + start
            written = changed[start:end]
            outside += written != " changed" or changed[end:] != text[start:]
    print(f"corpus: {files} files, {changes} changes, {outside} with another byte changed")
    return files > 0 and outside == 0


def texts(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Paths of the texts in a value that are not empty."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, child in children:
        if step == "text" and isinstance(child, str) and child:
            yield (*path, step), child
        else:
            yield from texts(child, (*path, step))


if __name__ == "__main__":
    sys.exit(main())
