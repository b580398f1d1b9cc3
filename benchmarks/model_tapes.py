"""What a replay without a model gives and costs: equal answers, changes that it notices, model calls, time.

    python benchmarks/model_tapes.py                      # everything; an hour on a busy machine
    python benchmarks/model_tapes.py --only fidelity --recordings 20 --version 2.13.0 --agent journey
    python benchmarks/model_tapes.py --only changes       # one run of the gate for each change
    python benchmarks/model_tapes.py --only cost

`fidelity` records each agent of taped_agents.py with each google-adk against a model that never says the same twice,
one case for each recording, and replays all without a key in a network namespace that has no interfaces (where that
is allowed, otherwise with a model at a closed port). A replay is equal if its events and scores are, apart from
ids and times.
`changes` applies each change of tests/integration/journey_changes.py to the recorded repository. `cost` counts model
calls and seconds of the weather example. Exit code 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from environments import PROJECT
from measuring import Spread, measure
from workload import weather_workspace

sys.path.insert(0, str(PROJECT / "examples"))
sys.path.insert(0, str(PROJECT / "examples" / "gemini_weather"))
sys.path.insert(0, str(PROJECT / "tests" / "integration"))

import host_forks
import journey_changes
import journey_runs
from fake_gemini import FakeGemini
from gate_runs import AGENT_EVAL, Done, Repository, repository_in
from serve import lead_weather_agent
from taped_agents import TAPED

VERSIONS = ("1.18.0", "1.39.1", "2.7.1", "2.13.0")
AGENTS, CASES = 5, 50
MOST_CALLS, MOST_TIME = 0.25, 1.3
"""The goals: calls as a share of a live run, seconds in multiples of the agent alone."""
_TIMES = {"invocation_id", "creation_timestamp", "duration", "model_duration", "tool_duration", "spans"}
_CALL_ID = re.compile(r"adk-[0-9a-f-]{36}")


def offline() -> list[str]:
    """The beginning of a command that runs without a network; empty where that is not allowed."""
    prefix = ["unshare", *(["-n"] if os.geteuid() == 0 else ["-r", "-n"])]
    allowed = shutil.which("unshare") and not subprocess.run([*prefix, "true"], capture_output=True).returncode
    return prefix if allowed else []


def run(repository: Repository, python: Path, *arguments: str, prefix: Sequence[str] = (), **more: str) -> Done:
    """Runs the gate in a new interpreter; `more` are variables."""
    interpreter = ("--agent-python", str(python), "--agent-env", "+RUNS_FILE")
    began = time.monotonic()
    done = subprocess.run(
        [*prefix, *AGENT_EVAL, "run", *interpreter, *arguments],
        cwd=repository.root,
        env=repository.environment({"CI": "", **more}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    output = repository.root / "agent-eval-results"
    return Done(code=done.returncode, out=done.stdout, err=done.stderr, output=output, seconds=time.monotonic() - began)


# --- Equal answers


def masked(done: Done) -> dict[str, Any]:
    """What each case's run did, without times, with ids by their first appearance; and its scores."""
    scores = {
        case.eval_id: [
            (metric.name, run.score, run.turn_scores)
            for metric in case.metrics
            for run in metric.runs
            if metric.name != "invocation_duration_v1"
        ]
        for case in done.report.cases
    }
    found = {}
    for recording in done.recordings:
        turns = [turn.model_dump(mode="json", exclude=_TIMES) for turn in recording.invocations]
        text = json.dumps(turns, sort_keys=True)
        for number, call_id in enumerate(dict.fromkeys(_CALL_ID.findall(text))):
            text = text.replace(call_id, f"call {number}")
        found[recording.eval_id] = {
            "turns": json.loads(text),
            "scores": scores[recording.eval_id],
            "error": recording.error and recording.error.kind,
            "message": recording.error and recording.error.message,
        }
    return found


def compared(live: Mapping[str, Any], replayed: Mapping[str, Any] | None) -> str:
    """What a replay is beside its recording."""
    if replayed is None:
        return "no run"
    if replayed["error"]:
        return f"missed: {replayed['error']}"
    if replayed == live:
        return "equal"
    sides = (live, replayed)
    if live["scores"] == replayed["scores"] and len({str(sorted(_events(side))) for side in sides}) == 1:
        return "equal, events in another order"
    return "WRONG"


def _events(run: Mapping[str, Any]) -> list[str]:
    return [
        json.dumps([number, turn["final_response"], event], sort_keys=True)
        for number, turn in enumerate(run["turns"])
        for event in turn["intermediate_data"]["invocation_events"]
    ]


def fidelity(name: str, version: str, recordings: int, seed: int, directory: Path) -> bool:
    """Prints a line of the table; whether nothing was wrong."""
    prefix, agent = offline(), TAPED[name]
    log = directory / "runs.txt"
    with repository_in(directory / "repo") as repository:
        agent.write(repository, recordings)
        python = journey_runs.python_of(version)
        with FakeGemini(agent.model(seed)) as model:
            where = {"GOOGLE_GEMINI_BASE_URL": model.url, "GOOGLE_API_KEY": "any"}
            recorded = run(repository, python, "--record", "all", **where, RUNS_FILE=str(log))
        live = masked(recorded)
        log.write_text("", "utf-8")
        done = run(repository, python, "--replay", "all", prefix=prefix, **journey_runs.CLOSED, RUNS_FILE=str(log))
    if done.code not in (0, 1, 3) or recorded.code not in (0, 1):
        print(recorded.out, recorded.err, done.out, done.err)
        return False
    replayed = masked(done)
    outcomes = {case: compared(run, replayed.get(case)) for case, run in live.items() if not run["error"]}
    for case, outcome in outcomes.items():
        if outcome != "equal":
            print(f"  {case}: {outcome} {replayed.get(case, {}).get('message') or ''}")
    uses = [recording.tools for recording in done.recordings if recording.tools is not None]
    left = Counter(filter(None, log.read_text("utf-8").split("\n")))
    sockets = left.pop("socket.connect", 0) + left.pop("socket.getaddrinfo", 0)
    ran, allowed = sum(use.live for use in uses) + left.total(), agent.live_tools * len(outcomes)
    print(
        f"{name} {version}: {dict(Counter(outcomes.values()))} of {len(outcomes)} recordings "
        f"({sum(use.model_calls for use in uses)} model calls, {sum(use.replayed for use in uses)} of tools, "
        f"{sum(run['scores'] != [] for run in live.values())} scored); in the replay {done.seconds:.1f} s, "
        f"sockets {sockets}, tools {ran}"
        f"{f' ({allowed} that no tape can answer)' if allowed else ''}, {'no network' if prefix else 'closed port'}",
        flush=True,
    )
    return set(outcomes.values()) == {"equal"} and len(outcomes) >= recordings and ran <= allowed and not sockets


# --- Changes


def changes(directory: Path, only: Sequence[str]) -> bool:
    """Prints what became of each change; whether it was what it must be."""
    python = host_forks.command(journey_runs.python_of())
    kept = True
    with repository_in(directory / "repo") as recorded:
        done = journey_runs.record(recorded, ("first", "other"), python)
        assert done.code == 0, done.out + done.err
        tables = {"alters": journey_changes.ALTERS, "harmless": {"nothing": (), **journey_changes.HARMLESS}}
        for kind, table in tables.items():
            for number, (name, edits) in enumerate(table.items()):
                if only and name not in only:
                    continue
                repository = journey_changes.changed(recorded, edits, directory / f"{kind}{number}")
                met, said = journey_changes.outcome(repository, python, alters=kind == "alters")
                kept &= met
                print(f"| {kind} | {name} | {said} | {'' if met else '**no**'} |", flush=True)
    return kept


# --- Cost


ALONE = """
import asyncio, json, sys
from google.adk.models.google_llm import Gemini
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types


async def answer(self, request, stream=False):
    part = request.contents[-1].parts[-1]
    if part.function_response:
        part = types.Part(text=str(part.function_response.response))
    else:
        city = part.text.rstrip("?").rpartition(" ")[2]
        part = types.Part(function_call=types.FunctionCall(name="get_forecast", args={"city": city}))
    yield LlmResponse(content=types.Content(role="model", parts=[part]))


Gemini.generate_content_async = answer
from gemini_weather.agent import root_agent


async def converse(runner, case):
    session = await runner.session_service.create_session(app_name="alone", user_id="u")
    for turn in case["conversation"]:
        said = types.Content.model_validate(turn["user_content"])
        async for _ in runner.run_async(user_id="u", session_id=session.id, new_message=said):
            pass


async def main():
    runner = InMemoryRunner(agent=root_agent, app_name="alone")
    with open("weather.test.json") as file:
        cases = json.load(file)["eval_cases"]
    await asyncio.gather(*(converse(runner, case) for case in cases))


asyncio.run(main())
"""
"""The agent without the gate, with a model that answers at once."""


def calls(directory: Path, python: Path) -> bool:
    """Model calls of a screening in which one of five agents has changed, beside those of a live run."""
    with repository_in(directory) as repository:
        for number in range(AGENTS):
            weather_workspace(repository.root / f"shop_{number}", cases=CASES // AGENTS)
        with FakeGemini(lead_weather_agent) as model:
            where = {"GOOGLE_GEMINI_BASE_URL": model.url, "GOOGLE_API_KEY": "any"}
            counted = []
            for arguments in ("--replay", "off"), ("--record", "all"), ("--replay", "missing-live"):
                if arguments == ("--replay", "missing-live"):
                    agent = repository.root / "shop_2" / "gemini_weather" / "agent.py"
                    text = agent.read_text("utf-8")
                    agent.write_text(text.replace("never guess.", "never guess. Be brief."), "utf-8")
                before = model.stats.requests
                done = run(repository, python, *arguments, **where)
                assert done.code == 0, done.out + done.err
                counted.append(model.stats.requests - before)
    live, recorded, screened = counted
    met = 0 < screened <= MOST_CALLS * live
    print(
        f"{CASES} cases, one of {AGENTS} agents changed: {screened} model calls of {live} ({screened / live:.0%}, "
        f"goal: {MOST_CALLS:.0%}); the recording took {recorded}"
    )
    return met


def seconds(directory: Path, python: Path, rounds: int) -> bool:
    """Seconds of a replay beside the agent alone, and beside the gate with a model on loopback that answers at once."""
    with repository_in(directory) as repository, FakeGemini(lead_weather_agent) as model:
        weather_workspace(repository.root, cases=CASES)
        (repository.root / "alone.py").write_text(ALONE, "utf-8")
        where = {"GOOGLE_GEMINI_BASE_URL": model.url, "GOOGLE_API_KEY": "any"}
        recorded = run(repository, python, "--record", "all", **where)
        assert recorded.code == 0, recorded.out + recorded.err
        gate = [*AGENT_EVAL, "run", "--agent-python", str(python)]
        sides: dict[str, tuple[list[str], Mapping[str, str]]] = {
            "replay": ([*offline(), *gate, "--replay", "all"], journey_runs.CLOSED),
            "alone": ([str(python), "alone.py"], where),
            "live": ([*gate], where),
        }
        times: dict[str, list[float]] = {name: [] for name in sides}
        cpu: dict[str, list[float]] = {name: [] for name in sides}
        for number in range(rounds + 1):
            for name, (command, variables) in list(sides.items())[:: 1 if number % 2 else -1]:
                before = model.stats.requests
                environment = repository.environment({"CI": "", **variables})
                environment.pop("PYTHONDONTWRITEBYTECODE", None)  # It would make the gate compile itself each time.
                measured = measure(command, cwd=repository.root, environment=environment)
                assert name == "live" or model.stats.requests == before, f"{name} asked the model"
                if number:  # The first round fills caches.
                    times[name].append(measured.seconds)
                    cpu[name].append(measured.cpu_seconds)
    for name in sides:
        print(f"{CASES} cases, {name}: {Spread.of(times[name])} s, {Spread.of(cpu[name])} s of CPU")
    ratios = {
        name: statistics.median(ours / theirs for ours, theirs in zip(times["replay"], times[name], strict=True))
        for name in ("alone", "live")
    }
    alone, live = ratios["alone"], ratios["live"]
    print(f"replayed / agent alone: {alone:.2f} (goal: {MOST_TIME}); replayed / gate, instant model: {live:.2f}")
    return ratios["alone"] <= MOST_TIME


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=("fidelity", "changes", "cost"))
    parser.add_argument("--recordings", type=int, default=20, help="with each google-adk")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--version", action="append", help="of google-adk, for `fidelity`")
    parser.add_argument("--agent", action="append", choices=TAPED, help="for `fidelity`")
    parser.add_argument("--change", action="append", default=[], help="one of `changes`")
    parser.add_argument("--rounds", type=int, default=5, help="of the times")
    arguments = parser.parse_args()
    only = arguments.only or ["fidelity", "changes", "cost"]
    steps: list[Callable[[Path], bool]] = []
    if "fidelity" in only:
        steps += [
            functools.partial(fidelity, name, version, arguments.recordings, arguments.seed)
            for name in arguments.agent or TAPED
            for version in arguments.version or VERSIONS
        ]
    if "changes" in only:
        steps.append(lambda folder: changes(folder, arguments.change))
    if "cost" in only:
        python = journey_runs.python_of()
        steps += [
            lambda folder: calls(folder / "calls", python),
            lambda folder: seconds(folder / "seconds", python, arguments.rounds),
        ]
    kept = True
    for step in steps:
        with tempfile.TemporaryDirectory(prefix="model-tapes-") as folder:
            kept &= step(Path(folder))
    print(f"load: {os.getloadavg()[0]:.1f}")
    return int(not kept)


if __name__ == "__main__":
    sys.exit(main())
