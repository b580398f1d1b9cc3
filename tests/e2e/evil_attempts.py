"""What a process in the container can get at that isn't its own.

The tests copy it into a workspace as `evil/attempts.py`, where `evil/agent.py` uses it. Run as a script it prints the
same, which shows what the attempts are worth: as root nearly all of them succeed.
"""

from __future__ import annotations

import glob
import json
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

SECRETS = json.loads("@SECRETS@")
FILES = ("/github/file_commands", "/github/workflow", "/github/runner_temp", "/github/home", "/github/workspace")
RESULTS = "/github/workspace/agent-eval-results"


def others() -> list[int]:
    """Processes of another user who isn't root: the other side's agent."""
    result = []
    for entry in glob.glob("/proc/[0-9]*"):
        try:
            owner = os.stat(entry).st_uid
            command = read(f"{entry}/cmdline")
        except OSError:
            continue
        if owner not in {0, os.getuid()} and b"/dev/fd/" in command:
            result.append(int(entry.rpartition("/")[2]))
    return result


def attempts(them: list[int]) -> dict[str, Any]:
    """What was tried, also on `others()`, and what came of it: only successes are kept."""
    got: dict[str, Any] = {}

    def attempt(name: str, action: Any) -> None:
        try:
            result = action()
        except Exception:
            return
        if result is None or result:
            got[name] = "done" if result is None else result

    def holding(data: bytes) -> list[str]:
        return [name for name, value in SECRETS.items() if value.encode() in data]

    attempt("own environment", lambda: holding("\0".join(os.environ.values()).encode()))
    attempt("own names", lambda: [name for name in os.environ if name.startswith(("INPUT_", "GITHUB_", "ACTIONS_"))])
    for path in glob.glob("/proc/[0-9]*/environ"):
        attempt(path, lambda path=path: holding(read(path)))
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        attempt(path, lambda path=path: holding(read(path)))
    attempt("memory of 1", lambda: open("/proc/1/mem", "rb").close())
    attempt("descriptors of 1", lambda: os.listdir("/proc/1/fd"))
    attempt("memory of the parent", lambda: open(f"/proc/{os.getppid()}/mem", "rb").close())
    attempt("descriptors of the gate", lambda: os.listdir(f"/proc/{os.getppid()}/fd"))
    attempt("log of 1", lambda: write("/proc/1/fd/1", "::error::written to the gate's stdout\n"))
    for folder in FILES[:4]:
        attempt(f"list {folder}", lambda folder=folder: os.listdir(folder))
    for path in [*glob.glob("/github/file_commands/*"), "/github/workflow/event.json"]:
        attempt(f"read {path}", lambda path=path: read(path) is not None)
        attempt(f"write {path}", lambda path=path: write(path, "verdict=passed\n"))
    for folder in (*FILES, RESULTS, "/opt/agent-eval", "/etc", "/usr/local/bin", "/"):
        attempt(f"create in {folder}", lambda folder=folder: write(os.path.join(folder, "planted"), "x"))
    attempt("replace results", lambda: write(os.path.join(RESULTS, "results.json"), "{}"))
    attempt("make results", lambda: os.makedirs(RESULTS))
    attempt("link results", lambda: os.symlink("/tmp", RESULTS))
    attempt("move results", lambda: os.rename(RESULTS, RESULTS + "-moved"))
    attempt("checkout token", lambda: holding(read("/github/workspace/.git/config")) or "read")
    attempt("docker socket", docker)
    attempt("kill 1", lambda: os.kill(1, signal.SIGTERM))
    attempt("kill the gate", lambda: os.kill(os.getppid(), signal.SIGTERM))
    attempt("become root", lambda: os.setuid(0))
    attempt("sudo", lambda: subprocess.run(["su", "-c", "id"], check=True, capture_output=True, timeout=5).stdout)
    attempt("groups", lambda: [group for group in os.getgroups() if group != os.getgid()])
    if os.getuid() == 0:
        got["user"] = 0
    for pid in them:
        attempt(f"stop {pid}", lambda pid=pid: os.kill(pid, signal.SIGSTOP))
        attempt(f"environment of {pid}", lambda pid=pid: read(f"/proc/{pid}/environ"))
        attempt(f"memory of {pid}", lambda pid=pid: open(f"/proc/{pid}/mem", "rb").close())
        attempt(f"files of {pid}", lambda pid=pid: os.listdir(f"/proc/{pid}/fd"))
        attempt(f"through the root of {pid}", lambda pid=pid: os.listdir(f"/proc/{pid}/root"))
    own = Path.home().resolve()
    trees = [*glob.glob("/tmp/agent-eval-base-*"), *glob.glob("/tmp/agent-eval-base-*/*"), "/github/workspace"]
    installed = [
        *glob.glob("/var/lib/agent-eval/*"),
        *glob.glob("/var/lib/agent-eval/**/site-packages", recursive=True),
    ]
    homes = [*glob.glob("/var/lib/agent-eval/home-*"), "/home/agent", "/github/home"]
    for folder in [*homes, RESULTS, "/github/workspace/.git"] if them else ():
        if not own.is_relative_to(folder):
            attempt(f"list {folder}", lambda folder=folder: os.listdir(folder))
    for folder in [*trees, *(f"{tree}/evil" for tree in trees), *installed] if them else ():
        if not own.is_relative_to(folder):
            attempt(f"create in {folder}", lambda folder=folder: write(f"{folder}/planted", "x"))
            attempt(f"change {folder}", lambda folder=folder: open(f"{folder}/agent.py", "r+b").close())
    return got


def docker() -> str:
    """Talks to the engine, who could start anything as root."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect("/var/run/docker.sock")
        connection.sendall(b"GET /version HTTP/1.0\r\n\r\n")
        return connection.recv(100).decode()


def read(path: str) -> bytes:
    """The content of a file."""
    with open(path, "rb") as file:
        return file.read()


def write(path: str, text: str) -> str:
    """Appends to a file."""
    with open(path, "a", encoding="utf-8") as file:
        file.write(text)
    return "written"


if __name__ == "__main__":
    print(json.dumps(attempts([]), default=str))
