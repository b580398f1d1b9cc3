"""What recorded tools cost and give: overhead of a replayed call, time of `validate`, spread of pass rates.

    python benchmarks/tapes.py --agent-python PYTHON     # an interpreter with google-adk

A turn of 50 parallel calls of a tool that does nothing runs live and replayed; the sides alternate, so that a machine
that slows down meets both. Then `agent-eval validate` checks 1,000 cases without tapes and with tapes of 20 calls. Exit
code 1 if a goal is missed. Last, the spread of pass rates of an agent whose tool and whose model are sometimes wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_eval_agents.adk._driver import RETRY_OPTIONS, AdkAgent
from agent_eval_agents.host import HostSpec, ModelOutages
from agent_eval_agents.messages import ModelAsked, ModelRan, ToolAsked, ToolRan, ToolsetAsked, ToolsetListed
from agent_eval_agents.protocol import Look, SessionRequest, SoFar
from agent_eval_agents.sandbox import Sandbox
from agent_eval_agents.tapes import (
    Mode,
    RecordedCall,
    Tape,
    TapeIndex,
    TapeSession,
    ToolHashes,
    ToolRules,
    tape_of,
    tape_path,
    write_tape,
)
from agent_eval_scoring.core.content import text_of, user_message
from agent_eval_scoring.core.limiter import Limiter
from agent_eval_scoring.core.masking import Masker

NOISY = """
import random
from google.adk.agents import Agent
from google.adk.models import BaseLlm, LlmResponse
from google.genai import types

TOOL, MODEL = 0.8, 0.9


def look_up() -> dict:
    return {"answer": "right" if random.random() < TOOL else "wrong"}


class Model(BaseLlm):
    model: str = "scripted"

    async def generate_content_async(self, llm_request, stream=False):
        last = llm_request.contents[-1].parts[0]
        if last.function_response:
            text = last.function_response.response["answer"] if random.random() < MODEL else "no idea"
            part = types.Part(text=text)
        else:
            part = types.Part(function_call=types.FunctionCall(name="look_up", args={}))
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


root_agent = Agent(name="bot", model=Model(), tools=[look_up])
"""
"""An agent whose tool is right in 80% of the calls, and whose model is right in 90% of the turns."""
CALLS, CASES, CALLS_OF_A_CASE = 50, 1_000, 20
GOAL_MS, GOAL_SECONDS = 2.0, 2.0
AGENT = f"""
from google.adk.agents import Agent
from google.adk.models import BaseLlm, LlmResponse
from google.genai import types


def get(number: int) -> dict:
    return {{"number": number}}


class Model(BaseLlm):
    model: str = "scripted"

    async def generate_content_async(self, llm_request, stream=False):
        last = llm_request.contents[-1].parts[0]
        if last.function_response:
            parts = [types.Part(text="Done.")]
        else:
            calls = [types.FunctionCall(name="get", args={{"number": number}}) for number in range({CALLS})]
            parts = [types.Part(function_call=call) for call in calls]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


root_agent = Agent(name="bot", model=Model(), tools=[get])
"""


class Decider:
    """`protocol.CallDecider` on top of a tape."""

    def __init__(self, session: TapeSession) -> None:
        self.session = session

    async def ask(self, call: ToolAsked, so_far: SoFar, look: Look) -> Mapping[str, Any]:
        return await self.session.ask(call, look)

    async def model(self, asked: ModelAsked) -> Mapping[str, Any]:
        return {"do": "run"}

    def model_news(self, news: Any) -> None:
        pass

    def model_ran(self, result: ModelRan) -> None:
        """Nothing: this measures tools."""

    def held(self) -> None: ...

    def ran(self, result: ToolRan) -> None:
        self.session.ran(result)

    def event(self, event: Mapping[str, Any]) -> None:
        """No order is kept here."""

    def toolset(self, toolset: ToolsetAsked) -> Mapping[str, Any]:
        return self.session.toolset(toolset)

    def listed(self, listing: ToolsetListed) -> None:
        self.session.listed(listing)


def agent_in(directory: Path, source: str, python: str, *, asks: bool) -> AdkAgent:
    """The agent of this source, not started."""
    package = directory / "bot"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").write_text("from . import agent\n", encoding="utf-8")
    (package / "agent.py").write_text(source, encoding="utf-8")
    outages = ModelOutages(turn_timeout=60, limiter=Limiter(64), log=print)
    spec = HostSpec(
        python=[python],
        agent_path=str(package),
        root=directory,
        sandbox=Sandbox(environment={"PATH": os.environ["PATH"], "HOME": str(directory)}),
        masker=Masker(),
        log_dir=directory,
        retry=RETRY_OPTIONS,
        asks_for_tools=asks,
    )
    return AdkAgent(spec, outages)


def tape_from(recorder: TapeSession) -> TapeIndex:
    """The tape of a recorded session."""
    taped = tape_of([recorder], recorder.rules)
    tape = Tape(eval_set_id="s", eval_id="c", recorded_at=0, tools=dict(taped.tools), calls=list(taped.calls))
    return TapeIndex(tape, recorder.rules)


async def answer(agent: AdkAgent, tools: Decider) -> str:
    """What the agent answers in a session of its own."""
    session = await agent.open(
        SessionRequest(eval_set_id="s", eval_id="c", run=0, app_name="a", user_id="u", tools=tools)
    )
    invocation = await session.send(user_message("go"), timeout=60)
    await session.close()
    return text_of(invocation.final_response)


async def noise(python: str, gates: int, runs: int, directory: Path) -> dict[str, list[float]]:
    """Pass rates of one case in many gates of so many runs, with a live tool and with a recorded one."""
    agent = agent_in(directory, NOISY, python, asks=True)
    rules = ToolRules()

    def session(mode: Mode, index: TapeIndex | None = None) -> Decider:
        return Decider(TapeSession(mode=mode, rules=rules, index=index))

    try:
        await agent.start()
        recorder = session("record")
        while await answer(agent, recorder) != "right":  # as an author does: the tape that is committed is right
            recorder = session("record")
        index = tape_from(recorder.session)
        rates: dict[str, list[float]] = {"live": [], "replay": []}
        for _ in range(gates):
            for name in rates:
                deciders = [session("replay", index) if name == "replay" else session("record") for _ in range(runs)]
                answers = [await answer(agent, decider) for decider in deciders]
                rates[name].append(answers.count("right") / runs)
    finally:
        await agent.close()
    return rates


async def turn(agent: AdkAgent, tools: Decider | None) -> float:
    """Milliseconds of a turn."""
    session = await agent.open(
        SessionRequest(eval_set_id="s", eval_id="c", run=0, app_name="a", user_id="u", tools=tools)
    )
    begun = time.perf_counter()
    await session.send(user_message("go"), timeout=60)
    milliseconds = (time.perf_counter() - begun) * 1_000
    await session.close()
    return milliseconds


async def overhead(python: str, rounds: int, directory: Path) -> tuple[float, float, float]:
    """Milliseconds of a call: live, replayed, and the median of the differences."""
    live, asking = (agent_in(directory, AGENT, python, asks=asks) for asks in (False, True))
    try:
        await asyncio.gather(live.start(), asking.start())
        rules = ToolRules()
        recorder = TapeSession(mode="record", rules=rules, index=None)
        await turn(asking, Decider(recorder))
        index = tape_from(recorder)
        times: list[tuple[float, float]] = []
        for _ in range(rounds + 1):
            player = TapeSession(mode="replay", rules=rules, index=index)
            times.append((await turn(live, None) / CALLS, await turn(asking, Decider(player)) / CALLS))
            assert player.use.replayed == CALLS
    finally:
        await asyncio.gather(live.close(), asking.close())
    times = times[1:]  # the first turn imports
    return (
        statistics.median(one for one, _ in times),
        statistics.median(other for _, other in times),
        statistics.median(other - one for one, other in times),
    )


def validation(directory: Path) -> tuple[float, float]:
    """Seconds of `agent-eval validate` without tapes and with them; the faster of two runs each."""
    evals = directory / "evals"
    evals.mkdir()
    content = {"parts": [{"text": "hello"}]}
    conversation = [{"user_content": content, "final_response": content}]
    cases = [{"eval_id": f"case_{number}", "conversation": conversation} for number in range(CASES)]
    (evals / "big.evalset.json").write_text(json.dumps({"eval_set_id": "big", "eval_cases": cases}), encoding="utf-8")

    def seconds() -> float:
        begun = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "agent_eval", "validate"], cwd=directory, check=True, stdout=subprocess.DEVNULL
        )
        return time.perf_counter() - begun

    without = min(seconds(), seconds())
    for number in range(CASES):
        tape = Tape(
            eval_set_id="big",
            eval_id=f"case_{number}",
            recorded_at=0,
            tools={"search": ToolHashes(declaration="d", source="s")},
            calls=[
                RecordedCall(tool="search", args={"city": "Oslo", "page": page}, response={"rooms": ["a room"] * 20})
                for page in range(CALLS_OF_A_CASE)
            ],
        )
        write_tape(tape_path(directory, "evals/big.evalset.json", tape.eval_id), tape)
    return without, min(seconds(), seconds())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent-python", required=True, help="an interpreter with google-adk")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--gates", type=int, default=60, help="for the spread of pass rates")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        live, replayed, more = asyncio.run(overhead(arguments.agent_python, arguments.rounds, Path(folder)))
    print(f"a call: {live:.2f} ms live, {replayed:.2f} ms replayed: {more:.2f} ms more (goal: below {GOAL_MS:g})")
    with tempfile.TemporaryDirectory() as folder:
        without, with_tapes = validation(Path(folder))
    difference = with_tapes - without
    print(
        f"validate, {CASES:,} cases: {without:.2f} s, with tapes of {CALLS_OF_A_CASE} calls {with_tapes:.2f} s: "
        f"{difference:.2f} s more (goal: below {GOAL_SECONDS:g})"
    )
    with tempfile.TemporaryDirectory() as folder:
        rates = asyncio.run(noise(arguments.agent_python, arguments.gates, 10, Path(folder)))
    for name, values in rates.items():
        mean, spread = statistics.mean(values), statistics.stdev(values)
        print(f"pass rate of 10 runs, {name}: mean {mean:.2f}, standard deviation {spread:.3f} ({len(values)} gates)")
    print(f"load: {os.getloadavg()[0]:.1f}")
    return int(more >= GOAL_MS or difference >= GOAL_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
