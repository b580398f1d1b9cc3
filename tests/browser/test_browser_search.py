"""Functions of the page against models in Python: the language of the search box, the order of the list, diffs."""

from __future__ import annotations

import itertools
import math
import operator
import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from list_samples import AGENTS, CHANGES, METRICS, STATUSES, TEXTS, TOOLS, WORDS, index_of_rows, row

if TYPE_CHECKING:
    from playwright.sync_api import Page


# The language of the search box and the order of the list, against a model in Python.


Row: TypeAlias = Mapping[str, Any]
Term: TypeAlias = tuple[str, Callable[[Row], bool]]
"""What is typed, and the cases that it selects."""

FILES_OF_SEARCH = ("dom.js", "data.js", "values.js", "search.js", "overview.js", "table.js", "list.js")
OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq}
SPECIAL = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
SCRIPT = """([index, query, sort]) => {
  const parsed = parseQuery(query, index);
  return {order: orderedCases(index, parsed, sort), notes: parsed.notes};
}"""


def number(value: Any) -> float | None:
    return SPECIAL[value] if isinstance(value, str) else value


def compared(read: Callable[[Row], Any], sign: str, limit: float) -> Callable[[Row], bool]:
    def test(item: Row) -> bool:
        value = number(read(item))
        return value is not None and OPERATORS[sign](value, limit)

    return test


def words_of(item: Row) -> str:
    return "\n".join((f"{item['file']}:{item['eval_id']}", item["file"], item["why"], item["user"])).lower()


def exact(key: str, value: str) -> Term:
    written = value.replace("_", " ") if value == "not_run" else value
    typed = f'{key}:"{written}"' if " " in written else f"{key}:{written}"
    return typed, lambda item: item[key] == value


@st.composite
def terms(draw: st.DrawFn) -> Term:
    kind = draw(st.sampled_from(("exact", "part", "tool", "metric", "number", "tag", "word")))
    if kind == "exact":
        key, values = draw(st.sampled_from((("status", STATUSES), ("change", CHANGES[1:]), ("word", WORDS[1:]))))
        typed, test = exact(key, draw(st.sampled_from(values)))
    elif kind == "part":
        key, part = draw(st.sampled_from((("file", "billing"), ("file", "ナ"), ("agent", AGENTS[1].upper()))))
        typed, test = f"{key}:{part}", lambda item: part.lower() in item[key].lower()
    elif kind == "tool":
        tool = draw(st.sampled_from(TOOLS))
        typed, test = f"tool:{tool.lower()}", lambda item: tool in item["tools"]
    elif kind == "metric":
        at = draw(st.integers(0, len(METRICS) - 1))
        sign, limit = draw(st.sampled_from(sorted(OPERATORS))), draw(st.sampled_from((0, 0.8, 1)))
        typed, test = f'metric:"{METRICS[at]}"{sign}{limit}', compared(lambda item: item["scores"][at], sign, limit)
        if draw(st.booleans()):
            typed, test = f'metric:"{METRICS[at]}"', lambda item: item["ok"][at] == 0
    elif kind == "number":
        key = draw(st.sampled_from(("seconds", "tokens", "cost")))
        sign, limit = draw(st.sampled_from(sorted(OPERATORS))), draw(st.sampled_from((0, 0.01, 30, 5000)))
        typed, test = f"{key}{sign}{limit}", compared(lambda item: item[key], sign, limit)
    elif kind == "tag":
        tag = draw(st.sampled_from(("flaky", "quarantined", "blocking")))
        typed, test = tag, lambda item: tag in item["tags"]
    else:
        word = draw(st.sampled_from([*TEXTS, "lamp", "ナ.json", "σ", "_1"])).replace('"', "")
        typed, test = f'"{word}"', lambda item: word.lower() in words_of(item)
    if draw(st.booleans()) and typed != '""':
        return f"-{typed}", lambda item: not test(item)
    return typed, test


def sorted_rows(rows: list[Row], sort: str | None, ranks: list[int]) -> list[int]:
    order = sorted(range(len(rows)), key=lambda i: ranks[i])
    if sort is None:
        return order
    key = sort.removeprefix("-")

    def value(i: int) -> float | None:
        if key == "runs":
            return rows[i]["runs_passed"] / rows[i]["runs"] if rows[i]["runs"] else None
        raw = rows[i]["scores"][METRICS.index(key[7:])] if key.startswith("metric:") else rows[i][key]
        result = number(raw)
        return None if result is None or math.isnan(result) else result

    present = [i for i in order if value(i) is not None]
    present.sort(key=lambda i: value(i), reverse=sort.startswith("-"))  # type: ignore[arg-type, return-value]
    if sort.startswith("-"):  # `reverse` keeps the order of equal ones.
        present.sort(key=lambda i: -value(i))  # type: ignore[operator]
    return present + [i for i in order if value(i) is None]


@pytest.fixture(scope="module")
def search_page(functions: Callable[..., Page]) -> Page:
    return functions(*FILES_OF_SEARCH)


@pytest.fixture(scope="module")
def search(search_page: Page) -> Callable[[Any, str, str | None], Any]:
    return lambda index, query, sort: search_page.evaluate(SCRIPT, [index, query, sort])


@given(
    seed=st.integers(0, 2**32),
    query=st.lists(terms(), max_size=3),
    sort=st.sampled_from(
        (None, "seconds", "-tokens", "cost", "runs", "-runs", *(f"-metric:{name}" for name in METRICS))
    ),
)
def test_search__selects_and_sorts_like_the_model(
    search: Callable[[Any, str, str | None], Any], seed: int, query: list[Term], sort: str | None
) -> None:
    choice = random.Random(seed)
    rows: list[Row] = [row(position, choice) for position in range(30)]
    index = index_of_rows(rows)
    answer = search(index, " ".join(typed for typed, _ in query), sort)
    expected = sorted_rows(rows, sort, index["cases"]["rank"])
    assert answer == {"order": [i for i in expected if all(test(rows[i]) for _, test in query)], "notes": []}


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


# Word differences of the report page: src/agent_eval/report/html/diff.js in a real browser.


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
