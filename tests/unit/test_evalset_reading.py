"""Eval files as they are read."""

from __future__ import annotations

import json
import os
import sys
import time
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from evalset_samples import LEGACY_EVALS, LEGACY_TURNS, TURN, case, codes, eval_set, json_values, load, places, write
from hypothesis import assume, given
from hypothesis import strategies as st

from agent_eval.commands.start import render_json
from agent_eval.core.content import text_of
from agent_eval.core.invocation import IntermediateData, tool_calls
from agent_eval.core.problem import Problem, Severity
from agent_eval.core.selectors import Selector, matches, nearby, parse_selector, select
from agent_eval.evalset.json.patching import eval_set_text
from agent_eval.evalset.json.positions import Positions, format_path
from agent_eval.evalset.json.reading import parse_document
from agent_eval.evalset.loading import load_suite
from agent_eval.evalset.models.schema import EvalSet, LoadedFile, Suite
from agent_eval_workbench.commands.migrate import migrate
from agent_eval_workbench.recording.target import stem

# Files that are no JSON: the cause, the place, and what to do.


def finding(data: str | bytes) -> Problem:
    document, problems = parse_document(data.encode() if isinstance(data, str) else data, "f.json")
    assert document is None
    (problem,) = problems
    assert problem.severity is Severity.ERROR
    assert problem.hint
    return problem


@pytest.mark.parametrize(
    ("data", "code", "line", "column"),
    [
        pytest.param(b"", "empty-file", 1, 1, id="empty"),
        pytest.param(b" \r\n\t", "empty-file", 1, 1, id="blank"),
        pytest.param(b"\xef\xbb\xbf{}", "byte-order-mark", 1, 1, id="utf-8 mark"),
        pytest.param("{}".encode("utf-16"), "not-utf8", 1, 1, id="utf-16 with mark"),
        pytest.param("{}".encode("utf-16-be"), "not-utf8", 1, 1, id="utf-16 without mark"),
        pytest.param("{}".encode("utf-32"), "not-utf8", 1, 1, id="utf-32"),
        pytest.param('{\n "ä": "é'.encode() + b"\xe9" + b'"}', "not-utf8", 2, 9, id="latin-1 byte"),
        pytest.param('{\n  // note\n  "a": 1}', "json-comment", 2, 3, id="line comment"),
        pytest.param('{"a": 1 # note\n}', "json-comment", 1, 9, id="hash comment"),
        pytest.param("[1, /* two */ 2]", "json-comment", 1, 5, id="block comment"),
        pytest.param("[1] // end", "json-comment", 1, 5, id="comment after the end"),
        pytest.param("// start\n[1]", "json-comment", 1, 1, id="comment before the start"),
        pytest.param('{"a": 1,\n}', "json-trailing-comma", 1, 8, id="comma before a brace"),
        pytest.param("[1,\n 2 ,\n]", "json-trailing-comma", 2, 4, id="comma before a bracket"),
        pytest.param("{'a': 1}", "not-json", 1, 2, id="single-quoted key"),
        pytest.param("{\"a\": 'b'}", "not-json", 1, 7, id="single-quoted value"),
        pytest.param("{“a”: 1}", "not-json", 1, 2, id="curly quotes"),
        pytest.param('{"a": "NaN",\n "b": NaN}', "json-constant", 2, 7, id="nan"),
        pytest.param("[-Infinity]", "json-constant", 1, 2, id="infinity"),
        pytest.param("[1, 1e999]", "number-too-big", 1, 5, id="too big a float"),
        pytest.param('["5", ' + "9" * 5000 + "]", "number-too-big", 1, 7, id="too long an integer"),
        pytest.param('{"a": [1, 2', "json-truncated", 1, 12, id="open list"),
        pytest.param('{"a": "b', "json-truncated", 1, 7, id="open string"),
        pytest.param('{"a": 1}\n{"a": 2}', "not-json", 2, 1, id="second document"),
        pytest.param('{"a": 1 "b": 2}', "not-json", 1, 9, id="missing comma"),
        pytest.param('{"a" 1}', "not-json", 1, 6, id="missing colon"),
        pytest.param("{a: 1}", "not-json", 1, 2, id="bare key"),
        pytest.param('{"a": True}', "not-json", 1, 7, id="python's true"),
        pytest.param('{"a": "x\ny"}', "not-json", 1, 9, id="raw line break"),
        pytest.param('{"a": "C:\\dir"}', "not-json", 1, 10, id="lone backslash"),
        pytest.param("[1, ?]", "not-json", 1, 5, id="anything else"),
        pytest.param('{"a": 1,,\n "b": 2}', "not-json", 1, 9, id="comma too many in an object"),
        pytest.param('{"a": [1,\n, 2]}', "not-json", 2, 1, id="comma too many in a list"),
        pytest.param("[, 2]", "not-json", 1, 2, id="comma first"),
        pytest.param("[\n<<<<<<< HEAD\n1\n=======\n2\n>>>>>>> x\n]", "json-merge-conflict", 2, 1, id="conflict"),
        pytest.param('["\\ud800"]', "lone-surrogate", 1, 2, id="lone surrogate"),
        pytest.param('[{"\\udc00": 1}]', "lone-surrogate", 1, 2, id="lone surrogate in a key"),
    ],
)
def test_parse_document__cause_and_position(data: str | bytes, code: str, line: int, column: int) -> None:
    problem = finding(data)
    assert (problem.code, problem.line, problem.column) == (code, line, column), problem


@pytest.mark.parametrize("depth", [202, 800, 5_000, 200_000])
def test_parse_document__deep_nesting_is_reported(depth: int) -> None:
    assert finding("[" * depth + "]" * depth).code == "nested-too-deeply"
    assert finding('{"a":' * depth + "1" + "}" * depth).code == "nested-too-deeply"


def test_parse_document__allowed_depth_can_be_written() -> None:
    call = '{"name": "f", "args": {"x": ' + "[" * 190 + "]" * 190 + "}}"
    turn = '{"user_content": {}, "intermediate_data": {"tool_uses": [' + call + "]}}"
    text = '{"eval_set_id": "s", "eval_cases": [{"eval_id": "c", "conversation": [' + turn + "]}]}"
    document, problems = parse_document(text.encode(), "f.json")
    assert document is not None and problems == []
    assert json.loads(eval_set_text(EvalSet.model_validate(document.value))) == document.value


def test_parse_document__surrogate_pairs_and_escaped_backslashes() -> None:
    document, problems = parse_document(rb'["\ud83d\ude00", "\\ud800"]', "f.json")
    assert document is not None and problems == []
    assert document.value == ["😀", "\\ud800"]


def test_parse_document__duplicate_key_is_a_warning_at_the_ignored_one() -> None:
    document, problems = parse_document(b'{"a": {"x": 1,\n"b": 0, "x": 2}, "c": 1, "c": 1, "c": 3}', "f.json")
    assert document is not None
    assert document.value == {"a": {"x": 2, "b": 0}, "c": 3}
    result = sorted((problem.line, problem.column, problem.path, problem.severity) for problem in problems)
    assert result == [(1, 8, "a.x", Severity.WARNING), (2, 18, "c", Severity.WARNING)]
    assert "line 2" in problems[0].message


JSON = json_values(most=20)


@given(
    value=JSON,
    indent=st.none() | st.integers(0, 3),
    ascii_only=st.booleans(),
    before=st.sampled_from(["", "\n ", "\r\n"]),
)
def test_positions__of_values(value: object, indent: int | None, ascii_only: bool, before: str) -> None:
    text = before + json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    positions, lines = Positions(text), text.split("\n")
    for path in places(value):
        where = positions.of(path)
        rest = "\n".join([lines[where.line - 1][where.column - 1 :], *lines[where.line :]])
        wanted: object = value
        for step in path:
            wanted = wanted[step]  # type: ignore[index]
        assert json.JSONDecoder().raw_decode(rest)[0] == wanted
        if path and isinstance(path[-1], str):
            key = positions.of(path, key=True)
            rest = "\n".join([lines[key.line - 1][key.column - 1 :], *lines[key.line :]])
            assert json.JSONDecoder().raw_decode(rest)[0] == path[-1]


@given(items=st.lists(JSON, max_size=5), indent=st.none() | st.integers(0, 2))
def test_positions__lines_of_items(items: list[object], indent: int | None) -> None:
    positions = Positions(json.dumps({"a": items}, indent=indent))
    assert positions.lines_of_items(("a",)) == [positions.of(("a", index)).line for index in range(len(items))]


def test_positions__missing_value_has_the_position_of_its_container() -> None:
    positions = Positions('{"a":\n {"b": 1}}')
    assert positions.of(("a", "c", "d")) == positions.of(("a",))
    assert positions.lines_of_items(("a",)) == positions.lines_of_items(("x",)) == []


PIECES = st.lists(
    st.sampled_from([*"{}[]:,'\"#/*\\ \n1-.eN", "NaN", '"a"', "true", "//", "1e999", "<<<<<<< "]), max_size=12
)
TEXTS = st.text(max_size=60) | PIECES.map("".join)


@given(data=st.binary(max_size=60) | TEXTS.map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_parse_document__never_raises_and_positions_are_inside_the_text(data: bytes) -> None:
    document, problems = parse_document(data, "f.json")
    assert (document is None) == any(problem.severity is Severity.ERROR for problem in problems)
    lines = data.decode("utf-8", "replace").split("\n")
    for problem in problems:
        assert problem.line is not None
        assert problem.column is not None
        assert 1 <= problem.line <= len(lines)
        assert problem.column <= len(lines[problem.line - 1]) + 1
    assert document is None or document.value == json.loads(data)


def test_format_path__notation() -> None:
    assert format_path(("eval_cases", 2, "state", "a b", 0)) == 'eval_cases[2].state["a b"][0]'
    assert (format_path(()), format_path((0, "a"))) == ("", "[0].a")


COMMENTED = """// an eval set
{
  "eval_set_id": "s", # its id
  "name": "a // b # c /* d */ \\" ,]",
  "eval_cases": [
    {"eval_id": "a", "conversation": [{"user_content": {"parts": [{"text": "hi"},]}} /* one
       turn */ ,
    ],},
  ],
} // end
"""


def test_parse_document__all_comments_and_trailing_commas_at_once() -> None:
    document, problems = parse_document(COMMENTED.encode(), "a.json")
    assert document is None
    assert [(problem.line, problem.column, problem.code) for problem in problems] == [
        (1, 1, "json-comment"),
        (3, 23, "json-comment"),
        (6, 81, "json-trailing-comma"),
        (6, 86, "json-comment"),
        (7, 16, "json-trailing-comma"),
        (8, 6, "json-trailing-comma"),
        (8, 8, "json-trailing-comma"),
        (9, 4, "json-trailing-comma"),
        (10, 3, "json-comment"),
    ]
    assert "agent-eval migrate a.json NEW" in (problems[0].hint or "")
    document, [notice] = parse_document(COMMENTED.encode(), "a.json", lenient=True)
    assert document is not None
    assert document.value["name"] == 'a // b # c /* d */ " ,]'
    assert document.error("x", "y", path=("eval_cases", 0, "eval_id")).location == "a.json:6:17"
    assert (notice.severity, notice.code) == ("notice", "json-cleaned")
    assert notice.message == "4 comments and 5 trailing commas dropped."
    for text in ('{"a": 1, // note\n "b": }', "[1, /* never closed", '{"a": "never closed // ,]'):
        for lenient in (False, True):
            document, found = parse_document(text.encode(), "a.json", lenient=lenient)
            assert (document, len(found)) == (None, 1), "what else is wrong comes alone"


@pytest.mark.nightly
def test_parse_document__many_of_them_in_linear_time() -> None:
    begun = time.process_time()
    for text in ("[" + "1, # one\n" * 200_000 + "1]", "[1]" + "/*" * 500_000, "[" + "[1,]," * 200_000 + "]"):
        assert len(parse_document(text.encode(), "a.json")[1]) <= 101
    assert time.process_time() - begun < 30


@pytest.mark.nightly
def test_lines_of_items__need_no_second_copy_of_the_document() -> None:
    items = [{"text": f"case {number}", "more": [number, number + 1]} for number in range(20_000)]
    text = json.dumps({"a": items})
    tracemalloc.start()
    try:
        copy = json.loads(text)
        whole = tracemalloc.get_traced_memory()[0]
        del copy
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        assert len(Positions(text).lines_of_items(("a",))) == len(items)
        assert tracemalloc.get_traced_memory()[1] - before < 0.6 * whole
    finally:
        tracemalloc.stop()


# What a selection amounts to, from targets to cases.


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


def test_load_suite__unmatched_id_is_an_error(repository: Path) -> None:
    for ids, hint in (("a_9", "Did you mean `a_0` or `a_1` or `a_2`?"), ("a_0,zz*", "Its cases: `a_0`, `a_1`, `a_2`.")):
        (problem,) = load_suite(repository, [f"evals/a.test.json:{ids}"]).errors
        assert (problem.code, problem.file, problem.hint) == ("unknown-eval-id", "evals/a.test.json", hint)
    (problem,) = load_suite(repository, ["evals:c_*"]).errors
    assert (problem.code, problem.file) == ("unknown-eval-id", None)
    write(repository / "evals" / "a.test.json", "{")
    assert codes(load_suite(repository, ["evals:zz"]).problems) == ["json-truncated"], "which ids it has nobody knows"


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
    "value", [eval_set(case(conversation=[0] * 40_000)), [{"query": "hi"}, *[0] * 40_000]], ids=["turns", "list"]
)
def test_load_suite__findings_of_a_file_are_capped_and_counted(tmp_path: Path, value: Any) -> None:
    suite = load(tmp_path, a=value)
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


# `file.json:case1,case2`.

DATA = Path(__file__).parents[1] / "data"
VECTORS = json.loads((DATA / "evalset" / "adk_2_13_0_selectors.json").read_text(encoding="utf-8"))["selector"]
WITH_COLONS = {
    "C:/x:c1,c2:zz": {"C:/x": ["c1", "c2:zz"]},
    "gs://b/x.json:c1": {"gs": ["//b/x.json:c1"]},
    "/abs/p:q/a.json:c1": {"/abs/p": ["q/a.json:c1"]},
}
"""ADK drops what follows a second colon; an id may hold one. (It keeps blanks around ids, too; we trim them.)"""


def nothing_exists(path: str) -> bool:
    return False


@pytest.mark.parametrize(("texts", "expected"), VECTORS, ids=lambda value: str(value))
def test_selectors__vectors_of_adk(texts: list[str], expected: dict[str, list[str]]) -> None:
    result: dict[str, list[str]] = {}
    for text in texts:
        selector = parse_selector(text, nothing_exists)
        result.setdefault(selector.path, []).extend(selector.ids)
    expected = WITH_COLONS.get(texts[0], expected)
    assert result == {path: [eval_id.strip() for eval_id in ids] for path, ids in expected.items()}


@pytest.mark.parametrize(
    ("text", "existing", "expected"),
    [
        ("a:b.json", {"a:b.json"}, Selector(path="a:b.json")),
        ("a:b.json:c", {"a:b.json"}, Selector(path="a:b.json", ids=("c",))),
        ("a:b.json:c:d", {"a:b.json", "a"}, Selector(path="a:b.json", ids=("c:d",))),
        ("d/:x", {"d/"}, Selector(path="d/", ids=("x",))),
        ("C:\\a:b.json:c", {"C:\\a:b.json"}, Selector(path="C:\\a:b.json", ids=("c",))),
        ("a.json: b ,, b,c ", set(), Selector(path="a.json", ids=("b", "c"))),
        ("a.json: , ", set(), Selector(path="a.json")),
        ("", set(), Selector(path="")),
    ],
)
def test_selectors__paths_with_colons(text: str, existing: set[str], expected: Selector) -> None:
    assert parse_selector(text, existing.__contains__) == expected


NAMES = st.text(st.characters(exclude_characters=":,", exclude_categories=["Cs"]), min_size=1)
IDS = st.text(st.characters(exclude_characters=",", exclude_categories=["Cs"]), min_size=1).filter(
    lambda text: text == text.strip()
)


@given(path=NAMES, ids=st.lists(IDS, min_size=1, unique=True))
def test_selectors__what_is_joined_is_split_again(path: str, ids: list[str]) -> None:
    assume(not (len(path) == 1 and path.isascii() and path.isalpha() and ids[0].startswith(("/", "\\"))))  # A drive.
    selector = parse_selector(f"{path}:{','.join(ids)}", lambda candidate: candidate == path)
    assert selector == Selector(path=path, ids=tuple(ids))


def test_selectors__globs_and_ids_that_look_like_globs() -> None:
    ids = ["light_on", "light_off", "weird[1]", "weird1"]
    assert select(ids, ["light_*"]) == {"light_on", "light_off"}
    assert select(ids, ["weird[1]"]) == {"weird[1]", "weird1"}
    assert select(ids, ["LIGHT_*"]) == set()
    assert matches("a?c", "abc")
    assert not matches("b", "abc")


def test_selectors__nearby_names() -> None:
    assert nearby("lihgt_on", ["light_on", "light_off", "door"]) == ["light_on", "light_off"]
    assert nearby("novice", ["EXPERT", "NOVICE"], count=1) == ["NOVICE"]
    assert nearby("zzz", ["EXPERT"]) == []


# ADK's older forms, in memory and migrated.


def only_file(suite: Suite) -> LoadedFile:
    assert not suite.errors, suite.errors
    (file,) = suite.files
    return file


def test_convert__list_of_turns(tmp_path: Path) -> None:
    for folder in ("evals", "other"):
        write(tmp_path / folder / "old.test.json", LEGACY_TURNS)
    suite = load_suite(tmp_path, ["evals"])
    file = only_file(suite)
    assert [(problem.code, problem.severity) for problem in suite.problems] == [("legacy-format", Severity.NOTICE)]
    (selected,) = file.cases
    assert (file.legacy, selected.eval_id, selected.session_input) == (True, "evals/old.test.json", None)
    assert file.lines == {selected.eval_id: 1}
    first, second = selected.conversation or []
    assert (text_of(first.user_content), first.user_content.role) == ("Turn on the lamp", "user")
    assert (text_of(first.final_response), text_of(second.final_response)) == ("Done.", "You are welcome.")
    assert [(call.name, call.args) for call in tool_calls(first.intermediate_data)] == [("set", {"on": True})]
    assert isinstance(first.intermediate_data, IntermediateData)
    assert [(author, parts[0].text) for author, parts in first.intermediate_data.intermediate_responses] == [
        ("helper", "one moment")
    ]
    assert tool_calls(second.intermediate_data) == []
    other = only_file(load_suite(tmp_path, ["other"])).cases[0].conversation or []
    assert [turn.invocation_id for turn in other] == [first.invocation_id, second.invocation_id], "of the content only"
    assert first.invocation_id != second.invocation_id


def test_convert__list_of_evals(tmp_path: Path) -> None:
    write(tmp_path / "old.evalset.json", LEGACY_EVALS)
    file = only_file(load_suite(tmp_path))
    assert file.eval_set.eval_set_id == "old.evalset.json"
    sessions = {
        selected.eval_id: selected.session_input and selected.session_input.model_dump() for selected in file.cases
    }
    assert sessions == {
        "lamp": {"app_name": "home", "user_id": "u", "session_id": None, "state": {"a": 1}},
        "thanks": None,
        "plain": None,
        "half": {"app_name": "", "user_id": "", "session_id": None, "state": {"b": 2}},
    }
    text = (tmp_path / "old.evalset.json").read_text()
    lines = [number for number, line in enumerate(text.splitlines(), start=1) if line == "  {"]
    assert [file.lines[case.eval_id] for case in file.cases] == lines


def test_convert__initial_session(tmp_path: Path) -> None:
    session = write(tmp_path / "session.json", {"app_name": "home", "state": {"a": 1}})
    load(tmp_path, old=LEGACY_TURNS)
    (selected,) = only_file(load_suite(tmp_path, initial_session=Path("session.json"))).cases
    assert selected.session_input is not None
    assert selected.session_input.model_dump(exclude_none=True) == {
        "app_name": "home",
        "user_id": "",
        "state": {"a": 1},
    }
    load(tmp_path, old=LEGACY_EVALS)
    assert codes(load_suite(tmp_path, initial_session=session).problems) == ["legacy-format", "initial-session-unused"]
    write(session, {"state": []})
    suite = load_suite(tmp_path, initial_session=session)
    assert [(error.code, error.file) for error in suite.errors] == [("wrong-type", "session.json")]


@pytest.mark.parametrize(
    ("value", "code", "path", "says"),
    [
        ([{"query": 456}], "wrong-type", "[0].query", "the number 456"),
        ([{"query": "a"}, {"reference": "b"}], "missing-field", "[1]", "`query` of a turn"),
        ([{"query": "a", "reference": None}], "wrong-type", "[0].reference", "null"),
        ([{"query": "a", "expected_tool_use": [{"tool_name": "x"}]}], "missing-field", "[0].expected_tool_use[0]",
         "`tool_input`"),
        ([{"data": []}], "missing-field", "[0]", "`name`"),
        ([{"name": "n", "data": [{"query": []}]}], "wrong-type", "[0].data[0].query", "a list"),
        ([{"name": "n", "data": []}], "empty-conversation", "[0].data", "no turns"),
        ([LEGACY_EVALS[0], LEGACY_EVALS[0]], "duplicate-eval-id", "[1].name", "line 2"),
        ([{"query": "a"}], "needs-reference", None, "ADK's default criteria"),
        ([LEGACY_TURNS[0], {"query": "x"}], "turn-without-reference", "[1]", ""),
        ({"eval_set_id": "s", "eval_cases": [{"eval_id": "c", "conversation": [TURN | {"query": "a"}]}]}, "unknown-key",
         "eval_cases[0].conversation[0].query", ""),  # the current format, and wrong
    ],
)  # fmt: skip
def test_convert__problems_point_into_the_file(
    value: Any, code: str, path: str | None, says: str, tmp_path: Path
) -> None:
    (problem,) = [found for found in load(tmp_path, old=value).problems if found.code != "legacy-format"]
    assert (problem.code, problem.path) == (code, path)
    assert says in f"{problem.message} {problem.hint}"
    assert problem.line is not None


def test_migrate__list_of_turns(tmp_path: Path) -> None:
    old = write(tmp_path / "old.test.json", LEGACY_TURNS)
    session = write(tmp_path / "session.json", {"app_name": "home", "user_id": "u", "state": {"name": "Zoë"}})
    new = tmp_path / "new" / "lamp.evalset.json"
    assert migrate(old, new, initial_session=session) == []
    text = new.read_text(encoding="utf-8")
    assert "Zoë" in text
    migrated = EvalSet.model_validate(json.loads(text))
    assert migrated.eval_set_id == "lamp"
    assert [case.eval_id for case in migrated.eval_cases] == ["old"]
    before = only_file(load_suite(tmp_path, ["old.test.json"], initial_session=session)).cases[0]
    after = only_file(load_suite(tmp_path, ["new"])).cases[0]
    assert after.conversation == before.conversation
    assert after.session_input == before.session_input


def test_migrate__set_id_that_another_file_has(tmp_path: Path) -> None:
    old = write(tmp_path / "old.test.json", LEGACY_TURNS)
    write(tmp_path / "agent_a" / "new.test.json", {"eval_set_id": "new", "eval_cases": []})
    new = tmp_path / "agent_b" / "new.evalset.json"
    new.parent.mkdir()
    [problem] = migrate(old, new, root=tmp_path)
    assert (problem.severity, problem.code) == (Severity.NOTICE, "eval-set-id-taken")
    assert "`agent_a/new.test.json` has the id `new`" in problem.message
    assert json.loads(new.read_text(encoding="utf-8"))["eval_set_id"] == "new_agent_b"
    # Written once more it is no other file.
    other = tmp_path / "agent_a" / "new.test.json"
    other.unlink()
    assert migrate(old, new, root=tmp_path) == []
    assert json.loads(new.read_text(encoding="utf-8"))["eval_set_id"] == "new"


def test_migrate__list_of_evals_in_place(tmp_path: Path) -> None:
    file = write(tmp_path / "old.evalset.json", LEGACY_EVALS)
    before = only_file(load_suite(tmp_path)).cases
    file.chmod(0o640)
    assert migrate(file, file) == []
    after = only_file(load_suite(tmp_path))
    assert not after.legacy
    assert after.cases == before
    assert file.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["old.evalset.json"]


def test_migrate__rejects_current_and_invalid_files(tmp_path: Path) -> None:
    new = tmp_path / "new.json"
    present = write(tmp_path / "present.test.json", {"eval_set_id": "s", "eval_cases": []})
    assert codes(migrate(present, new)) == ["not-legacy"]
    assert codes(migrate(tmp_path / "none.json", new)) == ["unreadable-file"]
    assert codes(migrate(write(tmp_path / "bad.test.json", [{"query": 1}]), new)) == ["wrong-type"]
    old = write(tmp_path / "old.test.json", LEGACY_TURNS)
    assert codes(migrate(old, new, initial_session=tmp_path / "none.json")) == ["unreadable-file"]
    assert codes(migrate(old, old / "below" / "new.json")) == ["unwritable-file"]
    assert not new.exists()
    evals = write(tmp_path / "evals.json", LEGACY_EVALS)
    assert codes(migrate(evals, new, initial_session=write(tmp_path / "s.json", {}))) == ["initial-session-unused"]
    assert new.exists()


def test_migrate__comments_and_trailing_commas_are_dropped(tmp_path: Path) -> None:
    new = tmp_path / "new.json"
    old = tmp_path / "old.json"
    for text, expected in (
        ('{"eval_set_id": "s", "mine": 1, // id\n"eval_cases": [],}', eval_set(mine=1)),
        ('{"criteria": {"x": 1.0,},} # config', {"criteria": {"x": 1.0}}),
    ):
        old.write_text(text, encoding="utf-8")
        assert "json-cleaned" in codes(migrate(old, new))
        assert json.loads(new.read_text(encoding="utf-8")) == expected
    old.write_text(f"/* old */ {json.dumps(LEGACY_TURNS)[:-1]},]", encoding="utf-8")
    assert codes(migrate(old, new)) == ["json-cleaned"]
    assert [case["eval_id"] for case in json.loads(new.read_text(encoding="utf-8"))["eval_cases"]] == ["old"]
    new.unlink()
    old.write_text('{"eval_set_id": 1, "eval_cases": [],}', encoding="utf-8")
    assert "wrong-type" in codes(migrate(old, new))
    assert not new.exists()


def test_stem__suffixes() -> None:
    names = ("a.test.json", "b.evalset.json", "c.d.json", "e", ".test.json")
    assert [stem(Path(name)) for name in names] == ["a", "b", "c.d", "e", ".test"]
