"""Runs the functions of `custom_metrics`."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import ModuleType
from typing import Any

from agent_eval_host.errors import UnusableEnvironment
from agent_eval_host.loading import import_package, is_package, make_importable
from agent_eval_host.values import cut, plain, text_of

METRIC_MODULES = {
    "EvaluationResult": "google.adk.evaluation.evaluator",
    "EvalMetric": "google.adk.evaluation.eval_metrics",
    "BaseCriterion": "google.adk.evaluation.eval_metrics",
    "Invocation": "google.adk.evaluation.eval_case",
    "ConversationScenario": "google.adk.evaluation.conversation_scenarios",
}
_HAS_CUSTOM_METRICS = "google.adk.evaluation.custom_metric_evaluator"
_SHOWN_RESULT = 300


class _Provided(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports modules whose source the gate sends, because the agent's user may be unable to read its files."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._sources = sources

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        return importlib.machinery.ModuleSpec(name, self) if name in self._sources else None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self._sources[module.__name__], f"<{module.__name__}>", "exec"), vars(module))  # noqa: S102


def takes_states(function: Callable[..., Any]) -> bool:
    """Whether a function has a parameter for the states of the session, which is ours: ADK passes none."""
    try:
        return "session_states" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # Of compiled code.
        return False


class CustomMetrics:
    """The functions of `custom_metrics` and their arguments as objects of the installed ADK."""

    def __init__(self, agent: str, root: str, modules: Mapping[str, str]) -> None:
        if importlib.util.find_spec(_HAS_CUSTOM_METRICS) is None:
            version = importlib.import_module("google.adk.version").__version__
            raise UnusableEnvironment(f"google-adk {version} has no custom metrics; 1.24 and newer have")
        self._types = {name: getattr(importlib.import_module(module), name) for name, module in METRIC_MODULES.items()}
        self._agent = make_importable(agent, root)
        sys.meta_path.append(_Provided(modules))  # last: an installed module of that name is preferred
        self._functions: dict[str, Callable[..., Any]] = {}
        self._broken: dict[str, BaseException] = {}

    def function(self, params: Mapping[str, Any]) -> Callable[..., Any]:
        """The function of a dotted name. A failed import is not repeated."""
        name = params["function"]
        if name in self._broken:
            raise self._broken[name]
        if name not in self._functions:
            try:
                self._functions[name] = self._import(name)
            except BaseException as error:
                self._broken[name] = error
                raise
        return self._functions[name]

    def _import(self, name: str) -> Callable[..., Any]:
        module_name, _, attribute = name.rpartition(".")
        if not module_name:
            raise LookupError(f"`{name}` names no module; write `package.module.function`")
        first = module_name.partition(".")[0]
        directory = self._agent
        # As for the agent itself: its package can be imported by its own name and as `agent`.
        own = directory is not None and first in ("agent", directory.name) and first not in sys.modules
        if own and directory is not None and is_package(directory):
            import_package(directory)
        module = importlib.import_module(module_name)
        function = getattr(module, attribute, None)
        if function is None:
            raise ImportError(f"cannot import name '{attribute}' from '{module_name}'", name=module_name)
        if not callable(function):
            raise TypeError(f"`{name}` is of type {type(function).__name__}, not a function")
        return function  # type: ignore[no-any-return]

    def arguments(self, params: Mapping[str, Any]) -> tuple[Any, ...]:
        """ADK's arguments of a custom metric: the metric without its threshold, the turns, the scenario."""
        criterion = self._types["BaseCriterion"].model_validate(params["criterion"])
        metric = self._types["EvalMetric"](
            metric_name=params["metric"], criterion=criterion, custom_function_path=params["function"]
        )
        expected, scenario = params.get("expected"), params.get("scenario")
        return (
            metric,
            [self._turn(turn) for turn in params["actual"]],
            None if expected is None else [self._turn(turn) for turn in expected],
            None if scenario is None else self._read("ConversationScenario", scenario),
        )

    def _turn(self, turn: Any) -> Any:
        """An invocation. In google-adk 2.5 and older each event must have a content, which may be null."""
        for event in (turn.get("intermediate_data") or {}).get("invocation_events", ()):
            event.setdefault("content", None)
        return self._read("Invocation", turn)

    def _read(self, name: str, value: Any) -> Any:
        """Converts a value to an object of ADK. Fields that an older ADK refuses are dropped."""
        for _ in range(10):
            try:
                return self._types[name].model_validate_json(json.dumps(value))
            except ValueError as error:
                errors: list[Any] = getattr(error, "errors", list)()
                refused = [detail["loc"] for detail in _of_fitting_members(value, errors) if _is_refused(detail)]
                if not sum(_drop(value, location) for location in refused):
                    raise
        return self._types[name].model_validate_json(json.dumps(value))

    def result(self, result: Any) -> dict[str, Any]:
        """Converts a result for the gate, which validates it."""
        if not isinstance(result, self._types["EvaluationResult"]):
            return {"type": type(result).__name__, "shown": cut(text_of(result), _SHOWN_RESULT)}
        return {
            "type": "EvaluationResult",
            **_score_of(result.overall_score, result.overall_eval_status, result.overall_rubric_scores),
            "turns": [
                _score_of(turn.score, turn.eval_status, turn.rubric_scores) for turn in result.per_invocation_results
            ],
        }


def _score_of(score: Any, status: Any, rubrics: Any) -> dict[str, Any]:
    return {
        "score": plain(score),
        "status": text_of(getattr(status, "name", status)),
        "rubrics": [
            {
                "rubric_id": text_of(rubric.rubric_id),
                "score": plain(rubric.score),
                "rationale": text_of(rubric.rationale or ""),
            }
            for rubric in rubrics or ()
        ],
    }


def _is_refused(detail: Mapping[str, Any]) -> bool:
    """Whether an error of pydantic is about a field that the model does not have."""
    return bool(detail["type"] == "extra_forbidden")


def _of_fitting_members(value: Any, errors: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The errors without those of union members that the value is not meant for.

    Pydantic reports what each member of a union refuses. An `InvocationEvents` with one new field deep inside is an
    `IntermediateData` with nothing right about it: what the latter refuses is all that the turn says.
    """
    unions: dict[tuple[Any, ...], dict[Any, list[Mapping[str, Any]]]] = {}
    kept = []
    for detail in errors:
        location = detail["loc"]
        known = _known_steps(value, location)
        if known < len(location) - 1:
            members = unions.setdefault(location[:known], {})
            members.setdefault(location[known], []).append(detail)
        else:
            kept.append(detail)
    for path, members in unions.items():
        kept.extend(min(members.values(), key=partial(_misfit, len(path) + 2)))
    return kept


def _misfit(direct: int, errors: list[Mapping[str, Any]]) -> tuple[int, int]:
    """How badly a union member fits: by the errors of its own fields, `direct` steps deep, then by all errors."""
    return sum(len(detail["loc"]) <= direct or not _is_refused(detail) for detail in errors), len(errors)


def _known_steps(value: Any, location: tuple[Any, ...]) -> int:
    """How many steps of a location lead through the value, before the name of a union member."""
    for number, step in enumerate(location):
        keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
        if step not in keys:
            return number
        value = value[step]
    return len(location)


def _drop(value: Any, location: tuple[Any, ...]) -> bool:
    """Deletes the value at a location of a pydantic error, ignoring the names of union members in it."""
    for step in location[:-1]:
        keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
        if step in keys:
            value = value[step]
    return isinstance(value, dict) and value.pop(location[-1], _drop) is not _drop
