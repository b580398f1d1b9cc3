"""`agent-eval validate`: checks eval files, configs and settings without an agent."""

from __future__ import annotations

import argparse
import dataclasses

from agent_eval import pipeline
from agent_eval.commands import CliIO
from agent_eval.commands.start import log_start_directory, print_problems, settings_of
from agent_eval.gate.policy import Policy
from agent_eval_scoring.core.problem import has_error
from agent_eval_scoring.evalset.problem_texts import summary_line


def execute(arguments: argparse.Namespace, io: CliIO) -> int:
    """Runs the command and returns its exit code."""
    if arguments.plan:
        from agent_eval.commands import plan

        return plan.execute(arguments, io)
    if arguments.shards is not None or arguments.durations:
        io.log("agent-eval: --shards and --durations need --plan: `agent-eval validate --plan --shards N`")
        return 2
    log_start_directory(io)
    settings, problems = settings_of(arguments, io)
    if has_error(problems):
        print_problems(problems, arguments.format)
        return 2
    suite = pipeline.load(settings)
    problems += pipeline.placed(
        pipeline.misnamed_models(suite.files, pipeline.model_settings(settings), io.environ), settings.root
    )
    if settings.policy != Policy():
        problems += pipeline.policy_problems(settings, suite)
    problems += pipeline.tape_problems(settings.root, settings.output, settings.tool_rules, suite)
    problems += pipeline.named_agents_problems(settings, suite)
    suite = dataclasses.replace(suite, problems=(*suite.problems, *problems))
    print_problems(suite.problems, arguments.format)
    if arguments.format == "text":
        print(summary_line(suite))
    elif arguments.format == "github":
        io.log(summary_line(suite))
    return 2 if suite.errors else 0
