"""Nothing of the agent is left when what was closed to it is opened."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from agents_open_dir import as_root, open_directory, python_for
from gate_runs import wait_until

from agent_eval_agents.sandbox import kill_uid, uids
from agent_eval_agents.sandbox.forwarding import allow_list
from agent_eval_agents.sandbox.isolation import isolated
from agent_eval_agents.sandbox.sealing import recover
from agent_eval_agents.sandbox.spawn import Account
from agent_eval_agents.sandbox.uids import (
    AgentNotEnded,
    Killer,
    claim,
    end_processes,
    free_uids,
    lock_directory,
    locked_uid,
    processes_of,
)

pytestmark = [as_root, pytest.mark.slow]
HERE = Path(__file__).parent
TOKEN = "ghs_a-token-that-nobody-may-see"
LEAKED_WITHIN = 1.0
"""Seconds that a survivor gets; it looks for the secret a thousand times a second."""


STARTED: list[subprocess.Popen[bytes]] = []


@pytest.fixture(autouse=True)
def reaped() -> Iterator[None]:
    yield
    while STARTED:
        process = STARTED.pop()
        process.kill()
        process.wait(10)


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_directory() as folder:
        yield folder


@pytest.fixture
def uid() -> Iterator[int]:
    with contextlib.ExitStack() as stack:
        yield claim(stack, list(free_uids())[200:])


def started(uid: int, *argv: str) -> None:
    """Starts a process of a user, and waits until it says so."""
    process = subprocess.Popen(argv, user=uid, group=uid, extra_groups=[], cwd="/", stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"started\n"
    process.stdout.close()
    STARTED.append(process)


def python(uid: int) -> str:
    return python_for(Account(name="agent", uid=uid, gid=uid, home=Path("/")))


def start_sleeper(uid: int) -> None:
    started(uid, python(uid), "-c", "print('started', flush=True); import time; time.sleep(60)")


class Checkout:
    """A checkout with a token in `.git`, and a place to leak it to."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "checkout"
        self.secret = self.root / ".git" / "config"
        self.secret.parent.mkdir(parents=True)
        self.secret.write_text(TOKEN)
        self.leak = folder / "open" / "leak"
        self.leak.parent.mkdir()
        self.leak.parent.chmod(0o777)
        self.state_dir = folder / "state"
        self.folder = folder

    def start_chains(self, uid: int) -> None:
        """Starts processes of a user that replace themselves faster than one can look, and leak the token."""
        compiler = shutil.which("cc")
        if compiler is None:
            pytest.skip("needs a C compiler: Python forks too slowly")
        program = str(self.folder / "chain")
        subprocess.run([compiler, "-O1", "-o", program, str(HERE / "agents_fork_chain.c")], check=True, timeout=60)
        started(uid, program, str(self.secret), str(self.leak))

    @property
    def mode(self) -> int:
        return stat.S_IMODE(self.secret.parent.stat().st_mode)

    def isolated(self) -> contextlib.AbstractContextManager[object]:
        return isolated(
            {"GITHUB_WORKSPACE": str(self.root)},
            root=self.root,
            output_dir=self.root / "results",
            allow=allow_list(None),
            state_dir=self.state_dir,
        )

    def gate(self, then: str) -> subprocess.Popen[str]:
        """A gate in a process of its own, which says the uid of its agent and then does something."""
        code = (
            "import os, signal, sys, time\n"
            "from pathlib import Path\n"
            "from agent_eval_agents.sandbox.forwarding import allow_list\n"
            "from agent_eval_agents.sandbox.isolation import isolated\n"
            f"root = Path({str(self.root)!r})\n"
            "with isolated({}, root=root, output_dir=root / 'results', allow=allow_list(None), "
            f"state_dir=Path({str(self.state_dir)!r})) as isolation:\n"
            "    print(isolation.sandbox.user.uid, flush=True)\n"
            f"    {then}\n"
        )
        pipe = subprocess.PIPE
        return subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, text=True)


def test_chains_of_forks__are_ended_before_anything_is_opened(folder: Path) -> None:
    checkout = Checkout(folder)
    with checkout.isolated() as isolation:
        account = isolation.sandbox.user  # type: ignore[attr-defined]
        checkout.start_chains(account.uid)
        assert checkout.mode == 0o700
    assert checkout.mode == 0o755
    time.sleep(LEAKED_WITHIN)
    assert not checkout.leak.exists()


def test_a_chain_without_an_end__does_read_it(folder: Path, uid: int) -> None:
    checkout = Checkout(folder)
    checkout.start_chains(uid)
    wait_until(checkout.leak.exists)
    end_processes(uid)


def test_a_uid_is_taken_once__and_not_while_a_process_has_it(uid: int) -> None:
    with locked_uid(uid) as ours:
        assert not ours
    free = next(uid for uid in list(free_uids())[300:] if not processes_of(uid))
    start_sleeper(free)
    with contextlib.ExitStack() as stack:
        assert claim(stack, [uid, free, *list(free_uids())[400:]]) not in {uid, free}
    end_processes(free)
    with contextlib.ExitStack() as stack:
        assert claim(stack, [free]) == free


def test_ending__only_the_users_processes_are_killed(uid: int) -> None:
    with contextlib.ExitStack() as stack:
        other = claim(stack, list(free_uids())[200:])
        start_sleeper(uid)
        start_sleeper(other)
        end_processes(uid)
        assert (len(processes_of(uid)), len(processes_of(other))) == (0, 1)
        end_processes(other)


def test_ending__an_agent_can_not_kill_its_killer(uid: int) -> None:
    """Neither before it works, nor in the moment in which it is the agent's user."""
    killer = Killer(uid)
    killer.ready()
    shoot = (
        "import os, signal, sys\n"
        "print('started', flush=True)\n"
        "while True:\n"
        "    try: os.kill(int(sys.argv[1]), signal.SIGKILL)\n"
        "    except PermissionError: pass\n"
    )
    started(uid, python(uid), "-c", shoot, str(killer._process.pid))
    time.sleep(0.2)
    assert killer.kill() == "killed"
    end_processes(uid)


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("UID 0 61000", b"this process runs as"),
        ("UID 61000 0", b"this process runs as"),
        ("UID 61000 61000", b"this process runs as"),
        ("setpriv --securebits +no_setuid_fixup UID 61001 61002", b"still has capabilities"),
    ],
)
def test_ending__the_killer_refuses_to_kill_more_than_one_user(command: str, why: bytes) -> None:
    # It never gets to kill(-1): as root that would be the machine's end.
    prefix, _, uids = command.partition("UID")
    argv = [*prefix.split(), sys.executable, "-c", _WITHOUT_KILL, kill_uid.__file__, *uids.split()]
    done = subprocess.run(argv, input=b"k", capture_output=True, timeout=30)
    assert why in done.stdout, done.stderr
    assert b"killed" not in done.stdout
    assert done.returncode == 1


_WITHOUT_KILL = (
    "import os, runpy, sys\n"
    "def kill(*_): print('it would have killed', flush=True); os._exit(9)\n"
    "os.kill = kill\n"
    "sys.argv = sys.argv[1:]\n"
    "runpy.run_path(sys.argv[0], run_name='__main__')\n"
)


def test_what_can_not_be_ended__stays_closed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uids, "_GONE_SECONDS", 0.5)
    checkout = Checkout(folder)
    with pytest.raises(AgentNotEnded, match="uid"), checkout.isolated() as isolation:
        uid = isolation.sandbox.user.uid  # type: ignore[attr-defined]
        start_sleeper(uid)
        [pid] = processes_of(uid)
        _freeze(pid)
    assert checkout.mode == 0o700
    _thaw(pid)
    recover()
    assert processes_of(uid) == []
    assert checkout.mode == 0o755


def _freezer() -> Path:
    folder = Path("/sys/fs/cgroup/freezer")
    if not folder.is_dir():
        pytest.skip("needs a freezer of control groups, version 1: a killed process in it does not end")
    return folder / f"agent-eval-test-{os.getpid()}"


def _freeze(pid: int) -> None:
    group = _freezer()
    group.mkdir()
    (group / "cgroup.procs").write_text(str(pid))
    (group / "freezer.state").write_text("FROZEN")


def _thaw(pid: int) -> None:
    group = _freezer()
    (group / "freezer.state").write_text("THAWED")

    def is_gone() -> bool:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
        return not Path(f"/proc/{pid}").exists()

    wait_until(is_gone)
    group.rmdir()


def test_two_gates__a_directory_is_opened_when_the_last_has_ended(folder: Path) -> None:
    checkout = Checkout(folder)
    first, second = (checkout.gate("sys.stdin.read()") for _ in range(2))
    for gate in (first, second):
        assert gate.stdout is not None and gate.stdout.readline()
    first.communicate(timeout=30)
    assert first.returncode == 0
    assert checkout.mode == 0o700
    second.communicate(timeout=30)
    assert checkout.mode == 0o755


def test_a_gate_that_was_killed__leaves_no_process_and_the_other_opens_what_it_closed(folder: Path) -> None:
    checkout = Checkout(folder)
    killed, other = (checkout.gate("sys.stdin.read()") for _ in range(2))
    assert killed.stdout is not None and other.stdout is not None
    uid = int(killed.stdout.readline())
    assert other.stdout.readline()
    start_sleeper(uid)
    killed.kill()
    killed.communicate(timeout=30)
    wait_until(lambda: not processes_of(uid))  # Its killer saw it die.
    other.communicate(timeout=30)
    # Closed by the killed one still, unless a gate of another test has begun meanwhile: it opens what dead ones closed.
    with checkout.isolated():
        assert checkout.mode == 0o700
    assert checkout.mode == 0o755


def test_a_mode_that_was_changed_meanwhile__is_left_alone(folder: Path) -> None:
    checkout = Checkout(folder)
    with checkout.isolated():
        checkout.secret.parent.chmod(0o750)
    assert checkout.mode == 0o750


def test_a_gate__is_listed_for_as_long_as_it_lives(folder: Path) -> None:
    checkout = Checkout(folder)
    listed = lock_directory() / "seals.json"
    with checkout.isolated() as isolation:
        uid = isolation.sandbox.user.uid  # type: ignore[attr-defined]
        assert str(uid) in json.loads(listed.read_text("utf-8"))["gates"]
        with locked_uid(uid) as ours:
            assert not ours
    assert not listed.exists() or str(uid) not in json.loads(listed.read_text("utf-8"))["gates"]
