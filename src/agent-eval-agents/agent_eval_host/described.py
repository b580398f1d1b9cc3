"""Describes the agents of a tree, to compare them with those of another commit. Runs no code of the agent."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator
from types import FunctionType, MethodType, ModuleType
from typing import Any

from agent_eval_host.frames import agent_places, is_own
from agent_eval_host.tool_sources import files_of_server
from agent_eval_host.values import cut, dump, plain, text_of

_MOST_AGENTS = 100
_MOST_TOOLS = 500
"""Of all agents together."""
_LONGEST_TEXT = 20_000
"""Characters."""
_LONGEST_NAME = 500
_TEXTS = ("instruction", "global_instruction", "static_instruction")
_FUNCTION_TOOL = "google.adk.tools.function_tool"


def describe(root: Any) -> list[dict[str, Any]]:
    """The agents from the root downwards: names, texts, and where their functions are. No values of attributes."""
    agents = agents_of(root)
    variables = _variables(agents)
    left = _MOST_TOOLS
    described = []
    for agent in agents:
        tools = _tools(agent)[:left]
        left -= len(tools)
        described.append(_described(agent, tools, variables.get(id(agent))))
    return described


def declaration_hash(tool: Any) -> str:
    """A hash of what the model is shown of a tool."""
    try:
        declaration = tool._get_declaration()
        shown = json.dumps(None if declaration is None else dump(declaration), sort_keys=True)
    except Exception as error:  # the agent's own code
        shown = f"{type(error).__name__}: {text_of(error)}"
    return hashlib.sha256(shown.encode("utf-8", "replace")).hexdigest()[:16]


def agents_of(root: Any) -> list[Any]:
    """The root, its sub-agents, the agents in its workflow, and those behind its tools."""
    found, seen = [root], {id(root)}
    for agent in found:
        inside = _attributes(agent)
        wrapped = [_attributes(tool).get("agent") for tool in _list(inside.get("tools"))]
        nodes = [_attributes(node).get("agent", node) for node in _nodes(agent)]
        for other in (*_list(inside.get("sub_agents")), *wrapped, *nodes):
            is_agent = not _attributes(other).keys().isdisjoint(("sub_agents", "instruction", "graph"))
            if is_agent and id(other) not in seen and len(found) < _MOST_AGENTS:
                seen.add(id(other))
                found.append(other)
    return found


def _nodes(agent: Any) -> list[Any]:
    """The nodes of a workflow of google-adk 2."""
    return _list(_attributes(_attributes(agent).get("graph")).get("nodes"))


def _tools(agent: Any) -> list[Any]:
    """The tools of an agent; the tools and functions that are nodes of a workflow."""
    nodes = map(_attributes, _nodes(agent))
    found = [node[name] for node in nodes for name in ("tool", "_unwrapped_func") if node.get(name) is not None]
    return [*_list(_attributes(agent).get("tools")), *found]


def _attributes(value: Any) -> dict[str, Any]:
    """The attributes of an object that has some, without its properties, which would be code of the agent."""
    try:
        return dict(object.__getattribute__(value, "__dict__"))
    except (AttributeError, TypeError):
        return {}


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else []


def _described(agent: Any, tools: list[Any], variable: dict[str, Any] | None) -> dict[str, Any]:
    inside = _attributes(agent)
    functions = {
        name: _functions(value) for name, value in inside.items() if name.endswith("_callback") and value is not None
    }
    texts = []
    for name in _TEXTS:
        value = inside.get(name)
        if callable(value):
            functions[name] = _functions(value)
            texts.append(_name_of(value))
        elif value is not None and not (isinstance(value, str) and not value):
            texts.append(value if isinstance(value, str) else json.dumps(plain(value), sort_keys=True))
    return {
        "name": _short(inside.get("name")),
        "model": _model(inside.get("model")),
        "instruction": cut("\n".join(texts), _LONGEST_TEXT),
        "description": cut(text_of(inside.get("description") or ""), _LONGEST_TEXT),
        "sub_agents": [_short(_attributes(each).get("name")) for each in _list(inside.get("sub_agents"))],
        "functions": functions,
        "tools": [_tool(tool) for tool in tools],
        "code": variable or place_of(type(agent)),
    }


def _short(value: Any) -> str:
    return cut(text_of(value or ""), _LONGEST_NAME)


def _model(value: Any) -> str:
    """The name of a model; that of its class if it has none."""
    name = value if isinstance(value, str) or value is None else _attributes(value).get("model")
    return _short(name if isinstance(name, str) or value is None else _name_of(type(value)))


def _tool(tool: Any) -> dict[str, Any]:
    inside = _attributes(tool)
    wrapper, function = (_function_tool(tool), tool) if _is_function(tool) else (tool, inside.get("func"))
    # How a class of the agent declares itself is its own code.
    is_adks = function is not None and type(wrapper).__module__.startswith("google.adk.")
    name = _attributes(wrapper).get("name") or _attributes(function).get("__name__")
    code = place_of(function if function is not None else type(tool))
    if code is None and (server := next(iter(files_of_server(tool)), None)) is not None:
        code = _place(server, None, "")
    return {
        "name": _short(name if isinstance(name, str) else type(tool).__name__),
        "code": code,
        "declaration": declaration_hash(wrapper) if is_adks else "",
    }


def _function_tool(function: Any) -> Any:
    """The tool that ADK makes of a function."""
    module = sys.modules.get(_FUNCTION_TOOL)
    try:
        return None if module is None else module.FunctionTool(function)
    except Exception:  # It has no name, or no signature.
        return None


def _is_function(value: Any) -> bool:
    return isinstance(value, (FunctionType, MethodType, functools.partial))


def _functions(value: Any) -> list[dict[str, Any] | None]:
    return [place_of(each) for each in (value if isinstance(value, (list, tuple)) else [value])]


def _name_of(value: Any) -> str:
    named = _plain_function(value) if _is_function(value) else value if isinstance(value, type) else type(value)
    return f"{named.__module__}.{named.__qualname__}"


def _plain_function(value: Any) -> Any:
    """The function behind partials, bound methods, and decorators that name what they wrap."""
    for _ in range(20):
        if isinstance(value, functools.partial):
            value = value.func
        elif isinstance(value, MethodType):
            value = value.__func__
        elif (wrapped := _attributes(value).get("__wrapped__")) is not None:
            value = wrapped
        else:
            break
    return value


def place_of(value: Any) -> dict[str, Any] | None:
    """Where the agent's own function or class is, or the class of an object; None if it is not in the repository."""
    value = _plain_function(value)
    if type(value) is FunctionType:
        return _place(value.__code__.co_filename, value.__code__.co_firstlineno, value.__qualname__)
    cls = value if isinstance(value, type) else type(value)
    return _place(_file_of(sys.modules.get(cls.__module__)), None, cls.__qualname__)


def _place(file: str, line: int | None, symbol: str) -> dict[str, Any] | None:
    if not agent_places:  # a host of metrics alone
        return None
    root = agent_places[-1]
    real = os.path.realpath(file) if is_own(file) else ""
    if not real.startswith(root) or not is_own(real):
        return None
    return {"file": real[len(root) :], "line": line, "symbol": _short(symbol)}


def _variables(agents: Iterable[Any]) -> dict[int, dict[str, Any]]:
    """Where a module of the repository names an agent, by the agent's id."""
    wanted, found = {id(agent) for agent in agents}, {}
    for module in _own_modules():
        for name, value in list(vars(module).items()):
            if id(value) in wanted and id(value) not in found:
                place = _place(_file_of(module), None, name)
                if place is not None:
                    found[id(value)] = place
    return found


def _own_modules() -> Iterator[ModuleType]:
    for module in list(sys.modules.values()):
        if is_own(_file_of(module)):
            yield module


def _file_of(module: Any) -> str:
    file = vars(module).get("__file__") if issubclass(type(module), ModuleType) else None
    return file if isinstance(file, str) else ""
