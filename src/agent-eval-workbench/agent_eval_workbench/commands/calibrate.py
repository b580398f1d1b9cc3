"""`agent-eval calibrate`: how well a judge agrees with human labels."""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from agent_eval.commands import CliIO
from agent_eval.commands.start import log_problems, print_problems, settings_of
from agent_eval.gate.policy import PolicyReader
from agent_eval.pipeline import default_model, model_settings, placed
from agent_eval.pipeline.budget import times
from agent_eval.settings import Settings
from agent_eval_results.report.views import usage_report
from agent_eval_scoring.core.content import text_of
from agent_eval_scoring.core.problem import Problem, has_error
from agent_eval_scoring.core.text import plural
from agent_eval_scoring.criteria import judge_of
from agent_eval_scoring.criteria.cost_estimate import Range
from agent_eval_scoring.criteria.judged import Judge, Options, judge_calls
from agent_eval_scoring.models import ModelUse
from agent_eval_scoring.models.check import check_models, credential_problems
from agent_eval_scoring.models.pool import open_models
from agent_eval_workbench.calibration.judging import ask
from agent_eval_workbench.calibration.labels import LabelSet, read_labels
from agent_eval_workbench.calibration.report import CalibrationReport, make_report, render_text
from agent_eval_workbench.calibration.target import TargetCriterion, choose_target


def execute(arguments: argparse.Namespace, io: CliIO) -> int:
    """Runs the command and returns its exit code: 1 if kappa is too low, 3 if too few labels could be judged."""
    settings, problems = settings_of(arguments, io)
    if has_error(problems):
        print_problems(problems)
        return 2
    report, input_problems = asyncio.run(_calibrate(arguments, settings, io.environ, io.log))
    log_problems([*problems, *input_problems], io)
    if report is None:
        return INVALID
    as_json = arguments.format == "json"
    text = report.model_dump_json(indent=2) if as_json else render_text(report, show=arguments.show)
    io.print_result(text.rstrip("\n"))
    return _EXIT_CODES[report.verdict]


_EXIT_CODES = {"passed": 0, "reported": 0, "failed": 1, "inconclusive": 3}
INVALID = 2


async def _calibrate(
    arguments: argparse.Namespace, settings: Settings, environ: Mapping[str, str], log: Callable[[str], None]
) -> tuple[CalibrationReport | None, list[Problem]]:
    """The report; None if the problems have an error, and then no call was made."""
    target, problems = choose_target(arguments.criterion, settings.config, settings.root)
    if target is None:
        return None, problems
    if target.source is not None:  # An entry of the policy that holds for all cases decides a run, too.
        reader = PolicyReader(settings.policy)
        policy = reader.metric(target.config.name, reader.of_case("", ""))
        target = replace(target, threshold=target.threshold if policy.threshold is None else policy.threshold)
    labels, label_problems = read_labels(settings.root / arguments.labels, settings.root, target)
    problems += label_problems
    if labels is None:
        return None, problems
    if arguments.min_kappa is not None and len({label.value(labels.kind) for label in labels.labels}) == 1:
        message = f"All labels are {labels.labels[0].word!r}, so kappa can't tell agreement from chance."
        hint = "Add responses with other labels, or omit `--min-kappa`."
        return None, [*problems, Problem(code="labels-one-sided", message=message, hint=hint, file=labels.file)]
    default = default_model(settings.judge_model)
    options = judge_of(target.config, default)
    assert options is not None
    config = model_settings(settings)
    use = ModelUse(
        model=options.model, config=options.config, case_id=labels.file, purpose=target.metric, file=target.source
    )
    problems += placed(check_models([use], config, environ).problems, settings.root)
    until = time.monotonic() + settings.run_timeout
    async with open_models(config, environ, models=[options.model], until=until) as pool:
        if not has_error(problems):
            problems += credential_problems(await pool.prepare())
        if has_error(problems):
            return None, problems
        if target.metric == "hallucinations_v1":
            options = replace(options, samples=1)  # It labels sentences once, whatever `num_samples` says.
        log(f"agent-eval: {_announcement(labels, target, options)}")
        opinions = await ask(labels, target, Judge(model=pool, default_model=default))
        usage = [usage_report(entry) for entry in pool.ledger.by_model()]
    report = make_report(labels, target, options, opinions, min_kappa=arguments.min_kappa, usage=usage)
    return report, problems


def _announcement(labels: LabelSet, target: TargetCriterion, options: Options) -> str:
    """`40 responses; gemini-2.5-flash will be asked 120 to 200 times.`"""
    calls = Range()
    for response in labels.responses:
        texts = sum(1 for turn in response.actual if text_of(turn.final_response))
        bounds = judge_calls(target.metric, options.samples, turns=len(response.actual), texts=texts)
        calls += Range(least=bounds.least, most=bounds.most)
    if target.config.options.get("evaluate_intermediate_nl_responses"):
        calls = Range(least=calls.least, most=None)
    return f"{plural(len(labels.responses), 'response')}; {options.model} will be asked {times(calls)}."
