"""The agent's own files that define a tool, and its MCP server."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import inspect
import itertools
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from agent_eval_host.frames import agent_places, is_own

_SCRIPTS = (".py", ".js", ".mjs", ".cjs", ".ts", ".sh")
"""Ends the names of sources; a virtual environment's interpreter is none."""


def defining_files(tool: Any) -> Iterable[str]:
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
            if file and _is_of_agent(file):
                yield file
    yield from _files_of_server(tool)


def is_of_agent(cls: type) -> bool:
    """Whether the agent's own files define a class."""
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    return bool(file) and _is_of_agent(str(file))


@functools.cache
def _is_of_agent(file: str) -> bool:
    return is_own(file) or os.path.realpath(file) in installed_from_repository()


def server_of(tool: Any) -> Iterable[tuple[str, Any]]:
    """How the MCP server of a tool is started or reached, without what may be a secret: variables and headers."""
    parameters = _server_parameters(tool)
    if (command := getattr(parameters, "command", None)) is not None:
        yield "server.command", command
    yield from ((f"server.args[{number}]", each) for number, each in enumerate(getattr(parameters, "args", None) or ()))
    if (address := getattr(parameters, "url", None)) is not None:
        yield "server.url", str(address)


def _server_parameters(tool: Any) -> Any:
    parameters = getattr(getattr(tool, "_mcp_session_manager", None), "_connection_params", None)
    return getattr(parameters, "server_params", parameters)


def _files_of_server(tool: Any) -> Iterable[str]:
    """The agent's own files with which its MCP server is started: `python server.py`, `python -m package.server`."""
    parameters = _server_parameters(tool)
    if parameters is None:  # no MCP tool
        return
    names = [str(word) for word in (getattr(parameters, "command", ""), *(getattr(parameters, "args", None) or ()))]
    modules = [name.replace(".", "/") for option, name in itertools.pairwise(names) if option == "-m"]
    names += [f"{module}{end}" for module in modules for end in (".py", "/__main__.py")]
    places = [str(getattr(parameters, "cwd", None) or Path.cwd()), *agent_places]
    for place, name in itertools.product(places, names):
        file = os.path.normpath(Path(place, name))
        with contextlib.suppress(OSError, ValueError):  # an argument that is no path
            if file.endswith(_SCRIPTS) and is_own(file) and Path(file).is_file():
                yield file


def _captured(function: Any) -> Iterable[Any]:
    """The functions in the closure of a function: a decorator without `functools.wraps` keeps its function there."""
    for cell in getattr(function, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # an empty cell
            if inspect.isroutine(cell.cell_contents):
                yield cell.cell_contents


@functools.cache
def installed_from_repository() -> frozenset[str]:
    """Installed files of packages that were built from a directory of the repository, e.g. `./lib` in requirements.txt.

    Installers write the source of a package into its `direct_url.json` (PEP 610).
    """
    files: set[str] = set()
    for package in importlib.metadata.distributions():
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):  # damaged metadata
            source = urlsplit(json.loads(package.read_text("direct_url.json") or "{}").get("url", ""))
            if source.scheme == "file" and is_own(f"{unquote(source.path).rstrip('/')}/"):
                files.update(os.path.realpath(str(package.locate_file(file))) for file in package.files or ())
    return frozenset(files)
