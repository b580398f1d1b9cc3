"""Asks the gate before ADK runs the body of a tool."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import hashlib
import importlib
import sys
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent_eval_host import evidence
from agent_eval_host.channel import Channel
from agent_eval_host.described import declaration_hash
from agent_eval_host.frames import agent_places, is_own
from agent_eval_host.mcp_listings import declared_tools, observe_listings, place_of, server_answers
from agent_eval_host.packages import versions
from agent_eval_host.tool_objects import Implementation, ToolObjects, connection_of
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
_MOST_FILES = 1_000
"""Files and variables that a call may have read."""
_SESSION = {"session", "_invocation_context", "_value", "_delta", "state_delta"}
"""Names in code that looks at the session without asking for a key of its state."""
_SIZES = {"st_size", "st_mtime", "st_mtime_ns", "getsize", "getmtime"}
"""Names in code that asks what a file is like."""


class ToolWatch:
    """Asks the gate before ADK runs the body of a tool: the gate answers instead, or lets the body run.

    It wraps `run_async` of every class of tools, so ADK's callbacks, guards and confirmations take place as usual.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._base: Any = None  # ADK's base class of tools
        self._objects = ToolObjects()
        self._sources: dict[str, bytes] = {}
        self._asking: dict[int, Any] = {}  # contexts of the calls about which the gate decides
        self._names: dict[tuple[str, str], set[str]] = {}  # what calls of a tool have read
        self._left: dict[tuple[str, str], str] = {}  # values that tools have changed, as the last call left them
        self._listings: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()

    def install(self) -> None:
        """Wraps the classes of tools that exist, and those that are defined later."""
        evidence.watch()
        self._base = importlib.import_module("google.adk.tools.base_tool").BaseTool
        wrap_method(self._base, "run_async", self._wrapped)
        _for_each_class(importlib.import_module("google.adk.tools.base_toolset").BaseToolset, self._wrap_toolset)
        for module, method, notes in evidence.SERVICES:
            cls = "".join(map(str.title, module.partition(".")[2].split("_")))
            wrap_method(getattr(importlib.import_module(f"google.adk.{module}"), cls), method, notes)

    def loaded(self) -> None:
        """The agent has been loaded."""
        evidence.loaded()
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
        behind, values = self._objects.of(tool), self._objects.changed(tool)
        params = {
            "call_id": context.function_call_id or "",
            "agent": text_of(getattr(context, "agent_name", "")),
            "name": tool.name,
            "args": args,
            "changed": {place: "$" if _shared(tool, place) in self._left else value for place, value in values.items()},
            **self._identity(tool, behind),
        }
        mixed = [] if evidence.is_reading() else self._changed_elsewhere(tool, values)
        number = self._channel.number()
        self._asking[number] = context
        try:
            _, decision = await self._channel.ask(turn, "tool", params, number)
        finally:
            del self._asking[number]
        if decision.get("do") == "answer":
            turn.replayed.add(params["call_id"])
            return replay(decision, context)
        before, began = effects(context), time.monotonic()
        outcome: dict[str, Any] = {}
        inside = in_tool.set(True)
        reads = evidence.Reads(context)
        if behind.may_use_all or behind.names & _SESSION:
            reads.whole_state()
        try:
            with reads:
                response = await run()
            outcome = {"response": response}
            return response
        except Exception as error:
            outcome = {"error": described_error(error)}
            raise
        finally:
            in_tool.reset(inside)
            if outcome:
                outcome = recorded(tool, outcome, before, effects(context))
                outcome["seconds"] = round(time.monotonic() - began, 6)
                outcome |= await self._evidence(tool, reads, values)
                if mixed:
                    outcome["reason"] = f"tools and other code change `{mixed[0]}`, which it uses"
                self._channel.notify("tool_ran", {"turn": turn.number, "call": number, **outcome})

    async def look(self, number: int, names: list[str]) -> dict[str, str]:
        """What the call about which the gate decides would see now."""
        context = self._asking.get(number)
        return {} if context is None else await evidence.look(names, context, evidence.variables())

    def _changed_elsewhere(self, tool: Any, values: dict[str, str]) -> list[str]:
        """The values behind a tool that tools have changed, and then other code."""
        left = {place: self._left.get(_shared(tool, place)) for place in values}
        return [place for place, value in left.items() if value is not None and value != values[place]]

    async def _evidence(self, tool: Any, reads: evidence.Reads, before: dict[str, str]) -> dict[str, Any]:
        """What decided about the answer of a call, besides what the gate was told when it was asked.

        It may be kept for later calls: what any call of the tool has read in this process counts.
        """
        behind, values = self._objects.of(tool), self._objects.changed(tool)
        for place in before.keys() | values.keys():
            if before.get(place) != values.get(place) or _shared(tool, place) in self._left:
                self._left[_shared(tool, place)] = values.get(place, "")
        names = self._names.setdefault((tool.name, behind.places.get("", "")), set())
        names |= reads.names | evidence.read_by(behind.codes, behind.files)
        names |= {place for place in behind.places if place.startswith("variable:")}
        names |= evidence.everything() if behind.may_use_all else set()
        if behind.names & _SIZES:
            names |= {f"file:{name[5:]}" for name in names if name.startswith("path:")}
        reads.ended()
        read = evidence.without_written(names - {f"file:{file[len(agent_places[-1]) :]}" for file in behind.files})
        seen = {name for name in read if name.startswith(("variable:", "made:"))}
        found: dict[str, Any] = {"read": sorted(read - seen)[:_MOST_FILES], "hidden": sorted(reads.hidden)}
        found["saw"] = {**reads.saw, **await evidence.look(sorted(seen)[:_MOST_FILES], None, reads.variables)}
        if len(read) > _MOST_FILES:
            found["reason"] = f"it reads more than {_MOST_FILES:,} files and variables"
        return found

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

    def _identity(self, tool: Any, behind: Implementation) -> dict[str, Any]:
        """A tool's identity: hashes of its declaration and of the agent's files that define it; its implementation."""
        files, root = sorted({*behind.files, *files_of_server(tool)}), agent_places[-1]
        source = _hash([self._content(file) for file in files]) if files else ""
        hashes: dict[str, Any] = {"declaration": declaration_hash(tool), "source": source}
        hashes |= {"implementation": behind.places, "packages": versions(behind.modules)}
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


def _shared(tool: Any, place: str) -> tuple[str, str]:
    """A place behind a tool; those of modules and classes are the same behind other tools."""
    return ("" if ":" in place else tool.name, place)


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
