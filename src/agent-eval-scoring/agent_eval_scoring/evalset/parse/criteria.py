"""Parses `criteria`: a number or an object for each metric, checked against the metric's declaration."""

from __future__ import annotations

import contextlib
import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.alias_generators import to_snake

from agent_eval_scoring.core.problem import MAX_PROBLEMS, Problem, docs_page, has_error
from agent_eval_scoring.core.selectors import nearby
from agent_eval_scoring.core.text import listed
from agent_eval_scoring.evalset.json import Document, JsonPath
from agent_eval_scoring.evalset.models import (
    CRITERION_MODELS,
    METRICS,
    BaseCriterion,
    CriterionConfig,
    Family,
    JudgeModelOptions,
    MetricSpec,
    RubricsBasedCriterion,
    is_packaged,
)
from agent_eval_scoring.evalset.parse.shape import keys_of, near_miss, shape_problems, two_spellings

_THRESHOLD = TypeAdapter(float)


def criterion(metric: str, model: BaseCriterion) -> CriterionConfig:
    """A criterion with all fields of its object form, including defaults and unknown fields."""
    options = {name: getattr(model, name) for name in keys_of(type(model)) if name != "threshold"}
    more: dict[str, Any] = {}
    if metric == "judge_prompt":
        more["direction"] = options.pop("direction")
    # Unknown fields first: a criterion of a package reads its own, and none may replace a field that was checked.
    options = {**(model.model_extra or {}), **options}
    return CriterionConfig(metric=metric, threshold=model.threshold, options=options, **more)


def read_criteria(document: Document, skip: Collection[str] = ()) -> tuple[list[CriterionConfig], list[Problem]]:
    """The criteria of a config file, in its order, and their problems.

    Args:
        document: A config file that contains an object. Its other keys are not checked here.
        skip: Metrics that are read elsewhere.
    """
    criteria = document.value.get("criteria", {})
    if not isinstance(criteria, dict):
        return [], []  # ConfigFile reports this.
    if not criteria:
        # An error, although ADK applies its defaults then: an empty list was written for a reason, and nothing would be
        # gated.
        hint = 'Add some, e.g. "criteria": {"tool_trajectory_avg_score": 1.0}. If the file is another tool\'s, '
        hint += "`exclude` leaves it out, and `config` names yours."
        place, near = "criteria", [key for key in document.value if key != "criteria" and near_miss(key, ["criteria"])]
        if lists := [key for key in document.value if key in _LISTS]:
            place, hint = lists[0], hint_for_key(lists[0]) or hint
        elif lost := [key for key in document.value if key in METRICS]:
            hint = f'Put the criteria below the key `criteria`: {{"criteria": {{"{lost[0]}": ...}}}}.'
        elif "eval_cases" in document.value:
            hint = "It is an eval set. Name a file with criteria, such as test_config.json."
        elif near:
            place, hint = near[0], f"Rename `{near[0]}` to `criteria`."
        return [], [
            document.error(
                "no-criteria",
                "The config has no criteria, so nothing would be gated.",
                path=(place,),
                key=place != "criteria",
                hint=hint,
            )
        ]
    custom = _custom_names(document.value)
    configs: list[CriterionConfig] = []
    problems: list[Problem] = []
    for metric, value in criteria.items():
        # Each unknown name takes a search among all names, and nobody reads the findings of 10,000.
        if len(problems) > MAX_PROBLEMS and has_error(problems):
            break
        if metric in skip:
            continue
        path: JsonPath = ("criteria", metric)
        name_problem = _name_problem(document, metric, path, custom)
        if name_problem is not None:
            problems.append(name_problem)
            continue
        model_type = CRITERION_MODELS.get(metric, BaseCriterion)
        model, model_problems = _read(document, value, model_type, path)
        problems += model_problems
        if model is not None:
            spec = METRICS.get(metric)
            at = (*path, "threshold") if isinstance(value, dict) else path
            problems += _truth(document, value.get("threshold") if isinstance(value, dict) else value, metric, at)
            problems += _threshold_problems(document, model.threshold, metric, spec, at)
            if spec is not None:
                problems += _field_problems(document, model, metric, path)
            problems += _rubric_problems(document, model, path)
            problems += _bad_levels(document, model, path)
            configs.append(criterion(metric, model))
    return configs, problems


def _custom_names(config: dict[str, Any]) -> set[str]:
    values = (config.get(key) for key in ("custom_metrics", "customMetrics"))
    return {name for value in values if isinstance(value, dict) for name in value}


def _name_problem(document: Document, metric: str, path: JsonPath, custom: set[str]) -> Problem | None:
    """The problem of a metric's name, or None."""
    spec = METRICS.get(metric)
    if metric in custom:
        # Its scores would be mistaken for those of ADK's metric, here and on the base branch.
        return None if spec is None else _name_taken(document, metric, ("custom_metrics", metric))
    # Only now, since it reads the metadata of every installed package.
    if spec is None and is_packaged(metric):
        return None
    if spec is None:
        hint = hint_for_metric(metric, CRITERION_MODELS)
        # A name that resembles nothing is one of their own rather than a mistake.
        is_own = not nearby(metric, CRITERION_MODELS) and metric not in _ELSEWHERE
        if is_own and not metric.endswith(("Metric", "GEval")):
            entry = json.dumps({metric: {"code_config": {"name": "package.module.function"}}})
            own = f'If it is a function of yours, name it beside `criteria`: "custom_metrics": {entry}.'
            hint = f"{own} Otherwise choose one of ADK's or agent-eval's metrics: {docs_page('criteria')}."
        return document.error("unknown-metric", f"There is no metric `{metric}`.", path=path, key=True, hint=hint)
    if spec.family is Family.INFORMATIONAL:
        return document.error(
            "informational-metric",
            f"`{metric}` is always reported and can't be given a threshold.",
            path=path,
            key=True,
            hint="Remove it; it has no effect on the gate.",
        )
    return None


_OF_VERTEX = '`tool_trajectory_avg_score` with `"match_type": "{}"`'
_SURE = 0.85
"""How alike a name must be for no other one to be meant."""
_ELSEWHERE: Mapping[str, str] = {
    "tool_trajectory_score": "`tool_trajectory_partial`, or `adk_rust_tool_trajectory` with adk-rust's numbers",
    "tool_trajectory_config": "`tool_trajectory_partial`, or `adk_rust_tool_trajectory`, which take its fields",
    "response_match_config": "`response_similarity`, or `adk_rust_response_similarity`, which take its fields",
    "semantic_match_score": "`final_response_match_v2`",
    "rubric_quality_score": "`rubric_based_final_response_quality_v1`",
    "safety_score": "`safety_v1`",
    "hallucination_score": "`hallucinations_v1`",
    "faithfulness": "`hallucinations_v1`",
    "answer_relevancy": "`rubric_based_final_response_quality_v1`, with a rubric for it",
    "answer_correctness": "`final_response_match_v2`",
    "rouge": "`response_match_score` (ROUGE-1)",
    "rouge_1": "`response_match_score` (ROUGE-1)",
    "rouge1": "`response_match_score` (ROUGE-1)",
    "rouge_l": '`response_similarity` with `"algorithm": "rougeL"`',
    "exact_match": '`response_similarity` with `"algorithm": "exact"`',
    "trajectory_exact_match": _OF_VERTEX.format("EXACT"),
    "trajectory_in_order_match": _OF_VERTEX.format("IN_ORDER"),
    "trajectory_any_order_match": _OF_VERTEX.format("ANY_ORDER"),
}
"""What adk-rust, Ragas and Vertex AI call them, as in docs/criteria.md."""


def hint_for_metric(metric: str, names: Iterable[str]) -> str:
    """The hint for an unknown metric: similar names, or all names.

    Args:
        metric: What was written.
        names: The names that are allowed here.
    """
    # One name that is sure is worth more than three that are possible.
    if metric not in _ELSEWHERE and (sure := nearby(metric, names, 1, _SURE)):
        return f"Did you mean `{sure[0]}`?"
    close = nearby(metric, names)
    if (ours := _ELSEWHERE.get(metric)) is not None:
        guess = f"Another tool's name: here it is {ours}."
    elif close:
        guess = f"Did you mean {' or '.join(f'`{name}`' for name in close)}?"
    else:
        known = [*names]
        guess = f"Known metrics: {listed([f'`{name}`' for name in known], 8)}."
    # DeepEval's classes (`AnswerRelevancyMetric`): by letters they resemble ours, which score something else.
    if metric.endswith("Metric") or metric == "GEval":
        own = to_snake(metric.removesuffix("Metric")).strip("_")
        criterion = json.dumps({own: {"threshold": 0.5, "metric": metric}})[1:-1]
        entry = json.dumps({own: {"code_config": {"name": "agent_eval_deepeval.metric"}}})
        return (
            f'If it is a class of DeepEval, write {criterion}, and beside `criteria`: "custom_metrics": {entry} '
            f"({docs_page('custom-metrics')}#deepevals-metrics)."
        )
    if ours is not None:
        return guess
    return f"{guess} {docs_page('criteria')} has them all, and other tools' names."


_LISTS = {"metrics", "eval_metrics", "evaluation_metrics", "metrics_to_run"}
"""Other tools' keys of their lists of metrics."""
_SETTINGS = {"num-runs", "min-pass-rate", "concurrency", "turn-timeout", "fail-fast", "judge-model", "exclude"}
"""Settings that people write in a config file."""


def hint_for_key(key: str) -> str | None:
    """The hint for a criterion beside `criteria`, and for other tools' lists of metrics; None for other keys."""
    if key in _LISTS:
        return 'ADK has the metrics as keys of "criteria", each with its threshold: {"response_match_score": 0.8}.'
    if (setting := key.replace("_", "-")) in _SETTINGS:
        return f"It is a setting: write `{setting} = ...` in agent-eval.toml, or `--{setting} ...`."
    return f'Criteria are keys of "criteria": {{...}}. Write `{key}` there.' if key in METRICS else None


def _name_taken(document: Document, metric: str, path: JsonPath) -> Problem:
    return document.error(
        "custom-metric-name-taken",
        f"`custom_metrics` defines `{metric}`, which is the name of a metric of ADK.",
        path=path,
        key=True,
        hint="Rename it, because its scores would be mistaken for those of ADK's metric.",
    )


def _read(
    document: Document, value: Any, model_type: type[BaseCriterion], path: JsonPath
) -> tuple[BaseCriterion | None, list[Problem]]:
    """Parses the number form or the object form of a criterion."""
    metric = path[-1]
    if isinstance(value, dict):
        try:
            return model_type.model_validate(value), []
        except ValidationError as error:
            problems = shape_problems(document, error, model_type, path)
        # The other fields in the same run, if only the threshold is missing.
        with contextlib.suppress(ValidationError):
            model = model_type.model_validate({"threshold": 0.0, **value})
            places = {problem.path for problem in problems}
            others = _field_problems(document, model, str(metric), path)
            problems += (problem for problem in others if problem.path not in places)
        return None, problems
    try:
        # Lax, as ADK's own model: "0.8" is a number.
        threshold = _THRESHOLD.validate_python(value)
    except ValidationError:
        problem = document.error(
            "wrong-type",
            f"The criterion `{metric}` must be a number or an object with a `threshold`, not {json.dumps(value)[:40]}.",
            path=path,
            hint=f'Write e.g. "{metric}": 0.8.',
        )
        return None, [problem]
    try:
        return model_type.model_validate({"threshold": threshold}), []
    except ValidationError as error:
        # The number form of a criterion with a required field, e.g. `tool_name`: only the object form can have it.
        fields = [to_snake(str(detail["loc"][-1])) for detail in error.errors(include_url=False)]
        example = ", ".join(f'"{name}": {_FIELD_EXAMPLES.get(name, "...")}' for name in fields)
        problem = document.error(
            "missing-field",
            f"The criterion `{metric}` needs {', '.join(f'`{name}`' for name in fields)} besides its threshold.",
            path=path,
            hint=f'Write {{"threshold": {threshold:g}, {example}}}.',
        )
        return None, [problem]


_FIELD_EXAMPLES = {
    "rules": '[{"never": "delete_*"}]',
    "tool_name": '"get_weather"',
    "prompt_template": '"Rate from 1 to 5 how polite this answer is: {response}"',
}
"""Examples of fields without a default."""


def _truth(document: Document, value: Any, metric: str, path: JsonPath) -> Iterator[Problem]:
    """A warning for `true` instead of a number, which pydantic, and so ADK, reads as 1."""
    if isinstance(value, bool):
        message = f"The threshold of `{metric}` is `{json.dumps(value)}`, which ADK reads as {int(value)}."
        yield document.warning("wrong-type", message, path=path, hint="Write the number that you mean, e.g. 0.8.")


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
        hint=f"Write {within(low, high, threshold)}.",
    )


def within(low: float, high: float, threshold: float) -> str:
    """What to write instead of a threshold that is not from `low` to `high`."""
    # From 10: 1 to 5 are rather meant for a metric with that scale than as percent.
    if (low, high) == (0, 1) and 10 <= threshold <= 100:
        return f"{threshold / 100:g} for {threshold:g}%"
    if high > 1e308:
        return "a finite number" if low < -1e308 else f"a number from {low:g}"
    return f"a number from {low:g} to {high:g}, e.g. {0.8 if (low, high) == (0, 1) else high - (high - low) / 4:g}"


def _field_problems(document: Document, model: BaseCriterion, metric: str, path: JsonPath) -> Iterator[Problem]:
    """Problems of unknown fields, which ADK accepts and ignores."""
    fields = keys_of(type(model))
    # `$comment` and `_note` are how people write comments into JSON.
    unknown = [key for key in model.model_extra or {} if key not in fields and not key.startswith(("$", "_"))]
    if len(unknown) > MAX_PROBLEMS:
        message = f"{len(unknown):,} fields are not fields of `{metric}`."
        yield document.error("misspelt-criterion-field", message, path=path, hint="Remove them.")
    for key in sorted(model.model_extra or {}):
        if key in fields:  # The other spelling was read.
            yield two_spellings(document, (*path, key))
    for key in unknown[:MAX_PROBLEMS]:
        close = near_miss(key, fields)
        name = to_snake(key)
        place: dict[str, Any] = {"path": (*path, key), "key": True}
        # An error, where ADK ignores it: the author believes that the metric is stricter or laxer than it is.
        if (metric, name) in _LOOSENING or name in _FOREIGN_FIELDS:
            owner = next((other for other, model in CRITERION_MODELS.items() if name in model.model_fields), None)
            where = f"{docs_page('criteria')} has the fields of each metric" if owner is None else f"`{owner}` has it"
            own = f" Here {_OWN[name]}." if metric == "tool_trajectory_partial" and name in _OWN else ""
            message = f"`{metric}` has no field `{key}` and would ignore it."
            yield document.error("foreign-criterion-field", message, **place, hint=f"Remove it: {where}.{own}")
        elif name in JudgeModelOptions.model_fields and "judge_model_options" in fields:
            # ADK would ask its default judge instead.
            message = f"`{key}` is not a field of `{metric}` itself."
            hint = f'It belongs into `judge_model_options`: {{"{key}": ...}}.'
            yield document.error("misspelt-criterion-field", message, **place, hint=hint)
        # An error, too: the default would apply instead of what the author has written.
        elif close is not None:
            message = f"`{key}` is not a field of `{metric}`."
            yield document.error("misspelt-criterion-field", message, **place, hint=f"Did you mean `{close}`?")
        else:
            # Only a warning for the rest: a config may be for a newer version of ADK, which has the field.
            owners = [name for name, other in CRITERION_MODELS.items() if near_miss(key, keys_of(other)) is not None]
            if name == "judge_model_options":
                owners = ["final_response_match_v2"]
            where = f"; it belongs to `{owners[0]}`" if owners else ""
            where += " and other metrics with a judge" if name == "judge_model_options" else ""
            yield document.warning(
                "unknown-criterion-field",
                f"`{key}` is not a field of `{metric}`{where}. It is ignored.",
                path=(*path, key),
                key=True,
                hint=f"Fields: {', '.join(f'`{name}`' for name in fields)}.",
            )


_FOREIGN_FIELDS = frozenset(
    {"strict_order", "strict_args", "algorithm", "ignore_case", "ignore_punctuation", "normalize", "direction"}
    | {"compat", "weight", "levels"}
)
"""Fields of other tools, which say how strict a metric is: they must not be ignored."""
_OWN = {
    "match_type": "`strict_order` says whether the order counts",
    "ignore_args": '"any" in `args` ignores an argument, and `args_credit` counts a call with other args in part',
    "args_match": "`strict_args` says whether the actual args may have further keys",
}
_LOOSENING = frozenset(("tool_trajectory_partial", field) for field in _OWN)
"""Fields of a similar metric, likewise, and what `tool_trajectory_partial` has instead."""


EMPTY_RUBRIC = (
    "The rubric `{}` has no text, so a judge has nothing to check.",
    'Write "rubric_content": {"text_property": "The answer is polite."}.',
)
"""Message and hint. ADK loads such a rubric, and its judge answers something."""


def _rubric_problems(document: Document, model: BaseCriterion, path: JsonPath) -> Iterator[Problem]:
    if not isinstance(model, RubricsBasedCriterion):
        return
    seen: Counter[str] = Counter()
    for index, rubric in enumerate(model.rubrics):
        if not (rubric.rubric_content.text_property or "").strip():
            message, hint = EMPTY_RUBRIC
            at = (*path, "rubrics", index)
            yield document.warning("invalid-value", message.format(rubric.rubric_id), path=at, hint=hint)
        # ADK ends the whole evaluation for it (Q16). One finding for each id, whatever the number of its copies.
        seen[rubric.rubric_id] += 1
        if seen[rubric.rubric_id] == 2:
            yield document.error(
                "duplicate-rubric-id",
                f"The rubric id `{rubric.rubric_id}` is used twice in this criterion.",
                path=(*path, "rubrics", index, "rubric_id"),
                hint="Give each rubric a unique id.",
            )


_FEWEST_LEVELS, _MOST_LEVELS = 2, 7


def _bad_levels(document: Document, model: BaseCriterion, path: JsonPath) -> Iterator[Problem]:
    if not isinstance(model, RubricsBasedCriterion):
        return
    for rubric_id, levels in model.rubric_levels.items():
        reason, hint = _why_bad([level.score for level in levels], [level.text for level in levels])
        if reason:
            yield document.error(
                "bad-rubric-levels",
                f"The levels of the rubric `{rubric_id}` can't be used: {reason}.",
                path=(*path, "rubric_levels", rubric_id),
                hint=f'{hint}, e.g. [{{"score": 0, "text": "wrong"}}, {{"score": 0.5, "text": "half right"}}, '
                '{"score": 1, "text": "right"}].',
            )


def _why_bad(scores: Sequence[float], texts: Sequence[str]) -> tuple[str, str]:
    """What is wrong with the levels, and what to write; two empty texts if nothing is."""
    if not _FEWEST_LEVELS <= len(scores) <= _MOST_LEVELS:
        few = len(scores) < _FEWEST_LEVELS
        reason = f"there must be {_FEWEST_LEVELS} to {_MOST_LEVELS}, not {len(scores)}"
        return reason, "Write at least two levels" if few else "Join some"
    # Otherwise a rubric of levels would weigh less than one of yes or no, whose scores are 0 and 1.
    if (scores[0], scores[-1]) != (0, 1):
        backwards = (scores[0], scores[-1]) == (1, 0)
        return (
            f"they go from {scores[0]:g} to {scores[-1]:g}, and must go from 0 to 1",
            "Write the lowest level first" if backwards else "Write scores from 0 to 1",
        )
    if any(right <= left for left, right in pairwise(scores)):
        return "each score must be higher than the one before", "Write the lowest level first"
    # The judge answers with a level's number, which it chooses by the text: of equal ones it would choose any.
    if not all(text.strip() for text in texts) or len({text.strip() for text in texts}) < len(texts):
        return "each level needs a text of its own", "Write different texts"
    return "", ""
