"""Runs the functions of agents-cli's `eval_config.yaml`: `evaluate(instance)`, given as source."""

from __future__ import annotations

import asyncio
import inspect
import random
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from agent_eval_host.errors import causes, http_status
from agent_eval_host.values import cut, plain, text_of

_ATTEMPTS, _LONGEST_PAUSE = 5, 8.0
"""Of a call that fails as a busy service makes it fail, and seconds between two; as in google-agents-cli 1.11.0."""
_TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})
_SHOWN_RESULT = 300


class CodeMetrics:
    """The functions, each compiled once."""

    def __init__(self) -> None:
        self._functions: dict[tuple[str, str], Callable[..., Any]] = {}

    def function(self, params: Mapping[str, Any]) -> Callable[..., Any]:
        """The function of a source. As in agents-cli, it has no `__file__`, and its `__name__` is `builtins`."""
        key = params["function"], params["code"]
        if key not in self._functions:
            namespace: dict[str, Any] = {}
            exec(compile(key[1], key[0], "exec"), namespace)  # noqa: S102
            function = namespace.get("evaluate")
            if not callable(function):
                raise TypeError(f"{key[0]} must define a function `evaluate(instance)`")
            self._functions[key] = _patient(function)
        return self._functions[key]

    def arguments(self, params: Mapping[str, Any]) -> tuple[Any, ...]:
        return (params["instance"],)

    def result(self, result: Any) -> dict[str, Any]:
        """Converts a result for the gate, which validates it."""
        score, explanation, shown = result, "", cut(text_of(result), _SHOWN_RESULT)
        if isinstance(result, Mapping) or hasattr(result, "score"):
            fields = result if isinstance(result, Mapping) else vars(result)
            score, explanation = fields.get("score"), fields.get("explanation") or ""
            if isinstance(score, str):
                score = _number_in(score)
        if not isinstance(score, (int, float)) and type(score).__module__.partition(".")[0] == "numpy":
            score = score.item()
        if isinstance(score, (int, float)) and isinstance(explanation, str):
            return {"type": "score", "score": plain(float(score)), "explanation": explanation, "shown": shown}
        return {"type": type(result).__name__, "shown": f"a {type(result).__name__} ({shown})"}


def _number_in(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _patient(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function in a thread, as agents-cli calls it, again after what a busy service raises."""

    async def call(instance: Any) -> Any:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                result = await asyncio.to_thread(function, instance)
                return await result if inspect.isawaitable(result) else result
            except Exception as error:
                if attempt == _ATTEMPTS or not any(map(_is_transient, causes(error))):
                    raise
                traceback.print_exc()
            await asyncio.sleep(random.uniform(0, min(2.0 ** (attempt - 1), _LONGEST_PAUSE)))  # noqa: S311
        raise AssertionError("unreachable")

    return call


def _is_transient(error: BaseException) -> bool:
    return isinstance(error, (ConnectionError, TimeoutError)) or http_status(error) in _TRANSIENT
