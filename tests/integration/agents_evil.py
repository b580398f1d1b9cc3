"""What an agent might try. Prints, as JSON, the names of the attempts that succeeded.

Run as `python agents_evil.py TOKEN FILE_COMMAND GIT_CONFIG OUTPUT_DIR EVENT SOCKET`; standard library only, any Python.
"""

import functools
import glob
import json
import os
import socket
import sys
from collections.abc import Callable

token, file_command, git_config, output_dir, event, engine = sys.argv[1:]
done: list[str] = []


def attempt(name: str, action: Callable[[], bool]) -> None:
    try:
        if action():
            done.append(name)
    except OSError:
        pass


def write(path: str, mode: str = "a", text: str = "verdict=passed\n") -> bool:
    with open(path, mode, encoding="utf-8") as file:
        file.write(text)
    return True


def read(path: str) -> bool:
    with open(path, "rb") as file:
        return token.encode() in file.read()


def connect() -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(2)
        client.connect(engine)
    return True


def replace_results() -> bool:
    os.rename(output_dir, output_dir + ".old")
    os.mkdir(output_dir)
    return True


attempt("own environment", lambda: token in "".join(os.environ.values()))
for path in glob.glob("/proc/[0-9]*/environ"):
    attempt("environment of a process", functools.partial(read, path))
attempt("memory of the parent", lambda: write(f"/proc/{os.getppid()}/mem", "r+", ""))
attempt("descriptors of the parent", lambda: os.listdir(f"/proc/{os.getppid()}/fd") != [])
attempt("write a file command", lambda: write(file_command))
attempt("read the git config", lambda: read(git_config))
attempt("read the event", lambda: read(event))
attempt("list the results", lambda: os.listdir(output_dir) is not None)
attempt("write a result", lambda: write(os.path.join(output_dir, "results.json")))
attempt("use the container engine", connect)
attempt("replace the results", replace_results)
print(json.dumps(sorted(set(done))))
