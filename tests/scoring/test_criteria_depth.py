"""Calls that the agent of an AgentTool made: what counts them, and what is said of them."""

from __future__ import annotations

from typing import Any

import pytest
from criteria_samples import call, score, turn
from recording_samples import actual, called, recording
from remark_samples import lines

from agent_eval_results.causes._differences import differences
from agent_eval_results.causes._runs import side_of_case, side_of_run
from agent_eval_results.data.conversations import conversation_of
from agent_eval_results.report.html._source import CaseDetail
from agent_eval_results.report.html._turns import turns_of
from agent_eval_scoring.core.invocation import Invocation, Span, hidden_calls
from agent_eval_scoring.criteria import Conversation, NotEvaluated, build, explained
from agent_eval_scoring.criteria.base import Scored
from agent_eval_scoring.evalset.models import CRITERION_MODELS, EvalCase
from agent_eval_scoring.evalset.parse import criterion


def span(name: str, call_id: str, agent: str, inside: str | None = None, **args: Any) -> Span:
    hidden: dict[str, Any] = {"args": args, "response": {"t": 5}} if inside or not call_id.startswith("o") else {}
    return Span(kind="tool", agent=agent, name=name, call_id=call_id, start=0, end=1, inside=inside, **hidden)


OUTER = [*called("weather", {"result": "ok"}, id="o1", request="w"), *called("log", {}, id="o2")]
WEATHER, LOG = span("weather", "o1", "root"), span("log", "o2", "root")
INNER, GEO = span("look", "i1", "weather", "o1", city="Paris"), span("geo", "i2", "weather", "o1", request="g")
DEEPER = span("look", "i3", "geo", "i2", city="Oslo")


def made(*spans: Span) -> Invocation:
    return actual("u", "done", *OUTER, spans=[WEATHER, *spans, LOG])


CALLS = {"weather": call("weather", request="w"), "log": call("log"), "look": call("look", city="Paris")}
CALLS |= {"far": call("look", city="London"), "weather > look": call("weather > look", city="Paris")}
ALL: dict[str, Any] = {"depth": "all"}
GLOB: dict[str, Any] = {"depth": ["weather > look"]}
IN_ORDER = {"match_type": "IN_ORDER"}
CASES: dict[str, tuple[str, list[str], list[Span], dict[str, Any], float, list[str]]] = {
    # metric, expected, spans, options, score, lines but the first
    "#3493 as ADK": (
        "tool_trajectory_avg_score",
        *(["weather", "look"], [INNER], IN_ORDER, 0.0),
        ['look(city="Paris"): called inside weather, not counted'],
    ),
    "#3493": ("tool_trajectory_avg_score", ["weather", "look", "log"], [INNER], ALL, 1.0, []),
    "#3652 by its path": ("tool_trajectory_avg_score", ["weather", "weather > look", "log"], [INNER], ALL, 1.0, []),
    "#2757 without args": (
        "tool_trajectory_avg_score",
        *(["weather", "far", "log"], [INNER], {**ALL, "ignore_args": True}, 1.0, []),
    ),
    "other args inside": (
        "tool_trajectory_avg_score",
        *(["weather", "far"], [INNER], IN_ORDER, 0.0),
        ['look(city="London"): called inside weather as look(city="Paris"), not counted'],
    ),
    "only one of two is inside": (
        "trajectory_recall",
        *(["look", "look"], [INNER], {}, 0.0),
        ['look(city="Paris"): called inside weather, not counted', 'missing: look(city="Paris") (expected as call 2)'],
    ),
    "two levels": ("trajectory_recall", ["weather", "look"], [GEO, DEEPER, INNER], ALL, 1.0, []),
    "what is not named is extra": (
        "tool_trajectory_avg_score",
        *(["weather", "log"], [INNER], ALL, 0.0),
        ['extra: weather > look(city="Paris") (call 2)'],
    ),
    "only what the paths name": (
        "tool_trajectory_avg_score",
        ["weather", "look", "log"],
        [GEO, DEEPER, INNER],
        GLOB,
        1.0,
        [],
    ),
    "of a glob": ("trajectory_precision", ["weather", "log", "look"], [INNER, GEO], {"depth": ["* > look"]}, 1.0, []),
    "partial": ("tool_trajectory_partial", ["weather", "look", "log"], [INNER], ALL, 1.0, []),
    "one tool": (
        "trajectory_single_tool_use",
        *([], [INNER], {"tool_name": "look"}, 0.0),
        ["called instead: weather, log"],
    ),
}


@pytest.mark.parametrize("name", CASES)
async def test_depth__which_calls_count(name: str) -> None:
    metric, expected, spans, options, share, reasons = CASES[name]
    model = CRITERION_MODELS[metric].model_validate({"threshold": 1.0, **options})
    reference = None if metric.endswith("_use") else [turn(*(CALLS[one] for one in expected))]
    case = EvalCase(eval_id="c", conversation=[])
    shown = Conversation(case=case, actual=[made(*spans)], expected=reference)
    result = explained(await build(criterion(metric, model)).score(shown), shown)
    assert isinstance(result, Scored) and result.score == share
    assert [line for found in result.findings for line in lines(found.why)[1:]] == reasons
    assert "not called" not in str([lines(found.why) for found in result.findings])


async def test_depth__is_not_visible_without_measured_calls() -> None:
    silent = made(INNER).model_copy(update={"spans": None})
    result = await score("trajectory_recall", [silent], [turn(CALLS["look"])], **ALL)
    assert isinstance(result, NotEvaluated) and result.code == "inner-calls-not-visible"
    result = await score("tool_rules", [silent], None, rules=[{"never": "weather > look"}])
    assert isinstance(result, NotEvaluated) and result.code == "inner-calls-not-visible"
    assert isinstance(await score("tool_rules", [silent], None, rules=[{"never": "look"}]), Scored)


RULES = {
    "never, inside": ({"never": "look"}, False),
    "never, by its path": ({"never": "weather > look"}, False),
    "never, inside of another": ({"never": "log > look"}, True),
    "some of, at any depth": ({"some_of": ["geo > look", "weather > geo > look"]}, True),
    "before": ({"before": ["weather", "look"]}, True),
    "before, inside first": ({"before": ["log", "geo"]}, False),
    "succeeded inside": ({"success_before": ["weather > look", "log"]}, True),
    "at most": ({"at_most": {"look": 1}}, False),
}


@pytest.mark.parametrize("name", RULES)
async def test_tool_rules__see_calls_at_every_depth(name: str) -> None:
    rule, holds = RULES[name]
    result = await score("tool_rules", [made(INNER, GEO, DEEPER)], None, rules=[rule])
    assert isinstance(result, Scored) and result.score == float(holds)


def test_hidden_calls__paths() -> None:
    earlier = INNER.model_copy(update={"inside": None, "args": None})
    node = span("book", "n1", "bookings", room="attic")
    circle = [span("a", "c1", "x", "c2"), span("b", "c2", "x", "c1")]
    turned = made(INNER, GEO, DEEPER, node)
    assert [path for path, _ in hidden_calls(turned)] == [
        *("weather > look", "weather > geo", "weather > geo > look", "bookings > book")
    ]
    assert [path for path, _ in hidden_calls(made(earlier))] == ["weather > look"], "of recordings that lack `inside`"
    assert len(hidden_calls(made(*circle))) == 2, "an agent can write anything"
    assert hidden_calls(turned.model_copy(update={"spans": None})) == []


async def test_media__no_one_says_that_it_was_not_called() -> None:
    case = EvalCase(eval_id="c", conversation=[turn(CALLS["weather"], CALLS["look"], text="done")])
    ran = recording("c", made(INNER))
    said = conversation_of(ran, case)
    assert [(step.call, step.inside) for step in said.turns[0].steps] == [
        ('weather(request="w")', ""), ('weather > look(city="Paris")', "weather"), ("log()", ""),
    ]  # fmt: skip
    assert [step.call for step in said.turns[0].calls] == ['weather(request="w")', "log()"]
    [shown] = turns_of(ran.invocations, case.conversation, CaseDetail())
    assert shown["inside"] == {"look": "weather"} and "weather > look" in [one["name"] for one in shown["spans"]]
    expected = side_of_case(case.conversation or [])
    keys = [one.keys for one in differences(side_of_run(ran, "agent"), expected)]
    assert not [key for of_one in keys for key in of_one if key[0] == "call-missing"]
