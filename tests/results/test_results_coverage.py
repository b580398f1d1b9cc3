"""Which tools and agents no case reaches."""

from __future__ import annotations

from typing import Any

import pytest
from recording_samples import actual, called, recording
from report_samples import case, report

from agent_eval_results import AgentChange, AgentFacts, AgentTree, RunError, RunReport, ToolFacts
from agent_eval_results.data.coverage import CoverageReport, Reach, joined
from agent_eval_results.data.report import SelectionReport, ShardReport, TargetReport
from agent_eval_results.report.phrases import coverage_lines, uncovered_changes
from agent_eval_scoring.core.invocation import (
    AgentDetails,
    AppDetails,
    Invocation,
    InvocationEvent,
    InvocationEvents,
    Span,
)


def function(name: str) -> ToolFacts:
    return ToolFacts(name=name, declaration="hash")


def agent(name: str, *tools: ToolFacts, model: str = "gemini", sub_agents: list[str] | None = None) -> AgentFacts:
    return AgentFacts(name=name, model=model, tools=list(tools), sub_agents=sub_agents or [])


def told(name: str, *tools: str) -> AppDetails:
    """What a model was given."""
    declared = [{"function_declarations": [{"name": tool} for tool in tools]}]
    return AppDetails(agent_details={name: AgentDetails(name=name, tool_declarations=declared)})


def answer_of(author: str) -> Invocation:
    """An answer as hosts record it: its event has no content."""
    events = InvocationEvents(invocation_events=[InvocationEvent(author=author)])
    return actual("u", "Ok.").model_copy(update={"intermediate_data": events})


def inner(name: str, inside: str, by: str) -> Span:
    return Span(kind="tool", name=name, agent=by, call_id=f"{name}-1", inside=inside, start=0, end=1)


SHOP = [
    agent("shop", function("search"), function("refund"), sub_agents=["billing"]),
    agent("billing", function("pay")),
]
CALLS_SEARCH = actual("u", "Done.", *called("search"), author="shop")
CASES: dict[str, tuple[list[AgentFacts], list[Invocation], str]] = {
    "a function and a sub-agent": (
        SHOP,
        [CALLS_SEARCH],
        "2 of 3 tools are called by no case: pay, refund; 1 of 2 agents is reached by no case: billing",
    ),
    "all": (SHOP, [CALLS_SEARCH, actual("u", "Ok.", *called("refund"), *called("pay"), author="billing")], ""),
    "a tool of a toolset, once a model was given it": (
        [agent("shop", ToolFacts(name="McpToolset"))],
        [actual("u", "Ok.", *called("find"), author="shop", app_details=told("shop", "find", "drop"))],
        "1 of 2 tools is called by no case: drop",
    ),
    "a toolset of an agent that no case reaches": (
        [agent("shop"), agent("billing", ToolFacts(name="McpToolset"))],
        [answer_of("shop")],
        "1 of 2 agents is reached by no case: billing",
    ),
    "what google-adk adds itself": (
        [agent("shop")],
        [actual("u", "Ok.", author="shop", app_details=told("shop", "transfer_to_agent", "adk_request_input"))],
        "",
    ),
    "a workflow has no model, and its nodes are no tools": (
        [agent("flow", function("node"), model="", sub_agents=["shop"]), agent("shop")],
        [answer_of("shop")],
        "",
    ),
    "calls of an AgentTool's agent, from spans": (
        [agent("shop", ToolFacts(name="billing")), agent("billing", function("pay"), function("void"))],
        [actual("u", "Ok.", *called("billing", id="1"), author="shop", spans=[inner("pay", "1", "billing")])],
        "1 of 2 tools is called by no case: void",
    ),
    "an AgentTool whose agent can't be watched, and those below it": (
        [
            agent("shop", ToolFacts(name="billing")),
            agent("billing", function("pay"), sub_agents=["clerk"]),
            agent("clerk", function("file")),
        ],
        [actual("u", "Ok.", *called("billing", id="1"), author="shop", spans=[])],
        "",
    ),
    "no run that shows calls, no tree": ([], [actual("u", "Ok.")], ""),
}  # fmt: skip


def seen(turns: list[Invocation], agents: list[AgentFacts], **more: Any) -> list[CoverageReport]:
    reach = Reach()
    reach.note(recording("a", *turns, **more))
    found = reach.report("shop", AgentTree(agent="shop", agents=agents) if agents else None)
    return [] if found is None else [found]


def whole(coverage: list[CoverageReport], **more: Any) -> RunReport:
    return report("passed", [case("a", "passed")]).model_copy(update={"coverage": coverage, **more})


@pytest.mark.parametrize("name", CASES)
def test_coverage_lines__what_no_case_reaches(name: str) -> None:
    agents, turns, line = CASES[name]
    assert "".join(coverage_lines(whole(seen(turns, agents)))) == line


def test_reach__an_agent_that_does_not_show_its_calls_is_not_covered() -> None:
    assert seen([CALLS_SEARCH], SHOP, calls_visible=False) == []


def test_reach__a_call_that_a_failing_case_expects_is_covered() -> None:
    reach = Reach()
    reach.note(recording("a", CALLS_SEARCH), [actual("u", "Done.", *called("search"), *called("refund"))])
    found = reach.report("shop", AgentTree(agent="shop", agents=SHOP))
    assert found is not None and found.called == ["refund", "search"]


def test_coverage_lines__only_of_a_whole_run_that_ended() -> None:
    coverage = seen([CALLS_SEARCH], SHOP)
    selection = SelectionReport(targets=[TargetReport(path="a.test.json")])
    broken = case("a", "failed", errors={0: RunError(kind="agent-exception", owner="agent", message="m")})
    for more in ({"selection": selection}, {"shard": ShardReport(index=1, total=2, plan="p")}, {"cases": [broken]}):
        assert not list(coverage_lines(whole(coverage, **more)))
    assert list(coverage_lines(whole(coverage, selection=SelectionReport(exclude=["old/"]))))
    named = [*coverage, coverage[0].model_copy(update={"agent": "other"})]
    assert [line.split(":")[0] for line in coverage_lines(whole(named))] == ["shop", "other"]


def test_joined__parts_of_a_run() -> None:
    """What one part does not reach another one may."""
    one, two = seen([CALLS_SEARCH], SHOP), seen([actual("u", "Ok.", *called("pay"), author="billing")], SHOP)
    [both] = joined([*one, *two])
    assert (both.called, both.reached) == (["pay", "search"], ["billing", "shop"])
    assert "".join(coverage_lines(whole([both]))) == "1 of 3 tools is called by no case: refund"
    assert one[0].called == ["search"], "the parts stay as they are"


def test_uncovered_changes__what_the_pull_request_adds() -> None:
    changes = [
        AgentChange(code="tool-added", path="shop", agent="shop", tool="refund"),
        AgentChange(code="tool-added", path="shop", agent="shop", tool="search"),
        AgentChange(code="tool-added", path="other", agent="shop", tool="refund"),
        AgentChange(code="tool-source", path="shop", agent="billing", tool="pay"),
        AgentChange(code="agent-added", path="shop", agent="billing"),
    ]
    assert list(uncovered_changes(whole(seen([CALLS_SEARCH], SHOP), agent_changes=changes))) == [
        "The tool refund is new, and no case calls it",
        "The agent billing is new, and no case reaches it",
    ]
