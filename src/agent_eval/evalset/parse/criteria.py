"""Reads `criteria`: a number or an object for each metric, checked against what the metric is."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.alias_generators import to_snake

from agent_eval.core.problem import MAX_PROBLEMS, Problem, has_error
from agent_eval.core.selectors import nearby
from agent_eval.evalset.json import Document, JsonPath
from agent_eval.evalset.models import (
    CRITERION_MODELS,
    METRICS,
    BaseCriterion,
    CriterionConfig,
    Family,
    MetricSpec,
    RubricsBasedCriterion,
    is_packaged,
)
from agent_eval.evalset.parse.shape import keys_of, near_miss, shape_problems

_THRESHOLD = TypeAdapter(float)


def criterion(metric: str, model: BaseCriterion) -> CriterionConfig:
    """A criterion with every field of its object form, defaults filled in; fields that we don't know as they are."""
    options = {name: getattr(model, name) for name in keys_of(type(model)) if name != "threshold"}
    return CriterionConfig(metric=metric, threshold=model.threshold, options={**(model.model_extra or {}), **options})


def read_criteria(document: Document) -> tuple[list[CriterionConfig], list[Problem]]:
    """The criteria of a config file, in its order, and what is wrong with them.

    Args:
        document: A config file that holds an object; findings about the rest of it are not made here.
    """
    criteria = document.value.get("criteria", {})
    if not isinstance(criteria, dict):
        return [], []  # The file's own model says so.
    if not criteria:
        return [], [
            document.error(
                "no-criteria",
                "The config has no criteria, so nothing would be gated.",
                path=("criteria",),
                hint='Add some, e.g. "criteria": {"tool_trajectory_avg_score": 1.0}, or delete the file: then ADK\'s '
                "defaults apply.",
            )
        ]
    custom = _custom_names(document.value)
    found: list[CriterionConfig] = []
    problems: list[Problem] = []
    for metric, value in criteria.items():
        if len(problems) > MAX_PROBLEMS and has_error(problems):
            break
        path: JsonPath = ("criteria", metric)
        refused = _refuse_name(document, metric, path, custom)
        if refused is not None:
            problems.append(refused)
            continue
        ours = metric in METRICS
        model_type = CRITERION_MODELS[metric] if ours else BaseCriterion
        model, wrong = _read(document, value, model_type, path)
        problems += wrong
        if model is not None:
            spec = METRICS.get(metric)
            at = (*path, "threshold") if isinstance(value, dict) else path
            problems += _threshold_problems(document, model.threshold, metric, spec, at)
            if ours:
                problems += _field_problems(document, model, metric, path)
            problems += _duplicate_rubrics(document, model, path)
            found.append(criterion(metric, model))
    return found, problems


def _custom_names(config: dict[str, Any]) -> set[str]:
    names: set[str] = set()
    for key in ("custom_metrics", "customMetrics"):
        value = config.get(key)
        names |= set(value) if isinstance(value, dict) else set()
    return names


def _refuse_name(document: Document, metric: str, path: JsonPath, custom: set[str]) -> Problem | None:
    """What is wrong with the name of a metric."""
    spec = METRICS.get(metric)
    if metric in custom:
        return None if spec is None else _taken(document, metric, path)
    if spec is None and is_packaged(metric):
        return None
    if spec is None:
        close = nearby(metric, CRITERION_MODELS)
        known = ", ".join(f"`{name}`" for name in CRITERION_MODELS)
        hint = f"Did you mean {' or '.join(f'`{name}`' for name in close)}?" if close else f"Known metrics: {known}."
        return document.error("unknown-metric", f"There is no metric `{metric}`.", path=path, key=True, hint=hint)
    if spec.family is Family.INFORMATIONAL:
        return document.error(
            "informational-metric",
            f"`{metric}` is always reported and can't be given a threshold.",
            path=path,
            key=True,
            hint="Remove it: it gates nothing.",
        )
    return None


def _taken(document: Document, metric: str, path: JsonPath) -> Problem:
    return document.error(
        "custom-metric-name-taken",
        f"`custom_metrics` has a metric of its own by the name `{metric}`, which is ADK's.",
        path=path,
        key=True,
        hint="Give it another name: whoever reads the report would take its scores for those of ADK's metric.",
    )


def _read(
    document: Document, value: Any, model_type: type[BaseCriterion], path: JsonPath
) -> tuple[BaseCriterion | None, list[Problem]]:
    """A criterion from its number form or its object form."""
    metric = path[-1]
    if isinstance(value, dict):
        try:
            return model_type.model_validate(value), []
        except ValidationError as error:
            return None, shape_problems(document, error, model_type, path)
    try:
        threshold = _THRESHOLD.validate_python(value)
    except ValidationError:
        found = document.error(
            "wrong-type",
            f"The criterion `{metric}` must be a number or an object with a `threshold`.",
            path=path,
            hint=f'Write e.g. "{metric}": 0.8.',
        )
        return None, [found]
    try:
        return model_type.model_validate({"threshold": threshold}), []
    except ValidationError as error:
        fields = [to_snake(str(detail["loc"][-1])) for detail in error.errors(include_url=False)]
        example = ", ".join(f'"{name}": ...' for name in fields)
        found = document.error(
            "missing-field",
            f"The criterion `{metric}` needs {', '.join(f'`{name}`' for name in fields)} besides its threshold.",
            path=path,
            hint=f'Write {{"threshold": {threshold:g}, {example}}}.',
        )
        return None, [found]


def _threshold_problems(
    document: Document, threshold: float, metric: str, spec: MetricSpec | None, path: JsonPath
) -> Iterator[Problem]:
    low, high = (spec.low, spec.high) if spec is not None else (-math.inf, math.inf)
    if math.isfinite(threshold) and low <= threshold <= high:
        return
    span = f" Scores of `{metric}` go from {low:g} to {high:g}." if spec is not None else ""
    yield document.error(
        "threshold-out-of-range",
        f"The threshold {threshold:g} of `{metric}` can't be used.{span}",
        path=path,
        hint="Above the range no agent could pass, below it every agent would."
        if spec is not None
        else "Give a finite number.",
    )


_TEXT = "`response_match_score` always ignores case, punctuation and white space (ROUGE-1): remove it."
_FOREIGN = {
    "strict_order": 'Of a trajectory, write "match_type": "IN_ORDER" instead of true, "ANY_ORDER" instead of false.',
    "strict_args": 'Arguments are compared in full; to compare only the names of tools, write "ignore_args": true.',
    "algorithm": "`response_match_score` is ROUGE-1; for another measure, write a custom metric.",
    "ignore_case": _TEXT,
    "ignore_punctuation": _TEXT,
    "normalize": _TEXT,
    "weight": "Each criterion must reach its own threshold; only rubrics have weights, in `rubric_weights`.",
}
"""Fields of adk-rust's and DeepEval's criteria, with what says the same here. ADK would keep them, and ignore them."""


def _field_problems(document: Document, model: BaseCriterion, metric: str, path: JsonPath) -> Iterator[Problem]:
    """Findings about fields that the criterion does not have: ADK keeps them, and nothing reads them."""
    known = keys_of(type(model))
    unknown = [key for key in model.model_extra or {} if key not in known and not key.startswith(("$", "_"))]
    if len(unknown) > MAX_PROBLEMS:
        message = f"{len(unknown):,} fields are not fields of `{metric}`."
        yield document.error("misspelt-criterion-field", message, path=path, hint="Remove them.")
    for key in unknown[:MAX_PROBLEMS]:
        close = near_miss(key, known)
        if to_snake(key) in _FOREIGN:
            yield document.error(
                "foreign-criterion-field",
                f"`{key}` is a field of another tool; `{metric}` would be scored by another rule than is written here.",
                path=(*path, key),
                key=True,
                hint=_FOREIGN[to_snake(key)],
            )
        elif close is not None:
            yield document.error(
                "misspelt-criterion-field",
                f"`{key}` is not a field of `{metric}`.",
                path=(*path, key),
                key=True,
                hint=f"Did you mean `{close}`?",
            )
        else:
            owners = [name for name, other in CRITERION_MODELS.items() if near_miss(key, keys_of(other)) is not None]
            where = f"; it belongs to `{owners[0]}`" if owners else ""
            yield document.warning(
                "unknown-criterion-field",
                f"`{key}` is not a field of `{metric}`{where}. Nothing reads it.",
                path=(*path, key),
                key=True,
                hint=f"Fields: {', '.join(f'`{name}`' for name in known)}.",
            )


def _duplicate_rubrics(document: Document, model: BaseCriterion, path: JsonPath) -> Iterator[Problem]:
    if not isinstance(model, RubricsBasedCriterion):
        return
    seen: Counter[str] = Counter()
    for index, rubric in enumerate(model.rubrics):
        seen[rubric.rubric_id] += 1
        if seen[rubric.rubric_id] == 2:
            yield document.error(
                "duplicate-rubric-id",
                f"The rubric id `{rubric.rubric_id}` is used twice in this criterion.",
                path=(*path, "rubrics", index, "rubric_id"),
                hint="Give each rubric an id of its own.",
            )
