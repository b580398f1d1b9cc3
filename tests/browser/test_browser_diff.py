"""Word differences of the report page: src/agent_eval/report/html/diff.js in a real browser."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import Page

PAIRS = 15
"""Pairs of texts of one example: a call of the browser costs more than a comparison."""
WRITTEN = st.text(st.characters(codec="utf-8"), max_size=30)
"""Python makes lone surrogates visible before they reach the page."""
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | WRITTEN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def diff(functions: Callable[..., Page]) -> Page:
    return functions("diff.js")


def words() -> st.SearchStrategy[str]:
    """Texts that have much in common, of several scripts; also white space alone and combining marks."""
    pieces = st.sampled_from(
        ["the", "lamp", " ", " ", "\n", "is", "on", ".", "照明", "を", "สวัสดี", "e\u0301", "مصباح", "🙂", "1.5", "x_y"]
    )
    return st.lists(pieces, max_size=25).map("".join) | WRITTEN


@given(pairs=st.lists(st.tuples(words(), words()), min_size=PAIRS, max_size=PAIRS))
def test_diff_words__both_texts_can_be_rebuilt(diff: Page, pairs: list[tuple[str, str]]) -> None:
    differences = diff.evaluate("pairs => pairs.map(([a, b]) => diffWords(a, b, 10000))", pairs)
    for (before, after), runs in zip(pairs, differences, strict=True):
        assert "".join(run["text"] for run in runs if run["op"] != "insert") == before
        assert "".join(run["text"] for run in runs if run["op"] != "delete") == after
        assert sum(len(run["text"]) for run in runs) <= len(before) + len(after)
        assert all(one["op"] != other["op"] for one, other in itertools.pairwise(runs))
        assert before != after or all(run["op"] == "equal" for run in runs)


def test_diff_words__is_short_where_little_changed(diff: Page) -> None:
    def changed(before: str, after: str) -> list[tuple[str, str]]:
        runs = diff.evaluate("([a, b]) => diffWords(a, b)", [before, after])
        return [(run["op"], run["text"]) for run in runs if run["op"] != "equal"]

    assert changed("The lamp is on.", "The lamp is off.") == [("delete", "on"), ("insert", "off")]
    assert changed("照明をつけました。", "照明を消しました。") == [("delete", "つけ"), ("insert", "消し")]
    assert changed("one two three", "four five six") == [("delete", "one two three"), ("insert", "four five six")]
    assert changed("", "x") == [("insert", "x")]
    assert changed("same", "same") == []
    assert changed(" ", " ") == []


def test_diff_words__gives_up_on_long_texts_in_time(diff: Page) -> None:
    script = """() => {
      const words = (count, seed) => Array.from({ length: count }, (_, i) => `w${(i * seed) % 9973}`).join(" ");
      const timed = (a, b, ...milliseconds) => {
        const start = performance.now();
        const runs = diffWords(a, b, ...milliseconds);
        return [runs === null, performance.now() - start];
      };
      const long = "x ".repeat(1_000_000);
      return {
        tooMany: timed(words(2500, 1), "x"),
        tooDifferent: timed(words(1900, 7919), words(1900, 104729), 1),
        equal: timed(words(1900, 31), words(1900, 31), 10000),
        huge: timed(long, `${long}y`),
      };
    }"""
    results: dict[str, Any] = diff.evaluate(script)
    assert {name: gave_up for name, (gave_up, _) in results.items()} == {
        "tooMany": True,
        "tooDifferent": True,
        "equal": False,
        "huge": True,
    }
    # At most 50 ms by its own clock; the rest is for a loaded machine.
    assert all(milliseconds < 1500 for _, milliseconds in results.values()), results


@given(value=VALUES)
def test_diff_values__empty_only_for_equal_values(diff: Page, value: object) -> None:
    changed = {"a": value, "b": 1}
    evaluate = "([a, b]) => diffValues(a, b).map(({ path }) => path)"
    assert diff.evaluate(evaluate, [changed, {"b": 1, "a": value}]) == []
    assert diff.evaluate(evaluate, [changed, {"a": value, "b": 2}]) == ["b"]
    assert diff.evaluate(evaluate, [{"list": [value, {"key": 1}]}, {"list": [value, {"key": "1"}]}]) == ["list[1].key"]
    assert diff.evaluate(evaluate, [{"a": 1}, {}]) == ["a"]
