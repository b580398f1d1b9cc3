"""Runs the agent inside its own interpreter, and tells the gate what it does (docs/host-protocol.md).

Started by path as `PYTHON host.py FD`. This is the one file of ours that runs in the agent's environment: Python 3.10
or newer, the standard library and the google-adk that is installed there (1.18 or newer), nothing of agent_eval. It
loads the agent as `adk eval` and `adk web` do, runs its sessions and forwards ADK's raw events; what they amount to is
decided on the gate's side, so that every version of ADK is scored alike. In the role `metrics` it runs no agent but
the functions of the config's `custom_metrics`, as ADK calls them.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import fcntl
import gc
import importlib
import importlib.machinery
import importlib.util
import inspect
import json
import os
import queue
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

VERSION = 1
_EVENT_FIELDS = {
    "id": True,
    "invocation_id": True,
    "author": True,
    "branch": True,
    "timestamp": True,
    "content": True,
    "partial": True,
    "turn_complete": True,
    "error_code": True,
    "error_message": True,
    "finish_reason": True,
    "grounding_metadata": True,
    "usage_metadata": True,
    "model_version": True,
    "long_running_tool_ids": True,
    "actions": {"skip_summarization", "transfer_to_agent", "escalate"},
}
"""What the gate needs of an event. The rest (state deltas above all) may hold objects that no JSON can carry."""
_AGENT_MODULES = ("google.adk.runners", "google.adk.apps.app", "google.adk.plugins.base_plugin")
_FRAMEWORK = ("/site-packages/google/adk/", "/site-packages/opentelemetry/")
_PLUMBING = tuple(str(Path(module.__file__ or "").parent) for module in (asyncio, importlib))
_LONGEST_TRACEBACK = 40_000
_LONGEST_MESSAGE = 4_000


class _Environment(Exception):
    """What the interpreter lacks; not the agent's code is wrong but where it runs."""


# --- The line protocol -------------------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    """The value as something that JSON can carry. NaN and infinities become their names."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    if isinstance(value, (bytes, bytearray)):
        import base64

        return base64.urlsafe_b64encode(bytes(value)).decode()
    if hasattr(value, "model_dump"):
        return _dump(value)
    return _shown(value)


def _shown(value: object) -> str:
    try:
        return str(value)
    except Exception as error:  # an agent's own __str__
        return f"<{type(value).__name__}: {type(error).__name__} when shown>"


def _dump(model: Any, include: Any = None) -> Any:
    """A pydantic model as plain JSON values under their Python names, without Nones."""
    try:
        return model.model_dump(mode="json", exclude_none=True, by_alias=False, include=include, warnings=False)
    except Exception:  # something inside that pydantic can't turn into JSON
        return _plain(model.model_dump(exclude_none=True, by_alias=False, include=include, warnings=False))


class Channel:
    """Our end of the connection to the gate: lines of JSON, out of the way of whatever the agent prints or closes."""

    def __init__(self, descriptor: int) -> None:
        # A high number, so that code that closes "everything" below 256 or reuses low numbers doesn't hit it, and not
        # inherited by what the agent starts.
        self._descriptor = descriptor
        for lowest in (640, 200, 20):
            with contextlib.suppress(OSError):
                self._descriptor = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, lowest)
                os.close(descriptor)
                break
        self._lock = threading.Lock()
        self._ids = 0
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """A fork of this process must neither write to the gate nor keep the connection open."""
        with contextlib.suppress(OSError):
            os.close(self._descriptor)
        self._descriptor = -1

    def _send(self, message: dict[str, Any]) -> None:
        message["v"] = VERSION
        try:
            text = json.dumps(message, ensure_ascii=False, allow_nan=False)
        except (ValueError, TypeError):
            text = json.dumps(_plain(message), ensure_ascii=False, allow_nan=False)
        # A lone surrogate has no UTF-8; it arrives as a question mark.
        line = memoryview(text.encode("utf-8", "replace") + b"\n")
        with self._lock:
            while line and self._descriptor >= 0:
                try:
                    line = line[os.write(self._descriptor, line) :]
                except OSError:  # the gate is gone
                    os._exit(0)

    def request(self, method: str, params: dict[str, Any]) -> int:
        self._ids += 1
        self._send({"id": self._ids, "type": "request", "method": method, "params": params})
        return self._ids

    def notify(self, method: str, params: dict[str, Any]) -> None:
        self._send({"type": "notify", "method": method, "params": params})

    def answer(self, number: Any, result: Any) -> None:
        self._send({"id": number, "type": "response", "result": result})

    def refuse(self, number: Any, code: str, message: str, data: dict[str, Any] | None = None) -> None:
        self._send({"id": number, "type": "response", "error": {"code": code, "message": message, "data": data or {}}})

    def messages(self) -> Iterable[dict[str, Any]]:
        """What the gate sends, until it is gone."""
        held = b""
        while True:
            try:
                chunk = os.read(self._descriptor, 1 << 16)
            except OSError:
                return
            if not chunk:
                return
            *lines, held = (held + chunk).split(b"\n")
            for line in lines:
                if line.strip():
                    yield json.loads(line)


# --- What went wrong ---------------------------------------------------------------------------------------------


def _causes(error: BaseException | None) -> Iterable[BaseException]:
    """The error, what it was raised from, and what a group of errors holds."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        found = waiting.pop(0)
        if found is None or id(found) in seen:
            continue
        seen.add(id(found))
        yield found
        waiting += [*getattr(found, "exceptions", ()), found.__cause__, found.__context__]


def _is_framework(filename: str) -> bool:
    """Whether a frame is ours, ADK's or the standard library's plumbing: nothing that the agent's author could mend."""
    return (
        filename == __file__
        or filename.startswith(("<frozen importlib", *_PLUMBING))
        or any(part in filename for part in _FRAMEWORK)
    )


def _trimmed(frames: list[traceback.FrameSummary]) -> list[traceback.FrameSummary]:
    """The agent's own frames and, where it ends elsewhere, the last two of those that follow them."""
    frames = [frame for frame in frames if frame.filename != __file__]
    own = [number for number, frame in enumerate(frames) if not _is_framework(frame.filename)]
    after = frames[own[-1] + 1 if own else 0 :]
    return [frames[number] for number in own] + after[-2:]


def _traceback(error: BaseException) -> str:
    """The traceback as the agent's author wants to read it: without the frames and errors of what runs the agent."""
    told = traceback.TracebackException.from_exception(error)
    waiting: list[Any] = [told]
    while waiting:
        part = waiting.pop()
        if part is None:
            continue
        context = part.__context__
        if context is not None and all(_is_framework(frame.filename) for frame in context.stack):
            part.__context__ = None  # ADK's bookkeeping on the way up
        part.stack = traceback.StackSummary.from_list(_trimmed(list(part.stack)))
        waiting += [part.__cause__, part.__context__, *(getattr(part, "exceptions", None) or ())]
    text = "".join(told.format())
    return text if len(text) <= _LONGEST_TRACEBACK else "[...]\n" + text[-_LONGEST_TRACEBACK:]


def _leaves_us(error: BaseException) -> bool:
    """Whether an error was raised anywhere else than in this file."""
    frames = traceback.extract_tb(error.__traceback__)
    return isinstance(error, SyntaxError) or any(frame.filename != __file__ for frame in frames)


def _awaited(task: asyncio.Task[Any]) -> str:
    """Where a task stands: the chain of what it awaits, down to the innermost, in the form of a traceback."""
    frames: list[traceback.FrameSummary] = []
    step: Any = task.get_coro()
    for _ in range(500):
        frame = next(
            (getattr(step, name) for name in ("cr_frame", "ag_frame", "gi_frame") if hasattr(step, name)), None
        )
        if frame is not None:
            code = frame.f_code
            frames.append(traceback.FrameSummary(code.co_filename, frame.f_lineno, code.co_name))
        following = [getattr(step, name, None) for name in ("cr_await", "ag_await", "gi_yieldfrom")]
        if type(step).__name__ in ("async_generator_asend", "async_generator_athrow", "coroutine_wrapper"):
            following = [
                found for found in gc.get_referents(step) if hasattr(found, "ag_frame") or hasattr(found, "cr_frame")
            ]
        step = next((found for found in following if found is not None), None)
        if step is None:
            break
    return "".join(traceback.format_list(_trimmed(frames)))


def _status(error: BaseException) -> int | None:
    """The HTTP status of a failed model call, as google-genai, LiteLLM, OpenAI and httpx name it."""
    for value in (
        getattr(error, "status_code", None),
        getattr(error, "code", None),
        getattr(getattr(error, "response", None), "status_code", None),
    ):
        if isinstance(value, int) and not isinstance(value, bool) and 100 <= value < 600:
            return value
    return None


def _told(error: BaseException, model_errors: Iterable[BaseException] = ()) -> dict[str, Any]:
    """An error as the gate gets it. `origin` is `model` when it came out of a model call."""
    main = error
    while getattr(main, "exceptions", ()):  # a group around the one that matters
        main = main.exceptions[0]  # type: ignore[attr-defined]
    known = {id(found) for found in model_errors}
    culprit = next((cause for cause in _causes(error) if id(cause) in known or _is_api_error(cause)), None)
    shown = main if culprit is None else culprit
    return {
        "type": type(shown).__name__,
        "classes": [f"{cls.__module__}.{cls.__qualname__}" for cls in type(shown).__mro__[:-1]],
        "message": _shown(shown)[:_LONGEST_MESSAGE],
        "traceback": _traceback(error) if _leaves_us(error) else None,
        "origin": "agent" if culprit is None else "model",
        "status": None if culprit is None else _status(culprit),
        "exit": _exit_code(main) if isinstance(main, SystemExit) else None,
    }


def _is_api_error(error: BaseException) -> bool:
    module = sys.modules.get("google.genai.errors")
    return module is not None and isinstance(error, module.APIError)


def _exit_code(error: SystemExit) -> int:
    if error.code is None:
        return 0
    return error.code if isinstance(error.code, int) else 1


# --- The agent ---------------------------------------------------------------------------------------------------


class _Alias:
    """Makes `agent.x` another name of `PACKAGE.x`, without importing it twice."""

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if not name.startswith("agent."):
            return None
        real = self._package + name[len("agent") :]
        try:
            module = importlib.import_module(real)
        except ModuleNotFoundError as error:
            if error.name == real:
                return None
            raise
        return importlib.machinery.ModuleSpec(name, _Same(module))  # type: ignore[arg-type]


class _Same:
    """A loader that hands out a module that is loaded already."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._spec = module.__spec__

    def create_module(self, spec: Any) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import system has just overwritten it


def _load_dotenv(directory: Path, root: Path) -> None:
    """Loads the nearest `.env` between the agent's directory and the repository's root; what is set already stays."""
    if os.environ.get("ADK_DISABLE_LOAD_DOTENV", "").lower() in ("1", "true"):
        return
    around = [directory, *directory.parents]
    if root in around:
        around = around[: around.index(root) + 1]
    for path in (parent / ".env" for parent in around):
        if path.is_file():
            try:
                dotenv = importlib.import_module("dotenv")  # comes with google-adk
                dotenv.load_dotenv(path, override=False)
            except (ImportError, OSError) as error:
                sys.stderr.write(f"agent-eval: {path} was not loaded: {error}\n")
            return


def _make_importable(path: str, root: str) -> Path | None:
    """Puts the repository's root and the agent's parent directory on the path, and loads the agent's `.env`.

    Returns:
        The agent's directory; None for a dotted module.
    """
    if root not in sys.path:
        sys.path.append(root)
    directory = Path(path)
    if not directory.is_absolute():
        _load_dotenv(Path(root, *path.split(".")), Path(root))
        return None
    sys.path.insert(0, str(directory.parent))
    _load_dotenv(directory, Path(root))
    return directory


def _is_package(directory: Path) -> bool:
    return (directory / "__init__.py").is_file() or (directory / "agent.py").is_file()


def _import_package(path: Path) -> ModuleType:
    """Imports a directory as a package under its own name, and makes it known as `agent` as well."""
    name = path.name.replace(".", "_")
    if name in sys.modules:  # something that ADK itself needs goes by that name
        name = "agent"
    init = path / "__init__.py"
    if init.is_file():
        spec = importlib.util.spec_from_file_location(name, init, submodule_search_locations=[str(path)])
    else:
        spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(path)]
    assert spec is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[name] = package
    taken = any((path.parent / other).exists() for other in ("agent", "agent.py"))
    if name != "agent" and not taken:
        sys.modules["agent"] = package
        sys.meta_path.insert(0, _Alias(name))
    if init.is_file() and spec.loader is not None:
        spec.loader.exec_module(package)
    return package


def _pick(module: Any, loop: asyncio.AbstractEventLoop) -> Any:
    """The App or the root agent that a module gives, in ADK's order; None when it gives none."""
    from google.adk.agents.base_agent import BaseAgent
    from google.adk.apps.app import App

    kinds: tuple[type, ...] = (BaseAgent, App)
    with contextlib.suppress(ImportError):
        from google.adk.workflow import BaseNode  # google-adk 2

        kinds = (*kinds, BaseNode)
    app = getattr(module, "app", None)
    if isinstance(app, App):
        return app
    found = getattr(module, "root_agent", None)
    name = "root_agent"
    if found is None and callable(maker := getattr(module, "get_agent_async", None)):
        name = "get_agent_async()"
        found = loop.run_until_complete(maker())
        if isinstance(found, tuple):
            module.__agent_eval_kept__ = found  # its exit stack must not be collected
            found = found[0]
    if found is not None and not isinstance(found, kinds):
        raise TypeError(f"`{name}` of {module.__name__} is of type {type(found).__name__}, not an ADK agent")
    return found


def load_agent(path: str, root: str, loop: asyncio.AbstractEventLoop) -> Any:
    """Loads the agent.

    Args:
        path: The absolute path of the agent's directory, or a dotted module.
        root: The repository's root.
        loop: The loop that the agent will run in; it is not running yet, so a module may use `asyncio.run`.

    Returns:
        An App or a root agent.
    """
    directory = _make_importable(path, root)
    if directory is None:
        module = importlib.import_module(path)
        found = _pick(getattr(module, "agent", None), loop) or _pick(module, loop)
        if found is None:
            raise LookupError(f"the module {path} gives neither `app`, `root_agent` nor `get_agent_async`")
        return found
    if _is_package(directory):
        package = _import_package(directory)
        found = _pick(getattr(package, "agent", None), loop) or _pick(package, loop)
        if found is None and (directory / "agent.py").is_file():
            found = _pick(importlib.import_module(f"{package.__name__}.agent"), loop)
        if found is not None:
            return found
    config = directory / "root_agent.yaml"
    if config.is_file():
        from google.adk.agents import config_agent_utils

        return config_agent_utils.from_config(str(config))
    raise LookupError(
        f"{path} gives no agent: neither `app`, `root_agent` nor `get_agent_async` in its agent.py or __init__.py, "
        "and there is no root_agent.yaml"
    )


# --- Watching the agent ------------------------------------------------------------------------------------------

_turn: contextvars.ContextVar[Turn | None] = contextvars.ContextVar("agent_eval_turn", default=None)


def _union(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The spans merged where they overlap, in order."""
    merged: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _seconds(spans: list[tuple[float, float]]) -> float:
    return sum(end - start for start, end in _union(spans))


class Turn:
    """What is measured while a turn runs."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.invocation_id = ""
        self.model_errors: list[BaseException] = []
        self.failed_attempts: list[int] = []  # of the model call that is under way
        self._open: dict[tuple[str, Any], tuple[float, str, asyncio.Task[Any] | None]] = {}
        self._spans: dict[str, list[tuple[float, float]]] = {"model": [], "tool": []}
        self._requests: dict[tuple[str, str], Any] = {}

    def begin(self, kind: str, key: Any, what: str) -> None:
        self._open[kind, key] = (time.monotonic(), what, asyncio.current_task())

    def end(self, kind: str, key: Any) -> None:
        begun = self._open.pop((kind, key), None)
        if begun is not None:
            self._spans[kind].append((begun[0], time.monotonic()))

    def request(self, invocation_id: str, agent: str, llm_request: Any) -> None:
        self._requests.setdefault((invocation_id, agent), llm_request)

    def waiting(self, task: asyncio.Task[Any]) -> dict[str, Any]:
        """What the turn is waiting for right now, and where; the innermost when it is several things."""
        for (kind, _), (since, what, inner) in reversed(self._open.items()):
            return {
                "for": kind,
                "name": what,
                "seconds": time.monotonic() - since,
                "attempts": list(self.failed_attempts) if kind == "model" else [],
                "where": _awaited(inner or task),
            }
        return {"where": _awaited(task)}

    def measured(self) -> dict[str, float]:
        """Seconds awaiting a model, and inside tools without awaiting a model."""
        for kind, key in list(self._open):
            self.end(kind, key)
        model, both = self._spans["model"], self._spans["model"] + self._spans["tool"]
        return {"model_duration": _seconds(model), "tool_duration": _seconds(both) - _seconds(model)}

    def requests(self) -> list[dict[str, Any]]:
        """The first request of each agent of this turn, as it stood when it was sent."""
        return [
            {"agent": agent, "instructions": _instructions(request), "tools": _tools(request)}
            for (invocation_id, agent), request in self._requests.items()
            if invocation_id == self.invocation_id
        ]


def _current() -> Turn:
    """The turn that the running code belongs to; one that nobody reads when it belongs to none."""
    return _turn.get() or Turn(0)


def _instructions(llm_request: Any) -> str:
    value = getattr(llm_request.config, "system_instruction", None)
    if value is None or isinstance(value, str):
        return value or ""
    found = []
    for item in value if isinstance(value, list) else [value]:
        for part in getattr(item, "parts", None) or [item]:
            found.append(part if isinstance(part, str) else getattr(part, "text", None) or "")
    return "\n".join(text for text in found if text)


def _tools(llm_request: Any) -> list[Any]:
    return [_plain(tool) for tool in getattr(llm_request.config, "tools", None) or []]


def _with_retries(llm_request: Any, context: Any, options: dict[str, Any]) -> None:
    """Gives a model call HTTP retries if neither it nor the agent's model has any."""
    from google.genai import types

    if not hasattr(types, "HttpRetryOptions") or "retry_options" not in types.HttpOptions.model_fields:
        return
    agent = getattr(getattr(context, "_invocation_context", None), "agent", None)
    model = getattr(agent, "model", None)
    if getattr(model, "retry_options", None) is not None:
        return
    config = llm_request.config = llm_request.config or types.GenerateContentConfig()
    http = config.http_options = config.http_options or types.HttpOptions()
    if http.retry_options is None:
        http.retry_options = types.HttpRetryOptions(**options)


def _make_plugin(retry: dict[str, Any], failed: Callable[[int], None]) -> Any:
    from google.adk.plugins.base_plugin import BasePlugin

    class Watch(BasePlugin):  # type: ignore[misc]
        """Comes last among the app's plugins and changes nothing but the retries."""

        @staticmethod
        def _key(context: Any) -> tuple[Any, ...]:
            inner = getattr(context, "_invocation_context", None)
            return (context.invocation_id, context.agent_name, getattr(inner, "branch", None))

        async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
            _with_retries(llm_request, callback_context, retry)
            turn = _current()
            turn.failed_attempts.clear()
            turn.request(callback_context.invocation_id, callback_context.agent_name, llm_request)
            turn.begin("model", self._key(callback_context), str(llm_request.model or ""))

        async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:
            _current().end("model", self._key(callback_context))

        async def on_model_error_callback(self, *, callback_context: Any, llm_request: Any, error: Exception) -> None:
            _current().end("model", self._key(callback_context))
            _current().model_errors.append(error)
            status = _status(error)
            if status is not None and not _is_api_error(error):  # LiteLLM and others, once their own retries are over
                failed(status)

        async def before_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any) -> None:
            _current().begin("tool", tool_context.function_call_id, tool.name)

        async def after_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any, result: Any) -> None:
            _current().end("tool", tool_context.function_call_id)

        async def on_tool_error_callback(self, *, tool: Any, tool_args: Any, tool_context: Any, error: Any) -> None:
            _current().end("tool", tool_context.function_call_id)

    return Watch(name="agent_eval_host")


def _watch_api_errors(notify: Callable[[int], None]) -> None:
    """Sees every failed HTTP attempt of google-genai, also those that it repeats by itself."""
    from google.genai import errors

    original = errors.APIError.__init__

    def observed(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        code = _status(self)
        if code is not None:
            _current().failed_attempts.append(code)
            notify(code)

    setattr(errors.APIError, "__init__", observed)  # noqa: B010 - a type checker refuses the plain assignment


# --- Custom metrics ----------------------------------------------------------------------------------------------

_METRIC_MODULES = {
    "EvaluationResult": "google.adk.evaluation.evaluator",
    "EvalMetric": "google.adk.evaluation.eval_metrics",
    "BaseCriterion": "google.adk.evaluation.eval_metrics",
    "Invocation": "google.adk.evaluation.eval_case",
    "ConversationScenario": "google.adk.evaluation.conversation_scenarios",
}
_HAS_CUSTOM_METRICS = "google.adk.evaluation.custom_metric_evaluator"
_SHOWN_RESULT = 300


class CustomMetrics:
    """The functions of `custom_metrics`, and the objects of the installed ADK that they are called with."""

    def __init__(self, agent: str, root: str) -> None:
        if importlib.util.find_spec(_HAS_CUSTOM_METRICS) is None:
            found = importlib.import_module("google.adk.version").__version__
            raise _Environment(f"google-adk {found} has no custom metrics; 1.24 and newer have")
        self._types = {name: getattr(importlib.import_module(module), name) for name, module in _METRIC_MODULES.items()}
        self._agent = _make_importable(agent, root)
        self._functions: dict[str, Callable[..., Any]] = {}
        self._broken: dict[str, BaseException] = {}

    def function(self, name: str) -> Callable[..., Any]:
        """The function of a dotted name. One that couldn't be imported isn't tried again."""
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
        # As for the agent itself: its package is known by its own name and as `agent`.
        own = directory is not None and first in ("agent", directory.name) and first not in sys.modules
        if own and directory is not None and _is_package(directory):
            _import_package(directory)
        module = importlib.import_module(module_name)
        found = getattr(module, attribute, None)
        if found is None:
            raise LookupError(f"the module {module_name} has no `{attribute}`")
        if not callable(found):
            raise TypeError(f"`{name}` is of type {type(found).__name__}, not a function")
        return found  # type: ignore[no-any-return]

    def arguments(self, params: Mapping[str, Any]) -> tuple[Any, ...]:
        """What ADK calls a custom metric with: the metric without its threshold, the turns, the scenario."""
        criterion = self._types["BaseCriterion"].model_validate(params["criterion"])
        metric = self._types["EvalMetric"](
            metric_name=params["metric"], criterion=criterion, custom_function_path=params["function"]
        )
        expected, scenario = params.get("expected"), params.get("scenario")
        return (
            metric,
            [self._read("Invocation", turn) for turn in params["actual"]],
            None if expected is None else [self._read("Invocation", turn) for turn in expected],
            None if scenario is None else self._read("ConversationScenario", scenario),
        )

    def _read(self, name: str, value: Any) -> Any:
        """A value as an object of ADK's. What an older ADK doesn't know, and refuses, is left out."""
        for _ in range(10):
            try:
                return self._types[name].model_validate_json(json.dumps(value))
            except ValueError as error:
                found: list[Any] = getattr(error, "errors", list)()
                dropped = [_drop(value, one["loc"]) for one in found if one["type"] == "extra_forbidden"]
                if not any(dropped):
                    raise
        return self._types[name].model_validate_json(json.dumps(value))

    def told(self, result: Any) -> dict[str, Any]:
        """A result as the gate gets it; whether it is one that counts is decided there."""
        if not isinstance(result, self._types["EvaluationResult"]):
            return {"type": type(result).__name__, "shown": _shown(result)[:_SHOWN_RESULT]}
        return {
            "type": "EvaluationResult",
            **_score_of(result.overall_score, result.overall_eval_status, result.overall_rubric_scores),
            "turns": [
                _score_of(turn.score, turn.eval_status, turn.rubric_scores) for turn in result.per_invocation_results
            ],
        }


def _score_of(score: Any, status: Any, rubrics: Any) -> dict[str, Any]:
    return {
        "score": _plain(score),
        "status": _shown(getattr(status, "name", status)),
        "rubrics": [
            {"rubric_id": _shown(one.rubric_id), "score": _plain(one.score), "rationale": _shown(one.rationale or "")}
            for one in rubrics or ()
        ],
    }


def _drop(value: Any, place: tuple[Any, ...]) -> bool:
    """Deletes what stands at a place that pydantic names; names of a union's members in it lead nowhere."""
    for step in place[:-1]:
        known = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
        if step in known:
            value = value[step]
    return isinstance(value, dict) and value.pop(place[-1], _drop) is not _drop


# --- Serving -----------------------------------------------------------------------------------------------------


class Host:
    """Answers the gate's requests."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        self._inbox: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._role = "agent"
        self._loaded = False
        self._app: Any = None
        self._metrics: CustomMetrics | None = None
        self._retry: dict[str, Any] = {}
        self._latest: Any = None
        self._runners: dict[str, tuple[Any, str, str]] = {}
        self._turns: dict[int, tuple[asyncio.Task[None], Turn]] = {}
        self._main = threading.get_ident()

    def run(self) -> None:
        threading.Thread(target=self._read, daemon=True, name="agent-eval").start()
        self._channel.request(
            "hello",
            {
                "role": "agent",
                "roles": ["agent", "metrics"],
                "versions": [VERSION],
                "capabilities": ["state", "app_details", "stack"],
                "python": ".".join(map(str, sys.version_info[:3])),
                "pid": os.getpid(),
            },
        )
        while not self._loaded:  # the agent is imported while the loop stands still, as by `adk eval`
            self._serve(self._inbox.get())
        self._loop.call_soon(self._drain)
        while True:
            try:
                self._loop.run_forever()
            except (SystemExit, KeyboardInterrupt):  # a task of the agent called sys.exit(); its turn knows
                continue

    def _read(self) -> None:
        """Reads in a thread of its own: a host whose loop is blocked still answers `stack`, and ends with the gate."""
        with contextlib.suppress(ValueError):
            for message in self._channel.messages():
                if message.get("method") == "stack":
                    self._channel.answer(message.get("id"), {"stack": self._stack()})
                    continue
                self._inbox.put(message)
                if self._loaded:
                    self._loop.call_soon_threadsafe(self._drain)
        os._exit(0)

    def _stack(self) -> str:
        frame = sys._current_frames().get(self._main)
        return "".join(traceback.format_list(_trimmed(list(traceback.extract_stack(frame))))) if frame else ""

    def _drain(self) -> None:
        while not self._inbox.empty():
            self._serve(self._inbox.get_nowait())

    def _serve(self, message: dict[str, Any]) -> None:
        if message.get("type") == "response":
            error = message.get("error")
            if error:  # the gate speaks no version that we speak
                sys.stderr.write(f"agent-eval: {error.get('message')}\n")
                os._exit(70)
            self._role = (message.get("result") or {}).get("role", "agent")
            return
        number, method, params = message.get("id", 0), message.get("method"), message.get("params") or {}
        handler = {
            "load": self._load,
            "send": self._send,
            "evaluate": self._evaluate,
            "cancel": self._cancel,
            "close_session": self._close_session,
            "shutdown": self._shutdown,
        }.get(str(method))
        if handler is None:
            if message.get("type") == "request":
                self._channel.refuse(number, "unknown-method", f"this host has no method {method!r}")
            return
        handler(number, params)

    # -- methods

    def _load(self, number: int, params: dict[str, Any]) -> None:
        started = time.monotonic()
        app: Any = None
        # What is imported stays: looking through it for garbage again and again takes a tenth of the time.
        gc.disable()
        try:
            self._retry = params.get("retry") or {}
            versions = self._import_adk()
            between = time.monotonic()
            if self._role == "metrics":
                self._metrics = CustomMetrics(params["agent"], params["root"])
            else:
                app = load_agent(params["agent"], params["root"], self._loop)
        except _Environment as error:
            data = _told(error.__cause__) if error.__cause__ is not None else {}
            self._channel.refuse(number, "agent-environment", str(error), data)
        except BaseException as error:
            self._channel.refuse(number, "agent-import", _shown(error)[:_LONGEST_MESSAGE], _told(error))
        else:
            agent = getattr(app, "root_agent", app)
            self._app = app
            self._loaded = True
            self._channel.answer(
                number,
                {
                    **versions,
                    "agent": _shown(getattr(agent, "name", "")),
                    "seconds": {"adk": between - started, "agent": time.monotonic() - between},
                },
            )
        finally:
            gc.freeze()
            gc.enable()

    def _import_adk(self) -> dict[str, str]:
        needed = _METRIC_MODULES.values() if self._role == "metrics" else _AGENT_MODULES
        try:
            for name in needed:
                importlib.import_module(name)
            adk = importlib.import_module("google.adk.version").__version__
            genai = importlib.import_module("google.genai.version").__version__
            _watch_api_errors(self._attempt_failed)
        except ImportError as error:
            if (error.name or "") in ("google", "google.adk"):
                raise _Environment(f"google-adk is not installed for {sys.executable}") from None
            found = sys.modules.get("google.adk.version")
            known = "" if found is None else f" {found.__version__}"
            raise _Environment(f"google-adk{known} can't be used: {error}") from error
        return {"adk": adk, "google-genai": genai}

    def _attempt_failed(self, code: int) -> None:
        if code in (429, 503):
            self._channel.notify("throttled", {"code": code})

    def _send(self, number: int, params: dict[str, Any]) -> None:
        turn = Turn(number)
        task = self._loop.create_task(self._run_turn(turn, params))
        self._turns[number] = (task, turn)
        task.add_done_callback(lambda _: self._turns.pop(number, None))

    async def _run_turn(self, turn: Turn, params: dict[str, Any]) -> None:
        _turn.set(turn)
        wall, started = time.time(), time.monotonic()
        try:
            runner, user_id, session_id = await self._session(params)
            from google.genai import types

            content = types.Content.model_validate_json(json.dumps(params["content"]))
            events = runner.run_async(user_id=user_id, session_id=session_id, new_message=content)
            async with contextlib.aclosing(events):
                async for event in events:
                    turn.invocation_id = turn.invocation_id or event.invocation_id
                    dumped = _dump(event, _EVENT_FIELDS)
                    self._channel.notify("event", {"turn": turn.number, "event": dumped})
            result = {"started_at": wall, "duration": time.monotonic() - started, **turn.measured()}
            self._channel.answer(turn.number, {**result, "requests": turn.requests()})
        except asyncio.CancelledError:
            self._channel.refuse(turn.number, "cancelled", "the turn was cancelled")
        except BaseException as error:  # SystemExit too: it ends the turn, not the other sessions
            code = "agent-crash" if isinstance(error, SystemExit) else "agent-exception"
            told = _told(error, turn.model_errors)
            self._channel.refuse(turn.number, code, told["message"], told)

    def _evaluate(self, number: int, params: dict[str, Any]) -> None:
        turn = Turn(number)
        task = self._loop.create_task(self._call_metric(turn, params))
        self._turns[number] = (task, turn)
        task.add_done_callback(lambda _: self._turns.pop(number, None))

    async def _call_metric(self, turn: Turn, params: dict[str, Any]) -> None:
        """Calls a custom metric; without turns to score it only sees that the function can be imported."""
        assert self._metrics is not None
        code = "metric-import"
        try:
            # Not before this function has its turn: another one's that blocks the loop must not use up its time.
            self._channel.notify("started", {"turn": turn.number})
            function = self._metrics.function(params["function"])
            if params.get("actual") is None:
                self._channel.answer(turn.number, {})
                return
            code = "metric-arguments"
            arguments = self._metrics.arguments(params)
            code = "metric-exception"
            result = function(*arguments)
            if inspect.isawaitable(result):
                result = await result
            self._channel.answer(turn.number, self._metrics.told(result))
        except asyncio.CancelledError:
            self._channel.refuse(turn.number, "cancelled", "the call was cancelled")
        except BaseException as error:  # SystemExit too: it ends the call, not the other ones
            told = _told(error)
            self._channel.refuse(turn.number, code, told["message"], told)

    async def _session(self, params: dict[str, Any]) -> tuple[Any, str, str]:
        """The session of a turn; the first turn opens it.

        Every session has services of its own, so that neither `user:` and `app:` state nor a pinned session id can
        carry over from one case to another.
        """
        key = params["session"]
        if key in self._runners:
            return self._runners[key]
        from google.adk.apps.app import App
        from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService
        from google.adk.memory.in_memory_memory_service import InMemoryMemoryService
        from google.adk.runners import Runner
        from google.adk.sessions.in_memory_session_service import InMemorySessionService

        name, user_id, plugin = params["app_name"], params["user_id"], _make_plugin(self._retry, self._attempt_failed)
        if isinstance(self._app, App):
            app = self._app.model_copy(update={"name": name, "plugins": [*self._app.plugins, plugin]})
        else:  # not validated, as in ADK: an eval case may name the app as it likes
            app = App.model_construct(name=name, root_agent=self._app, plugins=[plugin])
        sessions = InMemorySessionService()
        session = await sessions.create_session(
            app_name=name,
            user_id=user_id,
            state=params.get("state") or {},
            session_id=params.get("session_id") or f"agent-eval-{uuid.uuid4()}",
        )
        runner = Runner(
            app=app,
            session_service=sessions,
            artifact_service=InMemoryArtifactService(),
            memory_service=InMemoryMemoryService(),
        )
        self._latest = runner
        self._runners[key] = (runner, user_id, session.id)
        return self._runners[key]

    def _cancel(self, number: int, params: dict[str, Any]) -> None:
        """Tells at once what the turn is waiting for, and answers when it has really ended."""
        task, turn = self._turns.get(int(params["turn"]), (None, None))
        if task is None or turn is None:
            self._channel.answer(number, {})
            return
        self._channel.notify("waiting", {"turn": turn.number, **turn.waiting(task)})
        task.add_done_callback(lambda _: self._channel.answer(number, {}))
        task.cancel()

    def _close_session(self, number: int, params: dict[str, Any]) -> None:
        # The runner itself is not closed: that would close the tools that all sessions share.
        self._runners.pop(params.get("session", ""), None)

    def _shutdown(self, number: int, params: dict[str, Any]) -> None:
        async def close() -> None:
            if self._latest is not None:  # all runners share the agent's tools and plugins
                with contextlib.suppress(BaseException):
                    await asyncio.wait_for(self._latest.close(), 1.0)
            sys.stdout.flush()
            self._channel.answer(number, {})
            os._exit(0)

        self._closing = self._loop.create_task(close())


def main() -> None:
    """Serves until the gate is gone."""
    import faulthandler

    # The directory of this file is no place to import from: it belongs to the gate.
    here = Path(__file__)
    sys.path[:] = [entry for entry in sys.path if not entry or Path(entry) not in (here.parent, here.resolve().parent)]
    if str(here.parent) == "/dev/fd":  # started through an open file, which nobody needs any more
        os.close(int(here.name))
    descriptor = int(sys.argv.pop())
    faulthandler.enable()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    Host(Channel(descriptor)).run()


if __name__ == "__main__":
    main()
