"""The installed packages whose code a tool uses, with their versions."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from agent_eval_host.evidence import ABSENT
from agent_eval_host.tool_sources import imports_of, is_of_agent, names_in, own_file

ANY = "*"
"""Stands for all packages of the environment."""
_BY_NAME = frozenset({"import_module", "__import__", "entry_points", "iter_entry_points", "run_module"})
"""Names of functions that import what a text names."""
_FRAMEWORK = frozenset({"google-adk", "google-genai"})
"""What these need themselves is nearly everything that an environment has."""
_ADK = "google.adk."
_MOST_FILES = 5_000
"""Of a library that no package has."""
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")


def modules_of(value: Any) -> Iterator[str]:
    """The modules outside of the repository that the code of a function or a class uses, or that define an object."""
    function = value.__func__ if type(value) is MethodType else value
    if type(function) is FunctionType and own_file(function):
        names = names_in(function.__code__)
        yield from _used(function.__globals__, names)
        yield from imports_of(function.__code__)
        if names & _BY_NAME:
            yield ANY
        return
    cls = value if issubclass(type(value), type) else type(value)
    if not is_of_agent(cls):
        yield _module_of(value)
        return
    # Classes of ADK only call what the tool itself defines.
    yield from (base.__module__ for base in cls.__mro__ if not base.__module__.startswith(_ADK))
    for part in list(getattr(value, "__dict__", {}).values()):
        yield _module_of(part)


def _used(namespace: dict[str, Any], names: frozenset[str]) -> Iterator[str]:
    for name in sorted(names & namespace.keys()):
        value = namespace[name]
        if type(value) is ModuleType and own_file(value) and vars(value) is not namespace:
            yield from _used(vars(value), names - {name})
        else:
            yield _module_of(value)


def _module_of(value: Any) -> str:
    """The module that defines a function, a class or the class of an object; a wrapper's own one."""
    if type(value) is ModuleType:
        return value.__name__
    if type(value) is FunctionType:
        return str(value.__globals__.get("__name__"))
    named = value if issubclass(type(value), (type, BuiltinFunctionType)) else type(value)
    return str(getattr(named, "__module__", ""))


def versions(modules: Iterable[str], *, of_framework: bool = True) -> dict[str, str]:
    """Versions by the names of the packages that have these modules, with all that they need."""
    found = {name: version for module in sorted(modules) for name, version in _of_module(module).items()}
    return {name: version for name, version in found.items() if of_framework or name not in _FRAMEWORK}


@functools.cache
def _of_module(module: str) -> dict[str, str]:
    top = module.partition(".")[0]
    if top in {"", "None", "__main__", "agent_eval_host"} or top in sys.stdlib_module_names:
        return {}
    if module == ANY:
        return {ANY: _environment()}
    file = _file_of(module)
    if file is None:
        return {top: ABSENT}
    if own_file(sys.modules.get(module)) or "/" not in file:
        return {}
    package = _package_with(file)
    if package is not None:
        return dict(_needed(package))
    where = _file_of(top) or file
    return {top: _hash_of(Path(where).parent if Path(where).name.startswith("__init__.") else Path(where))}


def _file_of(module: str) -> str | None:
    """The file of a module, or of the nearest one above it that has one."""
    while module:
        file = getattr(sys.modules.get(module), "__file__", None)
        if file is None and module not in sys.modules and "." not in module:  # else it would import the package
            with contextlib.suppress(ImportError, ValueError):
                file = getattr(importlib.util.find_spec(module), "origin", None)
        if file is not None:
            return str(file)
        module = module.rpartition(".")[0]
    return None


@functools.cache
def _records() -> list[tuple[importlib.metadata.Distribution, str, str]]:
    """All packages, where they are, and the list of their files."""
    packages = importlib.metadata.distributions()
    return [(each, f"{each.locate_file('')}/", f"\n{each.read_text('RECORD') or ''}") for each in packages]


def _package_with(file: str) -> importlib.metadata.Distribution | None:
    for package, place, record in _records():
        place = place.replace("//", "/")
        if file.startswith(place) and f"\n{file[len(place) :]}," in record:
            return package
    return None


def _needed(package: importlib.metadata.Distribution) -> dict[str, str]:
    found, waiting = {}, [package]
    for each in waiting:
        name = re.sub(r"[-_.]+", "-", each.name).lower()
        if name in found:
            continue
        found[name] = _version(each)
        for requirement in () if name in _FRAMEWORK else each.requires or ():
            needed = _NAME.match(requirement)
            if needed is not None and "extra ==" not in requirement:
                with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                    waiting.append(importlib.metadata.distribution(needed[0]))
    return found


def _version(package: importlib.metadata.Distribution) -> str:
    """The version; of what comes from no index also a hash of its files, because they may change without it."""
    if package.read_text("direct_url.json") is None:
        return package.version
    lines = (package.read_text("RECORD") or "").splitlines()
    files = sorted(line for line in lines if ".dist-info/" not in line and not line.partition(",")[0].endswith(".pyc"))
    return f"{package.version} {_digest(files)}"


@functools.cache
def _environment() -> str:
    return _digest(sorted(f"{each.name} {each.version}" for each, _, _ in _records()))


def _hash_of(place: Path) -> str:
    """A hash of a file, or of the files below a directory."""
    if place.is_file():
        return _digest([place.read_text("latin-1")])
    files = []
    for folder, folders, names in os.walk(place):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        files += [Path(folder, name) for name in sorted(names) if not name.endswith(".pyc")]
    return _digest([f"{each.relative_to(place)} {each.read_text('latin-1')}" for each in files[:_MOST_FILES]])


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(lines).encode("utf-8", "surrogatepass")).hexdigest()[:16]
