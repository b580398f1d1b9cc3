"""The judged criterion to calibrate, and the words that its labels may have."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_eval_scoring.core.problem import Problem
from agent_eval_scoring.criteria import why_not
from agent_eval_scoring.criteria.judged import verdict_scale
from agent_eval_scoring.evalset.models import CRITERION_MODELS, JUDGED_METRICS, METRICS, CriterionConfig
from agent_eval_scoring.evalset.parse import criterion as criterion_config
from agent_eval_scoring.evalset.parse import hint_for_metric, read_config
from agent_eval_scoring.evalset.paths import absolute, name_of

_PASS_FAIL: Mapping[str, float] = {"pass": 1.0, "fail": 0.0}
_BINARY = {0.0, 1.0}


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """The labels that one criterion or rubric allows."""

    words: Mapping[str, float]
    """The judge's own words with their scores."""
    low: float
    high: float
    fractions: bool = True
    """Whether numbers between `low` and `high` are allowed."""
    graded: bool = False
    """Whether the words are the numbers of levels, and neither `pass` nor a score is allowed."""

    def read(self, raw: Any) -> tuple[float | None, float | None] | None:
        """The label as verdict and as score, at least one of them; None if it is not allowed."""
        if self.graded:
            number = f"{raw:g}" if isinstance(raw, int | float) and not isinstance(raw, bool) else str(raw).strip()
            score = self.words.get(number)
            return None if score is None else (None, score)
        binary = set(self.words.values()) == _BINARY
        if isinstance(raw, str):
            word = raw.strip().lower()
            if word in _PASS_FAIL:
                return _PASS_FAIL[word], _PASS_FAIL[word] if binary else None
            score = self.words.get(word)
            return None if score is None else (score if binary else None, score)
        if isinstance(raw, bool) or not isinstance(raw, int | float) or not self.low <= raw <= self.high:
            return None
        verdict = float(raw) if binary and raw in _BINARY else None
        return (verdict, float(raw)) if self.fractions or verdict is not None else None

    @property
    def hint(self) -> str:
        """The allowed labels, as a sentence."""
        if self.graded:
            return f"The rubric has levels: write the number of one, 1 to {len(self.words)}."
        words = ", ".join(f"`{word}`" for word in {**_PASS_FAIL, **self.words})
        numbers = f"a number from {self.low:g} to {self.high:g}" if self.fractions else "0 or 1"
        return f"Write one of {words}, or {numbers}."


CALIBRATED = tuple(
    metric for metric in JUDGED_METRICS if not METRICS[metric].needs_scenario and math.isfinite(METRICS[metric].high)
)
"""Metrics that can be calibrated: those whose judge reads responses, not simulated users, on a known scale."""


@dataclass(frozen=True, kw_only=True)
class TargetCriterion:
    """The criterion to calibrate."""

    config: CriterionConfig
    source: str | None = None
    """The config file; None if the criterion was selected by its metric's name alone."""
    threshold: float | None
    """Scores from here on pass; None if none was given and the metric has no natural one."""

    @property
    def metric(self) -> str:
        """ADK's metric name."""
        return self.config.metric

    @property
    def takes_rubrics(self) -> bool:
        """Whether a label may be about a single rubric."""
        return METRICS[self.metric].rubric_type is not None

    @property
    def span(self) -> tuple[float, float]:
        """The lowest and the highest score."""
        return METRICS[self.metric].low, METRICS[self.metric].high


def choose_target(requested: str, config: Path | None, root: Path) -> tuple[TargetCriterion | None, list[Problem]]:
    """Finds the criterion.

    Args:
        requested: A metric's name, the same with a threshold (`safety_v1=1`), or the path of a config file with
            exactly one judged criterion.
        config: The config file with the criterion's options; None: the metric's defaults.
        root: The directory that paths are relative to.

    Returns:
        The criterion, or None if the problems have an error.
    """
    metric, equals, threshold = (part.strip() for part in requested.partition("="))
    if requested.endswith(".json") or (metric not in METRICS and (root / requested).is_file()):
        target, problems = _from_config(root / requested, root)
    elif (name_problem := _name_problem(metric)) is not None:
        return None, [name_problem]
    elif equals:
        target, problems = _with_threshold(metric, threshold)
    elif config is not None:
        target, problems = _from_config(root / config, root, metric)
    else:
        # A binary judge has a natural threshold: every turn must pass.
        binary = set(verdict_scale(metric).values()) == {0.0, 1.0}
        high = METRICS[metric].high
        target, problems = TargetCriterion(config=_defaults(metric, high), threshold=high if binary else None), []
    if target is not None and (reason := why_not(target.config)) is not None:
        problems = [*problems, _error("metric-unsupported", f"{reason[:1].upper()}{reason[1:]}.", file=target.source)]
        target = None
    return target, problems


def _defaults(metric: str, threshold: float) -> CriterionConfig:
    return criterion_config(metric, CRITERION_MODELS[metric](threshold=threshold))


def _with_threshold(metric: str, text: str) -> tuple[TargetCriterion | None, list[Problem]]:
    low, high = METRICS[metric].low, METRICS[metric].high
    try:
        threshold = float(text)
    except ValueError:
        threshold = low - 1
    if not low <= threshold <= high:
        message = f"The threshold {text!r} of `{metric}` is not in its range."
        return None, [_error("threshold-out-of-range", message, f"Its scores range from {low:g} to {high:g}.")]
    return TargetCriterion(config=_defaults(metric, threshold), threshold=threshold), []


def _from_config(path: Path, root: Path, metric: str | None = None) -> tuple[TargetCriterion | None, list[Problem]]:
    """The criterion of a metric, or without one the only judged criterion of the file."""
    name = name_of(absolute(path), absolute(root))
    config, problems = read_config(path, name)
    if config is None:
        return None, problems
    built_in = [criterion for criterion in config.criteria if criterion.metric not in config.custom_metrics]
    matches = [each for each in built_in if each.metric == metric or (metric is None and each.metric in CALIBRATED)]
    if len(matches) == 1:
        return TargetCriterion(config=matches[0], source=name, threshold=matches[0].threshold), problems
    listed = ", ".join(f"`{each.metric}`" for each in (config.criteria if metric else matches)) or "none"
    message = (
        f"The config has no criterion `{metric}`."
        if metric
        else f"The config must have exactly one criterion with a judge of responses; it has: {listed}."
    )
    hint = f"It has {listed}."
    if metric is None:
        hint = (
            f"Name one of them, e.g. `--criterion {matches[0].metric} --config {name}`."
            if matches
            else "Add the criterion to calibrate, or name one alone: `--criterion final_response_match_v2`."
        )
    return None, [*problems, _error("criterion-not-configured", message, hint, file=name)]


def _name_problem(metric: str) -> Problem | None:
    if metric in CALIBRATED:
        return None
    choices = f"Use one of {', '.join(f'`{name}`' for name in CALIBRATED)}, or a config file."
    if metric in METRICS:
        reason = "judges simulated users, not responses" if metric in JUDGED_METRICS else "is computed without a judge"
        return _error("criterion-not-judged", f"`{metric}` {reason}; it can't be calibrated.", choices)
    return _error("unknown-metric", f"There is no metric `{metric}`.", hint_for_metric(metric, CALIBRATED))


def _error(code: str, message: str, hint: str | None = None, *, file: str | None = None) -> Problem:
    return Problem(code=code, message=message, hint=hint, file=file)
