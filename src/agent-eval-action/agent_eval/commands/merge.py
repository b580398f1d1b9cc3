"""`agent-eval merge`: makes one verdict of the results of all parts of a run."""

from __future__ import annotations

import argparse

from agent_eval.commands import CliIO, run


def execute(arguments: argparse.Namespace, io: CliIO) -> int:
    """Runs the command and returns its exit code: the pipeline of `run`, with results of parts instead of runs."""
    arguments.mode = "merge-and-run" if arguments.run_missing else "merge"
    arguments.from_inputs = False
    return run.execute(arguments, io)
