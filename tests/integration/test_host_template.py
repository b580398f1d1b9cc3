"""Hosts that are forks of a template: what they share with others, how they end, and what happens without a template.

test_adk_faults.py, too, runs in forks, from its first dead host on.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from adk_envs import FIXTURES
from adk_harness import make, request, running, say
from gate_runs import patience

from agent_eval.agents.adk import _slots
from agent_eval.agents.adk._driver import AdkAgent, AdkSession
from agent_eval.agents.host import HostTemplate, _template
from agent_eval.agents.protocol import AgentFailure, FailureKind
from agent_eval.agents.sandbox import kill_now
from agent_eval.core.invocation import tool_responses

pytestmark = [
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(sys.platform != "linux", reason="templates need Linux"),
]

AGENT = """
import os, sys, time
from pathlib import Path
sys.path.insert(0, {fixtures!r})
from scripted_model import call, reply, scripted, text
from google.adk.agents.llm_agent import LlmAgent

{at_import}

def tell() -> dict:
    return {{"pid": os.getpid(), "parent": os.getppid(), "session": os.getsid(0), "argv": sys.argv[1:]}}

def script(said, count, request):
    return reply(text(said)) if count else reply(call("tell"))

root_agent = LlmAgent(name="telling", model=scripted(script), tools=[tell])
"""


def write_agent(root: Path, at_import: str = "") -> Path:
    (root / "telling").mkdir()
    code = AGENT.format(fixtures=str(FIXTURES), at_import=at_import)
    (root / "telling" / "agent.py").write_text(code, encoding="utf-8")
    return root


async def facts_of(session: AdkSession) -> dict[str, Any]:
    invocation = await session.send(_message("tell"), timeout=60)
    response = tool_responses(invocation.intermediate_data)[0].response
    assert response is not None
    return response


def _message(words: str) -> Any:
    from agent_eval.core.content import user_message

    return user_message(words)


async def sessions(agent: AdkAgent, count: int) -> list[AdkSession]:
    return list(await asyncio.gather(*(agent.open(request()) for _ in range(count))))


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(200):
        if condition():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it did not happen within ten seconds")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def two(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[AdkAgent]:
    """The agent `faults` in two hosts."""
    async with running("faults", tmp_path_factory.mktemp("two"), workers=2) as agent:
        yield agent


async def host_and_fork(agent: AdkAgent) -> tuple[int, int]:
    """The processes of the first host and of the second one."""
    first, second = await sessions(agent, 2)
    await asyncio.gather(first.close(), second.close())
    return first.host.pid, second.host.pid


async def test_template__forks_the_second_host(two: AdkAgent) -> None:
    first, second = await host_and_fork(two)
    template = parent(second)
    assert parent(first) == os.getpid() != template
    assert template not in {first, second}
    assert len({os.getsid(pid) for pid in (first, second, template)}) == 3
    # Else it would hold the log of the first host open.
    assert {os.readlink(f"/proc/{template}/fd/{stream}") for stream in (1, 2)} == {os.devnull}


async def test_template__its_hosts_do_not_hold_the_connection(two: AdkAgent) -> None:
    """Else the end of the template, or of the gate, would not be seen."""
    first, second = await host_and_fork(two)
    for pid in (first, second):
        kinds = [os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir()]
        lists = Path("/proc/net/unix").read_text(encoding="utf-8").splitlines()[1:]
        seqpacket = {line.split()[6] for line in lists if line.split()[4] == "0005"}
        assert not [kind for kind in kinds if kind.removeprefix("socket:[").rstrip("]") in seqpacket]


async def test_template__a_fork_has_its_own_log_and_tells_how_it_ended(two: AdkAgent) -> None:
    first, second = await sessions(two, 2)
    await first.close()
    with pytest.raises(AgentFailure) as caught:
        await second.send(_message("os._exit"), timeout=60)
    await second.close()
    assert caught.value.message == "The agent's process exited with code 7."
    assert caught.value.log_tail == "about to leave"
    assert second.host.log.path != first.host.log.path
    assert second.host.log.path.read_text(encoding="utf-8") == "about to leave\n"
    assert not first.host.log.path.exists()


async def test_template__a_fork_that_is_killed(two: AdkAgent) -> None:
    first, second = await sessions(two, 2)
    await first.close()
    template = parent(second.host.pid)
    os.kill(second.host.pid, signal.SIGKILL)
    with pytest.raises(AgentFailure) as caught:
        await second.send(_message("sleep:60"), timeout=60)
    await second.close()
    assert "SIGKILL" in caught.value.message
    _, replacement = await host_and_fork(two)
    assert parent(replacement) == template


async def test_template__a_fork_that_hangs_is_killed_with_what_it_started(two: AdkAgent) -> None:
    first, second = await sessions(two, 2)
    await first.close()
    response = tool_responses((await second.send(_message("stray"), timeout=60)).intermediate_data)[0].response
    assert response is not None
    with pytest.raises(AgentFailure) as caught:
        await second.send(_message("loop"), timeout=1)
    await second.close()
    assert caught.value.kind is FailureKind.DEADLINE
    assert "while True" in (caught.value.traceback or "")
    await until(lambda: is_gone(second.host.pid) and is_gone(response["pid"]))


async def test_template__without_the_first_host(two: AdkAgent) -> None:
    """What the first host was forked from lives on: its replacement is a fork, too."""
    first, second = await sessions(two, 2)
    template = parent(second.host.pid)
    os.kill(first.host.pid, signal.SIGKILL)
    await first.host.wait_ended()
    await asyncio.gather(first.close(), second.close())
    pids = await host_and_fork(two)
    assert {parent(pid) for pid in pids} == {template}


async def test_template__ends_with_its_agent(tmp_path: Path) -> None:
    async with running("faults", tmp_path / "logs", workers=2) as agent:
        first, second = await host_and_fork(agent)
        template = parent(second)
    await until(lambda: all(map(is_gone, (first, second, template))))


async def test_template__killed_its_hosts_end_and_others_start_in_new_interpreters(tmp_path: Path) -> None:
    async with running("faults", tmp_path / "logs", workers=2) as agent:
        first, second = await sessions(agent, 2)
        third = await agent.open(request(isolated=True))
        waiting = asyncio.create_task(second.send(_message("sleep:60"), timeout=60))
        await asyncio.sleep(0.2)
        os.kill(parent(second.host.pid), signal.SIGKILL)
        with pytest.raises(AgentFailure) as caught:
            await waiting
        assert caught.value.message == "The agent's process ended; its exit status is unknown."
        assert caught.value.kind is FailureKind.CRASH
        assert caught.value.collateral
        with pytest.raises(AgentFailure) as caught:
            await third.send(_message("ok"), timeout=60)
        assert caught.value.collateral
        await third.close()
        await until(lambda: is_gone(second.host.pid))
        await asyncio.gather(first.close(), second.close())
        pids = await host_and_fork(agent)
        assert [parent(pid) for pid in pids] == [os.getpid()] * 2


async def test_template__killed_while_a_host_loads(tmp_path: Path) -> None:
    root = write_agent(tmp_path, "time.sleep(2)")
    async with running("telling", tmp_path / "logs", root=root) as agent:
        opening = asyncio.create_task(agent.open(request(isolated=True)))
        await until(lambda: bool(agent._template._hosts))
        os.kill(parent(*agent._template._hosts), signal.SIGKILL)
        session = await opening
        facts = await facts_of(session)
        assert facts["parent"] == os.getpid()
        await session.close()


GATE = """
import asyncio, os, signal, sys
from pathlib import Path
from adk_harness import make, request

async def main():
    agent = make("faults", Path(sys.argv[1]), workers=2)
    await agent.start()
    opened = [await agent.open(request()) for _ in range(2)]
    os.kill(opened[1].host.pid, signal.SIGSTOP)
    print(*(session.host.pid for session in opened), flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_template__a_fork_that_hangs_ends_with_the_gate(tmp_path: Path) -> None:
    """Not even the end of its connection reaches it: the kernel must kill it."""
    path = os.pathsep.join(sys.path)
    gate = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", GATE, str(tmp_path / "logs")),
        env={**os.environ, "PYTHONPATH": path},
        stdout=asyncio.subprocess.PIPE,
    )
    assert gate.stdout is not None
    pids = [int(pid) for pid in (await asyncio.wait_for(gate.stdout.readline(), 60)).split()]
    assert len(pids) == 2
    gate.kill()
    await gate.wait()
    await until(lambda: all(map(is_gone, pids)))


async def test_template__stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent may stop all processes of its user."""
    monkeypatch.setattr(_template, "_FORK_SECONDS", 0.3)
    async with running("faults", tmp_path / "logs", workers=2) as agent:
        first, second = await sessions(agent, 2)
        template = parent(second.host.pid)
        os.kill(template, signal.SIGSTOP)
        os.kill(first.host.pid, signal.SIGKILL)
        await first.host.wait_ended()
        await asyncio.gather(first.close(), second.close())
        await say(agent, "ok")
        pids = await host_and_fork(agent)
        assert [parent(pid) for pid in pids] == [os.getpid()] * 2
        await until(lambda: is_gone(template) and is_gone(second.host.pid))


def template_of(host: int) -> int:
    """The template that was forked from this host, and may have forked none itself."""
    environment = Path(f"/proc/{host}/environ").read_bytes()  # with the directory of this test's logs
    found = [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/environ") if _read(path) == environment]
    (template,) = set(found) - {host}
    return template


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


async def test_template__stopped_a_fork_ends_by_itself(tmp_path: Path) -> None:
    """The template can't tell how, but the end is seen, and nothing waits for the template."""
    async with running("faults", tmp_path / "logs", workers=2) as agent:
        first, second = await sessions(agent, 2)
        template = parent(second.host.pid)
        os.kill(template, signal.SIGSTOP)
        started = time.monotonic()
        with pytest.raises(AgentFailure) as caught:
            await second.send(_message("os._exit"), timeout=60)
        assert caught.value.message == "The agent's process ended; its exit status is unknown."
        assert caught.value.kind is FailureKind.CRASH
        assert not caught.value.collateral
        await asyncio.gather(first.close(), second.close())
        await agent.close()
        assert time.monotonic() - started < 3 * patience()
        await until(lambda: is_gone(template))


async def test_template__stopped_before_its_hosts_end(tmp_path: Path) -> None:
    async with running("faults", tmp_path / "logs", workers=2) as agent:
        pids = await host_and_fork(agent)
        template = parent(pids[1])
        os.kill(template, signal.SIGSTOP)
        started = time.monotonic()
        await agent.close()
        assert time.monotonic() - started < 3 * patience()
        await until(lambda: all(map(is_gone, (*pids, template))))


async def test_template__stopped_before_its_first_host(tmp_path: Path) -> None:
    async with running("faults", tmp_path / "logs") as agent:
        session = await agent.open(request())
        await session.close()
        template = template_of(session.host.pid)
        await until(lambda: agent._template._process is not None)
        os.kill(template, signal.SIGSTOP)
        await agent.close()
        await until(lambda: is_gone(template))


async def test_template__no_other_process_gets_the_id_of_a_host_before_its_end_was_seen(tmp_path: Path) -> None:
    async with running("faults", tmp_path / "logs", workers=2) as agent:
        _, second = await host_and_fork(agent)
        os.kill(second, signal.SIGKILL)
        time.sleep(0.5)  # The gate sees nothing: this blocks its event loop.
        assert Path(f"/proc/{second}").exists()
        await until(lambda: not Path(f"/proc/{second}").exists())


@pytest.mark.parametrize("is_old_kernel", [False, True])
async def test_template__none_if_the_gate_has_no_pidfd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_old_kernel: bool
) -> None:
    if is_old_kernel:
        monkeypatch.setattr(os, "pidfd_open", refuse)
    else:
        monkeypatch.delattr(os, "pidfd_open")
    async with running("faults", tmp_path / "logs", workers=2) as agent:
        pids = await host_and_fork(agent)
        assert [parent(pid) for pid in pids] == [os.getpid()] * 2


def refuse(*_: object) -> int:
    raise OSError(errno.ENOSYS, "no such system call")


async def test_template__where_the_gate_can_not_signal_by_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signal, "pidfd_send_signal", refuse)
    async with running("faults", tmp_path / "logs", workers=2) as agent:
        first, second = await sessions(agent, 2)
        template = parent(second.host.pid)
        with pytest.raises(AgentFailure) as caught:
            await second.send(_message("os._exit"), timeout=60)
        assert caught.value.message == "The agent's process exited with code 7."
        await asyncio.gather(first.close(), second.close())
        pids = await host_and_fork(agent)
        assert parent(pids[1]) == template
    await until(lambda: all(map(is_gone, (*pids, template))))


async def test_template__none_if_google_adk_has_started_a_thread(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=[600], daemon=True).start()\n", "utf-8"
    )
    environment = {"PYTHONPATH": str(tmp_path / "site")}
    async with running("faults", tmp_path / "logs", workers=2, environment=environment) as agent:
        pids = await host_and_fork(agent)
        assert [parent(pid) for pid in pids] == [os.getpid()] * 2


async def test_template__none_if_python_has_no_pidfd(tmp_path: Path) -> None:
    environment = site(tmp_path, "import os\ndel os.pidfd_open\n")
    async with running("faults", tmp_path / "logs", workers=2, environment=environment) as agent:
        pids = await host_and_fork(agent)
        assert [parent(pid) for pid in pids] == [os.getpid()] * 2


async def test_template__is_no_child_of_the_agent(tmp_path: Path) -> None:
    at_import = "try:\n    os.wait()\nexcept ChildProcessError:\n    pass"
    async with running("telling", tmp_path / "logs", root=write_agent(tmp_path, at_import)) as agent:
        facts = await facts_of(await agent.open(request()))
    assert facts["argv"] == []


async def test_auto__a_second_host_for_many_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    async with running("telling", tmp_path / "logs", root=write_agent(tmp_path), workers=None) as agent:
        opened = await sessions(agent, 12)
        facts = [await facts_of(session) for session in opened]
        assert len({fact["pid"] for fact in facts}) == 2
        assert {sum(fact["pid"] == pid for fact in facts) for pid in {fact["pid"] for fact in facts}} == {6}
        await asyncio.gather(*(session.close() for session in opened))


async def test_auto__few_sessions_share_one_host(tmp_path: Path) -> None:
    async with running("telling", tmp_path / "logs", root=write_agent(tmp_path), workers=None) as agent:
        opened = await sessions(agent, 4)
        assert len({session.host for session in opened}) == 1
        await asyncio.gather(*(session.close() for session in opened))


async def test_auto__an_agent_that_takes_long_to_load_keeps_one_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    root = write_agent(tmp_path, "time.sleep(0.6)")
    async with running("telling", tmp_path / "logs", root=root, workers=None) as agent:
        opened = await sessions(agent, 8)
        assert len({session.host for session in opened}) == 1
        await asyncio.gather(*(session.close() for session in opened))


@pytest.mark.parametrize("second", ["raise OSError('address in use')", "time.sleep(600)", "os._exit(1)"])
async def test_auto__an_agent_that_works_only_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: str
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    lock = tmp_path / "lock"
    at_import = f"if Path({str(lock)!r}).exists():\n    {second}\nPath({str(lock)!r}).touch()"
    async with running("telling", tmp_path / "logs", root=write_agent(tmp_path, at_import), workers=None) as agent:
        opened = await sessions(agent, 8)
        assert len({(await facts_of(session))["pid"] for session in opened}) == 1
        await asyncio.gather(*(session.close() for session in opened))
        assert (await say(agent, "more")).final_response is not None


def site(tmp_path: Path, code: str) -> dict[str, str]:
    """The environment of hosts whose interpreter runs this code first."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(code, encoding="utf-8")
    return {"PYTHONPATH": str(tmp_path / "site")}


async def test_template__forks_that_are_asked_for_at_once(tmp_path: Path) -> None:
    """The second one is ready before the first one. Each must end its own process, and no other's."""
    environment = site(
        tmp_path,
        "import os, time\nsetsid = os.setsid\n"
        "def slow_setsid():\n    setsid()\n"
        f"    calls = len(os.listdir({str(tmp_path / 'calls')!r}))\n"
        f"    open(os.path.join({str(tmp_path / 'calls')!r}, str(os.getpid())), 'w').close()\n"
        "    time.sleep(0.5 if calls == 1 else 0)\n"  # call 0 is the template's
        "os.setsid = slow_setsid\n",
    )
    (tmp_path / "calls").mkdir()
    root = write_agent(tmp_path)
    async with running("telling", tmp_path / "logs", root=root, workers=4, environment=environment) as agent:
        opened = await sessions(agent, 4)
        facts = [await facts_of(session) for session in opened]
        assert [session.host.pid for session in opened] == [fact["pid"] for fact in facts]
        await asyncio.gather(*(session.close() for session in opened))


async def test_template__children_that_no_one_waits_for(tmp_path: Path) -> None:
    """A parent of the gate that ignores SIGCHLD passes that on: such processes leave no exit code."""
    environment = site(tmp_path, "import signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n")
    async with running("faults", tmp_path / "logs", workers=2, environment=environment) as agent:
        first, second = await sessions(agent, 2)
        with pytest.raises(AgentFailure) as caught:
            await second.send(_message("os._exit"), timeout=60)
        await second.close()
        assert caught.value.kind is FailureKind.CRASH
        assert (await first.send(_message("ok"), timeout=60)).final_response is not None
        await first.close()
        await say(agent, "ok")


async def test_template__its_hosts_draw_different_random_numbers(tmp_path: Path) -> None:
    at_import = (
        "import random, secrets, tempfile, uuid\nfrom google.adk.platform import get_random\n"
        "drawn = [str(random.random()), str(uuid.uuid4()), str(uuid.uuid1()), secrets.token_hex(), "
        "next(tempfile._get_candidate_names()), str(get_random().random())]\n"
        f"Path({str(tmp_path)!r}, f'drawn-{{os.getpid()}}').write_text(' '.join(drawn))"
    )
    async with running("telling", tmp_path / "logs", root=write_agent(tmp_path, at_import), workers=3):
        drawn = [path.read_text(encoding="utf-8").split() for path in tmp_path.glob("drawn-*")]
    assert [len(set(values)) for values in zip(*drawn, strict=True)] == [3] * 6


async def test_auto__a_second_host_for_few_sessions_that_compute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(_slots, "_SPAN", 0.2)
    monkeypatch.setattr(_slots, "_HIGH", 0.05)
    at_import = (
        "import threading\ndef spin():\n    while True: pass\nthreading.Thread(target=spin, daemon=True).start()"
    )
    async with running("telling", tmp_path / "logs", root=write_agent(tmp_path, at_import), workers=None) as agent:
        opened = await sessions(agent, 2)
        for _ in range(40):  # no more than three at once
            session = await agent.open(request())
            await session.close()
            if session.host is not opened[0].host:
                break
            await asyncio.sleep(0.1)
        assert session.host is not opened[0].host
        await asyncio.gather(*(session.close() for session in opened))


# -- what the other end of the connection may say


@pytest_asyncio.fixture(loop_scope="module")
async def liar() -> AsyncIterator[tuple[HostTemplate, socket.socket]]:
    template = HostTemplate(None)
    theirs = template.offer()
    assert theirs is not None
    yield template, theirs
    theirs.close()
    await template.close()


async def answer(liar: tuple[HostTemplate, socket.socket], *messages: bytes) -> Any:
    template, theirs = liar
    ours, channel = socket.socketpair()

    def speak() -> None:
        number = theirs.recv(64)
        for message in messages:
            theirs.send(message.replace(b"NUMBER", number))

    thread = threading.Thread(target=speak)
    thread.start()
    with ours, channel:
        try:
            return await template.fork(channel)
        finally:
            thread.join()


def says(pid: int) -> bytes:
    return b'{"request": NUMBER, "pid": %d}' % pid


@pytest.fixture
def stranger() -> Iterator[int]:
    """A process in a session of its own."""
    process = subprocess.Popen(["sleep", "600"], start_new_session=True)
    yield process.pid
    process.kill()
    process.wait()


@pytest.mark.parametrize(
    "message",
    [
        b"no json",
        b"[]",
        b'{"request": NUMBER, "pid": "7"}',
        b'{"request": NUMBER, "pid": -1}',
        b'{"request": NUMBER, "pid": 0}',
        b'{"request": NUMBER, "pid": 1}',
        b'{"request": NUMBER, "pid": 4194305}',
        b'{"request": NUMBER, "pid": 99999999999999999999}',
        b'{"request": NUMBER, "pid": OURS}',
        b'{"request": NUMBER, "pid": PARENT}',
        b'{"request": 4711, "pid": null}',
        b'{"template": OURS}',
        b'{"template": 4194305}',
        b"{}",
        b'{"request": NUMBER, "pid": null}' * 1000,
    ],
)
async def test_template__says_something_else(liar: tuple[HostTemplate, socket.socket], message: bytes) -> None:
    for name, pid in ((b"OURS", os.getpid()), (b"PARENT", os.getppid())):
        message = message.replace(name, str(pid).encode())
    assert await answer(liar, message) is None
    assert not liar[0].serves


async def test_template__names_a_process_of_another_user(stranger: int) -> None:
    template = HostTemplate(os.getuid() + 1)
    theirs = template.offer()
    assert theirs is not None
    with theirs:
        assert await answer((template, theirs), says(stranger)) is None
    assert not template.serves


async def test_template__names_a_host_twice(liar: tuple[HostTemplate, socket.socket], stranger: int) -> None:
    message = says(stranger)
    host = await answer(liar, message)
    assert host.pid == stranger
    assert await answer(liar, message) is None
    assert await asyncio.wait_for(host.wait(), 5) is None  # nobody knows how it ended


async def test_template__ends_with_the_connection(liar: tuple[HostTemplate, socket.socket], stranger: int) -> None:
    template, theirs = liar
    theirs.send(b'{"template": %d}' % stranger)
    assert await answer(liar, b'{"request": NUMBER, "pid": null}') is None
    assert template.serves
    theirs.send(b'{"template": %d}' % stranger)  # once too often
    await until(lambda: is_gone(stranger))
    assert not template.serves


async def test_template__ends_of_hosts(liar: tuple[HostTemplate, socket.socket], stranger: int) -> None:
    ended = json.dumps({"exited": stranger, "code": -11}).encode()
    host = await answer(liar, b'{"exited": 5, "code": 3}', says(stranger), ended, ended)
    assert await asyncio.wait_for(host.wait(), 5) == -11
    assert liar[0].serves


@pytest.mark.parametrize("old_kernel", [False, True])
async def test_template__only_the_process_that_it_named_gets_signals(
    liar: tuple[HostTemplate, socket.socket], stranger: int, monkeypatch: pytest.MonkeyPatch, old_kernel: bool
) -> None:
    """Another process gets the id of a host that has ended."""
    if old_kernel:
        monkeypatch.setattr(_template, "_PIDFD_SIGNAL_PROCESS_GROUP", 1 << 30)  # refused, as before Linux 6.9
    ended = subprocess.Popen(["true"], start_new_session=True)
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    host = await answer(liar, says(ended.pid))
    ended.wait()
    assert await asyncio.wait_for(host.wait(), 5) is None
    host.pid = host._pidfd.pid = stranger
    kill_now(host)
    await asyncio.sleep(0.3)
    assert not is_gone(stranger)
    left = subprocess.Popen(["sleep", "600"], start_new_session=True)
    host = await answer(liar, says(left.pid))
    kill_now(host)
    assert left.wait(5) == -signal.SIGKILL


async def test_template__cannot_fork(liar: tuple[HostTemplate, socket.socket]) -> None:
    assert await answer(liar, b'{"request": NUMBER, "pid": null}') is None
    assert liar[0].serves


async def test_template__is_offered_once(liar: tuple[HostTemplate, socket.socket]) -> None:
    assert liar[0].offer() is None


async def test_template__answers_too_late(
    liar: tuple[HostTemplate, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_template, "_FORK_SECONDS", 0.1)
    assert await answer(liar) is None
    assert not liar[0].serves


async def test_template__lies_about_a_request_that_no_one_waits_for(
    liar: tuple[HostTemplate, socket.socket],
) -> None:
    template, theirs = liar
    ours, channel = socket.socketpair()
    with ours, channel:
        asking = asyncio.create_task(template.fork(channel))
        number = await asyncio.to_thread(theirs.recv, 64)
        asking.cancel()
        await asyncio.wait({asking})
    theirs.send(b'{"request": %b, "pid": %d}' % (number, os.getpid()))
    await until(lambda: not template.serves)


async def test_template__no_one_waits_for_the_answer_any_more(
    liar: tuple[HostTemplate, socket.socket], stranger: int
) -> None:
    template, theirs = liar
    ours, channel = socket.socketpair()
    with ours, channel:
        asking = asyncio.create_task(template.fork(channel))
        number = await asyncio.to_thread(theirs.recv, 64)
        asking.cancel()
        await asyncio.wait({asking})
    theirs.send(b'{"request": %b, "pid": null}' % number)
    host = await answer(liar, says(stranger))
    assert host.pid == stranger


async def test_template__none_without_google_adk(tmp_path: Path) -> None:
    agent = make("faults", tmp_path / "logs", python=[sys.executable, "-I", "-S"], workers=2)
    with pytest.raises(AgentFailure) as caught:
        await agent.start()
    await agent.close()
    assert caught.value.kind is FailureKind.ENVIRONMENT
    assert not agent._template.serves
