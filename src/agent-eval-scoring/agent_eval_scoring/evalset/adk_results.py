"""ADK's results of an eval set: `.adk/eval_history/*.evalset_result.json`, as google-adk 2.13.0 writes and reads it."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_snake

from agent_eval_scoring.core.invocation import Invocation
from agent_eval_scoring.core.wire import WireModel

_LARGEST = 1e18
"""Bound for scores; larger numbers would make sums meaningless."""


class AdkStatus(enum.IntEnum):
    """ADK's status of a case or metric."""

    PASSED = 1
    FAILED = 2
    NOT_EVALUATED = 3
    INFORMATIONAL = 4


def _status(value: object) -> object:
    """A status by its number, or by its name as some versions wrote it."""
    return AdkStatus[value.upper()] if isinstance(value, str) and value.upper() in AdkStatus.__members__ else value


_AnyStatus = Annotated[AdkStatus, BeforeValidator(_status)]


class _AdkModel(WireModel):
    """Written in snake_case with nulls, as ADK does; unknown keys are ignored."""

    model_config = ConfigDict(extra="ignore")


class AdkMetricResult(_AdkModel):
    """A metric of a case or a turn."""

    metric_name: str
    threshold: float | None = Field(default=None, ge=-_LARGEST, le=_LARGEST)
    criterion: dict[str, Any] | None = None
    score: float | None = Field(default=None, ge=-_LARGEST, le=_LARGEST)
    eval_status: _AnyStatus = AdkStatus.NOT_EVALUATED
    details: dict[str, Any] | None = None


def _without_unknown(value: object) -> object:
    """A turn without the keys that another version of ADK may add. What is wrong with it otherwise is reported."""
    if not isinstance(value, Mapping):
        return value
    try:
        return Invocation.model_validate(value)
    except ValidationError as error:
        extra = [item["loc"] for item in error.errors() if item["type"] == "extra_forbidden"]
    return _removed(value, extra) if extra else value


def _removed(value: Any, locations: Sequence[tuple[int | str, ...]]) -> Any:
    """The value without the keys at these locations, which have the names that pydantic gives."""
    if isinstance(value, list):
        return [_removed(item, [loc[1:] for loc in locations if loc[0] == n]) for n, item in enumerate(value)]
    if not isinstance(value, Mapping):
        return value
    steps = [step for loc in locations if (step := _step(value, loc))]
    gone = {step[0] for step in steps if len(step) == 1}
    return {
        key: _removed(item, [step[1:] for step in steps if step[0] == key])
        for key, item in value.items()
        if key not in gone
    }


def _step(value: Mapping[str, Any], location: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """The location from its first step that is a key of the value. Before it may be the tag of a union."""
    for number, step in enumerate(location[:2]):
        for key in (step, to_snake(step) if isinstance(step, str) else step):
            if key in value:
                return (key, *location[number + 1 :])
    return ()


_AdkInvocation = Annotated[Invocation, BeforeValidator(_without_unknown)]


class AdkTurnResult(_AdkModel):
    """A turn with its scores."""

    actual_invocation: _AdkInvocation
    expected_invocation: _AdkInvocation | None = None
    eval_metric_results: list[AdkMetricResult] = Field(default_factory=list)


class AdkCaseResult(_AdkModel):
    """One run of one case."""

    eval_set_file: str | None = None
    """Deprecated: the id of the eval set."""
    eval_set_id: str = ""
    eval_id: str
    final_eval_status: _AnyStatus
    eval_metric_results: list[Any] | None = None
    """Deprecated: pairs of a metric and its result."""
    overall_eval_metric_results: list[AdkMetricResult] = Field(default_factory=list)
    eval_metric_result_per_invocation: list[AdkTurnResult] = Field(default_factory=list)
    session_id: str = ""
    session_details: dict[str, Any] | None = None
    """The session as ADK writes it, with its events; usually null."""
    user_id: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _current_form(cls, value: Any) -> Any:
        """Adds what older versions wrote under deprecated names only."""
        if not isinstance(value, Mapping):
            return value
        case = {to_snake(key): item for key, item in value.items()}
        case["eval_set_id"] = case.get("eval_set_id") or case.get("eval_set_file") or ""
        pairs = case.get("eval_metric_results")
        if not case.get("overall_eval_metric_results"):
            case["overall_eval_metric_results"] = [_of_pair(pair) for pair in pairs or ()]
        return {key: item for key, item in case.items() if item is not None}


def _of_pair(pair: object) -> object:
    """A metric's result from a deprecated pair of the metric and its result."""
    match pair:
        case [Mapping() as metric, Mapping() as result]:
            names = ("metric_name", "metricName", "threshold", "criterion")
            return {**{key: metric[key] for key in names if key in metric}, **result}
    return pair


class AdkSetResult(_AdkModel):
    """The results of one eval set."""

    eval_set_result_id: str = ""
    eval_set_result_name: str | None = None
    eval_set_id: str = ""
    eval_case_results: list[AdkCaseResult]
    creation_timestamp: float = 0.0
    """Unix time in seconds."""


def adk_result_value(value: object) -> Mapping[str, Any] | None:
    """The JSON object of a result of an eval set, which ADK once wrote as a JSON string; None for anything else."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    is_result = isinstance(value, Mapping) and ("eval_case_results" in value or "evalCaseResults" in value)
    return value if is_result and isinstance(value, Mapping) else None


def adk_set_result(value: Mapping[str, Any]) -> AdkSetResult:
    """A result of an eval set.

    Raises:
        ValueError: It is malformed; the message is one line with the place.
    """
    try:
        return AdkSetResult.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(step) for step in first["loc"])
        raise ValueError(f"{place}: {first['msg']}") from error
