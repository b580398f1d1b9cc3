"""What a selection amounts to, from targets to cases."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from evalset_samples import TURN, case, codes, eval_set, json_values, load, write
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.commands.start import render_json
from agent_eval.core.problem import Severity
from agent_eval.evalset.loading import load_suite
from agent_eval.evalset.models.schema import Suite


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name in ("a", "b"):
        cases = [case(eval_id=f"{name}_{number}") for number in range(3)]
        write(tmp_path / "evals" / f"{name}.test.json", {"eval_set_id": name, "eval_cases": cases})
    return tmp_path


def chosen(suite: Suite) -> dict[str, list[str]]:
    return {file.path: [case.eval_id for case in file.cases] for file in suite.files}


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        ([], {"evals/a.test.json": ["a_0", "a_1", "a_2"], "evals/b.test.json": ["b_0", "b_1", "b_2"]}),
        (["evals/a.test.json:a_2, a_0"], {"evals/a.test.json": ["a_0", "a_2"]}),
        (["evals/a.test.json", "evals/a.test.json:a_1"], {"evals/a.test.json": ["a_1"]}),
        (["evals:a_1"], {"evals/a.test.json": ["a_1"]}),
        (["evals/*.test.json:?_1"], {"evals/a.test.json": ["a_1"], "evals/b.test.json": ["b_1"]}),
    ],
)
def test_load_suite__selectors(targets: list[str], expected: dict[str, list[str]], repository: Path) -> None:
    suite = load_suite(repository, targets)
    assert not suite.problems
    assert chosen(suite) == expected


@pytest.mark.parametrize(
    ("target", "file", "hint"),
    [
        ("evals/a.test.json:a_9", "evals/a.test.json", "Did you mean `a_0` or `a_1` or `a_2`?"),
        ("evals/a.test.json:a_0,zz*", "evals/a.test.json", "Its cases: `a_0`, `a_1`, `a_2`."),
        ("evals:c_*", None, None),
    ],
)
def test_load_suite__unmatched_id_is_an_error(
    target: str, file: str | None, hint: str | None, repository: Path
) -> None:
    (problem,) = load_suite(repository, [target]).errors
    assert (problem.code, problem.file) == ("unknown-eval-id", file)
    assert hint is None or hint == problem.hint


def test_load_suite__ids_of_an_invalid_file_are_not_reported(repository: Path) -> None:
    write(repository / "evals" / "a.test.json", "{")
    assert codes(load_suite(repository, ["evals:zz"]).problems) == ["json-truncated"]


def test_load_suite__unselected_cases_are_not_checked_against_criteria(tmp_path: Path) -> None:
    bare = {"user_content": {"parts": [{"text": "x"}]}}
    suite = load(tmp_path, a=eval_set(case(eval_id="ok"), case(eval_id="bare", conversation=[bare])))
    assert codes(suite.problems) == ["needs-reference"]
    assert not load_suite(tmp_path, ["a.test.json:ok"]).problems


def test_load_suite__relative_root(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository / "evals")
    assert chosen(load_suite(Path(".."), ["evals/b.test.json:b_0"])) == {"evals/b.test.json": ["b_0"]}
    assert list(chosen(load_suite(repository / "evals" / "..", []))) == ["evals/a.test.json", "evals/b.test.json"]


KEYS = ("eval_set_id", "eval_cases", "eval_id", "conversation", "query", "name", "data", "rubrics")
FILES = json_values(st.sampled_from(KEYS), most=15)


@given(value=FILES, config=FILES)
def test_load_suite__never_raises(value: Any, config: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("any")
    write(root / "a.test.json", value)
    write(root / "test_config.json", {"criteria": config})
    write(root / "session.json", config)
    suite = load_suite(root, initial_session=Path("session.json"))
    assert suite.file_count == 1
    for problem in suite.problems:
        assert problem.hint
        assert problem.severity in Severity
    assert bool(suite.errors) or suite.files


@pytest.mark.parametrize(
    "value",
    [
        {"eval_set_id": "s", "eval_cases": [{"eval_id": "a", "conversation": [0] * 40_000}]},
        [{"query": "hi"}, *[0] * 40_000],
    ],
    ids=["turns", "list of turns"],
)
def test_load_suite__findings_of_a_file_are_capped_and_counted(tmp_path: Path, value: Any) -> None:
    write(tmp_path / "a.test.json", value)
    suite = load_suite(tmp_path)
    [more] = [problem for problem in suite.problems if problem.code == "too-many-problems"]
    assert (len(suite.problems), more.severity, more.file) == (101, "error", "a.test.json")
    assert "at least 40,000 findings, of which 100 are listed" in more.message
    assert len(render_json(suite.problems)) < 100_000


@pytest.mark.nightly
def test_load_suite__findings_of_a_file_in_seconds(tmp_path: Path) -> None:
    write(tmp_path / "a.test.json", [{"query": "hi"}, *[0] * 40_000])
    begun = time.process_time()
    load_suite(tmp_path)
    assert time.process_time() - begun < 3  # A Problem for each finding takes 5 s, without other load.


def test_load_suite__errors_are_listed_before_warnings_of_the_same_file(tmp_path: Path) -> None:
    long = case(conversation=[{"user_content": TURN["user_content"]}] * 300 + [TURN])
    problems = load(tmp_path, a=eval_set(long, long), b=eval_set()).problems
    assert Counter((problem.file, problem.code) for problem in problems) == {
        ("a.test.json", "duplicate-eval-id"): 1,
        ("a.test.json", "turn-without-reference"): 99,
        ("a.test.json", "too-many-problems"): 1,
        ("b.test.json", "empty-eval-set"): 1,
    }


@pytest.mark.skipif(sys.platform == "darwin", reason="its file systems take only UTF-8")
@pytest.mark.parametrize("name", [b"\xff\xfe.test.json", b"\xe9t\xe9/a.test.json"])
def test_load_suite__a_name_that_is_not_utf8_is_an_error(tmp_path: Path, name: bytes) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
    path.parent.mkdir(exist_ok=True)
    write(path, {"eval_set_id": "s", "eval_cases": []})
    for targets in ((), [str(path.relative_to(tmp_path))]):
        suite = load_suite(tmp_path, targets)
        [problem] = suite.problems
        assert (problem.code, suite.files) == ("file-name-not-utf8", ())
        assert problem.file is not None
        assert problem.file.encode() == name.decode("utf-8", "backslashreplace").encode()
