"""`agent-eval` and `python -m agent_eval`: the command line as a process."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import NoReturn

from agent_eval.cli import main, open_missing_streams

_STARTING_AGENTS = frozenset({"run", "action"})
_HELP = frozenset({"-h", "--help"})
"""Starts no agent, and must not wait for the modules that it takes."""


def run() -> NoReturn:
    """Runs a command and ends the process with its exit code.

    At once: everything is written and closed by then, and what Python does at its end, freeing a thousand modules one
    by one, takes 0.1 s that a developer would wait for.
    """
    open_missing_streams()
    starts_agents = not _STARTING_AGENTS.isdisjoint(sys.argv[1:2]) and _HELP.isdisjoint(sys.argv)
    if not starts_agents or os.name != "posix":
        code = main()
    else:
        from agent_eval.agents.sandbox import supervised

        code = supervised(main)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    run()
