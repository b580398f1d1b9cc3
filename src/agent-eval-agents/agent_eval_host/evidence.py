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
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from pathlib import Path
from types import CodeType
from typing import Any
from urllib.parse import unquote, urlsplit

from agent_eval_host.frames import agent_places, is_ours, is_own
from agent_eval_host.values import plain

ABSENT = "absent"
ALL = "*"
"""The name of all packages, keys, artifacts or variables."""
_PROGRAMS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork")
_HIDDEN = {**dict.fromkeys(_PROGRAMS, "other programs"), "socket.connect": "services"}
"""Audit events of what can't be compared, and its name in docs/tools.md."""
_IMPORTS = "<frozen importlib"
_INSTALLED = "/importlib/metadata/"
_SHOWS_CODE = ("linecache.py", "tokenize.py", "inspect.py")
"""Modules of Python that open sources for tracebacks."""
_PROXIES = "/urllib/request.py"
"""The module of Python that looks for proxies among all variables."""
_PASSING = re.compile(
    r"[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}|\bat 0x[0-9a-f]+"
    r"|\b\d{4}-\d\d-\d\d[T ]\d\d:[\d:.]+(?:Z|[+-]\d\d:?\d\d)?|\b1[6-9]\d{8}(?:\d{3}|\d{9})?(?:\.\d+)?\b",
    re.IGNORECASE,
)
"""Random ids, addresses in memory, and moments."""
_AT = "\0"
"""Between the name of an artifact and its version."""
_SHORTEST_PLACE = 4
_LONGEST = 1_000_000
"""Bytes of a file that this process has written."""
_item, _names = vars(os._Environ)["__getitem__"], vars(os._Environ)["__iter__"]


class Reads:
    """What one call reads."""

    def __init__(self, context: Any = None) -> None:
        self.context = context
        self.variables = variables()
        """The environment when it began."""
        self.names: set[str] = set()
        """`file:`, `folder:`, `path:` (is there one?) and `variable:`, each with its name."""
        self.saw: dict[str, str] = {}
        """What it saw of the session: hashes by `state:`, `artifact:` and `memory:`, each with its name."""
        self.hidden: set[str] = set()
        self.written: set[str] = set()
        """Keys of the state that it has set itself."""

    def __enter__(self) -> Reads:
        self._token = reading.set(self)
        _running.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _running.remove(self)
        reading.reset(self._token)

    def ended(self) -> None:
        """Its tool is to blame for what the environment is now."""
        _written.update(name for name, _ in self.variables.items() ^ variables().items())

    def whole_state(self) -> None:
        """Its code may look at the state of the session without asking ADK for a key."""
        self.saw[f"state:{ALL}"] = steady(_state_of(self.context))


reading: contextvars.ContextVar[Reads | None] = contextvars.ContextVar("agent_eval_reading", default=None)
_running: list[Reads] = []
_read: dict[Any, set[str]] = defaultdict(set)
"""What was read while code of the repository was running, up to the module that was imported: by the code's place, of a
module by its file. `*`: everything.
"""
_written: set[str] = set()
"""Files that tools have written before they read them, and variables that they have set."""
_made: set[str] = set()
"""Those that other code has written, e.g. callbacks."""
_given: set[str] = set()
"""The variables of the environment when the agent had been loaded."""


def is_reading() -> bool:
    """Whether a call runs."""
    return bool(_running)


def code_place(code: CodeType) -> tuple[str, int, str]:
    """Where code is: that of two files may be equal."""
    return code.co_filename, code.co_firstlineno, code.co_name


def read_by(codes: Iterable[tuple[str, int, str]], files: Iterable[str]) -> set[str]:
    """What functions at these places, and modules of these files while imported, have read in this process."""
    return set().union(*(_read.get(each, ()) for each in (*codes, *files)))


def everything() -> set[str]:
    """What anything has read in this process, and the agent's own modules. Tools may have set other variables."""
    names = {each for each in list(_read[ALL]) if not each.startswith("variable:") or each[9:] in _given}
    files = [getattr(module, "__file__", None) or "" for module in list(sys.modules.values())]
    return names | {f"file:{name}" for file in filter(is_own, files) if (name := _name_of(file))}


def without_written(names: Iterable[str]) -> set[str]:
    """The names without those of files that tools have written, and `made:` for what other code has written.

    The gate can't know what is in these at another call.
    """
    kept = (each.partition(":") for each in names if each.partition(":")[2] not in _written)
    return {f"made:{name}" if kind == "file" and name in _made else f"{kind}:{name}" for kind, _, name in kept}


def loaded() -> None:
    """The agent has been loaded."""
    _given.update(variables())


def watch() -> None:
    """Begins to note."""
    # An audit hook hears what C code opens, too; it can't be removed, and not every question raises an event.
    sys.addaudithook(_hear)
    _watch_stat()
    os._Environ.__getitem__ = _variable  # type: ignore[method-assign]
    os._Environ.__iter__ = _variable_names  # type: ignore[method-assign]
    state = importlib.import_module("google.adk.sessions.state").State
    for name in ("__getitem__", "__contains__", "to_dict", "__setitem__", "update"):
        setattr(state, name, _of_state(name, vars(state)[name]))


def variables() -> dict[str, str]:
    """The environment."""
    return {name: _item(os.environ, name) for name in _names(os.environ)}


async def look(names: Iterable[str], context: Any, environment: Mapping[str, str]) -> dict[str, str]:
    """What a call would see now: the values of variables, hashes of the rest."""
    found: dict[str, str] = {}
    given = {**environment, ALL: "\0".join(sorted(environment.keys() - _written))}
    for place in names:
        kind, _, name = place.partition(":")
        if kind == "variable":
            found[place] = given.get(name, ABSENT)
        elif kind == "made":
            found[place] = steady(_text_in(name))
        elif kind == "state":
            state = _state_of(context)
            found[place] = steady(state) if name == ALL else steady(state[name]) if name in state else ABSENT
        elif kind == "artifact":
            file, _, version = name.partition(_AT)
            asked = (file, int(version)) if version.isdecimal() else (file,)
            loaded = context.list_artifacts() if file == ALL else context.load_artifact(*asked)
            if version == ALL:
                invocation = context._invocation_context
                session = {"app_name": invocation.app_name, "user_id": invocation.user_id}
                session["session_id"] = invocation.session.id
                loaded = invocation.artifact_service.list_versions(**session, filename=file)
            found[place] = steady(await loaded)
        elif kind == "memory":
            found[place] = steady(await context.search_memory(name))
    return found


def _text_in(name: str) -> str | None:
    path = Path(agent_places[-1], name)
    return path.read_bytes()[:_LONGEST].decode("utf-8", "replace") if path.is_file() else None


def notes(place_of: Callable[[dict[str, Any]], str]) -> Callable[[Any], Any]:
    """A wrapper of a method of the session's services that notes what it finds, at a place made of its arguments."""

    def wrapped(body: Any) -> Any:
        async def method(service: Any, **options: Any) -> Any:
            found = await body(service, **options)
            if (reads := reading.get()) is not None:
                reads.saw.setdefault(place_of(options), steady(found))
            return found

        return method

    return wrapped


_ARTIFACTS = "artifacts.base_artifact_service"
SERVICES = (
    (_ARTIFACTS, "load_artifact", notes(lambda asked: _place_of_artifact(**asked))),
    (_ARTIFACTS, "list_versions", notes(lambda asked: _place_of_artifact(asked["filename"], ALL))),
    (_ARTIFACTS, "list_artifact_keys", notes(lambda _: f"artifact:{ALL}")),
    ("memory.base_memory_service", "search_memory", notes(lambda asked: f"memory:{asked['query']}")),
)
"""Modules of google-adk, a method of the class that each defines, and what notes its results."""


def _place_of_artifact(filename: str, version: int | str | None = None, **_: Any) -> str:
    return f"artifact:{filename}" if version is None else f"artifact:{filename}{_AT}{version}"


def steady(value: Any) -> str:
    """A hash of a value that is the same at each start and on each machine."""
    text = json.dumps(plain(value), sort_keys=True, ensure_ascii=False)
    # What is another one at each start would make every recorded answer stale.
    text = _PASSING.sub("$", text).replace(date.today().isoformat(), "$")
    places = (tempfile.gettempdir(), sys.prefix, *(each for each in variables().values() if each.startswith("/")))
    # The longest first: one place may be in another.
    for place in sorted({agent_places[-1].rstrip("/"), *places}, key=len, reverse=True):
        text = text.replace(place, "$") if len(place) >= _SHORTEST_PLACE else text
    return ABSENT if value is None else hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def _state_of(context: Any) -> dict[str, Any]:
    state = context.state
    return {**state._value, **state._delta}


def _of_state(name: str, body: Any) -> Any:
    @functools.wraps(body)
    def method(state: Any, *args: Any, **options: Any) -> Any:
        reads = reading.get()
        if reads is not None:
            values = {**state._value, **state._delta}
            if name == "to_dict":
                own = {key: value for key, value in values.items() if key not in reads.written}
                reads.saw.setdefault(f"state:{ALL}", steady(own))
            elif name in {"__setitem__", "update"}:
                reads.written.update([args[0]] if name == "__setitem__" else (args[0] if args else options["delta"]))
            elif isinstance(key := args[0], str) and key not in reads.written:
                reads.saw.setdefault(f"state:{key}", steady(values[key]) if key in values else ABSENT)
        return body(state, *args, **options)

    return method


def _variable(environment: Any, key: Any) -> Any:
    if isinstance(key, (str, bytes)):
        _note(f"variable:{os.fsdecode(key)}", sys._getframe(1))
    return _item(environment, key)


def _variable_names(environment: Any) -> Any:
    _note(f"variable:{ALL}", sys._getframe(1))
    return _names(environment)


def _watch_stat() -> None:
    """`exists()` and the like open nothing, and what opens a name in an open directory does not say in which."""
    for name in ("stat", "lstat", "access", "readlink", "open"):
        body = getattr(os, name)
        watched = _asks(body, name)
        for supporting in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids):
            if body in supporting:
                supporting.add(watched)
        setattr(os, name, watched)


def _asks(body: Any, name: str) -> Any:
    @functools.wraps(body)
    def asks(path: Any, *args: Any, **options: Any) -> Any:
        folder = options.get("dir_fd")
        if folder is not None:
            _opens("file", Path(f"/proc/self/fd/{folder}", os.fsdecode(path)), sys._getframe(1))
        elif name != "open":  # which the audit hook hears
            _opens("path", path, sys._getframe(1))
        return body(path, *args, **options)

    return asks


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
    name = _name_of(path, resolves=kind != "path")
    code = frame.f_code.co_filename
    if name is None or (code.endswith(_SHOWS_CODE) and name.endswith(".py")):
        return
    if code.startswith(_IMPORTS) and (kind == "folder" or reading.get() is None):
        return  # Of a module that a tool imports when it is called, nothing else may know.
    if kind == "folder" and _INSTALLED in code:
        return  # It looks for an installed package in every folder of sys.path, the repository's root among them.
    if writes and not any(f"file:{name}" in reads for reads in (_read[ALL], *(each.names for each in _running))):
        (_made if reading.get() is None else _written).add(name)
    elif not writes:
        _note(f"{kind}:{name}", frame)


def _name_of(path: Any, *, resolves: bool = True) -> str | None:
    """The name of a path in the repository; None for another path. To resolve links is to ask what we watch."""
    root = agent_places[-1]
    text = os.fsdecode(path)
    full = os.path.normpath(text if text.startswith("/") else f"{os.getcwd()}/{text}")  # noqa: PTH109 - hot
    if not f"{full}/".startswith(root):
        if not _running or not resolves:
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
    reads = reading.get()
    return list(_running) if reads is None else [reads]


def _note(name: str, frame: Any) -> None:
    codes = set[Any]()
    reads = reading.get()
    while frame is not None:
        file = frame.f_code.co_filename
        if reads is None and not codes and is_ours(file):
            return  # We look at tools, and no call is to blame for it.
        if name[:9] == "variable:" and file.endswith(_PROXIES):
            return
        if is_own(file):
            is_module = frame.f_code.co_name == "<module>"
            codes.add(file if is_module else code_place(frame.f_code))
            if is_module:
                break
        frame = frame.f_back
    for each in (ALL, *codes):
        _read[each].add(name)
    # A thread has no call of its own, and may work for any that runs.
    if reads is not None or not codes or threading.current_thread() is not threading.main_thread():
        for running in _those():
            running.names.add(name)
