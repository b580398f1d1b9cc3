"""The language of the search box and the order of the list, against a model in Python."""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from list_samples import AGENTS, CHANGES, METRICS, STATUSES, TEXTS, TOOLS, WORDS, index_of_rows, row
from report_pages_of_data import real_index

if TYPE_CHECKING:
    from playwright.sync_api import Page

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


@pytest.mark.parametrize(
    ("query", "note"),
    [
        ("status:fialed", "status: is one of passed, failed, errored, not_run"),
        ("metric:nope<1", "This report has no metric nope"),
        ("seconds>soon", "seconds needs a number after >"),
        ("seconds:30", "Write seconds with a comparison: seconds>30"),
        ("metric:response_match_score<", "metric:response_match_score needs a number after <"),
    ],
)
def test_search__says_what_it_does_not_understand(
    search: Callable[[Any, str, str | None], Any], query: str, note: str
) -> None:
    assert search(real_index(), query, None)["notes"] == [note]


def test_search__any_text_is_a_query(search: Callable[[Any, str, str | None], Any]) -> None:
    for query in (
        '"',
        "-",
        '-"',
        "::",
        'a:"b',
        "__proto__:x",
        "constructor>1",
        "http://x/y",
        "status:",
        "-\u202e",
        "=<>",
    ):
        assert isinstance(search(real_index(), query, "metric:")["order"], list)


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
