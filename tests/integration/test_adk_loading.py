"""Hosts of agents: what is loaded, their protocol against a counterpart that may write anything, their number."""

from __future__ import annotations

import asyncio
import json
import os
import py_compile
import resource
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import host_forks
import pytest
from adk_envs import FIXTURES, MATRIX, adk_python
from adk_harness import failure, make, pid, request, running, say, start_failure
from gate_runs import is_gone, patience, wait_until
from golden_files import check

from agent_eval.agents.adk import _driver, _slots
from agent_eval.agents.adk._driver import AdkAgent, AdkSession
from agent_eval.agents.host.connection import Connection, ConnectionLost, ProtocolError, RemoteError, decode
from agent_eval.agents.protocol import AgentFailure, FailureKind, Owner
from agent_eval.agents.sandbox.spawn import Sandbox, agent_account
from agent_eval.core.content import text_of, user_message
from agent_eval.core.invocation import tool_responses
from agent_eval.core.masking import Masker

# What is loaded as an agent, how it finds its modules, its settings and its session.


async def heard(*args: Any, **facts: Any) -> str:
    return text_of((await say(*args, **facts)).final_response)


async def test_sub_agent__becomes_the_root_and_an_unknown_one_lists_the_tree(tmp_path: Path) -> None:
    forks = host_forks.command(adk_python())
    async with running("shapes", tmp_path / "logs", sub_agent="specialist", python=forks) as agent:
        assert agent.provenance["agent"] == "specialist"
        turn = await say(agent, "hello")
        assert text_of(turn.final_response) == "The specialist says hello."
    async with running(
        "home", tmp_path / "logs", sub_agent="butler", python=forks
    ) as agent:  # the App keeps its plugins
        assert (await heard(agent, "hello", state={"guest": "Ann"})).endswith(" Please.")
    logs = "".join(path.read_text(encoding="utf-8") for path in (tmp_path / "logs").glob("*.log"))
    assert "the notebook was closed" in logs, "tools are closed in the end"
    unknown = await start_failure("shapes", tmp_path / "logs", sub_agent="speci", python=forks)
    assert "no agent named 'speci' in its tree: router, router/tools" in unknown.message
    assert unknown.kind is FailureKind.IMPORT and "router/front/specialist" in unknown.message
    assert "after `#`" in (unknown.hint or "")


_SAYS = """
import deep.word, installed, shared
from google.adk.agents import BaseAgent
from google.adk.events import Event
from google.genai import types


class Words(BaseAgent):
    async def _run_async_impl(self, context):
        said = f"{deep.word.WORD} {shared.WORD} {installed.WORD}"
        yield Event(author=self.name, content=types.Content(role="model", parts=[types.Part(text=said)]))


root_agent = Words(name="words")
"""


async def test_loading__an_edit_that_keeps_size_and_second_is_tested(tmp_path: Path) -> None:
    """Of installed packages bytecode is used: the third word is that of a stale one. Of the repository none is made."""
    words = [
        tmp_path / "words" / "deep" / "word.py",
        tmp_path / "shared.py",
        tmp_path / "site-packages" / "installed.py",
    ]
    for path in words:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("WORD = 'old'\n", encoding="utf-8")
        py_compile.compile(str(path))
        time = path.stat().st_mtime
        path.write_text("WORD = 'new'\n", encoding="utf-8")
        os.utime(path, (time, time))
    (tmp_path / "words" / "agent.py").write_text(_SAYS, encoding="utf-8")
    paths = {"PYTHONPATH": f"{tmp_path / 'words'}:{tmp_path / 'site-packages'}"}
    async with running("words", tmp_path / "logs", root=tmp_path, environment=paths, python=adk_python()) as agent:
        assert await heard(agent, "?") == "new new old"
    assert not (tmp_path / "words" / "__pycache__").exists()


@pytest.mark.parametrize("version", MATRIX)
async def test_loading__an_app_its_plugins_its_state_and_its_names(tmp_path: Path, version: str) -> None:
    environment = {"HOME_ALREADY_SET": "by the job"}
    async with running("home", tmp_path / "logs", python=adk_python(version), environment=environment) as agent:
        assert agent.provenance["agent"] == "butler"
        facts = json.loads((await heard(agent, "facts", state={"guest": "Ann"})).removesuffix(" Please."))
        rules = await heard(agent, "instruction", state={"guest": "Ann", "user:mood": "gay"}, app_name="my-app")
        again = await heard(agent, "remember room hall", "instruction", state={"guest": "Bo"}, session_id="pinned")
        other = await heard(agent, "instruction", state={"guest": "Cy"}, session_id="pinned")
        mood = await heard(agent, "remember user:mood gay", "instruction", state={"guest": "Di"})
        later = await heard(agent, "instruction", state={"guest": "Ed"})
        retries = await heard(agent, "retries", state={"guest": "Ann"})
        missing = await failure(agent, "instruction")
    forwarded = {name for name in facts.pop("environment") if not name.startswith(("GRPC_", "__"))}
    assert forwarded <= {"PATH", "HOME", "HOME_COLOUR", "HOME_ALREADY_SET", "LC_CTYPE", "PWD"}
    assert rules.startswith("Serve Ann in the . Shared: gay")
    assert rules.endswith(" Please.")
    assert again.startswith("Serve Bo in the hall.")
    assert other.startswith("Serve Cy in the .")
    assert mood.startswith("Serve Di in the . Shared: gay")
    assert later.startswith("Serve Ed in the . Shared: "), "what one case leaves for its user, no other case finds"
    assert "gay" not in later
    assert facts.pop("cwd") == str(FIXTURES)
    facts["retries"] = json.loads(retries.removesuffix(" Please."))
    check("golden_home_agent.json", json.dumps(facts, indent=1) + "\n")
    assert missing.kind is FailureKind.EXCEPTION
    assert "guest" in missing.message


async def test_loading__a_dotenv_can_be_switched_off(tmp_path: Path) -> None:
    async with running("home", tmp_path / "logs", environment={"ADK_DISABLE_LOAD_DOTENV": "1"}) as agent:
        facts = json.loads((await heard(agent, "facts", state={"guest": "Ann"})).removesuffix(" Please."))
    assert facts["colour"] is None


@pytest.mark.parametrize(
    ("name", "answer"),
    [("async_agent", "made later"), ("no_init", "no package needed"), ("faults.agent", "say hi"), ("faults", "say hi")],
)
async def test_loading__forms_of_agents(tmp_path: Path, name: str, answer: str) -> None:
    async with running(name, tmp_path / "logs", python=host_forks.command(adk_python())) as agent:
        assert await heard(agent, "say hi") == answer


async def test_loading__a_directory_that_is_named_like_a_module_in_use(tmp_path: Path) -> None:
    (tmp_path / "scripted_model.py").symlink_to(FIXTURES / "scripted_model.py")
    (tmp_path / "logging").symlink_to(FIXTURES / "no_init")
    async with running("logging", tmp_path / "logs", root=tmp_path) as agent:
        assert await heard(agent, "hi") == "no package needed"


@pytest.mark.parametrize(
    ("name", "message", "detail"),
    [
        ("broken_import", "ModuleNotFoundError: No module named 'a_package_that_nobody_has'", "import a_package_that"),
        ("exits_at_import", "exited with code 5", "leaving early"),
        ("nothing", "defines no agent", ""),
        ("no_such_directory", "defines no agent", ""),
        ("no.such.module", "No module named 'no'", ""),
    ],
)
async def test_loading__an_agent_that_cannot_be_loaded(tmp_path: Path, name: str, message: str, detail: str) -> None:
    agent = make(name, tmp_path / "logs", workers=2, python=host_forks.command(adk_python()))
    with pytest.raises(AgentFailure) as caught:
        await agent.start()
    with pytest.raises(AgentFailure) as again:
        await agent.open(request())
    await agent.close()
    error = caught.value
    assert (error.kind, error.owner, error.collateral) == (FailureKind.IMPORT, Owner.AGENT, False)
    assert message in error.message
    assert detail in f"{error.traceback}{error.log_tail}"
    assert "agent_eval_host" not in f"{error.traceback}"
    assert error.hint
    assert again.value.message == error.message


@pytest.mark.slow
async def test_start__an_import_that_hangs(tmp_path: Path) -> None:
    for seconds in (4, 12, 40):  # On a busy machine, importing ADK alone may take longer than the first.
        error = await start_failure("hangs_at_import", tmp_path / "logs", start_timeout=seconds)
        assert error.kind is FailureKind.IMPORT
        assert f"within {seconds} s" in error.message
        if "agent.py" in (error.traceback or ""):
            break
    assert "wait_for_a_server()" in (error.traceback or "")


async def test_loading__a_syntax_error_shows_the_line(tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "agent.py").write_text("root_agent = (\n", encoding="utf-8")
    python = host_forks.command(adk_python())
    error = await start_failure("bad", tmp_path / "logs", root=tmp_path, python=python)
    assert "SyntaxError" in error.message
    assert 'agent.py", line 1' in (error.traceback or "")


NO_THREADS = '#!/bin/sh\necho "RuntimeError: can\'t start new thread"\nexit 1\n'
OTHER_PROTOCOL = f"""#!{sys.executable}
import os, sys
os.write(int(sys.argv[-1]), b'{{"v": 99, "id": 1, "type": "request", "method": "hello"}}\\n')
input()
"""


@pytest.mark.parametrize(
    ("python", "kind", "message", "hint"),
    [
        (sys.executable, FailureKind.ENVIRONMENT, "google-adk is not installed", "--agent-requirements"),
        ("/bin/false", FailureKind.ENVIRONMENT, "exited with code 1", ""),
        ("/no/python", FailureKind.ENVIRONMENT, "can't be started", ""),
        (NO_THREADS, FailureKind.ENVIRONMENT, "exited with code 1", "no process ids left"),
        (OTHER_PROTOCOL, FailureKind.PROTOCOL, "not of protocol version 1", ""),
    ],
    ids=["without ADK", "false", "none", "no threads", "other protocol"],
)
async def test_loading__an_interpreter_that_does_not_do(
    tmp_path: Path, python: str, kind: FailureKind, message: str, hint: str
) -> None:
    """The path of an interpreter, or a script instead of one."""
    if python.startswith("#!"):
        script, python = python, str(tmp_path / "python")
        Path(python).write_text(script, encoding="utf-8")
        Path(python).chmod(0o755)
    error = await start_failure("faults", tmp_path / "logs", python=Path(python))
    assert error.kind is kind
    assert message in error.message
    assert hint in (error.hint or "")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may start any number of processes")
async def test_loading__no_process_ids_left_for_a_host(tmp_path: Path) -> None:
    python = adk_python()
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    resource.setrlimit(resource.RLIMIT_NPROC, (0, hard))
    try:
        error = await start_failure("faults", tmp_path / "logs", python=python)
    finally:
        resource.setrlimit(resource.RLIMIT_NPROC, (soft, hard))
    assert "can't be started" in error.message
    assert "no process ids left" in (error.hint or "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a process as another user")
@pytest.mark.skipif(not os.access("/usr/bin/python3", os.X_OK), reason="needs a Python that any user may run")
async def test_loading__another_user_runs_the_host_without_a_way_to_our_files(tmp_path: Path) -> None:
    account = agent_account("agent-eval-test", state_dir=tmp_path / "state")
    sandbox = Sandbox(environment={"PATH": "/usr/bin:/bin"}, user=account)
    error = await start_failure("agent", tmp_path, root=tmp_path, python=Path("/usr/bin/python3"), sandbox=sandbox)
    assert "google-adk is not installed for /usr/bin/python3" in error.message


async def test_loading__nothing_is_left_open(tmp_path: Path) -> None:
    forks = host_forks.command(adk_python())
    async with running("faults", tmp_path / "warm-up", python=forks) as agent:
        await heard(agent, "say hi")
    before = len(os.listdir("/proc/self/fd"))
    for number in range(2):
        async with running("faults", tmp_path / f"logs-{number}", python=forks) as agent:
            session = await agent.open(request())
            await session.send(user_message("say hi"), timeout=20)
    assert len(os.listdir("/proc/self/fd")) <= before


# The line protocol, against a counterpart that may write anything.


SECRET = "s3cret/value"


class Other:
    """The other side: raw lines."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def says(self, **message: Any) -> None:
        await self.writes(json.dumps({"v": 1, **message}).encode() + b"\n")

    async def writes(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def hears(self) -> dict[str, Any]:
        line = await asyncio.wait_for(self.reader.readline(), 5)
        heard: dict[str, Any] = json.loads(line)
        return heard


@asynccontextmanager
async def connected(**options: Any) -> AsyncIterator[tuple[Connection, Other, asyncio.Task[None], list[Any]]]:
    ours, theirs = socket.socketpair()
    notes: list[Any] = []

    async def answer(method: str, params: dict[str, Any]) -> Any:
        if method == "echo":
            return params
        raise RemoteError("unknown-method", method, {"known": ["echo"]})

    connection = Connection(
        masker=Masker([SECRET, "123456"]),
        on_notify=lambda method, params: notes.append((method, params)),
        on_request=answer,
        **options,
    )
    await connection.open(ours)
    reader, writer = await asyncio.open_connection(sock=theirs)
    running = asyncio.create_task(connection.run())
    try:
        yield connection, Other(reader, writer), running, notes
    finally:
        await connection.close()
        await asyncio.gather(running, return_exceptions=True)
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)


async def test_connection__answers_find_their_questions_in_any_order() -> None:
    async with connected() as (connection, other, _, _notes):
        first, number = connection.ask("a", {"x": 1})
        second, two = connection.ask("b", {})
        assert await other.hears() == {"v": 1, "id": first, "type": "request", "method": "a", "params": {"x": 1}}
        await other.hears()
        await other.says(id=second, type="response", result={"two": 2})
        await other.says(id=first, type="response", error={"code": "no", "message": "it can't", "data": {"why": 1}})
        assert await two == {"two": 2}
        with pytest.raises(RemoteError, match="it can't") as caught:
            await number
        assert (caught.value.code, caught.value.data) == ("no", {"why": 1})


async def test_connection__the_other_side_may_ask_too() -> None:
    async with connected() as (_, other, _running, notes):
        await other.says(id=7, type="request", method="echo", params={"a": [1]})
        assert await other.hears() == {"v": 1, "id": 7, "type": "response", "result": {"a": [1]}}
        await other.says(id=8, type="request", method="other")
        assert (await other.hears())["error"]["code"] == "unknown-method"
        await other.says(type="notify", method="note", params={"n": 1})
        await other.says(id=99, type="response", result="nobody asked")
        await other.says(id=9, type="request", method="echo")
        await other.hears()
        assert notes == [("note", {"n": 1})]


@pytest.mark.parametrize(
    "line",
    [b"garbage", b"[]", b'{"v": 2, "type": "notify"}', b'{"v": 1, "type": "shout"}', b'{"type": "notify"}',
     b'{"v": 1, "type": "notify", "method": "m", "params": [1]}', b"[" * 200_000, b"\xff\xfe"],
    ids=["text", "list", "version", "type", "no version", "params", "deep", "bytes"],
)  # fmt: skip
async def test_connection__garbage_ends_the_connection_with_what_was_read(line: bytes) -> None:
    async with connected() as (connection, other, running, _):
        _, answer = connection.ask("a", {})
        await other.writes(line + b"\n")
        with pytest.raises(ProtocolError) as caught:
            await asyncio.wait_for(running, 5)
        assert len(str(caught.value)) < 600
        with pytest.raises(ProtocolError):
            await answer
        assert connection.lost


@pytest.mark.parametrize("where", [390, 400 - len(SECRET) // 2])
async def test_connection__a_line_that_is_too_long_is_not_cut_in_a_secret(where: int) -> None:
    async with connected(max_line=1000) as (_, other, running, _notes):
        await other.writes(b"x" * where + SECRET.encode() + b"y" * 5000)
        with pytest.raises(ProtocolError, match="more than 1,000 bytes") as caught:
            await asyncio.wait_for(running, 5)
    assert SECRET[:4] not in str(caught.value)


def test_a_long_line_that_is_no_json__is_not_cut_in_a_secret() -> None:
    line = b"x" * (100_000 - len(SECRET) // 2) + SECRET.encode() + b"y" * 5000
    with pytest.raises(ProtocolError) as caught:
        decode(line, Masker([SECRET]))
    assert SECRET[:4] not in str(caught.value)


async def test_connection__a_closed_connection_fails_what_waits_and_what_comes() -> None:
    async with connected() as (connection, other, running, _):
        _, waiting = connection.ask("a", {})
        await other.writes(b'{"v": 1, "half a li')
        other.writer.close()
        await asyncio.wait_for(running, 5)
        with pytest.raises(ConnectionLost):
            await waiting
        _, late = connection.ask("b", {})
        with pytest.raises(ConnectionLost):
            await late
        connection.notify("note", {})


def message(params: Any, **more: Any) -> bytes:
    return json.dumps({"v": 1, "type": "notify", "method": "event", "params": params, **more}).encode()


def test_connection__secrets_are_masked_and_the_message_stays_whole() -> None:
    expected_text = decode(
        message({"text": f"is {SECRET}!", "number": 1234567, SECRET: [SECRET]}), Masker([SECRET, "123456", "params"])
    )
    assert expected_text["params"] == {"text": "is ***!", "number": 1234567, "***": ["***"]}


def test_connection__an_escaped_secret_is_masked() -> None:
    line = b'{"v": 1, "type": "notify", "params": {"t": "\\u0073' + SECRET[1:].encode() + b'"}}'
    assert decode(line, Masker([SECRET]))["params"] == {"t": "***"}


@pytest.mark.parametrize("raw", [b'"\\ud83d"', b'"\xed\xa0\xbd"'])
def test_connection__lone_surrogates_become_carriable(raw: bytes) -> None:
    message = decode(b'{"v": 1, "type": "notify", "params": {"t": ' + raw + b"}}", Masker())
    message["params"]["t"].encode("utf-8")


def test_connection__what_is_no_number_becomes_its_name() -> None:
    line = b'{"v": 1, "type": "notify", "params": {"a": NaN, "b": -Infinity}}'
    assert decode(line, Masker())["params"] == {"a": "NaN", "b": "-Infinity"}


# Hosts in forks start and end like hosts in new interpreters (test_adk_faults.py).


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


# How many host processes an agent gets with `workers: auto`.


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
    for _ in range(round(40 * patience())):
        session = await agent.open(request())
        await session.close()
        if session.host is not opened[0].host:
            return True
        await asyncio.sleep(0.1)
    return False


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the share of a core is read from /proc")
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


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the share of a core is read from /proc")
@pytest.mark.parametrize("second", ["", "raise OSError('address in use')", "os._exit(1)"])
async def test_auto__a_second_host_for_few_sessions_that_compute_unless_the_agent_works_only_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: str
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(_slots, "_SPAN", 0.2)
    monkeypatch.setattr(_slots, "_HIGH", 0.05)
    lock = tmp_path / "lock"
    fails = f"if Path({str(lock)!r}).exists():\n    {second}\nPath({str(lock)!r}).touch()" if second else ""
    async with running("telling", tmp_path / "logs", root=write_agent(tmp_path, BUSY + fails), workers=None) as agent:
        opened = await sessions(agent, 2)
        assert await another_host(agent, opened) == (not second)
        assert len({await pid_of(session) for session in opened}) == 1
        await asyncio.gather(*(session.close() for session in opened))
        assert (await say(agent, "more")).final_response is not None
