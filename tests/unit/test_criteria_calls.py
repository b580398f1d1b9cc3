"""Equal calls, calls that contain others, and the alignment of lists of them."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.core.content import FunctionCall
from agent_eval.criteria._alignment import align
from agent_eval.criteria._sequences import in_any_order, in_order
from agent_eval.criteria.calls import ArgsMatch, args_match, contains, count_matched, match_calls, same_call
from agent_eval.evalset.models.schema import MatchType

VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "vectors" / "adk_2_13_0_trajectory.json").read_text(encoding="utf-8")
)["trajectory"]


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


def test_calls__ids_do_not_count() -> None:
    assert same_call(FunctionCall(id="1", name="a", args={}), FunctionCall(id="2", name="a", args={}))


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


@given(LISTS, LISTS, st.booleans())
def test_alignment__puts_every_call_in_one_place(
    expected: list[FunctionCall], actual: list[FunctionCall], ignore_args: bool
) -> None:
    alignment = align(expected, actual, args=args_match(ignore_args=ignore_args))
    pairs = [*alignment.matched, *alignment.moved, *alignment.changed]

    assert sorted([*(i for i, _ in pairs), *alignment.missing]) == list(range(len(expected)))
    assert sorted([*(j for _, j in pairs), *alignment.extra]) == list(range(len(actual)))
    for i, j in [*alignment.matched, *alignment.moved]:
        assert same_call(expected[i], actual[j], args=args_match(ignore_args=ignore_args))
    for i, j in alignment.changed:
        assert expected[i].name == actual[j].name
        assert not same_call(expected[i], actual[j], args=args_match(ignore_args=ignore_args))
    assert sorted(alignment.matched, key=lambda pair: pair[1]) == list(alignment.matched)


def _longest_common(expected: list[FunctionCall], actual: list[FunctionCall]) -> int:
    row = [0] * (len(actual) + 1)
    for expected_call in expected:
        above = row
        row = [0]
        for j, other in enumerate(actual):
            row.append(above[j] + 1 if same_call(expected_call, other) else max(above[j + 1], row[j]))
    return row[-1]


@given(LISTS, LISTS)
def test_alignment__agrees_with_the_scores(expected: list[FunctionCall], actual: list[FunctionCall]) -> None:
    alignment = align(expected, actual)
    clean = not (alignment.moved or alignment.changed or alignment.missing)

    assert len(alignment.matched) == _longest_common(expected, actual)
    assert len(alignment.matched) + len(alignment.moved) == count_matched(expected, actual)
    assert match_calls(expected, actual, match_type=MatchType.IN_ORDER) is clean
    assert match_calls(expected, actual, match_type=MatchType.EXACT) is (clean and not alignment.extra)
    assert match_calls(expected, actual, match_type=MatchType.ANY_ORDER) is (
        not alignment.changed and not alignment.missing
    )


def test_alignment__pairs_the_calls_that_agree_most() -> None:
    expected = [call("set", room="kitchen", level=1), call("set", room="hall", level=2)]
    actual = [call("set", room="hall", level=5), call("set", room="kitchen", level=9)]

    assert align(expected, actual).changed == ((0, 1), (1, 0))


@pytest.mark.parametrize(
    "argument", [lambda i: i + 1, lambda i: -i, lambda i: i % 2, lambda i: (i // 2) % 2, lambda i: 0]
)
def test_alignment__of_long_trajectories_is_bounded(argument: Any) -> None:
    expected = [call("a", x=i % 2 if argument(5) in (0, 1) else i) for i in range(1_000)]
    actual = [call("a", x=argument(i)) for i in range(1_000)]

    alignment = align(expected, actual)

    assert len(alignment.matched) + len(alignment.moved) == count_matched(expected, actual)


def test_alignment__deeply_nested_args() -> None:
    deep: Any = "end"
    for _ in range(300):
        deep = [deep]

    assert align([call("a", x=deep)], [call("a", x=deep)]).matched == ((0, 0),)


SUBSET = ArgsMatch.SUBSET


def fits(expected: FunctionCall, actual: FunctionCall) -> bool:
    return same_call(expected, actual, args=SUBSET)


@given(VALUES, VALUES, VALUES)
def test_contains__reflexive_transitive_and_implied_by_equality(first: Any, second: Any, third: Any) -> None:
    assert contains(first, first)
    assert contains(first, second) or first != second
    assert contains(first, third) or not (contains(first, second) and contains(second, third))


@given(LISTS, LISTS, st.sampled_from(MatchType))
def test_subset__accepts_what_equality_accepts(
    expected: list[FunctionCall], actual: list[FunctionCall], match_type: MatchType
) -> None:
    exact = match_calls(expected, actual, match_type=match_type)

    assert match_calls(expected, actual, match_type=match_type, args=SUBSET) or not exact
    assert count_matched(expected, actual, args=SUBSET) >= count_matched(expected, actual)


@given(LISTS, LISTS)
def test_matching__is_the_largest(expected: list[FunctionCall], actual: list[FunctionCall]) -> None:
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
