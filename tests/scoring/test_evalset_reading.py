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
from golden_files import DATA, check
from hypothesis import assume, example, given
from hypothesis import strategies as st

from agent_eval_scoring.core.problem import Severity, has_error
from agent_eval_scoring.core.selectors import Selector, matches, nearby, parse_selector, select
from agent_eval_scoring.evalset.json.patching import eval_set_text
from agent_eval_scoring.evalset.json.positions import Positions, format_path
from agent_eval_scoring.evalset.json.reading import parse_document
from agent_eval_scoring.evalset.loading import load_suite
from agent_eval_scoring.evalset.models.packed import messages_of, pack, packed_turns
from agent_eval_scoring.evalset.models.schema import EvalCase, EvalSet
from agent_eval_scoring.evalset.problem_texts import render_json, render_text
from agent_eval_workbench.commands.migrate import migrate
from agent_eval_workbench.recording.target import stem

# Files that are no JSON: the cause, the place, and what to do.


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
MISTAKES: dict[str, str | bytes] = {
    "empty": b"",
    "blank": b" \r\n\t",
    "utf-8 mark": b"\xef\xbb\xbf{}",
    "utf-16 with mark": "{}".encode("utf-16"),
    "utf-16 without mark": "{}".encode("utf-16-be"),
    "utf-32": "{}".encode("utf-32"),
    "latin-1 byte": '{\n "ä": "é'.encode() + b"\xe9" + b'"}',
    "line comment": '{\n  // note\n  "a": 1}',
    "hash comment": '{"a": 1 # note\n}',
    "block comment": "[1, /* two */ 2]",
    "comment after the end": "[1] // end",
    "comment before the start": "// start\n[1]",
    "comma before a brace": '{"a": 1,\n}',
    "comma before a bracket": "[1,\n 2 ,\n]",
    "single-quoted key": "{'a': 1}",
    "single-quoted value": "{\"a\": 'b'}",
    "curly quotes": "{“a”: 1}",
    "nan": '{"a": "NaN",\n "b": NaN}',
    "infinity": "[-Infinity]",
    "too big a float": "[1, 1e999]",
    "too long an integer": '["5", ' + "9" * 5000 + "]",
    "open list": '{"a": [1, 2',
    "open string": '{"a": "b',
    "second document": '{"a": 1}\n{"a": 2}',
    "three lines of JSON": '{"a": 1}\n{"a": 2}\n{"a": 3}\n',
    "a list after a list": "[1]\n\n[2]",
    "a brace too many": '{"a": 1}}',
    "a word after the end": '{"a": 1} done',
    "yaml": "eval_set_id: s\neval_cases:\n  - eval_id: a\n",
    "yaml, with a comment and a line": "# cases\n---\neval_set_id: s\n",
    "yaml, a list": "- query: a\n  reference: b\n",
    "yaml, with quotes": '"eval_set_id": s\n',
    "toml": "# config\n[criteria]\nresponse_match_score = 0.5\n",
    "python": "eval_set = {'eval_set_id': 's'}\n",
    "a python dict": "{'eval_set_id': 's', 'ok': True, 'more': None}",
    "python's none": '{"a": None}',
    "a python tuple": '{"a": (1, 2)}',
    "a python string": '{"a": f"x"}',
    "a long python string": '{"a": """x"""}',
    "javascript": "module.exports = {a: 1};\n",
    "javascript's undefined": '{"a": undefined}',
    "json5": "{a: 'x', b: +1, c: .5, d: 0x1F,}",
    "json5, with a comment": "{\n  // mine\n  a: 'x'\n}",
    "a plus": '{"a": +1}',
    "a point": '{"a": .5}',
    "hexadecimal": '{"a": 0x1F}',
    "a zero": '{"a": 007}',
    "an equals sign": '{"a" = 1}',
    "a template": '{"a": {{ value }}}',
    "a variable": '{"a": ${VALUE}}',
    "html": "<!DOCTYPE html>\n<html><body>Sign in</body></html>",
    "xml": '<?xml version="1.0"?>\n<a/>',
    "an error of a server": "404: Not Found",
    "csv": "query,reference\nhi,hello\n",
    "markdown": '```json\n{"a": 1}\n```\n',
    "a heading": "# Weather\n",
    "headings and words": "# Weather\n\n## Setup\n\nInstall it.\n",
    "words before it": 'Here is the eval set:\n{"a": 1}',
    "a pointer of lfs": "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n",
    "a link": "../evals/cases.evalset.json",
    "encrypted": "-----BEGIN PGP MESSAGE-----\n\nhQEMA\n",
    "gzip": b"\x1f\x8b\x08\x00\x00",
    "zip": b"PK\x03\x04\x14\x00",
    "git-crypt": b"\0GITCRYPT\0x",
    "sqlite": b"SQLite format 3\0\x10",
    "zeroes": b"\0" * 20,
    "missing comma": '{"a": 1 "b": 2}',
    "missing colon": '{"a" 1}',
    "bare key": "{a: 1}",
    "python's true": '{"a": True}',
    "a decimal comma": '{"a": 0,5}',
    "raw line break": '{"a": "x\ny"}',
    "lone backslash": '{"a": "C:\\dir"}',
    "anything else": "[1, ?]",
    "comma too many in an object": '{"a": 1,,\n "b": 2}',
    "comma too many in a list": '{"a": [1,\n, 2]}',
    "comma first": "[, 2]",
    "conflict": "[\n<<<<<<< HEAD\n1\n=======\n2\n>>>>>>> x\n]",
    "lone surrogate": '["\\ud800"]',
    "lone surrogate in a key": '[{"\\udc00": 1}]',
    "only one of a key's values": '{"a": {"x": 1,\n"b": 0, "x": 2}, "c": 1, "c": 1, "c": 3}',
    "comments and commas": COMMENTED,
    "a comment, and a value that is missing": '{"a": 1, // note\n "b": }',
    "open comment": "[1, /* never closed",
    "open string with what looks like a comment": '{"a": "never closed // ,]',
    **{f"{depth} lists": "[" * depth + "]" * depth for depth in (202, 800, 5_000, 200_000)},
    **{f"{depth} objects": '{"a":' * depth + "1" + "}" * depth for depth in (202, 800, 5_000, 200_000)},
}


def test_parse_document__mistakes() -> None:
    """The cause, the place, and what to do; what a reader that drops comments says, if it is something else."""
    blocks = []
    for name, data in MISTAKES.items():
        text = data.encode() if isinstance(data, str) else data
        read, problems = parse_document(text, "f.json")
        lenient, others = parse_document(text, "f.json", lenient=True)
        assert (read is None) == has_error(problems), name
        said = f"{read.value}\n" if read else ""
        if others != problems:
            said += f"{render_text(problems)}without comments: {lenient.value if lenient else None}\n"
        blocks.append(f"== {name}\n{said}{render_text(others)}")
    check("golden_json_mistakes.txt", "\n".join(blocks))


_KEYS = st.sampled_from(['"a"', '"b"', r'"\""', r'"\u0022"', r'"\u0061"', '"é"'])
_REFUSED = ["-1E400", "NaN", "1 2", r'"\ud800"']
_LEAVES = st.sampled_from(["1", "1.0", "-0", "-0.0", "1e5", "5e-324", "9" * 30, "null", '"Infinity"', *_REFUSED])
_TEXTS = st.recursive(
    _LEAVES | _KEYS,
    lambda child: (
        st.lists(child, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | st.lists(st.tuples(_KEYS, child), max_size=3).map(lambda items: f"{{{','.join(map(': '.join, items))}}}")
    ),
    max_leaves=8,
)


@given(_TEXTS)
@example(r'{"a": 1, "a": 2, "b": ["\u0022", "\u0022"]}')
def test_parse_document__values_and_duplicate_keys_are_those_of_json(text: str) -> None:
    twice = []

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        twice.extend([True] * (len(found) > len(dict(found))))
        return dict(found)

    document, problems = parse_document(text.encode(), "f.json")
    if document is None:
        assert any(part in text for part in _REFUSED)
    else:
        assert repr(document.value) == repr(json.loads(text, object_pairs_hook=pairs))
        assert twice or not any(part in text for part in _REFUSED)
        assert {problem.code for problem in problems} == {"duplicate-key"} & {"duplicate-key" for _ in twice}


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


def test_load_suite__packed_turns_are_the_same(tmp_path: Path) -> None:
    calls = {"toolUses": [{"name": "t", "args": {"a": None, "b": [1.0, 'é\u2028"', {}]}}]}
    user, answer = {"role": None, "parts": [{"text": 'hi "conversation":[]'}]}, {"parts": [{"text": "yes"}]}
    turn = {"userContent": user, "finalResponse": answer, "intermediateData": calls}
    turns = [turn, {"user_content": {"parts": [{"inline_data": {"mime_type": "a/b", "data": "AAE="}}]}}]
    content = eval_set(case(conversation=turns), case(eval_id='"conversation":[]'))
    (tmp_path / "a.test.json").write_text(json.dumps(content), "utf-8")
    assert not load_suite(tmp_path).errors
    [[one, other]] = [file.cases for file in load_suite(tmp_path).files]
    [[packed, _]] = [file.cases for file in load_suite(tmp_path, packed=lambda case: case.eval_id).files]
    kept = packed_turns(packed)
    assert kept is not None and packed_turns(one) is None
    assert packed == one and packed != other and len(kept) == 2
    assert kept.content == one.eval_id and [*kept] == kept[:] == one.conversation
    for exclude_none in (True, False):
        assert packed.model_dump_json(exclude_none=exclude_none) == one.model_dump_json(exclude_none=exclude_none)
    said = one.model_dump_json(exclude_unset=True, exclude_none=True)
    assert f'"conversation":{kept.text.decode()}' in said


_PART = st.fixed_dictionaries({"text": st.none() | st.text()}, optional={"thought": st.none() | st.just(True)})
_CONTENT = st.fixed_dictionaries({}, optional={"role": st.none() | st.text(), "parts": st.lists(_PART, max_size=2)})


@given(st.lists(_CONTENT, min_size=1, max_size=2))
def test_packed_turns__messages_are_those_of_the_models(contents: list[dict[str, Any]]) -> None:
    made = EvalCase.model_validate({"eval_id": "a", "conversation": [{"user_content": each} for each in contents]})
    messages = messages_of(made)
    assert messages == [turn.user_content.model_dump_json().encode() for turn in made.conversation or ()]
    pack([made], lambda case: "")
    assert packed_turns(made) and messages_of(made) == messages


def test_load_suite__relative_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load(tmp_path / "evals", a=eval_set(case()), b=eval_set(case()))
    monkeypatch.chdir(tmp_path / "evals")
    assert [file.path for file in load_suite(Path(".."), ["evals/b.test.json:c"]).files] == ["evals/b.test.json"]
    paths = [file.path for file in load_suite(tmp_path / "evals" / "..").files]
    assert paths == ["evals/a.test.json", "evals/b.test.json"]


KEYS = ("eval_set_id", "eval_cases", "eval_id", "conversation", "query", "name", "data", "rubrics")
FILES = json_values(st.sampled_from(KEYS), most=15)


@given(value=FILES, config=FILES)
def test_load_suite__never_raises(value: Any, config: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("any")
    write(root / "a.test.json", value)
    write(root / "test_config.json", {"criteria": config})
    write(root / "session.json", config)
    suite = load_suite(root, initial_session=Path("session.json"))
    assert suite.file_count == 1 or {"foreign-file", "no-eval-files"} <= {problem.code for problem in suite.problems}
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

VECTORS = json.loads((DATA / "evalset" / "adk_2_13_0_selectors.json").read_text(encoding="utf-8"))["selector"]
WITH_COLONS: dict[str, dict[str, list[str]]] = {
    "a.json:": {"a.json:": []},
    "C:/x:c1,c2:zz": {"C:/x": ["c1", "c2:zz"]},
    "gs://b/x.json:c1": {"gs": ["//b/x.json:c1"]},
    "/abs/p:q/a.json:c1": {"/abs/p": ["q/a.json:c1"]},
}
"""ADK drops what follows a second colon; an id may hold one. Without ids ADK runs all cases, we none. (ADK keeps blanks
around ids, too; we trim them.)"""


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
        ("a.json: , ", {"a.json"}, Selector(path="a.json: , ")),
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


@pytest.mark.parametrize("form", ["turns", "evals"])
def test_convert__as_migrate_writes_it(form: str, tmp_path: Path) -> None:
    """In memory and as a file, of which the golden file is a copy."""
    turns = form == "turns"
    old = write(tmp_path / "evals" / f"{form}.test.json", LEGACY_TURNS if turns else LEGACY_EVALS)
    session = write(tmp_path / "session.json", {"app_name": "home", "state": {"name": "Zoë"}}) if turns else None
    write(tmp_path / "other" / f"{form}.test.json", LEGACY_TURNS)
    suite = load_suite(tmp_path, ["evals"], initial_session=session and Path(session.name))
    [file] = suite.files
    assert [(problem.code, problem.severity) for problem in suite.problems] == [("legacy-format", Severity.NOTICE)]
    assert (file.legacy, file.eval_set.eval_set_id) == (True, f"evals/{form}.test.json")
    text = old.read_text().splitlines()
    starts = [1] if turns else [number for number, line in enumerate(text, start=1) if line == "  {"]
    assert [file.lines[case.eval_id] for case in file.cases] == starts
    new = tmp_path / "new" / f"{form}.evalset.json"
    assert migrate(old, new, initial_session=session) == []
    check(f"golden_migrated_{form}.json", new.read_text(encoding="utf-8"))
    [migrated] = load_suite(tmp_path, ["new"]).files
    ids = [f"evals/{form}.test.json"] if turns else [case.eval_id for case in migrated.cases]
    assert [case.model_copy(update={"eval_id": name}) for name, case in zip(ids, migrated.cases, strict=True)] == list(
        file.cases
    )
    assert not migrated.legacy
    [[other]] = [file.cases for file in load_suite(tmp_path, ["other"]).files]
    assert other.conversation == file.cases[0].conversation, "ids are of the content only"


def test_convert__initial_session(tmp_path: Path) -> None:
    session = write(tmp_path / "session.json", {"app_name": "home", "state": {"a": 1}})
    load(tmp_path, old=LEGACY_EVALS)
    assert codes(load_suite(tmp_path, initial_session=session).problems) == ["legacy-format", "initial-session-unused"]
    write(session, {"state": []})
    suite = load_suite(tmp_path, initial_session=session)
    assert [(error.code, error.file) for error in suite.errors] == [("wrong-type", "session.json")]


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


@pytest.mark.parametrize("in_evals", [False, True])
def test_migrate__answers_of_tools_become_those_of_the_case(in_evals: bool, tmp_path: Path) -> None:
    uses = [
        {"tool_name": "rain", "tool_input": {}, "mock_tool_output": said} for said in ("It rains.", None, "", {"mm": 3})
    ]
    turns: Any = [{"query": "?"}, {"query": "And?", "expected_tool_use": uses}]
    old = write(tmp_path / "old.test.json", [{"name": "a", "data": turns}] if in_evals else turns)

    [notice] = migrate(old, tmp_path / "new.evalset.json")

    assert (notice.severity, notice.code) == (Severity.NOTICE, "mock-output-kept")
    assert "of 2 expected calls" in notice.message
    [case] = json.loads((tmp_path / "new.evalset.json").read_text("utf-8"))["eval_cases"]
    assert [each["response"] for each in case["conversation"][1]["intermediate_data"]["tool_responses"]] == [
        {"result": "It rains."}, {"mm": 3},
    ]  # fmt: skip


def test_migrate__in_place(tmp_path: Path) -> None:
    file = write(tmp_path / "old.evalset.json", LEGACY_EVALS)
    file.chmod(0o640)
    assert migrate(file, file) == []
    assert not load_suite(tmp_path).problems
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


COMMENTS = (
    '{"eval_set_id": "s", "mine": 1, // id\n"eval_cases": [],}',
    '{"criteria": {"x": 1.0,},} # config',
    f"/* old */ {json.dumps(LEGACY_TURNS[1:])[:-1]},]",
    '{"eval_set_id": 1, "eval_cases": [],}',
)


def test_migrate__scenarios_of_adk(tmp_path: Path) -> None:
    """The id is what `adk eval_set add_eval_case` of google-adk 2.13.0 gives."""
    plan = {"startingPrompt": "Book a flight.", "conversation_plan": "To Rome; then thank."}
    other = {"starting_prompt": "Hi", "conversation_plan": "Be rude.", "user_persona": "NOVICE"}
    old, new = write(tmp_path / "scenarios.json", {"scenarios": [plan, plan, other]}), tmp_path / "new.evalset.json"
    session = write(tmp_path / "session.json", {"app_name": "trip", "user_id": "u", "state": {"budget": 150}})
    assert migrate(old, new, initial_session=session) == []
    write(tmp_path / "test_config.json", {"criteria": {"safety_v1": 0.5}})
    suite = load_suite(tmp_path, [str(new)])
    assert not suite.errors
    first, second = suite.files[0].cases
    assert first.eval_id == "9e8058f5" and first.session_input and first.session_input.state == {"budget": 150}
    assert second.conversation_scenario and second.conversation_scenario.user_persona == "NOVICE"
    wrong = {"scenarios": [{"starting_prompt": "Hi"}]}
    assert codes(migrate(write(tmp_path / "a.json", wrong), new)) == ["missing-field"]
    assert codes(migrate(write(tmp_path / "a.json", {"scenarios": []}), new)) == ["invalid-value"]
    assert codes(migrate(old, new, initial_session=write(tmp_path / "b.json", {"state": 1}))) == [
        "missing-field"
    ] * 2 + ["wrong-type"]
    assert codes(migrate(old, new, initial_session=tmp_path / "none.json")) == ["unreadable-file"]


def test_migrate__comments_and_trailing_commas_are_dropped(tmp_path: Path) -> None:
    text = ""
    for number, old in enumerate(COMMENTS):
        new = tmp_path / f"{number}.json"
        problems = migrate(write(tmp_path / "old.json", old), new)
        said = render_text(problems).replace(f"{tmp_path}/", "")
        text += f"== {old}\n{said}{new.read_text(encoding='utf-8') if new.exists() else 'nothing is written'}\n"
    check("golden_migrated_comments.txt", text)


def test_stem__suffixes() -> None:
    names = ("a.test.json", "b.evalset.json", "c.d.json", "e", ".test.json")
    assert [stem(Path(name)) for name in names] == ["a", "b", "c.d", "e", ".test"]


def test_migrate__a_table_gets_a_hint_of_what_the_command_reads(tmp_path: Path) -> None:
    (tmp_path / "cases.csv").write_text("query,reference\nhi,hello\n", "utf-8")
    [problem] = migrate(tmp_path / "cases.csv", tmp_path / "new.evalset.json")
    assert problem.code == "not-json" and problem.hint is not None
    assert "exclude" not in problem.hint and '{"eval_set_id": "...", "eval_cases": [...]}' in problem.hint
