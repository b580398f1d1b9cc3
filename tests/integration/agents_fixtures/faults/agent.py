"""An agent that fails in the way that the user asks for."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from google.adk.agents.llm_agent import LlmAgent
from scripted_model import call, reply, scripted, text

exec(os.environ.get("AT_IMPORT", ""))


def sockets() -> list[int]:
    """The descriptors that lead to the gate, as a nosy agent would find them."""
    result = []
    for number in range(3, 1024):
        try:
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                with socket.socket(fileno=os.dup(number)) as opened:
                    result += [number] if opened.family == socket.AF_UNIX else []
        except OSError:
            continue
    return result


def kill_hosts() -> None:
    """Kills all processes with our environment: the agent's hosts and what they were forked from. Ours is the last."""
    environment = Path("/proc/self/environ").read_bytes()
    for pid in sorted(map(int, filter(str.isdigit, os.listdir("/proc"))), key=os.getpid().__eq__):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/environ").read_bytes() == environment:
                os.kill(pid, signal.SIGKILL)


async def wait_for_nothing() -> None:
    await asyncio.Event().wait()


async def fail(how: str) -> dict[str, Any]:
    """Fails."""
    match how.split(":"):
        case ["raise"]:
            raise ValueError("the tool is broken")
        case ["raise", length]:
            raise ValueError("x " * (int(length) // 2) + os.environ["JOB_SECRET"] + " y" * 1000)
        case ["sys.exit"]:
            sys.exit(3)
        case ["os._exit"]:
            print("about to leave")
            os._exit(7)
        case ["late", how]:  # Something that the case leaves behind.
            after = {"exit": lambda: os._exit(7), "abort": os.abort, "close": lambda: os.closerange(3, 1024)}
            after["loop"] = lambda: time.sleep(600)  # The loop is as blocked as by `loop` below, and takes no CPU.
            if how == "loop":
                asyncio.get_running_loop().call_later(0.3, after[how])
            else:
                threading.Timer(0.3, after[how]).start()
        case ["kill-hosts"]:
            kill_hosts()
        case ["abort"]:
            ctypes.string_at(0)
        case ["loop"]:
            while True:
                pass
        case ["sleep", seconds]:
            await asyncio.sleep(float(seconds))
        case ["task"]:
            await asyncio.gather(asyncio.create_task(wait_for_nothing()))
        case ["block", seconds]:
            time.sleep(float(seconds))
        case ["stubborn"]:
            while True:
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    continue
        case ["flood", size]:
            line = "x" * 999 + "\n"
            for _ in range(int(size) // 1000):
                sys.stdout.write(line)
            print("after the flood")
        case ["print"]:
            value = os.environ["JOB_SECRET"]
            print("the value is", value)
            os.write(1, f"raw {value}\n".encode())
            subprocess.run(["echo", "child", value], check=True)
            return {"value": value}
        case ["garbage"]:
            os.write(last_unix_socket(), b"this is not JSON\n")
            await asyncio.sleep(30)
        case ["lie", about]:
            lies = {
                "event": {"turn": [1], "event": {}},
                "content": {"turn": 0, "event": {"author": "faulty", "content": "not a content"}},
                "waiting": {"turn": "many", "seconds": "NaN"},
            }
            method = "waiting" if about == "waiting" else "event"
            for turn in range(100) if about == "content" else [0]:
                params = {**lies[about], "turn": turn} if about == "content" else lies[about]
                line = json.dumps({"v": 1, "type": "notify", "method": method, "params": params})
                os.write(last_unix_socket(), line.encode() + b"\n")
            await asyncio.sleep(0.2)
        case ["close"]:
            os.closerange(3, 1024)
            await asyncio.sleep(30)
        case ["inherit"]:
            code = "import os,stat;print([n for n in range(3,1024) if os.path.exists(f'/proc/self/fd/{n}')])"
            return {"open": subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip()}
        case ["fork"]:
            if (child := os.fork()) == 0:
                still = len(sockets())
                os._exit(still)
            return {"parent": len(sockets()), "child": os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}
        case ["odd"]:
            numbers = {"nan": float("nan"), "inf": float("inf")}
            return {**numbers, "lone": "\ud83d", "set": {1}, "bytes": b"\xff", "o": object}
        case ["pid"]:
            return {"pid": os.getpid()}
        case ["forks", count]:
            for _ in range(int(count)):
                if os.fork() == 0:
                    os.setsid()
                    time.sleep(300)
        case ["setsid"]:
            return {"pid": subprocess.Popen(["sleep", "300"], start_new_session=True).pid}
        case ["stray"]:
            return {"pid": subprocess.Popen(["sleep", "300"]).pid}
        case _:
            pass
    return {"done": how}


def last_unix_socket() -> int:
    return max(sockets())


def script(said: str, count: int, request: Any) -> Any:
    if said.startswith("model raises"):
        raise RuntimeError("the model object is broken")
    if said.startswith("say ") or count:
        return reply(text(said))
    return reply(call("fail", how=said))


root_agent = LlmAgent(name="faulty", model=scripted(script), tools=[fail])
