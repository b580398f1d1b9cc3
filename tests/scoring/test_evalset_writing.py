"""Eval files changed and rendered."""

from __future__ import annotations

import copy
import json
import random
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from evalset_samples import GOOD_EVAL_SETS, GOOD_SCENARIOS, case, eval_set, json_values, load, places, turn
from golden_files import check as check_golden
from hypothesis import given
from hypothesis import strategies as st

from agent_eval_scoring.core.content import Content, FunctionCall, Part
from agent_eval_scoring.core.invocation import IntermediateData, Invocation
from agent_eval_scoring.core.problem import Problem, Severity
from agent_eval_scoring.evalset.json import (
    JsonPath,
    PatchError,
    patched_text,
    replaced,
    with_item,
    without,
    write_if_unchanged,
)
from agent_eval_scoring.evalset.json.patching import eval_set_text, write_text
from agent_eval_scoring.evalset.models.schema import EvalCase, EvalSet
from agent_eval_scoring.evalset.problem_texts import render_github, render_json, render_text, summary_line
from agent_eval_scoring.evalset.templates import MAX_TEXT, TemplateError, check, render

# Eval sets as texts: a change leaves all other characters as they are, and what is written reads the same.


CHANGES: dict[str, tuple[str, Any]] = {
    "remove from the middle": ("[1, 2,  3]", lambda v: without(v, (1,))),
    "remove the first": ("[ 1, 2 ]", lambda v: without(v, (0,))),
    "remove the last": ("[ 1, 2 ]", lambda v: without(v, (1,))),
    "remove the only one": ("[ 1 ]", lambda v: without(v, (0,))),
    "equal": ('[1, { "b":  [ 1,\n 2 ] }]', lambda _: [{"b": [1, 2]}]),
    "one": ('{"a":1}', lambda v: {**v, "b": [1, {"c": 2}]}),
    "compact": ('{"a":1,"b":2}', lambda v: {**v, "c": [1, 2]}),
    "one line": ('{ "a" : [ 1 ] }', lambda v: replaced(v, ("a",), {"b": 2})),
    "tabs": ("[\n\t1\n]", lambda v: with_item(v, (), {"a": [{"b": 2}]})),
    "crlf": ('{\r\n "a": [\r\n  1\r\n ]\r\n}\r\n', lambda v: with_item(v, ("a",), 2)),
    "crlf, empty": ('{\r\n "a": []\r\n}', lambda v: with_item(v, ("a",), 2)),
    "escapes": ('["\\u00e9", "x"]', lambda v: replaced(v, (1,), "ü")),
    "no escapes": ('["é", "x"]', lambda v: replaced(v, (1,), "ü")),
    "no escape, a backslash": ('["\\\\u00e9", "x"]', lambda v: replaced(v, (1,), "ü")),
    "mark, 1 is not true": ("\ufeff[1]\n\n", lambda v: replaced(v, (0,), True)),
    "scalar document": (" 1 \n", lambda v: "a"),
    "numbers": ('{"a": 1e2, "b": 1}', lambda v: replaced(v, ("b",), 1.0)),
    "several items": ("[1, 2, 3, 4]", lambda v: [1, 9, 3, 3.5, 4]),
    "brackets together": ('[{\n "a": 1\n}, {\n "a": 2\n}]', lambda v: with_item(v, (), {"a": 3})),
    "nothing changes": ('{"a": {"b": 1}, "a": {"b": 2}, "c": 3}', lambda v: replaced(v, ("a", "b"), 2)),
    "a duplicate key elsewhere": ('[{"a": 1, "a": 2}, {"c": 3}]', lambda v: replaced(v, (1, "c"), 4)),
}


def test_patched_text__styles() -> None:
    texts = []
    for name, (text, change) in CHANGES.items():
        old = json.loads(text.removeprefix("\ufeff"))
        texts.append(f"== {name}\n{text!r}\n{patched_text(text, old, change(old))!r}\n")
    check_golden("golden_patches.txt", "\n".join(texts))


@pytest.mark.parametrize(
    ("text", "old", "new", "message"),
    [
        pytest.param('{"a": 1, "a": 2}', {"a": 2}, {"a": 3}, r"more than once \(line 1\)", id="duplicate key"),
        pytest.param("[1, 2]", [1, 3], [1, 2, 3], "intended value", id="another old value"),
        pytest.param("[]", {"a": 1}, {"a": 2}, "does not have the value", id="another structure"),
        pytest.param("[1]", [1], [float("nan")], "can't be written as JSON", id="not JSON"),
        pytest.param("[1]", [1], ["\ud800"], "surrogate", id="not UTF-8"),
    ],
)
def test_patched_text__refuses(text: str, old: Any, new: Any, message: str) -> None:
    with pytest.raises(PatchError, match=message):
        patched_text(text, old, new)


VALUES = json_values(st.sampled_from("abcdé\n"), most=12)


def random_text(value: Any, random_: random.Random, indent: str, newline: str, depth: int = 1) -> str:
    """The value as JSON, with a style chosen for each container."""
    if not value or not isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=random_.random() < 0.5)
    lines = random_.random() < 0.6
    space = f"{newline}{indent * depth}" if lines else random_.choice(["", " "])
    end = f"{newline}{indent * (depth - 1)}" if lines else space
    comma = f",{space}" if lines else random_.choice([",", ", ", " , "])
    colon = random_.choice([":", ": ", " : "])
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    keys = [json.dumps(key) + colon for key in value] if isinstance(value, dict) else [""] * len(value)
    children = value.values() if isinstance(value, dict) else value
    texts = [random_text(child, random_, indent, newline, depth + 1) for child in children]
    return opening + space + comma.join(map(str.__add__, keys, texts)) + end + closing


def same(first: Any, second: Any) -> bool:
    return json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True)


@given(old=VALUES, new=VALUES, seed=st.randoms(use_true_random=False), data=st.data())
def test_patched_text__random_values_and_styles(old: Any, new: Any, seed: random.Random, data: st.DataObject) -> None:
    indent, newline = data.draw(st.sampled_from([("  ", "\n"), ("\t", "\r\n"), ("    ", "\n")]))
    text = data.draw(st.sampled_from(["", "\ufeff"])) + random_text(old, seed, indent, newline) + newline
    before = copy.deepcopy(old)

    whole = patched_text(text, old, new)
    assert same(json.loads(whole.removeprefix("\ufeff")), new)
    assert patched_text(whole, new, copy.deepcopy(new)) == whole

    path = data.draw(st.sampled_from(places(old)))
    single = replaced(old, path, new)
    changed = patched_text(text, old, single)
    assert same(json.loads(changed.removeprefix("\ufeff")), single)
    assert same(old, before), "the operations copy"
    start, end = span(text.removeprefix("\ufeff"), path)
    offset = text.startswith("\ufeff")
    assert changed.startswith(text[: start + offset])
    assert changed.endswith(text[end + offset :])
    if len(path) > 0:
        shorter = without(old, path)
        assert same(json.loads(patched_text(text, old, shorter).removeprefix("\ufeff")), shorter)


def span(text: str, path: JsonPath) -> tuple[int, int]:
    """The offsets of a value, computed with the decoder of the standard library only."""
    decoder = json.JSONDecoder(strict=False)

    def space(offset: int) -> int:
        while text[offset : offset + 1] in tuple(" \t\r\n"):
            offset += 1
        return offset

    offset = space(0)
    for step in path:
        closing, cursor, index = "]}"[text[offset] == "{"], space(offset + 1), 0
        while text[cursor] != closing:
            key: str | int = index
            if closing == "}":
                key, cursor = decoder.raw_decode(text, cursor)
                cursor = space(space(cursor) + 1)
            if key == step:
                offset = cursor
                break
            cursor = space(decoder.raw_decode(text, cursor)[1])
            cursor = space(cursor + 1) if text[cursor] == "," else cursor
            index += 1
    return offset, decoder.raw_decode(text, offset)[1]


@pytest.mark.nightly
def test_patched_text__12_of_1000_cases__is_fast() -> None:
    case = {"conversation": [turn(intermediate_data={"tool_uses": [{"name": "a", "args": {}}]})], "note": "x" * 4000}
    old = {"eval_cases": [{**case, "eval_id": f"case {number}"} for number in range(1000)]}
    text = json.dumps(old, indent=2)
    new = old
    for number in range(0, 1000, 90):
        uses = ("eval_cases", number, "conversation", 0, "intermediate_data", "tool_uses")
        new = with_item(new, uses, {"name": "get_status", "args": {}})
    started = time.process_time()
    changed = patched_text(text, old, new)
    assert time.process_time() - started < 2
    assert same(json.loads(changed), new)
    added, removed = set(changed.split("\n")) - set(text.split("\n")), set(text.split("\n")) - set(changed.split("\n"))
    assert len(added) <= 12 and not removed


def test_write_if_unchanged__keeps_bytes_and_refuses_another_text(tmp_path: Path) -> None:
    file, link = tmp_path / "a.json", tmp_path / "link.json"
    link.symlink_to(file)
    file.write_bytes(b"[1]\r\n")
    write_if_unchanged(link, "[1]\r\n", "[2]\r\n")
    assert (file.read_bytes(), link.is_symlink()) == (b"[2]\r\n", True)
    with pytest.raises(PatchError, match="another program"):
        write_if_unchanged(file, "[1]\r\n", "[3]\r\n")
    file.unlink()
    with pytest.raises(PatchError, match="read again"):
        write_if_unchanged(file, "[2]\r\n", "[3]\r\n")
    assert not file.exists()


def test_eval_set_text__round_trip() -> None:
    for name, sample in {**GOOD_EVAL_SETS, **GOOD_SCENARIOS}.items():
        eval_set = EvalSet.model_validate(sample)
        for each in eval_set.eval_cases:
            each.final_session_state = each.final_session_state or {}  # Nothing reads it, and a null is left out.
        assert EvalSet.model_validate(json.loads(eval_set_text(eval_set))) == eval_set, name


def test_eval_set_text__format() -> None:
    """Indented, in the names of ADK, without what is unset, but with what somebody has set to null."""
    call = FunctionCall(name="f", args={"x": None})
    turn = Invocation(
        user_content=Content(parts=[Part(text="日本語")]), intermediate_data=IntermediateData(tool_uses=[call])
    )
    case = EvalCase.model_validate({"evalId": "c", "conversation": [turn], "tags": ["ours"], "rubrics": None})
    check_golden("golden_eval_set.json", eval_set_text(EvalSet(eval_set_id="s", eval_cases=[case])))


def test_write_text__failure_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "x.evalset.json"
    write_text(path, eval_set_text(EvalSet(eval_set_id="old", eval_cases=[])))
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "\ud800")
    assert json.loads(path.read_text()) == {"eval_set_id": "old", "eval_cases": []}
    assert [file.name for file in path.parent.iterdir()] == ["x.evalset.json"]


# Findings as text, JSON and workflow commands.

PROBLEMS = [
    Problem(
        severity=Severity.WARNING, code="misspelt-key",
        message="`x` is not a known key here.", hint="Did you mean `y`?",
        file="b.test.json", line=2, column=1, path="eval_cases[0].x",
    ),
    Problem(severity=Severity.ERROR, code="no-eval-files", message="No eval file was found."),
    Problem(
        severity=Severity.ERROR, code="wrong-type", message="100% wrong:\nno, really", hint="Fix it.",
        file="a,b:c.test.json", line=12, column=7,
    ),
    Problem(severity=Severity.NOTICE, code="legacy-format", message="Old.", file="b.test.json", line=1, column=1),
]  # fmt: skip


HINT = 'Write into agent-eval.toml:\n    [agents]\n    "evals/**" = "a"\n::error::mine'
TO_COPY = Problem(severity=Severity.ERROR, code="agent-ambiguous", message="Two agents.", hint=HINT)


def test_render__formats() -> None:
    """In their order; of a hint that is to be copied, the lines stay."""
    texts = [render([*PROBLEMS, TO_COPY]) for render in (render_text, render_json, render_github)]
    check_golden("golden_problem_formats.txt", "\n".join(texts))
    assert (render_text([]), render_github([]), json.loads(render_json([]))) == ("", "", [])


HOSTILE = st.text() | st.sampled_from(
    [
        *("::error::x", "##[error]x", "a\n::error::x", "\r::stop-commands::x", "\x1b[2J"),
        *("###[[x", "# #[x", "\u2028::x", "%0A::"),
    ]
)


@given(message=HOSTILE, hint=HOSTILE, file=HOSTILE, path=HOSTILE)
def test_render__no_text_becomes_a_command(message: str, hint: str, file: str, path: str) -> None:
    where: dict[str, Any] = {"file": file, "line": 1, "column": 1, "path": path}
    problem = Problem(severity=Severity.ERROR, code="c", message=message, hint=hint, **where)
    text = render_text([problem])
    # .NET, which the runner is written in, ends lines at \r, \n and \r\n.
    for line in re.split("\r\n|\r|\n", text):
        assert not re.match("::[a-z]", line.strip(), re.IGNORECASE)
        assert "##[" not in line
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)
    command, rest = re.split("\r\n|\r|\n", render_github([problem]))
    assert command.startswith("::error file=") and rest == ""
    assert "##[" not in command


LEGACY = [{"query": "q", "reference": "r"}]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"a": "{", "b": []}, "2 files (2 with errors), 2 errors, 0 warnings"),
        ({"a": "{", "b": LEGACY}, "2 files (1 with errors), 1 case in the others, 1 error, 0 warnings, 1 notice"),
        ({"a": eval_set(case())}, "1 file, 1 case, 0 errors, 0 warnings"),
    ],
)
def test_summary_line__counts(files: dict[str, Any], expected: str, tmp_path: Path) -> None:
    assert summary_line(load(tmp_path, **files)) == expected


# Templates of the pull request are rendered in our process: they must end, and stay small.

LOOP, END = "{% for i in range(9999) %}", "{% endfor %}"


def test_render__rejects_growing_templates() -> None:
    grow = ["9 ** 9", "'a' * 1000", "'%99999d' % 1", "x ~ x", "x + x", "x.center(9999)", "x['replace']('a', x)"]
    grow += ["x | replace('a', x)", "x | join(x)", "x | indent(99)", "range(10001)"]
    templates = [f"{{{{ {expression} }}}}" for expression in grow]
    templates.append("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}")
    templates.append("{% for i in x recursive %}{{ loop(x) }}{% endfor %}")
    for template in (*templates, "a" * 200_001 + "{{ x }}"):
        for use in (check, lambda text: render(text, {"x": "a"})):
            with pytest.raises(TemplateError):
                use(template)


@pytest.mark.parametrize(
    "template",
    [
        f"{LOOP * 3}{END * 3}",
        f"{LOOP}{{% if (range(9999) | list) == x %}}{{% endif %}}{LOOP}.{END * 2}",
        f"{LOOP}{{{{ x }}}}{END}",
    ],
)
def test_render__stops_endless_templates(template: str) -> None:
    before, begun = sys.gettrace(), time.monotonic()
    with pytest.raises(TemplateError, match=r"steps|characters"):
        render(template, {"x": "a" * (MAX_TEXT // 1000)})

    assert time.monotonic() - begun < 10
    assert sys.gettrace() is before


def test_render__syntax_of_instructions() -> None:
    template = (
        "{% set greeting = 'Hi' %}{{ greeting }} {{ name | upper | default('x') }}"
        "{% for one in rules %}\n- {{ loop.index }} {{ one }}{% endfor %}"
        "{{ ', ' if rules else '' }}{{ rules | join(', ') }}"
        "{% if rules | length > 1 and name != 'b' %} many{% endif %}{{ 1 - 1 }}{{ range(2) | list }}"
    )
    assert render(template, {"name": "ada", "rules": ["a", "b"]}) == "Hi ADA\n- 1 a\n- 2 b, a, b many0[0, 1]"
    history = "user: something\n" * 50_000
    assert render("{{ history }}!", {"history": history}) == history + "!"
