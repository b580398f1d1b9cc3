"""Hosts in forks start and end like hosts in new interpreters (test_adk_faults.py)."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import host_forks
import pytest
from adk_envs import adk_python
from adk_harness import failure, pid, request, running, say
from gate_runs import is_gone, wait_until

from agent_eval.agents.protocol import AgentFailure, FailureKind
from agent_eval.core.content import text_of, user_message


async def test_host_forks__end_with_the_status_and_the_log_of_a_host(tmp_path: Path) -> None:
    async with running("faults", tmp_path / "logs", python=host_forks.command(adk_python())) as agent:
        left = await failure(agent, "os._exit")
        crashed = await failure(agent, "abort")
        again = await say(agent, "say again")
    assert left.message == "The agent's process exited with code 7."
    assert (left.log_tail or "").endswith("about to leave")
    assert "SIGSEGV" in crashed.message
    assert {left.kind, crashed.kind} == {FailureKind.CRASH}
    assert text_of(again.final_response) == "say again"


async def test_host_forks__die_with_the_process_that_asked(tmp_path: Path) -> None:
    async with running("faults", tmp_path / "logs", python=host_forks.command(adk_python())) as agent:
        host, stray = await pid(agent), await pid(agent, "stray")
        session = await agent.open(request())
        os.kill(session.host.pid, signal.SIGKILL)
        wait_until(lambda: is_gone(host) and is_gone(stray))
        with pytest.raises(AgentFailure, match="SIGKILL"):
            await session.send(user_message("say something"), timeout=60)
        assert text_of((await say(agent, "say again")).final_response) == "say again"
    assert host != session.host.pid
