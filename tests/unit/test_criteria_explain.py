from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from remark_samples import lines

from agent_eval.core.content import FunctionCall
from agent_eval.criteria._explain import (
    LONGEST_TEXT,
    MOST_LINES,
    explain_response,
    explain_share,
    explain_single_tool,
    explain_trajectory,
    list_calls,
)
from agent_eval.criteria._literal import literal, render_call, visible
from agent_eval.criteria._sequences import rouge1
from agent_eval.criteria.calls import ArgsMatch, args_match, count_matched, match_calls
from agent_eval.criteria.tokenize import tokenize
from agent_eval.evalset.models.schema import MatchType


def call(name: str | None, **args: Any) -> FunctionCall:
    return FunctionCall(name=name, args=args)


A, B, C = call("a", x=1), call("b", y=2), call("c")


def why(expected: list[FunctionCall], actual: list[FunctionCall], **options: Any) -> list[str]:
    return list(lines(explain_trajectory(expected, actual, **options)))


def argument(expected: Any, actual: Any) -> list[str]:
    """The explanation of one argument."""
    return why([call("f", x=expected)], [call("f", x=actual)])[1:]


def test_explain__missing_extra_and_reordered() -> None:
    calls = [A, B, C], [C, A, call("d", q=[1, 2])]
    shown = why(*calls)

    assert shown == [
        "1 of 3 expected calls matched",
        "order: a(x=1) expected as call 1, was call 2",
        "missing: b(y=2) (expected as call 2)",
        "extra: d(q=[1, 2]) (call 3)",
    ]
    assert why(*calls, match_type=MatchType.IN_ORDER) == shown[:-1]
    assert why(*calls, match_type=MatchType.ANY_ORDER) == ["2 of 3 expected calls matched", shown[2]]
    assert why([A, B], [B, A])[1:] == [shown[1]]
    assert why([A, B], [B, A])[0].endswith("match_type EXACT requires the order of the eval file")


def test_explain__args_ignored_omitted_or_empty() -> None:
    assert why([A, B], [call("a", x=7), C], args=ArgsMatch.IGNORE) == [
        "1 of 2 expected calls matched",
        "missing: b(…) (expected as call 2)",
        "extra: c() (call 2)",
    ]
    assert list_calls([A, C], ignore_args=True) == "a(…)\nc()"
    omitted, empty = FunctionCall(name="f"), call("f")
    assert why([omitted], [empty])[1].startswith('f: the eval file omits "args", the call has {}')
    assert why([empty], [omitted])[1].startswith('f: the eval file gives "args": {}, the call has none')


@pytest.mark.parametrize(
    ("expected", "actual", "line"),
    [
        (1, 2, "f(x): expected 1, got 2"),
        (1, "1", 'f(x): expected 1, got "1" (expected a number, not text)'),
        (True, "true", 'f(x): expected true, got "true" (expected a boolean, not text)'),
        ("a", None, 'f(x): expected "a", got null (expected text, not null)'),
        ({}, [], "f(x): expected {}, got [] (expected an object, not a list)"),
        ("Lamp", "lamp", 'f(x): expected "Lamp", got "lamp" (only upper and lower case differ)'),
        ("lamp", "lamp ", 'f(x): expected "lamp", got "lamp " (only whitespace differs)'),
        (
            "caf\u00e9",
            "cafe\u0301",
            'f(x): expected "caf\\u00e9", got "cafe\\u0301" (different characters that look alike)',
        ),
        ([1, 2], [2, 1], "f(x): same items in a different order: expected [1, 2], got [2, 1]"),
        ([1, 2], [1], "f(x): expected 2 items, got 1: expected [1, 2], got [1]"),
        ([1, {"k": [3]}], [1, {"k": [4]}], "f(x[1].k[0]): expected 3, got 4"),
        ({"a b": {"c": 1}}, {"a b": {"c": 2}}, 'f(x."a b".c): expected 1, got 2'),
        ({"k": None}, {}, "f(x.k): missing, expected null"),
        ({}, {"k": None}, "f(x.k): not expected, got null"),
    ],
)
def test_explain__argument(expected: Any, actual: Any, line: str) -> None:
    assert argument(expected, actual) == [line]


def test_explain__long_texts_show_the_first_difference() -> None:
    (line,) = argument("x" * 300 + "lamp" + "y" * 300, "x" * 300 + "fan")

    ours = "x" * 15 + "lamp" + "y" * 41
    theirs = "x" * 15 + "fan"
    assert line == f'f(x): expected …"{ours}"…, got …"{theirs}" (first difference at character 301)'


def test_explain__many_arguments() -> None:
    lines = argument({str(i): i for i in range(9)}, {str(i): -i - 1 for i in range(9)})

    assert len(lines) == 7
    assert lines[-1] == "f: more arguments differ"


@pytest.mark.parametrize("depth", [30, 100])
def test_explain__a_difference_too_deep_to_show(depth: int) -> None:
    expected: Any = 1
    actual: Any = 2
    for _ in range(depth):
        expected, actual = [expected], [actual]

    assert [line for line in argument(expected, actual) if line.endswith("differ below the compared depth")]


def test_explain__precision_and_recall() -> None:
    expected, actual = [call("a", x=2), B, call("d")], [A, B, C]

    assert lines(explain_share(expected, actual, matched=1, of_expected=False)) == (
        "1 of 3 calls made was expected",
        "a(x): expected 2, got 1 (call 1)",
        "extra: c() (call 3)",
    )
    assert lines(explain_share(expected, actual, matched=1, of_expected=True)) == (
        "1 of 3 expected calls made",
        "a(x): expected 2, got 1 (call 1)",
        "missing: d() (expected as call 3)",
    )


def test_explain__single_tool() -> None:
    assert lines(explain_single_tool("zap", ["a", "b", "a"], 2)) == (
        "zap was not called in any of 2 turns",
        "called instead: a (2 times), b",
    )
    assert lines(explain_single_tool("zap", [], 1)) == ("zap was not called in the turn",)


def response(expected: str, actual: str) -> list[str]:
    return list(lines(explain_response(expected, actual, rouge1(tokenize(expected), tokenize(actual)))))


def test_response__without_words() -> None:
    assert response("", "hello") == ["the reference has no text; any answer scores 0 (as in ADK)"]
    assert response("😀", "hello") == [
        "the reference has no words, only punctuation or symbols; any answer scores 0 (as in ADK)"
    ]
    assert response("hello", "") == ["the answer has no text"]
    assert response("hello", "?!") == ["the answer has no words, only punctuation or symbols"]


def test_response__many_words_are_not_listed() -> None:
    """The report shows both texts, which are easier to compare than a list of twenty words."""
    assert response(" ".join(f"w{i}" for i in range(8)), "other") == [
        "0 of 8 expected words found (recall 0.00); 0 of 1 words given were expected (precision 0.00)",
        "unexpected words: other",
    ]


def test_hostile_names_and_values__stay_on_one_line() -> None:
    evil = FunctionCall(name="a\n::error::x", args={"k\r\ny": "\u202e\x1b[31m\x85\u2028##[error]\ud800"})

    assert list_calls([evil]) == '"a\\n::error::x"("k\\r\\ny"="\\u202e\\u001b[31m\\u0085\\u2028##[error]\\ud800")'
    assert why([], [evil]) == [
        "no calls expected, 1 call made",
        'extra: "a\\n::error::x"("k\\r\\ny"="\\u202e\\u001b[31m\\u0085\\u2028##[error]\\ud800")',
    ]


def test_huge_calls__are_cheap_to_render() -> None:
    huge = call("f", text="x" * 5_000_000, items=list(range(500_000)), deep={"k": {str(i): i for i in range(100_000)}})

    assert len(render_call(huge)) < 500
    assert len(list_calls([huge] * 1_000)) <= LONGEST_TEXT
    assert literal(10**5_000) == "(int)"


def test_visible__keeps_ordinary_text() -> None:
    assert visible("今天 café 😀") == "今天 café 😀"
    assert visible("a\u200db\U000e0001") == "a\\u200db\\U000e0001"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
CALLS = st.builds(
    FunctionCall,
    name=st.none() | st.sampled_from(["a", "b"]) | st.text(max_size=3),
    args=st.none() | st.dictionaries(st.sampled_from(["x", "y"]) | st.text(max_size=3), VALUES, max_size=3),
)
LISTS = st.lists(CALLS, max_size=5)


@given(LISTS, LISTS, st.sampled_from(MatchType), st.booleans())
def test_explain_trajectory__reasons_match(
    expected: list[FunctionCall], actual: list[FunctionCall], match_type: MatchType, ignore_args: bool
) -> None:
    if match_calls(expected, actual, match_type=match_type, args=args_match(ignore_args=ignore_args)):
        return
    shown = lines(explain_trajectory(expected, actual, match_type=match_type, args=args_match(ignore_args=ignore_args)))

    assert 2 <= len(shown) <= MOST_LINES + 2
    assert all(line.isprintable() and len(line) <= 400 for line in shown)
    for listed in (list_calls(expected), list_calls(actual)):
        assert len(listed) <= LONGEST_TEXT
        assert all(line.isprintable() for line in listed.split("\n"))


@given(LISTS, LISTS, st.booleans())
def test_explain_share__always_has_reasons(
    expected: list[FunctionCall], actual: list[FunctionCall], of_expected: bool
) -> None:
    matched = count_matched(expected, actual)
    if matched == len(expected if of_expected else actual):
        return
    assert len(explain_share(expected, actual, matched=matched, of_expected=of_expected)) >= 2


@given(st.text(), st.text())
def test_explain_response__always_has_reasons(expected: str, actual: str) -> None:
    shown = response(expected, actual)

    assert all(line.isprintable() and len(line) <= 400 for line in shown)
    if rouge1(tokenize(expected), tokenize(actual)).f_measure < 1:
        assert len(shown) >= 2 or "no text" in shown[0] or "no words" in shown[0]
