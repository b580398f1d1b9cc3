"""Which files are found: on real directories, and compared with Git itself."""

from __future__ import annotations

import os
import random
import subprocess
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from agent_eval.core.problem import Severity
from agent_eval.core.selectors import covers, select
from agent_eval.evalset.discovery import _listing
from agent_eval.evalset.discovery.files import Discovery, discover, selectors_of
from agent_eval.evalset.paths import absolute, name_of


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


def codes(found: Discovery) -> list[str]:
    return [problem.code for problem in found.problems]


def ignoring(root: Path, rules: str, files: Iterable[str]) -> None:
    """A repository in which nothing is tracked."""
    git(root, "init")
    make(root, [".gitignore"], rules)
    make(root, files)


def test_discovery__both_suffixes_sorted_and_recursive(tmp_path: Path) -> None:
    make(tmp_path, ["b/x.test.json", "a.evalset.json", "b/a/y.test.json", "b.test.json", "test_config.json", "n.json"])
    make(tmp_path, [f"{name}/x.test.json" for name in ("node_modules", ".venv", "venv", "my-env", "out", ".hid")])
    make(tmp_path, ["my-env/pyvenv.cfg"])
    git(tmp_path, "init")
    make(tmp_path, [".git/x.test.json"])
    result = discover(tmp_path, skip=[tmp_path / "out"])
    assert names(result) == [".hid/x.test.json", "a.evalset.json", "b.test.json", "b/a/y.test.json", "b/x.test.json"]
    assert result.problems == []
    assert all(file.path.is_absolute() and file.ids == () for file in result.files)


@pytest.mark.parametrize(
    ("targets", "exclude", "expected"),
    [
        (["../x.test.json"], [], ["../x.test.json"]),
        (["a/**"], ["slow/"], ["a/x.test.json"]),
        (["**/*.evalset.json"], [], ["b/x.evalset.json"]),
        (["b"], ["/b/x.test.json"], ["b/x.evalset.json"]),
        (["a/cases.json"], ["a/"], ["a/cases.json"]),
    ],
)
def test_discovery__of_what_is_named(
    tmp_path: Path, targets: list[str], exclude: list[str], expected: list[str]
) -> None:
    root = tmp_path / "repo"
    make(root, ["../x.test.json", "a/x.test.json", "a/slow/y.test.json", "a/cases.json"])
    make(root, ["b/x.test.json", "b/x.evalset.json"])
    assert names(discover(root, targets, exclude=exclude)) == expected


def test_discovery__started_in_a_directory_without_eval_files(tmp_path: Path) -> None:
    """As somebody does who works on the agent: the message says where to start."""
    ignoring(tmp_path, "", ["evals/bot.evalset.json"])
    (tmp_path / "bot").mkdir()
    [problem] = discover(tmp_path / "bot").problems
    assert problem.code == "no-eval-files"
    assert problem.hint is not None
    assert problem.hint.startswith(f"Start agent-eval in {tmp_path}, which has `evals/bot.evalset.json`.")


def test_discovery__nothing_found_is_an_error_and_in_one_of_two_directories_a_warning(tmp_path: Path) -> None:
    result = discover(tmp_path, exclude=["x"])
    assert codes(result) == ["no-eval-files"]
    assert "exclude" in str(result.problems[0].hint)

    make(tmp_path, ["a/x.test.json", "b/y.txt"])
    [problem] = discover(tmp_path, ["a", "b"]).problems
    assert (problem.code, problem.severity) == ("no-eval-files", Severity.WARNING)
    assert "`b`" in problem.message
    assert discover(tmp_path, ["a", "b"], exclude=["b"]).problems == []


def test_discovery__nothing_found_names_what_was_missed(tmp_path: Path) -> None:
    ignoring(tmp_path, "# local\nevals/\n", ["evals/bot.evalset.json", "venv/x.test.json", "a.schema.json"])
    hint = str(discover(tmp_path).problems[0].hint)
    assert hint.startswith("Git ignores `evals/bot.evalset.json` (.gitignore:2:evals/). Eval files are named"), hint
    assert "agent-eval record evals/NAME.evalset.json" in hint
    assert "adk web" not in hint
    make(tmp_path, ["bot/evals.json", "bot/old.json"], '{"eval_set_id": "a", "eval_cases": []}')
    [problem] = discover(tmp_path, ["bot"]).problems
    assert str(problem.hint).startswith(
        "`bot/evals.json`, `bot/old.json` look like eval files: rename them, e.g. to `evals.evalset.json`. Eval files"
    )
    assert names(discover(tmp_path, ["bot/evals.json"])) == ["bot/evals.json"]
    make(tmp_path, ["bot/agent.py"])
    [problem] = discover(tmp_path, ["bot"]).problems
    assert str(problem.hint).startswith("`bot` is an agent: `agent-eval run --agent bot` runs the eval files")


def test_discovery__an_eval_set_beside_others_that_is_named_otherwise_is_a_warning(tmp_path: Path) -> None:
    make(tmp_path, ["a/paris.evalset.json", "a/rome.json", "a/old/oslo.json"], '{"eval_set_id": "x", "eval_cases": []}')
    make(tmp_path, ["a/cities.json"], '["Rome"]')
    (problem,) = discover(tmp_path).problems
    assert (problem.code, problem.severity, problem.file) == ("eval-file-misnamed", Severity.WARNING, "a/rome.json")
    assert problem.hint is not None and "`rome.evalset.json`" in problem.hint
    assert not discover(tmp_path, exclude=["rome.json"]).problems
    assert not discover(tmp_path, ["a/paris.evalset.json"]).problems
    assert not discover(tmp_path, ["a", "a/rome.json"]).problems, "it is run"
    assert not discover(tmp_path, skip=[tmp_path / "a" / "rome.json"]).problems, "it has the answers of an agent"
    (tmp_path / "a" / "rome.json").rename(tmp_path / "a" / "ro\nme.json")
    (tmp_path / "a" / ".json").write_bytes((tmp_path / "a" / "paris.evalset.json").read_bytes())
    hints = [str(problem.hint) for problem in discover(tmp_path).problems]
    assert ["`cases.evalset.json`" in hint or "`ro me.evalset.json`" in hint for hint in hints] == [True, True], hints


def test_discovery__missing_path_lists_its_neighbours(tmp_path: Path) -> None:
    make(tmp_path, ["evals/home.test.json"])
    result = discover(tmp_path, ["evals/hom.test.json", "gs://b/x.json"])
    assert codes(result) == ["path-not-found", "path-not-found"]
    assert result.problems[0].hint == "Did you mean `evals/home.test.json`?"
    assert "local" in str(result.problems[1].hint)
    assert names(result) == []


def test_discovery__more_cases_of_a_file_than_a_file_name_has_room_for(tmp_path: Path) -> None:
    ids = [f"case_{number}" for number in range(100)]
    (tmp_path / "a.test.json").write_text("{}", encoding="utf-8")
    [selector] = selectors_of(tmp_path, [f"a.test.json:{','.join(ids)}"])
    assert (selector.path, list(selector.ids)) == ("a.test.json", ids)


def test_discovery__same_file_twice_merges_ids(tmp_path: Path) -> None:
    make(tmp_path, ["a.test.json", "b.test.json"])
    result = discover(tmp_path, ["a.test.json:c1", "./a.test.json:c2,c1", ".", str(tmp_path / "b.test.json")])
    assert {file.name: file.ids for file in result.files} == {"a.test.json": ("c1", "c2"), "b.test.json": ()}


def test_discovery__globs_and_directories_with_ids(tmp_path: Path) -> None:
    make(tmp_path, ["evals/a.test.json", "evals/b.test.json", "evals/c.evalset.json", "x.test.json"])
    result = discover(tmp_path, ["evals/*.test.json:c1", "evals/:c2"])
    assert {file.name: file.ids for file in result.files} == {
        "evals/a.test.json": ("c1", "c2"),
        "evals/b.test.json": ("c1", "c2"),
        "evals/c.evalset.json": ("c2",),
    }
    assert [len(files) for _, files in result.groups] == [2, 3]
    assert codes(discover(tmp_path, ["none/*.test.json"])) == ["path-not-found"]


def test_discovery__glob_selects_among_the_files_that_a_search_finds(tmp_path: Path) -> None:
    make(tmp_path, ["a/smoke_x.test.json", "smoke_y.evalset.json", "a/x.test.json", "old/smoke_z.test.json"])
    others = ["build/smoke_copy.test.json", ".venv/pyvenv.cfg", ".venv/smoke_v.test.json", "smoke_data.json"]
    ignoring(tmp_path, "build/\n", others)
    smoke = ["a/smoke_x.test.json", "smoke_y.evalset.json"]
    assert names(discover(tmp_path, ["**/smoke_*.json"], exclude=["old/"])) == smoke
    assert names(discover(tmp_path, [f"{tmp_path}/**/smoke_*.json"], exclude=["old/"])) == smoke
    assert names(discover(tmp_path, ["build/smoke_*"])) == ["build/smoke_copy.test.json"], "its directory is named"
    (problem,) = discover(tmp_path, ["smoke_d*.json"]).problems
    assert (problem.code, problem.message) == ("path-not-found", "No eval file matches `smoke_d*.json`.")


def test_discovery__links(tmp_path: Path) -> None:
    root = tmp_path / "repo"
    make(root, ["z/x.test.json"])
    make(tmp_path, ["outside/y.test.json", "w.test.json"])
    (root / "a").symlink_to(root / "z")
    (root / "z" / "loop").symlink_to(root)
    (root / "b.test.json").symlink_to(root / "z" / "x.test.json")
    (root / "far").symlink_to(tmp_path / "outside")
    (root / "w.test.json").symlink_to(tmp_path / "w.test.json")
    result = discover(root)
    assert names(result) == ["z/x.test.json"]
    [outside] = result.problems
    assert (outside.code, outside.file, outside.severity) == ("link-outside-root", "w.test.json", Severity.ERROR)
    assert names(discover(root, ["w.test.json"])) == ["w.test.json"]
    assert names(discover(root, ["a"])) == ["a/x.test.json"]


def test_discovery__link_to_a_file_that_discovery_skips(tmp_path: Path) -> None:
    ignoring(tmp_path, "build/\n", ["build/x.test.json"])
    (tmp_path / "x.test.json").symlink_to(tmp_path / "build" / "x.test.json")
    assert names(discover(tmp_path)) == ["x.test.json"]


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


def test_discovery__ignored_directory_that_is_named_is_searched(tmp_path: Path) -> None:
    ignoring(tmp_path, "*\n", [":[b]*/a/x.test.json", ":[b]*/b/y.test.json", ":[b]*/venv/z.test.json"])
    make(tmp_path, [":[b]*/.gitignore"], "b/\n")
    result = discover(tmp_path, [":[b]*"])
    assert (names(result), result.problems) == ([":[b]*/a/x.test.json", ":[b]*/b/y.test.json"], [])
    assert codes(discover(tmp_path)) == ["no-eval-files"]


def test_discovery__rules_of_the_repository_hold_below_it(tmp_path: Path) -> None:
    ignoring(tmp_path, "/sub/a/\nc\n", ["sub/a/x.test.json", "sub/b/y.test.json", "sub/c/z.test.json"])
    make(tmp_path, [".git/info/exclude"], "b\n")
    make(tmp_path, ["sub/.gitignore"], "!b\n")
    assert names(discover(tmp_path / "sub")) == ["b/y.test.json"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("data/b.test.json", (".gitignore", "data/\n")),
        ("evals/b.test.json", ("evals/.gitignore", "*\n")),
        ("evals/b.test.json", ("evals/pyvenv.cfg", "")),
        ("node_modules/evals/b.test.json", ("node_modules/package.json", "{}")),
        ("venv/b.test.json", ("venv/pyvenv.cfg", "")),
        ("out/b.test.json", ("out/results.json", "{}")),
    ],
)
def test_discover__tracked_file_is_never_ignored_unless_it_is_gone(
    tmp_path: Path, name: str, reason: tuple[str, str]
) -> None:
    git(tmp_path, "init")
    make(tmp_path, [reason[0]], reason[1])
    make(tmp_path, [name, "ok.test.json"])
    make(tmp_path, ["deleted.test.json"])
    git(tmp_path, "add", "--force", ".")
    (tmp_path / "deleted.test.json").unlink()
    untracked = str(Path(name).with_name("untracked.test.json"))
    make(tmp_path, [untracked])
    skip = [tmp_path / "out"]
    result = discover(tmp_path, skip=skip)
    assert (names(result), result.problems) == (sorted([name, "ok.test.json"]), [])
    assert names(discover(tmp_path, exclude=[name], skip=skip)) == ["ok.test.json"]
    assert name in names(discover(tmp_path, [str(Path(name).parent)], skip=skip))


def upstream(tmp_path: Path) -> Path:
    """A repository with a tracked, ignored eval file."""
    root = tmp_path / "upstream"
    ignoring(root, "data/\n", ["s.test.json", "data/t.test.json"])
    git(root, "add", "--force", ".")
    git(root, "commit", "-m", "x")
    return root


def test_discover__submodule_and_clone_inside_the_repository(tmp_path: Path) -> None:
    root, other = tmp_path / "root", upstream(tmp_path)
    git(root, "init")
    git(root, "submodule", "add", str(other), "evals")
    git(root, "clone", str(other), "clone")
    make(root, ["evals/data/untracked.test.json"])
    expected = ["clone/data/t.test.json", "clone/s.test.json", "evals/data/t.test.json", "evals/s.test.json"]
    assert names(discover(root)) == expected
    assert names(discover(root, ["evals"])) == expected[2:]


def test_discover__submodule_that_is_not_checked_out(tmp_path: Path) -> None:
    root, other = tmp_path / "root", upstream(tmp_path)
    git(root, "init")
    git(root, "submodule", "add", str(other), "evals")
    git(root, "submodule", "add", str(other), "third_party/x")
    make(root, ["a.test.json"])
    git(root, "add", ".")
    git(root, "commit", "-m", "x")
    git(tmp_path, "clone", str(root), "shallow")
    result = discover(tmp_path / "shallow")
    assert [(problem.severity, problem.code, problem.file) for problem in result.problems] == [
        (Severity.ERROR, "not-checked-out", "evals"),
        (Severity.NOTICE, "not-checked-out", None),
    ]
    assert "third_party/x" in result.problems[1].message
    assert names(discover(tmp_path / "shallow", exclude=["evals/"])) == ["a.test.json"]


def test_discover__sparse_checkout_and_linked_worktree(tmp_path: Path) -> None:
    other = upstream(tmp_path)
    git(other, "sparse-checkout", "set", "--no-cone", "/data/")
    result = discover(other)
    assert names(result) == ["data/t.test.json"]
    assert [(problem.severity, problem.message) for problem in result.problems] == [
        (Severity.NOTICE, "1 eval file not checked out: s.test.json.")
    ]
    git(other, "worktree", "add", "--detach", str(tmp_path / "tree"))
    git(tmp_path / "tree", "sparse-checkout", "disable")
    linked = discover(tmp_path / "tree")
    assert (names(linked), linked.problems) == (["data/t.test.json", "s.test.json"], [])

    git(other, "sparse-checkout", "disable")
    make(other, ["test_config.json"])
    git(other, "add", ".")
    git(other, "commit", "-m", "x")
    git(other, "sparse-checkout", "set", "--no-cone", "/*", "!/test_config.json")
    [problem] = discover(other).problems
    assert (problem.severity, problem.code, problem.file) == (Severity.ERROR, "not-checked-out", "test_config.json")


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


def test_discover__directory_that_looks_like_a_bare_repository(tmp_path: Path) -> None:
    git(tmp_path, "init")
    git(tmp_path, "init", "--bare", "evals")
    make(tmp_path, ["evals/a.test.json", "evals/data/b.test.json"])
    git(tmp_path, "add", "evals/a.test.json")
    for target in ([], ["evals"]):
        result = discover(tmp_path, target)
        assert (names(result), result.problems) == (["evals/a.test.json", "evals/data/b.test.json"], [])


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


def test_discover__broken_repository_is_walked_with_a_warning(tmp_path: Path) -> None:
    make(tmp_path, ["a.test.json", "data/b.test.json", ".git/HEAD"], "nonsense")
    make(tmp_path, [".gitignore"], "data/\n")
    result = discover(tmp_path)
    assert names(result) == ["a.test.json", "data/b.test.json"]
    [problem] = result.problems
    assert (problem.severity, problem.code) == (Severity.WARNING, "git-failed")
    assert "not a git repository" in problem.message


@pytest.mark.parametrize("in_git", [True, False])
def test_discover__dangling_link_is_an_error_where_it_may_hold_evals(tmp_path: Path, in_git: bool) -> None:
    if in_git:
        git(tmp_path, "init")
    make(tmp_path, ["ok.test.json", "evals/ok.test.json"])
    links = {"home.test.json": "none", "evals/shared": "../../elsewhere", "loop.test.json": "loop.test.json"}
    links |= {"docs": "build/docs", "a": "b", "b": "a", ".#ok.test.json": "user@host.1"}
    for name, target in links.items():
        (tmp_path / name).symlink_to(target)
    if in_git:
        git(tmp_path, "add", ".")
    result = discover(tmp_path)
    assert names(result) == ["evals/ok.test.json", "ok.test.json"]
    errors = {problem.file: problem.message for problem in result.problems if problem.severity is Severity.ERROR}
    expected = {
        "home.test.json": "The symbolic link points to none, which does not exist.",
        "loop.test.json": "The symbolic link points to itself.",
    }
    if in_git:  # Elsewhere nothing says whether a link belongs to the repository.
        expected["evals/shared"] = "The symbolic link points to ../../elsewhere, which does not exist."
    assert errors == expected
    notices = [problem.message for problem in result.problems if problem.severity is Severity.NOTICE]
    assert notices == (["3 symbolic links are broken: a, b, docs."] if in_git else [])
    assert codes(discover(tmp_path, exclude=["evals/shared", "l*", "h*"])) == ["dangling-link"] * in_git


def test_discover__named_dangling_link_is_an_error(tmp_path: Path) -> None:
    make(tmp_path, ["ok.test.json"])
    (tmp_path / "evals").symlink_to("../none")
    result = discover(tmp_path, ["evals", "ok.test.json"])
    assert [(problem.severity, problem.code, problem.file) for problem in result.problems] == [
        (Severity.ERROR, "dangling-link", "evals")
    ]


@pytest.fixture
def nested(tmp_path: Path) -> Path:
    git(tmp_path, "init")
    make(tmp_path, ["evals/a.test.json", "evals/deep/b.test.json", "other/c.test.json"])
    return tmp_path


@pytest.mark.parametrize("pipe", [".gitignore", "evals/.gitignore", "evals/deep/.gitignore", ".git/info/exclude"])
def test_list_directory__a_named_pipe_with_ignore_rules_is_named_and_not_waited_for(
    nested: Path, monkeypatch: pytest.MonkeyPatch, pipe: str
) -> None:
    monkeypatch.setattr(_listing, "_PATIENCE", 0.5)
    (nested / pipe).unlink(missing_ok=True)
    (nested / pipe).parent.mkdir(exist_ok=True)
    os.mkfifo(nested / pipe)

    listing = _listing.list_directory(nested / "evals")

    assert listing.failure == f"{nested / pipe} is a named pipe, which git would wait for. Remove it."
    assert sorted(listing.files) == ["a.test.json", "deep/b.test.json"]


def test_list_directory__git_may_take_its_time_without_a_named_pipe(
    nested: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_listing, "_PATIENCE", 0.0)
    make(nested, [".gitignore"], "deep\n")

    listing = _listing.list_directory(nested / "evals")

    assert (listing.failure, listing.files) == (None, ["a.test.json"])


@pytest.mark.nightly
def test_discover__patterns_in_linear_time(tmp_path: Path) -> None:
    make(tmp_path, [f"{'a' * 100}/{'a' * 100}.test.json"])
    begun = time.monotonic()
    for pattern in ("*a" * 60 + "b", "**/*a" * 40 + "/b", "a*" * 1000 + "b", "[a-z]*" * 60 + "b/"):
        assert len(names(discover(tmp_path, exclude=[pattern]))) == 1
        assert len(pattern) > 255 or codes(discover(tmp_path, [pattern])) == ["path-not-found"]
    assert time.monotonic() - begun < 20


def test_discover__pattern_that_is_none(tmp_path: Path) -> None:
    make(tmp_path, ["a.test.json"])
    result = discover(tmp_path, ["a*\\"], exclude=["!"])
    assert [problem.message for problem in result.problems if problem.code == "pattern-invalid"] == [
        "`exclude` has an invalid pattern: `!` names nothing; `**` is everything.",
        "`paths` has an invalid pattern: `a*\\` ends in a backslash, which has nothing to escape.",
    ]


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
