"""Where the tables and keys of a TOML file stand, however it is written."""

from __future__ import annotations

import time
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.core.toml_lines import TomlError, lines_of, read_toml

TEXT = '''# policy = 1
gate = "both" # [[policy]]
"quoted key" = 1
paths = [
  "a", # "]
  "b]",
]
text = """
[[policy]]
x = "1" ""\\""" # """
last = \'\'\'
[x]''\'\'\'

[[policy]]
metric = "a"
  threshold=0.5
inline = { alpha = 1 }

[ agents ]
"evals/**" = 'x'
a.b.c = 1
[[ policy ]] # second
[[policy]]
metric = "c"
[policy.more]
deep = 1
[[quarantine]]
case = "x"'''


def test_toml_lines__every_way_of_writing() -> None:
    result = lines_of(TEXT)

    assert {path: line for path, line in result.items() if path[0] != "agents"} == {
        ("gate",): 2,
        ("quoted key",): 3,
        ("paths",): 4,
        ("text",): 8,
        ("last",): 11,
        ("policy",): 14,
        ("policy", 0): 14,
        ("policy", 0, "metric"): 15,
        ("policy", 0, "threshold"): 16,
        ("policy", 0, "inline"): 17,
        ("policy", 1): 22,
        ("policy", 2): 23,
        ("policy", 2, "metric"): 24,
        ("policy", 2, "more"): 25,
        ("policy", 2, "more", "deep"): 26,
        ("quarantine",): 27,
        ("quarantine", 0): 27,
        ("quarantine", 0, "case"): 28,
    }
    assert {path[1:]: line for path, line in result.items() if path[0] == "agents"} == {
        (): 19, ("evals/**",): 20, ("a",): 21, ("a", "b"): 21, ("a", "b", "c"): 21,
    }  # fmt: skip


VALUES = st.sampled_from(
    [
        "1",
        "true",
        '"# [x]"',
        "'\\'",
        "[1, 2]",
        "[\n # ]\n 1,\n]",
        '"""\n[[t]]\n"""',
        '""""a"""""',
        "{ a = [1], b = '}' }",
    ]
)


@given(st.lists(st.one_of(st.sampled_from(["# c = 1", "", "[[t]]"]), VALUES), max_size=12), st.booleans())
def test_toml_lines__each_key_is_at_the_line_where_it_was_written(parts: list[str], windows: bool) -> None:
    lines: list[str] = []
    expected: dict[tuple[str | int, ...], int] = {}
    table: tuple[str | int, ...] = ()
    tables = 0
    for number, part in enumerate(parts):
        line = len(lines) + 1
        if part == "[[t]]":
            table = ("t", tables)
            expected.setdefault(("t",), line)
            expected[table] = line
            tables += 1
        elif part and not part.startswith("# "):
            expected[*table, f"k{number}"] = line
            part = f"k{number} = {part}"
        lines += part.split("\n")
    text = ("\r\n" if windows else "\n").join(lines)
    tomllib.loads(text)

    assert lines_of(text) == expected


def test_toml_lines__what_is_no_toml_ends_it() -> None:
    assert lines_of("a = 1\n= 2\nb = 3") == {("a",): 1}
    assert lines_of("") == {}


@pytest.mark.parametrize(
    ("text", "says", "line"),
    [
        ("a = 1\nb = \n", "Invalid value", 2),
        ("a = 1\nhistory = " + "9" * 4_400, "more than 4,300 digits", 2),
        ("history = 0x" + "f" * 4_200, "more than 64 bits", None),
        ("a = [[{b = 18446744073709551616}]]", "more than 64 bits", None),
        ("a = " + "[" * 100_000, "too deeply", None),
        ("a = 2025-02-30", "nvalid date", None),
    ],
    ids=["no value", "digits", "hexadecimal", "inside", "deep", "no date"],
)
def test_read_toml__what_cannot_be_read_is_one_kind_of_error(text: str, says: str, line: int | None) -> None:
    with pytest.raises(TomlError, match=says) as caught:
        read_toml(text)
    assert caught.value.line == line or line is None


@pytest.mark.nightly
def test_lines_of__many_lines_in_linear_time() -> None:
    text = "".join(f"key{number} = 1\n" for number in range(60_000))
    begun = time.process_time()
    assert lines_of(text)["key59999",] == 60_000
    assert time.process_time() - begun < 10
