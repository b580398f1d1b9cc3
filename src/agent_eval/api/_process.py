"""The engine's process: runs `agent-eval run` with the settings that it reads from stdin, as JSON by field name.

Unlike a command line, stdin has no limit on the number of cases.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from typing import NoReturn

from agent_eval.agents.sandbox import supervised
from agent_eval.cli import prepare_streams, run_command


def main() -> NoReturn:
    """Runs and exits with the exit code of `agent-eval run`."""
    settings = {
        field: value if isinstance(value, str) else tuple(value) for field, value in json.load(sys.stdin).items()
    }
    arguments = argparse.Namespace(from_inputs=False, **settings)
    prepare_streams()
    code = supervised(lambda: run_command("run", arguments), ends_with_parent=True)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
