"""What decides about an answer besides code: files, variables of the environment, and the session.

Files and variables are noted in the whole process, with the code of the repository that reads them: a function may
keep what it has read for later calls.
"""

from __future__ import annotations

import contextvars
import functools
import hashlib
import importlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable
from datetime import date
from types import CodeType
from typing import Any
from urllib.parse import unquote, urlsplit

from agent_eval_host.frames import agent_places, is_ours, is_own
from agent_eval_host.values import plain

ABSENT = "absent"
_ALL = "*"
_PROGRAMS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork")
_HIDDEN = {
    **dict.fromkeys(_PROGRAMS, "other programs"),
    "socket.connect": "services",
}
"""Audit events of what can't be compared, and its name in docs/tools.md."""
_IMPORTS = "<frozen importlib"
_INSTALLED = "/importlib/metadata/"
_SHOWS_CODE = ("linecache.py", "tokenize.py", "inspect.py")
"""Modules of Python that open sources for tracebacks."""
_PASSING = re.compile(
    r"[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}|\bat 0x[0-9a-f]+"
    r"|\b\d{4}-\d\d-\d\d[T ]\d\d:[\d:.]+(?:Z|[+-]\d\d:?\d\d)?|\b1[6-9]\d{8}(?:\d{3}|\d{9})?(?:\.\d+)?\b",
    re.IGNORECASE,
)
"""Random ids, addresses in memory, and moments."""
_AT = "\0"
"""Between the name of an artifact and its version."""
_SHORTEST_PLACE = 4
_item = vars(os._Environ)["__getitem__"]


class Reads:
    """What one call reads."""

    def __init__(self, context: Any = None) -> None:
        self.context = context
        self.names: set[str] = set()
        """`file:`, `folder:`, `path:` (is there one?) and `variable:`, each with its name."""
        self.saw: dict[str, str] = {}
        """What it saw of the session: hashes by `state:`, `artifact:` and `memory:`, each with its name."""
        self.hidden: set[str] = set()
        self.written: set[str] = set()
        """Keys of the state that it has set itself."""

    def __enter__(self) -> Reads:
        self._token = _reading.set(self)
        _running.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _running.remove(self)
        _reading.reset(self._token)

    def whole_state(self) -> None:
        """Its code may look at the state of the session without asking ADK for a key."""
        self.saw[f"state:{_ALL}"] = steady(_state_of(self.context))


_reading: contextvars.ContextVar[Reads | None] = contextvars.ContextVar("agent_eval_reading", default=None)
_running: list[Reads] = []
_readers: dict[str, set[CodeType]] = {}
"""Code of the repository that was running when something was read, up to the module that was imported."""
_written: set[str] = set()


def is_reading() -> bool:
    """Whether a call runs."""
    return bool(_running)


def read_by(codes: Collection[CodeType], files: Collection[str]) -> set[str]:
    """What these functions, and modules of these files while they were imported, have read in this process."""
    return {
        name
        for name, readers in list(_readers.items())
        if any(code in codes or (code.co_name == "<module>" and code.co_filename in files) for code in readers)
    }


def without_written(names: Iterable[str]) -> set[str]:
    """The names without those of files that this process wrote before it read them."""
    return {name for name in names if name.partition(":")[2] not in _written}


def watch() -> None:
    """Begins to note."""
    sys.addaudithook(_hear)
    _watch_stat()
    _watch_pools()
    os._Environ.__getitem__ = _variable  # type: ignore[method-assign]
    state = importlib.import_module("google.adk.sessions.state").State
    for name in ("__getitem__", "__contains__", "to_dict", "__setitem__", "update"):
        setattr(state, name, _of_state(name, vars(state)[name]))


def variables() -> dict[str, str]:
    """The environment."""
    return {name: _item(os.environ, name) for name in list(os.environ)}


async def look(names: Iterable[str], context: Any) -> dict[str, str]:
    """What a call would see now: the values of variables, hashes of the rest."""
    found: dict[str, str] = {}
    environment = variables()
    for place in names:
        kind, _, name = place.partition(":")
        if kind == "variable":
            found[place] = environment.get(name, ABSENT)
        elif kind == "state":
            state = _state_of(context)
            found[place] = steady(state) if name == _ALL else steady(state[name]) if name in state else ABSENT
        elif kind == "artifact":
            file, _, version = name.partition(_AT)
            asked = (file, int(version)) if version else (file,)
            loaded = context.list_artifacts() if file == _ALL else context.load_artifact(*asked)
            found[place] = steady(await loaded)
        elif kind == "memory":
            found[place] = steady(await context.search_memory(name))
    return found


def notes(place_of: Callable[[dict[str, Any]], str]) -> Callable[[Any], Any]:
    """A wrapper of a method of the session's services that notes what it finds, at a place made of its arguments."""

    def wrapped(body: Any) -> Any:
        async def method(service: Any, **options: Any) -> Any:
            found = await body(service, **options)
            if (reads := _reading.get()) is not None:
                reads.saw.setdefault(place_of(options), steady(found))
            return found

        return method

    return wrapped


SERVICES = (
    ("artifacts.base_artifact_service", "load_artifact", notes(lambda asked: _place_of_artifact(**asked))),
    ("artifacts.base_artifact_service", "list_artifact_keys", notes(lambda _: f"artifact:{_ALL}")),
    ("memory.base_memory_service", "search_memory", notes(lambda asked: f"memory:{asked['query']}")),
)
"""Modules of google-adk, a method of the class that each defines, and what notes its results."""


def _place_of_artifact(filename: str, version: int | None = None, **_: Any) -> str:
    return f"artifact:{filename}" if version is None else f"artifact:{filename}{_AT}{version}"


def steady(value: Any) -> str:
    """A hash of a value that is the same at each start and on each machine."""
    text = json.dumps(plain(value), sort_keys=True, ensure_ascii=False)
    text = _PASSING.sub("$", text).replace(date.today().isoformat(), "$")
    places = (tempfile.gettempdir(), sys.prefix, *(each for each in variables().values() if each.startswith("/")))
    for place in sorted({agent_places[-1].rstrip("/"), *places}, key=len, reverse=True):
        text = text.replace(place, "$") if len(place) >= _SHORTEST_PLACE else text
    return ABSENT if value is None else hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def _state_of(context: Any) -> dict[str, Any]:
    state = context.state
    return {**state._value, **state._delta}


def _of_state(name: str, body: Any) -> Any:
    @functools.wraps(body)
    def method(state: Any, *args: Any, **options: Any) -> Any:
        reads = _reading.get()
        if reads is not None:
            values = {**state._value, **state._delta}
            if name == "to_dict":
                own = {key: value for key, value in values.items() if key not in reads.written}
                reads.saw.setdefault(f"state:{_ALL}", steady(own))
            elif name in {"__setitem__", "update"}:
                reads.written.update([args[0]] if name == "__setitem__" else (args[0] if args else options["delta"]))
            elif isinstance(key := args[0], str) and key not in reads.written:
                reads.saw.setdefault(f"state:{key}", steady(values[key]) if key in values else ABSENT)
        return body(state, *args, **options)

    return method


def _variable(environment: Any, key: Any) -> Any:
    if environment is os.environ and isinstance(key, str):
        _note(f"variable:{key}", sys._getframe(1))
    return _item(environment, key)


def _watch_stat() -> None:
    """`exists()` and the like open nothing."""
    body = os.stat

    @functools.wraps(body)
    def stat(path: Any, *args: Any, **options: Any) -> Any:
        _opens("path", path, sys._getframe(1))
        return body(path, *args, **options)

    for supporting in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
        if body in supporting:
            supporting.add(stat)
    os.stat = stat


def _watch_pools() -> None:
    """The threads of a pool work for the call that has given them something to do."""
    pool = importlib.import_module("concurrent.futures").ThreadPoolExecutor
    body = pool.submit

    def inside(reads: Reads, function: Any, *args: Any, **options: Any) -> Any:
        token = _reading.set(reads)
        try:
            return function(*args, **options)
        finally:
            _reading.reset(token)

    @functools.wraps(body)
    def submit(executor: Any, function: Any, /, *args: Any, **options: Any) -> Any:
        if (reads := _reading.get()) is not None:
            function = functools.partial(inside, reads, function)
        return body(executor, function, *args, **options)

    pool.submit = submit


def _hear(event: str, args: tuple[Any, ...]) -> None:
    """Notes what Python opens (an audit hook)."""
    if event == "open":
        flags = args[2] if isinstance(args[2], int) else 0
        _opens("file", args[0], sys._getframe(1), writes=bool(flags & (os.O_WRONLY | os.O_TRUNC)))
    elif event in {"os.listdir", "os.scandir"}:
        _opens("folder", "." if args[0] is None else args[0], sys._getframe(1))
    elif event == "sqlite3.connect":
        path = args[0]
        if isinstance(path, str) and path.startswith("file:"):
            path = unquote(urlsplit(path).path)
        _opens("file", path, sys._getframe(1))
    elif event in _HIDDEN and _running:
        for reads in _those():
            reads.hidden.add(_HIDDEN[event])


def _opens(kind: str, path: Any, frame: Any, *, writes: bool = False) -> None:
    if isinstance(path, int) or not agent_places:
        return
    name = _name_of(path)
    code = frame.f_code.co_filename
    if name is None or code.endswith(_SHOWS_CODE):
        return
    if code.startswith(_IMPORTS) and (kind == "folder" or _reading.get() is None):
        return  # Of a module that a tool imports when it is called, nothing else may know.
    if kind == "folder" and _INSTALLED in code:
        return  # It looks for an installed package in every folder of sys.path, the repository's root among them.
    if writes and not any(f"file:{name}" in reads for reads in (_readers, *(each.names for each in _running))):
        _written.add(name)
    elif not writes:
        _note(f"{kind}:{name}", frame)


def _name_of(path: Any) -> str | None:
    """The name of a path in the repository; None for another path."""
    root = agent_places[-1]
    text = os.fsdecode(path)
    full = os.path.normpath(text if text.startswith("/") else f"{os.getcwd()}/{text}")  # noqa: PTH109 - hot
    if not f"{full}/".startswith(root):
        if not _running:
            return None
        full = os.path.realpath(full)
        if not f"{full}/".startswith(root):
            places = (sys.prefix, sys.base_prefix, tempfile.gettempdir(), "/proc", "/dev", "/sys", "/etc", "/usr")
            if not full.startswith(places) and "/site-packages/" not in full:
                for reads in _those():
                    reads.hidden.add("files outside of the repository")
            return None
    name = full[len(root) :] or "."
    ours = f"/{name}/"
    if "/site-packages/" in ours or "/__pycache__/" in ours or "/.git/" in ours or name.endswith(".pyc"):
        return None
    return name


def _those() -> list[Reads]:
    """The running call; in a thread that no call has started itself, all that run."""
    reads = _reading.get()
    return list(_running) if reads is None else [reads]


def _note(name: str, frame: Any) -> None:
    codes = set[CodeType]()
    reads = _reading.get()
    while frame is not None:
        if reads is None and not codes and is_ours(frame.f_code.co_filename):
            return  # We look at tools, and no call is to blame for it.
        if is_own(frame.f_code.co_filename):
            codes.add(frame.f_code)
            if frame.f_code.co_name == "<module>":
                break
        frame = frame.f_back
    if codes:
        _readers.setdefault(name, set()).update(codes)
    if reads is not None or not codes:
        for each in _those():
            each.names.add(name)
