"""`agent-eval agents`: shows which agent is selected for each eval file, and why."""

from __future__ import annotations

import argparse

from agent_eval.agents.discovery import render_choices
from agent_eval.commands._io import CliIO
from agent_eval.commands.start import log_start_directory, print_problems, settings_of
from agent_eval.core.problem import has_error
from agent_eval.pipeline import find


def execute(arguments: argparse.Namespace, io: CliIO) -> int:
    """Runs the command and returns its exit code."""
    log_start_directory(io)
    settings, problems = settings_of(arguments, io)
    if has_error(problems):
        print_problems(problems)
        return 2
    suite, choices = find(settings)
    print_problems(suite.errors)
    print(render_choices(choices), end="")
    return 2 if suite.errors or has_error(choices.problems) else 0
