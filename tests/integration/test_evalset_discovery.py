"""Which files are found: on real directories, and compared with Git itself."""

from __future__ import annotations

import os
import random
import re
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from golden_files import check

from agent_eval_scoring.core.problem import Severity
from agent_eval_scoring.core.selectors import covers, select
from agent_eval_scoring.evalset.discovery import _listing
from agent_eval_scoring.evalset.discovery.files import Discovery, discover, selectors_of
from agent_eval_scoring.evalset.paths import absolute, name_of


def make(root: Path, files: Iterable[str], text: str = "{}") -> None:
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


def git(root: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always")
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    root.mkdir(parents=True, exist_ok=True)
    command = ["git", *identity, *arguments]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, env=environment, text=True).stdout


def names(found: Discovery) -> list[str]:
    return [file.name for file in found.files]


def ignoring(root: Path, rules: str, files: Iterable[str]) -> None:
    """A repository in which nothing is tracked."""
    git(root, "init")
    make(root, [".gitignore"], rules)
    make(root, files)


class Said:
    """What was found in each situation, and what was said, in words."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.text = ""

    def find(self, situation: str, root: Path, *targets: str, exclude: Sequence[str] = (), skip: str = "") -> None:
        found = discover(root, targets, exclude=exclude, skip=[root / skip] if skip else ())
        assert all(file.path.is_absolute() for file in found.files)
        lines = [
            situation + (f", of {' and '.join(targets)}" if targets else "") + (f", without {exclude}" * bool(exclude))
        ]
        lines.append(f"found {', '.join(':'.join((file.name, *file.ids)) for file in found.files) or 'nothing'}")
        for problem in found.problems:
            lines.append(f"{problem.severity} [{problem.code}] {problem.file or '-'}: {problem.message}")
            lines += [f"    {problem.hint}"] * bool(problem.hint)
        self.text += "\n    ".join(lines).replace(str(self._folder), "FOLDER") + "\n"


EVALS = '{"eval_set_id": "a", "eval_cases": []}'


def test_discovery__what_is_found_in_directories(tmp_path: Path) -> None:
    find = (said := Said(tmp_path)).find
    root = tmp_path / "suffixes"
    git(root, "init")
    make(root, ["b/x.test.json", "a.evalset.json", "b/a/y.test.json", "b.test.json", "test_config.json", "n.json"])
    make(root, [f"{name}/x.test.json" for name in ("node_modules", ".venv", "venv", "my-env", "out", ".hid", ".git")])
    make(root, ["my-env/pyvenv.cfg"])
    find("both suffixes, sorted, in all directories but those of packages", root, skip="out")

    root = tmp_path / "named"
    make(
        root,
        ["../x.test.json", "a/x.test.json", "a/slow/y.test.json", "a/cases.json", "b/x.test.json", "b/x.evalset.json"],
    )
    for targets, exclude in (
        (["../x.test.json"], []),
        (["a/**"], ["slow/"]),
        (["**/*.evalset.json"], []),
        (["b"], ["/b/x.test.json"]),
        (["a/cases.json"], ["a/"]),
        (["a/x.tst.json", "gs://b/x.json"], []),
        (["a/x.test.json:c1", "./a/x.test.json:c2,c1", ".", f"{root}/b/x.test.json"], []),
        (["b/*.test.json:c1", "b/:c2"], []),
        (["none/*.test.json"], []),
        (["b*\\"], ["!"]),
    ):
        find("named", root, *targets, exclude=exclude)

    root = tmp_path / "empty"
    root.mkdir()
    find("nothing at all", root)
    find("nothing but what is excluded", root, exclude=["x"])
    make(root, ["a/x.test.json", "b/y.txt"])
    find("nothing in one of two", root, "a", "b")
    find("nothing in one of two", root, "a", "b", exclude=["b"])
    root = tmp_path / "elsewhere"
    ignoring(root, "", ["evals/bot.evalset.json", "bot/agent.py"])
    find("started in a directory without eval files", root / "bot")
    root = tmp_path / "missed"
    ignoring(root, "# local\nevals/\n", ["evals/bot.evalset.json", "venv/x.test.json", "a.schema.json"])
    find("ignored by git", root)
    make(root, ["bot/evals.json", "bot/old.json"], EVALS)
    find("misnamed", root, "bot")
    find("misnamed", root, "bot/evals.json")
    make(root, ["bot/agent.py"])
    find("an agent", root, "bot")
    root = tmp_path / "own-format"
    make(root, ["tests/eval/datasets/basic-dataset.json"], '[{"payload": {}}]')
    find("in the folder of agents-cli, and in a format of its own", root)
    root = tmp_path / "foreign"
    make(root, ["hr.evalset.json", "it.evalset.json", "law.evalset.json"], '[{"query": "Hi", "agent": "hr"}]')
    find("nothing but files of another tool", root)
    root = tmp_path / "misnamed"
    make(root, ["a/paris.evalset.json", "a/rome.json", "a/old/oslo.json"], EVALS)
    make(root, ["a/cities.json"], '["Rome"]')
    make(root, ["a/eval.schema.json"], '{"properties": {"eval_cases": {"type": "array"}}, "required": ["eval_cases"]}')
    find("misnamed beside others", root)
    find("misnamed beside others, excluded", root, exclude=["rome.json"])
    find("misnamed beside others, not asked for", root, "a/paris.evalset.json")
    find("misnamed beside others, and run", root, "a", "a/rome.json")
    find("misnamed beside others, and an agent's answers", root, skip="a/rome.json")
    (root / "a" / "rome.json").rename(root / "a" / "ro\nme.json")
    make(root, ["a/.json"], EVALS)
    find("misnamed and hard to name", root)

    root = tmp_path / "underscores"
    make(root, ["answers.json", "evals/weather_test.json", "evals/more-evalset.json", "evals/tone/evalset.json"], EVALS)
    find("an underscore instead of a point, beside a recording", root)

    root = tmp_path / "globs"
    make(root, ["a/smoke_x.test.json", "smoke_y.evalset.json", "a/x.test.json", "old/smoke_z.test.json"])
    others = ["build/smoke_copy.test.json", ".venv/pyvenv.cfg", ".venv/smoke_v.test.json", "smoke_data.json"]
    ignoring(root, "build/\n", others)
    for target in ("**/smoke_*.json", f"{root}/**/smoke_*.json", "build/smoke_*", "smoke_d*.json"):
        find("a glob selects among what a search finds", root, target, exclude=["old/"])
    root = tmp_path / "links"
    ignoring(root, "build/\n", ["z/x.test.json", "build/x.test.json", "../outside/y.test.json", "../w.test.json"])
    (root / "a").symlink_to(root / "z")
    (root / "z" / "loop").symlink_to(root)
    (root / "b.test.json").symlink_to(root / "z" / "x.test.json")
    (root / "far").symlink_to(tmp_path / "outside")
    (root / "w.test.json").symlink_to(tmp_path / "w.test.json")
    find("links", root)
    find("links", root, "w.test.json")
    find("links", root, "a")
    (root / "c.test.json").symlink_to(root / "build" / "x.test.json")
    find("a link to a file that a search skips", root)
    check("golden_discovery.txt", said.text)


def test_discovery__more_cases_of_a_file_than_a_file_name_has_room_for(tmp_path: Path) -> None:
    ids = [f"case_{number}" for number in range(100)]
    (tmp_path / "a.test.json").write_text("{}", encoding="utf-8")
    [selector] = selectors_of(tmp_path, [f"a.test.json:{','.join(ids)}"])
    assert (selector.path, list(selector.ids)) == ("a.test.json", ids)
    make(tmp_path, ["b.test.json"])
    assert [len(files) for _, files in discover(tmp_path, ["*.test.json:c1", "a.test.json:c2"]).groups] == [2, 1]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_discovery__unreadable_directory_is_a_warning(tmp_path: Path) -> None:
    make(tmp_path, ["a/x.test.json", "b.test.json"])
    (tmp_path / "a").chmod(0)
    try:
        result = discover(tmp_path)
    finally:
        (tmp_path / "a").chmod(0o700)
    assert names(result) == ["b.test.json"]
    assert [problem.severity for problem in result.problems] == [Severity.WARNING]


def upstream(tmp_path: Path) -> Path:
    """A repository with a tracked, ignored eval file."""
    root = tmp_path / "upstream"
    ignoring(root, "data/\n", ["s.test.json", "data/t.test.json"])
    git(root, "add", "--force", ".")
    git(root, "commit", "-m", "x")
    return root


def dangling(root: Path) -> Path:
    make(root, ["ok.test.json", "evals/ok.test.json"])
    links = {"home.test.json": "none", "evals/shared": "../../elsewhere", "loop.test.json": "loop.test.json"}
    links |= {"docs": "build/docs", "a": "b", "b": "a", ".#ok.test.json": "user@host.1"}
    links |= {"retrieval": "gone", ".agents/skills/evals": "/home/me/evals"}
    for name, target in links.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(target)
    return root


TRACKED = {
    "data/b.test.json": (".gitignore", "data/\n"),
    "evals/b.test.json": ("evals/.gitignore", "*\n"),
    "env/b.test.json": ("env/pyvenv.cfg", ""),
    "node_modules/evals/b.test.json": ("node_modules/package.json", "{}"),
    "out/b.test.json": ("out/results.json", "{}"),
}
"""Why a file would be left out if it were not tracked."""


def test_discovery__what_is_found_in_repositories(tmp_path: Path) -> None:
    find = (said := Said(tmp_path)).find
    root = tmp_path / "ignored"
    ignoring(root, "*\n", [":[b]*/a/x.test.json", ":[b]*/b/y.test.json", ":[b]*/venv/z.test.json"])
    make(root, [":[b]*/.gitignore"], "b/\n")
    find("an ignored directory that is named", root, ":[b]*")
    find("an ignored directory", root)
    root = tmp_path / "below"
    ignoring(root, "/sub/a/\nc\n", ["sub/a/x.test.json", "sub/b/y.test.json", "sub/c/z.test.json"])
    make(root, [".git/info/exclude"], "b\n")
    make(root, ["sub/.gitignore"], "!b\n")
    find("rules of the repository below it", root / "sub")
    for name, (reason, text) in TRACKED.items():
        root = tmp_path / f"tracked-{Path(name).parts[0]}"
        git(root, "init")
        make(root, [reason], text)
        make(root, [name, "ok.test.json", "deleted.test.json"])
        git(root, "add", "--force", ".")
        (root / "deleted.test.json").unlink()
        make(root, [str(Path(name).with_name("untracked.test.json"))])
        find(f"tracked, in spite of {reason}", root, skip="out")
        find(f"tracked, in spite of {reason}", root, exclude=[name], skip="out")
        find(f"tracked, in spite of {reason}", root, str(Path(name).parent), skip="out")

    other = upstream(tmp_path)
    root = tmp_path / "modules"
    git(root, "init")
    git(root, "submodule", "add", str(other), "evals")
    git(root, "clone", str(other), "clone")
    make(root, ["evals/data/untracked.test.json"])
    find("a submodule and a clone", root)
    find("a submodule and a clone", root, "evals")
    root = tmp_path / "root"
    git(root, "init")
    git(root, "submodule", "add", str(other), "evals")
    git(root, "submodule", "add", str(other), "third_party/x")
    make(root, ["a.test.json"])
    git(root, "add", ".")
    git(root, "commit", "-m", "x")
    git(tmp_path, "clone", str(root), "shallow")
    find("submodules that are not checked out", tmp_path / "shallow")
    find("submodules that are not checked out", tmp_path / "shallow", exclude=["evals/"])
    git(other, "sparse-checkout", "set", "--no-cone", "/data/")
    find("a sparse checkout", other)
    git(other, "worktree", "add", "--detach", str(tmp_path / "tree"))
    git(tmp_path / "tree", "sparse-checkout", "disable")
    find("a worktree of a sparse checkout", tmp_path / "tree")
    git(other, "sparse-checkout", "disable")
    make(other, ["test_config.json"])
    git(other, "add", ".")
    git(other, "commit", "-m", "x")
    git(other, "sparse-checkout", "set", "--no-cone", "/*", "!/test_config.json")
    find("a sparse checkout without a config", other)

    root = tmp_path / "bare"
    git(root, "init")
    git(root, "init", "--bare", "evals")
    make(root, ["evals/a.test.json", "evals/data/b.test.json"])
    git(root, "add", "evals/a.test.json")
    find("a directory that looks like a bare repository", root)
    find("a directory that looks like a bare repository", root, "evals")
    root = tmp_path / "broken"
    make(root, ["a.test.json", "data/b.test.json", ".git/HEAD"], "nonsense")
    make(root, [".gitignore"], "data/\n")
    find("a broken repository", root)
    # Outside of git nothing says whether a link belongs to the repository.
    find("dangling links outside of git", dangling(tmp_path / "plain"))
    root = dangling(tmp_path / "dangling")
    git(root, "init")
    git(root, "add", ".")
    find("dangling links", root)
    find("dangling links", root, exclude=["evals/shared", "l*", "h*"])
    find("dangling links", root, "evals/shared", "ok.test.json")
    check("golden_discovery_git.txt", re.sub(r"(?<=not a git repository) \(.*?\)", "", said.text))


def test_discover__configuration_of_the_repository_starts_no_program(tmp_path: Path) -> None:
    ignoring(tmp_path, "data/\n", ["a.test.json", "data/b.test.json"])
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/it-ran\n")
    program.chmod(0o755)
    for hook in ("post-index-change", "fsmonitor-watchman"):
        (tmp_path / ".git" / "hooks").mkdir(exist_ok=True)
        (tmp_path / ".git" / "hooks" / hook).symlink_to(program)
    for key in ("core.fsmonitor", "core.pager", "alias.ls-files", "core.askPass", "filter.x.clean"):
        git(tmp_path, "config", key, str(program))
    make(tmp_path, [".gitattributes"], "* filter=x\n")
    (tmp_path / "it-ran").unlink(missing_ok=True)
    result = discover(tmp_path)
    assert (names(result), result.problems) == (["a.test.json"], [])
    assert not (tmp_path / "it-ran").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give files away")
@pytest.mark.parametrize("reachable", [True, False])
def test_discover__checkout_of_another_user(reachable: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755 if reachable else 0o700)
        root = upstream(Path(name))
        for path in (root, *root.rglob("*")):
            os.chown(path, 4711, 4711)
        result = discover(root)
    assert (names(result), result.problems) == (["data/t.test.json", "s.test.json"], [])


def test_list_directory__a_named_pipe_with_ignore_rules_is_named_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without one, git may take its time."""
    for pipe in (".gitignore", "evals/.gitignore", "evals/deep/.gitignore", ".git/info/exclude", None):
        root = Path(tempfile.mkdtemp(dir=tmp_path))
        git(root, "init")
        make(root, ["evals/a.test.json", "evals/deep/b.test.json", "other/c.test.json"])
        if pipe is None:
            make(root, [".gitignore"], "deep\n")
        else:
            (root / pipe).unlink(missing_ok=True)
            (root / pipe).parent.mkdir(exist_ok=True)
            os.mkfifo(root / pipe)
        monkeypatch.setattr(_listing, "_PATIENCE", 0.0 if pipe is None else 0.1)

        listing = _listing.list_directory(root / "evals")

        named = pipe and f"{root / pipe} is a named pipe, which git would wait for. Remove it."
        found = ["a.test.json"] if pipe is None else ["a.test.json", "deep/b.test.json"]
        assert (listing.failure, sorted(listing.files)) == (named, found)


@pytest.mark.nightly
def test_discover__patterns_in_linear_time(tmp_path: Path) -> None:
    make(tmp_path, [f"{'a' * 100}/{'a' * 100}.test.json"])
    begun = time.monotonic()
    for pattern in ("*a" * 60 + "b", "**/*a" * 40 + "/b", "a*" * 1000 + "b", "[a-z]*" * 60 + "b/"):
        assert len(names(discover(tmp_path, exclude=[pattern]))) == 1
        assert len(pattern) > 255 or discover(tmp_path, [pattern]).problems[0].code == "path-not-found"
    assert time.monotonic() - begun < 20


FILES = [f"{folder}{name}" for folder in ("", "a/", "a/b/", "b/", "b/a/") for name in ("x.test.json", "y.test.json")]


@pytest.mark.parametrize("seed", range(50))
def test_covers__says_what_discovery_finds(seed: int, tmp_path: Path) -> None:
    make(tmp_path, FILES)
    chance = random.Random(seed)
    targets = [".", "a", "a/b/", "./b", "a/x.test.json", "x.test.json:c1", "b:c2", "*.test.json", "a/*:c*", "**/y.*"]
    patterns = ["a", "b/", "/a", "x.*", "!a", "a/**", "!/b/a/", "[x]*"]
    named = chance.sample(targets, k=chance.randint(0, 3))
    exclude = chance.sample(patterns, k=chance.randint(0, 2))
    result = discover(tmp_path, named, exclude=exclude)
    cases = [(name, eval_id) for name in FILES for eval_id in ("c1", "c2", "d")]
    ids = {file.name: file.ids for file in result.files}
    expected = [case for case in cases if case[0] in ids and (not ids[case[0]] or select([case[1]], ids[case[0]]))]
    chosen = [(name_of(absolute(tmp_path / item.path), tmp_path), item.ids) for item in selectors_of(tmp_path, named)]
    here = covers(chosen, exclude)
    assert [case for case in cases if here(":".join(case))] == expected, (named, exclude)


PATTERNS = (
    "build", "build/", "/build", "build/*", "build/**", "**/build", "a/**/b", "a/", "*.json", "*.test.json", "!*.json",
    "!x.test.json", "!build/", "!a/", "!/a", "/*", "!/b/", "x.*", "[xy].test.json", "b/x.test.json", "# note", "",
    "\\#odd", "y.test.json ", "!**/b", "a/b", "**/", "*", "!*/", "x.test.jso?", "**/a/x.test.json", "b/**/y*",
)  # fmt: skip


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("repository")
    git(root, "init")
    folders = ["", "a/", "b/", "build/", "a/b/", "a/build/", "b/a/", "build/a/", "a/b/build/", "b/a/b/"]
    make(root, [f"{folder}{name}" for folder in folders for name in ("x.test.json", "y.test.json")])
    return root


OTHERS = ("ls-files", "-z", "--others", "--exclude-standard")


@pytest.mark.parametrize("seed", range(50))
def test_discovery__agrees_with_git(seed: int, repository: Path) -> None:
    chance = random.Random(seed)
    for ignore in repository.rglob(".gitignore"):
        ignore.unlink()
    (repository / ".git" / "info" / "exclude").write_text("")
    for place in chance.sample(["", "a/", "a/b/", "b/", ".git/info/"], k=chance.randint(1, 3)):
        lines = chance.sample(PATTERNS, k=chance.randint(1, 4))
        name = "exclude" if "info" in place else ".gitignore"
        (repository / place / name).write_text("\n".join(lines) + "\n")
    expected = sorted(name for name in git(repository, *OTHERS).split("\0") if name.endswith(".test.json"))
    rules = {str(file.relative_to(repository)): file.read_text() for file in repository.rglob(".gitignore")}
    assert names(discover(repository)) == expected, rules
