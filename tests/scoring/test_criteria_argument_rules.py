"""Rules for the args of expected calls."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from criteria_samples import A, B, call, in_ways, scored, turn
from evalset_samples import criterion
from gate_runs import eval_case
from golden_files import check
from remark_samples import lines

from agent_eval_agents.fingerprints import metric_identity
from agent_eval_scoring.core.content import FunctionCall
from agent_eval_scoring.core.patterns import LONGEST_WHOLE, bounded
from agent_eval_scoring.criteria._argument_rules import fits, ruled, settled
from agent_eval_scoring.evalset.loading import load_suite
from agent_eval_scoring.evalset.models import CriterionConfig, MatchType
from agent_eval_scoring.evalset.models.argument_rules import check_rules, with_defaults

METRIC = "tool_trajectory_avg_score"
TOKEN = "_auth_prefix_vaf_Authorization"
ANY_SEARCH = FunctionCall(name="search")
PLAN = {"selected_agent_type": "llm_agent", "plan_summary": "Greet", "plan_steps": [{"step_type": "text", "order": 1}]}

# By what people have asked google/adk-python for, each with its thread: rules, expected call, calls that fit, others.
Wish = tuple[dict[str, Any], FunctionCall, list[FunctionCall], list[FunctionCall]]
WISHES: dict[str, Wish] = {
    "#1591: arguments that may differ": (
        {"plan": {"plan_summary": "any"}},
        call("plan", **PLAN),
        [call("plan", **{**PLAN, "plan_summary": "Say hello"})],
        [
            call("plan", **{**PLAN, "selected_agent_type": "loop"}),
            call("plan", selected_agent_type="llm_agent", plan_steps=PLAN["plan_steps"]),
        ],
    ),
    "#1591: an argument of an item": (
        {"plan": {"plan_steps.order": "ignore"}},
        call("plan", **PLAN),
        [call("plan", **{**PLAN, "plan_steps": [{"step_type": "text"}]})],
        [call("plan", **{**PLAN, "plan_steps": [{"step_type": "code", "order": 1}]})],
    ),
    "#1591: 1 with a threshold of 0.1 passes 0.9 to 1.1": (
        {"set": {"value": {"tolerance": 0.1}}},
        call("set", value=1),
        [call("set", value=0.9), call("set", value=1.1), call("set", value=1)],
        [call("set", value=1.11), call("set", value="1"), call("set", value=False), call("set")],
    ),
    "#2083: tokens that change, by their prefix": (
        {"*": {"_auth_prefix_*": "ignore"}},
        call("list_conditions", org_id="my-org.com", **{TOKEN: "Bearer 1"}),
        [
            call("list_conditions", org_id="my-org.com", **{TOKEN: "Bearer 2"}),
            call("list_conditions", org_id="my-org.com"),
        ],
        [call("list_conditions", org_id="other.com", **{TOKEN: "Bearer 1"})],
    ),
    "#2757: which tools, whatever the args": (
        {"search": "ignore"},
        call("search", query="x"),
        [call("search", query="y"), call("search"), ANY_SEARCH],
        [call("look_up", query="x")],
    ),
    "#3077, #4794: args that nobody can predict, of one tool": (
        {"ask": {"*": "ignore", "agent": "exact"}},
        call("ask", agent="weather", request="Is it sunny?"),
        [call("ask", agent="weather", request="How is the weather?", context=[1])],
        [call("ask", agent="travel", request="Is it sunny?")],
    ),
    "#3809, #4485: any value, but some": (
        {"search": {"query": "any"}},
        call("search", query="ANY"),
        [call("search", query="lamps"), call("search", query=None)],
        [call("search"), call("search", query="lamps", limit=1)],
    ),
    "#4485: nothing is expected of the args": (
        {"search": "ignore"},
        ANY_SEARCH,
        [call("search", query="y")],
        [call("f")],
    ),
    "#5643: texts without regard to case and space": (
        {"book": {"city": "ignore_case", "note": "ignore_space", "guest.*": "ignore_case_and_space"}},
        call("book", city="Paris", note="two beds", guest={"last": "Van Dyk"}),
        [call("book", city="PARIS", note=" two\n beds ", guest={"last": "van  dyk "})],
        [
            call("book", city=" Paris", note="two beds", guest={"last": "Van Dyk"}),
            call("book", city="Paris", note="Two beds", guest={"last": "Van Dyk"}),
            call("book", city="Paris", note="two beds", guest={"last": "VanDyk"}),
        ],
    ),
    "#5643: a pattern": (
        {"book": {"id": {"pattern": r"R-\d+"}}},
        call("book", id="R-1"),
        [call("book", id="R-77"), call("book", id="R-1")],
        [
            call("book", id="xR-77"),
            call("book", id="R-7\n"),
            call("book", id=["R-7"]),
            call("book", id="R-" + "7" * 999),
        ],
    ),
    "#5643: a number as a share": (
        {"pay": {"amount": {"tolerance": "5%"}}},
        call("pay", amount=-200),
        [call("pay", amount=-209.9), call("pay", amount=-190)],
        [call("pay", amount=-211), call("pay", amount=200), call("pay", amount=10**400)],
    ),
    "one of several values": (
        {"pay": {"currency": {"one_of": ["EUR", None, {"code": 978}]}}},
        call("pay", currency="EUR"),
        [call("pay", currency=None), call("pay", currency={"code": 978})],
        [call("pay", currency="eur"), call("pay", currency=[])],
    ),
    "a subset, of items in any order": (
        {"tag": {"tags": "subset"}},
        call("tag", tags=[{"n": 1}, {"n": 1, "m": 2}]),
        [call("tag", tags=[{"n": 1, "m": 2}, {"n": 3}, {"n": 1, "x": []}])],
        [call("tag", tags=[{"n": 1, "m": 2}]), call("tag", tags={"n": 1}), call("tag", tags=[{"n": 1}, {"n": 1}])],
    ),
    "a date near the expected one": (
        {"book": {"day": {"date_within": "1d"}}},
        call("book", day="2026-06-05"),
        [call("book", day="2026-06-04"), call("book", day="2026-06-06T00:00:00"), call("book", day="20260606")],
        [call("book", day="2026-06-07"), call("book", day="06/06/2026"), call("book", day=20260605), call("book")],
    ),
    "a time with a zone": (
        {"book": {"at": {"date_within": "30m"}}},
        call("book", at="2026-06-05T10:00:00+02:00"),
        [call("book", at="2026-06-05T08:20:00Z"), call("book", at="2026-06-05T08:30")],
        [call("book", at="2026-06-05T10:00:00Z"), call("book", at="0001-01-01T00:00:00+14:00")],
    ),
    "of several rules the most specific one": (
        {"set": {"level": {"tolerance": 1}}, "s*": {"level": {"tolerance": 2}}, "*": {"*": "ignore"}},
        call("set", level=3, room="a"),
        [call("set", level=4, room="b")],
        [call("set", level=5, room="a")],
    ),
    "what is ignored, but for a part of it": (
        {"find": {"filter.price": "exact", "*": "ignore"}},
        call("find", filter={"price": 2, "sort": "up"}, page=1),
        [call("find", filter={"price": 2, "sort": "down"}, page=2), call("find", filter={"price": 2, "more": 1})],
        [call("find", filter={"price": 3, "sort": "up"}, page=1), call("find", filter={"sort": "up"}), call("find")],
    ),
    "a subset with a near number in it": (
        {"find": {"filter": "subset", "filter.price": {"tolerance": 1}}},
        call("find", filter={"price": 2}),
        [call("find", filter={"price": 2.5, "more": 1})],
        [call("find", filter={"price": 4, "more": 1}), call("find", filter={"more": 1})],
    ),
    "each number of a list": (
        {"plot": {"points": {"tolerance": 0.1}}},
        call("plot", points=[1.0, 2.0]),
        [call("plot", points=[1.05, 2.0])],
        [call("plot", points=[1.05, 2.2]), call("plot", points=[1.0])],
    ),
    "long numbers": (
        {"get": {"id": {"tolerance": 1}}},
        call("get", id=9007199254740993),
        [call("get", id=9007199254740992)],
        [call("get", id=9007199254740995)],
    ),
    "a time of day": (
        {"wake": {"at": {"date_within": "1h"}}},
        call("wake", at="15:00"),
        [call("wake", at="15:30")],
        [call("wake", at="17:00"), call("wake", at="noon")],
    ),
}


def test_rules__of_a_criterion_count_before_those_of_the_tool_in_whatever_order() -> None:
    tool, own = {"city": "ignore_case", "*": "any"}, {"S": {"city": "exact"}}
    assert with_defaults(own, {"S": tool}) == {"S": {"city": "exact", "*": "any"}}
    paris, rome = call("S", city="Paris", day=1), call("S", city="Rome", day=2)
    for rules in ({"city": "exact", "*": "any"}, {"*": "any", "city": "exact"}):
        [expected] = ruled([paris], {"S": rules})
        assert settled(expected, rome) == {"city": "Rome", "day": 1}


@pytest.mark.parametrize("name", WISHES)
async def test_rules__what_people_ask_for(name: str) -> None:
    rules, expected, fitting, others = WISHES[name]
    for metric in (METRIC, "tool_trajectory_partial", "trajectory_precision", "trajectory_recall"):
        ways: list[dict[str, Any]] = [{}] if metric != METRIC else [{"match_type": each} for each in MatchType]
        ways = [{"strict_args": True}] if metric.endswith("partial") else ways
        for actual, score in [*((one, 1.0) for one in fitting), *((one, 0.0) for one in others)]:
            for way in ways:
                result = await scored(metric, [turn(actual)], [turn(expected)], args=rules, **way)
                assert result.score == score, (metric, way, actual)
                assert bool(result.findings) is (score == 0.0)
    if name.startswith("#3809"):  # `args` has no meaning for ADK, which keeps comparing exactly.
        assert (await scored(METRIC, [turn(fitting[0])], [turn(expected)])).score == 0.0


async def test_rules__by_the_place_of_the_expected_call() -> None:
    """In all ways of comparing, and the call that fits two expected ones is left to the one that needs it."""
    expected = turn(call("find", city="Rome"), call("find", city="Rome"), B)
    rules = {"find#2": {"city": "any"}}
    ways: dict[str, tuple[str, dict[str, Any]]] = {
        **{each.name: (METRIC, {"match_type": each, "args": rules}) for each in MatchType},
        "precision": ("trajectory_precision", {"args": rules}),
        "recall": ("trajectory_recall", {"args": rules}),
        "partial": ("tool_trajectory_partial", {"args": rules, "strict_order": False}),
    }
    text = ""
    for title, calls in {
        "the second may differ": [call("find", city="Rome"), call("find", city="Oslo"), B],
        "the first may not": [call("find", city="Oslo"), call("find", city="Rome"), B],
        "neither is there": [call("find", city="Oslo"), call("find", city="Bonn"), B],
    }.items():
        text += f"== {title}\n{await in_ways(ways, turn(*calls), expected)}\n"
    for title, (rules, wanted, _, others) in WISHES.items():
        text += f"== {title}\n"
        for other in others:
            text += await in_ways({METRIC: (METRIC, {"args": rules})}, turn(other), turn(wanted))
    check("golden_argument_rules.txt", text)


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+b", "(a|a)*b", "(a|aa)+b", "(a*)*b", "(x+x+)+y", r"(\w+\s?)*b", ".*.*.*b", "(?:a?){30}a{30}", "a" * 9000],
)
def test_pattern__never_slow(pattern: str) -> None:
    """Refused, or fast on every text: each pair of these takes minutes or years without a bound."""
    try:
        expression = bounded(pattern, whole=True)
    except ValueError:
        with pytest.raises(ValueError, match="could take too long"):
            check_rules({"x": {"pattern": pattern}})
        return
    start = time.process_time()
    assert not expression.fullmatch("a" * LONGEST_WHOLE)
    assert time.process_time() - start < 1


def test_pattern__two_repetitions_without_a_bound() -> None:
    start = time.process_time()
    assert not fits({"pattern": ".*.*b"}, "", "a" * LONGEST_WHOLE)
    assert fits({"pattern": ".*hotel.*"}, "", "the hotel at the lake")
    assert not fits({"pattern": ".*"}, "", "a" * (LONGEST_WHOLE + 1))
    assert time.process_time() - start < 2


def test_identity__without_rules_is_that_of_earlier_results() -> None:
    config = CriterionConfig(metric=METRIC, threshold=1.0, options={"match_type": MatchType.EXACT})
    plain = metric_identity(config)
    with_rules = [
        CriterionConfig(metric=METRIC, threshold=1.0, options={**config.options, "args": rules})
        for rules in ({}, {"f": {"x": "any"}})
    ]
    assert [metric_identity(one) == plain for one in with_rules] == [True, False]


def write(root: Path, rules: Any) -> None:
    case = eval_case("a", ("Go.", [("search", {"query": "x", "filter": {"city": "Rome"}}), ("lamp", {})], "Done."))
    (root / "a.evalset.json").write_text(json.dumps({"eval_set_id": "a", "eval_cases": [case]}), "utf-8")
    config = criterion(METRIC, args=rules)
    (root / "test_config.json").write_text(json.dumps(config, indent=1), "utf-8")


MISTAKES = {
    "tool": {"serach": {"query": "any"}},
    "argument": {"search": {"qeury": "any"}},
    "nested argument": {"search": {"filter.town": "ignore_case"}},
    "an ignored argument that is almost one": {"search": {"querry": "ignore"}},
    "place": {"search#2": {"query": "any"}},
    "no args": {"lamp": {"level": {"tolerance": 1}}},
}


@pytest.mark.parametrize("name", MISTAKES)
def test_idle_rules__errors_with_the_nearest_name(name: str, tmp_path: Path) -> None:
    write(tmp_path, MISTAKES[name])
    [problem] = load_suite(tmp_path, ["."]).problems
    assert load_suite(tmp_path).problems == (problem,)
    assert (problem.code, problem.file, bool(problem.line)) == ("idle-argument-rule", "test_config.json", True)
    assert str(problem.severity) == "error"
    near = {"tool": "`search`", "argument": "`query`", "an ignored argument that is almost one": "`query`"}
    assert near.get(name, "") in (problem.hint or "")
    [warned] = load_suite(tmp_path, ["a.evalset.json"]).problems  # Another file may need the rule.
    assert str(warned.severity) == "warning"


def test_idle_rules__what_is_ignored_may_be_in_answers_only(tmp_path: Path) -> None:
    write(tmp_path, {"search": {"filter.city": "ignore_case", "_auth_*": "ignore"}, "search#1": {"filter": "subset"}})
    assert load_suite(tmp_path).problems == ()


def test_defaults__of_agent_eval_toml(tmp_path: Path) -> None:
    """They come before the rules of a criterion, also where there is no config; misspelt names are warnings."""
    write(tmp_path, {"search": {"query": "any"}})
    defaults = {"search": {"query": "ignore_case", "filter.*": "ignore_case"}, "lapm": {"*": "ignore"}}
    suite = load_suite(tmp_path, tool_args=defaults)
    assert suite.files[0].config.criteria[0].options["args"] == {
        "lapm": {"*": "ignore"},
        "search": {"query": "any", "filter.*": "ignore_case"},
    }
    [problem] = suite.problems
    assert (problem.code, str(problem.severity), problem.file) == ("idle-argument-rule", "warning", "agent-eval.toml")
    assert "`lamp`" in (problem.hint or "")
    (tmp_path / "test_config.json").unlink()
    trajectory, response = load_suite(tmp_path, tool_args=defaults).files[0].config.criteria
    assert trajectory.options["args"] == defaults
    assert "args" not in response.options


async def test_rules__cost_nothing_where_there_are_none() -> None:
    assert (await scored(METRIC, [turn(A, B)], [turn(A, B)], args={})).score == 1.0


LONG = 2_000
LISTS: dict[str, tuple[list[Any], list[Any], bool]] = {
    "by ids": (
        [{"id": n, "v": {"x": 1}} for n in range(LONG)],
        [{"id": n, "v": {"x": 1, "y": 2}} for n in range(LONG)][::-1],
        True,
    ),
    "by values inside": (
        [{"v": {"id": n}} for n in range(LONG)],
        [{"v": {"id": n}, "z": 0} for n in range(LONG)],
        True,
    ),
    "all alike": ([{"t": "x"}] * LONG, [{"t": "x", "n": n} for n in range(LONG)], True),
    "one too many": ([{"t": "x"}] * LONG, [{"t": "x", "n": n} for n in range(LONG - 1)], False),
    "another": ([{"id": n} for n in range(LONG)], [{"id": n + 1, "z": 1} for n in range(LONG)], False),
    "of lists": ([[n] for n in range(LONG)], [[n, -n] for n in range(LONG)], False),
    "the equal one is taken": ([{"a": 1}, {"a": 1, "b": 2}], [{"a": 1, "b": 2}, {"a": 1, "c": 3}], True),
}


@pytest.mark.parametrize("name", LISTS)
def test_fits__subset_of_a_long_list_in_bounded_time(name: str) -> None:
    expected, actual, accepted = LISTS[name]
    start = time.process_time()
    assert fits("subset", expected, actual) is accepted
    assert time.process_time() - start < 2


async def test_partial_credit__share_of_equal_args() -> None:
    """adk-python #6726."""
    expected, made = turn(call("book", room="a", nights=2), A), turn(call("book", room="a", nights=3), A)
    for options, share in (
        ({}, 0.5),
        ({"args_credit": True}, 0.75),
        ({"args_credit": True, "strict_args": True}, 0.75),
    ):
        assert (await scored("tool_trajectory_partial", [made], [expected], **options)).score == share


async def test_explanation__shows_what_was_got_where_a_rule_accepts_a_part() -> None:
    expected, made = turn(call("f", tags=["A", "b", 3])), turn(call("f", tags=["a", "B", 4]))
    result = await scored(METRIC, [made], [expected], args={"f": {"tags": "ignore_case"}})
    shown = lines(result.findings[0].why)[1]
    assert shown == 'f(tags): expected ["A", "b", 3], got ["a", "B", 4] (ignore_case)'
