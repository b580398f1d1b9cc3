"""Text in a log that acts on neither terminals nor runners; names and counts in sentences."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.core.text import every, harmless, listed, short_name, shorten


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("::error::no", ":\u200b:error:\u200b:no"),
        ("fine\n  ::add-mask::x", "fine\n  :\u200b:add-mask:\u200b:x"),
        ("a ##[error] b", "a #\u200b#[error] b"),
        ("a::b", "a:\u200b:b"),
        ("\x1b[31mred\x1b[0m", "\ufffd[31mred\ufffd[0m"),
        ("one\r\ntwo\tthree", "one\ntwo\tthree"),
        ("100%\r::error::", "100%\ufffd:\u200b:error::"),
        ("\ud83d", "\ufffd"),
    ],
)
def test_text_harmless__what_becomes_of_it(value: str, shown: str) -> None:
    assert harmless(value) == shown


@given(st.text(alphabet=":#[ \n\r\ta\u2028\x85\x0b"))
def test_text_harmless__no_line_is_a_command(value: str) -> None:
    for line in harmless(value).splitlines():
        assert not re.match(r"\s*::[a-z]", line)
        assert "##[" not in line


@given(st.text(st.characters(categories=["L", "N", "P", "Zs"])))
def test_text_harmless__ordinary_text_stays(value: str) -> None:
    if "##[" not in value and "::" not in value:
        assert harmless(value) == value


@pytest.mark.parametrize("length", [61, 100, 999, 1_035, 1_060, 1_099, 10_040, 123_456])
@pytest.mark.parametrize("limit", [40, 60, 61, 300])
def test_shorten__counts_what_it_leaves_out(length: int, limit: int) -> None:
    value = "x" * length
    shown = shorten(value, limit)
    if length <= limit:
        assert shown == value
        return
    assert len(shown) == limit
    said = re.search(r"…([0-9,]+) more", shown)
    assert said is not None
    assert int(said.group(1).replace(",", "")) == length - shown.count("x")


def test_listed__shows_the_first_names_and_counts_the_rest() -> None:
    assert listed([], 3) == ""
    assert listed(["a"], 3) == "a"
    assert listed(["a", "b", "c"], 3) == "a, b, c"
    assert listed(["a", "b", "c"], 2) == "a, b and 1 more"
    assert listed(["a"] * 1_502, 2, "file") == "a, a and 1,500 more files"
    assert listed(["a", "b", "c"], 2, "file") == "a, b and 1 more file"


def test_listed__long_names_do_not_fill_the_text() -> None:
    names = [f"evals/{'x' * 5_000}.json:{number}" for number in range(5)]
    assert len(listed(names, 3)) < 1_600
    assert len(short_name(names[0])) == 400
    assert short_name(names[0]).startswith("evals/") and short_name(names[0]).endswith(":0")


def test_every__is_grammatical_for_one_and_two() -> None:
    assert [every(count, "case") for count in (1, 2, 3, 1_000)] == [
        "the only case",
        "both cases",
        "all 3 cases",
        "all 1,000 cases",
    ]
