"""Which files a resumed run has to have in common with the one before."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_eval_agents import sources
from agent_eval_agents.sources import WHOLE, source_fingerprint, uncommitted_files


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b.example", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


FILES = {
    "bot/agent.py": "x = 1",
    "data.csv": "1",
    "bot/.prompts/greeting.prompt": "Hi",
    "state.db": "a committed database",
    "evals/a.test.json": "{}",
    ".gitignore": ".env\nbuilt/\n*.key\n",
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sources")
    library = tmp_path_factory.mktemp("library")
    git(library, "init", "-q")
    (library / "words.txt").write_text("one", "utf-8")
    git(library, "add", ".")
    git(library, "commit", "-qm", "words")
    git(root, "init", "-q")
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, "utf-8")
    (root / "linked.txt").symlink_to("data.csv")
    (root.parent / f"{root.name}-outside.txt").write_text("outside", "utf-8")
    (root / "outside.txt").symlink_to(root.parent / f"{root.name}-outside.txt")
    git(root, "submodule", "add", "-q", str(library), "library")
    git(root, "add", ".")
    git(root, "commit", "-qm", "all")
    return root


def written(name: str, text: str = "changed") -> Callable[[Path], object]:
    def write(root: Path) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, "utf-8")

    return write


CHANGES: dict[str, Callable[[Path], object]] = {
    "a data file": written("data.csv"),
    "a prompt in a hidden folder": written("bot/.prompts/greeting.prompt"),
    "a file without a suffix": written("bot/Modelfile"),
    "an untracked file": written("bot/new.sql"),
    "a tracked database": written("state.db"),
    "variables that git ignores": written("bot/.env", "MODEL=b"),
    "variables at the root": written(".env", "MODEL=b"),
    "a removed file": lambda root: (root / "data.csv").unlink(),
    "a submodule's file": written("library/words.txt", "two"),
    "a submodule's new file": written("library/more.txt"),
    "a clone inside": lambda root: subprocess.run(["git", "clone", "-q", "library", "cloned"], cwd=root, check=True),
    "what a link leads to": lambda root: (root.parent / f"{root.name}-outside.txt").write_text("other", "utf-8"),
    "a change that is staged": lambda root: subprocess.run(
        ["sh", "-c", "echo 2 > data.csv && git add data.csv"], cwd=root, check=True
    ),
}
HARMLESS: dict[str, Callable[[Path], object]] = {
    "an eval file": written("evals/a.test.json", "[]"),
    "what git ignores": written("built/report.html"),
    "a key that git ignores": written("the.key"),
    "an untracked database, which a run may write": written("session.db"),
    "a log": written("bot/agent.log"),
    "compiled code": written("bot/__pycache__/agent.pyc"),
    "ADK's own folder": written("bot/.adk/session.db"),
    "results": written("out/results.json"),
    "times": lambda root: subprocess.run(["touch", "-d", "2001-01-01", *FILES], cwd=root, check=True),
    "equal content, written again": written("data.csv", "1"),
    "a commit of what is there": lambda root: git(root, "commit", "-q", "--allow-empty", "-m", "more"),
    "a named pipe": lambda root: os.mkfifo(root / "pipe"),
}


def fingerprint(root: Path) -> str:
    return source_fingerprint(root, root / "bot", skip=[root / "out"])


@pytest.mark.parametrize("name", [*CHANGES, *HARMLESS])
def test_source_fingerprint__of_what_may_decide_an_answer(repository: Path, tmp_path: Path, name: str) -> None:
    root = tmp_path / "copy"
    shutil.copytree(repository, root, symlinks=True)
    (tmp_path / "copy-outside.txt").write_text("outside", "utf-8")
    (root / "outside.txt").unlink()
    (root / "outside.txt").symlink_to(tmp_path / "copy-outside.txt")
    before = fingerprint(root)
    assert fingerprint(root) == before
    {**CHANGES, **HARMLESS}[name](root)
    assert (fingerprint(root) != before) is (name in CHANGES)


@pytest.mark.parametrize("name", ["data.csv", "bot/.prompts/greeting.prompt", "bot/Modelfile", "bot/.env"])
def test_source_fingerprint__without_git(tmp_path: Path, name: str) -> None:
    for each, text in FILES.items():
        written(each, text)(tmp_path)
    before = fingerprint(tmp_path)
    for harmless in ("session.db", ".cache/x", "node_modules/x/y.js", ".git/x", "env/pyvenv.cfg", "env/lib/x.py"):
        written(harmless)(tmp_path)
        assert fingerprint(tmp_path) == before, harmless
    written(name)(tmp_path)
    assert fingerprint(tmp_path) != before


def test_source_fingerprint__of_a_submodule_that_is_not_checked_out(tmp_path: Path) -> None:
    """As actions/checkout leaves it without `submodules: true`."""
    git(tmp_path, "init", "-q")
    (tmp_path / "agent.py").write_text("x = 1", "utf-8")
    (tmp_path / "vendored").mkdir()
    git(tmp_path, "add", ".")
    made = []
    for commit in ("1" * 40, "2" * 40, "2" * 40):
        git(tmp_path, "update-index", "--add", "--cacheinfo", f"160000,{commit},vendored")
        made.append((source_fingerprint(tmp_path, tmp_path), uncommitted_files(tmp_path)[WHOLE]))
    assert made[0] != made[1] and made[1] == made[2]


def test_source_fingerprint__a_part_of_a_repository(repository: Path) -> None:
    """The root of agent-eval is a directory of the repository: its neighbours don't count."""
    bot = repository / "bot"
    before = source_fingerprint(bot, bot)
    written("neighbour.txt")(repository)
    assert source_fingerprint(bot, bot) == before
    (repository / "neighbour.txt").unlink()


# What a merge needs of the checkouts of its parts.


@pytest.mark.parametrize("name", [*CHANGES, *HARMLESS, "credentials of the job", "results elsewhere"])
def test_uncommitted_files__of_what_parts_have_in_common(repository: Path, tmp_path: Path, name: str) -> None:
    root = tmp_path / "copy"
    shutil.copytree(repository, root, symlinks=True)
    (tmp_path / "copy-outside.txt").write_text("outside", "utf-8")
    (root / "outside.txt").unlink()
    (root / "outside.txt").symlink_to(tmp_path / "copy-outside.txt")
    more: dict[str, Callable[[Path], object]] = {
        "credentials of the job": written("gha-creds-1f2e.json"),
        "results elsewhere": lambda root: [written(f"parts/1/{each}")(root) for each in ("results.json", "junit.xml")],
    }
    before = uncommitted_files(root, skip=[root / "out"])
    assert uncommitted_files(root, skip=[root / "out"]) == before
    {**CHANGES, **HARMLESS, **more}[name](root)
    after = uncommitted_files(root, skip=[root / "out"])
    # Untracked ones may be the job's own: they are only named.
    beside = name in {"an untracked file", "a file without a suffix", "a submodule's new file"}
    assert (after[WHOLE] != before[WHOLE]) is (name in CHANGES and "variables" not in name and not beside)
    assert (after != before) is (name in CHANGES)


def test_uncommitted_files__on_another_machine(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large files are compared by size, never by time; names need no encoding, and there may be any number."""
    monkeypatch.setattr(sources, "_LARGEST", 10)
    both: list[dict[str, str]] = []
    for name in ("here", "there"):
        shutil.copytree(repository, tmp_path / name, symlinks=True)
        (tmp_path / name / "outside.txt").unlink()
        written("large.bin", "x" * 20)(tmp_path / name)
        (tmp_path / os.fsdecode(os.fsencode(name) + b"/\xff.txt")).touch()
        os.utime(tmp_path / name / "large.bin", (len(both), len(both)))
        both.append(uncommitted_files(tmp_path / name))
    assert both[0] == both[1]
    assert {"large.bin", "\ufffd.txt"} <= set(both[0]) and "data.csv" not in both[0]
    written("large.bin", "x" * 21)(tmp_path / "there")
    assert uncommitted_files(tmp_path / "there")["large.bin"] != both[0]["large.bin"]
    for number in range(600):
        (tmp_path / "here" / f"{number}.txt").touch()
    assert len(uncommitted_files(tmp_path / "here")) == 501
    (tmp_path / "plain").mkdir()
    written("agent.py")(tmp_path / "plain")
    assert uncommitted_files(tmp_path / "plain") == {}, "what git would ignore is unknown"


@pytest.mark.nightly
def test_source_fingerprint__of_fifty_thousand_files(tmp_path: Path) -> None:
    for folder in range(500):
        (tmp_path / f"d{folder}").mkdir()
        for number in range(100):
            (tmp_path / f"d{folder}" / f"{number}.txt").write_text(f"{folder} {number}", "utf-8")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    begun = time.process_time()
    source_fingerprint(tmp_path, tmp_path)
    assert time.process_time() - begun < 10
