"""The gate's parent: passes signals on, takes in orphans, and ends them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from gate_runs import is_gone, wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="orphans find another parent on Linux only"),
]

STARTED: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    yield
    while STARTED:
        process = STARTED.pop()
        process.kill()
        process.communicate(timeout=30)


ORPHAN = """
def orphan(seconds):
    import os, subprocess, sys
    code = f"import os, time\\nif os.fork(): os._exit(0)\\nos.setsid()\\nprint(os.getpid(), flush=True)\\n"
    code += "os.closerange(0, 3)\\n" + f"time.sleep({seconds})"
    started = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    pid = int(started.stdout.readline())
    started.wait()
    print(pid, flush=True)
    return pid
"""


def supervised(work: str, prefix: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    """A process whose work is the body of a function; it says the child's process id first."""
    body = "".join(f"    {line}\n" for line in work.splitlines())
    code = f"import os, signal, sys, time\nfrom agent_eval_agents.supervisor import supervised\n{ORPHAN}\n"
    code += f"def work():\n    print(os.getpid(), flush=True)\n{body}\nos._exit(supervised(work))"
    pipe = subprocess.PIPE
    STARTED.append(subprocess.Popen([*prefix, sys.executable, "-c", code], stdout=pipe, stderr=pipe, text=True))
    return STARTED[-1]


def number(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


def test_an_orphan_that_left_the_session__is_ended(tmp_path: Path) -> None:
    process = supervised("orphan(600)\nreturn 3")
    number(process)
    orphan = number(process)
    process.communicate(timeout=30)
    assert process.returncode == 3
    assert is_gone(orphan)


def test_orphans_that_ended__are_reaped_while_work_goes_on(tmp_path: Path) -> None:
    process = supervised("for _ in range(5): orphan(0)\nsys.stderr.close()\ntime.sleep(600)")
    child = number(process)
    orphans = [number(process) for _ in range(5)]
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in orphans))
    assert not is_gone(child)
    process.terminate()
    process.communicate(timeout=30)


@pytest.mark.parametrize("received", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGUSR1])
def test_signals__are_passed_on(received: signal.Signals) -> None:
    # Short sleeps: Python misses a signal that comes between its last check and the system call.
    process = supervised(
        f"signal.signal({int(received)}, lambda *_: os._exit(42))\nprint(0, flush=True)\nwhile True: time.sleep(0.1)"
    )
    number(process)
    number(process)
    process.send_signal(received)
    process.communicate(timeout=30)
    assert process.returncode == 42


def test_a_gate_that_is_killed__takes_its_orphans_along_and_says_so() -> None:
    process = supervised("orphan(600)\nos.kill(os.getpid(), signal.SIGKILL)")
    number(process)
    orphan = number(process)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGKILL
    assert "killed by SIGKILL; there is no verdict. `run --resume` continues a run." in err
    assert is_gone(orphan)


def test_a_supervisor_that_is_killed__takes_the_gate_along() -> None:
    process = supervised("print(0, flush=True)\ntime.sleep(600)")
    child = number(process)
    number(process)
    process.kill()
    process.communicate(timeout=30)
    wait_until(lambda: is_gone(child))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a namespace of processes")
def test_as_process_1__orphans_are_reaped_and_signals_arrive() -> None:
    """As in a container."""
    work = "signal.signal(signal.SIGTERM, lambda *_: os._exit(42))\nfor _ in range(5): orphan(0)\ntime.sleep(600)"
    process = supervised(work, ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child"))
    if process.stdout is None or not (first := process.stdout.readline()):
        process.communicate(timeout=30)
        pytest.skip("no namespaces here")
    assert first == "2\n"
    for _ in range(5):
        number(process)
    inside = next(int(pid) for pid in children(process.pid))
    wait_until(lambda: len(list(children(inside))) == 1)
    os.kill(inside, signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 42


def children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()


def test_a_parent_that_ignores_the_end_of_children__does_not_hide_ours() -> None:
    code = "import os, signal, sys\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nos.execv(sys.argv[1], sys.argv[1:])"
    process = supervised("return 3", prefix=(sys.executable, "-c", code))
    number(process)
    process.communicate(timeout=30)
    assert process.returncode == 3
