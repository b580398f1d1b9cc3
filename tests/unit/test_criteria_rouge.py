import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.criteria._sequences import rouge1
from agent_eval.criteria.tokenize import stem, tokenize, words

VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "vectors" / "adk_2_13_0_rouge1.json").read_text(encoding="utf-8")
)["rouge1"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_rouge__vectors_of_adk(vector: dict[str, Any]) -> None:
    actual, reference = tokenize(vector["actual"]), tokenize(vector["reference"])
    rouge = rouge1(reference, actual)

    assert actual == vector["actual_tokens"]
    assert reference == vector["reference_tokens"]
    assert (rouge.precision, rouge.recall, rouge.f_measure) == (
        vector["precision"],
        vector["recall"],
        vector["fmeasure"],
    )


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_ascii_text__is_tokenized_as_by_rouge_score(text: str) -> None:
    from rouge_score.tokenizers import DefaultTokenizer

    assert tokenize(text) == DefaultTokenizer(use_stemmer=True).tokenize(text)


@given(st.text())
def test_any_text__has_one_token_for_each_word(text: str) -> None:
    split = words(text)

    assert tokenize(text) == [stem(word) for word in split]
    assert not [word for word in split if not word or word.split() != [word]]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", []),
        ("...! 😀 \x00\u200b", []),
        ("running runs the dies die", ["run", "run", "the", "die", "die"]),
        ("今天a气b", ["今", "天", "a", "气", "b"]),
        ("㐀㐁", ["㐀㐁"]),
        ("กำ", ["กํ", "า"]),
        ("ก้a", ["ก้a"]),
        ("aก", ["a", "ก"]),
        ("ﾃﾞｽﾄ", ["デ", "ス", "ト"]),
        ("½ m² Google™", ["1", "2", "m2", "googletm"]),
        ("İ", ["i\u0307"]),
        ("\ud800lone", ["lone"]),
        ("cities cities\u0301", ["citi", "citie\u015b"]),
    ],
)
def test_rouge__tokens(text: str, tokens: list[str]) -> None:
    assert tokenize(text) == tokens


def test_stem__huge_word_is_not_cached() -> None:
    assert tokenize("a" * 200_000 + "ing") == ["a" * 200_000]
