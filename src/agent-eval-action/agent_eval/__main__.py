"""The process of `agent-eval` and `python -m agent_eval`, and the engine's process that the Python API starts."""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import sys
from typing import NoReturn

_CANNOT_START = 70
"""As for a bug. Python's own exit code, if the environment was removed, would be that of a failed verdict."""

try:
    from agent_eval.cli import main, open_missing_streams, prepare_streams, run_command
except ImportError as missing:
    sys.stderr.write(f"agent-eval: it can't be started: {missing}\n")
    sys.exit(_CANNOT_START)

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
    open_missing_streams()
    gc.set_threshold(*_COLLECTOR)
    starts_agents = not _STARTING_AGENTS.isdisjoint(sys.argv[1:2]) and _HELP.isdisjoint(sys.argv)
    try:
        if not starts_agents or os.name != "posix":
            code = main()
        else:
            from agent_eval_agents.sandbox import supervised

            code = supervised(main)
    except ImportError as error:
        sys.stderr.write(f"agent-eval: it can't be started: {error}\n")
        code = _CANNOT_START
    _exit(code)


def run_engine() -> NoReturn:
    """Runs `agent-eval run` with the settings from stdin, as JSON by field name, and exits with its exit code.

    Unlike a command line, stdin has no limit on the number of cases.
    """
    from agent_eval_agents.sandbox import supervised

    settings = {
        field: value if isinstance(value, str) else tuple(value) for field, value in json.load(sys.stdin).items()
    }
    arguments = argparse.Namespace(from_inputs=False, from_python=True, **settings)
    prepare_streams()
    gc.set_threshold(*_COLLECTOR)
    _exit(supervised(lambda: run_command("run", arguments), ends_with_parent=True))


def _exit(code: int) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    run()
