"""Asks the gate before ADK runs the body of a tool."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import hashlib
import importlib
import os
import sys
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent_eval_host.channel import Channel
from agent_eval_host.described import declaration_hash
from agent_eval_host.frames import agent_places, is_own
from agent_eval_host.mcp_listings import declared_tools, observe_listings, place_of, server_answers
from agent_eval_host.tool_objects import ToolObjects, connection_of
from agent_eval_host.tool_outcomes import effects, recorded, replay
from agent_eval_host.tool_sources import files_of_server
from agent_eval_host.turns import Turn, running_turn
from agent_eval_host.values import described_error, text_of

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
in_tool: contextvars.ContextVar[bool] = contextvars.ContextVar("agent_eval_in_tool", default=False)
"""Whether the body of a tool is running: what it calls is a part of it."""


_reading: contextvars.ContextVar[set[str] | None] = contextvars.ContextVar("agent_eval_reading", default=None)
"""The files that the running body of a tool has opened for reading."""
_MOST_FILES = 100
"""Files of a call that are reported."""


def _hear(event: str, args: tuple[Any, ...]) -> None:
    """Notes what Python opens (an audit hook). It must not disturb what the agent does."""
    if event in {"open", "sqlite3.connect"} and (opened := _reading.get()) is not None:
        writes = len(args) > 2 and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_TRUNC)
        if isinstance(args[0], (str, bytes)) and not writes:
            opened.add(os.fsdecode(args[0]))


def _data(opened: set[str]) -> list[str]:
    """The names of the repository's files among those that were opened, without code."""
    root = agent_places[-1]
    paths = {os.path.realpath(path) for path in opened}
    own = (path for path in paths if path.startswith(root) and is_own(path) and not path.endswith((".py", ".pyc")))
    return sorted(path[len(root) :] for path in own)[:_MOST_FILES]


class ToolWatch:
    """Asks the gate before ADK runs the body of a tool: the gate answers instead, or lets the body run.

    It wraps `run_async` of every class of tools, so ADK's callbacks, guards and confirmations take place as usual.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._base: Any = None  # ADK's base class of tools
        self._objects = ToolObjects()
        self._sources: dict[str, bytes] = {}
        self._listings: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()

    def install(self) -> None:
        """Wraps the classes of tools that exist, and those that are defined later."""
        sys.addaudithook(_hear)
        self._base = importlib.import_module("google.adk.tools.base_tool").BaseTool
        wrap_method(self._base, "run_async", self._wrapped)
        _for_each_class(importlib.import_module("google.adk.tools.base_toolset").BaseToolset, self._wrap_toolset)

    def loaded(self) -> None:
        """The agent has been loaded."""
        self._objects.remember()

    def _wrapped(self, body: Any) -> Any:
        async def run_async(tool: Any, args: Any, tool_context: Any, **more: Any) -> Any:
            turn = running_turn.get()
            run = functools.partial(body, tool, args=args, tool_context=tool_context, **more)
            if turn is None or in_tool.get() or _is_control(tool):
                return await run()
            if await _is_unconfirmed(tool, body, args, tool_context):
                return await run()  # which asks for the confirmation, or reports that it was refused
            return await self._decided(turn, tool, run, args, tool_context)

        return run_async

    async def _decided(self, turn: Turn, tool: Any, run: Callable[[], Any], args: Any, context: Any) -> Any:
        params = {
            "call_id": context.function_call_id or "",
            "agent": text_of(getattr(context, "agent_name", "")),
            "name": tool.name,
            "args": args,
            **self._identity(tool),
        }
        number, decision = await self._channel.ask(turn, "tool", params)
        if decision.get("do") == "answer":
            turn.replayed.add(params["call_id"])
            return replay(decision, context)
        before, began = effects(context), time.monotonic()
        outcome: dict[str, Any] = {}
        opened = set[str]()
        inside, reading = in_tool.set(True), _reading.set(opened)
        try:
            response = await run()
            outcome = {"response": response}
            return response
        except Exception as error:
            outcome = {"error": described_error(error)}
            raise
        finally:
            in_tool.reset(inside)
            _reading.reset(reading)
            if outcome:
                outcome = recorded(tool, outcome, before, effects(context))
                outcome["read"] = _data(opened)
                outcome["seconds"] = round(time.monotonic() - began, 6)
                self._channel.notify("tool_ran", {"turn": turn.number, "call": number, **outcome})

    def _wrap_toolset(self, cls: Any) -> None:
        """Wraps ADK's class of MCP servers, which ask their server for its tools."""
        if cls.__name__ != "McpToolset" or not cls.__module__.startswith("google.adk."):
            return
        with contextlib.suppress(ImportError, AttributeError):  # not this `mcp`: every listing asks the server
            observe_listings(importlib.import_module("mcp").ClientSession)
        body = cls.get_tools

        @functools.wraps(body)
        async def get_tools(toolset: Any, readonly_context: Any = None) -> Any:
            turn = running_turn.get()
            run = functools.partial(body, readonly_context=readonly_context)
            # Resources are not recorded: such a server is needed.
            if turn is None or in_tool.get() or getattr(toolset, "_use_mcp_resources", False):
                return await run(toolset)
            files = [self._content(file) for file in sorted(files_of_server(toolset))]
            # A server that is started or reached otherwise, or whose own files have changed, may list other tools.
            version = _hash([repr(sorted(connection_of(toolset).items())).encode(), *files])
            return await self._listed(turn, toolset, run, f"{place_of(toolset, readonly_context)}#{version}")

        cls.get_tools = get_tools

    async def _listed(self, turn: Turn, toolset: Any, run: Callable[..., Any], place: str) -> Any:
        """The tools of an MCP server: asked for, or made of recorded declarations."""
        _, decision = await self._channel.ask(turn, "toolset", {"toolset": place})
        if decision.get("do") == "answer":
            return await declared_tools(toolset, run, decision.get("tools") or [])
        answers: list[Any] = []
        outer = server_answers.set(answers)
        try:
            tools = await run(toolset)
        finally:
            server_answers.reset(outer)
        if answers:
            self._listings[toolset] = [tool for answer in answers for tool in answer]
        if toolset in self._listings:  # ADK may have kept the tools of an earlier request
            listed = {"turn": turn.number, "toolset": place, "tools": self._listings[toolset]}
            self._channel.notify("toolset_listed", listed)
        return tools

    def _identity(self, tool: Any) -> dict[str, Any]:
        """A tool's identity: hashes of its declaration and of the agent's files that define it; its implementation."""
        implementation, own_files = self._objects.of(tool)
        files, root = sorted({*own_files, *files_of_server(tool)}), agent_places[-1]
        source = _hash([self._content(file) for file in files]) if files else ""
        hashes: dict[str, Any] = {"declaration": declaration_hash(tool), "source": source}
        hashes["implementation"] = implementation
        # An installed file is somewhere else on another machine.
        if all(file.startswith(root) and is_own(file) for file in files):
            hashes["files"] = [file[len(root) :] for file in files]
        return hashes

    def _content(self, file: str) -> bytes:
        if file not in self._sources:
            try:
                self._sources[file] = Path(file).read_bytes().replace(b"\r\n", b"\n")
            except OSError:
                self._sources[file] = b""
        return self._sources[file]


def wrap_method(base: Any, name: str, wrapped: Callable[[Any], Any]) -> None:
    """Wraps a method of a class and its subclasses: those that exist, and those that are defined later."""

    def wrap(cls: Any) -> None:
        definer = next((parent for parent in cls.__mro__ if name in vars(parent)), None)
        # The class that defines it is wrapped itself, unless it is a mixin.
        if definer is not None and (definer is cls or not issubclass(definer, base)):
            body = vars(definer)[name]
            setattr(cls, name, functools.wraps(body)(wrapped(body)))

    _for_each_class(base, wrap)


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
