"""Which function or object is behind a tool, and the values that it holds: one file may define several."""

from __future__ import annotations

import functools
import gc
import hashlib
import importlib
import inspect
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import PurePath
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

from agent_eval_host.frames import agent_places
from agent_eval_host.tool_sources import is_of_agent, server_of

_NOT_COMPARED = "$"
"""Stands for a value that is another one on each machine or at each start, and for a secret."""
_SECRET = re.compile(r"api_?key|token|secret|passw|credential|authori[sz]ation|cookie", re.IGNORECASE)
_RANDOM = re.compile(r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}", re.IGNORECASE)
"""An id of `uuid`."""
_SHORTEST_VARIABLE = 5
"""Characters. A shorter value of a variable, e.g. `1`, is in too many texts."""
_DAY = 86_400
_MOST = 60
"""Places of one tool."""
_DEEPEST = 5
_PLAIN = (type(None), bool, int, float, str, bytes, PurePath, tuple, list, set, frozenset, dict)


class ToolObjects:
    """Names functions and objects, and remembers what they held when the agent was loaded.

    Later, a call of a tool may have changed it: a counter, a list of bookings.
    """

    def __init__(self) -> None:
        self._held: dict[int, tuple[Any, dict[str, Any]]] = {}  # with the objects: their ids must not be used again
        self._is_loading = True

    def remember(self) -> None:
        """Looks at the tools of all agents, when they have been loaded and nothing has been called."""
        for tool in _tools_of_agents():
            self.of(tool)
        self._is_loading = False

    def of(self, tool: Any) -> dict[str, str]:
        """What is behind a tool, by place: names of functions and classes, hashes of values, or `$`."""
        function = getattr(tool, "func", None)
        waiting = [("", tool)] if function is None else [("", function), ("tool", tool)]
        found: dict[str, str] = {}
        seen: set[int] = set()
        for place, value in waiting:
            if len(found) >= _MOST:
                break
            if isinstance(value, str):
                found[place] = value
                continue
            found[place] = _name_of(value)
            if id(value) not in seen and place.count(".") < _DEEPEST:
                seen.add(id(value))
                waiting += [(f"{place}.{name}" if place else name, held) for name, held in self._of(value).items()]
        return {**found, **{place: _text_of(value) for place, value in server_of(tool)}}

    def _of(self, value: Any) -> dict[str, Any]:
        """What a function or object holds, by name: functions and own objects, of all others a text."""
        if id(value) in self._held:
            return self._held[id(value)][1]
        held: dict[str, Any] = {}
        for name, part in _parts(value):
            if inspect.isroutine(part) or isinstance(part, functools.partial) or is_of_agent(type(part)):
                held[name] = part
            elif self._is_loading or isinstance(part, type):
                held[name] = _NOT_COMPARED if _SECRET.search(name) else _text_of(part)
        if self._is_loading:
            self._held[id(value)] = (value, held)
        return held


def _tools_of_agents() -> Iterator[Any]:
    """The tools and toolsets of all agents that exist, also of those that only the agent's own code knows."""
    agent = importlib.import_module("google.adk.agents.base_agent").BaseAgent
    tool = importlib.import_module("google.adk.tools.base_tool").BaseTool
    toolset = importlib.import_module("google.adk.tools.base_toolset").BaseToolset
    objects = gc.get_objects()
    classes = {cls: cls.__mro__ for cls in set(map(type, objects))}  # isinstance() is slow, and asks proxies
    wanted = {cls for cls, bases in classes.items() if {agent, tool, toolset}.intersection(bases)}
    for each in objects:
        if type(each) in wanted:
            tools = getattr(each, "tools", None) if agent in classes[type(each)] else [each]
            yield from tools if isinstance(tools, list) else ()


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """The values that a function or an object of the agent holds, with their names. Runs no code of the agent."""
    if isinstance(value, functools.partial):
        yield "func", value.func
        yield from ((f"args[{number}]", each) for number, each in enumerate(value.args))
        yield from value.keywords.items()
    elif isinstance(value, MethodType):
        yield "self", value.__self__
        yield from _parts(value.__func__)
    elif isinstance(value, FunctionType):
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=False):
            try:
                yield name, cell.cell_contents
            except ValueError:  # an empty cell
                continue
        yield from ((f"defaults[{number}]", each) for number, each in enumerate(value.__defaults__ or ()))
        yield from (value.__kwdefaults__ or {}).items()
        yield from ((name, each) for name, each in vars(value).items() if name == "__wrapped__")
    elif is_of_agent(type(value)):
        for cls in type(value).__mro__:
            for name, member in list(vars(cls).items()):
                if isinstance(member, GetSetDescriptorType) and name == "__dict__":
                    yield from dict(member.__get__(value)).items()
                elif isinstance(member, MemberDescriptorType):  # of `__slots__`
                    try:
                        yield name, member.__get__(value)
                    except AttributeError:  # not set
                        continue


def _name_of(value: Any) -> str:
    """The qualified name of a function, a class or a module; of an object, that of its class."""
    if isinstance(value, ModuleType):
        return value.__name__
    named = value if inspect.isroutine(value) or isinstance(value, type) else type(value)
    return f"{getattr(named, '__module__', '')}:{getattr(named, '__qualname__', type(value).__qualname__)}"


def _text_of(value: Any) -> str:
    """A hash of a plain value, `$` if it may be another one at the next start, or the name of its class."""
    shown = _shown(value, 0)
    if not issubclass(type(value), _PLAIN) or shown == _NOT_COMPARED:
        return shown
    return hashlib.sha256(shown.encode("utf-8", "replace")).hexdigest()[:16]


def _shown(value: Any, depth: int) -> str:
    """A value as a text that is the same at each start and on each machine; `$` if there is none."""
    if not issubclass(type(value), _PLAIN) or depth > _DEEPEST:
        return _name_of(value)
    if isinstance(value, (tuple, list, set, frozenset, dict)):
        if isinstance(value, dict):
            pairs = [(_shown(key, depth + 1), item) for key, item in list(value.items())]
            items = [text for key, item in pairs for text in (key, _shown(item, depth + 1)) if not _SECRET.search(key)]
        else:
            items = [_shown(item, depth + 1) for item in list(value)]
        if _NOT_COMPARED in items:
            return _NOT_COMPARED
        return f"{type(value).__name__}:{sorted(items) if isinstance(value, (set, frozenset)) else items}"
    if isinstance(value, (int, float)) and _is_now(value):
        return _NOT_COMPARED
    text = str(value) if isinstance(value, (str, PurePath)) else repr(value)
    text = text.replace(agent_places[-1], "").replace(agent_places[-1].rstrip("/"), "")
    return _NOT_COMPARED if _differs_elsewhere(text) else f"{type(value).__name__}:{text}"


def _is_now(value: float) -> bool:
    """Whether a number is the time of this start, in seconds, milliseconds or nanoseconds."""
    return any(abs(value - time.time() * unit) < _DAY * unit for unit in (1, 1_000, 1_000_000_000))


def _differs_elsewhere(text: str) -> bool:
    """Whether a text has a value of the environment, a place of this machine or a random id in it."""
    elsewhere = (each for each in (sys.prefix, tempfile.gettempdir(), *os.environ.values()))
    return any(len(each) >= _SHORTEST_VARIABLE and each in text for each in elsewhere) or bool(_RANDOM.search(text))
