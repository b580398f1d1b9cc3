"""Runs the agent in its own interpreter, and reports to the gate (docs/host-protocol.md).

Started by path as `PYTHON child.py [TEMPLATE_FD] FD`. This is our only file that runs in the agent's environment. It
needs Python 3.10, the standard library and google-adk 1.18 or newer, and does not import agent_eval. It loads the agent
like `adk eval` and `adk web`, runs its sessions and forwards ADK's raw events. The gate interprets the events, so that
every version of ADK is scored alike. In the role `metrics` it runs the functions of `custom_metrics` instead, as ADK
does.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import copy
import errno
import fcntl
import functools
import gc
import hashlib
import html
import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import inspect
import itertools
import json
import os
import queue
import random
import re
import select
import signal
import socket
import ssl
import sys
import threading
import time
import traceback
import uuid
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

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
"""The fields of an event that the gate needs. Others, e.g. state deltas, may contain objects that are not JSON."""
_AGENT_MODULES = ("google.adk.runners", "google.adk.apps.app", "google.adk.plugins.base_plugin")
_TURN_MODULES = (
    *("google.adk.apps.compaction", "google.adk.models.google_llm", "google.adk.flows.llm_flows.single_flow"),
    *("google.adk.artifacts.in_memory_artifact_service", "google.adk.memory.in_memory_memory_service"),
    *("google.adk.sessions.in_memory_session_service", "google.adk.agents.llm_agent", "google.genai._api_client"),
    *("google.adk.workflow._workflow", "google.adk.workflow._tool_node", "google.adk.workflow._llm_agent_wrapper"),
    *("google.adk.workflow._trigger", "google.adk.workflow.utils._retry_utils", "google.adk.tools._node_tool"),
    *("google.adk.tools.set_model_response_tool", "google.adk.flows.llm_flows.core._resume", "httpcore"),
)
"""What ADK imports in the first turn of an LlmAgent. No version has all of them."""
_FRAMEWORK = ("/site-packages/google/adk/", "/site-packages/opentelemetry/")
_PLUMBING = tuple(str(Path(module.__file__ or "").parent) for module in (asyncio, importlib))
_LONGEST_TRACEBACK = 40_000
_LONGEST_MESSAGE = 4_000


class _Environment(Exception):
    """The interpreter lacks something; the agent's code is not the cause."""


# --- The line protocol -------------------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    """Converts a value to JSON types. NaN and infinities become strings."""
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


_ENVIRONMENT = tuple(value.strip() for value in os.environ.values() if len(value.strip()) >= 6)
"""Values that may be secrets, from before the agent's code runs and can change them."""


def _cut(text: str, limit: int) -> str:
    """Cuts a text to at most `limit` characters, between words and never inside a value of the environment.

    The gate masks secrets in what leaves this process. It could not recognize a part of a secret.
    """
    if len(text) <= limit:
        return text
    end = max(text.rfind(mark, 0, limit) for mark in " \n\t\"',;") + 1
    moved = True
    while moved:
        moved = False
        for value in _ENVIRONMENT:
            for form in (value, json.dumps(value)[1:-1], html.escape(value)):
                start = text.find(form, max(end - len(form) + 1, 0), end + len(form) - 1)
                if -1 < start < end:
                    end, moved = start, True
    return text[:end]


def _dump(model: Any, include: Any = None) -> Any:
    """Converts a pydantic model to JSON types, with Python field names and without Nones."""
    try:
        return model.model_dump(mode="json", exclude_none=True, by_alias=False, include=include, warnings=False)
    except Exception:  # a value that pydantic can't convert to JSON
        return _plain(model.model_dump(exclude_none=True, by_alias=False, include=include, warnings=False))


class Channel:
    """Our end of the connection to the gate: lines of JSON, protected from what the agent prints or closes."""

    def __init__(self, descriptor: int) -> None:
        # A high number, because some code closes all descriptors below 256 or reuses low numbers. Processes that the
        # agent starts do not inherit it.
        self._descriptor = descriptor
        for lowest in (640, 200, 20):
            with contextlib.suppress(OSError):
                self._descriptor = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, lowest)
                os.close(descriptor)
                break
        self._lock = threading.Lock()
        self._ids = itertools.count(1)
        self.pending: dict[int, concurrent.futures.Future[Any]] = {}
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
        # A lone surrogate can't be encoded and becomes a question mark.
        line = memoryview(text.encode("utf-8", "replace") + b"\n")
        with self._lock:
            while line and self._descriptor >= 0:
                try:
                    line = line[os.write(self._descriptor, line) :]
                except OSError:  # the gate is gone
                    os._exit(0)

    def request(self, method: str, params: dict[str, Any]) -> concurrent.futures.Future[Any]:
        """Sends a request, also from other threads; the future gets its result."""
        number, answer = next(self._ids), concurrent.futures.Future[Any]()
        self.pending[number] = answer
        self._send({"id": number, "type": "request", "method": method, "params": params})
        return answer

    def notify(self, method: str, params: dict[str, Any]) -> None:
        self._send({"type": "notify", "method": method, "params": params})

    def answer(self, number: Any, result: Any) -> None:
        self._send({"id": number, "type": "response", "result": result})

    def refuse(self, number: Any, code: str, message: str, data: dict[str, Any] | None = None) -> None:
        self._send({"id": number, "type": "response", "error": {"code": code, "message": message, "data": data or {}}})

    def messages(self) -> Iterable[dict[str, Any]]:
        """The gate's messages, until it closes the connection."""
        partial = b""
        while True:
            try:
                chunk = os.read(self._descriptor, 1 << 16)
            except OSError:
                return
            if not chunk:
                return
            *lines, partial = (partial + chunk).split(b"\n")
            for line in lines:
                if line.strip():
                    yield json.loads(line)


# --- Errors ------------------------------------------------------------------------------------------------------


def _causes(error: BaseException | None) -> Iterable[BaseException]:
    """The error, its causes and contexts, and the members of exception groups."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        cause = waiting.pop(0)
        if cause is None or id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        waiting += [*getattr(cause, "exceptions", ()), cause.__cause__, cause.__context__]


def _is_framework(filename: str) -> bool:
    """Whether a frame is in this file, in ADK or in asyncio: not the agent author's code."""
    return (
        filename == __file__
        or filename.startswith(("<frozen importlib", *_PLUMBING))
        or any(part in filename for part in _FRAMEWORK)
    )


_agent_places: list[str] = []
"""The agent's directory and the repository's root, with a trailing slash: they contain the agent's own source."""


def _is_own(filename: str) -> bool:
    """Whether a file is the agent's own source, not an installed package."""
    return filename.startswith(tuple(_agent_places)) and "/site-packages/" not in filename


def _own_line(frames: list[traceback.FrameSummary]) -> str:
    """The innermost line of the agent's own source, as `agent.py:41: await look_up(room)`; empty if there is none."""
    for place in _agent_places:
        for frame in reversed(frames):
            if frame.filename.startswith(place) and _is_own(frame.filename):
                return f"{frame.filename[len(place) :]}:{frame.lineno}: {frame.line}"
    return ""


def _hang(frames: list[traceback.FrameSummary]) -> dict[str, str]:
    """The stack of something that hangs, without framework frames, and the innermost line of the agent's own code."""
    own = [number for number, frame in enumerate(frames) if not _is_framework(frame.filename)]
    shown = [frames[number] for number in own] or [
        frame for frame in frames if not frame.filename.startswith(_PLUMBING)
    ][-2:]
    return {"where": "".join(traceback.format_list(shown)), "at": _own_line(frames)}


def _trimmed(frames: list[traceback.FrameSummary]) -> list[traceback.FrameSummary]:
    """The agent's own frames and at most two frames after them."""
    frames = [frame for frame in frames if frame.filename != __file__]
    own = [number for number, frame in enumerate(frames) if not _is_framework(frame.filename)]
    after = frames[own[-1] + 1 if own else 0 :]
    return [frames[number] for number in own] + after[-2:]


def _traceback(error: BaseException) -> str:
    """The traceback for the agent's author: without frames and errors of the framework."""
    report = traceback.TracebackException.from_exception(error)
    waiting: list[Any] = [report]
    while waiting:
        part = waiting.pop()
        if part is None:
            continue
        context = part.__context__
        if context is not None and all(_is_framework(frame.filename) for frame in context.stack):
            part.__context__ = None  # raised by ADK while handling the error
        part.stack = traceback.StackSummary.from_list(_trimmed(list(part.stack)))
        waiting += [part.__cause__, part.__context__, *(getattr(part, "exceptions", None) or ())]
    text = "".join(report.format())
    if len(text) <= _LONGEST_TRACEBACK:
        return text
    # Starts with a whole line, for the reason in `_cut`.
    return "[...]\n" + text[-_LONGEST_TRACEBACK:].partition("\n")[2]


def _is_external(error: BaseException) -> bool:
    """Whether an error was raised outside of this file."""
    frames = traceback.extract_tb(error.__traceback__)
    return isinstance(error, SyntaxError) or any(frame.filename != __file__ for frame in frames)


_WRAPPERS = ("async_generator_asend", "async_generator_athrow", "anext_awaitable", "coroutine_wrapper")
"""Types in which `async for`, `aclosing` and `anext` wrap the generator that they await."""


def _awaited(task: asyncio.Task[Any]) -> list[traceback.FrameSummary]:
    """The stack of a suspended task: the chain of awaited coroutines, innermost last."""
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
        referents: list[Any] = []
        if type(step).__name__ in _WRAPPERS:
            referents = gc.get_referents(step)
        elif getattr(step, "gi_frame", None) is not None:  # an __await__ that drives a coroutine itself, as in ADK
            referents = list(step.gi_frame.f_locals.values())
        following += [value for value in referents if _has_frame(value) or type(value).__name__ in _WRAPPERS]
        step = next((value for value in following if value is not None), None) or _task_behind(task)
        if step is None:
            break
        if isinstance(step, asyncio.Task):
            task, step = step, step.get_coro()
    return frames


def _has_frame(value: Any) -> bool:
    return inspect.iscoroutine(value) or inspect.isasyncgen(value)


def _task_behind(task: asyncio.Task[Any]) -> asyncio.Task[Any] | None:
    """The task that a task waits for, directly or as the first of the tasks that it gathers."""
    waiter = getattr(task, "_fut_waiter", None)
    for awaited in (waiter, *getattr(waiter, "_children", ())):
        if isinstance(awaited, asyncio.Task) and not awaited.done():
            return awaited
    return None


def _status(error: BaseException) -> int | None:
    """The HTTP status of a failed model call in errors of google-genai, LiteLLM, OpenAI and httpx."""
    for value in (
        getattr(error, "status_code", None),
        getattr(error, "code", None),
        getattr(getattr(error, "response", None), "status_code", None),
    ):
        if isinstance(value, int) and not isinstance(value, bool) and 100 <= value < 600:
            return value
    return None


def _error_data(error: BaseException, turn: Turn | None = None) -> dict[str, Any]:
    """The data of an error response. `origin` is `model` if a model call raised the error."""
    main = error
    while getattr(main, "exceptions", ()):  # an exception group
        main = main.exceptions[0]  # type: ignore[attr-defined]
    model_errors = {id(model_error) for model_error in turn.model_errors} if turn is not None else set()
    culprit = next((cause for cause in _causes(error) if id(cause) in model_errors or _is_api_error(cause)), None)
    shown = main if culprit is None else culprit
    return {
        "type": type(shown).__name__,
        "classes": [f"{cls.__module__}.{cls.__qualname__}" for cls in type(shown).__mro__[:-1]],
        "message": _cut(_shown(shown), _LONGEST_MESSAGE),
        "traceback": _traceback(error) if _is_external(error) else None,
        "origin": "agent" if culprit is None else "model",
        "status": None if culprit is None else _status(culprit),
        "exit": _exit_code(main) if isinstance(main, SystemExit) else None,
        "call": turn.failed_call.facts() if culprit is not None and turn is not None and turn.failed_call else None,
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
    """Makes `agent.x` an alias of `PACKAGE.x`, without importing it twice."""

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
    """A loader for a module that is already loaded."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._spec = module.__spec__

    def create_module(self, spec: Any) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import system has just overwritten it


def _load_dotenv(directory: Path, root: Path) -> None:
    """Loads the nearest `.env` between the agent's directory and the repository's root, overriding nothing."""
    if os.environ.get("ADK_DISABLE_LOAD_DOTENV", "").lower() in ("1", "true"):
        return
    folders = [directory, *directory.parents]
    if root in folders:
        folders = folders[: folders.index(root) + 1]
    for path in (folder / ".env" for folder in folders):
        if path.is_file():
            try:
                dotenv = importlib.import_module("dotenv")  # comes with google-adk
                dotenv.load_dotenv(path, override=False)
            except (ImportError, OSError) as error:
                sys.stderr.write(f"agent-eval: {path} was not loaded: {error}\n")
            return


def _make_importable(path: str, root: str) -> Path | None:
    """Adds the repository's root and the agent's parent directory to `sys.path`, and loads the agent's `.env`.

    Returns:
        The agent's directory; None for a dotted module.
    """
    if root not in sys.path:
        sys.path.append(root)
    _agent_places[:] = [f"{root.rstrip('/')}/"]
    directory = Path(path)
    if not directory.is_absolute():
        _load_dotenv(Path(root, *path.split(".")), Path(root))
        return None
    sys.path.insert(0, str(directory.parent))
    _agent_places.insert(0, f"{directory}/")
    _load_dotenv(directory, Path(root))
    return directory


def _is_package(directory: Path) -> bool:
    return (directory / "__init__.py").is_file() or (directory / "agent.py").is_file()


def _import_package(path: Path) -> ModuleType:
    """Imports a directory as a package under its own name, with the alias `agent`."""
    name = path.name.replace(".", "_")
    if name in sys.modules:  # ADK itself imports a module of that name
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
    """The App or the root agent that a module defines, in ADK's order; None if it defines none."""
    from google.adk.agents.base_agent import BaseAgent
    from google.adk.apps.app import App

    kinds: tuple[type, ...] = (BaseAgent, App)
    with contextlib.suppress(ImportError):
        from google.adk.workflow import BaseNode  # google-adk 2

        kinds = (*kinds, BaseNode)
    app = getattr(module, "app", None)
    if isinstance(app, App):
        return app
    agent = getattr(module, "root_agent", None)
    name = "root_agent"
    if agent is None and callable(maker := getattr(module, "get_agent_async", None)):
        name = "get_agent_async()"
        agent = loop.run_until_complete(maker())
        if isinstance(agent, tuple):
            module.__agent_eval_kept__ = agent  # its exit stack must not be collected
            agent = agent[0]
    if agent is not None and not isinstance(agent, kinds):
        raise TypeError(f"`{name}` of {module.__name__} is of type {type(agent).__name__}, not an ADK agent")
    return agent


def load_agent(path: str, root: str, loop: asyncio.AbstractEventLoop) -> Any:
    """Loads the agent.

    Args:
        path: The absolute path of the agent's directory, or a dotted module.
        root: The repository's root.
        loop: The agent's event loop. It is not running yet, so a module may use `asyncio.run`.

    Returns:
        An App or a root agent.
    """
    directory = _make_importable(path, root)
    if directory is None:
        module = importlib.import_module(path)
        agent = _pick(getattr(module, "agent", None), loop) or _pick(module, loop)
        if agent is None:
            raise LookupError(f"the module {path} defines neither `app`, `root_agent` nor `get_agent_async`")
        return agent
    if _is_package(directory):
        package = _import_package(directory)
        agent = _pick(getattr(package, "agent", None), loop) or _pick(package, loop)
        if agent is None and (directory / "agent.py").is_file():
            agent = _pick(importlib.import_module(f"{package.__name__}.agent"), loop)
        if agent is not None:
            return agent
    config = directory / "root_agent.yaml"
    if config.is_file():
        from google.adk.agents import config_agent_utils

        return config_agent_utils.from_config(str(config))
    raise LookupError(
        f"{path} defines no agent: neither `app`, `root_agent` nor `get_agent_async` in its agent.py or __init__.py, "
        "and there is no root_agent.yaml"
    )


def _root_of(app: Any) -> Any:
    """The agent of an App; an agent itself, whose own `root_agent` is the top of its tree."""
    from google.adk.agents.base_agent import BaseAgent

    return app if isinstance(app, BaseAgent) else getattr(app, "root_agent", app)


def _with_root(app: Any, name: str) -> Any:
    """The App or agent with one of its sub-agents as the root. An App keeps its plugins, as in ADK's AgentEvaluator."""
    root = _root_of(app)
    agent = root.find_agent(name) if hasattr(root, "find_agent") else None
    if agent is None:
        raise LookupError(f"there is no agent named {name!r} in its tree: {', '.join(_names(root))}")
    return agent if root is app else app.model_copy(update={"root_agent": agent})


def _names(agent: Any) -> list[str]:
    """The names of an agent and all agents below it, with their parents: `root`, `root/child`."""
    name = _shown(getattr(agent, "name", ""))
    below = [other for child in getattr(agent, "sub_agents", None) or [] for other in _names(child)]
    return [name, *(f"{name}/{other}" for other in below)][:100]


# --- Observing the agent -----------------------------------------------------------------------------------------

_turn: contextvars.ContextVar[Turn | None] = contextvars.ContextVar("agent_eval_turn", default=None)


def _union(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The spans in order, with overlapping spans merged."""
    merged: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _seconds(spans: list[tuple[float, float]]) -> float:
    return sum(end - start for start, end in _union(spans))


class Call:
    """A model call or tool call of a turn."""

    def __init__(self, kind: str, agent: str, name: str, call_id: str | None, model_call: ModelCall | None) -> None:
        self.kind = kind  # `model` or `tool`
        self.agent = agent
        self.name = name
        self.call_id = call_id
        self.model_call = model_call
        self.task = asyncio.current_task()  # until the call ends
        self.began = time.monotonic()
        self.ended = 0.0
        self.tokens: dict[str, int] = {}
        self.contents: int | None = None  # in the request of a model call

    def span(self, turn_began: float, replayed: set[str]) -> dict[str, Any]:
        """The call for the gate, with seconds since the turn began.

        Args:
            turn_began: When the turn began.
            replayed: The ids of the tool calls that the gate answered.
        """
        failures = self.model_call.failures if self.model_call is not None else []
        return {
            "kind": self.kind,
            "agent": self.agent,
            "name": self.name,
            "call_id": self.call_id,
            "start": round(self.began - turn_began, 4),
            "end": round(self.ended - turn_began, 4),
            "attempts": [failure["status"] for failure in failures],
            **({"replayed": True} if self.call_id in replayed else {}),
            **({} if self.contents is None else {"contents": self.contents}),
            **self.tokens,
        }


class Turn:
    """Measurements of one turn."""

    def __init__(self, number: int, seconds: float | None = None, stalled: float = 0.0) -> None:
        self.number = number
        self.began = time.monotonic()
        self.ends_at = float("inf") if seconds is None else time.monotonic() + seconds
        self.stalled = stalled  # seconds that the loop had been blocked before this turn
        self.invocation_id = ""
        self.model_errors: list[BaseException] = []
        self.failed_call: ModelCall | None = None
        self.tasks: weakref.WeakKeyDictionary[asyncio.Task[Any], None] = weakref.WeakKeyDictionary()  # oldest first
        self.calls = 0  # completed model calls
        self.replayed: set[str] = set()  # ids of tool calls that the gate answered
        self._open: dict[tuple[str, Any], Call] = {}
        self._ended: list[Call] = []
        self._requests: dict[tuple[str, str], Any] = {}

    def begin(
        self, kind: str, key: Any, agent: str, name: str, call_id: str | None = None, call: ModelCall | None = None
    ) -> Call:
        begun = self._open[kind, key] = Call(kind, agent, name, call_id, call)
        return begun

    def end(self, kind: str, key: Any, tokens: dict[str, int] | None = None) -> ModelCall | None:
        """Records the end of a model call or tool; returns the model call."""
        call = self._open.pop((kind, key), None)
        if call is None:
            return None
        call.ended, call.task = time.monotonic(), None
        call.tokens = tokens or {}
        self._ended.append(call)
        self.calls += kind == "model"
        return call.model_call

    def request(self, invocation_id: str, agent: str, llm_request: Any) -> None:
        self._requests.setdefault((invocation_id, agent), llm_request)

    def waiting(self, task: asyncio.Task[Any], asking: ModelCall | None) -> dict[str, Any]:
        """What the turn is waiting for (the innermost if there are several), and the stack.

        Args:
            task: The turn's task.
            asking: The model call that waits for its provider, including calls made by tools.
        """
        facts: dict[str, Any] = {"calls": self.calls}
        innermost, since = task, float("-inf")
        for call in reversed(self._open.values()):
            since = call.began
            facts |= {"for": call.kind, "name": call.name, "seconds": time.monotonic() - since}
            facts |= {} if call.model_call is None else call.model_call.facts()
            innermost = call.task or task
            break
        if asking is not None and (asking.attempt_began or 0.0) >= since:
            facts |= {"for": "model", "name": asking.model, **asking.facts()}
        # ADK runs parts of an agent in separate tasks: use the newest one that is in the agent's own code.
        stacks = [_awaited(each) for each in [innermost, *reversed(list(self.tasks)), task] if not each.done()]
        return {**facts, **_hang(next((stack for stack in stacks if _own_line(stack)), stacks[0]))}

    def measured(self) -> dict[str, Any]:
        """Seconds awaiting a model, and in tools without awaiting a model; the calls that ended."""
        spans = [call.span(self.began, self.replayed) for call in sorted(self._ended, key=lambda call: call.began)]
        for kind, key in list(self._open):
            self.end(kind, key)
        model = [(call.began, call.ended) for call in self._ended if call.kind == "model"]
        both = [(call.began, call.ended) for call in self._ended]
        model_duration = _seconds(model)
        return {"model_duration": model_duration, "tool_duration": _seconds(both) - model_duration, "spans": spans}

    def requests(self) -> list[dict[str, Any]]:
        """The first request of each agent of this turn."""
        return [
            {"agent": agent, "instructions": _instructions(request), "tools": _tools(request)}
            for (invocation_id, agent), request in self._requests.items()
            if invocation_id == self.invocation_id
        ]


def _current() -> Turn:
    """The turn of the running code; a dummy if there is none."""
    return _turn.get() or Turn(0)


def _instructions(llm_request: Any) -> str:
    value = getattr(llm_request.config, "system_instruction", None)
    if value is None or isinstance(value, str):
        return value or ""
    texts = []
    for item in value if isinstance(value, list) else [value]:
        for part in getattr(item, "parts", None) or [item]:
            texts.append(part if isinstance(part, str) else getattr(part, "text", None) or "")
    return "\n".join(text for text in texts if text)


def _tools(llm_request: Any) -> list[Any]:
    return [_plain(tool) for tool in getattr(llm_request.config, "tools", None) or []]


_TOKENS = {
    "input_tokens": ("prompt_token_count", "tool_use_prompt_token_count"),
    "output_tokens": ("candidates_token_count", "thoughts_token_count"),
}
"""Counts of a model's usage metadata that make up each of a span's, as in ADK's `token_usage_v1`."""


def _tokens(llm_response: Any) -> dict[str, int]:
    """Tokens of a model call, as far as the model reports them."""
    usage = getattr(llm_response, "usage_metadata", None)
    counts = {
        name: [count for key in keys if isinstance(count := getattr(usage, key, None), int) and count >= 0]
        for name, keys in _TOKENS.items()
    }
    return {name: sum(reported) for name, reported in counts.items() if reported}


def _with_retries(llm_request: Any, context: Any, options: dict[str, Any]) -> None:
    """Configures HTTP retries for a model call if neither it nor the agent's model does."""
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


def _make_plugin(models: ModelWatch) -> Any:
    from google.adk.plugins.base_plugin import BasePlugin

    class Watch(BasePlugin):  # type: ignore[misc]
        """The last of the app's plugins. It changes nothing except the retries."""

        @staticmethod
        def _key(context: Any) -> tuple[Any, ...]:
            inner = getattr(context, "_invocation_context", None)
            return (context.invocation_id, context.agent_name, getattr(inner, "branch", None))

        async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
            _with_retries(llm_request, callback_context, models.retry)
            turn = _current()
            turn.request(callback_context.invocation_id, callback_context.agent_name, llm_request)
            call = models.begin(turn, str(llm_request.model or ""), _model_of(callback_context))
            key, agent = self._key(callback_context), callback_context.agent_name
            turn.begin("model", key, agent, call.model, call=call).contents = len(llm_request.contents or ())

        async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:
            call = _current().end("model", self._key(callback_context), _tokens(llm_response))
            if call is not None:
                models.end(call)

        async def on_model_error_callback(self, *, callback_context: Any, llm_request: Any, error: Exception) -> None:
            call = _current().end("model", self._key(callback_context))
            _current().model_errors.append(error)
            if call is not None:
                models.end(call, error)

        async def before_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any) -> None:
            call_id = tool_context.function_call_id
            _current().begin("tool", call_id, tool_context.agent_name, tool.name, call_id)

        async def after_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any, result: Any) -> None:
            _current().end("tool", tool_context.function_call_id)

        async def on_tool_error_callback(self, *, tool: Any, tool_args: Any, tool_context: Any, error: Any) -> None:
            _current().end("tool", tool_context.function_call_id)

    return Watch(name="agent_eval_host")


# --- Observing and retrying model calls --------------------------------------------------------------------------

_TRANSPORT = (
    "ConnectionError",
    "TimeoutError",
    "gaierror",
    "SSLError",
    "TransportError",
    "ClientConnectionError",
    "ClientPayloadError",
    "APIConnectionError",
    "APITimeoutError",
    "Timeout",
)
"""Names of exception classes, including base classes, that mean "no response": of Python, httpx, aiohttp, google-auth,
LiteLLM, and the SDKs of OpenAI and Anthropic."""
_ERRNO = {
    errno.ECONNREFUSED: "connection refused",
    errno.ECONNRESET: "connection reset",
    errno.EPIPE: "connection reset",
    errno.ETIMEDOUT: "connection timed out",
    errno.ENETUNREACH: "no route to the host",
    errno.EHOSTUNREACH: "no route to the host",
}
_PATIENCE = 10.0
"""Minimum seconds to wait for a silent attempt. There is no limit before the model's first response."""
_PATIENCE_FACTOR = 3.0
"""Multiple of the slowest response so far; doubled with each cancelled attempt."""
_SHORTEST_ATTEMPT = 0.5
"""Remaining seconds of the turn that another attempt needs."""
_SILENCE_STEP = 1.0
"""Seconds between two reports of a silent call."""
_MODEL_PATH = re.compile(r"models/([^/:?]+)")


class UnreadableAnswer(ConnectionError):
    """The response to a model call is not JSON: it is truncated, or the page of a proxy."""


class SilentAttempt(TimeoutError):
    """An attempt got no data for so long that a new attempt is more promising."""


class ModelCall:
    """A model call with all its attempts."""

    def __init__(self, number: int, turn: Turn, model: str, *, remote: bool, seen: bool) -> None:
        self.number = number
        self.turn = turn
        self.model = model
        self.address = ""
        self.remote = remote  # whether a library calls the model over the network, not the agent's own code
        self.seen = seen  # whether each attempt is observed: in google-genai only
        self.ended = False
        self.streaming = False  # whether a streamed response has begun but not ended
        self.began = time.monotonic()
        self.attempt_began: float | None = None if seen else self.began
        self.silent_attempts = 0
        self.failures: list[dict[str, Any]] = []
        self.go_on = asyncio.Event()

    def facts(self) -> dict[str, Any]:
        """The data for the gate if the call fails or the turn times out."""
        now = time.monotonic()
        return {
            "model": self.model,
            "address": self.address,
            "remote": self.remote,
            "seconds": now - self.began,
            "silent": 0.0 if self.attempt_began is None else now - self.attempt_began,
            "attempts": self.failures[-_SHOWN_ATTEMPTS:],
        }


_SHOWN_ATTEMPTS = 50
_call: contextvars.ContextVar[ModelCall | None] = contextvars.ContextVar("agent_eval_model_call", default=None)


def _model_of(context: Any) -> Any:
    agent = getattr(getattr(context, "_invocation_context", None), "agent", None)
    return getattr(agent, "canonical_model", None)


def _is_gemini(model: Any) -> bool:
    return any(cls.__name__ == "Gemini" and cls.__module__.startswith("google.adk.") for cls in type(model).__mro__)


def _is_transport(error: BaseException) -> bool:
    return any(cls.__name__ in _TRANSPORT for cls in type(error).__mro__)


def _cause(error: BaseException) -> str:
    """Why an attempt failed, as a short, constant description."""
    status = _status(error)
    if status is not None:
        return f"HTTP {status}"
    if isinstance(error, UnreadableAnswer):
        return str(error)
    for cause in _causes(error):
        if isinstance(cause, socket.gaierror):
            return "the host name can't be resolved"
        if isinstance(cause, ssl.SSLError):
            return f"TLS: {getattr(cause, 'verify_message', '') or cause.reason or type(cause).__name__}"
        if isinstance(cause, OSError) and cause.errno in _ERRNO:
            return _ERRNO[cause.errno]
    name, text = type(error).__name__, _shown(error)
    if name == "ClientPayloadError" or "complete message body" in text:
        return "the answer was cut off"
    if name in ("ServerDisconnectedError", "RemoteProtocolError", "ReadError", "ClientOSError"):
        return "connection closed without an answer"
    return f"{name}: {_cut(text, 120)}" if text else name


def _retry_after(error: BaseException) -> float:
    """Seconds that the provider asks to wait, in a header or in Gemini's error details; otherwise 0."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    body = getattr(error, "details", None)
    inner = body.get("error", body) if isinstance(body, dict) else {}
    details = inner.get("details") if isinstance(inner, dict) else None
    asked = [headers.get("Retry-After") or headers.get("retry-after")]
    asked += [detail.get("retryDelay") for detail in details or () if isinstance(detail, dict)]
    for value in asked:
        with contextlib.suppress(ValueError, TypeError):
            return max(0.0, float(str(value).rstrip("s")))
    return 0.0


class ModelWatch:
    """Observes the attempts of all model calls, retries failed ones within the turn's time, and reports to the gate.

    The gate ends the pause before a retry: it limits how many calls run at once.
    """

    def __init__(self, channel: Channel) -> None:
        self.retry: dict[str, Any] = {}
        self._sees_gemini = False
        self._channel = channel
        self._numbers = itertools.count(1)
        self._calls: dict[int, ModelCall] = {}
        self._slowest: float | None = None
        self._reported = 0.0
        self._random = random.Random()  # noqa: S311 - separate from the agent's generator, which may be seeded

    # -- calls

    def begin(self, turn: Turn, name: str, model: Any) -> ModelCall:
        """ADK reports that a call of an agent's model begins."""
        gemini = _is_gemini(model)
        file = getattr(sys.modules.get(type(model).__module__), "__file__", None) or ""
        call = self._make(turn, name, remote=gemini or not _is_own(file), seen=gemini and self._sees_gemini)
        _call.set(call)
        if call.remote and not call.seen:
            self._report(call, "asked")
        return call

    def _make(self, turn: Turn, name: str, *, remote: bool, seen: bool) -> ModelCall:
        call = ModelCall(next(self._numbers), turn, name, remote=remote, seen=seen)
        self._calls[call.number] = call
        return call

    def end(self, call: ModelCall, error: BaseException | None = None) -> None:
        """ADK reports that a call has ended; for a stream, at its first part."""
        if call.streaming and error is None:
            return
        if error is not None:
            call.turn.failed_call = call
        if call.remote and not call.seen and not call.ended:
            self._attempt_ended(call, error)
        self._close(call)

    def _close(self, call: ModelCall) -> None:
        call.ended = True
        call.attempt_began = None
        self._calls.pop(call.number, None)

    def forget(self, turn: Turn) -> None:
        """Closes all calls of a turn that has ended."""
        for call in [call for call in self._calls.values() if call.turn is turn]:
            self._close(call)

    def _attempt_ended(self, call: ModelCall, error: BaseException | None) -> None:
        call.attempt_began = None
        if error is None:
            self._report(call, "answered")
            return
        status = _status(error)
        if status is None and not _is_transport(error):
            self._report(call, "answered")  # the request was refused, or did not use the network
            return
        call.failures.append({"status": status, "cause": _cause(error)})
        self._report(call, "failed", **call.failures[-1])

    def _report(self, call: ModelCall, what: str, **facts: Any) -> None:
        identity = {"turn": call.turn.number, "call": call.number, "model": call.model, "address": call.address}
        self._channel.notify("model", {**identity, "what": what, **facts})

    def report_silence(self, stalled: float) -> None:
        """Reports silent attempts. Called by the loop, so that a blocked loop is not attributed to a model."""
        now = time.monotonic()
        if now - self._reported < _SILENCE_STEP:
            return
        self._reported = now
        for call in list(self._calls.values()):
            if call.remote and call.attempt_began is not None:
                silent = now - call.attempt_began - (stalled - call.turn.stalled)
                if silent >= _SILENCE_STEP:
                    self._report(call, "silent", seconds=silent)

    # -- google-genai

    def install(self) -> None:
        """Wraps the two methods of google-genai (1.x to 3.x) that send every request."""
        try:
            client = importlib.import_module("google.genai._api_client").BaseApiClient
            once, request = client._async_request_once, client._async_request
        except (ImportError, AttributeError) as error:
            sys.stderr.write(f"agent-eval: this google-genai can't be observed; it retries by itself: {error}\n")
            return

        async def observed(inner: Any, http_request: Any, stream: bool = False, **more: Any) -> Any:
            return await self._observed(once(inner, http_request, stream, **more), http_request, stream)

        async def repeated(inner: Any, http_request: Any, http_options: Any = None, stream: bool = False) -> Any:
            call = _call.get()
            if call is None or call.ended or not self._is_ours(http_options):
                return await request(inner, http_request, http_options, stream)
            types = importlib.import_module("google.genai.types")
            single = http_options.model_copy(update={"retry_options": types.HttpRetryOptions(attempts=1)})
            return await self._repeated(call, lambda: request(inner, http_request, single, stream))

        client._async_request_once, client._async_request = observed, repeated
        self._sees_gemini = True

    def _is_ours(self, http_options: Any) -> bool:
        options = getattr(http_options, "retry_options", None)
        return options is not None and bool(self.retry) and options == type(options)(**self.retry)

    async def _observed(self, attempt: Any, http_request: Any, stream: bool) -> Any:
        """One attempt of google-genai, from the agent's model or from a tool."""
        url = str(getattr(http_request, "url", ""))
        call = _call.get()
        alone = call is None or call.ended  # a tool's own call
        if call is None or alone:
            name = _MODEL_PATH.search(url)
            call = self._make(_current(), name[1] if name else "", remote=True, seen=True)
        split = urlsplit(url)
        call.address = f"{split.scheme}://{split.netloc.rpartition('@')[2]}"
        call.attempt_began = began = time.monotonic()
        self._report(call, "asked")
        try:
            response = await attempt
            _check_body(response, stream)
        except Exception as error:
            self._attempt_failed(call, error)
            raise
        else:
            self._slowest = max(self._slowest or 0.0, time.monotonic() - began)
            if stream and hasattr(response, "async_segments"):
                # Only the headers have arrived; the reader pulls the segments.
                call.streaming = True
                response.async_segments = lambda: self._segments(call, type(response).async_segments(response))
            else:
                self._attempt_ended(call, None)
            return response
        finally:
            call.attempt_began = None
            if alone and not call.streaming:
                self._close(call)

    async def _segments(self, call: ModelCall, segments: Any) -> Any:
        """The segments of a streamed response. Time counts as waiting only while the reader awaits a segment."""
        try:
            while True:
                call.attempt_began = time.monotonic()
                try:
                    segment = await segments.__anext__()
                except StopAsyncIteration:
                    break
                call.attempt_began = None
                yield segment
            self._attempt_ended(call, None)
        except GeneratorExit:  # the reader stopped early
            self._attempt_ended(call, None)
            raise
        except Exception as error:
            self._attempt_failed(call, error)
            raise
        finally:
            call.streaming = False
            self._close(call)

    def _attempt_failed(self, call: ModelCall, error: Exception) -> None:
        self._attempt_ended(call, error)
        if _is_transport(error):
            call.turn.model_errors.append(error)
            call.turn.failed_call = call

    def in_flight(self, turn: Turn) -> ModelCall | None:
        """The latest call of a turn, by a model or a tool, that waits for its provider."""
        asking = [call for call in self._calls.values() if call.turn is turn and call.attempt_began is not None]
        return max(asking, key=lambda call: call.attempt_began or 0.0, default=None)

    async def _repeated(self, call: ModelCall, request: Callable[[], Any]) -> Any:
        """Sends a request and retries it while another attempt fits into the turn's time."""
        for number in itertools.count():
            try:
                return await self._patiently(call, request())
            except Exception as error:
                if isinstance(error, SilentAttempt):
                    self._attempt_cancelled(call, error)
                wait = self._pause(number, error)
                in_time = wait + _SHORTEST_ATTEMPT < call.turn.ends_at - time.monotonic()
                if not in_time or not self._is_worth_repeating(error) or number + 1 >= self.retry.get("attempts", 1):
                    raise
            await self._wait_for_resume(call, wait)
        raise AssertionError("unreachable: the loop returns or raises")

    async def _patiently(self, call: ModelCall, request: Any) -> Any:
        """Waits for an attempt; cancels it if it is silent for much longer than the model usually takes."""
        attempt, began = asyncio.ensure_future(request), time.monotonic()
        try:
            while not attempt.done():
                limit = self._patience(call, began)  # recomputed, because other calls may get responses
                remaining = began + limit - time.monotonic()
                if remaining <= 0:
                    raise SilentAttempt(f"no answer within {limit:.0f} s")
                await asyncio.wait({attempt}, timeout=min(remaining, 1.0))
            return attempt.result()
        finally:
            if not attempt.done():
                attempt.cancel()
                await asyncio.gather(attempt, return_exceptions=True)

    def _attempt_cancelled(self, call: ModelCall, error: SilentAttempt) -> None:
        """Records an attempt that was cancelled because it got no data."""
        call.silent_attempts += 1
        call.failures.append({"status": None, "cause": str(error)})
        call.turn.model_errors.append(error)
        call.turn.failed_call = call
        self._report(call, "failed", **call.failures[-1])

    def _is_worth_repeating(self, error: BaseException) -> bool:
        status = _status(error)
        return _is_transport(error) if status is None else status in self.retry.get("http_status_codes", ())

    def _patience(self, call: ModelCall, began: float) -> float:
        """Seconds that an attempt may be silent before it is retried; infinity: until the turn times out.

        A retry is only better than waiting if the model is known to be faster and enough time remains.
        """
        if self._slowest is None:
            return float("inf")
        limit = max(_PATIENCE, _PATIENCE_FACTOR * self._slowest) * 2**call.silent_attempts
        return limit if limit < (call.turn.ends_at - began) / 2 else float("inf")

    def _pause(self, number: int, error: BaseException) -> float:
        """Seconds to wait: exponential backoff with jitter, or slightly longer than the provider asks for."""
        wait = float(self.retry.get("initial_delay", 1.0)) * float(self.retry.get("exp_base", 2.0)) ** min(number, 30)
        wait = min(wait, float(self.retry.get("max_delay", 60.0))) * self._random.uniform(0.5, 1.0)
        asked = _retry_after(error)
        return asked * self._random.uniform(1.0, 1.1) + min(0.5, wait / 2) if asked else wait

    async def _wait_for_resume(self, call: ModelCall, seconds: float) -> None:
        call.go_on.clear()
        self._channel.notify("pause", {"turn": call.turn.number, "call": call.number, "seconds": seconds})
        await call.go_on.wait()

    def resume(self, number: int, params: dict[str, Any]) -> None:
        """Handles the gate's `resume`: a pause is over."""
        call = self._calls.get(int(params["call"]))
        if call is not None:
            call.go_on.set()


def _check_body(response: Any, stream: bool) -> None:
    body = getattr(response, "response_stream", None)
    if stream or not isinstance(body, list) or not body or not isinstance(body[0], str) or not body[0].strip():
        return
    try:
        json.loads(body[0])
    except ValueError as error:
        what = "a page of HTML" if body[0].lstrip().startswith("<") else "a body that is not JSON, or was cut off"
        raise UnreadableAnswer(f"the answer was {what}") from error


# --- Asking the gate before a tool runs -------------------------------------------------------------------------

_CONTROL_TOOLS = {
    *("transfer_to_agent", "exit_loop", "set_model_response", "get_user_choice", "finish_task"),
    *("load_memory", "preload_memory", "load_artifacts"),
    *("list_skills", "search_skills", "load_skill", "load_skill_resource", "unload_skill"),
}
"""ADK's own tools that only act on the session. They always run."""
_AGENT_TOOLS = ("AgentTool", "NodeTool")
"""Classes of ADK whose tools run agents. They always run; the gate decides about the tools of those agents."""
_CONFIRMING = ("google.adk.tools.function_tool", "google.adk.tools.mcp_tool.mcp_tool")
"""The modules of google-adk 1 whose tools have `require_confirmation`."""
_SCRIPTS = (".py", ".js", ".mjs", ".cjs", ".ts", ".sh")
"""Ends the names of sources; a virtual environment's interpreter is none."""
_in_tool: contextvars.ContextVar[bool] = contextvars.ContextVar("agent_eval_in_tool", default=False)
"""Whether the body of a tool is running: what it calls is a part of it."""
_listing: contextvars.ContextVar[list[Any] | None] = contextvars.ContextVar("agent_eval_listing", default=None)
"""Gets what an MCP server answers while ADK asks for its tools."""


class ToolWatch:
    """Asks the gate before ADK runs the body of a tool: the gate answers instead, or lets the body run.

    It wraps `run_async` of every class of tools, so ADK's callbacks, guards and confirmations take place as usual.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._calls = itertools.count(1)
        self._asking: dict[int, tuple[Turn, concurrent.futures.Future[Any]]] = {}
        self._base: Any = None  # ADK's base class of tools
        self._sources: dict[str, bytes] = {}
        self._hashes: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()
        self._listings: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()

    def install(self) -> None:
        """Wraps the classes of tools that exist, and those that are defined later."""
        self._base = importlib.import_module("google.adk.tools.base_tool").BaseTool
        _for_each_class(self._base, self._wrap)
        _for_each_class(importlib.import_module("google.adk.tools.base_toolset").BaseToolset, self._wrap_toolset)

    def _wrap(self, cls: Any) -> None:
        definer = next((parent for parent in cls.__mro__ if "run_async" in vars(parent)), None)
        if definer is None or (definer is not cls and issubclass(definer, self._base)):
            return  # The class that defines it is wrapped itself, unless it is a mixin.
        body = vars(definer)["run_async"]

        @functools.wraps(body)
        async def run_async(tool: Any, args: Any, tool_context: Any, **more: Any) -> Any:
            turn = _turn.get()
            run = functools.partial(body, tool, args=args, tool_context=tool_context, **more)
            if turn is None or _in_tool.get() or _is_control(tool):
                return await run()
            if await _is_unconfirmed(tool, body, args, tool_context):
                return await run()  # which asks for the confirmation, or reports that it was refused
            return await self._decided(turn, tool, run, args, tool_context)

        cls.run_async = run_async

    async def _decided(self, turn: Turn, tool: Any, run: Callable[[], Any], args: Any, context: Any) -> Any:
        number = next(self._calls)
        params = {
            "turn": turn.number,
            "call": number,
            "call_id": context.function_call_id or "",
            "agent": _shown(getattr(context, "agent_name", "")),
            "name": tool.name,
            "args": args,
            **self._identity(tool),
        }
        decision = await self._ask(turn, number, "tool", params)
        if decision.get("do") == "answer":
            turn.replayed.add(params["call_id"])
            return _apply(decision, context)
        before, began = _effects(context), time.monotonic()
        outcome: dict[str, Any] = {}
        inside = _in_tool.set(True)
        try:
            response = await run()
            outcome = {"response": response}
            return response
        except Exception as error:
            cls = type(error)
            name = cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
            outcome = {"error": {"type": name, "message": _cut(_shown(error), _LONGEST_MESSAGE)}}
            raise
        finally:
            _in_tool.reset(inside)
            if outcome:
                outcome = _recorded(tool, outcome, before, _effects(context))
                outcome["seconds"] = round(time.monotonic() - began, 6)
                self._channel.notify("tool_ran", {"turn": turn.number, "call": number, **outcome})

    async def _ask(self, turn: Turn, number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The gate's decision."""
        answer = self._channel.request(method, params)
        self._asking[number] = (turn, answer)
        try:
            decision: dict[str, Any] = await asyncio.wrap_future(answer)  # also works in the loop of another thread
        finally:
            self._asking.pop(number, None)
        return decision

    def _wrap_toolset(self, cls: Any) -> None:
        """Wraps ADK's class of MCP servers, which ask their server for its tools."""
        if cls.__name__ != "McpToolset" or not cls.__module__.startswith("google.adk."):
            return
        with contextlib.suppress(ImportError, AttributeError):  # not this `mcp`: every listing asks the server
            _observe_listings(importlib.import_module("mcp").ClientSession)
        body = cls.get_tools

        @functools.wraps(body)
        async def get_tools(toolset: Any, readonly_context: Any = None) -> Any:
            turn = _turn.get()
            run = functools.partial(body, readonly_context=readonly_context)
            # Resources are not recorded: such a server is needed.
            if turn is None or _in_tool.get() or getattr(toolset, "_use_mcp_resources", False):
                return await run(toolset)
            return await self._listed(turn, toolset, run, _place_of(toolset, readonly_context))

        cls.get_tools = get_tools

    async def _listed(self, turn: Turn, toolset: Any, run: Callable[..., Any], place: str) -> Any:
        """The tools of an MCP server: asked for, or made of recorded declarations."""
        decision = await self._ask(turn, next(self._calls), "toolset", {"turn": turn.number, "toolset": place})
        if decision.get("do") == "answer":
            return await _tools_declared(toolset, run, decision.get("tools") or [])
        answers: list[Any] = []
        outer = _listing.set(answers)
        try:
            tools = await run(toolset)
        finally:
            _listing.reset(outer)
        if answers:
            self._listings[toolset] = [tool for answer in answers for tool in answer]
        if toolset in self._listings:  # ADK may have kept the tools of an earlier request
            listed = {"turn": turn.number, "toolset": place, "tools": self._listings[toolset]}
            self._channel.notify("toolset_listed", listed)
        return tools

    def cancel(self, turn: Turn) -> None:
        """Ends the calls of a turn that wait for the gate, also those in other threads."""
        for asking, answer in list(self._asking.values()):
            if asking is turn:
                answer.cancel()

    def _identity(self, tool: Any) -> dict[str, Any]:
        """Hashes of a tool's declaration and of the agent's own files that define it, with their names."""
        key = getattr(tool, "func", None) or tool
        with contextlib.suppress(TypeError):  # it can't be referenced weakly
            if key in self._hashes:
                return self._hashes[key]
        try:
            declaration = tool._get_declaration()
            shown = json.dumps(None if declaration is None else _dump(declaration), sort_keys=True)
        except Exception as error:  # the agent's own code
            shown = f"{type(error).__name__}: {_shown(error)}"
        files, root = sorted(set(_defining_files(tool))), _agent_places[-1]
        source = _hash([self._content(file) for file in files]) if files else ""
        hashes: dict[str, Any] = {"declaration": _hash([shown.encode()]), "source": source}
        # An installed file is somewhere else on another machine.
        if all(file.startswith(root) and _is_own(file) for file in files):
            hashes["files"] = [file[len(root) :] for file in files]
        with contextlib.suppress(TypeError):
            self._hashes[key] = hashes
        return hashes

    def _content(self, file: str) -> bytes:
        if file not in self._sources:
            try:
                self._sources[file] = Path(file).read_bytes().replace(b"\r\n", b"\n")
            except OSError:
                self._sources[file] = b""
        return self._sources[file]


def _for_each_class(base: Any, wrap: Callable[[Any], None]) -> None:
    """Calls a function with a class and its subclasses: those that exist, and those that are defined later."""

    def defined(cls: Any, **options: Any) -> None:
        super(base, cls).__init_subclass__(**options)
        wrap(cls)

    base.__init_subclass__ = classmethod(defined)  # type: ignore[arg-type]
    classes = [base]
    for cls in classes:
        wrap(cls)
        classes += [below for below in cls.__subclasses__() if below not in classes]


def _observe_listings(session: Any) -> None:
    """Copies what MCP servers answer to ADK's requests for their tools."""
    body = session.list_tools

    @functools.wraps(body)
    async def list_tools(*args: Any, **options: Any) -> Any:
        result = await body(*args, **options)
        answers = _listing.get()
        if answers is not None:
            answers.append([tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in result.tools])
        return result

    session.list_tools = list_tools


class _RecordedServer:
    """Stands for the connections to an MCP server, and for a connection: all it can do is to list tools."""

    def __init__(self, declarations: list[Any]) -> None:
        self._declarations = declarations

    async def create_session(self, **_: Any) -> _RecordedServer:
        return self

    async def list_tools(self) -> Any:
        types = importlib.import_module("mcp.types")
        return types.ListToolsResult(tools=[types.Tool.model_validate(tool) for tool in self._declarations])

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") or name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None  # ADK's bookkeeping of its connections


async def _tools_declared(toolset: Any, run: Callable[..., Any], declarations: list[Any]) -> Any:
    """The tools that ADK makes of recorded declarations, with the filters and options of the toolset.

    Only a call that runs connects to the server; a provider of headers may need credentials, too.
    """
    server = _RecordedServer(declarations)
    double = object.__new__(type(toolset))
    vars(double).update(vars(toolset), _mcp_session_manager=server, _header_provider=None)
    vars(double)["_tool_list_cache_ttl_seconds"] = None
    tools = await run(double)
    for tool in tools:
        if getattr(tool, "_mcp_session_manager", None) is server:
            tool._mcp_session_manager = toolset._mcp_session_manager
            tool._header_provider = getattr(toolset, "_header_provider", None)
    return tools


def _place_of(toolset: Any, context: Any) -> str:
    """Names a toolset: its agent, and its number among the toolsets of the agent."""
    agent = getattr(getattr(context, "_invocation_context", None), "agent", None)
    toolsets = [each for each in getattr(agent, "tools", ()) if hasattr(each, "get_tools")]
    number = next((number for number, each in enumerate(toolsets, 1) if each is toolset), 0)
    return f"{_shown(getattr(agent, 'name', ''))}/{number}"


def _hash(contents: list[bytes]) -> str:
    return hashlib.sha256(b"\0".join(contents)).hexdigest()[:16]


async def _is_unconfirmed(tool: Any, body: Any, args: Any, context: Any) -> bool:
    """Whether the body of a tool is going to ask the user before it calls its function.

    google-adk 1 does so in `run_async` of these classes, google-adk 2 before it calls `run_async`.
    """
    if body.__module__ not in _CONFIRMING or "google.adk.tools._confirmation_utils" in sys.modules:
        return False
    confirmation = getattr(context, "tool_confirmation", None)
    if confirmation is not None and confirmation.confirmed:
        return False
    required, check = getattr(tool, "_require_confirmation", False), getattr(tool, "check_require_confirmation", None)
    if required and check is not None:
        required = await check(args, context)
    return required is True  # google-adk 1.18 can't say what a function as `require_confirmation` would return


def _is_control(tool: Any) -> bool:
    if getattr(tool, "_defers_response", False):
        return True
    if any(cls.__name__ in _AGENT_TOOLS and cls.__module__.startswith("google.adk.") for cls in type(tool).__mro__):
        return True
    if tool.name not in _CONTROL_TOOLS:
        return False
    function = getattr(tool, "func", None)
    if function is not None:
        return str(getattr(function, "__module__", "")).startswith("google.adk.")
    # Also a server may call its tool `load_memory`: its class in ADK is then McpTool, not LoadMemoryTool.
    own = "".join(word.title() for word in tool.name.split("_")) + "Tool"
    return any(cls.__name__ == own and cls.__module__.startswith("google.adk.") for cls in type(tool).__mro__)


def _defining_files(tool: Any) -> Iterable[str]:
    """The agent's own files with the code of a tool: of its function, also below decorators, and of its classes."""
    definitions: list[Any] = list(type(tool).__mro__)
    functions = [getattr(tool, "func", None)]
    for function in functions:
        owner = getattr(function, "__self__", None)
        definitions += [function, *type(function).__mro__, *(type(owner).__mro__ if owner is not None else ())]
        inner = [getattr(function, "__wrapped__", None), getattr(function, "func", None), *_captured(function)]
        functions += [each for each in inner if each is not None and not any(each is seen for seen in functions)]
    for definition in definitions:
        code = getattr(definition, "__code__", None)
        module = sys.modules.get(getattr(definition, "__module__", None) or "")
        for file in (getattr(code, "co_filename", None), getattr(module, "__file__", None)):
            if file and (_is_own(file) or os.path.realpath(file) in _installed_from_repository()):
                yield file
    yield from _files_of_server(tool)


def _files_of_server(tool: Any) -> Iterable[str]:
    """The agent's own files with which its MCP server is started: `python server.py`, `python -m package.server`."""
    parameters = getattr(getattr(tool, "_mcp_session_manager", None), "_connection_params", None)
    parameters = getattr(parameters, "server_params", parameters)
    if parameters is None:  # no MCP tool
        return
    names = [str(word) for word in (getattr(parameters, "command", ""), *(getattr(parameters, "args", None) or ()))]
    modules = [name.replace(".", "/") for option, name in itertools.pairwise(names) if option == "-m"]
    names += [f"{module}{end}" for module in modules for end in (".py", "/__main__.py")]
    places = [str(getattr(parameters, "cwd", None) or Path.cwd()), *_agent_places]
    for place, name in itertools.product(places, names):
        file = os.path.normpath(Path(place, name))
        with contextlib.suppress(OSError, ValueError):  # an argument that is no path
            if file.endswith(_SCRIPTS) and _is_own(file) and Path(file).is_file():
                yield file


def _captured(function: Any) -> Iterable[Any]:
    """The functions in the closure of a function: a decorator without `functools.wraps` keeps its function there."""
    for cell in getattr(function, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # an empty cell
            if inspect.isroutine(cell.cell_contents):
                yield cell.cell_contents


@functools.cache
def _installed_from_repository() -> frozenset[str]:
    """Installed files of packages that were built from a directory of the repository, e.g. `./lib` in requirements.txt.

    Installers write the source of a package into its `direct_url.json` (PEP 610).
    """
    files: set[str] = set()
    for package in importlib.metadata.distributions():
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):  # damaged metadata
            source = urlsplit(json.loads(package.read_text("direct_url.json") or "{}").get("url", ""))
            if source.scheme == "file" and _is_own(f"{unquote(source.path).rstrip('/')}/"):
                files.update(os.path.realpath(str(package.locate_file(file))) for file in package.files or ())
    return frozenset(files)


def _effects(context: Any) -> dict[str, Any]:
    """What tools change beside their response."""
    actions = context.actions
    return {
        "state": copy.copy(actions.state_delta or {}),
        "shown": _plain(actions.state_delta or {}),
        "artifacts": dict(getattr(actions, "artifact_delta", None) or {}),
        "credentials": len(getattr(actions, "requested_auth_configs", None) or {}),
        "confirmations": len(getattr(actions, "requested_tool_confirmations", None) or {}),
        "actions": {
            name: value
            for name in ("escalate", "skip_summarization", "transfer_to_agent")
            if (value := getattr(actions, name, None)) is not None
        },
    }


def _recorded(tool: Any, outcome: dict[str, Any], before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The outcome of a body as JSON, or why it can't be replayed."""
    obstacles = {
        "it runs long": getattr(tool, "is_long_running", False),
        "it streams its response": inspect.isasyncgenfunction(getattr(tool, "func", None)),
        "it saves artifacts": before["artifacts"] != after["artifacts"],
        "it asks for credentials": before["credentials"] != after["credentials"],
        "it asks for a confirmation": before["confirmations"] != after["confirmations"],
    }
    reason = next((reason for reason, applies in obstacles.items() if applies), None)
    try:
        state = {
            str(key): _carried(value, f"the state `{key}`")
            for key, value in after["state"].items()
            if key not in before["shown"] or before["shown"][key] != after["shown"][key]
        }
        actions = {name: value for name, value in after["actions"].items() if before["actions"].get(name) != value}
        if "response" in outcome:
            response = outcome["response"]
            carried = _carried(response, "its response")
            # ADK wraps what is no dict, and a model would come back as a dict.
            outcome = {"response": {"result": carried} if hasattr(response, "model_dump") else carried}
        outcome |= {"state": state, "actions": actions}
    except (TypeError, RecursionError) as error:
        reason = reason or str(error)
    return outcome if reason is None else {"reason": reason}


def _carried(value: Any, what: str) -> Any:
    """A value as JSON. Raises TypeError if JSON can't carry it."""
    if isinstance(value, str):
        return str.__str__(value)
    if value is None or isinstance(value, (bool, int)) or (isinstance(value, float) and value - value == 0):
        return value
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {str.__str__(key): _carried(item, what) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_carried(item, what) for item in value]
    if hasattr(value, "model_dump") and not type(value).__module__.startswith("google.genai."):
        return _carried(_dump(value), what)
    raise TypeError(f"{what} contains a value of type {type(value).__name__}, which JSON can't carry")


def _apply(decision: dict[str, Any], context: Any) -> Any:
    """Returns or raises the recorded outcome, with its changes of state and actions."""
    for key, value in (decision.get("state") or {}).items():
        context.state[key] = value
    for name, value in (decision.get("actions") or {}).items():
        setattr(context.actions, name, value)
    error = decision.get("error")
    if error is None:
        return decision.get("response")
    module, _, name = str(error.get("type")).rpartition(".")
    cls: Any = getattr(sys.modules.get(module or "builtins"), name, None)
    if not (isinstance(cls, type) and issubclass(cls, Exception)):
        cls = type(name or "ToolError", (Exception,), {"__module__": module or "builtins"})
    # Without __init__, whose arguments are unknown.
    raised = cls.__new__(cls, error.get("message"))
    raised.args = (error.get("message"),)
    raise raised


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


class _Provided(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports modules whose source the gate sends, because the agent's user may be unable to read its files."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._sources = sources

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        return importlib.machinery.ModuleSpec(name, self) if name in self._sources else None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self._sources[module.__name__], f"<{module.__name__}>", "exec"), vars(module))  # noqa: S102


class CustomMetrics:
    """The functions of `custom_metrics` and their arguments as objects of the installed ADK."""

    def __init__(self, agent: str, root: str, modules: Mapping[str, str]) -> None:
        if importlib.util.find_spec(_HAS_CUSTOM_METRICS) is None:
            version = importlib.import_module("google.adk.version").__version__
            raise _Environment(f"google-adk {version} has no custom metrics; 1.24 and newer have")
        self._types = {name: getattr(importlib.import_module(module), name) for name, module in _METRIC_MODULES.items()}
        self._agent = _make_importable(agent, root)
        sys.meta_path.append(_Provided(modules))  # last: an installed module of that name is preferred
        self._functions: dict[str, Callable[..., Any]] = {}
        self._broken: dict[str, BaseException] = {}

    def function(self, name: str) -> Callable[..., Any]:
        """The function of a dotted name. A failed import is not repeated."""
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
        if own and directory is not None and _is_package(directory):
            _import_package(directory)
        module = importlib.import_module(module_name)
        function = getattr(module, attribute, None)
        if function is None:
            raise LookupError(f"the module {module_name} has no `{attribute}`")
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
            [self._read("Invocation", turn) for turn in params["actual"]],
            None if expected is None else [self._read("Invocation", turn) for turn in expected],
            None if scenario is None else self._read("ConversationScenario", scenario),
        )

    def _read(self, name: str, value: Any) -> Any:
        """Converts a value to an object of ADK. Fields that an older ADK refuses are dropped."""
        for _ in range(10):
            try:
                return self._types[name].model_validate_json(json.dumps(value))
            except ValueError as error:
                errors: list[Any] = getattr(error, "errors", list)()
                dropped = [_drop(value, detail["loc"]) for detail in errors if detail["type"] == "extra_forbidden"]
                if not any(dropped):
                    raise
        return self._types[name].model_validate_json(json.dumps(value))

    def result(self, result: Any) -> dict[str, Any]:
        """Converts a result for the gate, which validates it."""
        if not isinstance(result, self._types["EvaluationResult"]):
            return {"type": type(result).__name__, "shown": _cut(_shown(result), _SHOWN_RESULT)}
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
            {
                "rubric_id": _shown(rubric.rubric_id),
                "score": _plain(rubric.score),
                "rationale": _shown(rubric.rationale or ""),
            }
            for rubric in rubrics or ()
        ],
    }


def _drop(value: Any, location: tuple[Any, ...]) -> bool:
    """Deletes the value at a location of a pydantic error, ignoring the names of union members in it."""
    for step in location[:-1]:
        keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
        if step in keys:
            value = value[step]
    return isinstance(value, dict) and value.pop(location[-1], _drop) is not _drop


# --- Serving -----------------------------------------------------------------------------------------------------

_BEAT = 0.25
"""Seconds between two clock checks. A loop that is late by more than this was blocked."""
_COLLECTOR = (10_000, 10, 10)
"""Thresholds of the garbage collector, unless the agent sets others. A turn makes thousands of objects that end without
the collector: a case takes 22.7 ms of CPU, with Python's threshold of 700 24.8 ms (google-adk 2.13.0, Python 3.11)."""


def _make_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
    """Creates a task like asyncio, and records its turn."""
    task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, **options)
    turn = _turn.get()
    if turn is not None:
        turn.tasks[task] = None
    return task


class Host:
    """Handles the gate's requests."""

    def __init__(self, channel: Channel, template: socket.socket | None = None) -> None:
        self._channel = channel
        self._template = template
        self._loop: asyncio.AbstractEventLoop
        self._inbox: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._role = "agent"
        self._loaded = False
        self._app: Any = None
        self._metrics: CustomMetrics | None = None
        self._models = ModelWatch(channel)
        self._tools = ToolWatch(channel)
        self._latest: Any = None
        self._runners: dict[str, tuple[Any, str, str]] = {}
        self._turns: dict[int, tuple[asyncio.Task[None], Turn]] = {}
        self._main = threading.get_ident()
        self._beat_at = time.monotonic()
        self._stalled = 0.0  # seconds that the loop has been blocked in total

    def run(self) -> None:
        threading.Thread(target=self._read, daemon=True, name="agent-eval").start()
        hello = self._channel.request(
            "hello",
            {
                "role": "agent",
                "roles": ["agent", "metrics"],
                "versions": [VERSION],
                "capabilities": ["state", "app_details", "stack", "tools"],
                "python": ".".join(map(str, sys.version_info[:3])),
                "pid": os.getpid(),
            },
        )
        hello.add_done_callback(lambda answer: setattr(self, "_role", answer.result().get("role", "agent")))
        while not self._loaded:  # the loop does not run while the agent is imported, as in `adk eval`
            self._serve(self._inbox.get())
        self._loop.call_soon(self._drain)
        self._loop.set_task_factory(_make_task)
        self._beat_at = time.monotonic()
        self._beat()
        while True:
            try:
                self._loop.run_forever()
            except (SystemExit, KeyboardInterrupt):  # a task of the agent called sys.exit(); its turn reports it
                continue

    def _read(self) -> None:
        """Runs in a separate thread: even if the loop is blocked, the host answers `stack` and ends with the gate."""
        with contextlib.suppress(ValueError):
            for message in self._channel.messages():
                if message.get("method") == "stack":
                    self._channel.answer(message.get("id"), self._stack())
                    continue
                self._inbox.put(message)
                if self._loaded:
                    self._loop.call_soon_threadsafe(self._drain)
        os._exit(0)

    def _stack(self) -> dict[str, str]:
        frame = sys._current_frames().get(self._main)
        return {} if frame is None else _hang(list(traceback.extract_stack(frame)))

    def _beat(self) -> None:
        """Measures how long the loop was blocked, and reports silent model calls."""
        self._stalled = self._stalled_until_now()
        self._beat_at = time.monotonic()
        self._models.report_silence(self._stalled)
        self._loop.call_later(_BEAT, self._beat)

    def _stalled_until_now(self) -> float:
        late = time.monotonic() - self._beat_at - _BEAT
        return self._stalled + (late if late > _BEAT else 0.0)

    def _drain(self) -> None:
        while not self._inbox.empty():
            self._serve(self._inbox.get_nowait())

    def _serve(self, message: dict[str, Any]) -> None:
        if message.get("type") == "response":
            error = message.get("error")
            if error:  # no common protocol version, or a request that the gate refuses
                sys.stderr.write(f"agent-eval: {error.get('message')}\n")
                os._exit(70)
            answer = self._channel.pending.pop(message.get("id", 0), None)
            if answer is not None and answer.set_running_or_notify_cancel():
                answer.set_result(message.get("result") or {})
            return
        number, method, params = message.get("id", 0), message.get("method"), message.get("params") or {}
        handler = {
            "load": self._load,
            "send": self._send,
            "evaluate": self._evaluate,
            "cancel": self._cancel,
            "close_session": self._close_session,
            "resume": self._models.resume,
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
        # Imported modules stay: collecting garbage meanwhile would take a tenth of the time.
        gc.disable()
        try:
            self._models.retry = params.get("retry") or {}
            versions = self._import_adk()
            if self._template is not None:
                self._fork_template(self._template)
            # After the fork: a copy that is closed would end the loop's registrations with the kernel (epoll(7)).
            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
            if self._role != "metrics":
                self._models.install()
            between = time.monotonic()
            if self._role == "metrics":
                self._metrics = CustomMetrics(params["agent"], params["root"], params.get("modules") or {})
            else:
                if params.get("tools"):
                    self._tools.install()
                app = load_agent(params["agent"], params["root"], self._loop)
                if params.get("sub_agent"):
                    app = _with_root(app, params["sub_agent"])
        except _IsTemplate:
            raise
        except _Environment as error:
            data = _error_data(error.__cause__) if error.__cause__ is not None else {}
            self._channel.refuse(number, "agent-environment", str(error), data)
        except BaseException as error:
            self._channel.refuse(number, "agent-import", _cut(_shown(error), _LONGEST_MESSAGE), _error_data(error))
        else:
            agent = _root_of(app)
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
        except ImportError as error:
            if (error.name or "") in ("google", "google.adk"):
                raise _Environment(f"google-adk is not installed for {sys.executable}") from None
            module = sys.modules.get("google.adk.version")
            version = "" if module is None else f" {module.__version__}"
            raise _Environment(f"google-adk{version} can't be used: {error}") from error
        if self._role != "metrics":
            for name in _TURN_MODULES:
                with contextlib.suppress(Exception):  # The turn that needs it reports the error.
                    importlib.import_module(name)
        return {"adk": adk, "google-genai": genai}

    def _fork_template(self, connection: socket.socket) -> None:
        """Forks the template, which has google-adk and nothing of the agent. Without one, the connection is closed.

        Raises:
            _IsTemplate: In the template.
        """
        self._template = None
        with connection:
            if not _can_fork():
                return
            sys.stdout.flush()
            sys.stderr.flush()
            with warnings.catch_warnings():
                # Python 3.12 warns of other threads. There is only ours, which waits in a system call.
                warnings.simplefilter("ignore", DeprecationWarning)
                if _fork_orphan():
                    raise _IsTemplate(connection.dup())

    def _send(self, number: int, params: dict[str, Any]) -> None:
        turn = Turn(number, params.get("timeout"), self._stalled_until_now())
        task = self._loop.create_task(self._run_turn(turn, params))
        self._turns[number] = (task, turn)
        task.add_done_callback(lambda _: self._turns.pop(number, None))

    async def _run_turn(self, turn: Turn, params: dict[str, Any]) -> None:
        _turn.set(turn)
        wall, started = time.time(), time.monotonic()
        turn.began = started
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
        except BaseException as error:  # also SystemExit, which ends only this turn
            code = "agent-crash" if isinstance(error, SystemExit) else "agent-exception"
            data = _error_data(error, turn)
            self._channel.refuse(turn.number, code, data["message"], data)
        finally:
            self._models.forget(turn)

    def _evaluate(self, number: int, params: dict[str, Any]) -> None:
        turn = Turn(number)
        task = self._loop.create_task(self._call_metric(turn, params))
        self._turns[number] = (task, turn)
        task.add_done_callback(lambda _: self._turns.pop(number, None))

    async def _call_metric(self, turn: Turn, params: dict[str, Any]) -> None:
        """Calls a custom metric. Without turns it only imports the function."""
        assert self._metrics is not None
        code = "metric-import"
        try:
            # Only now: another function that blocks the loop must not use up this call's time.
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
            version = getattr(function, "version", "")
            answer = {"version": version if isinstance(version, str) else "", **self._metrics.result(result)}
            self._channel.answer(turn.number, answer)
        except asyncio.CancelledError:
            self._channel.refuse(turn.number, "cancelled", "the call was cancelled")
        except BaseException as error:  # also SystemExit, which ends only this call
            data = _error_data(error)
            self._channel.refuse(turn.number, code, data["message"], data)

    async def _session(self, params: dict[str, Any]) -> tuple[Any, str, str]:
        """The session of a turn; the first turn opens it.

        Every session has its own services, so that neither `user:` and `app:` state nor a pinned session id carries
        over from one case to another.
        """
        key = params["session"]
        if key in self._runners:
            return self._runners[key]
        from google.adk.apps.app import App
        from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService
        from google.adk.memory.in_memory_memory_service import InMemoryMemoryService
        from google.adk.runners import Runner
        from google.adk.sessions.in_memory_session_service import InMemorySessionService

        name, user_id, plugin = params["app_name"], params["user_id"], _make_plugin(self._models)
        if isinstance(self._app, App):
            app = self._app.model_copy(update={"name": name, "plugins": [*self._app.plugins, plugin]})
        else:  # not validated, as in ADK: the app name of an eval case is arbitrary
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
        """Reports at once what the turn is waiting for, and responds when the turn has ended."""
        task, turn = self._turns.get(int(params["turn"]), (None, None))
        if task is None or turn is None:
            self._channel.answer(number, {})
            return
        stalled = self._stalled_until_now() - turn.stalled
        self._channel.notify(
            "waiting", {"turn": turn.number, "stalled": stalled, **turn.waiting(task, self._models.in_flight(turn))}
        )
        task.add_done_callback(lambda _: self._channel.answer(number, {}))
        task.cancel()
        self._tools.cancel(turn)

    def _close_session(self, number: int, params: dict[str, Any]) -> None:
        # The runner itself stays open: closing it would close the tools that all sessions share.
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


# --- Forks ---------------------------------------------------------------------------------------------------------


_PR_SET_PDEATHSIG = 1


class _IsTemplate(BaseException):
    """This process is now the template."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__()
        self.connection = connection


def _can_fork() -> bool:
    """Whether a fork of this process is sound: it has no thread but the main one and the one that reads messages."""
    try:
        os.close(os.pidfd_open(os.getpid()))
        return len(list(Path("/proc/self/task").iterdir())) <= 2
    except (OSError, AttributeError):  # an old kernel, a sandbox, not Linux
        return False


def _fork_orphan() -> bool:
    """Forks a process that is no child of this one: an agent may wait for all its children. True in that process."""
    try:
        between = os.fork()
    except OSError:  # no process ids left
        return False
    if between:
        with contextlib.suppress(ChildProcessError):  # This process may have inherited that it ignores SIGCHLD.
            os.waitpid(between, 0)
        return False
    try:
        orphan = os.fork() == 0
    except OSError:
        orphan = False
    if not orphan:
        os._exit(0)
    return True


def _serve_forks(connection: socket.socket) -> int:
    """Forks a host for each request of the gate, and reports how each one ends, until the gate closes the connection.

    A host's id stays its own until the gate has seen its end.

    Returns:
        In each fork, the descriptor of its channel.
    """
    os.setsid()  # It outlives the host that it was forked from, and must not keep that host's log open.
    _tell(connection, {"template": os.getpid()})
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        os.dup2(nothing, stream)
    os.close(nothing)
    with contextlib.suppress(ImportError):  # before the forks
        importlib.import_module("ctypes")
    # Hosts must not draw the same numbers. Searched without touching other objects, whose memory would then be copied.
    gc.unfreeze()
    generators = [one for one in gc.get_referrers(random.Random) if type(one) is random.Random]  # noqa: S311
    gc.freeze()
    hosts: dict[int, int] = {}
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    while True:
        for descriptor, _ in poll.poll():
            if descriptor in hosts:
                poll.unregister(descriptor)
                os.close(descriptor)
                pid = hosts.pop(descriptor)
                _tell(connection, {"exited": pid, "code": _code_of(pid)})
                continue
            request, passed, _, _ = socket.recv_fds(connection, 64, 2)
            if not request:
                os._exit(0)
            if not passed:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(int(request), os.WNOHANG)
                continue
            try:
                pid = os.fork()
            except OSError:  # no process ids left
                _tell(connection, {"request": int(request), "pid": None})
            else:
                if pid == 0:
                    for other in hosts:
                        os.close(other)
                    for generator in generators:
                        generator.seed()
                    if "numpy.random" in sys.modules:
                        sys.modules["numpy.random"].seed()
                    return _become_host(connection, int(request), *passed)
                hosts[os.pidfd_open(pid)] = pid
                poll.register(next(reversed(hosts)), select.POLLIN)
            for descriptor in passed:
                os.close(descriptor)


def _code_of(pid: int) -> int | None:
    """The exit code of a child, which keeps its id; None if this process ignores SIGCHLD, as it may have inherited."""
    try:
        end = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:
        return None
    assert end is not None, "only with WNOHANG"
    return end.si_status if end.si_code == os.CLD_EXITED else -end.si_status


def _become_host(connection: socket.socket, request: int, channel: int, output: int) -> int:
    os.setsid()  # before the gate knows its group
    _end_with_parent()
    for stream in (1, 2):
        os.dup2(output, stream)
    os.close(output)
    _tell(connection, {"request": request, "pid": os.getpid()})
    connection.close()
    return channel


def _end_with_parent() -> None:
    """Has the kernel kill this process when the template ends, which ends with the gate. Linux only."""
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def _tell(connection: socket.socket, message: dict[str, Any]) -> None:
    try:
        connection.send(json.dumps(message).encode())
    except OSError:  # the gate is gone
        os._exit(0)


def main() -> None:
    """Serves until the gate closes the connection."""
    import faulthandler

    # The directory of this file belongs to the gate: do not import from it.
    here = Path(__file__)
    sys.path[:] = [entry for entry in sys.path if not entry or Path(entry) not in (here.parent, here.resolve().parent)]
    if str(here.parent) == "/dev/fd":  # started through an open file, which is not needed any more
        os.close(int(here.name))
    descriptor = int(sys.argv.pop())
    template = socket.socket(fileno=int(sys.argv.pop())) if len(sys.argv) > 1 else None
    faulthandler.enable()
    gc.set_threshold(*_COLLECTOR)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    while True:
        try:
            Host(Channel(descriptor), template).run()
        except _IsTemplate as become:
            connection, template = become.connection, None
        # Not in the except block: errors of the agent would show that they were raised while it was handled.
        descriptor = _serve_forks(connection)


if __name__ == "__main__":
    main()
