"""Calibrates a judge: reads the labels, has them judged with the settings of a run, counts."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agent_eval.calibration.agreement import Weights
from agent_eval.calibration.choosing import Chosen, choose
from agent_eval.calibration.counting import make_report
from agent_eval.calibration.judging import ask
from agent_eval.calibration.labels import LabelSet, read_labels
from agent_eval.calibration.report import CalibrationReport
from agent_eval.core.content import text_of
from agent_eval.core.problem import Problem, Severity, has_error
from agent_eval.core.text import plural
from agent_eval.criteria.judged import DEFAULT_JUDGE, Judge, Options, judge_calls
from agent_eval.models import ModelUse, check_models, opening_problems
from agent_eval.pipeline import model_settings
from agent_eval.report.views import bill
from agent_eval.runner import Range, times

if TYPE_CHECKING:
    from agent_eval.models import ModelPool
    from agent_eval.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What was asked for."""

    labels: Path
    criterion: str
    """See `choosing.choose`."""
    weights: Weights | None = None
    min_kappa: float | None = None


async def calibrate(
    wish: Wish, settings: Settings, environ: Mapping[str, str], log: Callable[[str], None]
) -> tuple[CalibrationReport | None, list[Problem]]:
    """Puts a judge to the test.

    Args:
        wish: Which, and by what.
        settings: As for a run: judge, key, address, budgets, cache, replay, time.
        environ: Where keys are looked for.
        log: Gets a line on what will be asked.

    Returns:
        The report, or None when an error is among the problems; then nothing was asked.
    """
    chosen, problems = choose(wish.criterion, settings.config, settings.root)
    if chosen is None:
        return None, problems
    labels, found = read_labels(settings.root / wish.labels, settings.root, chosen)
    problems += found
    if labels is None:
        return None, problems
    if wish.min_kappa is not None:
        problems += _one_sided(labels)
    default = settings.judge_model or DEFAULT_JUDGE
    async with _opened(settings, environ, chosen, labels, default, problems) as pool:
        if pool is None:
            return None, problems
        judge = Judge(model=pool, default_model=default)
        options = _options(chosen, judge)
        log(f"agent-eval: {_announced(labels, chosen, options)}")
        opinions = await ask(labels, chosen, judge)
        usage = [bill(entry) for entry in pool.ledger.by_model()]
    report = make_report(labels, chosen, options, opinions, weights=wish.weights, min_kappa=wish.min_kappa, usage=usage)
    return report, problems


@contextlib.asynccontextmanager
async def _opened(
    settings: Settings,
    environ: Mapping[str, str],
    chosen: Chosen,
    labels: LabelSet,
    default: str,
    problems: list[Problem],
) -> AsyncIterator[ModelPool | None]:
    """The models, ready to be asked; None after an error, which is added to the problems."""
    from agent_eval.criteria import judge_of
    from agent_eval.models import open_models

    given = model_settings(settings)
    judged = judge_of(chosen.config, default)
    assert judged is not None
    use = ModelUse(
        model=judged.model, config=judged.config, case_id=labels.file, purpose=chosen.metric, file=chosen.source
    )
    problems += check_models([use], given, environ).problems
    until = time.monotonic() + settings.run_timeout
    async with open_models(given, environ, models=[judged.model], until=until) as pool:
        if not has_error(problems):
            problems += opening_problems(await pool.prepare())
        yield None if has_error(problems) else pool


def _options(chosen: Chosen, judge: Judge) -> Options:
    options = judge.options(chosen.config)
    # Sentences are labelled once, whatever `num_samples` says.
    return Options(model=options.model, samples=1 if chosen.metric == "hallucinations_v1" else options.samples)


def _announced(labels: LabelSet, chosen: Chosen, options: Options) -> str:
    """`40 responses; gemini-2.5-flash will be asked 120 to 200 times.`"""
    calls = Range()
    for response in labels.responses:
        texts = sum(1 for turn in response.actual if text_of(turn.final_response))
        one = judge_calls(chosen.metric, options.samples, turns=len(response.actual), texts=texts)
        calls += Range(least=one.least, most=one.most)
    if chosen.config.options.get("evaluate_intermediate_nl_responses"):
        calls = Range(least=calls.least, most=None)
    return f"{plural(len(labels.responses), 'response')}; {options.model} will be asked {times(calls)}."


def _one_sided(labels: LabelSet) -> list[Problem]:
    """Where people say one thing of everything, agreement beyond chance can't be told."""
    values = {label.value(labels.kind) for label in labels.labels}
    if len(values) > 1:
        return []
    return [
        Problem(
            severity=Severity.ERROR,
            code="labels-one-sided",
            message=f"All labels say {labels.labels[0].word!r}: kappa can't tell agreement from chance.",
            hint="Label responses of the other kind too, or leave out `--min-kappa`.",
            file=labels.file,
        )
    ]
