"""Which files of the repository the process opens, lists or imports, from Python's audit events.

What raises no event is not on the list: whether a file exists, and what other programs and compiled code read. So the
list also says if the process can have read files in such a way.
"""

from __future__ import annotations

import contextlib
import importlib.util
import ipaddress
import json
import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

_MOST = 10_000
"""Paths of a process."""
_PROGRAM = "it starts other programs, whose files can't be seen"
_SERVER = "it runs a server, or uses one on the same machine, whose files can't be seen"
_COMPILED = "it reads files with compiled code, which can't be seen"
_PROGRAM_EVENTS = frozenset(
    {
        *("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty"),
        *("pty.spawn", "cpython.PyInterpreterState_New"),
    }
)
_PROGRAM_MODULES = frozenset({"multiprocessing.popen_spawn_posix", "multiprocessing.popen_forkserver"})
"""Imported when they start a process, which raises no event."""
_COMPILED_EVENTS = frozenset({"sqlite3.connect", "ctypes.dlopen"})
_SOCKET_EVENTS = frozenset({"socket.bind", "socket.connect"})
_MOVE_EVENTS = frozenset({"os.rename", "os.link", "os.symlink"})
_EVENTS = frozenset(
    {"open", "os.listdir", "os.scandir"} | _PROGRAM_EVENTS | _COMPILED_EVENTS | _SOCKET_EVENTS | _MOVE_EVENTS
)
_COMPILED_MODULES = frozenset({"_dbm", "_gdbm"})
"""Readers of the standard library."""
_HARMLESS = frozenset(
    {
        *("_cffi_backend", "aiohttp", "charset_normalizer", "cryptography", "frozenlist", "google", "jiter"),
        *("markupsafe", "multidict", "numpy", "orjson", "pandas", "propcache", "pydantic_core", "regex", "rpds"),
        *("tiktoken", "websockets", "wrapt", "yaml", "yarl"),
    }
)
"""Packages whose compiled code opens no file, or lets Python open it."""
_URLLIB3 = "urllib3/util/connection.py"
"""Binds a socket when it is imported, to see whether there is IPv6."""


class OpenedFiles:
    """Records the files from now on."""

    def __init__(self, top: str) -> None:
        """Starts recording.

        Args:
            top: The directory whose files are recorded: the top of the git checkout, resolved.
        """
        self._top = f"{top.rstrip('/')}/"
        prefixes = {os.path.realpath(prefix) for prefix in (sys.prefix, sys.base_prefix)}
        self._installed = tuple(f"{prefix}/" for prefix in prefixes if prefix.startswith(self._top))
        self._paths: set[str] = set()
        self._written: set[str] = set()
        self._known: set[str] = set()
        self._real: dict[str, str] = {}
        self._unseen = self._read_before() or self._installed_copy()
        self._modules = frozenset(sys.modules)
        sys.addaudithook(self._hear)

    def result(self) -> dict[str, Any]:
        """`paths`, relative to the top, those of listed directories with a slash at the end; and `unseen`: why there
        may be more, as a clause, or "".
        """
        for name, file in _files_of_modules():
            self._read(os.path.join(os.getcwd(), file))
            if name not in self._modules:
                self._note_module(name, file)
        # Not in UTF-8: the message to the gate would change the name.
        if any(not path.isprintable() for path in self._paths):
            self._unseen = self._unseen or "it reads a file with an unusual name"
        return {"paths": sorted(self._paths), "unseen": self._unseen}

    def _read_before(self) -> str:
        """Python's start has run the repository's code, e.g. a sitecustomize.py, whose files nobody has recorded."""
        own = any(
            name.partition(".")[0] not in ("__main__", "agent_eval_host")
            and self._is_of_repository(f"{self._resolve(os.path.dirname(file))}/")
            for name, file in _files_of_modules()
        )
        return "Python loads code of the repository before the agent" if own else ""

    def _installed_copy(self) -> str:
        """A package that was installed as a copy of a directory of the repository is read from the copy."""
        for entry in filter(os.path.isdir, sys.path):
            for file in Path(entry).glob("*.dist-info/direct_url.json"):
                facts = json.loads(file.read_bytes())
                url = urlsplit(facts.get("url", ""))
                path = os.path.realpath(unquote(url.path))
                is_copy = url.scheme == "file" and not facts.get("dir_info", {}).get("editable")
                if is_copy and f"{path}/".startswith(self._top):
                    return "a copy of a package of the repository is installed"
        return ""

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if event not in _EVENTS:
            return
        try:
            self._record(event, args, sys._getframe(1).f_code.co_filename)
        except Exception as error:  # It must not disturb what the agent does.
            self._unseen = self._unseen or f"it opens a file in a way that can't be seen ({type(error).__name__})"

    def _record(self, event: str, args: tuple[Any, ...], caller: str) -> None:
        if event in _PROGRAM_EVENTS:
            self._unseen = self._unseen or _PROGRAM
        elif event in _COMPILED_EVENTS:
            self._unseen = self._unseen or _COMPILED
        elif event in _SOCKET_EVENTS:
            if not caller.endswith(_URLLIB3) if event == "socket.bind" else _is_local(args[1]):
                self._unseen = self._unseen or _SERVER
        elif event in _MOVE_EVENTS:
            self._moved(event, os.fsdecode(args[0]), os.fsdecode(args[1]))
        elif not isinstance(args[0], int):  # A descriptor comes from an event before.
            path = os.path.join(os.getcwd(), os.fsdecode(args[0] or "."))
            if event == "open":
                self._opened(path, args[2])
            else:
                # Every import lists the directories of sys.path, to look for a name.
                imports = caller.startswith("<frozen importlib") or caller.endswith("importlib/metadata/__init__.py")
                self._read(path, end="" if imports else "/")

    def _opened(self, path: str, flags: int) -> None:
        if flags & os.O_CREAT and not os.path.lexists(path):
            self._written.add(path)
        elif flags & os.O_ACCMODE == os.O_WRONLY:
            pass
        elif path not in self._written and path not in self._known:
            self._known.add(path)
            real = self._read(path)
            # To open files relative to it, whose events don't name it.
            if os.path.isdir(real) and (
                self._is_of_repository(f"{real}/") or self._top.startswith(f"{real.rstrip('/')}/")
            ):
                self._unseen = self._unseen or "it opens files relative to a directory, which can't be seen"

    def _moved(self, event: str, source: str, target: str) -> None:
        self._real.clear()
        self._known.clear()
        start = os.path.dirname(target) if event == "os.symlink" else ""
        source, target = os.path.join(os.getcwd(), start, source), os.path.join(os.getcwd(), target)
        if source in self._written:
            self._written.add(target)
        else:
            self._read(source, end="/" if os.path.isdir(source) else "")

    def _read(self, path: str, *, end: str = "") -> str:
        """Adds a path, and the links on the way there. Returns the real path."""
        folder, name = os.path.split(path)
        if name.endswith(".pyc") and folder.endswith("__pycache__"):
            with contextlib.suppress(ValueError):  # not written by Python's imports
                folder, name = os.path.split(importlib.util.source_from_cache(path))
        real = self._follow(self._resolve(folder), name)
        self._add(real, end)
        return real

    def _add(self, real: str, end: str = "") -> None:
        if not self._is_of_repository(f"{real}/"):
            return
        self._paths.add((real[len(self._top) :] or ".") + end)
        if len(self._paths) > _MOST:
            self._paths.clear()
            self._unseen = self._unseen or f"it opens more than {_MOST:,} files"

    def _is_of_repository(self, real: str) -> bool:
        return real.startswith(self._top) and not real.startswith(self._installed)

    def _resolve(self, folder: str) -> str:
        """The real path of a directory. Each symbolic link on the way counts as read."""
        real = self._real.get(folder)
        if real is None:
            parent, name = os.path.split(folder)
            self._real[folder] = folder  # ends a loop of links
            real = self._real[folder] = parent if parent == folder else self._follow(self._resolve(parent), name)
        return real

    def _follow(self, parent: str, name: str) -> str:
        if name in ("", "."):
            return parent
        if name == "..":
            return os.path.dirname(parent)
        path = os.path.join(parent, name)
        try:
            target = os.readlink(path)
        except OSError:  # not a link
            return path
        self._add(path)
        return self._resolve(os.path.join(parent, target))

    def _note_module(self, name: str, file: str) -> None:
        if name in _PROGRAM_MODULES:
            self._unseen = self._unseen or _PROGRAM
        if not file.endswith(tuple(EXTENSION_SUFFIXES)):
            return
        # By the file: one module can have several names.
        package = (
            file.replace("/dist-packages/", "/site-packages/")
            .rpartition("/site-packages/")[2]
            .split("/")[0]
            .split(".")[0]
        )
        if name in _COMPILED_MODULES or ("/lib-dynload/" not in file and package not in _HARMLESS):
            self._unseen = self._unseen or f"{_COMPILED} ({name})"


def _files_of_modules() -> list[tuple[str, str]]:
    """The names of imported modules with their files. Asks no module, since some import others when they are asked."""
    files = []
    for name, module in list(sys.modules.items()):
        try:
            file = object.__getattribute__(module, "__dict__").get("__file__")
        except (AttributeError, TypeError):  # Anything can be in sys.modules.
            continue
        if isinstance(file, str):
            files.append((name, file))
    return files


def _is_local(address: Any) -> bool:
    """Whether a socket's address is on this machine."""
    if not isinstance(address, tuple):
        return True  # the path of a Unix socket
    try:
        host = ipaddress.ip_address(str(address[0]).partition("%")[0])
        return host.is_loopback or host.is_unspecified
    except ValueError:
        return str(address[0]).lower() in ("", "localhost")
