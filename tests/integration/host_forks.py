"""Starts hosts of agents in forks of a process that has imported google-adk.

A host of google-adk 2.13.0 takes 1.5 s of CPU with its first turn in a new interpreter, nearly all of it for imports,
and 0.1 s in a fork. What runs is `agent_eval_host`, or the code of `-c`, in a process with its own arguments,
environment, working directory, session and streams. The gate starts `host_fork_client.py` instead of the interpreter:
it asks the server for a fork, and ends as the fork does. If it is killed, the fork is killed with its process group.

Differences from a new interpreter: google-adk is imported before the agent's first line. The process that the gate has
started uses no CPU, and the host is not in its process group. The host's /proc/PID/environ and cmdline, its signals and
its limits are the server's. So a test of imports, or of processes (how they end, what they leave behind, how they are
watched), uses `adk_python()`. So does a host that gets another user, or variables that Python reads when it starts.
"""

from __future__ import annotations

import ast
import contextlib
import fcntl
import os
import select
import signal
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType
    from typing import Any, NoReturn

_IMPORTED = (
    *("google.adk.runners", "google.adk.apps.app", "google.adk.plugins.base_plugin", "google.adk.apps.compaction"),
    *("google.adk.artifacts.in_memory_artifact_service", "google.adk.memory.in_memory_memory_service"),
    *("google.adk.sessions.in_memory_session_service", "google.adk.agents.llm_agent", "google.adk.models.google_llm"),
    *("google.adk.flows.llm_flows.single_flow", "google.adk.workflow._workflow", "google.adk.workflow._tool_node"),
    *("google.adk.workflow._llm_agent_wrapper", "google.adk.workflow._trigger", "google.adk.tools._node_tool"),
    *("google.adk.tools.set_model_response_tool", "google.adk.flows.llm_flows.core._resume"),
    *("google.adk.workflow.utils._retry_utils", "google.adk.agents.remote_a2a_agent", "google.adk.auth.auth_handler"),
    *("google.adk.agents._agent_router", "google.adk.auth.auth_preprocessor", "google.adk.flows.llm_flows.auto_flow"),
    *("google.adk.tools.agent_tool", "google.adk.tools.google_search_tool", "google.adk.tools.vertex_ai_search_tool"),
    *("google.genai.types", "httpcore", "anyio.streams.tls", "requests"),
    *("faulthandler", "html", "http.client", "importlib.metadata", "importlib.resources.readers"),
)
"""What hosts import, in their first turns too. Older versions of google-adk don't have all of it."""
_OURS = ("serving", "model_answers", "lite_llm", "mcp_outages", "mcp_listings", "code_metrics", "custom_metrics")
_HIGH = 500
"""Above all descriptors that are in use or passed on."""


def command(python: str | os.PathLike[str]) -> list[str]:
    """Starts hosts with the packages of an interpreter: what `agent-python` names. Where this is not Linux, itself."""
    name = os.fspath(python)
    if sys.platform != "linux":  # which has abstract addresses and descriptors of processes
        return [name]
    from shared_server import address_of

    from agent_eval_agents.host import PROGRAM

    server = f"hosts-{name.replace('/', '-')}"[-80:]
    client = os.path.join(os.path.dirname(__file__), "host_fork_client.py")
    return [name, "-IS", client, address_of(server, name, __file__, str(PROGRAM))[1:]]


# --- The server


def _serve(host: str, connections: Iterator[socket.socket]) -> None:
    """Forks for each connection."""
    import importlib

    from shared_server import prepare_to_fork

    sys.path.pop(0)  # the tests' directory
    for name in _IMPORTED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    pydantic = importlib.import_module("pydantic")
    waiting = [pydantic.BaseModel]
    while waiting:
        for model in waiting.pop().__subclasses__():
            waiting.append(model)
            model.model_rebuild(raise_errors=False)  # Most are built when they are used.
    ours = sys.modules["agent_eval_host"] = type(sys)("agent_eval_host")
    ours.__path__ = [host]
    for name in _OURS:
        with contextlib.suppress(ImportError):
            importlib.import_module(f"agent_eval_host.{name}")
    # Not the versions of packages: what is looked up once is kept, and tests change what is installed.
    with open(f"{host}/__main__.py", encoding="utf-8") as file:
        code = compile(file.read(), file.name, "exec")
    assert len(os.listdir("/proc/self/task")) == 1, "a process with threads is not safe to fork"
    prepare_to_fork()
    for connection in connections:
        if os.fork() == 0:
            _watch(connection, code)
        connection.close()


def _watch(connection: socket.socket, code: CodeType) -> NoReturn:
    """Forks a host, reports its end, and ends what is left of its group when the process that asked has ended."""
    request, descriptors, _, _ = socket.recv_fds(connection, 65_536, 4)
    while not request.endswith(b"\n"):
        more = connection.recv(65_536)
        if not more:  # It was killed, or its command was none of a host, e.g. one that asks for the version.
            os._exit(0)
        request += more
    host = os.fork()
    if host == 0:
        _become(ast.literal_eval(request.decode("ascii")), descriptors, code)
    for descriptor in (0, *descriptors):
        os.close(descriptor)
    ended = os.pidfd_open(host)
    ready, _, _ = select.select([connection.fileno(), ended], [], [])
    if ended in ready:
        # Until it is waited for, no other process gets its id.
        state = os.waitid(os.P_PID, host, os.WEXITED | os.WNOWAIT)
        assert state is not None
        status = state.si_status if state.si_code == os.CLD_EXITED else -state.si_status
        with contextlib.suppress(OSError):
            connection.sendall(b"%d" % status)
            connection.recv(1)
    for kill in (os.kill, os.killpg):  # The second fails if it does not lead its group yet.
        with contextlib.suppress(ProcessLookupError):
            kill(host, signal.SIGKILL)
    os.waitpid(host, 0)
    os._exit(0)


def _become(request: dict[str, Any], descriptors: list[int], code: CodeType) -> NoReturn:
    """Becomes the host, which ends by itself."""
    import traceback

    try:
        os.setsid()
        high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, _HIGH) for descriptor in descriptors]
        os.closerange(3, _HIGH)
        numbers = [0, 1, 2, *map(int, request["arguments"][-1:] if high[3:] else ())]
        for descriptor, number in zip(high, numbers, strict=True):
            os.dup2(descriptor, number)
            os.close(descriptor)
        sys.stdin, sys.stdout, sys.stderr = (
            os.fdopen(number, mode, closefd=False) for number, mode in enumerate("rww")
        )
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["environment"])
        sys.argv[:] = request["arguments"]
        main = sys.modules["__main__"] = type(sys)("__main__")
        main.__file__ = code.co_filename
        exec(code if high[3:] else request["arguments"][1], main.__dict__)
        sys.stdout.flush()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(1)


if __name__ == "__main__":
    from shared_server import connections

    _serve(sys.argv[1], connections(socket.socket(fileno=int(sys.argv[2])), int(sys.argv[3])))
