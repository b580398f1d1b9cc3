"""Compiles those modules of an environment that have no current bytecode, while nothing else wants to compute.
`Compiling` starts this script beside an agent.

    python -I -S compile_modules.py FOLDER PYTHON UID

FOLDER has the environment in `venv`; its owner runs this script, which writes the bytecode. The environment's PYTHON
compiles what it is sent, as UID (-1: as ourselves), a user that has no other process: so neither the modules, which
anyone may have written, nor an agent gets at more than the bytecode of these modules.
"""

import os
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator
from typing import IO

_COMPILER = """\
import importlib.util, marshal, struct, sys
read, write, flush = sys.stdin.buffer.read, sys.stdout.buffer.write, sys.stdout.buffer.flush
write(importlib.util.MAGIC_NUMBER + struct.pack("<I", len(sys.implementation.cache_tag)))
write(sys.implementation.cache_tag.encode())
flush()
while sizes := read(8):
    name, source = map(read, struct.unpack("<II", sizes))
    try:
        code = marshal.dumps(compile(source, name.decode("utf-8", "surrogateescape"), "exec", dont_inherit=True))
    except Exception:
        code = b""
    write(struct.pack("<I", len(code)) + code)
    flush()
"""
_MOST_BYTES = 5_000_000
"""Of a module; larger ones are left to Python."""
_OPEN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""What built the environment may have put links and pipes into it."""


def main() -> int:
    """Compiles until all is compiled; the exit code is 0 then."""
    folder, python, uid = sys.argv[1], sys.argv[2], int(sys.argv[3])
    gate = os.getppid()
    os.umask(0o022)
    _wait_for_others()
    other = {"user": uid, "group": uid, "extra_groups": ()} if uid >= 0 else {}
    command = [python, "-I", "-S", "-W", "ignore", "-c", _COMPILER]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd="/", env={}, **pipes, **other) as process:  # type: ignore[call-overload]
        compiler = _Compiler(process.stdin, process.stdout)
        magic, size = struct.unpack("<4sI", compiler.read(8))
        tag = compiler.read(min(size, 100)).decode("ascii")
        if not tag.replace("-", "").replace("_", "").isalnum():
            return 1
        for path, name, descriptor in _modules(folder):
            if os.getppid() != gate:
                return 1
            _compile(compiler, magic, tag, path, name, descriptor)
        process.stdin.close()
    return 0


class _Compiler:
    """The process that compiles."""

    def __init__(self, sources: IO[bytes], answers: IO[bytes]) -> None:
        self._sources, self._answers = sources, answers

    def code_of(self, path: str, source: bytes) -> bytes:
        """The code of a module, as in its bytecode file; empty if it can't be compiled."""
        name = os.fsencode(path)
        self._sources.write(struct.pack("<II", len(name), len(source)) + name + source)
        self._sources.flush()
        (size,) = struct.unpack("<I", self.read(4))
        return self.read(size)

    def read(self, size: int) -> bytes:
        data = self._answers.read(size)
        if len(data) < size:
            raise EOFError("the compiler has ended")
        return data


def _wait_for_others() -> None:
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    except (AttributeError, OSError):  # macOS
        os.nice(19)


def _modules(folder: str) -> Iterator[tuple[str, str, int]]:
    """Each module's folder, name and its folder's descriptor. No link is followed."""
    for path, folders, files, descriptor in os.fwalk(folder, follow_symlinks=False):
        if path == folder:
            folders[:] = ["venv"]
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            if name.endswith(".py"):
                yield path, name, descriptor


def _compile(compiler: _Compiler, magic: bytes, tag: str, path: str, name: str, descriptor: int) -> None:
    try:
        file = os.open(name, os.O_RDONLY | _OPEN, dir_fd=descriptor)
    except OSError:  # a link
        return
    with open(file, "rb") as module:  # noqa: PTH123 - a descriptor
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
            return
        header = magic + struct.pack("<III", 0, int(status.st_mtime) & 0xFFFFFFFF, status.st_size)
        try:
            os.mkdir("__pycache__", 0o755, dir_fd=descriptor)
        except FileExistsError:
            pass
        try:
            cache = os.open("__pycache__", os.O_RDONLY | os.O_DIRECTORY | _OPEN, dir_fd=descriptor)
        except OSError:
            return
        try:
            target = f"{name[:-3]}.{tag}.pyc"
            if _begins_with(target, header, cache):
                return
            if code := compiler.code_of(os.path.join(path, name), module.read()):  # noqa: PTH118 - as Python names it
                _write(target, header + code, cache)
        finally:
            os.close(cache)


def _begins_with(name: str, header: bytes, folder: int) -> bool:
    try:
        file = os.open(name, os.O_RDONLY | _OPEN, dir_fd=folder)
    except OSError:
        return False
    with open(file, "rb") as bytecode:  # noqa: PTH123 - a descriptor
        return stat.S_ISREG(os.fstat(file).st_mode) and bytecode.read(len(header)) == header


def _write(name: str, data: bytes, folder: int) -> None:
    partial = f"{name}.{os.getpid()}"
    file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN, 0o644, dir_fd=folder)
    with open(file, "wb") as bytecode:  # noqa: PTH123 - a descriptor
        bytecode.write(data)
    os.replace(partial, name, src_dir_fd=folder, dst_dir_fd=folder)


if __name__ == "__main__":
    sys.exit(main())
