"""What a turn costs behind ADK's REST interface, beside the same agent in a host: the overhead of a remote turn.

    python benchmarks/remote_turn.py --agent-python PYTHON     # an interpreter with google-adk

Both sides run examples/home_automation, which needs no model, and keep sessions in memory. Sessions of two turns run
one after another, and the sides alternate, so that a machine that slows down meets both. A session is its start, its
first turn and its end; a turn is the second one. Exit code 1 if the overhead of a turn is above its goal.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from agent_eval_agents.adk._driver import RETRY_OPTIONS, AdkAgent
from agent_eval_agents.driver import AgentSpec, DriverContext, RemoteOptions, ServerSpec
from agent_eval_agents.host import HostSpec, ModelOutages
from agent_eval_agents.protocol import SessionRequest
from agent_eval_agents.registry import driver_of
from agent_eval_agents.sandbox import Sandbox
from agent_eval_scoring.core.content import text_of, user_message
from agent_eval_scoring.core.limiter import Limiter
from agent_eval_scoring.core.masking import Masker

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "home_automation"
GOAL_MS = 30.0
MESSAGE = "Turn on the bedroom lamp."


async def measured(agent: object, answers: set[str]) -> tuple[float, float]:
    """Milliseconds of a session without its second turn, and of its second turn."""
    begun = time.perf_counter()
    session = await agent.open(  # type: ignore[attr-defined]
        SessionRequest(eval_set_id="s", eval_id="c", run=0, app_name="home", user_id="u")
    )
    first = await session.send(user_message(MESSAGE), timeout=60)
    between = time.perf_counter()
    second = await session.send(user_message(MESSAGE), timeout=60)
    turn = time.perf_counter() - between
    await session.close()
    answers |= {text_of(first.final_response), text_of(second.final_response)}
    return (time.perf_counter() - begun - turn) * 1000, turn * 1000


async def compare(python: str, turns: int, directory: Path, *, memory: bool) -> bool:
    agents = directory / "agents"  # A copy: `adk api_server` writes a database beside the agent.
    shutil.copytree(EXAMPLE, agents / "home_automation", ignore=shutil.ignore_patterns("__pycache__", "evals"))
    sandbox = Sandbox(environment={"PATH": os.environ["PATH"], "HOME": str(directory)})
    outages = ModelOutages(turn_timeout=60, limiter=Limiter(64), log=print)
    host = AdkAgent(
        HostSpec(
            python=[python],
            agent_path=str(agents / "home_automation"),
            root=agents,
            sandbox=sandbox,
            masker=Masker(),
            log_dir=directory,
            retry=RETRY_OPTIONS,
        ),
        outages,
    )
    sessions = ("--session_service_uri", "memory://") if memory else ()
    server = ServerSpec(
        name="home",
        command=(python, "-m", "google.adk.cli", "api_server", "--port", "{port}", *sessions, str(agents)),
        app="home_automation",
    )
    context = DriverContext(
        root=agents,
        python=None,
        requirements=None,
        interpreter=None,
        setup=None,
        installer={},
        sandbox=sandbox,
        masker=Masker(),
        workers=1,
        cache_dir=directory,
        log_dir=directory,
        log=print,
        limiter=Limiter(8),
        turn_timeout=60,
        remote=RemoteOptions(servers={"home": server}),
    )
    spec = AgentSpec(source="home", directory=None, working_directory=agents, context=context)
    remote = driver_of("server:home").create(spec)
    sides: dict[str, list[tuple[float, float]]] = {"host": [], "remote": []}
    answers: set[str] = set()
    try:
        await asyncio.gather(host.start(), remote.start())
        for number in range(turns + 5):
            for name, agent in sorted({"host": host, "remote": remote}.items(), reverse=bool(number % 2)):
                times = await measured(agent, answers)
                if number >= 5:  # after the first ones, which import and compile
                    sides[name].append(times)
    finally:
        await asyncio.gather(host.close(), remote.close())
    if len(answers) != 1:
        sys.exit(f"the sides gave different answers: {sorted(answers)}")
    overhead = 0.0
    for column, what in enumerate(("session", "turn")):
        of = {name: [times[column] for times in rows] for name, rows in sides.items()}
        for name, column_of in of.items():
            shown = f"{min(column_of):.1f} to {max(column_of):.1f}"
            print(f"{what:<8} {name:<7} {statistics.median(column_of):6.1f} ms ({shown})")
        overhead = statistics.median(of["remote"]) - statistics.median(of["host"])
    print(f"overhead of a remote turn: {overhead:.1f} ms (goal: less than {GOAL_MS:g} ms)")
    return overhead < GOAL_MS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent-python", required=True, metavar="PYTHON")
    parser.add_argument("--turns", type=int, default=100, metavar="N")
    parser.add_argument("--sqlite", action="store_true", help="sessions in a database, the default of adk api_server")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="agent-eval-bench-") as directory:
        comparing = compare(arguments.agent_python, arguments.turns, Path(directory), memory=not arguments.sqlite)
        return 0 if asyncio.run(comparing) else 1


if __name__ == "__main__":
    sys.exit(main())
