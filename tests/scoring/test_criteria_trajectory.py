"""Tool calls compared with the expected ones."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
from criteria_samples import A, B, C, call, in_ways, score, scored, turn
from golden_files import check
from hypothesis import given
from hypothesis import strategies as st
from pydantic.alias_generators import to_snake
from recording_samples import recording
from remark_samples import lines

from agent_eval_agents.traces import Place
from agent_eval_results.data.conversations import conversation_of
from agent_eval_results.report.views.case import TurnView, rows
from agent_eval_scoring.core.content import Content, FunctionCall, Part, model_message, user_message
from agent_eval_scoring.core.invocation import (
    IntermediateData,
    Invocation,
    InvocationEvent,
    InvocationEvents,
    intermediate_responses,
)
from agent_eval_scoring.criteria import NotEvaluated, Scored
from agent_eval_scoring.criteria._alignment import align
from agent_eval_scoring.criteria._differences import literal, render_call, visible
from agent_eval_scoring.criteria._explain import (
    FEW_WORDS,
    LONGEST_TEXT,
    MOST_LINES,
    explain_response,
    explain_share,
    explain_trajectory,
    list_calls,
)
from agent_eval_scoring.criteria._sequences import in_any_order, in_order, rouge1
from agent_eval_scoring.criteria.calls import ArgsMatch, args_match, contains, count_matched, match_calls, same_call
from agent_eval_scoring.criteria.tokenize import tokenize, words
from agent_eval_scoring.evalset.models import EvalCase
from agent_eval_scoring.evalset.models.criterion_options import parse_match_type
from agent_eval_scoring.evalset.models.schema import MatchType
from agent_eval_workbench.authoring.expectation import NewTurn, accept_turn
from agent_eval_workbench.sources.cases import eval_cases
from agent_eval_workbench.sources.conversation import Conversation

# Equal calls, calls that contain others, and the alignment of lists of them.

DATA = Path(__file__).parents[1] / "data" / "vectors"
VECTORS: list[dict[str, Any]] = json.loads((DATA / "adk_2_13_0_trajectory.json").read_text("utf-8"))["trajectory"]
MATCH_TYPES: list[list[Any]] = json.loads((DATA / "adk_2_13_0_match_type.json").read_text("utf-8"))["match_type"]


Calls = list[FunctionCall]


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


def why(expected: Calls, actual: Calls, **options: Any) -> list[str]:
    return list(lines(explain_trajectory(expected, actual, **options)))


def nested(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = [value]
    return value


ARGUMENTS: tuple[tuple[Any, Any], ...] = (
    (1, 2),
    (1, "1"),
    (True, "true"),
    ("a", None),
    ({}, []),
    ("Lamp", "lamp"),
    ("lamp", "lamp "),
    ("\u00e9", "e\u0301"),
    ([1, 2], [2, 1]),
    ([1, 2], [1]),
    ([1, {"k": [3]}], [1, {"k": [4]}]),
    ({"a b": {"c": 1}}, {"a b": {"c": 2}}),
    ({"k": None}, {}),
    ({}, {"k": None}),
    ("x" * 300 + "lamp" + "y" * 300, "x" * 300 + "fan"),
    ({str(i): i for i in range(9)}, {str(i): -i - 1 for i in range(9)}),
    (nested(1, 30), nested(2, 30)),
    (nested(1, 100), nested(2, 100)),
)


def request(name: str, number: int, *, snake: bool = False, **more: Any) -> FunctionCall:
    """What google-adk asks the user, with the values that are drawn anew in each run."""
    random = f"adk-{number}"
    oauth = {"authUri": f"https://id.example/?state={random}", "state": random}
    by_name: dict[str, dict[str, Any]] = {
        "adk_request_input": {"interruptId": random, "message": "Which size?", "payload": None},
        "adk_request_confirmation": {
            "originalFunctionCall": {"id": random, "name": "pay", "args": {"id": 5}},
            "toolConfirmation": {"hint": "Sure?", "confirmed": False},
        },
        "adk_request_credential": {
            "functionCallId": random,
            "authConfig": {"authScheme": {"type": "oauth2"}, "exchangedAuthCredential": {"oauth2": oauth},
                           "credentialKey": f"adk_{number}"},
        },
    }  # fmt: skip
    args = by_name[name]
    if snake:
        args = json.loads(re.sub(r'"([a-z]+[A-Z]\w*)":', lambda key: f'"{to_snake(key[1])}":', json.dumps(args)))
    return FunctionCall.model_validate({"id": random, "name": name, "args": {**args, **more}})


REQUESTS = ("adk_request_input", "adk_request_confirmation", "adk_request_credential")


@pytest.mark.parametrize("snake", [False, True])
@pytest.mark.parametrize("name", REQUESTS)
def test_requests_of_adk__no_random_value_is_expected_or_compared(name: str, snake: bool) -> None:
    """The ids of one run are in no case, are none of the next run's, and hide no other difference."""
    first, second = (request(name, number, snake=snake) for number in (1, 2))
    turn = Invocation(user_content=user_message("hi"), intermediate_data=IntermediateData(tool_uses=[first]))

    assert match_calls([first], [second])
    assert "adk-" not in json.dumps(first.args) and "adk_1" not in json.dumps(first.args)
    written = accept_turn({"user_content": {}}, NewTurn(actual=turn, fields=frozenset({"calls"})))
    talk = Conversation(session_id="s", turns=[turn], started_at=0, place=Place(file="f"))
    [case], _ = eval_cases([talk])
    assert "adk-1" not in json.dumps([written, case.model_dump(mode="json")])
    assert first.id == "adk-1", "it pairs the call with the user's answer"
    assert not match_calls([first], [request(name, 2, snake=snake, message="Which color?")])
    if name == "adk_request_confirmation":
        assert '"id": 5' in json.dumps(first.args), "an argument of the tool itself"


@pytest.mark.parametrize("args", [None, {}, {"interruptId": 1}, {"originalFunctionCall": "x", "authConfig": [1]}])
@pytest.mark.parametrize("name", [*REQUESTS, "request_input"])
def test_requests_of_adk__odd_arguments(name: str, args: Any) -> None:
    kept = {} if name == REQUESTS[0] and args and "interruptId" in args else args
    assert FunctionCall(name=name, args=args).args == kept


def test_explain__arguments() -> None:
    shown = [why([call("f", x=expected)], [call("f", x=actual)])[1:] for expected, actual in ARGUMENTS]
    check("golden_explained_arguments.txt", "\n\n".join("\n".join(each) for each in shown) + "\n")


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
    shown = lines(explain_response(expected, actual, rouge1(tokenize(expected), tokenize(actual))))

    assert all(line.isprintable() and len(line) <= 400 for line in shown)
    few = max(len(words(expected)), len(words(actual))) <= FEW_WORDS  # more are not listed
    if few and rouge1(tokenize(expected), tokenize(actual)).f_measure < 1:
        assert len(shown) >= 2 or "no text" in shown[0] or "no words" in shown[0]


# `tool_trajectory_partial`, and args that are a subset.


F, FIND, FAN = call("f", x=1), call("find", room="bedroom"), call("turn_on", device="fan", level=3, fast=True)
ANY_F, ANY_G = FunctionCall(name="f"), FunctionCall(name="g")
PAIRS: dict[str, tuple[Calls, Calls]] = {
    "nothing": ([], []),
    "one missing": ([A], []),
    "one too many": ([], [A]),
    "one between": ([A, B], [A, C, B]),
    "one, another order, and others": ([A, B, C], [C, A, call("d", q=[1, 2])]),
    "another order": ([A, B], [B, A]),
    "too often": ([A], [A, A, A, A]),
    "not often enough": ([A, A], [A]),
    "other arguments and another call": ([A, B], [call("a", x=7), C]),
    "other arguments, and one missing": ([call("a", x=2), B, call("d")], [A, B, C]),
    "more arguments": ([F], [call("f", x=1, y=2)]),
    "omitted arguments": ([ANY_F], [F]),
    "omitted arguments, and none": ([ANY_F], [call("f")]),
    "no arguments, and omitted ones": ([call("f")], [ANY_F]),
    "a bit of everything": (
        [FIND, call("turn_on", device="lamp", level=3), call("log")],
        [FAN, call("find", room="bedroom", floor=1), call("beep")],
    ),
    "subsets": ([F, ANY_G], [call("f", x=1, note="n"), call("g", y=[1])]),
    "subsets and one more": ([F, ANY_G], [call("f", x=1, note="n"), call("g", y=[1]), C]),
    "subsets in another order": ([F, ANY_G], [call("g", y=[1]), call("f", x=1, note="n")]),
    "no subsets": ([F, ANY_G], [call("f", note="n"), call("g")]),
    "subsets that the first call must not take": ([call("f"), F], [F, call("f", x=2)]),
    "hostile": ([], [FunctionCall(name="a\n::error::x", args={"k\r\ny": "\u202e\x1b[31m\x85\u2028##[error]\ud800"})]),
}
SUBSET, MATCH = {"args_match": "subset"}, "tool_trajectory_avg_score"
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    **{each.name: (MATCH, {"match_type": each}) for each in MatchType},
    **{f"{each.name}, subset": (MATCH, {"match_type": each, **SUBSET}) for each in MatchType},
    "EXACT, ignoring args": (MATCH, {"ignore_args": True}),
    "partial": ("tool_trajectory_partial", {}),
    "partial, any order": ("tool_trajectory_partial", {"strict_order": False}),
    "partial, strict args": ("tool_trajectory_partial", {"strict_args": True}),
    "precision": ("trajectory_precision", {}),
    "precision, ignoring args": ("trajectory_precision", {"ignore_args": True}),
    "recall": ("trajectory_recall", {}),
}


async def test_scores__of_calls() -> None:
    """Of each pair: the calls as they are shown, then each score and its reasons, with the metrics that have it."""
    text = ""
    for name, pair in PAIRS.items():
        ways = await in_ways(WAYS, turn(*pair[1]), turn(*pair[0]))
        text += f"== {name}\n{list_calls(pair[0])}\n--\n{list_calls(pair[1])}\n{ways}\n"
    check("golden_scored_calls.txt", text)


async def test_partial_trajectory__several_turns() -> None:
    two = await scored("tool_trajectory_partial", [turn(A), turn(A)], [turn(A), turn(A, B)], threshold=0.5)
    assert two.score == 0.75
    passing = await scored("tool_trajectory_partial", [turn(A)], [turn(A, B)], threshold=0.5)
    assert (passing.score, passing.findings) == (0.5, ())


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
    return await score(actual=actual, expected=expected, **{"metric": METRIC, "threshold": 0.9, **options})


async def said_score(expected: Said, actual: Said, **options: Any) -> float | None:
    result = await said_run((expected, actual), **options)
    assert isinstance(result, Scored), result
    return result.score


GOOD, BETTER = ("a", "one two three"), ("a", "one two three four")
EXACT: dict[str, Any] = {"metric": "response_similarity", "algorithm": "exact"}
WITH_THEM = {**EXACT, "include_intermediate_responses_in_final": True}
SAID: dict[str, tuple[Said, Said, dict[str, Any]]] = {
    "the same": ([SUNNY, TRAIN], [SUNNY, TRAIN], {}),
    "others between": ([SUNNY, TRAIN], [("travel", "Let me look."), SUNNY, ("weather", "Hm."), TRAIN], {}),
    "another order": ([SUNNY, TRAIN], [TRAIN, SUNNY], {}),
    "one missing": ([SUNNY, TRAIN], [SUNNY], {}),
    "nothing said": ([SUNNY], [], {}),
    "by another agent": ([SUNNY], [("travel", SUNNY[1])], {}),
    "in capitals": ([SUNNY], [("weather", "IT IS SUNNY IN PARIS!")], {}),
    "exact": ([SUNNY], [("weather", "It is sunny  in Paris.")], {"algorithm": "exact", "normalize": False}),
    "the better one counts": ([BETTER], [GOOD, BETTER], {}),
    "the best assignment": ([GOOD, BETTER], [BETTER, GOOD, BETTER], {}),
    "one is similar": ([SUNNY, TRAIN], [("weather", "It is rainy in Paris."), ("hotel", "Full.")], {}),
    "answers alone": ([SUNNY], [TRAIN], EXACT),
    "other responses before the answers": ([SUNNY], [TRAIN], WITH_THEM),
    "equal responses before the answers": ([SUNNY], [SUNNY], WITH_THEM),
}


async def test_scores__of_intermediate_responses() -> None:
    text = ""
    for name, (expected, actual, options) in SAID.items():
        result = await said_run((expected, actual), **options)
        assert isinstance(result, Scored), name
        text += f"== {name}: {result.score:.4g}\n"
        for finding in result.findings:
            shown = "\n  ".join(lines(finding.why))
            text += f"{finding.expected}\n--\n{finding.actual}\n  {shown}\n"
    check("golden_scored_intermediate.txt", text)


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
