"""Rules of order and absence of tool calls."""

from __future__ import annotations

from typing import Any

import pytest
from criteria_samples import score, scored, turn
from remark_samples import lines

from agent_eval_scoring.core.content import Content, FunctionCall, FunctionResponse, Part, user_message
from agent_eval_scoring.core.invocation import (
    AgentDetails,
    AppDetails,
    IntermediateData,
    Invocation,
    InvocationEvent,
    InvocationEvents,
)
from agent_eval_scoring.criteria import NotEvaluated

Turns = list[Invocation]


def made(*names: str) -> Invocation:
    """A turn with calls of tools; `a!` fails, `a?` has no answer, and `a+b` are called at once."""
    events = []
    for step in names:
        parts: tuple[list[Part], list[Part]] = ([], [])
        for at, word in enumerate(step.split("+")):
            name = word.rstrip("!?")
            parts[0].append(Part(function_call=FunctionCall(name=name, args={}, id=f"{at}")))
            answer = {"error": "no"} if word.endswith("!") else {"result": 1}
            if not word.endswith("?"):
                parts[1].append(Part(function_response=FunctionResponse(name=name, response=answer, id=f"{at}")))
        events += [InvocationEvent(author="x", content=Content(parts=some)) for some in parts if some]
    return Invocation(user_content=user_message("u"), intermediate_data=InvocationEvents(invocation_events=events))


SUCCEEDS, PASSED_OVER = {"succeeds": "a*"}, "an error of a* was passed over: no later call of it succeeded"
BEFORE, AFTER_SUCCESS = {"before": ["a", "b*"]}, {"success_before": ["a", "b"]}
CASES: dict[str, tuple[dict[str, Any], Turns, str]] = {
    "before": (BEFORE, [made("a", "b1")], ""),
    "before, in an earlier turn": (BEFORE, [made("a"), made("b")], ""),
    "before, failed": (BEFORE, [made("a!", "b")], ""),
    "before, at once": (BEFORE, [made("a+b")], ""),
    "before, neither": (BEFORE, [made("c")], ""),
    "after": (BEFORE, [made("b"), made("a")], "b* was called before a"),
    "without": (BEFORE, [made("c", "b")], "b* was called before a"),
    "succeeded": (AFTER_SUCCESS, [made("a!", "a", "b")], ""),
    "not needed": (AFTER_SUCCESS, [made("a!")], ""),
    "failed": (AFTER_SUCCESS, [made("a!"), made("b")], "b was called before a had succeeded"),
    "succeeded too late": (AFTER_SUCCESS, [made("a!", "b", "a")], "b was called before a had succeeded"),
    "not answered": (AFTER_SUCCESS, [made("a?", "b")], "b was called before a had succeeded"),
    "at once": (AFTER_SUCCESS, [made("a+b")], "b was called before a had succeeded"),
    "never": ({"never": "delete_*"}, [made("a")], ""),
    "forbidden": (
        {"never": "delete_*"},
        [made("a"), made("delete_all!")],
        "delete_* was called, which the rule forbids",
    ),
    "twice": ({"at_most": {"a": 2}}, [made("a", "a")], ""),
    "three times": ({"at_most": {"a": 2}}, [made("a", "a"), made("a")], "a was called more than 2 times"),
    "one of them": ({"some_of": ["a", "b"]}, [made("c"), made("b")], ""),
    "no error": (SUCCEEDS, [made("a", "b!")], ""),
    "again with success": (SUCCEEDS, [made("a!", "b"), made("a")], ""),
    "passed over": (SUCCEEDS, [made("a", "b"), made("a!", "b")], PASSED_OVER),
    "again with an error": (SUCCEEDS, [made("a!", "a!")], PASSED_OVER),
    "another tool succeeded": (SUCCEEDS, [made("a1!", "a2")], PASSED_OVER),
    "one of two at once": (SUCCEEDS, [made("a!+a")], PASSED_OVER),
    "none of them": ({"some_of": ["a", "b"]}, [made("c")], "none of these was called: a, b"),
}


@pytest.mark.parametrize("name", CASES)
async def test_tool_rules__one_rule(name: str) -> None:
    rule, turns, why = CASES[name]
    result = await scored("tool_rules", turns, None, rules=[rule])
    assert result.score == float(not why)
    assert [line for finding in result.findings for line in lines(finding.why)] == (
        ["0 of 1 rule kept", why] if why else []
    )


async def test_tool_rules__share_and_the_turns_in_which_they_are_broken() -> None:
    rules = [{"never": "x"}, {"never": "y"}, {"some_of": ["z"]}, BEFORE]
    result = await scored("tool_rules", [made("y"), made("x"), made("c")], None, rules=rules, threshold=0.9)
    assert (result.score, result.turn_scores) == (0.25, (None, None, 0.25))
    assert [(finding.turn, finding.expected) for finding in result.findings] == [
        (0, '{"never": "y"}'),
        (1, '{"never": "x"}'),
        (2, '{"some_of": ["z"]}'),
    ]
    missing = await score("tool_rules", [], None, rules=rules)
    assert isinstance(missing, NotEvaluated) and missing.code == "no-turns"


async def test_tool_rules__lists_without_an_order_between_them() -> None:
    """A recorded conversation in the older form: each call has its own answer."""
    calls = [FunctionCall(name="a", args={}), FunctionCall(name="a", args={}), FunctionCall(name="b", args={})]
    for answers, expected in (([{"error": "no"}, {"ok": 1}], 1.0), ([{"error": "no"}], 0.0)):
        responses = [FunctionResponse(name="a", response=answer) for answer in answers]
        data = IntermediateData(tool_uses=calls, tool_responses=responses)
        at = turn().model_copy(update={"intermediate_data": data})
        assert (await scored("tool_rules", [at], None, rules=[AFTER_SUCCESS])).score == expected


async def test_tool_rules__success_of_a_call_is_not_known_without_any_response() -> None:
    rule = [{"success_before": ["a", "b"]}]
    silent = [made("a?", "b?")]
    for unknown in (rule, [{"succeeds": "a"}]):
        result = await score("tool_rules", silent, None, rules=unknown)
        assert isinstance(result, NotEvaluated) and result.code == "responses-not-visible"
    assert (await scored("tool_rules", silent, None, rules=[{"succeeds": "c"}])).score == 1
    for turns in ([made("a?", "b")], [made("a!", "b?")], [made("b?")]):
        assert (await scored("tool_rules", turns, None, rules=rule)).score == 0


async def test_tool_rules__a_name_that_is_almost_a_tool_is_named() -> None:
    tools = [{"function_declarations": [{"name": "delete_all"}, {"name": "book"}]}]
    details = AppDetails(agent_details={"x": AgentDetails(name="x", tool_declarations=tools)})
    rules = [{"never": "delte_all"}, {"never": "delete_*"}, {"before": ["book", "other"]}]
    turn = made("book").model_copy(update={"app_details": details})
    assert (await scored("tool_rules", [turn], None, rules=rules)).details == {"misspelt": {"delte_all": "delete_all"}}
    assert (await scored("tool_rules", [made("delte_all")], None, rules=rules)).details == {}, "it was called"
