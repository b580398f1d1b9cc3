"""The agent's own files that define a tool, and its MCP server."""

from __future__ import annotations

import contextlib
import dis
import functools
import importlib.metadata
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

from agent_eval_host.frames import agent_places, is_own

_SCRIPTS = (".py", ".js", ".mjs", ".cjs", ".ts", ".sh")
"""Ends the names of sources; a virtual environment's interpreter is none."""
_IMPORTS = dis.opmap["IMPORT_NAME"]


def own_file(value: Any) -> str | None:
    """The agent's own file with the code of a function or of a module; None for other files."""
    file = None
    if type(value) is FunctionType:
        file = value.__code__.co_filename
    elif issubclass(type(value), ModuleType):
        file = vars(value).get("__file__")
    return file if file and _is_of_agent(str(file)) else None


def is_of_agent(cls: type) -> bool:
    """Whether the agent's own files define a class."""
    return own_file(sys.modules.get(cls.__module__)) is not None


def _cached(function: Callable[[CodeType], frozenset[Any]]) -> Callable[[CodeType], frozenset[Any]]:
    """Like functools.cache. The code of two files may be equal."""
    kept = functools.cache(lambda code, _: function(code))
    return lambda code: kept(code, code.co_filename)


@_cached
def imported_files(code: CodeType) -> frozenset[str]:
    """The agent's own files that code imports when it runs, by their names: nothing is imported here."""
    files = {file for each in code.co_consts if isinstance(each, CodeType) for file in imported_files(each)}
    if _IMPORTS in code.co_code[::2]:
        folders = [folder for folder in Path(code.co_filename).parents if is_own(f"{folder}/")]
        names = [name.replace(".", "/") for name in code.co_names if name]
        for folder, name, end in itertools.product(folders, names, (".py", "/__init__.py")):
            if (file := folder / f"{name}{end}").is_file():
                files.add(str(file))
    return frozenset(files)


@functools.cache
def names_in(code: CodeType) -> frozenset[str]:
    """The names that code uses, also in the functions that it defines, and as texts for `getattr`."""
    inner = (names_in(each) for each in code.co_consts if isinstance(each, CodeType))
    texts = [each for each in code.co_consts if isinstance(each, str)] if "getattr" in code.co_names else []
    return frozenset((*code.co_names, *texts)).union(*inner)


@_cached
def codes_in(code: CodeType) -> frozenset[CodeType]:
    """Code with that of the functions that it defines."""
    return frozenset({code}).union(*(codes_in(each) for each in code.co_consts if isinstance(each, CodeType)))


@functools.cache
def imports_of(code: CodeType) -> frozenset[str]:
    """The modules that code imports when it runs, and names in them, without those that are relative to its own."""
    found = set()
    for each in codes_in(code):
        steps = [step for step in dis.get_instructions(each) if step.opname != "EXTENDED_ARG"]
        for at, step in enumerate(steps):
            if step.opcode == _IMPORTS and not steps[at - 2].argval:
                found |= {step.argval, *(f"{step.argval}.{name}" for name in steps[at - 1].argval or ())}
    return frozenset(found)


def loaded_late(codes: Iterable[CodeType]) -> dict[str, str]:
    """The contents of the agent's own files that code imports when it runs, with what these import."""
    waiting = sorted({file for code in codes for file in imported_files(code)})
    found: dict[str, str] = {}
    for file in waiting:
        if file not in found:
            found[file] = text = Path(file).read_text("utf-8", "replace")
            with contextlib.suppress(SyntaxError, ValueError):  # then importing it fails
                waiting += imported_files(compile(text, file, "exec", dont_inherit=True))
    return {file[len(agent_places[-1]) :]: text for file, text in found.items()}


@functools.cache
def _is_of_agent(file: str) -> bool:
    return is_own(file) or os.path.realpath(file) in installed_from_repository()


def server_of(tool: Any) -> Iterable[tuple[str, Any]]:
    """How the server of an MCP or OpenAPI tool is started or reached.

    A variable that the server shares with this process is another one on another machine.
    """
    parameters = _server_parameters(tool)
    for name in ("command", "cwd", "url"):
        if (value := getattr(parameters, name, None)) is not None:
            yield f"server.{name}", value if isinstance(value, str) else str(value)
    yield from ((f"server.args[{number}]", each) for number, each in enumerate(getattr(parameters, "args", None) or ()))
    for group in ("env", "headers"):
        for name, value in (getattr(parameters, group, None) or {}).items():
            if os.environ.get(name) != value:
                yield f"server.{group}.{name}", value
    if (endpoint := vars(tool).get("endpoint")) is not None and hasattr(endpoint, "base_url"):
        yield "server.url", f"{endpoint.method} {endpoint.base_url}{endpoint.path}"


def _server_parameters(tool: Any) -> Any:
    parameters = getattr(getattr(tool, "_mcp_session_manager", None), "_connection_params", None)
    return getattr(parameters, "server_params", parameters)


def files_of_server(tool: Any) -> Iterable[str]:
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
