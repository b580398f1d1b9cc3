"""Hosts of agents: what is loaded, their protocol against a counterpart that may write anything, their number."""

from __future__ import annotations

import asyncio
import json
import os
import py_compile
import re
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
from adk_harness import failure, forked, headline, make, pid, request, running, say, start_failure
from gate_runs import is_gone, patience, wait_until
from golden_files import check

from agent_eval_agents import loading
from agent_eval_agents.adk import _driver, _slots
from agent_eval_agents.host.connection import Connection, ConnectionLost, ProtocolError, RemoteError
from agent_eval_agents.protocol import AgentFailure, FailureKind
from agent_eval_agents.sandbox.spawn import Sandbox, agent_account
from agent_eval_scoring.core.content import text_of, user_message
from agent_eval_scoring.core.invocation import tool_responses
from agent_eval_scoring.core.masking import Masker

# What is loaded as an agent, how it finds its modules, its settings and its session.


async def heard(*args: Any, **facts: Any) -> str:
    return text_of((await say(*args, **facts)).final_response)


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


_TRIES_A2A = """
import importlib.machinery, pathlib, sys, traceback
from google.adk.agents import BaseAgent
from google.adk.events import Event
from google.genai import types


def tried():
    try:
        import google.adk.agents.remote_a2a_agent
    except ImportError as error:
        return type(error).__name__, error.name, str(error), traceback.extract_tb(error.__traceback__)[-1].name


at_load = tried()


class Finder:
    spec = None

    def find_spec(self, name, path=None, target=None):
        return self.spec if name == "a2a" else None


class Tries(BaseAgent):
    async def _run_async_impl(self, context):
        sys.path.append(3.5)  # Python ignores what is no path.
        said = [at_load[:3] == tried()[:3], tried()[3]]
        sys.meta_path.append(finder := Finder())
        said.append(tried()[3])
        finder.spec = importlib.machinery.ModuleSpec("a2a", None, is_package=True)
        said.append(tried()[2].startswith("No module named 'a2a."))
        del finder.spec, sys.modules["a2a"]
        place = pathlib.Path(__file__).parent / "later"
        place.mkdir()
        sys.path.append(str(place))
        said.append(tried()[3])
        (place / "a2a").mkdir()
        said.append(tried()[2].startswith("No module named 'a2a."))
        yield Event(author=self.name, content=types.Content(role="model", parts=[types.Part(text=str(said))]))


root_agent = Tries(name="tries")
"""


@pytest.mark.parametrize("version", MATRIX)
async def test_loading__what_needs_a2a_fails_at_once_in_a_turn_and_as_in_adk(tmp_path: Path, version: str) -> None:
    (tmp_path / "tries").mkdir()
    (tmp_path / "tries" / "agent.py").write_text(_TRIES_A2A, encoding="utf-8")
    async with running("tries", tmp_path / "logs", root=tmp_path, python=adk_python(version)) as agent:
        assert await heard(agent, "?") == "[True, 'find_spec', 'find_spec', True, 'find_spec', True]"


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
    assert rules.endswith(" Please.")
    # What one case leaves for its user, no other case finds.
    texts = {"rules": rules, "again": again, "other": other, "mood": mood, "later": later}
    facts["instructions"] = {name: text.splitlines()[0] for name, text in texts.items()}
    assert facts.pop("cwd") == str(FIXTURES)
    facts["retries"] = json.loads(retries.removesuffix(" Please."))
    check("golden_home_agent.json", json.dumps(facts, indent=1) + "\n")
    assert missing.kind is FailureKind.EXCEPTION
    assert "guest" in missing.message


@pytest.mark.parametrize(
    ("name", "answer", "options"),
    [
        ("async_agent", "made later", {}),
        ("no_init", "no package needed", {}),
        ("logging", "no package needed", {}),  # named like a module in use
        ("faults.agent", "say hi", {}),
        ("faults", "say hi", {}),
        ("shapes", "The specialist says hello.", {"sub_agent": "specialist"}),
        ("home", "I heard 'say hi'. Please.", {"sub_agent": "butler"}),  # the App keeps its plugins
        ("home", '"colour": null', {"environment": {"ADK_DISABLE_LOAD_DOTENV": "1"}}),
    ],
)
async def test_loading__forms_of_agents(tmp_path: Path, name: str, answer: str, options: dict[str, Any]) -> None:
    options = {"python": host_forks.command(adk_python()), **options}
    if name == "logging":
        (tmp_path / "scripted_model.py").symlink_to(FIXTURES / "scripted_model.py")
        (tmp_path / "logging").symlink_to(FIXTURES / "no_init")
        options = {"root": tmp_path}
    async with running(name, tmp_path / "logs", **options) as agent:
        text = "facts" if "environment" in options else "say hi"
        assert answer in await heard(agent, text, state={"guest": "Ann"})
        assert agent.provenance["agent"] == options.get("sub_agent", agent.provenance["agent"])
    logs = "".join(path.read_text(encoding="utf-8") for path in (tmp_path / "logs").glob("*.log"))
    assert ("the notebook was closed" in logs) == (name == "home"), "tools are closed in the end"


@pytest.mark.slow
async def test_start__an_import_that_hangs(tmp_path: Path) -> None:
    for seconds in (4, 12, 40):  # On a busy machine, importing ADK alone may take longer than the first.
        error = await start_failure("hangs_at_import", tmp_path / "logs", start_timeout=seconds)
        assert error.kind is FailureKind.IMPORT
        assert f"within {seconds} s" in error.message
        if "agent.py" in (error.traceback or ""):
            break
    assert "wait_for_a_server()" in (error.traceback or "")


NO_THREADS = '#!/bin/sh\necho "RuntimeError: can\'t start new thread"\nexit 1\n'
OTHER_PROTOCOL = f"""#!{sys.executable}
import os, sys
os.write(int(sys.argv[-1]), b'{{"v": 99, "id": 1, "type": "request", "method": "hello"}}\\n')
input()
"""


STARTS: dict[str, dict[str, Any]] = {
    "an unknown sub-agent": {"name": "shapes", "sub_agent": "speci"},
    "a missing package": {"name": "broken_import"},
    "an exit": {"name": "exits_at_import"},
    "no agent": {"name": "nothing"},
    "no directory": {"name": "no_such_directory"},
    "no module": {"name": "no.such.module"},
    "a syntax error": {"name": "bad"},
    "an interpreter without google-adk": {"python": Path(sys.executable)},
    "a command that fails": {"python": Path("/bin/false")},
    "no such command": {"python": Path("/no/python")},
    "no threads": {"python": NO_THREADS},
    "another protocol": {"python": OTHER_PROTOCOL},
}
"""Agents, and interpreters or scripts instead of them."""


async def test_loading__what_is_said_of_agents_and_interpreters_that_do_not_do(tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "agent.py").write_text("root_agent = (\n", encoding="utf-8")
    (tmp_path / "scripted_model.py").symlink_to(FIXTURES / "scripted_model.py")
    shown = {}
    for name, options in STARTS.items():
        facts = {"name": "faults", "python": host_forks.command(adk_python()), "workers": 2, **options}
        if isinstance(script := facts["python"], str):
            facts["python"] = tmp_path / "python"
            facts["python"].write_text(script, encoding="utf-8")
            facts["python"].chmod(0o755)
        root = tmp_path if facts["name"] == "bad" else FIXTURES
        agent = make(facts.pop("name"), tmp_path / "logs", root=root, **facts)
        errors = []
        for work in (agent.start(), agent.open(request())):
            with pytest.raises(AgentFailure) as caught:
                await work
            errors.append(caught.value)
        await agent.close()
        assert str(errors[0]) == str(errors[1])
        assert "agent_eval_host" not in str(errors[0].traceback)
        log = (errors[0].log_tail or "").splitlines() if "exited" in str(errors[0]) else []  # another may be killed
        lines = [*headline(errors[0]), errors[0].traceback or "", *log[-1:]]
        text = (
            "\n".join(line for line in lines if line).replace(str(FIXTURES), "FIXTURES").replace(str(tmp_path), "TMP")
        )
        text = re.sub(r"\bline \d+", "line N", text.replace(sys.executable, "PYTHON"))
        text = re.sub(r"(?m:^[ ~^]+\n)|\n  File .*frozen.*", "", text)
        shown[name] = re.sub(r"TMP/logs/[\w.-]+", "TMP/logs/FILE", text)
    check("golden_starts.txt", "".join(f"# {name}\n{text}\n\n" for name, text in shown.items()))


MADE = "from google.adk.agents import LlmAgent\nroot_agent = LlmAgent(model='m', {})\n"
NAMED = MADE.format("name='w'")
SLIPS: dict[str, tuple[str, str]] = {
    "a field that does not exist": ("weather", MADE.format("name='w', instructions='Help.'")),
    "a name that is none": ("weather", MADE.format("name='weather agent'")),
    "two fields": ("weather", MADE.format("name='weather agent', tool=[], mdel='m'")),
    "a variable": ("weather", "import os\nKEY = os.environ['WEATHER_KEY']\n"),
    "a variable of the CI system": ("weather", "import os\nKEY = os.environ['GITHUB_TOKEN']\n"),
    "a variable that a program checks": ("weather", "raise RuntimeError('Please set WEATHER_KEY first')\n"),
    "an exit with a text": ("weather", "import sys\nsys.exit('set up first')\n"),
    "an exit with a number": ("weather", "import sys\nsys.exit(3)\n"),
    "a relative file": ("weather", "CITIES = open('cities.txt').read()\n"),
    "a relative file beside it": ("weather", "TOOLS = open('tools.py').read()\n"),
    "a relative file with another name": ("weather", "TOOLS = open('tolls.py').read()\n"),
    "a module of the package": ("weather", "from .tolls import look_up\n"),
    "a module of the package by its name": ("weather", "from weather.tolls import look_up\n"),
    "a module of the package as agent": ("weather", "from agent.tolls import look_up\n"),
    "a module of a package in it": ("weather", "from .parts.nothing import x\n"),
    "a module of a package beside it": ("weather", "from core.toolz import x\n"),
    "a module of a package in src": ("weather", "from lib.thing import x\n"),
    "a module beside it": ("weather", "import tools\n"),
    "almost a module beside it": ("weather", "import tolls\n"),
    "a package of strangers": ("weather", "import a_package_that_nobody_has.x\n"),
    "no __init__.py": ("weather", "from core import tools2\n"),
    "a name that a module lacks": ("weather", "from .tools import look_down\n"),
    "an import from above": ("shop/weather", "from ..core import x\n"),
    "an import from above in src": ("src/lib/weather", "from ...core import x\n"),
    "a relative import of a file": ("single.py", "from .core import x\n"),
    "a module that --agent names": ("wether.agent", ""),
    "a function": ("weather", "def root_agent():\n    pass\n"),
    "nothing": ("weather", "root_agent = None\n"),
    "a class": ("weather", "from google.adk.agents import LlmAgent\n\nroot_agent = LlmAgent\n"),
    "an indent": ("weather", "X = 1\n    Y = 2\n"),
    "a class of ADK": ("weather", "from google.adk.agents import LlmAgnt\n"),
    "a module of ADK": ("weather", "from google.adk.agent import LlmAgent\n"),
    "a variable that may be missing": ("weather", "import os\nKEYS = os.getenv('WEATHER_KEYS').split(',')\n"),
    "a file that is not there": (
        "weather",
        "import pathlib\npathlib.Path(__file__).with_name('tool.py').read_text()\n",
    ),
    "a question": ("weather", "CITY = input('City? ')\n"),
    "an extra of ADK": (
        "weather",
        "raise ImportError('LiteLLM support requires: pip install google-adk[extensions]')\n",
    ),
    "a circle": ("weather", "from weather.agent import root_agent\n"),
}
"""The agent, and its agent.py or its own text."""


@pytest.mark.slow
async def test_loading__what_is_said_of_slips_in_an_agent(tmp_path: Path) -> None:
    shown = {}
    for number, (name, (path, text)) in enumerate(SLIPS.items()):
        root = tmp_path / f"r{number}"
        files = dict.fromkeys(("weather/__init__.py", "weather/tools.py", "weather/parts/__init__.py"), "")
        files |= dict.fromkeys(("core/tools.py", "src/lib/things.py"), "X = 1\n")
        if name != "a module that --agent names":
            files[path if path.endswith(".py") else f"{path}/agent.py"] = text
        for place, content in files.items():
            (root / place).parent.mkdir(parents=True, exist_ok=True)
            (root / place).write_text(content, encoding="utf-8")
        agent = make(path, tmp_path / "logs", root=root, python=host_forks.command(adk_python()))
        with pytest.raises(AgentFailure) as caught:
            await agent.start()
        await agent.close()
        text = "\n".join(headline(caught.value)).replace(str(root), "ROOT")
        shown[name] = re.sub(r"\(/[^)]*/google/adk", "(VENV/google/adk", text)
    check("golden_slips.txt", "".join(f"# {name}\n{text}\n\n" for name, text in shown.items()))


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
        masker=Masker([SECRET, "123456", "params"]),
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


def notice(params: bytes) -> bytes:
    return b'{"v": 1, "type": "notify", "method": "event", "params": ' + params + b"}"


HALF = len(SECRET) // 2
LINES = {
    **{"text": b"garbage", "a list": b"[]", "another version": b'{"v": 2, "type": "notify"}', "bytes": b"\xff\xfe"},
    **{"another type": b'{"v": 1, "type": "shout"}', "no version": b'{"type": "notify"}', "deep": b"[" * 200_000},
    "a list as params": notice(b"[1]"),
    "a long line, with a secret at the cut": b"x" * (100_000 - HALF) + SECRET.encode() + b"y" * 5000,
    "too long, with a secret in what is shown": b"x" * 390 + SECRET.encode() + b"y" * 5000,
    "too long, with a secret at the cut": b"x" * (400 - HALF) + SECRET.encode() + b"y" * 5000,
    "secrets, also in a name and a number": notice(
        f'{{"text": "is {SECRET}!", "number": 1234567, "{SECRET}": ["{SECRET}"]}}'.encode()
    ),
    "an escaped secret": notice(b'{"t": "\\u0073' + SECRET[1:].encode() + b'"}'),
    "half a surrogate pair": notice(b'{"t": "\\ud83d"}'),
    "half a surrogate pair in bytes": notice(b'{"t": "\xed\xa0\xbd"}'),
    "what is no number": notice(b'{"a": NaN, "b": -Infinity}'),
}


async def test_connection__what_becomes_of_lines() -> None:
    shown = {}
    for name, line in LINES.items():
        async with connected(max_line=1000 if "too long" in name else 1_000_000) as (connection, other, running, notes):
            _, answer = connection.ask("a", {})
            await other.writes(line + b"\n")
            await other.writes(notice(b'{"the": "end"}') + b"\n")
            while notes[-1:] != [("event", {"the": "end"})] and not running.done():
                await asyncio.sleep(0.001)
            shown[name] = f"{[params for _, params in notes[:-1]]}, lost: {connection.lost}"
            if running.done():
                error = running.exception()
                assert answer.exception() is error and isinstance(error, ProtocolError)
                shown[name] += f": {re.sub('x{9,}', 'x…x', str(error))}"
                assert len(str(error)) < 600
    check("golden_lines.txt", "".join(f"# {name}\n{text}\n\n" for name, text in shown.items()))


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


BUSY = "import threading\ndef spin():\n    while True: pass\nthreading.Thread(target=spin, daemon=True).start()\n"
ONCE = "lock = Path(os.environ['HOME']) / 'lock'\nif lock.exists():\n    {}\nlock.touch()"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="hosts are forked on Linux only")
@pytest.mark.parametrize(
    ("at_import", "runs", "hosts"),
    [("", 59, 1), ("", 60, 2), ("", 500, 3), ("time.sleep(0.6)", 500, 1)],  # the last one does not load quickly
)
async def test_auto__forks_for_many_planned_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_import: str, runs: int, hosts: int
) -> None:
    for module in (_driver, loading):
        monkeypatch.setattr(module, "cores", lambda: 3)
    facts: dict[str, Any] = {"environment": {"AT_IMPORT": at_import}, "workers": None, "runs": runs}
    async with forked() as parents, running("faults", tmp_path / "logs", **facts, **parents) as agent:
        opened = [await agent.open(request()) for _ in range(5)]
        assert len({session.host for session in opened}) == 1, "the second one begins with the fifth session"
        for _ in range(20):
            await asyncio.sleep(0.1 * patience())
            opened.append(await agent.open(request()))
        numbers = [await session.send(user_message("pid"), timeout=60) for session in opened]
        assert len({str(tool_responses(turn.intermediate_data)[0].response) for turn in numbers}) == hosts


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the share of a core is read from /proc")
@pytest.mark.parametrize(
    ("at_import", "sessions", "hosts"),
    [
        ("", 8, 2),  # many sessions
        ("time.sleep(0.6)", 8, 1),  # the agent does not load quickly
        (BUSY, 2, 2),  # they compute
        (BUSY + ONCE.format("raise OSError('address in use')"), 2, 1),  # the agent works only once
        (BUSY + ONCE.format("os._exit(1)"), 2, 1),
    ],
)
async def test_auto__a_second_host_for_many_sessions_or_for_those_that_compute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_import: str, sessions: int, hosts: int
) -> None:
    monkeypatch.setattr(_driver, "cores", lambda: 4)
    monkeypatch.setattr(_driver, "_IN_ALL", 8)
    if sessions < 8:
        monkeypatch.setattr(_slots, "_SPAN", 0.2)
        monkeypatch.setattr(_slots, "_HIGH", 0.05)
    async with running("faults", tmp_path / "logs", environment={"AT_IMPORT": at_import}, workers=None) as agent:
        opened = [await agent.open(request()) for _ in range(sessions)]
        assert len({session.host for session in opened}) == 1
        others = False
        for _ in range(round(40 * patience())):
            # No more than one at once beside those that are open.
            session = await agent.open(request())
            await session.close()
            others = others or session.host is not opened[0].host
            if others:
                break
            await asyncio.sleep(0.1)
        assert others == (hosts == 2)
        turns = [await session.send(user_message("pid"), timeout=60) for session in opened]
        assert len({str(tool_responses(turn.intermediate_data)[0].response) for turn in turns}) == 1
        await asyncio.gather(*(session.close() for session in opened))
        assert (await say(agent, "say more")).final_response is not None
