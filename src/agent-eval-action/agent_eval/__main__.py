"""The process of `agent-eval` and `python -m agent_eval`, and the engine's process that the Python API starts."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Callable
from typing import NoReturn

_CANNOT_START = 70
"""As for a bug. Python's own exit code, if the environment was removed, would be that of a failed verdict."""

_INTERRUPTED = 130
"""As a shell reports SIGINT."""
_STARTING_AGENTS = frozenset({"run", "merge", "action"})
_HELP = frozenset({"-h", "--help"})
"""Help starts no agent and must not wait for the modules that start one."""
_COLLECTOR = (100_000, 50, 100)
"""Thresholds of the garbage collector. Cases and results accumulate and have no cycles, so full collections only take
time: with Python's thresholds a fifth of the merge of 10,000 cases (measured, Python 3.11)."""


def run() -> NoReturn:
    """Runs a command and exits with its exit code.

    Exits immediately: all files are closed, and the interpreter's own cleanup of a thousand modules takes 0.1 s.
    """
    starts_agents = not _STARTING_AGENTS.isdisjoint(sys.argv[1:2]) and _HELP.isdisjoint(sys.argv)
    _exit(_started(_main, supervises=starts_agents and os.name == "posix"))


def run_engine() -> NoReturn:
    """Runs `agent-eval run` with the settings from stdin, as JSON by field name, and exits with its exit code.

    Unlike a command line, stdin has no limit on the number of cases.
    """
    _exit(_started(_engine, supervises=True, ends_with_parent=True))


def _started(work: Callable[[], int], *, supervises: bool, ends_with_parent: bool = False) -> int:
    gc.set_threshold(*_COLLECTOR)
    try:
        from agent_eval_scoring.core.streams import open_missing_streams

        open_missing_streams()  # also the supervisor's
        if not supervises:
            return work()
        from agent_eval_agents.supervisor import supervised

        return supervised(work, recover=_recover, ends_with_parent=ends_with_parent)
    except ImportError as error:
        sys.stderr.write(f"agent-eval: it can't be started: {error}\n")
        return _CANNOT_START
    except KeyboardInterrupt:
        return _INTERRUPTED


def _main() -> int:
    try:
        from agent_eval.cli import main

        return main()
    except KeyboardInterrupt:  # While it is imported; later, each command ends in its own way.
        return _INTERRUPTED


def _engine() -> int:
    import argparse
    import json

    from agent_eval.cli import prepare_streams, run_command

    settings = {
        field: value if isinstance(value, str) else tuple(value) for field, value in json.load(sys.stdin).items()
    }
    prepare_streams()
    return run_command("run", argparse.Namespace(from_inputs=False, from_python=True, **settings))


def _recover() -> None:
    from agent_eval_agents.sandbox.sealing import recover

    recover()


def _exit(code: int) -> NoReturn:
    try:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError):
                stream.flush()
    finally:  # Also if a second SIGINT arrives here.
        os._exit(code)


if __name__ == "__main__":
    run()
