"""Which judged criterion is calibrated: by its metric's name, by a config file, or both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from agent_eval.core.problem import Problem, Severity
from agent_eval.core.selectors import nearby
from agent_eval.criteria import why_not
from agent_eval.criteria.judged import JUDGED, YARDSTICKS
from agent_eval.criteria.judged import VALIDITY_SCALE as FINAL_RESPONSE
from agent_eval.evalset.models import CRITERION_MODELS, METRICS, CriterionConfig
from agent_eval.evalset.parse import criterion as criterion_config
from agent_eval.evalset.parse import read_config
from agent_eval.evalset.paths import absolute, name_of

CALIBRATED = tuple(metric for metric in JUDGED if not METRICS[metric].needs_scenario)
"""What can be calibrated. The judge of simulated users is no judge of responses."""


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The criterion whose judge is put to the test."""

    config: CriterionConfig
    source: str | None = None
    """The config file that it stands in; None: a metric's name alone."""
    threshold: float | None
    """Scores from here on pass; None: nobody said, and for this metric it is not plain."""

    @property
    def metric(self) -> str:
        """ADK's name."""
        return self.config.metric

    @property
    def takes_rubrics(self) -> bool:
        """Whether labels may be about single rubrics."""
        return METRICS[self.metric].rubric_type is not None

    @property
    def span(self) -> tuple[float, float]:
        """The lowest and the highest score."""
        return METRICS[self.metric].low, METRICS[self.metric].high

    def with_threshold(self, threshold: float) -> CriterionConfig:
        """The criterion, were this its threshold."""
        return replace(self.config, threshold=threshold)


def scale_of(metric: str) -> Mapping[str, float]:
    """The closed words of a verdict on a whole response, and what they count; none if the judge has no such words."""
    if metric == "final_response_match_v2":
        return FINAL_RESPONSE
    yardstick = YARDSTICKS.get(metric)
    return {} if yardstick is None else yardstick.scale


def choose(wanted: str, config: Path | None, root: Path) -> tuple[Chosen | None, list[Problem]]:
    """Finds the criterion.

    Args:
        wanted: A metric's name, the same with a threshold (`safety_v1=1`), or the path of a config file that has one
            judged criterion.
        config: The config file to take the named criterion from; None: the metric's defaults.
        root: What paths are relative to.

    Returns:
        The criterion, or None when an error is among the findings.
    """
    name, equals, given = wanted.partition("=")
    if wanted.endswith(".json") or (name not in METRICS and (root / wanted).is_file()):
        chosen, problems = _only_one(root / wanted, root)
    elif equals:
        chosen, problems = _with_threshold(name.strip(), given)
    elif config is not None:
        chosen, problems = _named(wanted, root / config, root)
    elif (refused := _refusal(wanted)) is not None:
        chosen, problems = None, [refused]
    else:
        binary = set(scale_of(wanted).values()) == {0.0, 1.0}
        # Of such a judge's single verdict it is plain what passes; of several, all must.
        chosen, problems = _default(wanted, METRICS[wanted].high, told=binary), []
    if chosen is not None and (reason := why_not(chosen.config)) is not None:
        problems = [*problems, _error("metric-unsupported", f"{reason[:1].upper()}{reason[1:]}.", file=chosen.source)]
        chosen = None
    return chosen, problems


def _default(metric: str, threshold: float, *, told: bool = True) -> Chosen:
    model = CRITERION_MODELS[metric](threshold=threshold)
    return Chosen(config=criterion_config(metric, model), threshold=threshold if told else None)


def _with_threshold(metric: str, text: str) -> tuple[Chosen | None, list[Problem]]:
    refused = _refusal(metric)
    if refused is not None:
        return None, [refused]
    low, high = METRICS[metric].low, METRICS[metric].high
    try:
        threshold = float(text)
    except ValueError:
        threshold = low - 1
    if not low <= threshold <= high:
        message = f"The threshold {text!r} of `{metric}` can't be used."
        return None, [_error("threshold-out-of-range", message, f"Scores of it go from {low:g} to {high:g}.")]
    return _default(metric, threshold), []


def _named(metric: str, path: Path, root: Path) -> tuple[Chosen | None, list[Problem]]:
    refused = _refusal(metric)
    if refused is not None:
        return None, [refused]
    name = name_of(absolute(path), absolute(root))
    config, problems = read_config(path, name)
    if config is None:
        return None, problems
    for one in config.criteria:
        if one.metric == metric and metric not in config.custom_metrics:
            return Chosen(config=one, source=name, threshold=one.threshold), problems
    has = ", ".join(f"`{one.metric}`" for one in config.criteria)
    found = _error("criterion-not-configured", f"The config has no criterion `{metric}`.", f"It has {has}.", file=name)
    return None, [*problems, found]


def _only_one(path: Path, root: Path) -> tuple[Chosen | None, list[Problem]]:
    name = name_of(absolute(path), absolute(root))
    config, problems = read_config(path, name)
    if config is None:
        return None, problems
    judged = [one for one in config.criteria if one.metric in CALIBRATED and one.metric not in config.custom_metrics]
    if len(judged) != 1:
        listed = ", ".join(f"`{one.metric}`" for one in judged) or "none"
        message = f"Of the criteria of this config one must ask a judge about responses; these do: {listed}."
        hint = f"Write `--criterion METRIC --config {name}`."
        return None, [*problems, _error("criterion-not-configured", message, hint, file=name)]
    return Chosen(config=judged[0], source=name, threshold=judged[0].threshold), problems


def _refusal(metric: str) -> Problem | None:
    if metric in CALIBRATED:
        return None
    known = f"It can be one of {', '.join(f'`{name}`' for name in CALIBRATED)}, or a config file."
    if metric in METRICS:
        asks = "judges simulated users, not responses" if metric in JUDGED else "asks no judge"
        return _error("criterion-not-judged", f"`{metric}` {asks}: there is nothing to calibrate.", known)
    close = nearby(metric, CALIBRATED)
    hint = f"Did you mean {' or '.join(f'`{name}`' for name in close)}?" if close else known
    return _error("unknown-metric", f"There is no metric `{metric}`.", hint)


def _error(code: str, message: str, hint: str | None = None, *, file: str | None = None) -> Problem:
    return Problem(severity=Severity.ERROR, code=code, message=message, hint=hint, file=file)
