"""Names and counts in sentences."""

from __future__ import annotations

from agent_eval.core.text import every, listed, short_name


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
