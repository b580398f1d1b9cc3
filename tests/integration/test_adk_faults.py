"""What becomes of a turn, and of its neighbours, when an agent fails, hangs, dies or floods."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from adk_envs import FIXTURES, MATRIX, adk_python
from adk_harness import failure, failure_lines, forked, make, pid, request, running, say, turn_lines
from gate_runs import is_gone, patience, wait_until
from golden_files import check

from agent_eval_agents.adk._driver import AdkAgent
from agent_eval_agents.messages import AgentDescribed
from agent_eval_agents.protocol import AgentFailure, FailureKind
from agent_eval_scoring.core.content import text_of, user_message
from agent_eval_scoring.core.invocation import InvocationEvents, tool_calls, tool_responses

pytestmark = pytest.mark.asyncio(loop_scope="module")
SECRET = "s3cret-value-of-the-job"


def children() -> set[str]:
    """Processes of hosts that have the secret, and zombies, whose environment is empty."""
    numbers = {n for path in Path("/proc/self/task").glob("*/children") for n in path.read_text("utf-8").split()}
    environments = {n: Path(f"/proc/{n}/environ").read_bytes() for n in numbers}
    return {n for n, environment in environments.items() if SECRET.encode() in environment or not environment}


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs")


@pytest_asyncio.fixture(
    scope="module", loop_scope="module", params=["parent", pytest.param("interpreters", marks=pytest.mark.slow)]
)
async def faulty(request: pytest.FixtureRequest, logs: Path) -> AsyncIterator[AdkAgent]:
    """Its hosts are forked by a parent, or new interpreters: they fail and end alike."""
    before = children()
    facts = {"environment": {"JOB_SECRET": SECRET}, "secrets": [SECRET], "log_limit": 200_000}
    async with contextlib.AsyncExitStack() as stack:
        parents = await stack.enter_async_context(forked()) if request.param == "parent" else {}
        yield await stack.enter_async_context(running("faults", logs, **facts, **parents))
    assert children() <= before  # no process is left, and no zombie


FAULTS = {
    **dict.fromkeys(["raise", "raise:3990", "model raises", "sys.exit", "os._exit", "abort", "garbage"], 60.0),
    **dict.fromkeys(["lie:content", "lie:waiting", "lie:event", "print", "inherit", "fork", "odd"], 60.0),
    **dict.fromkeys(["sleep:60", "task", "stubborn", "loop"], 1.0),
}
"""What the agent is asked, and the seconds that it has for it."""


async def test_faults__what_is_said_of_them(faulty: AdkAgent, logs: Path) -> None:
    shown = {}
    before = await pid(faulty)
    for word, timeout in FAULTS.items():
        try:
            shown[word] = turn_lines(await say(faulty, word, timeout=timeout))
        except AgentFailure as error:
            shown[word] = failure_lines(error)
        if word == "sys.exit":
            assert await pid(faulty) == before, "it hurts its own session only"
        elif word not in {"raise", "raise:3990", "model raises"}:
            await pid(faulty)  # A host's first turn takes longer: it must be in the agent's code when its time is up.
    check("golden_faults.txt", page(shown))
    assert not any(SECRET.encode() in path.read_bytes() for path in logs.glob("*.log"))


def page(shown: dict[str, list[str]]) -> str:
    """What is shown of each, without what differs between machines."""
    text = "".join("\n".join([f"# {name}", *lines, "\n"]) for name, lines in shown.items())
    text = re.sub(r"\n *For further information.*|(?m:^[ ~^]+\n)", "", text)
    text = re.sub(r"\bline[ =]\d+|'line': \d+|(?<=agent\.py):\d+", "line N", text)
    text = re.sub(r"adk-[-0-9a-f]{36}", "ID", re.sub(r"\bfor [\d.]+ s\b", "for N s", text))
    return re.sub(r"([xy] )\1{20,}", r"\1\1", text).replace(str(FIXTURES), "FIXTURES")


async def test_faults__neighbours_of_sys_exit_and_of_a_cancelled_turn_go_on(faulty: AdkAgent) -> None:
    before = await pid(faulty)
    neighbour = asyncio.create_task(say(faulty, "sleep:0.5"))
    cancelled = asyncio.create_task(say(faulty, "sleep:60"))
    assert (await failure(faulty, "sys.exit")).kind is FailureKind.CRASH
    await asyncio.sleep(0.3)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert text_of((await neighbour).final_response) == "sleep:0.5"
    assert await pid(faulty) == before


async def test_faults__neighbours_of_a_crash_are_collateral_and_succeed_alone(faulty: AdkAgent) -> None:
    innocent = await faulty.open(request(eval_id="innocent"))
    idle = await faulty.open(request(eval_id="idle"))
    await idle.send(user_message("say first"), timeout=20)
    waiting = asyncio.create_task(innocent.send(user_message("sleep:30"), timeout=60))
    await asyncio.sleep(0.2)
    guilty = await failure(faulty, "os._exit")
    with pytest.raises(AgentFailure) as caught:
        await waiting
    with pytest.raises(AgentFailure) as caught_idle:
        await idle.send(user_message("say second"), timeout=20)
    await innocent.close()
    await idle.close()
    assert guilty.collateral
    assert caught.value.collateral
    assert caught_idle.value.collateral
    assert not (await failure(faulty, "os._exit", isolated=True)).collateral
    assert text_of((await say(faulty, "say alone", isolated=True)).final_response) == "say alone"


@pytest.mark.parametrize("how", ["exit", "abort", "close", "loop"])
async def test_faults__what_an_ended_session_left_behind_is_collateral(faulty: AdkAgent, how: str) -> None:
    await say(faulty, f"late:{how}", case_id="does")
    late = await failure(faulty, "sleep:30", case_id="beside", timeout=2 * patience())
    assert late.kind in {FailureKind.CRASH, FailureKind.PROTOCOL, FailureKind.DEADLINE}
    assert (late.collateral, list(late.served)[-2:]) == (True, ["does", "beside"])
    assert text_of((await say(faulty, "say again", case_id="beside", isolated=True)).final_response) == "say again"


async def test_faults__a_process_that_is_killed_or_closes_its_descriptors(faulty: AdkAgent) -> None:
    number = await pid(faulty)
    session = asyncio.create_task(failure(faulty, "sleep:30"))
    await asyncio.sleep(0.2)
    os.kill(number, signal.SIGKILL)
    killed = await session
    assert killed.message == "The agent's process was killed by SIGKILL (signal 9)."
    assert "memory" in (killed.hint or "")
    assert (killed.kind, killed.collateral) == (FailureKind.CRASH, True)
    assert (await failure(faulty, "close")).kind in (FailureKind.CRASH, FailureKind.PROTOCOL)
    assert text_of((await say(faulty, "say again")).final_response) == "say again"


@pytest.mark.slow
async def test_faults__many_sessions_share_the_hosts_and_what_they_leave_behind_ends_with_these(tmp_path: Path) -> None:
    async with running("faults", tmp_path / "logs", workers=2) as agent:
        started = time.monotonic()
        answers = await asyncio.gather(*(say(agent, "pid", "sleep:0.5") for _ in range(40)))
        assert time.monotonic() - started < 12  # one after another they would take 20 s
        assert len(answers) == 40
        first = await asyncio.gather(*(agent.open(request()) for _ in range(4)))
        assert {session.host.sessions for session in first} == {2}
        await asyncio.gather(*(session.close() for session in first))
        stray = await pid(agent, "stray")
    assert is_gone(stray)


@pytest.mark.slow
@pytest.mark.parametrize("seen_from", ["idle", "loop"])
async def test_faults__a_host_ends_when_the_gate_is_gone(tmp_path: Path, seen_from: str) -> None:
    script = tmp_path / "gate.py"
    script.write_text(
        "import asyncio, sys, os\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from pathlib import Path\n"
        "from adk_harness import make, request\n"
        "from agent_eval_scoring.core.content import user_message\n"
        "async def main():\n"
        f"    agent = make('faults', Path({str(tmp_path / 'logs')!r}))\n"
        "    await agent.start()\n"
        "    session = await agent.open(request())\n"
        "    print(session.host._process.pid, flush=True)\n"
        f"    await session.send(user_message({'loop' if seen_from == 'loop' else 'sleep:60'!r}), timeout=60)\n"
        "asyncio.run(main())\n",
        encoding="utf-8",
    )
    gate = await asyncio.create_subprocess_exec(sys.executable, str(script), stdout=asyncio.subprocess.PIPE)
    assert gate.stdout is not None
    number = int(await asyncio.wait_for(gate.stdout.readline(), 30))
    await asyncio.sleep(1.0)
    gate.kill()
    await gate.wait()
    try:
        wait_until(lambda: is_gone(number), seconds=5)
    except AssertionError:
        os.killpg(number, signal.SIGKILL)
        raise


@pytest.mark.slow
async def test_faults__close_ends_sessions_in_flight_and_may_be_repeated(tmp_path: Path) -> None:
    agent = make("faults", tmp_path / "logs")
    await agent.start()
    pending = asyncio.create_task(failure(agent, "sleep:60"))
    await asyncio.sleep(0.3)
    await agent.close()
    await agent.close()
    assert (await pending).kind is FailureKind.CRASH


@pytest.mark.slow
@pytest.mark.parametrize(
    ("blocked", "time_of_the_guilty"),
    [
        (3.7, 3),  # it can still be stopped
        (3.7, 60),  # it is not late itself
        (9, 3),  # it must be killed
    ],
)
async def test_a_blocked_loop__whatever_the_timing_the_neighbours_are_run_again_apart(
    logs: Path, blocked: float, time_of_the_guilty: float
) -> None:
    async with running("waits", logs) as agent:
        await say(agent, "warm up")
        neighbours = [asyncio.create_task(failure(agent, "sleep:3.3", timeout=3)) for _ in range(3)]
        await asyncio.sleep(0.3)
        guilty = await asyncio.gather(
            say(agent, f"block:{blocked}", timeout=time_of_the_guilty), return_exceptions=True
        )
        errors = await asyncio.gather(*neighbours)
        alone = await say(agent, "sleep:0.1", isolated=True)
    assert all(error.collateral for error in errors)
    assert all(isinstance(error, AgentFailure) and error.collateral for error in guilty if time_of_the_guilty == 3)
    assert text_of(alone.final_response) == "done"


# The same turns on every supported google-adk give the same invocations (measured shapes of google-adk 2.13.0).


DESCRIBED: list[AgentDescribed] = []
"""The agents, as the host describes them."""


@pytest_asyncio.fixture(params=MATRIX, scope="module", loop_scope="module")
async def shapes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[AdkAgent]:
    logs: Path = tmp_path_factory.mktemp("logs")
    DESCRIBED.clear()
    facts = {"python": adk_python(request.param), "described": DESCRIBED}
    async with forked() as parents, running("shapes", logs, **facts, **parents) as agent:
        assert agent.provenance["adk"] == request.param
        yield agent


SHAPES = (
    *("plain", "text and call", "parallel", "long now", "missing argument", "before agent", "streamed", "thought"),
    *("bytes", "skip", "long later", "agent tool", "sequence", "error", "empty", "nothing", "silent"),
)
"""What the agent is asked; each leads to another shape of a turn."""


async def test_matrix__shapes_of_turns(shapes: AdkAgent) -> None:
    shown = {}
    for message in SHAPES:
        try:
            turn = await say(shapes, message)
        except AgentFailure as error:
            shown[message] = failure_lines(error)
            continue
        shown[message] = turn_lines(turn)
        calls, responses = tool_calls(turn.intermediate_data), tool_responses(turn.intermediate_data)
        spans = [span.call_id for span in turn.spans or () if span.kind == "tool" and span.agent != "helper"]
        assert {response.id for response in responses} <= {call.id for call in calls} == set(spans) - {None}
        assert turn.duration is not None and turn.creation_timestamp > 1_700_000_000
        assert 0 <= (turn.model_duration or 0) + (turn.tool_duration or 0) <= turn.duration + 0.002
        times = sorted(moment for span in turn.spans or () for moment in (span.start, span.end))
        assert not times or (times[0] >= 0 and times[-1] <= turn.duration + 0.002)
        if message == "text and call":
            assert times == [moment for span in turn.spans or () for moment in (span.start, span.end)]
        elif message == "agent tool":
            assert turn.spans is not None
            assert all(turn.spans[1].start <= span.start <= span.end <= turn.spans[1].end for span in turn.spans[2:5])
    check("golden_shapes.txt", page(shown))


async def test_matrix__several_agents(shapes: AdkAgent) -> None:
    transfer = turn_lines(await say(shapes, "transfer"))
    assert "'function_call': {'id'" in transfer[0] and "'name': 'transfer_to_agent'" in transfer[0]
    assert any(line.startswith("= ") and "The specialist says hello." in line for line in transfer)
    both = (await say(shapes, "both")).intermediate_data
    assert isinstance(both, InvocationEvents)
    branches = {event.author: event.branch for event in both.invocation_events}
    assert branches.keys() == {"left", "right"}
    assert all(branch is not None and branch.endswith(f".{author}") for author, branch in branches.items()), branches


async def test_matrix__the_agents_are_described(shapes: AdkAgent) -> None:
    await say(shapes, "say hi")
    root = DESCRIBED[0]
    assert (root.name, len(DESCRIBED)) == (shapes.provenance["agent"], 12)
    assert set(root.sub_agents) < {agent.name for agent in DESCRIBED}
    tools = [tool for agent in DESCRIBED for tool in agent.tools]
    own = {tool.name: tool.code for tool in tools if tool.code is not None}
    assert {place.file for place in own.values()} == {"shapes/agent.py"}
    assert {tool.name for tool in tools if tool.declaration} == {"add", "ask_boss", "show"}
    assert root.code is not None
    assert (root.code.file, root.code.symbol) == ("shapes/agent.py", "root_agent")
