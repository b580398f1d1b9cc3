"""`agent-eval calibrate`: arguments and settings in, what to print and the exit code out."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from agent_eval.core.problem import Problem, Severity, has_error

if TYPE_CHECKING:
    from agent_eval.settings import Settings

_EXIT_CODES = {"passed": 0, "reported": 0, "failed": 1, "inconclusive": 3}
INVALID = 2


def execute(
    given: argparse.Namespace, settings: Settings, environ: Mapping[str, str], log: Callable[[str], None]
) -> tuple[int, str, list[Problem]]:
    """Does it.

    Args:
        given: As `arguments.add_arguments` reads them.
        settings: As for a run.
        environ: Where keys are looked for.
        log: Gets a line on what will be asked.

    Returns:
        The exit code: 0; 1 if kappa is too low; 2 after an error, with nothing to print; 3 if the judge could not be
        asked enough. Then what to print, and what was found wrong.
    """
    wrong = _misuse(given)
    if wrong is not None:
        return INVALID, "", [wrong]
    if given.suggest_thresholds:
        return _thresholds(given, settings)
    import asyncio

    from agent_eval.calibration.running import Wish, calibrate
    from agent_eval.calibration.text import render_text

    wish = Wish(labels=given.labels, criterion=given.criterion, weights=given.weights, min_kappa=given.min_kappa)
    report, problems = asyncio.run(calibrate(wish, settings, environ, log))
    if report is None:
        return INVALID, "", problems
    text = report.model_dump_json(indent=2) + "\n" if given.format == "json" else render_text(report, show=given.show)
    return _EXIT_CODES[report.verdict], text, problems


def _thresholds(given: argparse.Namespace, settings: Settings) -> tuple[int, str, list[Problem]]:
    from agent_eval.calibration.rounds import collect, read_results
    from agent_eval.calibration.thresholds import suggest
    from agent_eval.calibration.thresholds_text import render_thresholds

    reports, problems = read_results([settings.root / path for path in given.suggest_thresholds], settings.root)
    if has_error(problems):
        return INVALID, "", problems
    series, notices = collect(reports)
    report = suggest(series, wanted=given.pass_probability, num_runs=settings.num_runs, notices=notices)
    text = report.model_dump_json(indent=2) + "\n" if given.format == "json" else render_thresholds(report)
    return 0, text, problems


def _misuse(given: argparse.Namespace) -> Problem | None:
    if given.suggest_thresholds:
        beside = "LABELS" if given.labels else "--criterion" if given.criterion else None
        message = f"--suggest-thresholds reads results.json of runs; {beside} has no place beside it." if beside else ""
    elif given.labels is None or not given.criterion:
        message = "A label file and --criterion are needed, or --suggest-thresholds."
    else:
        message = ""
    if not message:
        return None
    hint = "E.g. `agent-eval calibrate labels.jsonl --criterion final_response_match_v2`."
    return Problem(severity=Severity.ERROR, code="calibrate-misused", message=message, hint=hint)
