"""Files that are no JSON: the cause, the place, and what to do."""

from __future__ import annotations

import json
import re
import time
import tracemalloc

import pytest
from evalset_samples import json_values, places
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.core.problem import Problem, Severity
from agent_eval.evalset.json.patching import eval_set_text
from agent_eval.evalset.json.positions import Positions, format_path
from agent_eval.evalset.json.reading import parse_document
from agent_eval.evalset.models.schema import EvalSet


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
    assert problems == []
    assert document is not None
    assert json.loads(eval_set_text(EvalSet.model_validate(document.value))) == document.value


def test_parse_document__surrogate_pairs_and_escaped_backslashes() -> None:
    document, problems = parse_document(rb'["\ud83d\ude00", "\\ud800"]', "f.json")
    assert problems == []
    assert document is not None
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
    assert positions.lines_of_items(("a",)) == []
    assert positions.lines_of_items(("x",)) == []


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
    assert format_path(("eval_cases", 2, "session_input", "state", "a b", 0)) == (
        'eval_cases[2].session_input.state["a b"][0]'
    )
    assert format_path(()) == ""
    assert re.fullmatch(r"\[0\]\.a", format_path((0, "a")))


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
