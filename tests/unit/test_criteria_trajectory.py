"""Tool calls compared with the expected ones."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from evalset_samples import case, eval_set, load, turn
from hypothesis import given
from hypothesis import strategies as st
from recording_samples import recording
from remark_samples import lines

from agent_eval.core.content import Content, FunctionCall, Part, model_message, user_message
from agent_eval.core.invocation import (
    IntermediateData,
    Invocation,
    InvocationEvent,
    InvocationEvents,
    intermediate_responses,
)
from agent_eval.criteria import Conversation, NotEvaluated, Scored, build
from agent_eval.criteria._alignment import align
from agent_eval.criteria._differences import literal, render_call, visible
from agent_eval.criteria._explain import (
    FEW_WORDS,
    LONGEST_TEXT,
    MOST_LINES,
    explain_response,
    explain_share,
    explain_single_tool,
    explain_trajectory,
    list_calls,
)
from agent_eval.criteria._sequences import in_any_order, in_order, rouge1
from agent_eval.criteria.calls import ArgsMatch, args_match, contains, count_matched, match_calls, same_call
from agent_eval.criteria.tokenize import tokenize, words
from agent_eval.evalset.models import CRITERION_MODELS, EvalCase
from agent_eval.evalset.models.criterion_options import parse_match_type
from agent_eval.evalset.models.schema import MatchType
from agent_eval.evalset.parse import criterion
from agent_eval.report.views.case import TurnView, rows
from agent_eval.runner.conversations import conversation_of

# Equal calls, calls that contain others, and the alignment of lists of them.

DATA = Path(__file__).parents[1] / "data" / "vectors"
VECTORS: list[dict[str, Any]] = json.loads((DATA / "adk_2_13_0_trajectory.json").read_text("utf-8"))["trajectory"]
MATCH_TYPES: list[list[Any]] = json.loads((DATA / "adk_2_13_0_match_type.json").read_text("utf-8"))["match_type"]


Calls = list[FunctionCall]


def call(name: str, **args: Any) -> FunctionCall:
    return FunctionCall(name=name, args=args)


@pytest.mark.parametrize("ignore_args", [False, True])
@pytest.mark.parametrize("match_type", MatchType)
@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_calls__vectors_of_adk(vector: dict[str, Any], match_type: MatchType, ignore_args: bool) -> None:
    actual = [FunctionCall(name=name, args=args) for name, args in vector["actual"]]
    expected = [FunctionCall(name=name, args=args) for name, args in vector["expected"]]
    matches = vector[match_type.name + ("_ignore_args" if ignore_args else "")]

    assert match_calls(expected, actual, match_type=match_type, args=args_match(ignore_args=ignore_args)) is bool(
        matches
    )


VALUES = st.recursive(
    st.sampled_from([1, 1.0, True, "1", None, 0, False]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xy"), inner, max_size=2),
    max_leaves=4,
)
CALLS = st.builds(
    FunctionCall,
    name=st.sampled_from(["a", "b"]),
    args=st.none() | st.dictionaries(st.sampled_from("xy"), VALUES, max_size=2),
)
LISTS = st.lists(CALLS, max_size=6) | st.lists(
    st.sampled_from([call("a"), call("b"), call("a", x=1), call("a", x=True)]), max_size=6
)


@given(LISTS, LISTS, st.sampled_from(ArgsMatch))
def test_alignment__puts_every_call_in_one_place_and_agrees_with_the_scores(
    expected: Calls, actual: Calls, args: ArgsMatch
) -> None:
    alignment = align(expected, actual, args=args)
    pairs = [*alignment.matched, *alignment.moved, *alignment.changed]

    assert sorted([*(i for i, _ in pairs), *alignment.missing]) == list(range(len(expected)))
    assert sorted([*(j for _, j in pairs), *alignment.extra]) == list(range(len(actual)))
    for i, j in [*alignment.matched, *alignment.moved]:
        assert same_call(expected[i], actual[j], args=args)
    for i, j in alignment.changed:
        assert expected[i].name == actual[j].name
        assert not same_call(expected[i], actual[j], args=args)
    assert sorted(alignment.matched, key=lambda pair: pair[1]) == list(alignment.matched)
    assert len(alignment.matched) == len(
        in_order(expected, actual, lambda one, other: same_call(one, other, args=args))
    )
    # Of subsets, the longest sequence may leave a pair of the largest matching without partners.
    matched, most = len(alignment.matched) + len(alignment.moved), count_matched(expected, actual, args=args)
    assert matched == most or (args is ArgsMatch.SUBSET and matched < most)

    unmatched = alignment.changed or alignment.missing
    for match_type, matches in (
        (MatchType.IN_ORDER, not (unmatched or alignment.moved)),
        (MatchType.EXACT, not (unmatched or alignment.moved or alignment.extra)),
        (MatchType.ANY_ORDER, most == len(expected)),
    ):
        assert match_calls(expected, actual, match_type=match_type, args=args) is matches


def test_alignment__pairs_the_calls_that_agree_most() -> None:
    expected = [call("set", room="kitchen", level=1), call("set", room="hall", level=2)]
    actual = [call("set", room="hall", level=5), call("set", room="kitchen", level=9)]

    assert align(expected, actual).changed == ((0, 1), (1, 0))


@pytest.mark.parametrize("argument", [lambda i: i + 1, lambda i: (i // 2) % 2, lambda i: 0])
def test_alignment__of_long_trajectories_is_bounded(argument: Any) -> None:
    expected = [call("a", x=i % 2 if argument(5) in (0, 1) else i) for i in range(1_000)]
    actual = [call("a", x=argument(i)) for i in range(1_000)]

    alignment = align(expected, actual)

    assert len(alignment.matched) + len(alignment.moved) == count_matched(expected, actual)


def fits(expected: FunctionCall, actual: FunctionCall) -> bool:
    return same_call(expected, actual, args=ArgsMatch.SUBSET)


@given(VALUES, VALUES, VALUES)
def test_contains__reflexive_transitive_and_implied_by_equality(first: Any, second: Any, third: Any) -> None:
    assert contains(first, first)
    assert contains(first, second) or first != second
    assert contains(first, third) or not (contains(first, second) and contains(second, third))


@given(LISTS, LISTS)
def test_matching__is_the_largest(expected: Calls, actual: Calls) -> None:
    """Compared with every assignment of expected to actual calls."""
    longer = [*actual, *[None] * len(expected)]
    best, best_ordered = 0, 0
    if len(expected) <= 3 and len(actual) <= 4:
        for order in itertools.permutations(range(len(longer)), len(expected)):
            pairs = [(i, j) for i, j in enumerate(order) if (other := longer[j]) and fits(expected[i], other)]
            best = max(best, len(pairs))
            if [j for _, j in pairs] == sorted(j for _, j in pairs):
                best_ordered = max(best_ordered, len(pairs))
        assert len(in_any_order(expected, actual, fits)) == best
        assert len(in_order(expected, actual, fits)) == best_ordered
    for ours in (in_order, in_any_order):
        pairs = ours(expected, actual, fits)
        assert len({i for i, _ in pairs}) == len({j for _, j in pairs}) == len(pairs)
        assert all(fits(expected[i], actual[j]) for i, j in pairs)
        assert pairs == sorted(pairs)
    assert [j for _, j in in_order(expected, actual, fits)] == sorted(j for _, j in in_order(expected, actual, fits))


def test_matching__many_equal_calls_take_no_time() -> None:
    assert len(in_any_order([call("a")] * 1_500, [call("a")] * 1_000, fits)) == 1_000
    assert len(in_order([call("a")] * 300, [call("a")] * 3_000 + [call("b")] * 30_000, fits)) == 300


def test_matching__numbers_that_python_does_not_print() -> None:
    huge = [call("f", x=10**5_000), call("f", x=10**5_001)]
    assert in_order(huge, huge, fits) == in_any_order(huge, huge, fits) == [(0, 0), (1, 1)]


@pytest.mark.parametrize(("spelling", "meaning"), MATCH_TYPES, ids=lambda value: repr(value))
def test_match_type__vectors_of_adk(spelling: Any, meaning: str) -> None:
    if meaning == "ERROR":
        with pytest.raises(ValueError, match="must be EXACT"):
            parse_match_type(spelling)
    else:
        assert parse_match_type(spelling) is MatchType[meaning]


A, B, C = call("a", x=1), call("b", y=2), call("c")


def why(expected: Calls, actual: Calls, **options: Any) -> list[str]:
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
        ("\u00e9", "e\u0301", 'f(x): expected "\\u00e9", got "e\\u0301" (different characters that look alike)'),
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


def test_explain__many_arguments_and_a_difference_too_deep_to_show() -> None:
    lines = argument({str(i): i for i in range(9)}, {str(i): -i - 1 for i in range(9)})
    assert (len(lines), lines[-1]) == (7, "f: more arguments differ")

    expected: Any = 1
    actual: Any = 2
    for depth in range(1, 101):
        expected, actual = [expected], [actual]
        if depth in {30, 100}:
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
    shown = '"a\\n::error::x"("k\\r\\ny"="\\u202e\\u001b[31m\\u0085\\u2028##[error]\\ud800")'
    assert list_calls([evil]) == shown
    assert why([], [evil]) == ["no calls expected, 1 call made", f"extra: {shown}"]


def test_huge_calls__are_cheap_to_render() -> None:
    huge = call("f", text="x" * 5_000_000, items=list(range(500_000)), deep={"k": {str(i): i for i in range(100_000)}})

    assert len(render_call(huge)) < 500
    assert len(list_calls([huge] * 1_000)) <= LONGEST_TEXT
    assert literal(10**5_000) == "(int)"


def test_visible__keeps_ordinary_text() -> None:
    assert visible("今天 café 😀") == "今天 café 😀"
    assert visible("a\u200db\U000e0001") == "a\\u200db\\U000e0001"


ANY_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
ANY_CALLS = st.builds(
    FunctionCall,
    name=st.none() | st.sampled_from(["a", "b"]) | st.text(max_size=3),
    args=st.none() | st.dictionaries(st.sampled_from(["x", "y"]) | st.text(max_size=3), ANY_VALUES, max_size=3),
)
ANY_LISTS = st.lists(ANY_CALLS, max_size=5)


@given(ANY_LISTS, ANY_LISTS, st.sampled_from(MatchType), st.booleans())
def test_explain__always_has_reasons(expected: Calls, actual: Calls, match_type: MatchType, is_so: bool) -> None:
    args = args_match(ignore_args=is_so)
    if not match_calls(expected, actual, match_type=match_type, args=args):
        shown = why(expected, actual, match_type=match_type, args=args)
        assert 2 <= len(shown) <= MOST_LINES + 2
        assert all(line.isprintable() and len(line) <= 400 for line in shown)
    for listed in (list_calls(expected), list_calls(actual)):
        assert len(listed) <= LONGEST_TEXT
        assert all(line.isprintable() for line in listed.split("\n"))
    matched = count_matched(expected, actual)
    if matched < len(expected if is_so else actual):
        assert len(explain_share(expected, actual, matched=matched, of_expected=is_so)) >= 2


@given(st.text(), st.text())
def test_explain_response__always_has_reasons(expected: str, actual: str) -> None:
    shown = response(expected, actual)

    assert all(line.isprintable() and len(line) <= 400 for line in shown)
    few = max(len(words(expected)), len(words(actual))) <= FEW_WORDS  # more are not listed
    if few and rouge1(tokenize(expected), tokenize(actual)).f_measure < 1:
        assert len(shown) >= 2 or "no text" in shown[0] or "no words" in shown[0]


# `tool_trajectory_partial`, and args that are a subset.


async def run(
    *turns: tuple[Calls, Calls], metric: str = "tool_trajectory_partial", threshold: float = 1.0, **options: Any
) -> Scored:
    """The result for turns of expected and actual calls."""
    expected, actual = (
        [
            Invocation(user_content=user_message("?"), intermediate_data=IntermediateData(tool_uses=pair[side]))
            for pair in turns
        ]
        for side in (0, 1)
    )
    result = await scored(expected, actual, metric=metric, threshold=threshold, **options)
    assert isinstance(result, Scored), result
    return result


async def scored(
    expected: list[Invocation], actual: list[Invocation], *, metric: str, **options: Any
) -> Scored | NotEvaluated:
    built = build(criterion(metric, CRITERION_MODELS[metric].model_validate(options)))
    eval_case = EvalCase(eval_id="c", conversation=[])
    return await built.score(Conversation(case=eval_case, actual=actual, expected=expected))


async def score(expected: Calls, actual: Calls, **options: Any) -> float | None:
    return (await run((expected, actual), **options)).score


async def test_partial_trajectory__score() -> None:
    assert await score([], []) == 1
    assert await score([A], []) == 0
    assert await score([], [A]) == 0
    assert await score([A, B], [A, C, B]) == pytest.approx(2 / 3)
    assert await score([A, B], [B, A]) == 0.5
    assert await score([A, B], [B, A], strict_order=False) == 1
    assert await score([A], [A, A, A, A]) == 0.25
    extra = [call("f", x=1)], [call("f", x=1, y=2)]
    assert await score(*extra) == 1
    assert await score(*extra, strict_args=True) == 0
    assert (await run(([A], [A]), ([A, B], [A]), threshold=0.5)).score == 0.75


@pytest.mark.parametrize("strict_args", [False, True])
async def test_partial_trajectory__omitted_args_allow_any(strict_args: bool) -> None:
    assert await score([FunctionCall(name="f")], [call("f", x=1)], strict_args=strict_args) == 1
    assert await score([call("f")], [FunctionCall(name="f")], strict_args=False) == 1


async def test_partial_trajectory__findings() -> None:
    expected = [call("find", room="bedroom"), call("turn_on", device="lamp", level=3), call("log")]
    actual = [call("turn_on", device="fan", level=3, fast=True), call("find", room="bedroom", floor=1), call("beep")]

    shown = (
        "1 of 3 calls matched (3 expected, 3 made)",
        "matched: find",
        'turn_on(device): expected "lamp", got "fan" (expected as call 2, was call 1)',
        "missing: log() (expected as call 3)",
        "extra: beep() (call 3)",
    )
    variants: list[dict[str, Any]] = [{}, {"strict_order": False}]
    for options in variants:
        assert lines((await run((expected, actual), **options)).findings[0].why) == shown
    assert lines((await run((expected, actual), strict_args=True)).findings[0].why) == (
        "0 of 3 calls matched (3 expected, 3 made)",
        "find(floor): not expected, got 1 (expected as call 1, was call 2)",
        'turn_on(device): expected "lamp", got "fan" (expected as call 2, was call 1)',
        "turn_on(fast): not expected, got true (expected as call 2, was call 1)",
        *shown[-2:],
    )
    assert lines((await run(([], [C]), threshold=0.5)).findings[0].why) == (
        "0 of 1 calls matched (0 expected, 1 made)",
        "extra: c()",
    )
    passing = await run(([A, B], [A]), threshold=0.5)
    assert (passing.score, passing.findings) == (0.5, ())


@pytest.mark.parametrize("match_type", MatchType)
async def test_args_match_subset__for_each_match_type(match_type: MatchType) -> None:
    options: dict[str, Any] = {"metric": "tool_trajectory_avg_score", "match_type": match_type, "args_match": "subset"}
    expected = [call("f", x=1), FunctionCall(name="g")]
    actual = [call("f", x=1, note="n"), call("g", y=[1])]

    assert await score(expected, actual, **options) == 1
    assert await score(expected, actual, **{**options, "args_match": "exact"}) == 0
    assert await score(expected, [*actual, C], **options) == (0 if match_type is MatchType.EXACT else 1)
    assert await score(expected, actual[::-1], **options) == (1 if match_type is MatchType.ANY_ORDER else 0)
    assert await score(expected, [call("f", note="n"), call("g")], **options) == 0
    greedy_fails = [call("f"), call("f", x=1)], [call("f", x=1), call("f", x=2)]
    assert await score(*greedy_fails, **options) == (1 if match_type is MatchType.ANY_ORDER else 0)

    result = await run((expected, [call("f", x=2, note="n"), call("g", z=1)]), **options)
    assert lines(result.findings[0].why) == ("1 of 2 expected calls matched", "f(x): expected 1, got 2 (call 1)")


# `intermediate_response_similarity`, and intermediate responses in reports.

METRIC = "intermediate_response_similarity"
Said = list[tuple[str, str]]
SUNNY, TRAIN = ("weather", "It is sunny in Paris."), ("travel", "The train leaves at nine.")


def with_data(data: IntermediateData | InvocationEvents) -> Invocation:
    return Invocation(user_content=user_message("?"), final_response=model_message("Go."), intermediate_data=data)


def expected_turn(said: Said) -> Invocation:
    return with_data(IntermediateData(intermediate_responses=[(author, [Part(text=text)]) for author, text in said]))


def actual_turn(said: Said) -> Invocation:
    events = [InvocationEvent(author=author, content=model_message(text)) for author, text in said]
    return with_data(InvocationEvents(invocation_events=events))


async def said_run(*turns: tuple[Said, Said], **options: Any) -> Scored | NotEvaluated:
    expected = [expected_turn(pair[0]) for pair in turns]
    actual = [actual_turn(pair[1]) for pair in turns]
    return await scored(expected, actual, **{"metric": METRIC, "threshold": 0.9, **options})


async def said_score(expected: Said, actual: Said, **options: Any) -> float | None:
    result = await said_run((expected, actual), **options)
    assert isinstance(result, Scored), result
    return result.score


async def test_score__same_agent_in_order() -> None:
    assert await said_score([SUNNY, TRAIN], [SUNNY, TRAIN]) == 1
    assert await said_score([SUNNY, TRAIN], [("travel", "Let me look."), SUNNY, ("weather", "Hm."), TRAIN]) == 1
    assert await said_score([SUNNY, TRAIN], [TRAIN, SUNNY]) == 0.5
    assert await said_score([SUNNY, TRAIN], [SUNNY]) == 0.5
    assert await said_score([SUNNY], []) == 0
    assert await said_score([SUNNY], [("travel", SUNNY[1])]) == 0
    assert await said_score([SUNNY], [("weather", "IT IS SUNNY IN PARIS!")]) == 1
    assert await said_score([SUNNY], [("weather", "It is sunny  in Paris.")], algorithm="exact", normalize=False) == 0


async def test_score__the_best_assignment_counts() -> None:
    good, better = ("a", "one two three"), ("a", "one two three four")
    assert await said_score([better], [good, better]) == 1
    assert await said_score([good, better], [better, good, better]) == 1


async def test_score__turns_without_expected_responses_are_left_out() -> None:
    result = await said_run(([SUNNY], [SUNNY]), ([], [TRAIN]), ([TRAIN], []), threshold=0.4)
    assert isinstance(result, Scored)
    assert (result.score, result.turn_scores) == (0.5, (1.0, None, 0.0))
    assert [finding.turn for finding in result.findings] == [2]

    nothing = await said_run(([], [TRAIN]))
    assert isinstance(nothing, NotEvaluated)
    assert nothing.code == "no-reference-text"


async def test_score__too_much_text() -> None:
    for said in ([("weather", "x" * 20_001)], [("weather", "x")] * 10_001):
        result = await said_run(([SUNNY], said))
        assert isinstance(result, NotEvaluated)
        assert result.code == "too-long"


async def test_intermediate__findings() -> None:
    result = await said_run(([SUNNY, TRAIN], [("weather", "It is rainy in Paris."), ("hotel", "Full.")]))

    assert isinstance(result, Scored)
    [finding] = result.findings
    assert finding.expected == "weather: It is sunny in Paris.\ntravel: The train leaves at nine."
    assert finding.actual == "weather: It is rainy in Paris.\nhotel: Full."
    assert lines(finding.why) == (
        "1 of 2 expected intermediate responses have a counterpart",
        "weather: similarity 0.67: 4 of 6 distinct words are in both texts; missing words: sunny; "
        "unexpected words: rainy",
        'missing: travel: "The train leaves at nine."',
    )


async def test_response_similarity__with_intermediate_responses() -> None:
    options: dict[str, Any] = {"metric": "response_similarity", "algorithm": "exact"}
    assert await said_score([SUNNY], [TRAIN], **options) == 1
    options["include_intermediate_responses_in_final"] = True
    assert await said_score([SUNNY], [TRAIN], **options) == 0
    assert await said_score([SUNNY], [SUNNY], **options) == 1


WORDS = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(" ".join)
RESPONSES = st.lists(st.tuples(st.sampled_from(["x", "y"]), WORDS), max_size=4)


@given(RESPONSES.filter(bool), RESPONSES)
async def test_score__range_and_identity(expected: Said, actual: Said) -> None:
    value = await said_score(expected, actual)

    assert value is not None
    assert 0 <= value <= 1
    assert await said_score(expected, expected) == 1
    assert await said_score(expected, [*actual, *expected]) == 1
    more = await said_score(expected, [*actual, ("x", "c")])
    assert more is not None
    assert more >= value - 1e-12


def test_intermediate_responses__both_forms_without_thoughts_and_the_answer() -> None:
    parts = [Part(text="Looking.", thought=True), Part(text="It is"), Part(text="sunny.")]
    events = [
        InvocationEvent(author="weather", content=Content(role="model", parts=parts)),
        InvocationEvent(author="weather", content=Content(role="model", parts=[Part(text=" ")])),
        InvocationEvent(author="root", content=model_message("Go.")),
        InvocationEvent(author="root"),
    ]
    assert intermediate_responses(with_data(InvocationEvents(invocation_events=events))) == [
        ("weather", "It is\nsunny.")
    ]
    assert intermediate_responses(expected_turn([SUNNY, ("root", "Go.")])) == [SUNNY]
    assert intermediate_responses(Invocation(user_content=user_message("?"))) == []


@pytest.mark.parametrize(
    ("actual", "shown"),
    [
        ([SUNNY, ("hotel", "Full."), TRAIN], []),
        ([TRAIN, SUNNY], ["weather: It is sunny in Paris.", "travel: The train leaves at nine."]),
    ],
)
def test_conversation__shows_expected_responses_beside_the_actual_ones(actual: Said, shown: list[str]) -> None:
    eval_case = EvalCase(eval_id="c", conversation=[expected_turn([SUNNY, TRAIN])])

    [report] = conversation_of(recording("c", actual_turn(actual)), eval_case).turns

    assert (report.expected_said or []) == shown
    listed = [(row.kind, row.text) for row in rows(TurnView(said=report))]
    assert [text for kind, text in listed if kind == "expected said"] == shown
    assert [text for kind, text in listed if kind == "said"] == [f"{author}: {text}" for author, text in actual]


def test_validation__without_expected_responses(tmp_path: Path) -> None:
    [problem] = load(tmp_path, {"criteria": {METRIC: 0.5}}, a=eval_set(case())).problems
    assert (problem.code, problem.path) == ("needs-reference", "eval_cases[0]")
    assert "intermediate_responses" in (problem.hint or "")

    said = {"intermediate_responses": [["weather", [{"text": "sunny"}]]]}
    assert load(tmp_path, a=eval_set(case(conversation=[turn(intermediate_data=said), turn()]))).problems == ()
