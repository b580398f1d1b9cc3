"""Parents of hosts: what they refuse to be, what a forked host has, and what it can't get at."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from adk_envs import adk_python
from adk_harness import failure, forked, host_spec, make, pid, request, running, say
from agents_open_dir import open_directory, python_for
from forked_hosts import host_of, write_adk
from gate_runs import is_gone, wait_until

from agent_eval_agents.host._program import ProgramSpec
from agent_eval_agents.host.connection import ConnectionLost
from agent_eval_agents.host.parents import ForkedHost, Parent, Parents
from agent_eval_agents.protocol import AgentFailure
from agent_eval_agents.sandbox import kill_group, kill_now
from agent_eval_agents.sandbox.spawn import Account, Sandbox
from agent_eval_scoring.core.content import text_of, user_message
from agent_eval_scoring.core.masking import Masker

USER = Account(name="agent", uid=64_998, gid=64_998, home=Path("/nowhere")) if os.geteuid() == 0 else None


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory for `spec`, with something that has google-adk's names."""
    with open_directory() as directory:
        write_adk(directory)
        (directory / "startup").mkdir()
        yield directory


def spec(place: Path, **variables: str) -> ProgramSpec:
    path = f"{place}/startup:{place}/site-packages"
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": path, "KEY": "s3cret-key", **variables}
    return ProgramSpec(
        python=[python_for(USER)],
        root=place,
        sandbox=Sandbox(environment=environment, user=USER),
        masker=Masker(["s3cret-key"]),
        start_timeout=30,
    )


@contextlib.asynccontextmanager
async def parent_in(place: Path) -> AsyncIterator[Parent]:
    parent = await Parent.start(spec(place))
    assert parent is not None
    try:
        yield parent
    finally:
        await parent.close()


REFUSED = {
    "thread": (
        "import threading, time; threading.Thread(target=time.sleep, args=[60], daemon=True).start()",
        "a thread",
    ),
    "file": ("kept = open(__file__)", "opened a file or a socket"),
    "socket": ("import socket; kept = socket.socket()", "opened a file or a socket"),
    "process": ("import subprocess; kept = subprocess.Popen(['sleep', '60'])", "started a process"),
    "code": ("", "sitecustomize is not an installed package"),
    "exit": ("import os; os._exit(3)", "the parent of the hosts has ended"),
    "stop": ("import os; os.kill(os.getpid(), 9)", "the parent of the hosts has ended"),
    "flood": ("print('x' * 200_000)", "has ended"),
    "secret": ("print('s3cret-key')", "***"),
}
"""What runs when an interpreter starts, and why its process can't be a parent."""
ENDED = {"process", "exit", "stop", "flood"}
"""Those that can't become a host either."""


@pytest.mark.parametrize("name", REFUSED)
async def test_parents__refuse_what_a_fork_would_not_have(
    place: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    code, why = REFUSED[name]
    (place / "startup/sitecustomize.py").write_text(code)
    with caplog.at_level(logging.DEBUG, "agent_eval.hosts"):
        parent = await Parent.start(spec(place))
    assert why in caplog.text
    assert "s3cret" not in caplog.text
    assert (parent is None) is (name in ENDED)
    if parent is not None:
        ours, theirs = socket.socketpair()
        with ours, theirs, pytest.raises(OSError, match=r"opened a|a thread|installed"):
            await parent.fork("fork", place, theirs)
        parent.became = True
        async with host_of(parent, place / "startup", "become") as host:
            assert await host.run("import os\nreturn os.getcwd()") == str(place / "startup")
            kill_now(host.process)
            assert await asyncio.wait_for(host.process.wait(), 10) == -9
        await parent.close()


async def test_parents__an_error_of_the_import_is_left_to_the_hosts(
    place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (place / "site-packages/google/adk/runners.py").write_text("raise ValueError('broken')")
    with caplog.at_level(logging.DEBUG, "agent_eval.hosts"):
        assert await Parent.start(spec(place)) is None
    assert "ValueError: broken" in caplog.text


async def test_parents__are_started_for_several_hosts_of_one_environment(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_eval_agents.host.parents._MOST_PARENTS", 2)

    async def parent_of(parents: Parents, **variables: str) -> Parent | None:
        fork = await parents.fork_of(spec(place, **variables))
        assert fork is None or isinstance(fork, functools.partial)
        return None if fork is None else cast("Any", fork.func).__self__

    parents = Parents()
    assert await parent_of(parents) is None, "no one would end it"
    async with parents.expecting(1, USER), parents.expecting(5, Account(name="b", uid=1, gid=1, home=place)):
        assert [await parent_of(parents), await parent_of(parents)] == [None, None]
        third = await parent_of(parents)
        assert third is not None
        async with parents.expecting(1, USER):
            assert await parent_of(parents) is third
            other = await parent_of(parents, OTHER="1")
            assert other is not None
            assert other is not third
            assert await parent_of(parents, OTHER="2") is None
        numbers = [third._process.pid, other._process.pid]
    wait_until(lambda: all(map(is_gone, numbers)), seconds=5)


async def test_parents__one_for_a_single_host_becomes_it(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts, parents = spec(place), Parents()
    python = Path(facts.python[0])
    parents.begin(python, place, facts.sandbox, facts.masker)
    assert not parents._started, "python may look for something in its working directory"
    monkeypatch.setattr("agent_eval_agents.host.parents._place", lambda _: None)

    async def fork(parents: Parents) -> str:
        """Which parent makes the next host, and how."""
        made = await parents.fork_of(facts)
        assert made is None or isinstance(made, functools.partial)
        return "new" if made is None else made.args[0]

    async def began(parents: Parents) -> Parent:
        parents.begin(python, place, facts.sandbox, facts.masker)
        (task,) = parents._started.values()
        parent = await task
        assert parent is not None
        return parent

    first = await began(parents)
    async with parents.expecting(1, USER):
        assert [await fork(parents), await fork(parents)] == ["become", "new"]
    second = await began(parents)
    async with parents.expecting(2, USER):
        assert [await fork(parents) for _ in range(4)] == ["fork", "built", "built", "built"], "the fourth of all"
    assert is_gone(first._process.pid)
    assert is_gone(second._process.pid)


MODELS = """
class BaseModel: pass
class Broken(BaseModel):
    def model_rebuild(raise_errors):
        raise TypeError("no such type")
COUNT = []
class Built(Broken):
    def model_rebuild(raise_errors):
        print("built")
        COUNT.append(1)
"""


async def test_parents__a_host_prints_what_the_import_has_printed_and_its_models_are_built(place: Path) -> None:
    (place / "site-packages/pydantic.py").write_text(MODELS)
    code = "print('experimental'); import sys, pydantic; print(1, file=sys.stderr)"
    (place / "site-packages/google/adk/runners.py").write_text(code)
    built = "import pydantic\nreturn pydantic.COUNT"
    async with parent_in(place) as parent, host_of(parent, place) as host, host_of(parent, place, "built") as second:
        async with host_of(parent, place, "built") as third:
            assert [await each.run(built) for each in (host, second, third)] == [[], [1], [1]]
        await host.run("print('mine')")
        for each, last in ((host, b"mine\n"), (second, b"")):
            await kill_group(each.process)
            assert each.process.stdout is not None
            assert await each.process.stdout.read() == b"experimental\n1\n" + last


async def test_parents__hosts_are_apart(place: Path) -> None:
    other = place / "other"
    other.mkdir()
    code = "import os, random, uuid\nreturn [os.getcwd(), os.getpgrp() == os.getsid(0) == os.getpid(), random.random()]"
    async with parent_in(place) as parent, host_of(parent, place) as one, host_of(parent, other) as two:
        first, second = await one.run(code), await two.run(code)
    assert (first[:2], second[:2]) == ([str(place), True], [str(other), True])
    assert first[2] != second[2]


ENDS = {"os._exit(7)": 7, "os.abort()": -6, "os.kill(os.getpid(), 9)": -9, "os.kill(os.getpid(), 15)": -15}


@pytest.mark.parametrize("code", ENDS)
async def test_parents__say_how_a_host_ended(place: Path, code: str) -> None:
    async with parent_in(place) as parent, host_of(parent, place) as host:
        with contextlib.suppress(Exception):
            await host.run(f"import os\n{code}")
        assert await asyncio.wait_for(host.process.wait(), 10) == ENDS[code]
        assert isinstance(host.process, ForkedHost)
        assert not host.process.orphaned
        async with host_of(parent, place) as another:
            assert await another.run("return 1") == 1


ATTACKS = """
import ctypes, fcntl, os, stat
libc, parent, done = ctypes.CDLL(None, use_errno=True), os.getppid(), []
def attempt(name, action):
    try:
        if action() is not False:
            done.append(name)
    except OSError:
        pass
def call(*arguments):
    if libc.syscall(*arguments) < 0:
        raise OSError(ctypes.get_errno(), "")
buffer = ctypes.create_string_buffer(16)
vector = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 16)
theirs = (ctypes.c_void_p * 2)(id(None), 16)
for pid, whose in ((parent, "parent"), (os.getpid(), "own")):
    attempt(f"memory {whose}", lambda: open(f"/proc/{pid}/mem", "r+b").close())
    attempt(f"environment {whose}", lambda: open(f"/proc/{pid}/environ").read())
    attempt(f"descriptors {whose}", lambda: os.listdir(f"/proc/{pid}/fd"))
    attempt(f"maps {whose}", lambda: open(f"/proc/{pid}/maps").read(1))
    attempt(f"read {whose}", lambda: call(310, pid, ctypes.byref(vector), 1, ctypes.byref(theirs), 1, 0))
    attempt(f"descriptor {whose}", lambda: os.close(call(438, os.pidfd_open(pid), 0, 0) or 999))
attempt("trace parent", lambda: call(101, 16, parent, 0, 0))
def is_other_socket(number):
    if stat.S_ISSOCK(os.fstat(number).st_mode):
        import socket
        with socket.socket(fileno=os.dup(number)) as found:
            return found.type != socket.SOCK_STREAM
    return False
for number in range(3, 1024):
    attempt(f"socket {number}", lambda: is_other_socket(number))
    attempt(f"pipe {number}", lambda: stat.S_ISFIFO(os.fstat(number).st_mode))
return done
"""


async def test_parents__a_hostile_host_gets_at_nothing_of_its_parent(place: Path) -> None:
    async with parent_in(place) as parent, host_of(parent, place) as host:
        done = await host.run(ATTACKS)
    assert [name for name in done if "own" not in name] == []
    assert {"memory own", "environment own", "descriptors own", "read own"} <= set(done), "they can succeed"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
async def test_parents__one_that_is_gone_takes_its_hosts_with_it(
    place: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr("agent_eval_agents.host.parents._ANSWER_SECONDS", 0.5)
    async with parent_in(place) as parent, host_of(parent, place) as hostile, host_of(parent, place) as innocent:
        with contextlib.suppress(ConnectionLost):
            await hostile.run(f"import os\nos.kill(os.getppid(), {int(number)})\nreturn 1")
        ours, theirs = socket.socketpair()
        with ours, theirs, pytest.raises(OSError, match=r"ended|Broken pipe|reset|^$"):
            await parent.fork("fork", place, theirs)
        assert await asyncio.wait_for(innocent.process.wait(), 10) == -9
        assert isinstance(innocent.process, ForkedHost)
        assert innocent.process.orphaned


STATE = """
import asyncio, atexit, ctypes, faulthandler, gc, json, locale, logging, os, resource, signal, sys, warnings
def kind(number):
    try:
        place = os.readlink(f"/proc/self/fd/{number}")
    except OSError:  # that of the directory
        return ""
    return place.partition(":")[0] if "[" in place else place
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
prctl, value = ctypes.CDLL(None).prctl, ctypes.c_int()
prctl(2, ctypes.byref(value), 0, 0, 0)
state = {
    "path": sys.path, "modules": sorted(sys.modules), "environment": dict(os.environ), "cwd": os.getcwd(),
    "umask": [mask := os.umask(0), os.umask(mask)][0], "argv": sys.argv, "original": sys.orig_argv[:-1],
    "signals": [str(signal.getsignal(number)) for number in signal.valid_signals()],
    "gc": [gc.get_threshold(), gc.isenabled(), gc.get_debug()], "locale": locale.setlocale(locale.LC_ALL),
    "encodings": [sys.getfilesystemencoding(), sys.stdout.encoding, sys.stdout.errors, sys.stdout.line_buffering],
    "descriptors": sorted(kind(name) for name in os.listdir("/proc/self/fd")),
    "terminals": [os.isatty(number) for number in range(3)],
    "limits": [resource.getrlimit(number) for number in range(16)],
    "group": [os.getpgrp() == os.getpid(), os.getsid(0) == os.getpid()],
    "program": [os.readlink("/proc/self/exe"), open("/proc/self/environ").read()],
    "logging": [str(logging.root.handlers), logging.root.level], "warnings": str(warnings.filters),
    "asyncio": type(asyncio.get_event_loop_policy()).__name__, "flags": str(sys.flags), "exits": atexit._ncallbacks(),
    "faults": faulthandler.is_enabled(), "finders": [str(type(each)) for each in sys.meta_path],
    "hooks": [str(sys.excepthook), str(sys.displayhook), sys.getrecursionlimit(), sys.getswitchinterval()],
    "prctl": [prctl(3, 0, 0, 0, 0), value.value, prctl(39, 0, 0, 0, 0)], "nice": os.nice(0),
    "affinity": sorted(os.sched_getaffinity(0)),
    "status": {name: status.get(name) for name in (
        "Uid", "Gid", "Groups", "Threads", "SigBlk", "SigIgn", "SigCgt", "CapEff", "NoNewPrivs", "Seccomp")},
}
print("STATE", json.dumps(state))
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["fork", "become"])
@pytest.mark.parametrize("version", ["1.18.0", "2.13.0"])
async def test_parents__their_host_is_like_a_new_one(tmp_path: Path, version: str, how: str) -> None:
    facts: dict[str, Any] = {"environment": {"AT_IMPORT": STATE, "LANG": "C.UTF-8"}, "python": adk_python(version)}
    states = []
    async with forked(2 if how == "fork" else 1) as parents:
        started = host_spec("faults", tmp_path / "logs", **facts)
        parents["parents"].begin(facts["python"], started.root, started.sandbox, started.masker)
        for options in (parents, {}):
            async with running("faults", tmp_path / "logs", **facts, **options):
                log = (tmp_path / "logs/faults-1.log").read_text()
            states.append((json.loads(log.partition("STATE ")[2].splitlines()[0]), log.partition("STATE ")[0]))
    (fork, before), (new, before_new) = states
    allowed = {"agent_eval_host.forking", "ctypes", "_ctypes", "ctypes._endian"}
    assert set(fork.pop("modules")) - allowed == set(new.pop("modules")) - allowed
    assert fork == new
    assert before == before_new


@pytest.mark.slow
async def test_parents__what_happens_to_one_is_no_agents_fault(tmp_path: Path) -> None:
    """Sessions are run again, hosts that load start by themselves, and so do all that follow."""
    async with forked() as parents, running("faults", tmp_path / "logs", **parents) as agent:
        session = await agent.open(request())
        waiting = asyncio.create_task(session.send(user_message("sleep:60"), timeout=60))
        await say(agent, "say hello")
        (parent,) = [task.result() for task in parents["parents"]._started.values()]
        assert parent is not None
        os.kill(parent._process.pid, signal.SIGKILL)
        with pytest.raises(AgentFailure) as caught:
            await waiting
        assert caught.value.collateral
        await session.close()
        number = await pid(agent)
        assert Path(f"/proc/{number}/stat").read_bytes().rpartition(b")")[2].split()[1] == b"%d" % os.getpid()
        assert not (await failure(agent, "os._exit", isolated=True)).collateral
        assert text_of((await say(agent, "say again")).final_response) == "say again"


@pytest.mark.slow
async def test_parents__one_that_ends_while_a_host_loads(tmp_path: Path) -> None:
    kills = "import os, pathlib, signal; place = pathlib.Path(os.environ['HOME'], 'once')\n"
    kills += "if not place.exists(): place.touch(); os.kill(os.getppid(), signal.SIGKILL); import time; time.sleep(5)"
    (tmp_path / "logs").mkdir()
    async with forked() as parents:
        agent = make("faults", tmp_path / "logs", environment={"AT_IMPORT": kills}, **parents)
        try:
            await agent.start()
            assert text_of((await say(agent, "say it works")).final_response) == "say it works"
        finally:
            await agent.close()
