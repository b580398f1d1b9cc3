"""Many small agents, and few large ones, against an earlier checkout: `python benchmarks/warm.py --earlier CHECKOUT`.

Each pair runs the same repository with both, one after the other. CPU seconds are those of all processes; memory is the
peak of all together, in which shared pages count once (PSS). Linux only.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from measuring import Spread, measure, peak_of_all

AGENT = """
import asyncio, time
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.genai import types

started = time.process_time()
while time.process_time() - started < {load}:
    pass

class Scripted(BaseLlm):
    async def generate_content_async(self, request, stream=False):
        await asyncio.sleep({model})
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="An answer.")]))

root_agent = LlmAgent(name="agent", model=Scripted(model="scripted"), instruction="Answer.")
"""


@dataclass(frozen=True, kw_only=True)
class Work:
    """What both checkouts do."""

    agents: int = 1
    cases: int = 1
    """Of each agent."""
    load: float = 0.0
    """CPU seconds that the agent itself takes to load."""
    model: float = 0.0
    """Seconds that its model takes."""
    cores: int = 0
    """0: all."""

    def write(self, root: Path) -> None:
        for number in range(self.agents):
            folder = root / f"agent{number:03}"
            folder.mkdir(parents=True)
            (folder / "__init__.py").write_text("from . import agent\n", "utf-8")
            (folder / "agent.py").write_text(AGENT.format(load=self.load, model=self.model), "utf-8")
            (folder / "test_config.json").write_text('{"criteria": {"response_match_score": 0.5}}', "utf-8")
            answer = {"role": "model", "parts": [{"text": "An answer."}]}
            turn = {"user_content": {"role": "user", "parts": [{"text": "Hello."}]}, "final_response": answer}
            cases = [{"eval_id": f"c{case}", "conversation": [turn]} for case in range(self.cases)]
            file = folder / "all.evalset.json"
            file.write_text(json.dumps({"eval_set_id": f"s{number}", "eval_cases": cases}), "utf-8")


WORKS = {
    "50 agents": Work(agents=50),
    "200 agents": Work(agents=200),
    "500 cases of one agent": Work(cases=500),
    "1 case, model of 200 ms": Work(model=0.2),
    "2 agents": Work(agents=2),
    "2 agents, one core": Work(agents=2, cores=1),
    "3 agents that take 2 s of CPU to load": Work(agents=3, load=2.0),
}


def command(checkout: Path, python: str, cores: int) -> list[str]:
    """The gate of a checkout, in our interpreter."""
    places = [str(place) for place in sorted((checkout / "src").iterdir())]
    code = f"import sys; sys.path[:0] = {places!r}; from agent_eval.cli import main; sys.exit(main())"
    pinned = ["taskset", "-c", f"0-{cores - 1}"] if cores else []
    return [*pinned, sys.executable, "-c", code, "run", ".", "--agent-python", python]


def compared(work: Work, checkouts: Sequence[Path], python: str, pairs: int, *, memory: bool) -> dict[str, list[float]]:
    """By measure, the later checkout's value as a share of the earlier one's; `cpu`: the later one's seconds."""
    shares: dict[str, list[float]] = {"CPU": [], "wall": [], "memory": [], "cpu": []}
    environment = dict(os.environ)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        root = Path(folder)
        root.chmod(0o755)
        work.write(root)
        argvs = [command(checkout, python, work.cores) for checkout in checkouts]
        for number in range(pairs):
            order = argvs if number % 2 else argvs[::-1]
            done = {tuple(argv): measure(argv, cwd=root, environment=environment) for argv in order}
            before, after = (done[tuple(argv)] for argv in argvs)
            shares["CPU"].append(after.cpu_seconds / before.cpu_seconds)
            shares["wall"].append(after.seconds / before.seconds)
            shares["cpu"].append(after.cpu_seconds)
            if memory:
                first, second = (peak_of_all(argv, cwd=root, environment=environment) for argv in argvs)
                shares["memory"].append(second / first)
    return shares


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--earlier", type=Path, required=True, help="another checkout of the project")
    parser.add_argument("--agent-python", required=True, help="an interpreter with google-adk")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", action="append", choices=WORKS, help="one row; may be repeated")
    parser.add_argument("--no-memory", action="store_true", help="takes half the time")
    arguments = parser.parse_args()
    checkouts, cpu = (arguments.earlier.resolve(), Path(__file__).resolve().parents[1]), {}
    for name in arguments.only or WORKS:
        python, memory = arguments.agent_python, not arguments.no_memory
        shares = compared(WORKS[name], checkouts, python, arguments.pairs, memory=memory)
        cpu[name] = Spread.of(shares.pop("cpu")).median
        row = "; ".join(f"{measure} {Spread.of(values)}" for measure, values in shares.items() if values)
        print(f"{name}: {row}", flush=True)
    if {"50 agents", "200 agents"} <= cpu.keys():
        exponent = math.log(cpu["200 agents"] / cpu["50 agents"], 4)
        print(f"CPU grows with the number of agents to the power of {exponent:.2f}")


if __name__ == "__main__":
    main()
