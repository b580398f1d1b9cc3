"""Many agents: which of them have processes at once, and whose time limits run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from runner_doubles import EchoAgent, execution, planned, statuses

from agent_eval_agents.loading import LoadQueue
from agent_eval_agents.protocol import Agent, AgentFailure, FailureKind, LateLoad
from agent_eval_agents.roster import MOST, Roster


@dataclass(kw_only=True)
class Counted(EchoAgent):
    """An agent with a process."""

    alive: set[str]
    name: str
    starts: list[str] = field(default_factory=list)
    peak: list[int] = field(default_factory=list)

    async def start(self) -> None:
        self.starts.append(self.name)
        self.alive.add(self.name)
        self.peak.append(len(self.alive))
        await super().start()

    async def close(self) -> None:
        await asyncio.sleep(0.001)
        self.alive.discard(self.name)


def counted(number: int, **facts: float) -> tuple[Mapping[str, Counted], list[str], list[int]]:
    alive: set[str] = set()
    starts: list[str] = []
    peak: list[int] = []
    names = [f"a{each}" for each in range(number)]
    agents = {name: Counted(alive=alive, name=name, starts=starts, peak=peak, **facts) for name in names}  # type: ignore[arg-type]
    return agents, starts, peak


async def done(folder: Path, agents: Mapping[str, Counted], most: int, runs: int, **options: object) -> set[str]:
    cases = [planned(f"{name}-{run}", "sleep:0.005", agent=name) for run in range(runs) for name in agents]
    ready = execution(folder, cases, agents=agents, **options)  # type: ignore[arg-type]
    ready.roster = Roster(agents=agents, limited=agents.keys(), most=most)
    async with asyncio.timeout(60):
        result = set(statuses(await ready.run()).values())
    ready.journal.close()
    return result


@pytest.mark.parametrize(("concurrency", "fail_fast"), [(1, False), (8, False), (64, False), (1, True), (8, True)])
async def test_roster__many_agents_run_a_few_at_a_time(tmp_path: Path, concurrency: int, fail_fast: bool) -> None:
    """In the file's order, the cases of an agent are far apart: none starts twice for that, and none waits forever."""
    agents, starts, peak = counted(30)
    options = {"concurrency": concurrency, "fail_fast": fail_fast}
    assert await done(tmp_path, agents, 4, 3, **options) == {"passed"}
    assert (max(peak), sorted(starts)) == (4, sorted(agents))


async def test_roster__few_agents_start_at_once_and_stay(tmp_path: Path) -> None:
    agents, starts, peak = counted(MOST, start_seconds=0.05)
    assert await done(tmp_path, agents, MOST, 2, concurrency=64) == {"passed"}
    assert (len(starts), max(peak)) == (MOST, MOST)
    assert len(agents["a0"].alive) == MOST, "for more runs of their cases"


async def test_roster__an_agent_that_cannot_start_is_asked_once_and_makes_room(tmp_path: Path) -> None:
    agents, starts, peak = counted(12)
    for name in ("a3", "a4"):
        agents[name].refuses = AgentFailure("ImportError: no", kind=FailureKind.IMPORT)
    assert await done(tmp_path, agents, 2, 3, concurrency=8) == {"passed", "failed"}
    assert (len(starts), max(peak)) == (12, 2)


async def test_roster__an_agent_that_has_ended_starts_again_for_more_runs(tmp_path: Path) -> None:
    agents, starts, _ = counted(3)
    roster = Roster(agents=agents, limited=agents.keys(), most=1)
    for name in ("a0", "a1", "a0"):
        async with roster.running(name):
            assert agents[name].alive == {name}
    assert starts == ["a0", "a1", "a0"]


async def test_roster__a_stop_waits_for_what_ends_and_cancels_what_starts() -> None:
    agents, _, _ = counted(2, start_seconds=0.01)
    agents["a1"].start_seconds = 60
    roster = Roster(agents=agents, limited=agents.keys(), most=1)
    async with roster.running("a0"):
        pass

    async def wait() -> None:
        async with roster.running("a1"):
            pass

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0.05)
    waiting.cancel()
    await asyncio.wait({waiting})
    async with asyncio.timeout(5):
        await roster.stop()
    assert agents["a0"].alive == {"a1"}


async def test_roster__the_end_of_one_execution_leaves_the_starts_of_another_alone(tmp_path: Path) -> None:
    agents, _, _ = counted(2)
    agents["a1"].start_seconds = 0.2
    roster = Roster(agents=agents, limited=agents.keys())
    executions = []
    for name in agents:
        (tmp_path / name).mkdir()
        executions.append(execution(tmp_path / name, [planned(name, agent=name)], agents=agents))
        executions[-1].roster = roster
    async with asyncio.timeout(20):
        cases = await asyncio.gather(*(each.run() for each in executions))
    assert [case.status for [case] in cases] == ["passed", "passed"]
    for each in executions:
        each.journal.close()


# Loads: their limit, and the second attempt of those that took too long.


async def test_load_queue__the_limit_of_a_load_begins_when_it_has_a_place() -> None:
    loads, running, peak = LoadQueue(2), 0, 0

    async def start() -> str:
        nonlocal running, peak
        async with asyncio.timeout(0.5):
            running += 1
            peak = max(peak, running)
            await asyncio.sleep(0.05)
            running -= 1
        return "loaded"

    assert await asyncio.gather(*(loads.load(start) for _ in range(40))) == ["loaded"] * 40
    assert peak == 2


async def test_load_queue__one_that_took_too_long_loads_again_alone() -> None:
    loads, running, seen = LoadQueue(3), 0, dict[str, list[int]]()

    async def start(name: str, late: int) -> str:
        nonlocal running
        running += 1
        try:
            await asyncio.sleep(0.02)
            seen.setdefault(name, []).append(running)
            if len(seen[name]) <= late:
                raise LateLoad("late", kind=FailureKind.IMPORT)
            return name
        finally:
            running -= 1

    loaded = [loads.load(lambda n=n: start(f"{n}", n % 3)) for n in range(9)]  # type: ignore[misc]
    results = await asyncio.gather(*loaded, return_exceptions=True)
    assert [each if isinstance(each, str) else type(each) for each in results] == [
        "0", "1", LateLoad, "3", "4", LateLoad, "6", "7", LateLoad
    ]  # fmt: skip
    assert {name: counts[1:] for name, counts in seen.items()} == {f"{n}": [1] if n % 3 else [] for n in range(9)}


async def test_load_queue__another_failure_is_not_tried_again() -> None:
    attempts: list[int] = []

    async def start() -> None:
        attempts.append(1)
        raise AgentFailure("no", kind=FailureKind.IMPORT)

    with pytest.raises(AgentFailure):
        await LoadQueue(2).load(start)
    assert len(attempts) == 1


def test_counted__is_an_agent() -> None:
    agent: Agent = Counted(alive=set(), name="a")
    assert agent.metrics is None
