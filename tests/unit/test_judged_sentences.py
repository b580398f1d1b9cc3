"""Sentences: no part of the text is lost, and nothing is added."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.criteria.judged._hallucinations import covering, read_sentences


@pytest.mark.parametrize(
    ("text", "sentences", "expected"),
    [
        ("One. Two.", ["One.", "Two."], ["One.", "Two."]),
        ("One.  Two\nthree.", ["One.", "Two three."], ["One.", "Two three."]),
        ("One. Two. Three.", ["One.", "Three."], ["One.", "Two.", "Three."]),
        ("One. Two.", [], ["One. Two."]),
        ("One.", ["One.", "Invented."], ["One."]),
        ("One. Two.", ["Two.", "One."], ["One.", "Two."]),  # out of order: the second does not occur after the first
        ("Ja. Ja. Nein.", ["Ja.", "Ja.", "Nein."], ["Ja.", "Ja.", "Nein."]),
        ("今天很好。订单已发货！", ["今天很好。"], ["今天很好。", "订单已发货！"]),
        ("- one\n- two\n", ["one", "two"], ["one", "two"]),
        ("😀", ["", "  "], []),
        ("", ["x"], []),
    ],
)
def test_judged_sentences__covering(text: str, sentences: list[str], expected: list[str]) -> None:
    assert covering(text, sentences) == expected


@given(st.text(max_size=40), st.lists(st.text(max_size=8), max_size=5))
def test_every_letter_of_the_text_is_in_a_sentence__once_and_in_order(text: str, sentences: list[str]) -> None:
    covered = covering(text, sentences)

    assert "".join(c for c in "".join(covered) if c.isalnum()) == "".join(c for c in text if c.isalnum())


@pytest.mark.parametrize("value", [None, [], "x", {}, {"sentences": "x"}, {"sentences": [1, None]}])
def test_a_reply_of_another_form__has_no_sentences(value: object) -> None:
    assert read_sentences(value) == []
