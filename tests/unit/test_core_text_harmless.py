"""Text in a log that nobody obeys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.core.text import harmless


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("::error::no", ": :error::no"),
        ("fine\n  ::add-mask::x", "fine\n  : :add-mask::x"),
        ("a ##[error] b", "a ## [error] b"),
        ("a::b", "a::b"),
        ("\x1b[31mred\x1b[0m", "\ufffd[31mred\ufffd[0m"),
        ("one\r\ntwo\tthree", "one\ntwo\tthree"),
        ("100%\r::error::", "100%\ufffd::error::"),
        ("\ud83d", "\ufffd"),
    ],
)
def test_what_becomes_of_it(value: str, shown: str) -> None:
    assert harmless(value) == shown


@given(st.text(alphabet=":#[ \n\r\ta\u2028\x85\x0b"))
def test_no_line_is_a_command(value: str) -> None:
    for line in harmless(value).splitlines():
        assert not line.lstrip().startswith("::")
        assert "##[" not in line


@given(st.text(st.characters(categories=["L", "N", "P", "Zs"])))
def test_ordinary_text_stays(value: str) -> None:
    if "##[" not in value and not value.lstrip().startswith("::"):
        assert harmless(value) == value
