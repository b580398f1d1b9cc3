"""A parent of hosts: imports google-adk once, and forks a host for each request of the gate, or becomes the only one.

It has no code of the repository, one thread and no event loop. Whatever could make a fork differ from a new process
makes it refuse: it can only become a host then, and the gate starts every other one by itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import socket
import sys
import traceback
from pathlib import Path

from agent_eval_host.loading import is_installed
from agent_eval_host.serving import import_adk

_PDEATHSIG, _GET_PDEATHSIG, _GET_DUMPABLE, _SET_DUMPABLE = 1, 2, 3, 4  # linux/prctl.h
_LONGEST_ANSWER, _LONGEST_REQUEST = 2_000, 5_000


def fork_hosts(descriptor: int) -> int:
    """Serves the gate until it closes the connection; returns in each host.

    Answers `ready`, after it why it can't fork; or what the import has raised. Then a word and a working directory with
    the descriptors of a connection and of an output ask for a host, which answers `forked`: `fork`, `built` (the first
    time, it builds all models before), or `become`. A process id asks for the status of a host that has ended.

    Args:
        descriptor: Connection to the gate, a socket that keeps messages apart.

    Returns:
        The descriptor of the host's own connection.
    """
    gate, prctl = socket.socket(fileno=descriptor), ctypes.CDLL(None).prctl
    dumpable, signal = prctl(_GET_DUMPABLE, 0, 0, 0, 0), ctypes.c_int()
    prctl(_GET_PDEATHSIG, ctypes.byref(signal), 0, 0, 0)
    prctl(_SET_DUMPABLE, 0, 0, 0, 0)  # Then no process of the user can trace it, or get its descriptors.
    gc.disable()
    try:
        import_adk("agent")
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)
            raise AssertionError("an import started a process")  # which holds our output open
        refused = _what_differs(descriptor)
    except BaseException:
        gate.send(traceback.format_exc()[-_LONGEST_ANSWER:].encode())
        os._exit(0)
    gc.freeze()
    gc.enable()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    # What it has printed so far belongs to each host's log, and is complete now.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(nowhere, number)
    os.close(nowhere)
    gate.send(f"ready {refused[-_LONGEST_ANSWER:]}".encode())
    built = False
    while (request := socket.recv_fds(gate, _LONGEST_REQUEST, 2))[0]:
        (word, _, directory), descriptors = request[0].partition(b" "), request[1]
        if descriptors:
            if word == b"built" and not built:
                _build_models()
                built, refused = True, refused or _what_differs(descriptor, *descriptors)
            try:
                if refused and word != b"become":
                    raise OSError(refused)
                forked = 0 if word == b"become" else os.fork()
            except OSError as error:
                gate.send(str(error).encode())
            else:
                if not forked:
                    prctl(_PDEATHSIG, signal.value, 0, 0, 0)
                    prctl(_SET_DUMPABLE, dumpable, 0, 0, 0)
                    return _as_if_started(gate, directory, *descriptors)
            for each in descriptors:
                os.close(each)
        else:
            gate.send(str(os.waitpid(int(word), 0)[1]).encode())
    os._exit(0)


def _build_models() -> None:
    """Builds the models of pydantic that imports have defined. Otherwise each host builds those that it uses."""
    gc.disable()
    waiting = [sys.modules["pydantic"].BaseModel] if "pydantic" in sys.modules else []
    while waiting:
        for model in waiting.pop().__subclasses__():
            waiting.append(model)
            with contextlib.suppress(Exception):  # What needs it says what is wrong.
                model.model_rebuild(raise_errors=False)
    gc.freeze()
    gc.enable()


def _what_differs(*ours: int) -> str:
    """What imports have left beside our descriptors that a fork would not have, or would share; "" for nothing."""
    if len([*Path("/proc/self/task").iterdir()]) > 1:
        return "an import started a thread"
    # The last one lists the directory.
    if len({place.name for place in Path("/proc/self/fd").iterdir()} - {"0", "1", "2", *map(str, ours)}) > 1:
        return "an import opened a file or a socket"
    program = str(Path(__file__).parent)
    for name, module in list(sys.modules.items()):
        place = getattr(module, "__file__", None)
        if isinstance(place, str) and not place.startswith(program) and not is_installed(place):
            return f"{name} is not an installed package: {place}"
    return ""


def _as_if_started(gate: socket.socket, directory: bytes, connection: int, output: int) -> int:
    """Makes this process what the gate would have started: its own session, directory, output and random numbers."""
    if os.getpid() != os.getsid(0):
        os.setsid()
    try:
        os.chdir(directory)
    except OSError as error:
        gate.send(str(error).encode())
        os._exit(1)
    for number in (1, 2):
        os.dup2(output, number)
    os.close(output)
    gate.send(b"forked")  # The kernel tells the gate who has sent it.
    gate.close()
    sys.orig_argv[-2:] = [str(connection)]
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()  # Python's own `random` and OpenSSL do this by themselves.
    if "multiprocessing.process" in sys.modules:
        process = sys.modules["multiprocessing.process"]
        process.current_process().authkey = os.urandom(32)
        process.ORIGINAL_DIR = str(Path.cwd())  # type: ignore[attr-defined]  # the only thing that imports know of it
    return connection
