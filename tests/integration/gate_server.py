"""Runs `agent-eval` in a fork of a process that has imported everything.

A run with recorded answers takes 1.6 s of CPU in a new interpreter and 0.1 s in a fork: the rest is imports, compiling
templates and building models. What runs is `agent_eval.__main__.run`, in a process of its own with its own arguments,
environment, working directory and output. Differences from a new interpreter: /proc/PID/environ and cmdline are the
server's, and variables that Python reads when it starts have no effect.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import importlib
import json
import os
import pkgutil
import select
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import shared_server
from pydantic import BaseModel

_LAZY = (
    "anyio._backends._asyncio",
    "concurrent.futures.thread",
    "google.genai",
    "httpcore2",
    "jinja2",
    "jsonschema",
    "junit_xml",
    "numpy",
    "pwd",
    "requests",
    "rich.console",
    "rich.table",
    "rouge_score.tokenizers",
)
"""Packages that agent-eval imports when it needs them."""


def run(
    arguments: Sequence[str], *, cwd: Path, environment: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """Runs `agent-eval ARGUMENTS` to its end, with /dev/null as its input.

    Raises:
        subprocess.TimeoutExpired: If it takes longer. It is killed.
    """
    server = _Server.of(os.getpid())
    request = {"arguments": list(arguments), "cwd": str(cwd), "environment": dict(environment)}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        code = server.ask(request, [out.fileno(), err.fileno()], timeout)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode("utf-8"))
    return subprocess.CompletedProcess(list(arguments), code, *texts)


class _Server:
    """The server of this process, from the process's side."""

    def __init__(self) -> None:
        self._channel = socket.socket(socket.AF_UNIX)
        while self._channel.connect_ex(address()) == errno.ECONNREFUSED:  # Another worker is about to start it.
            time.sleep(0.01)
        self._group = int(self._channel.recv(64))

    @staticmethod
    @functools.cache
    def of(pid: int) -> _Server:
        """The server of a process. It ends when its channel is closed."""
        return _Server()

    def ask(self, request: Mapping[str, Any], streams: list[int], timeout: float) -> int:
        """Sends a request and returns the exit code."""
        self.send(request, streams)
        try:
            return self.code(timeout)
        except (subprocess.TimeoutExpired, ChildProcessError):
            self.end()
            _Server.of.cache_clear()
            raise

    def send(self, request: Mapping[str, Any], streams: list[int]) -> None:
        self._channel.settimeout(30)
        socket.send_fds(self._channel, [json.dumps(request).encode() + b"\n"], streams)

    def code(self, timeout: float | None) -> int:
        """Waits for the exit code."""
        self._channel.settimeout(timeout)
        try:
            reply = self._channel.recv(64)
        except (TimeoutError, BlockingIOError):
            raise subprocess.TimeoutExpired("agent-eval", timeout or 0) from None
        if not reply:
            raise ChildProcessError("the server of agent-eval has ended")
        return int(reply)

    def end(self) -> None:
        """Ends what it has forked, too."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._group, signal.SIGKILL)
        self.close()

    def close(self) -> None:
        """It ends then."""
        self._channel.close()


class OnTerminal:
    """`agent-eval ARGUMENTS` in a fork that leads a session of its own on a terminal; used as `subprocess.Popen`."""

    def __init__(self, arguments: Sequence[str], *, cwd: Path, environment: Mapping[str, str], terminal: int) -> None:
        self.returncode: int | None = None
        self._server = _Server()
        request = {"arguments": list(arguments), "cwd": str(cwd), "environment": dict(environment)}
        self._server.send(request, [terminal] * 3)

    def wait(self, timeout: float | None) -> int:
        """Waits for its end.

        Raises:
            subprocess.TimeoutExpired: If it takes longer.
        """
        if self.returncode is None:
            self.returncode = self._server.code(timeout)
        return self.returncode

    def poll(self) -> int | None:
        """Its exit code if it has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def close(self) -> None:
        """Kills it if it runs."""
        self._server.close()


def address() -> str:
    """The address of the server, which is started if no worker has started it."""
    return shared_server.address_of("gates", sys.executable, __file__)


def script(path: Path, *before: str) -> Path:
    """Writes a program that takes the place of `python`: `-m agent_eval ARGUMENTS` and `-c CODE` run in a fork.

    Args:
        path: Where.
        before: Arguments that are put before its own, e.g. `-m`, `agent_eval`.
    """
    _Server.of(os.getpid())  # It listens now.
    client = Path(__file__).with_name("gate_fork_client.py")
    words = shlex.join([sys.executable, "-IS", str(client), address()[1:], *before])
    path.write_text(f'#!/bin/sh\nexec {words} "$@"\n', "utf-8")
    path.chmod(0o755)
    return path


def _serve(channel: socket.socket) -> NoReturn:
    """Forks for each request, one after the other, until the other end is closed."""
    os.setsid()
    channel.sendall(b"%d" % os.getpid())
    while True:
        request, streams, _, _ = socket.recv_fds(channel, 65_536, 3)
        while request and not request.endswith(b"\n"):
            request += channel.recv(65_536)
        if not request:
            os._exit(0)
        child = os.fork()
        if child == 0:
            channel.close()
            _become(json.loads(request), streams)
        for stream in streams:
            os.close(stream)
        ended = os.pidfd_open(child)
        if ended not in select.select([channel.fileno(), ended], [], [])[0]:  # The process that asked is gone.
            os.kill(child, signal.SIGKILL)
            os.killpg(0, signal.SIGKILL)
        os.close(ended)
        _, status = os.waitpid(child, 0)
        channel.sendall(b"%d" % os.waitstatus_to_exitcode(status))


def _import_everything() -> None:
    """Imports all modules, compiles the templates, and builds the models whose building was put off."""
    for name in ("agent_eval_scoring", "agent_eval_agents", "agent_eval_results", "agent_eval", "agent_eval_workbench"):
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                # Some modules run in the agent's environment only, and need its packages.
                with contextlib.suppress(ModuleNotFoundError):
                    importlib.import_module(module.name)
    for name in _LAZY:
        importlib.import_module(name)
    from agent_eval_results.report.renderers import environment

    templates = environment()
    for name in templates.list_templates():
        templates.get_template(name)
    waiting: list[type[BaseModel]] = [BaseModel]
    while waiting:
        for model in waiting.pop().__subclasses__():
            waiting.append(model)
            if model.__module__.startswith("agent_eval"):
                model.model_rebuild()


def _run_once() -> None:
    """Runs the gate, then again beside its first results: what has run is faster, and writes to a sixth fewer pages.

    The answers have a fact of each kind, so that the patterns that find them are compiled.
    """
    from agent_eval.cli import main
    from agent_eval_scoring.criteria.facts import facts_of

    texts = {
        "good": "Order A-17 of 3 May 2026, 5 pm: twelve lamps at $1,250.50, 3% off. It is ready: https://a.org",
        "bad": "Order A-18 of 4 May 2026, 6 pm: ten lamps at $1,350.50, 4% off. It isn't ready, but cancelled.",
    }
    turn = {"user_content": {"role": "user", "parts": [{"text": "hello"}]}}
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, text in texts.items():
            facts_of(text, names=True, states=True, negation=True)
            answer = {"final_response": {"role": "model", "parts": [{"text": text}]}}
            cases = [{"eval_id": f"{number}", "conversation": [{**turn, **answer}]} for number in range(3)]
            Path(f"{name}.json").write_text(json.dumps({"eval_set_id": "a", "eval_cases": cases}), "utf-8")
        Path("a.test.json").write_bytes(Path("good.json").read_bytes())
        Path("test_config.json").write_text('{"criteria": {"response_match_score": 0.1}}', "utf-8")
        for name, more in (("good", []), ("bad", ["--baseline", "file:good/results.json"])):
            code = main(["run", "a.test.json", "--agent", f"recorded:{name}.json", "--output-dir", name, *more])
            assert code == 0, "nothing is warm"
        os.chdir(here)
    assert len(os.listdir("/proc/self/task")) == 1, "a process with threads is not safe to fork"


def _become(request: Mapping[str, Any], streams: Sequence[int]) -> NoReturn:
    """Becomes `agent-eval`, with two streams and no input, or with three."""
    code = 1
    try:
        for number, stream in enumerate(streams, start=3 - len(streams)):
            os.dup2(stream, number)
            os.close(stream)
        if len(streams) == 3:
            if os.isatty(0):
                os.setsid()
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            # Whether lines are flushed is decided when they are made.
            sys.stdin, sys.stdout, sys.stderr = (
                open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
                for number, mode in enumerate("rww")
            )
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["environment"])
        sys.argv[1:] = request["arguments"]
        if source := request.get("source"):
            exec(source, {"__name__": "__main__"})
        else:
            from agent_eval.__main__ import run as main

            main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _import_everything()
    _run_once()
    shared_server.prepare_to_fork()
    with socket.socket(fileno=int(sys.argv[1])) as listener:
        del sys.argv[1]
        for channel in shared_server.connections(listener, int(sys.argv.pop())):
            with channel:
                if os.fork() == 0:
                    listener.close()
                    _serve(channel)
