"""How many host processes an agent gets with `workers: auto`."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from adk_envs import FIXTURES
from adk_harness import request, running, say

from agent_eval.agents.adk import _driver, _slots
from agent_eval.agents.adk._driver import AdkAgent, AdkSession
from agent_eval.core.content import user_message
from agent_eval.core.invocation import tool_responses

pytestmark = [
    pytest.mark.slow,
    pytest.mark.asyncio,
    pytest.mark.skipif(sys.platform != "linux", reason="the share of a core is read from /proc"),
]

AGENT = """
import os, sys, threading, time
from pathlib import Path
sys.path.insert(0, {fixtures!r})
from scripted_model import call, reply, scripted, text
from google.adk.agents.llm_agent import LlmAgent

{at_import}

def tell() -> dict:
    return {{"pid": os.getpid()}}

def script(said, count, request):
    return reply(text(said)) if count else reply(call("tell"))

root_agent = LlmAgent(name="telling", model=scripted(script), tools=[tell])
"""
BUSY = "def spin():\n    while True: pass\nthreading.Thread(target=spin, daemon=True).start()\n"


def write_agent(root: Path, at_import: str = "") -> Path:
    (root / "telling").mkdir()
    code = AGENT.format(fixtures=str(FIXTURES), at_import=at_import)
    (root / "telling" / "agent.py").write_text(code, encoding="utf-8")
    return root


async def pid_of(session: AdkSession) -> Any:
    invocation = await session.send(user_message("tell"), timeout=60)
    response = tool_responses(invocation.intermediate_data)[0].response
    assert response is not None
    return response["pid"]


async def sessions(agent: AdkAgent, count: int) -> list[AdkSession]:
    return list(await asyncio.gather(*(agent.open(request()) for _ in range(count))))


async def another_host(agent: AdkAgent, opened: list[AdkSession]) -> bool:
    """Whether one of the next sessions, no more than one at once beside those that are open, is on another host."""
    for _ in range(40):
        session = await agent.open(request())
        await session.close()
        if session.host is not opened[0].host:
            return True
        await asyncio.sleep(0.1)
    return False


@pytest.mark.parametrize(("at_import", "hosts"), [("", 2), ("time.sleep(0.6)", 1)])
async def test_auto__a_second_host_after_many_sessions_if_the_agent_loads_quickly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_import: str, hosts: int
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(_driver, "_IN_ALL", 8)
    async with running("telling", tmp_path / "logs", root=write_agent(tmp_path, at_import), workers=None) as agent:
        opened = await sessions(agent, 8)
        assert len({session.host for session in opened}) == 1
        assert await another_host(agent, opened) == (hosts == 2)
        await asyncio.gather(*(session.close() for session in opened))


@pytest.mark.parametrize("second", ["raise OSError('address in use')", "os._exit(1)"])
async def test_auto__an_agent_that_works_only_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: str
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(_slots, "_SPAN", 0.2)
    monkeypatch.setattr(_slots, "_HIGH", 0.05)
    lock = tmp_path / "lock"
    at_import = f"{BUSY}if Path({str(lock)!r}).exists():\n    {second}\nPath({str(lock)!r}).touch()"
    async with running("telling", tmp_path / "logs", root=write_agent(tmp_path, at_import), workers=None) as agent:
        opened = await sessions(agent, 2)
        assert not await another_host(agent, opened)
        assert len({await pid_of(session) for session in opened}) == 1
        await asyncio.gather(*(session.close() for session in opened))
        assert (await say(agent, "more")).final_response is not None


async def test_auto__a_second_host_for_few_sessions_that_compute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(_slots, "_SPAN", 0.2)
    monkeypatch.setattr(_slots, "_HIGH", 0.05)
    async with running("telling", tmp_path / "logs", root=write_agent(tmp_path, BUSY), workers=None) as agent:
        opened = await sessions(agent, 2)
        assert await another_host(agent, opened)
        await asyncio.gather(*(session.close() for session in opened))
