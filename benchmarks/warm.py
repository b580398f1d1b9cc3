"""What a start costs: many small agents, few large ones, one agent, the base branch's beside it.

    python benchmarks/warm.py --earlier CHECKOUT --agent-python PYTHON

Each pair runs the same repository with both checkouts, or with this one and with the agent alone (ADK's runner, no
evaluation), one after the other. CPU seconds are those of all processes; memory is the peak of all together, in which
shared pages count once (PSS). Linux only; as root, "another user" is nobody.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from environments import gate_of
from measuring import Spread, measure, peak_of_all

AGENT = """
import asyncio, os, time
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.genai import types

started = time.process_time()
while time.process_time() - started < {load}:
    pass

class Scripted(BaseLlm):
    async def generate_content_async(self, request, stream=False):
        await asyncio.sleep({model})
        if times := os.environ.get("ADK_TIMES"):
            with open(times, "a") as file:
                file.write(f"{{time.time()}} {{__file__}}\\n")
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="An answer.")]))

root_agent = LlmAgent(name="agent", model=Scripted(model="scripted"), instruction="Answer.")
"""

ALONE = """
import asyncio, json
from agent000.agent import root_agent
from google.adk.runners import InMemoryRunner
from google.genai import types

async def converse(runner, case):
    session = await runner.session_service.create_session(app_name="alone", user_id="u")
    said = types.Content.model_validate(case["conversation"][0]["user_content"])
    async for event in runner.run_async(user_id="u", session_id=session.id, new_message=said):
        pass
    return event.content.parts[0].text

async def main():
    runner = InMemoryRunner(agent=root_agent, app_name="alone")
    with open("agent000/all.evalset.json") as file:
        cases = json.load(file)["eval_cases"]
    assert set(await asyncio.gather(*(converse(runner, case) for case in cases))) == {"An answer."}

asyncio.run(main())
"""
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


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
    alone: bool = False
    """Against the agent alone, and not the earlier checkout."""
    base: bool = False
    """With the base branch's agent beside it; its first answer is what counts."""
    other_user: bool = False
    """Not as root."""

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
        (root / "alone.py").write_text(ALONE, "utf-8")
        if self.base:
            (root / ".gitignore").write_text("agent-eval-results/\ntimes\n", "utf-8")
            (root / "times").touch()
            (root / "times").chmod(0o666)
            git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com"]
            for arguments in (["init", "-qb", "main"], ["add", "-A"], ["commit", "-qm", "one"], ["branch", "base"]):
                subprocess.run([*git, *arguments], cwd=root, check=True)
        if self.other_user:
            subprocess.run(["chown", "-R", "65534:65534", root], check=True)


WORKS = {
    "50 agents": Work(agents=50),
    "200 agents": Work(agents=200),
    "500 cases of one agent": Work(cases=500),
    "1 case, model of 200 ms": Work(model=0.2),
    "2 agents": Work(agents=2),
    "2 agents, one core": Work(agents=2, cores=1),
    "3 agents that take 2 s of CPU to load": Work(agents=3, load=2.0),
    "1 agent that takes 2 s of CPU to load, 500 cases": Work(cases=500, load=2.0),
    "1 case, one core": Work(cores=1),
    "20 cases": Work(cases=20),
    "500 cases beside the agent alone": Work(cases=500, alone=True),
    "1 case, model of 200 ms, beside the agent alone": Work(model=0.2, alone=True),
    "the base's first answer": Work(model=0.05, base=True),
    "the base's first answer, another user": Work(model=0.05, base=True, other_user=True),
}


def command(work: Work, checkout: Path, python: str) -> list[str]:
    """The gate of a checkout, in our interpreter."""
    prefix = ["taskset", "-c", f"0-{work.cores - 1}"] if work.cores else []
    base = ["--baseline", "rerun", "--base-ref", "base"] if work.base else []
    as_user = NOBODY if work.other_user and os.geteuid() == 0 else []
    return [*as_user, *prefix, *gate_of(checkout), "run", ".", "--agent-python", python, *base]


def first_of_base(root: Path, argv: Sequence[str], environment: Mapping[str, str]) -> float:
    """Seconds from the start to the first answer of the base branch's agent."""
    times = root / "times"
    os.truncate(times, 0)
    began = time.time()
    measure(argv, cwd=root, environment={**environment, "ADK_TIMES": str(times)})
    answers = [line.split() for line in times.read_text("utf-8").splitlines()]
    return min(float(at) for at, file in answers if not file.startswith(str(root))) - began


def compared(work: Work, checkouts: Sequence[Path], python: str, pairs: int, *, memory: bool) -> dict[str, list[float]]:
    """By measure, the later checkout's value as a share of the earlier one's, or of the agent alone; `cpu`: the later
    one's seconds.
    """
    shares: dict[str, list[float]] = {"CPU": [], "wall": [], "memory": [], "cpu": [], "first answer": []}
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        root, home = Path(folder, "repository"), Path(folder, "home")
        for directory in (root, home, Path(folder)):
            directory.mkdir(exist_ok=True)
            directory.chmod(0o777)
        (home / ".gitconfig").write_text(f"[safe]\n directory = {root}\n", "utf-8")
        environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(home)}
        work.write(root)
        argvs = [command(work, checkout, python) for checkout in checkouts]
        if work.alone:
            argvs[0] = [python, "alone.py"]
        for argv in argvs:
            measure(argv, cwd=root, environment=environment)  # fills caches
        for number in range(pairs):
            order = argvs if number % 2 else argvs[::-1]
            if work.base:
                first = {tuple(argv): first_of_base(root, argv, environment) for argv in order}
                shares["first answer"].append(first[tuple(argvs[1])] / first[tuple(argvs[0])])
                continue
            done = {tuple(argv): measure(argv, cwd=root, environment=environment) for argv in order}
            before, after = (done[tuple(argv)] for argv in argvs)
            shares["CPU"].append(after.cpu_seconds / before.cpu_seconds)
            shares["wall"].append(after.seconds / before.seconds)
            shares["cpu"].append(after.cpu_seconds)
            if memory:
                one, other = (peak_of_all(argv, cwd=root, environment=environment) for argv in argvs)
                shares["memory"].append(other / one)
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
        if seconds := shares.pop("cpu"):
            cpu[name] = Spread.of(seconds).median
        row = "; ".join(f"{measure} {Spread.of(values)}" for measure, values in shares.items() if values)
        print(f"{name}: {row}", flush=True)
    if {"50 agents", "200 agents"} <= cpu.keys():
        exponent = math.log(cpu["200 agents"] / cpu["50 agents"], 4)
        print(f"CPU grows with the number of agents to the power of {exponent:.2f}")


if __name__ == "__main__":
    main()
