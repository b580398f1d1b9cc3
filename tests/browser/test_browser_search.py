"""Functions of the page: the language of the search box, the order of the list, scores, diffs."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import golden_files
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from list_samples import METRICS, index_of_rows, row

if TYPE_CHECKING:
    from playwright.sync_api import Page


# The language of the search box and the order of the list.


FILES_OF_SEARCH = ("dom.js", "data.js", "values.js", "search.js", "overview.js", "table.js", "list.js")
SCRIPT = """([index, queries]) => queries.map(([query, sort]) => {
  const parsed = parseQuery(query, index);
  return [orderedCases(index, parsed, sort), parsed.notes];
})"""
SHOWN = (
    "status",
    "change",
    "word",
    "file",
    "agent",
    "tags",
    "tools",
    "scores",
    "ok",
    "seconds",
    "tokens",
    "cost",
    "runs",
)
FIRST, SECOND = METRICS
QUERIES = (
    *("", "status:failed", "status:passed", "status:errored", "status:not_run", 'status:"not run"', "-status:failed"),
    *("change:newly_failing", "change:still_failing", 'word:"suspected regression"', "word:worse", "-word:fixed"),
    *("file:billing", "file:ナ", "-file:home", "agent:BILLING", "tool:refund", "tool:list_devices", "-tool:Refund"),
    *("flaky", "quarantined", "blocking", "-blocking", "new", "lamp", '"lamp on"', "σίσυφος", "温度", "-温度", '"a-b"'),
    *('say "hello"', '"off"', "_1", '""', "status:failed flaky", "-status:failed -flaky tool:refund", "ナ.json"),
    *(
        f"{key}{sign}{limit}"
        for key, limit in (("seconds", 30), ("tokens", 5000))
        for sign in ("<", "<=", ">", ">=", "=")
    ),
    *("cost>0", "-cost>0", "cost=0.01", "cost<=0.01", "-seconds>0.5 -tokens<5001"),
    *(f'metric:"{FIRST}"{sign}0.8' for sign in ("<", "<=", ">", ">=", "=")),
    *(f'metric:"{SECOND}"', f'metric:"{SECOND}"=1', f'-metric:"{SECOND}"<1', f"metric:{FIRST}", f"-metric:{FIRST}"),
)
SORTS = (
    "seconds",
    "-seconds",
    "tokens",
    "-tokens",
    "cost",
    "-cost",
    "runs",
    "-runs",
    f"metric:{FIRST}",
    f"-metric:{SECOND}",
)


@pytest.fixture(scope="module")
def search_page(functions: Callable[..., Page]) -> Page:
    return functions(*FILES_OF_SEARCH)


def test_search__golden_of_what_is_selected_and_in_which_order(search_page: Page) -> None:
    choice = random.Random(11)
    rows = [row(position, choice) for position in range(24)]
    index = index_of_rows(rows)
    asked = [*((query, None) for query in QUERIES), *(("", sort) for sort in SORTS)]
    lines = []
    for item in rows:
        shown = ", ".join(f"{key} {item[key]}" for key in SHOWN)
        lines.append(f"{item['eval_id']}: {shown}; {item['user']}; {item['why']}\n")
    for (query, sort), (order, notes) in zip(asked, search_page.evaluate(SCRIPT, [index, asked]), strict=True):
        lines.append(f"{query}{f'by {sort}' if sort else ''} -> {' '.join(map(str, order))}{''.join(notes)}\n")
    golden_files.check("golden_order.txt", "".join(lines))


@given(score=st.floats(0, 1.5), threshold=st.sampled_from((None, 0.5, 0.8, 1.0)))
@example(score=0.7996, threshold=0.8)
@example(score=0.125, threshold=None)  # half way: shown as 0.13
def test_score__is_never_rounded_across_its_threshold(search_page: Page, score: float, threshold: float | None) -> None:
    shown = float(search_page.evaluate("([score, threshold]) => scoreText(score, threshold)", [score, threshold]))
    assert shown == pytest.approx(score, abs=0.005 + 1e-9)
    if all(abs(score - limit) > 1e-5 for limit in (0, 1, threshold or 0)):
        assert [shown >= limit for limit in (1e-9, 1, threshold or 0)] == [
            score >= limit for limit in (1e-9, 1, threshold or 0)
        ]


# Word differences of the report page: src/agent-eval-results/agent_eval_results/report/html/diff.js in a real browser.


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
      return [
        timed(words(2500, 1), "x"), // too many words
        timed(words(1900, 7919), words(1900, 104729), 1), // too different
        timed(long, `${long}y`), // too long
        timed(words(1900, 31), words(1900, 31), 10000), // equal
      ];
    }"""
    results: list[list[Any]] = diff.evaluate(script)
    assert [gave_up for gave_up, _ in results] == [True, True, True, False]
    # At most 50 ms by its own clock; the rest is for a loaded machine.
    assert all(milliseconds < 1500 for _, milliseconds in results), results


@given(value=VALUES)
def test_diff_values__empty_only_for_equal_values(diff: Page, value: object) -> None:
    changed = {"a": value, "b": 1}
    evaluate = "([a, b]) => diffValues(a, b).map(({ path }) => path)"
    assert diff.evaluate(evaluate, [changed, {"b": 1, "a": value}]) == []
    assert diff.evaluate(evaluate, [changed, {"a": value, "b": 2}]) == ["b"]
    assert diff.evaluate(evaluate, [{"list": [value, {"key": 1}]}, {"list": [value, {"key": "1"}]}]) == ["list[1].key"]
    assert diff.evaluate(evaluate, [{"a": 1}, {}]) == ["a"]
