"""Which function or object is behind a tool, and the values that it holds: one file may define several."""

from __future__ import annotations

import functools
import gc
import hashlib
import importlib
import itertools
import json
import linecache
import re
import sys
import tempfile
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from pathlib import PurePath
from string import Template
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any

from agent_eval_host.evidence import ABSENT, ALL, code_place, variables
from agent_eval_host.frames import agent_places, is_ours
from agent_eval_host.packages import modules_of, versions
from agent_eval_host.tool_sources import (
    codes_in,
    imported_files,
    is_of_agent,
    loaded_late,
    names_in,
    own_file,
    server_of,
)

_NOT_COMPARED = "$"
"""Stands for a value that is another one on each machine or at each start, and for a secret."""
_SECRET = re.compile(
    r"(api|access|auth|encryption|private|signing)_?key|(?<!max_)(?<!min_)(?<!num_)token(?!i[sz])|secret|passw|pwd"
    r"|credential|\bauth|cookie|\bdsn\b",
    re.IGNORECASE,
)
"""Names of values that are not looked at."""
_LOGIN = re.compile(r"://[^/@\s]+:[^/@\s]+@")
_RANDOM = re.compile(r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}|\bat 0x[0-9a-f]+", re.IGNORECASE)
"""An id of `uuid`, an address in memory."""
_LINE = re.compile(r", line [\d:]+$")
_SHORTEST_VARIABLE = 5
_SHORTEST_INSIDE = 8
"""Characters. A shorter value of a variable, e.g. `1` or `agent`, is in too many texts."""
_inside: set[str] = set()
"""The variables whose values are in the value that was looked at last."""
_DAY = 86_400
_MOST = 200
"""Places of one tool."""
_MOST_ITEMS = 200
"""Of a list or dict. Of a longer one the first ones and the number of all are compared."""
_FEW_ITEMS = 50
"""Of a list or dict whose items are looked at one by one: each takes a place."""
_DEEPEST = 5
_OF_TEXT = {re.Pattern: "pattern", Template: "template"}
"""Classes of libraries whose objects are what a text says, by the attribute that has it."""
_PLAIN = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    PurePath,
    Decimal,
    timedelta,
    tuple,
    list,
    set,
    frozenset,
    dict,
)
_CALLABLE = (FunctionType, MethodType, BuiltinFunctionType, MethodDescriptorType, functools.partial)


@dataclass
class Implementation:
    """What is behind a tool."""

    places: dict[str, str] = field(default_factory=dict)
    """Names of functions and classes, hashes of values, or `$`, by place: see `ToolObjects.of`."""
    files: set[str] = field(default_factory=set)
    """The agent's own files that define all this."""
    codes: dict[tuple[str, int, str], CodeType] = field(default_factory=dict)
    """The code of the agent's functions, by place."""
    modules: set[str] = field(default_factory=set)
    """The other modules that it uses."""

    @property
    def names(self) -> frozenset[str]:
        """The names that its code uses."""
        return frozenset().union(*map(names_in, self.codes.values()))

    @property
    def may_use_all(self) -> bool:
        """Whether nothing can say what it uses."""
        return ALL in self.modules

    def code_hash(self) -> str:
        """A hash of its functions, wherever they are in their files, and of the values, packages and variables that
        they use; "" if there is nothing but the framework.
        """
        used = {place: _LINE.sub("", value) for place, value in self.places.items() if _is_shared(place)}
        packages = versions(self.modules, of_framework=False)
        if not self.codes and not packages:
            return ""
        named = {each for code in self.codes.values() for each in code.co_consts if isinstance(each, str)}
        named |= {place.partition(":")[2] for place in self.places if place.startswith("variable:")}
        # A path is another one on each machine.
        read = variables().items()
        set_ = {each: value for each, value in read if each in named and not (_SECRET.search(each) or value[:1] == "/")}
        sources = sorted(map(_source_of, self.codes.values()))
        facts = [sources, used, packages, set_, loaded_late(self.codes.values())]
        return _hash_of(json.dumps(facts, sort_keys=True))


class ToolObjects:
    """Names functions and objects, and remembers what they held when it saw them first.

    Later, a call of a tool may have changed it: a counter, a list of bookings.
    """

    def __init__(self) -> None:
        self._held: dict[int, tuple[Callable[[], Any], dict[str, Any]]] = {}
        self._shared: dict[str, Any] = {}  # what modules and classes held, by its full name

    def remember(self) -> None:
        """Looks at the tools of all agents, when they have been loaded and nothing has been called."""
        for tool in _tools_of_agents():
            self.of(tool)

    def of(self, tool: Any) -> Implementation:
        """The implementation of a tool.

        A place with a colon is the full name of what its code uses of a module or a class.
        """
        function = getattr(tool, "func", None)
        waiting = [("", tool, 0)] if function is None else [("", function, 0), ("tool", tool, 0)]
        whole = Implementation()
        found = whole.places
        seen: set[int] = set()
        for place, value, depth in waiting:
            if len(found) >= _MOST:
                break
            if type(value) is str:
                found[place] = value
                continue
            if place != (name := _name_of(value)).partition(", ")[0] or "." not in place.partition(":")[2]:
                found[place] = name  # not that a class has its own method
            if id(value) not in seen and depth < _DEEPEST:
                seen.add(id(value))
                whole.files.update(_files_of(value))
                whole.codes.update((code_place(code), code) for code in _codes_of(value))
                if place != "tool":  # ADK's class around a function
                    whole.modules.update(modules_of(value))
                for name, part in self._of(value).items():
                    dot = "." if place and name[:1] != "[" else ""
                    waiting.append((name, part, 0) if _is_shared(name) else (f"{place}{dot}{name}", part, depth + 1))
        found.update(connection_of(tool))
        return whole

    def changed(self, tool: Any) -> dict[str, str]:
        """The values behind a tool that are no longer what they were when they were seen first, as they are now."""
        held, holds = self.of(tool), ToolObjects().of(tool)
        before, now = held.places, holds.places
        # Functions of other modules, or of libraries, that were set later.
        for file, line, name in holds.codes.keys() - held.codes.keys():
            now[f"{file[len(agent_places[-1]) :]}:{name}"] = _hash_of(_source_of(holds.codes[file, line, name]))
        for name, version in versions(holds.modules - held.modules).items():
            now[f"package:{name}"] = version
        return {
            place: now.get(place, ABSENT)
            for place in before.keys() | now.keys()
            if before.get(place) != now.get(place) and _NOT_COMPARED not in {before.get(place), now.get(place)}
        }

    def _of(self, value: Any) -> dict[str, Any]:
        """The values that a function or object holds, by name: functions and own objects; others as texts."""
        known, held = self._held.get(id(value), (None, {}))
        if known is not None and known() is value:
            return held
        held = {}
        for name, part in _parts(value):
            is_code = issubclass(type(part), (type, FunctionType))
            last = name if name[:1] == "[" else re.split("[.:]", name)[-1]  # A key may have dots.
            if name == _NOT_COMPARED or (not is_code and _SECRET.search(last)):
                held[name] = _NOT_COMPARED
            else:
                _inside.clear()
                held[name] = part if _has_objects(part, 0) else _text_of(part)
                if held[name] == _NOT_COMPARED and type(part) in (dict, list, tuple) and len(part) <= _FEW_ITEMS:
                    held[name] = part  # One item may be another one elsewhere: the rest is compared, item by item.
                held |= {f"variable:{each}": _NOT_COMPARED for each in _inside}
            if _is_shared(name):  # as it was when the first function that uses it was seen
                held[name] = self._shared.setdefault(name, held[name])
        key = id(value)
        try:  # not kept alive: a toolset may make a tool with a connection for each request
            self._held[key] = (weakref.ref(value, lambda _: self._held.pop(key, None)), held)
        except TypeError:  # it can't be referenced weakly
            self._held[key] = (lambda: value, held)
        return held


def connection_of(tool: Any) -> dict[str, str]:
    """How the server of a tool or toolset is started or reached: hashes by place, or `$`."""
    return {place: _NOT_COMPARED if _SECRET.search(place) else _text_of(value) for place, value in server_of(tool)}


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
            # A property of that name would be code of the agent.
            tools = vars(each).get("tools") if agent in classes[type(each)] else [each]
            yield from tools if isinstance(tools, list) else ()


def _is_shared(name: str) -> bool:
    """Whether a part has the full name of a module's or class's value, not that of an attribute or item."""
    return ":" in name and name[:1] != "["


def _has_objects(value: Any, depth: int) -> bool:
    """Whether a value is a function or an object of the agent, or a list or dict with one in it.

    It is told by the type alone: a proxy that is asked for its class may connect to a service.
    """
    if issubclass(type(value), _CALLABLE) or is_of_agent(type(value)):
        return True
    if issubclass(type(value), type):
        return is_of_agent(value)
    if not issubclass(type(value), _PLAIN):
        return "__wrapped__" in _attributes(value)
    return depth < _DEEPEST and any(_has_objects(item, depth + 1) for _, item in _items(value))


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    """The items of a list, tuple or dict with their places."""
    kind = next((each for each in (dict, list, tuple) if issubclass(type(value), each)), None)
    if kind is dict:
        pairs = itertools.islice(list(dict.items(value)), _MOST_ITEMS)
        for key, item in pairs:
            shown = _shown(key, 0)
            place = f"['{key}']" if type(key) is str else f"[{shown}]"
            yield (shown if shown == _NOT_COMPARED else place), item
    elif kind is not None:
        yield from ((f"[{number}]", each) for number, each in enumerate(kind.__getitem__(value, slice(_MOST_ITEMS))))


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """The values that a function or an object of the agent holds, with their names. Runs no code of the agent."""
    kind = type(value)
    if issubclass(kind, functools.partial):
        yield "func", value.func
        yield from ((f"args[{number}]", each) for number, each in enumerate(value.args))
        yield from value.keywords.items()
    elif kind is MethodType:
        yield "self", value.__self__
        yield from _parts(value.__func__)
    elif kind is FunctionType:
        yield from _parts_of_function(value)
    elif issubclass(kind, type):
        yield from _members(value)
    elif is_of_agent(kind):
        yield from _parts_of_object(value)
    elif "__wrapped__" in _attributes(value):  # what functools.cache makes
        yield "__wrapped__", _attributes(value)["__wrapped__"]
    else:
        yield from _items(value)


def _parts_of_function(function: FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:  # an empty cell
            continue
    yield from ((f"defaults[{number}]", each) for number, each in enumerate(function.__defaults__ or ()))
    yield from (function.__kwdefaults__ or {}).items()
    yield from vars(function).items()
    if own_file(function):
        names, files = names_in(function.__code__), imported_files(function.__code__)
        yield from _used(function.__module__, function.__globals__, names)
        for module in _own_modules(len(sys.modules)) if files else ():
            if own_file(module) in files:
                yield from _used(module.__name__, vars(module), names)


@functools.lru_cache(maxsize=1)
def _own_modules(loaded: int) -> list[ModuleType]:
    """The agent's own modules, as long as so many are loaded."""
    return [module for module in list(sys.modules.values()) if own_file(module)]


def _parts_of_object(value: Any) -> Iterator[tuple[str, Any]]:
    kind = type(value)
    yield from _attributes(value).items()
    for cls in kind.__mro__:
        for name, member in list(vars(cls).items()):
            if isinstance(member, MemberDescriptorType):  # of `__slots__`
                try:
                    yield name, member.__get__(value)
                except AttributeError:  # not set
                    continue
    if issubclass(kind, _PLAIN):  # a NamedTuple, a class of dicts
        yield "value", _plain(value)
    yield _name_of(kind), kind


def _attributes(value: Any) -> dict[str, Any]:
    """The attributes of an object. A proxy is not asked for those of what it stands for."""
    for cls in type(value).__mro__:
        member = vars(cls).get("__dict__")
        if isinstance(member, GetSetDescriptorType) and not issubclass(type(value), type):
            return dict(member.__get__(value))
    return {}


def _members(cls: type) -> Iterator[tuple[str, Any]]:
    """The functions and values of the agent's own class and of its own base classes, with their full names."""
    made_by: type = type(cls)
    for each in filter(is_of_agent, (*cls.__mro__, *made_by.__mro__)):
        for name, member in list(vars(each).items()):
            member = getattr(member, "__func__", member) if isinstance(member, (classmethod, staticmethod)) else member
            member = member.fget if isinstance(member, property) else member
            if type(member) is FunctionType and is_ours(member.__code__.co_filename):  # how we watch `run_async`
                member = vars(member).get("__wrapped__")
            if type(member) is FunctionType or (name[:2] != "__" and _is_compared(member)):
                yield f"{_name_of(each)}.{name}", member


def _used(module: str, names_of_module: dict[str, Any], names: frozenset[str]) -> Iterator[tuple[str, Any]]:
    """The values that code uses from its module and from the agent's modules that it names, with full names."""
    for name in sorted(names & names_of_module.keys()):
        value = _content(names_of_module[name])
        if type(value) is ModuleType:
            if own_file(value) and vars(value) is not names_of_module:
                # Also what a module answers with for a name that it lacks (PEP 562).
                yield from _used(value.__name__, vars(value), names - {name} | {"__getattr__"})
        elif _is_compared(value):
            held, owners = names_of_module[name], [module]
            if issubclass(type(held), (dict, list, set)) or is_of_agent(type(held)):  # several may share it
                owners += [each.__name__ for each in _own_modules(len(sys.modules)) if vars(each).get(name) is held]
            yield f"{min(owners)}:{name}", value


def _content(value: Any) -> Any:
    """What something holds that is there to be changed, e.g. by a callback."""
    if type(value) is ContextVar:
        return value.get(None)
    if type(value) in (SimpleNamespace, MappingProxyType):
        return dict(vars(value) if type(value) is SimpleNamespace else value)
    is_copied = type(value) in (bytearray, deque)
    return (bytes(value) if type(value) is bytearray else list(value)) if is_copied else value


def _is_compared(value: Any) -> bool:
    return issubclass(type(value), (*_PLAIN, *_OF_TEXT)) or _has_objects(value, 0)


def _files_of(value: Any) -> Iterator[str]:
    """The agent's own files with the code of a function, or with the class of an object and its base classes."""
    function = getattr(value, "__func__", value) if type(value) is MethodType else value
    if type(function) is FunctionType:
        yield from filter(None, (own_file(function), own_file(sys.modules.get(function.__module__))))
        yield from imported_files(function.__code__)
    for cls in (value if issubclass(type(value), type) else type(value)).__mro__:
        if is_of_agent(cls):
            yield str(own_file(sys.modules[cls.__module__]))


def _source_of(code: CodeType) -> str:
    last = max((line or 0 for *_, line in code.co_lines()), default=0)
    return "".join(linecache.getlines(code.co_filename)[code.co_firstlineno - 1 : last])


def _codes_of(value: Any) -> Iterator[CodeType]:
    function = value.__func__ if type(value) is MethodType else value
    if type(function) is FunctionType and own_file(function):
        yield from codes_in(function.__code__)


def _plain(value: Any) -> Any:
    """An object of a subclass of a plain class as one of the plain class, or as a text. Runs no code of the agent."""
    kind = _plain_class(value)
    if kind is dict:
        return dict(dict.items(value))
    if kind in (tuple, list, set, frozenset):
        return kind(kind.__iter__(value))
    return kind.__str__(value) if kind in (str, PurePath) else kind.__repr__(value)


def _plain_class(value: Any) -> Any:
    return next(each for each in _PLAIN if issubclass(type(value), each))


def _name_of(value: Any) -> str:
    """The qualified name of a function, a class or a module; of an object, that of its class.

    Of the agent's own function also its line: a file may define several of one name.
    """
    if issubclass(type(value), ModuleType):
        return str(value.__name__)
    if (of_text := _OF_TEXT.get(type(value))) is not None:
        text = _shown(getattr(value, of_text), 0)
        return text if text == _NOT_COMPARED else _hash_of(f"{text} {getattr(value, 'flags', '')}")
    is_named = issubclass(type(value), (type, *_CALLABLE)) and not issubclass(type(value), functools.partial)
    named = value if is_named else type(value)
    name = f"{getattr(named, '__module__', '')}:{getattr(named, '__qualname__', type(value).__qualname__)}"
    function = value.__func__ if type(value) is MethodType else value
    if type(function) is FunctionType and own_file(function):
        return f"{name}, line {_line_of(function.__code__)}"
    return name


def _line_of(code: CodeType) -> str:
    """The line of a function; of a lambda, where it ends in it, too."""
    positions = code.co_positions() if code.co_name == "<lambda>" and hasattr(code, "co_positions") else ()
    return ":".join(map(str, filter(None, (code.co_firstlineno, max((end or 0 for *_, end in positions), default=0)))))


def _text_of(value: Any) -> str:
    """A hash of a plain value, `$` if it may be another one at the next start, or the name of its class."""
    shown = _shown(value, 0)
    return _hash_of(shown) if issubclass(type(value), _PLAIN) and shown != _NOT_COMPARED else shown


def _hash_of(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def _shown(value: Any, depth: int) -> str:
    """A value as a text that is the same at each start and on each machine; `$` if there is none."""
    if not issubclass(type(value), _PLAIN) or depth > _DEEPEST:
        return _name_of(value)
    kind = _plain_class(value)
    if kind in (set, frozenset):
        items = [("", _shown(item, depth + 1)) for item in list(kind.__iter__(value))]
    elif kind in (tuple, list, dict):
        items = [(place, _shown(item, depth + 1)) for place, item in _items(value) if not _SECRET.search(place)]
    elif kind in (int, float) and _is_now(value):
        return _NOT_COMPARED
    else:
        text = (kind.__str__ if kind in (str, PurePath) else kind.__repr__)(value)
        text = text.replace(agent_places[-1], "").replace(agent_places[-1].rstrip("/"), "")
        return _NOT_COMPARED if _differs_elsewhere(text) else f"{type(value).__name__}:{text}"
    if any(_NOT_COMPARED in (place, shown) for place, shown in items):
        return _NOT_COMPARED
    if kind not in (tuple, list):  # their order may be another one at each start
        items.sort()
    return f"{type(value).__name__}:{kind.__len__(value)}:{items}"


def _is_now(value: float) -> bool:
    """Whether a number is the time of this start, in seconds, milliseconds or nanoseconds."""
    return any(abs(value - time.time() * unit) < _DAY * unit for unit in (1, 1_000, 1_000_000_000))


def _differs_elsewhere(text: str) -> bool:
    """Whether a text has a value of the environment, a place of this machine, a random id or a password in it."""
    if _RANDOM.search(text) or _LOGIN.search(text):
        return True
    if any(f"{place}/" in f"{text}/" for place in (sys.prefix, tempfile.gettempdir())):
        return True
    found = {
        name
        for name, each in variables().items()
        if (len(each) >= _SHORTEST_VARIABLE and each == text) or (len(each) >= _SHORTEST_INSIDE and each in text)
    }
    _inside.update(found)
    return bool(found)
