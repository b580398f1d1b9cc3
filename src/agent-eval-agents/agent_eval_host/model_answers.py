"""Asks the gate before a model is called."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import enum
import functools
import hashlib
import importlib
import json
import re
import time
import typing
import weakref
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from agent_eval_host import evidence
from agent_eval_host.channel import Channel
from agent_eval_host.model_calls import ModelWatch
from agent_eval_host.tool_objects import ToolObjects
from agent_eval_host.tools import in_tool, wrap_method
from agent_eval_host.turns import Turn, running_turn
from agent_eval_host.values import LONGEST_MESSAGE, cut, described_error, text_of

_NOT_ASKED = {
    *("model", "contents", "config", "live_connect_config", "tools_dict"),
    *("cache_config", "cache_metadata", "cacheable_contents_token_count"),
}
"""Fields of ADK's request that have a place of their own, or say nothing to the model."""
_ELSEWHERE = re.compile(
    r"(^|_)(keys?|secrets?|token|passw\w*|credentials?|auth\w*|headers?|cookies?|client|retr(y|ies)|timeout|url|proxy"
    r"|endpoint|api_base|project|location|region|cached?)(_|$)",
    re.IGNORECASE,
)
"""Names of settings that say where and how a model is reached, not what it is asked."""
_ACCESS = re.compile(r"(^|_)(auth\w*|headers?|api_keys?|credentials?)(_|$)")
"""Names of fields of google-genai that give access, e.g. of a tool to its server."""
_ADDRESS = re.compile(r"\bat 0x[0-9a-f]+", re.IGNORECASE)
"""An address in memory, in the text of an object."""
_in_model: contextvars.ContextVar[bool] = contextvars.ContextVar("agent_eval_in_model", default=False)
"""Whether the code of a model is running: the models that it calls are a part of it."""


class ModelAnswers:
    """Asks the gate before a model is called: the gate answers instead, or the model is asked.

    It wraps `generate_content_async` of every class of models: after all callbacks before the model, and before all
    callbacks after it.
    """

    def __init__(self, channel: Channel, models: ModelWatch) -> None:
        self._channel = channel
        self._models = models
        self._private: dict[int, dict[str, Any]] = {}
        self._objects = ToolObjects()

    def install(self) -> None:
        """Wraps the classes of models that exist, and those that are defined later."""
        self._models.is_decided = True
        self._models.install_others()
        wrap_method(
            importlib.import_module("google.adk.models.base_llm").BaseLlm, "generate_content_async", self._wrapped
        )

    def _wrapped(self, body: Any) -> Any:
        def generate_content_async(model: Any, llm_request: Any, *args: Any, **options: Any) -> Any:
            turn = running_turn.get()
            run = functools.partial(body, model, llm_request, *args, **options)
            if _in_model.get():
                return run()
            if turn is None or in_tool.get():
                self._models.asked()
                return run()
            stream = bool(args[0] if args else options.get("stream"))
            return self._decided(turn, self._asked(model, llm_request, stream), run, model)

        return generate_content_async

    async def _decided(
        self, turn: Turn, params: dict[str, Any], run: Callable[[], Any], model: Any
    ) -> AsyncIterator[Any]:
        number, decision = await self._channel.ask(turn, "model", params)
        if decision.get("do") == "answer":
            self._models.replayed()
            try:
                answers = [_response(json.dumps(answer)) for answer in decision.get("responses") or []]
            except ValueError as error:  # The gate ends the turn.
                await self._channel.ask(turn, "model", {**params, "unreadable": cut(text_of(error), LONGEST_MESSAGE)})
                raise
            try:
                for answer in answers:
                    yield answer
            finally:  # The agent has dealt with the last one.
                self._channel.notify("model_ran", {"turn": turn.number, "call": number})
            return
        self._models.asked()
        began, said, is_complete = time.monotonic(), list[Any](), False

        def report(**outcome: Any) -> None:
            behind = self._objects.of(model)
            names = evidence.read_by(behind.codes, behind.files)
            names |= evidence.everything() if behind.may_use_all else set()
            read = sorted(name for name in names if not name.startswith("variable:"))
            outcome |= {"seconds": round(time.monotonic() - began, 6), "read": read}
            self._channel.notify("model_ran", {"turn": turn.number, "call": number, **outcome})

        try:
            async with contextlib.aclosing(run()) as responses:
                while True:
                    inside = _in_model.set(True)  # not while the agent has the response
                    try:
                        response = await anext(responses)
                    finally:
                        _in_model.reset(inside)
                    said += [] if is_complete else [_carried(response)]
                    # Nobody may ask for more after a complete response.
                    if not response.partial:
                        if is_complete:
                            report(reason="a second complete response came")
                        elif None in said:
                            report(reason="JSON can't carry its response")
                        else:
                            report(responses=said)
                        is_complete = True
                    yield response
        except StopAsyncIteration:
            report(**({} if is_complete else {"reason": "no complete response came"}))
        except Exception as error:
            report(error=described_error(error))
            raise
        except BaseException:
            report(**({} if is_complete else {"reason": "it was cancelled"}))
            raise

    def _asked(self, model: Any, llm_request: Any, stream: bool) -> dict[str, Any]:
        """The params of `model`. Gemini changes the request later."""
        config = _shown(llm_request.config) or {}
        labels, http = config.pop("labels", None) or {}, config.pop("http_options", None) or {}
        instruction, tools = config.pop("system_instruction", None), config.pop("tools", None) or []
        if http.get("extra_body"):
            config["http_options"] = {"extra_body": http["extra_body"]}
        others = {name: value for name, value in _fields(llm_request).items() if name not in _NOT_ASKED}
        request = {"instruction": instruction, "contents": _shown(llm_request.contents), "tools": tools}
        return {
            "agent": labels.get("adk_agent_name") or "",
            "model": text_of(llm_request.model or getattr(model, "model", "")),
            "implementation": f"{type(model).__module__}.{type(model).__qualname__}",
            "code": self._objects.of(model).code_hash(),
            "settings": self._settings(model),
            "stream": stream,
            "request": {**request, "config": config, **_shown(others)},
        }

    def _settings(self, model: Any) -> dict[str, Any]:
        """What the request does not show: a model's fields, and its private attributes as they were at its first call.

        Later, these may hold what it has counted or kept.
        """
        if id(model) not in self._private:
            self._private[id(model)] = _shown(getattr(model, "__pydantic_private__", None) or {}, of_model=True)
            weakref.finalize(model, self._private.pop, id(model), None)
        fields = {name: value for name, value in _fields(model).items() if name != "model"}
        settings = {**_shown(fields, of_model=True), **self._private[id(model)]}
        return {name: value for name, value in settings.items() if value is not None}


def _response(text: str) -> Any:
    return importlib.import_module("google.adk.models.llm_response").LlmResponse.model_validate_json(text)


def _carried(response: Any) -> Any:
    """JSON of which the same response can be made; None if there is none."""
    with contextlib.suppress(Exception):
        text = response.model_dump_json(exclude_defaults=True, by_alias=False, warnings=False)
        # Not the objects: ADK makes the content of a stream with a subclass.
        if _response(text).model_dump(warnings=False) == response.model_dump(warnings=False):
            return json.loads(text)
    return None


def _fields(model: Any) -> dict[str, Any]:
    """The fields of a pydantic model that have a value."""
    values = {**vars(model), **(model.model_extra or {})}
    names = [*type(model).model_fields, *(model.model_extra or ())]
    return {name: values[name] for name in names if values.get(name) is not None}


def _shown(value: Any, *, of_model: bool = False, inside: tuple[int, ...] = ()) -> Any:
    """A part of a request as JSON: bytes as a hash, types as their JSON schema, other things as their name or text.

    `of_model`: a setting of a model, of which the members are left out that say how it is reached.
    """
    again = functools.partial(_shown, of_model=of_model, inside=(*inside, id(value)))
    if id(value) in inside:  # an agent knows its parent, and this its sub-agents
        return type(value).__qualname__
    if isinstance(value, enum.Enum):
        value = value.value
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    if isinstance(value, (bytes, bytearray)):
        return f"sha256:{hashlib.sha256(value).hexdigest()}"
    if isinstance(value, (list, tuple)):
        return [again(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((again(item) for item in value), key=repr)
    if isinstance(getattr(type(value), "model_fields", None), dict):
        value = {name: item for name, item in _fields(value).items() if not _ACCESS.search(name)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        members = {str(key): item for key, item in value.items()}
        return {key: again(item) for key, item in members.items() if not (of_model and _ELSEWHERE.search(key))}
    if isinstance(value, type) or typing.get_origin(value) is not None:
        with contextlib.suppress(Exception):
            return importlib.import_module("pydantic").TypeAdapter(value).json_schema()
    text = text_of(getattr(value, "__qualname__", value))
    return type(value).__qualname__ if _ADDRESS.search(text) else text
