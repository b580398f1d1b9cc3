"""Which files are found: on real directories, and compared with Git itself."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from agent_eval.core.problem import Severity
from agent_eval.evalset.discovery import Discovery, discover


def make(root: Path, files: Iterable[str], text: str = "{}") -> None:
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


def names(found: Discovery) -> list[str]:
    return [file.name for file in found.files]


def codes(found: Discovery) -> list[str]:
    return [problem.code for problem in found.problems]


def test_both_suffixes_sorted_and_recursive(tmp_path: Path) -> None:
    make(tmp_path, ["b/x.test.json", "a.evalset.json", "b/a/y.test.json", "b.test.json", "test_config.json", "n.json"])
    found = discover(tmp_path)
    assert names(found) == ["a.evalset.json", "b.test.json", "b/a/y.test.json", "b/x.test.json"]
    assert found.problems == []
    assert all(file.path.is_absolute() and file.ids == () for file in found.files)


def test_directories_that_are_never_searched(tmp_path: Path) -> None:
    make(
        tmp_path, [f"{name}/x.test.json" for name in (".git", "node_modules", ".venv", "venv", "my-env", "ok", ".hid")]
    )
    make(tmp_path, ["my-env/pyvenv.cfg"])
    make(tmp_path, ["out/x.test.json"])
    assert names(discover(tmp_path, skip=[tmp_path / "out"])) == [".hid/x.test.json", "ok/x.test.json"]


def test_nothing_found_is_an_error(tmp_path: Path) -> None:
    found = discover(tmp_path, exclude=["x"])
    assert codes(found) == ["no-eval-files"]
    assert "exclude" in str(found.problems[0].hint)


def test_missing_path_lists_its_neighbours(tmp_path: Path) -> None:
    make(tmp_path, ["evals/home.test.json"])
    found = discover(tmp_path, ["evals/hom.test.json", "gs://b/x.json"])
    assert codes(found) == ["path-not-found", "path-not-found"]
    assert found.problems[0].hint == "Did you mean `evals/home.test.json`?"
    assert "local" in str(found.problems[1].hint)
    assert names(found) == []


def test_named_file_is_taken_whatever_it_is_called(tmp_path: Path) -> None:
    make(tmp_path, ["a/cases.json", "b.test.json"])
    make(tmp_path, [".gitignore"], "*.json\n")
    assert names(discover(tmp_path, ["a/cases.json"], exclude=["a/"])) == ["a/cases.json"]
    assert codes(discover(tmp_path)) == ["no-eval-files"]


def test_file_outside_the_root(tmp_path: Path) -> None:
    make(tmp_path, ["x.test.json", "repo/y.test.json"])
    assert names(discover(tmp_path / "repo", ["../x.test.json"])) == ["../x.test.json"]


def test_same_file_twice_merges_ids(tmp_path: Path) -> None:
    make(tmp_path, ["a.test.json", "b.test.json"])
    found = discover(tmp_path, ["a.test.json:c1", "./a.test.json:c2,c1", ".", str(tmp_path / "b.test.json")])
    assert {file.name: file.ids for file in found.files} == {"a.test.json": ("c1", "c2"), "b.test.json": ()}


def test_globs_and_directories_with_ids(tmp_path: Path) -> None:
    make(tmp_path, ["evals/a.test.json", "evals/b.test.json", "evals/c.evalset.json", "x.test.json"])
    found = discover(tmp_path, ["evals/*.test.json:c1", "evals/:c2"])
    assert {file.name: file.ids for file in found.files} == {
        "evals/a.test.json": ("c1", "c2"),
        "evals/b.test.json": ("c1", "c2"),
        "evals/c.evalset.json": ("c2",),
    }
    assert [len(files) for _, files in found.groups] == [2, 3]
    assert codes(discover(tmp_path, ["none/*.test.json"])) == ["path-not-found"]


def test_include_and_exclude(tmp_path: Path) -> None:
    make(tmp_path, ["a/x.test.json", "a/slow/y.test.json", "b/x.test.json", "b/x.evalset.json"])
    assert names(discover(tmp_path, include=["a/**"], exclude=["slow/"])) == ["a/x.test.json"]
    assert names(discover(tmp_path, include=["*.evalset.json"])) == ["b/x.evalset.json"]
    assert names(discover(tmp_path, ["b"], exclude=["/b/x.test.json"])) == ["b/x.evalset.json"]


def test_links(tmp_path: Path) -> None:
    root = tmp_path / "repo"
    make(root, ["z/x.test.json"])
    make(tmp_path, ["outside/y.test.json", "w.test.json"])
    (root / "a").symlink_to(root / "z")
    (root / "z" / "loop").symlink_to(root)
    (root / "b.test.json").symlink_to(root / "z" / "x.test.json")
    (root / "far").symlink_to(tmp_path / "outside")
    (root / "w.test.json").symlink_to(tmp_path / "w.test.json")
    (root / "dangling.test.json").symlink_to(root / "none")
    found = discover(root)
    assert names(found) == ["z/x.test.json"]
    assert [(problem.code, problem.file) for problem in found.problems] == [("link-outside-root", "w.test.json")]
    assert names(discover(root, ["w.test.json"])) == ["w.test.json"]
    assert names(discover(root, ["a"])) == ["a/x.test.json"]


def test_link_to_a_file_that_discovery_skips(tmp_path: Path) -> None:
    make(tmp_path, ["build/x.test.json"])
    make(tmp_path, [".gitignore"], "build/\n")
    (tmp_path / "x.test.json").symlink_to(tmp_path / "build" / "x.test.json")
    assert names(discover(tmp_path)) == ["x.test.json"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_directory_is_a_warning(tmp_path: Path) -> None:
    make(tmp_path, ["a/x.test.json", "b.test.json"])
    (tmp_path / "a").chmod(0)
    try:
        found = discover(tmp_path)
    finally:
        (tmp_path / "a").chmod(0o700)
    assert names(found) == ["b.test.json"]
    assert [problem.severity for problem in found.problems] == [Severity.WARNING]


def test_ignored_directory_that_is_named_is_searched(tmp_path: Path) -> None:
    make(tmp_path, ["build/a/x.test.json", "build/b/y.test.json"])
    make(tmp_path, [".gitignore"], "build/\n")
    make(tmp_path, ["build/.gitignore"], "b/\n")
    assert names(discover(tmp_path, ["build"])) == ["build/a/x.test.json"]


def test_rules_of_the_repository_hold_below_it(tmp_path: Path) -> None:
    make(tmp_path, ["repo/sub/a/x.test.json", "repo/sub/b/y.test.json", "repo/sub/c/z.test.json"])
    make(tmp_path, ["repo/.gitignore"], "/sub/a/\nc\n")
    make(tmp_path, ["repo/.git/info/exclude"], "b\n")
    make(tmp_path, ["repo/sub/.gitignore"], "!b\n")
    assert names(discover(tmp_path / "repo" / "sub")) == ["b/y.test.json"]


PATTERNS = (
    "build", "build/", "/build", "build/*", "build/**", "**/build", "a/**/b", "a/", "*.json", "*.test.json", "!*.json",
    "!x.test.json", "!build/", "!a/", "!/a", "/*", "!/b/", "x.*", "[xy].test.json", "b/x.test.json", "# note", "",
    "\\#odd", "y.test.json ", "!**/b", "a/b", "**/", "*", "!*/", "x.test.jso?", "**/a/x.test.json", "b/**/y*",
)  # fmt: skip


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    folders = ["", "a/", "b/", "build/", "a/b/", "a/build/", "b/a/", "build/a/", "a/b/build/", "b/a/b/"]
    make(root, [f"{folder}{name}" for folder in folders for name in ("x.test.json", "y.test.json")])
    return root


@pytest.mark.parametrize("seed", range(100))
def test_agrees_with_git(seed: int, repository: Path) -> None:
    chance = random.Random(seed)
    for ignore in repository.rglob(".gitignore"):
        ignore.unlink()
    (repository / ".git" / "info" / "exclude").write_text("")
    for place in chance.sample(["", "a/", "a/b/", "b/", ".git/info/"], k=chance.randint(1, 3)):
        lines = chance.sample(PATTERNS, k=chance.randint(1, 4))
        name = "exclude" if "info" in place else ".gitignore"
        (repository / place / name).write_text("\n".join(lines) + "\n")
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    listed = subprocess.run(
        ["git", "-C", str(repository), "ls-files", "-z", "--others", "--exclude-standard"],
        check=True, capture_output=True, text=True, env=environment,
    )  # fmt: skip
    expected = sorted(name for name in listed.stdout.split("\0") if name.endswith(".test.json"))
    rules = {str(file.relative_to(repository)): file.read_text() for file in repository.rglob(".gitignore")}
    assert names(discover(repository)) == expected, rules
