"""`agent-eval calibrate`: the command of the package `calibration`."""

from __future__ import annotations

import argparse

from agent_eval.commands import CliIO
from agent_eval.commands.problems_text import log_problems, print_problems
from agent_eval.commands.start import settings_of
from agent_eval.core.problem import has_error
from agent_eval_workbench.calibration import command


def execute(arguments: argparse.Namespace, io: CliIO) -> int:
    """Runs the command and returns its exit code."""
    settings, problems = settings_of(arguments, io)
    if has_error(problems):
        print_problems(problems)
        return 2
    code, text, input_problems = command.execute(arguments, settings, io.environ, io.log)
    log_problems([*problems, *input_problems], io)
    if text:
        io.print_result(text.rstrip("\n"))
    return code
