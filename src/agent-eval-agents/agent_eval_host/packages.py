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

from agent_eval_host.evidence import ABSENT, ALL
from agent_eval_host.frames import agent_places, is_ours, is_own
from agent_eval_host.tool_sources import imports_of, is_of_agent, names_in, own_file

_SEARCHES = {"importlib", "importlib_metadata", "importlib_resources", "pkgutil", "pkg_resources", "runpy", "gc"}
_FINDS = {
    *("__import__", "__subclasses__", "builtins", "exec", "eval", "vars", "globals", "__dict__", "__globals__"),
    *("attrgetter", "methodcaller", "getmembers", "getattr_static", "currentframe", "_getframe", "iter_entry_points"),
}
"""Modules and names with which code finds packages, modules or values that it doesn't name: nothing else says what it
uses, so it may use everything.
"""
_AT_WORK = re.compile(r"extra\s*==\s*.(dev|tests?|testing|docs?|lint\w*|typing|mypy|types?|ci|build|bench\w*)\b")
"""Extras for those who work on a package."""
_FRAMEWORK = frozenset({"google-adk", "google-genai"})
"""What these need themselves is nearly everything that an environment has."""
_ADK = "google.adk."
_MOST_FILES = 5_000
"""Of a library that no package has."""
_MOST_ITEMS = 200
"""Of a list or dict."""
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")


def modules_of(value: Any) -> Iterator[str]:
    """The modules outside of the repository that the code of a function or a class uses, or that define an object."""
    function = value.__func__ if type(value) is MethodType else value
    if type(function) is FunctionType and own_file(function):
        names = names_in(function.__code__)
        modules = {*_used(function.__globals__, names), *imports_of(function.__code__)}
        yield from modules
        tops = {module.partition(".")[0] for module in modules}
        if names & _FINDS or tops & _SEARCHES or names >= {"sys", "modules"}:
            yield ALL
        return
    cls = value if issubclass(type(value), type) else type(value)
    if not is_of_agent(cls):
        yield from _modules_in(value)
        return
    # Classes of ADK only call what the tool itself defines.
    yield from (base.__module__ for base in cls.__mro__ if not base.__module__.startswith(_ADK))
    for part in list(getattr(value, "__dict__", {}).values()):
        yield from _modules_in(part)


def _used(namespace: dict[str, Any], names: frozenset[str]) -> Iterator[str]:
    for name in sorted(names & namespace.keys()):
        value = namespace[name]
        is_module = type(value) is ModuleType and vars(value) is not namespace
        if is_module and (own_file(value) or (getattr(value, "__file__", None) is None and hasattr(value, "__path__"))):
            yield from _used(vars(value), names - {name} | {"__getattr__"})  # of a namespace, the parts that are used
        else:
            yield from _modules_in(value)


def _modules_in(value: Any) -> Iterator[str]:
    """The modules that define a value, and what lists and dicts hold."""
    waiting = [value]
    for each in waiting:
        yield _module_of(each)
        held = each.values() if type(each) is dict else each if type(each) in (list, tuple, set) else ()
        waiting += list(held)[: max(_MOST_ITEMS - len(waiting), 0)]


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
    if module == ALL:
        return {ALL: _environment()}
    file = _file_of(module)
    if file is None:
        return {top: ABSENT}
    if own_file(sys.modules.get(module)) or is_own(file) or "/" not in file:
        return {}
    package = _package_with(file, module.replace(".", "/"))
    if package is not None:
        return _needed(package)
    if "-packages/" in file and Path(file).is_dir():
        return {top: ABSENT}
    where = Path(_file_of(top) or file)
    where = where.parent if where.name.startswith("__init__.") else where
    found = {top: _hash_of(where)}
    return found if "-packages/" in file else {**found, ALL: _environment()}  # nothing says what it needs


def _file_of(module: str) -> str | None:
    """The file of a module, of a namespace its directory; or of the nearest one above it that has one."""
    while module:
        loaded = sys.modules.get(module)
        file = getattr(loaded, "__file__", None) or next(iter(getattr(loaded, "__path__", ())), None)
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


def _package_with(file: str, name: str) -> importlib.metadata.Distribution | None:
    """The package of a file; of a directory, which is a namespace, the package of the module that is looked for."""
    for package, place, record in _records():
        place = place.replace("//", "/")
        if file.startswith(place):
            files = [f"{name}.py", f"{name}/__init__.py"] if Path(file).is_dir() else [file[len(place) :]]
            if any(f"\n{each}," in record for each in files):
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
            if needed is not None and not _AT_WORK.search(requirement):
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
    places = [os.path.abspath(place) for place in sys.path]  # noqa: PTH100 - "" is a place, too
    skipped = (sys.prefix, sys.base_prefix, *agent_places)
    others = [
        place for place in places if not (f"{place}/".startswith(skipped) or is_ours(place) or "-packages" in place)
    ]
    return _digest(
        [*sorted(f"{each.name} {_version(each)}" for each, _, _ in _records()), *map(_hash_of, map(Path, others))]
    )


def _hash_of(place: Path) -> str:
    """A hash of a file, or of the files below a directory."""
    if place.is_file():
        return _digest([place.read_text("latin-1")])
    files: list[Path] = []
    for folder, folders, names in os.walk(place):
        if len(files) > _MOST_FILES:
            break
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        files += [Path(folder, name) for name in sorted(names) if not name.endswith(".pyc")]
    return _digest([f"{each.relative_to(place)} {each.read_text('latin-1')}" for each in files[:_MOST_FILES]])


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(lines).encode("utf-8", "surrogatepass")).hexdigest()[:16]
