"""Which files a process says that it opened. Each in a process of its own, since an audit hook stays."""

from __future__ import annotations

import json
import os
import py_compile
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).parents[2] / "src"
RECORD = f"""
import json, os, sys
sys.path.insert(0, {str(SOURCE)!r})
from agent_eval_host.opened_files import OpenedFiles
sys.path.remove({str(SOURCE)!r})
opened = OpenedFiles(sys.argv[1])
"""
LINK = {"link.txt", "middle.txt", "a/data.txt"}
END = "\nprint(json.dumps(opened.result()))"


@pytest.fixture
def top(tmp_path: Path) -> Path:
    top = tmp_path / "repository"
    for name in ("a/data.txt", "b/inner/data.txt", "library/words.py", "é/x.txt"):
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("good = 1\n", "utf-8")
    (top / "link.txt").symlink_to("middle.txt")
    (top / "middle.txt").symlink_to("a/data.txt")
    (top / "folder").symlink_to("b/inner")
    (top / "loop").symlink_to("loop")
    (tmp_path / "outside").symlink_to(top / "folder")
    return top


def record(top: Path, code: str, *, before: str = "", **environment: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", before + RECORD + code + END, str(top)],
        cwd=top,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.mark.parametrize(
    ("code", "paths"),
    [
        ("open('a/data.txt')", {"a/data.txt"}),
        ("open(b'a/../a/data.txt')", {"a/data.txt"}),
        ("os.open('a/data.txt', os.O_RDONLY)", {"a/data.txt"}),
        ("import pathlib; pathlib.Path('é/x.txt').read_text()", {"é/x.txt"}),
        ("open('link.txt')", LINK),
        ("open('folder/data.txt')", {"folder", "b/inner/data.txt"}),
        ("open('../outside/data.txt')", {"folder", "b/inner/data.txt"}),
        ("open('/proc/self/cwd/a/data.txt')", {"a/data.txt"}),
        ("os.chdir('a'); open('data.txt')", {"a/data.txt"}),
        ("os.listdir('b')", {"b/"}),
        ("list(os.scandir())", {"./"}),
        ("import glob; glob.glob('b/*/none.txt')", {"b/"}),
        ("import os.path; os.path.exists('a/data.txt')", set()),
        ("os.symlink('repository/a/data.txt', '../short'); open('../short')", {"a/data.txt"}),
        ("open('a/data.txt', 'a')", set()),
        ("open('new.txt', 'w').close(); open('new.txt')", set()),
        ("open('new.tmp', 'w').close(); os.replace('new.tmp', 'new.txt'); open('new.txt')", set()),
        ("os.chmod('a/data.txt', 0o444); open('a/data.txt', 'r+')", {"a/data.txt"}),
        ("import shutil; shutil.copy('a/data.txt', '../copy.txt')", {"a/data.txt"}),
        ("sys.path.append(os.getcwd()); import library.words", {"library", "library/words.py"}),
        ("import runpy; runpy.run_path('library/words.py')", {"library/words.py"}),
        ("import mmap; file = open('a/data.txt'); mmap.mmap(file.fileno(), 0, prot=1)", {"a/data.txt"}),
        ("try: open('b/none.txt')\nexcept OSError: pass", {"b/none.txt"}),  # it was looked for
        ("try: open('loop')\nexcept OSError: pass", {"loop"}),
        ("import threading; t = threading.Thread(target=open, args=['link.txt']); t.start(); t.join()", LINK),
    ],
)  # fmt: skip
def test_opened_files__paths_of_the_repository(top: Path, code: str, paths: set[str]) -> None:
    result = record(top, code)
    assert ({path for path in result["paths"] if "__pycache__" not in path}, result["unseen"]) == (paths, "")


def test_opened_files__a_module_that_is_read_from_its_cache_is_its_source(top: Path) -> None:
    py_compile.compile(str(top / "library/words.py"))
    result = record(top, "sys.path.append('.'); import library.words; del sys.modules['library.words']")
    assert "library/words.py" in result["paths"]


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import subprocess; subprocess.run(['true'])", "programs"),
        ("os.system('true')", "programs"),
        ("os.posix_spawn('/bin/true', ['true'], {})", "programs"),
        ("os.waitpid(os.fork() or os._exit(0), 0)", "programs"),
        ("import multiprocessing.popen_spawn_posix", "programs"),
        ("import sqlite3; sqlite3.connect(':memory:')", "compiled"),
        ("import ctypes; ctypes.CDLL(None)", "compiled"),
        ("import socket; socket.socket().bind(('127.0.0.1', 0))", "server"),
        ("import socket; socket.socket().connect_ex(('127.0.0.1', 9))", "server"),
        ("import socket; socket.socket(socket.AF_UNIX).connect_ex('/none')", "server"),
        ("os.open('a', os.O_RDONLY)", "relative"),
        ("os.open('/', os.O_RDONLY)", "relative"),
        ("try: open(b'\\xff')\nexcept OSError: pass", "unusual"),
        ("try: open('two\\nlines')\nexcept OSError: pass", "unusual"),
    ],
)  # fmt: skip
def test_opened_files__what_can_read_files_unseen_is_named(top: Path, code: str, why: str) -> None:
    assert why in record(top, code)["unseen"]


def test_opened_files__code_of_the_repository_that_runs_earlier_is_named(top: Path) -> None:
    assert "before" in record(top, "", before="import library.words\n", PYTHONPATH=str(top))["unseen"]


@pytest.mark.parametrize(("editable", "unseen"), [(True, ""), (False, "a copy of a package of the repository")])
def test_opened_files__an_installed_copy_of_the_repository_is_named(top: Path, editable: bool, unseen: str) -> None:
    facts = top.parent / "site/library-1.dist-info/direct_url.json"
    facts.parent.mkdir(parents=True)
    facts.write_text(json.dumps({"url": f"file://{top}/library", "dir_info": {"editable": editable}}))
    named = record(top, "", PYTHONPATH=str(facts.parents[1]))["unseen"]
    assert (named.startswith(unseen), bool(named)) == (True, bool(unseen))


def test_opened_files__very_many_files_do_no_harm(top: Path) -> None:
    many = "for number in range(10_500):\n  try: open(f'n{number}')\n  except OSError: pass"
    result = record(top, many)
    assert len(result["paths"]) < 10_001
    assert "more than 10,000" in result["unseen"]
