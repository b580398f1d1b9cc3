"""What becomes of a turn, and of its neighbours, when an agent fails, hangs, dies or floods."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from adk_envs import MATRIX, adk_python
from adk_harness import failure, make, pid, request, running, say
from gate_runs import is_gone, wait_until

from agent_eval.agents.adk._driver import AdkAgent
from agent_eval.agents.messages import AgentDescribed
from agent_eval.agents.protocol import AgentFailure, FailureKind, Owner
from agent_eval.core.content import Part, text_of, user_message
from agent_eval.core.invocation import Invocation, InvocationEvents, Raised, tool_calls, tool_responses
from agent_eval.results import Waited

pytestmark = pytest.mark.asyncio(loop_scope="module")
SECRET = "s3cret-value-of-the-job"


def children() -> set[str]:
    return {
        number
        for path in Path("/proc/self/task").glob("*/children")
        for number in path.read_text(encoding="utf-8").split()
    }


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def faulty(logs: Path) -> AsyncIterator[AdkAgent]:
    before = children()
    async with running(
        "faults", logs, environment={"JOB_SECRET": SECRET}, secrets=[SECRET], log_limit=200_000
    ) as agent:
        yield agent
    assert children() <= before  # no process is left, and no zombie


async def test_faults__an_exception_of_a_tool(faulty: AdkAgent) -> None:
    error = await failure(faulty, "raise")
    assert (error.kind, error.owner, error.collateral) == (FailureKind.EXCEPTION, Owner.AGENT, False)
    assert error.message == "The agent raised ValueError: the tool is broken"
    assert error.traceback is not None
    assert 'raise ValueError("the tool is broken")' in error.traceback
    assert "agent_eval_host" not in error.traceback
    line = error.traceback.partition('faults/agent.py", line ')[2].partition(",")[0]
    assert error.raised == Raised(type="ValueError", file="faults/agent.py", line=int(line), symbol="fail")
    assert error.unfinished is not None
    assert text_of(error.unfinished.user_content) == "raise"
    assert [call.args for call in tool_calls(error.unfinished.intermediate_data)] == [{"how": "raise"}]
    assert [(span.kind, span.raised) for span in error.unfinished.spans or ()] == [
        ("model", None),
        ("tool", error.raised),
    ]
    assert error.unfinished.app_details is not None
    assert len(error.unfinished.app_details.agent_details) == 1

    error = await failure(faulty, "model raises")
    assert (error.kind, error.owner) == (FailureKind.EXCEPTION, Owner.AGENT)
    assert "RuntimeError: the model object is broken" in error.message


async def test_faults__sys_exit_hurts_only_its_own_session(faulty: AdkAgent) -> None:
    before = await pid(faulty)
    neighbour = asyncio.create_task(say(faulty, "sleep:0.5"))
    error = await failure(faulty, "sys.exit")
    assert error.kind is FailureKind.CRASH
    assert "sys.exit(3)" in error.message
    assert not error.collateral
    assert text_of((await neighbour).final_response) == "sleep:0.5"
    assert await pid(faulty) == before


async def test_faults__a_process_that_ends(faulty: AdkAgent) -> None:
    left = await failure(faulty, "os._exit")
    assert left.message == "The agent's process exited with code 7."
    assert (left.log_tail or "").endswith("about to leave")
    crashed = await failure(faulty, "abort")
    assert "SIGSEGV" in crashed.message
    assert "Segmentation fault" in (crashed.log_tail or "") or "agent.py" in (crashed.log_tail or "")
    number = await pid(faulty)
    session = asyncio.create_task(failure(faulty, "sleep:30"))
    await asyncio.sleep(0.2)
    os.kill(number, signal.SIGKILL)
    killed = await session
    assert killed.message == "The agent's process was killed by SIGKILL (signal 9)."
    assert "memory" in (killed.hint or "")
    assert {(error.kind, error.collateral) for error in (left, crashed, killed)} == {(FailureKind.CRASH, False)}
    assert text_of((await say(faulty, "say again")).final_response) == "say again"


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


async def test_faults__a_turn_that_waits_too_long_is_stopped(faulty: AdkAgent) -> None:
    before = await pid(faulty)
    error = await failure(faulty, "sleep:60", timeout=0.5)
    assert (error.kind, error.owner, error.collateral) == (FailureKind.DEADLINE, Owner.AGENT, False)
    assert "waiting for the tool fail" in error.message
    assert "await asyncio.sleep(float(seconds))" in (error.traceback or "")
    assert error.waited is not None
    assert (error.waited.kind, error.waited.name, error.waited.symbol) == ("tool", "fail", "fail")
    assert (error.waited.file, 0.0 < error.waited.seconds < 60.0) == ("faults/agent.py", True)
    assert error.unfinished is not None
    assert [call.name for call in tool_calls(error.unfinished.intermediate_data)] == ["fail"]
    assert [span.kind for span in error.unfinished.spans or ()] == ["model"]
    assert await pid(faulty) == before


async def test_faults__an_endless_loop_is_killed_and_shown(faulty: AdkAgent) -> None:
    started = time.monotonic()
    error = await failure(faulty, "loop", timeout=3)
    assert time.monotonic() - started < 30
    assert (error.kind, error.collateral) == (FailureKind.DEADLINE, False)
    assert "while True:" in (error.traceback or "")
    assert error.waited == Waited(file="faults/agent.py", line=error.waited and error.waited.line, symbol="fail")
    assert error.unfinished is not None
    assert [call.name for call in tool_calls(error.unfinished.intermediate_data)] == ["fail"]
    assert text_of((await say(faulty, "say hi")).final_response) == "say hi"


async def test_faults__a_task_that_refuses_to_be_cancelled(faulty: AdkAgent) -> None:
    await pid(faulty)  # A host's first turn takes longer: it must be in the agent's code when its time is up.
    error = await failure(faulty, "stubborn", timeout=1)
    assert error.kind is FailureKind.DEADLINE
    assert "could not be stopped" in error.message
    assert "in fail" in (error.traceback or "")


async def test_faults__cancelling_a_send_stops_the_turn_and_leaves_the_host(faulty: AdkAgent) -> None:
    before = await pid(faulty)
    task = asyncio.create_task(say(faulty, "sleep:60"))
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await pid(faulty) == before


async def test_faults__secrets_are_masked_in_answers_and_logs(faulty: AdkAgent, logs: Path) -> None:
    invocation = await say(faulty, "print")
    assert SECRET not in invocation.model_dump_json()
    assert tool_responses(invocation.intermediate_data)[0].response == {"value": "***"}
    error = await failure(faulty, "os._exit")
    assert "the value is ***\nraw ***\nchild ***" in (error.log_tail or "")
    assert not any(SECRET.encode() in path.read_bytes() for path in logs.glob("*.log"))
    error = await failure(faulty, "raise:3990")
    assert "x x x" in error.message
    assert SECRET[:6] not in error.message, "a long message is not cut in a secret"


async def test_faults__what_breaks_the_protocol(faulty: AdkAgent) -> None:
    for lie in ("garbage", "lie:content", "lie:waiting"):
        error = await failure(faulty, lie)
        assert (error.kind, error.owner) == (FailureKind.PROTOCOL, Owner.AGENT), lie
        assert lie != "garbage" or "this is not JSON" in error.message
    assert text_of((await say(faulty, "lie:event")).final_response) == "lie:event", "an event of no turn is left out"


async def test_faults__closing_all_descriptors_ends_in_time(faulty: AdkAgent) -> None:
    error = await failure(faulty, "close")
    assert error.kind in (FailureKind.CRASH, FailureKind.PROTOCOL)
    assert text_of((await say(faulty, "say hi")).final_response) == "say hi"


async def test_faults__children_of_the_agent_get_no_descriptor_of_ours(faulty: AdkAgent) -> None:
    inherited = tool_responses((await say(faulty, "inherit")).intermediate_data)[0].response
    assert inherited == {"open": "[]"}
    forked = tool_responses((await say(faulty, "fork")).intermediate_data)[0].response
    assert forked is not None
    assert forked["child"] == forked["parent"] - 1  # the event loop's own pair stays


async def test_faults__odd_values_arrive_as_json(faulty: AdkAgent) -> None:
    response = tool_responses((await say(faulty, "odd")).intermediate_data)[0].response
    assert response is not None
    assert response["set"] == [1]
    assert response["lone"] == "?"
    assert not isinstance(response["nan"], float)


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
        "from agent_eval.core.content import user_message\n"
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
async def test_a_hanging_agent__the_message_has_its_own_line(logs: Path) -> None:
    async with running("waits", logs) as agent:
        await say(agent, "warm up")
        errors = {how: await failure(agent, how, timeout=1) for how in ("wait", "task", "block:60")}
    assert {(error.kind, error.owner, error.collateral) for error in errors.values()} == {
        (FailureKind.DEADLINE, Owner.AGENT, False)
    }
    assert {how: error.message.rpartition("It was at ")[2] for how, error in errors.items()} == {
        "wait": "agent.py:16: await asyncio.Event().wait()",
        "task": "agent.py:16: await asyncio.Event().wait()",
        "block:60": "agent.py:27: time.sleep(float(seconds))",
    }
    assert all("asyncio/" not in (error.traceback or "") for error in errors.values())


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
    async with running("shapes", logs, python=adk_python(request.param), described=DESCRIBED) as agent:
        assert agent.provenance["adk"] == request.param
        yield agent


def kind(part: Part) -> str:
    names = ("text", "function_call", "function_response", "inline_data")
    return next(name.removeprefix("function_") for name in names if getattr(part, name) is not None)


def shape(invocation: Invocation) -> list[str]:
    """`author:kinds` of each event; `blank` for one without content."""
    data = invocation.intermediate_data
    assert isinstance(data, InvocationEvents)
    return [
        f"{event.author}:{'+'.join(map(kind, event.content.iter_parts())) if event.content else 'blank'}"
        for event in data.invocation_events
    ]


SHAPES = {
    "plain": ("Done.", ["tools:blank"]),
    "text and call": ("Done.", ["tools:text+call", "tools:response", "tools:blank"]),
    "parallel": ("Done.", ["tools:call+call", "tools:response+response", "tools:blank"]),
    "long now": ("Done.", ["tools:call", "tools:response", "tools:blank"]),
    "missing argument": ("Done.", ["tools:call", "tools:response", "tools:blank"]),
    "before agent": ("No need to ask.", ["tools:blank"]),
    "streamed": ("Done.", ["tools:blank"]),
    "thought": ("I think.\nI say.", ["tools:blank"]),
    "bytes": ("a picture", ["tools:blank"]),
    "skip": ("", ["tools:call", "tools:blank"]),
    "long later": ("I asked.", ["tools:text+call"]),
    "agent tool": ("The helper did it.", ["boss:call", "boss:response", "boss:blank"]),
    "sequence": ("second", ["one:call", "one:response", "one:text", "two:blank"]),
    "error": (None, []),
    "empty": (None, []),
}


@pytest.mark.parametrize("message", SHAPES)
async def test_matrix__shape(shapes: AdkAgent, message: str) -> None:
    invocation = await say(shapes, message)
    final, data = invocation.final_response, invocation.intermediate_data
    assert (None if final is None else text_of(final), shape(invocation)) == SHAPES[message]
    calls, responses = tool_calls(data), tool_responses(data)
    if message == "parallel":
        assert [(call.name, call.args) for call in calls] == [("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})]
        assert [response.response for response in responses] == [{"sum": 3}, {"sum": 7}]
        assert [call.id for call in calls] == [response.id for response in responses]
    elif message == "missing argument":
        assert calls[0].args == {"a": 1}
        assert "error" in (responses[0].response or {})
    elif message == "skip":
        assert final is not None
        assert [part.function_response.name for part in final.iter_parts() if part.function_response] == ["show"]


async def test_matrix__several_agents(shapes: AdkAgent) -> None:
    transfer = await say(shapes, "transfer")
    assert text_of(transfer.final_response) == "The specialist says hello."
    assert [call.name for call in tool_calls(transfer.intermediate_data)] == ["transfer_to_agent"]
    assert (shape(transfer)[:2], shape(transfer)[-1]) == (["front:call", "front:response"], "specialist:blank")
    both = await say(shapes, "both")
    assert sorted(shape(both)) in (["left:blank", "right:text"], ["left:text", "right:blank"])
    assert text_of(both.final_response) in ("L", "R")
    assert isinstance(both.intermediate_data, InvocationEvents)
    branches = {event.author: event.branch for event in both.intermediate_data.invocation_events}
    assert all(branch is not None and branch.endswith(f".{author}") for author, branch in branches.items()), branches


async def test_matrix__usage_version_and_durations(shapes: AdkAgent) -> None:
    invocation = await say(shapes, "text and call")
    data = invocation.intermediate_data
    assert isinstance(data, InvocationEvents)
    counted = [event for event in data.invocation_events if event.usage_metadata]
    assert len(counted) == 2
    assert all(event.usage_metadata == {"prompt_token_count": 10, "candidates_token_count": 5} for event in counted)
    assert {event.model_version for event in counted} == {"scripted-1"}
    assert invocation.duration is not None
    assert 0 <= (invocation.model_duration or 0) + (invocation.tool_duration or 0) <= invocation.duration + 0.002
    assert invocation.creation_timestamp > 1_700_000_000
    assert invocation.spans is not None
    model, tool, again = invocation.spans
    assert (model.kind, model.agent, model.input_tokens, model.output_tokens, model.attempts) == (
        "model", "tools", 10, 5, [],
    )  # fmt: skip
    assert (tool.kind, tool.agent, tool.name) == ("tool", "tools", "add")
    assert tool.call_id == tool_calls(data)[0].id is not None
    times = [moment for span in (model, tool, again) for moment in (span.start, span.end)]
    assert times == sorted(times) and times[0] >= 0 and times[-1] <= invocation.duration + 0.002


async def test_spans__calls_inside_an_agent_tool(shapes: AdkAgent) -> None:
    nested = (await say(shapes, "agent tool")).spans
    assert nested is not None
    assert [(span.kind, span.agent) for span in nested] == [
        ("model", "boss"), ("tool", "boss"),
        ("model", "helper"), ("tool", "helper"), ("model", "helper"),
        ("model", "boss"),
    ]  # fmt: skip
    assert all(nested[1].start <= span.start <= span.end <= nested[1].end for span in nested[2:5])


async def test_matrix__app_details_are_of_the_agents_that_spoke(shapes: AdkAgent) -> None:
    details = (await say(shapes, "agent tool")).app_details
    assert details is not None
    assert list(details.agent_details) == ["boss"]
    boss = details.agent_details["boss"]
    assert "boss" in boss.instructions
    assert [tool["function_declarations"][0]["name"] for tool in boss.tool_declarations] == ["helper"]
    tools = (await say(shapes, "plain")).app_details
    assert tools is not None
    assert tools.agent_details["tools"].instructions.startswith("Add numbers.")


@pytest.mark.parametrize("message", ["nothing", "silent"])
async def test_matrix__no_event_is_no_answer(shapes: AdkAgent, message: str) -> None:
    assert (await failure(shapes, message)).kind is FailureKind.NO_ANSWER


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
