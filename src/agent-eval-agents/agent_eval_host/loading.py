"""Loads the agent, as `adk eval` and `adk web` do."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.machinery
import importlib.util
import os
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from agent_eval_host.frames import agent_places
from agent_eval_host.values import text_of

_PROJECT_FILES = ("pyproject.toml", "requirements.txt", "setup.py", "setup.cfg")


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


class WithoutA2a:
    """Fails an import of ADK's client of A2A at once if a2a-sdk is not installed.

    ADK 2 tries it in each turn, which reads three files to find that out: a millisecond, a third of a turn's CPU.
    """

    def __init__(self) -> None:
        self._searched: list[tuple[str, object]] = []

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        needs_it = name == "google.adk.agents.remote_a2a_agent" and "a2a" not in sys.modules
        if needs_it and not self._is_there():
            raise ModuleNotFoundError("No module named 'a2a'", name="a2a")

    def _is_there(self) -> bool:
        """Whether a2a can be found. Directories are searched again when one has changed, as Python's finder does."""
        places = [(entry, _state_of(entry)) for entry in sys.path]
        if places != self._searched:
            if importlib.util.find_spec("a2a") is not None:
                return True
            self._searched = places
        others = (finder for finder in sys.meta_path if finder not in (self, importlib.machinery.PathFinder))
        return any(hasattr(finder, "find_spec") and finder.find_spec("a2a", None) for finder in others)


def _state_of(place: Any) -> object:
    """Changes with a directory's entries; None of what is none: sys.path may hold anything."""
    try:
        found = os.stat(place or ".")  # noqa: PTH116 - in each turn
    except (OSError, ValueError, TypeError):
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns


_STANDARD = f"{Path(os.__file__).parent}/"


def is_installed(path: str) -> bool:
    """Whether a file is of the standard library or of an installed package."""
    return path.startswith(_STANDARD) or "/site-packages/" in path or "/dist-packages/" in path


def compile_sources() -> None:
    """Makes every later import compile its file, except in the standard library and installed packages.

    Python takes bytecode for current if the file still has its size and its time in seconds. An edit that keeps both
    would not be tested.
    """
    loader = importlib.machinery.SourceFileLoader
    facts = loader.path_stats

    def path_stats(self: importlib.machinery.SourceFileLoader, path: str) -> Any:
        if is_installed(path):
            return facts(self, path)
        raise OSError  # Python then neither reads nor writes bytecode.

    loader.path_stats = path_stats  # type: ignore[method-assign]


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


def make_importable(path: str, root: str) -> Path | None:
    """Adds the agent's parent directory, the projects above it and their `src` to `sys.path`, and loads its `.env`.

    Returns:
        The agent's directory or file; None for a dotted module.
    """
    directory = Path(path)
    # The root itself can be the agent's directory.
    for project in [place for place in directory.parents if place.is_relative_to(root)] or [Path(root)]:
        if project == Path(root) or any((project / name).is_file() for name in _PROJECT_FILES):
            sys.path += [place for place in (str(project), f"{project}/src") if place not in sys.path]
    agent_places[:] = [f"{root.rstrip('/')}/"]
    if not directory.is_absolute():
        _load_dotenv(Path(root, *path.split(".")), Path(root))
        return None
    sys.path.insert(0, str(directory.parent))
    agent_places.insert(0, f"{directory}/")
    _load_dotenv(directory, Path(root))
    return directory


def is_package(directory: Path) -> bool:
    return any((directory / name).is_file() for name in ("__init__.py", "agent.py", "agent/__init__.py"))


def import_package(path: Path) -> ModuleType:
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
        what = f"the class {agent.__name__}" if isinstance(agent, type) else f"of type {type(agent).__name__}"
        code = getattr(agent, "__code__", None)
        where = _place_of(module) if code is None else f"{_file_of(module)}:{code.co_firstlineno}"
        raise TypeError(f"`{name}` of {where} is {what}, not an ADK agent")
    return agent


def _file_of(module: Any) -> str:
    return str(getattr(module, "__file__", None) or module.__name__).removeprefix(agent_places[-1])


def _place_of(module: Any) -> str:
    """The file of a module, with the last line that begins with an assignment to `root_agent`."""
    lines: list[str] = []
    with contextlib.suppress(AttributeError, OSError, TypeError, UnicodeDecodeError):
        lines = Path(module.__file__).read_text("utf-8").splitlines()
    numbers = [number for number, line in enumerate(lines, 1) if re.match(r"\s*root_agent\b[^=]*=(?!=)", line)]
    return ":".join([_file_of(module), *map(str, numbers[-1:])])


def load_agent(path: str, root: str, loop: asyncio.AbstractEventLoop) -> Any:
    """Loads the agent.

    Args:
        path: The absolute path of the agent's directory, or a dotted module.
        root: The repository's root.
        loop: The agent's event loop. It is not running yet, so a module may use `asyncio.run`.

    Returns:
        An App or a root agent.
    """
    directory = make_importable(path, root)
    if directory is None or directory.suffix == ".py" or is_package(directory):
        if directory is not None and directory.is_dir():
            module = import_package(directory)
        else:
            module = importlib.import_module(path if directory is None else directory.stem)
        agent = _pick(getattr(module, "agent", None), loop) or _pick(module, loop)
        if agent is None and hasattr(module, "__path__") and importlib.util.find_spec(f"{module.__name__}.agent"):
            agent = _pick(importlib.import_module(f"{module.__name__}.agent"), loop)
        if agent is not None:
            return agent
        for place in (getattr(module, "agent", None), module):
            if getattr(place, "root_agent", ...) is None:
                raise TypeError(f"`root_agent` of {_place_of(place)} is None, not an ADK agent")
    if directory is None:
        raise LookupError(f"the module {path} defines neither `app`, `root_agent` nor `get_agent_async`")
    config = directory / "root_agent.yaml"
    if config.is_file():
        from google.adk.agents import config_agent_utils

        return config_agent_utils.from_config(str(config))
    raise LookupError(
        f"{path} defines no agent: neither `app`, `root_agent` nor `get_agent_async` in its agent.py or __init__.py, "
        "and there is no root_agent.yaml"
    )


def root_of(app: Any) -> Any:
    """The agent of an App; an agent itself, whose own `root_agent` is the top of its tree."""
    from google.adk.agents.base_agent import BaseAgent

    return app if isinstance(app, BaseAgent) else getattr(app, "root_agent", app)


def with_root(app: Any, name: str) -> Any:
    """The App or agent with one of its sub-agents as the root. An App keeps its plugins, as in ADK's AgentEvaluator."""
    root = root_of(app)
    agent = root.find_agent(name) if hasattr(root, "find_agent") else None
    if agent is None:
        raise LookupError(f"there is no agent named {name!r} in its tree: {', '.join(_names(root))}")
    return agent if root is app else app.model_copy(update={"root_agent": agent})


def _names(agent: Any) -> list[str]:
    """The names of an agent and all agents below it, with their parents: `root`, `root/child`."""
    name = text_of(getattr(agent, "name", ""))
    below = [other for child in getattr(agent, "sub_agents", None) or [] for other in _names(child)]
    return [name, *(f"{name}/{other}" for other in below)][:100]
