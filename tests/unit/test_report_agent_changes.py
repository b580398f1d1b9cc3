"""What a pull request changes in the agent, in words."""

from __future__ import annotations

from typing import Any

import pytest
import report_samples

from agent_eval.report.phrases import agent_change, agent_changes, agent_unchanged, put_into_words
from agent_eval.results import AgentChange, AgentFacts, AgentTree, RunReport, ToolFacts


def change(code: Any, **values: Any) -> AgentChange:
    return AgentChange(code=code, path="home", agent=values.pop("agent", "home_automation"), **values)


def report(*changes: AgentChange, tools: int = 5, sub_agents: int = 0) -> RunReport:
    agents = [AgentFacts(name="home_automation", tools=[ToolFacts(name=f"tool_{number}") for number in range(tools)])]
    agents += [AgentFacts(name=f"helper_{number}") for number in range(sub_agents)]
    made = report_samples.report("failed", [])
    made.agents, made.agent_changes = [AgentTree(agent="home", agents=agents)], list(changes)
    return made


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        (change("model", base="a-large", head="a-small"), "model a-large to a-small"),
        (change("instruction", added=3, removed=1), "instruction +3 -1 lines"),
        (change("instruction", added=1), "instruction +1 line"),
        (change("instruction", removed=2), "instruction -2 lines"),
        (change("instruction"), "instruction"),
        (change("callbacks", base="", head="before_tool_callback"), "callbacks none to before_tool_callback"),
        (change("sub-agents", base="a, b", head="a"), "sub-agents a, b to a"),
        (change("tool-source", tool="find_devices"), "tool find_devices (source)"),
        (change("tool-declaration", tool="find_devices"), "tool find_devices (declaration)"),
        (change("tool-added", tool="find_devices"), "tool find_devices added"),
        (change("agent-removed", agent="planner"), "agent planner removed"),
    ],
)
def test_agent_change__kinds(changed: AgentChange, text: str) -> None:
    assert agent_change(changed) == text


def test_agent_change__long_names_are_cut() -> None:
    assert len(agent_change(change("model", base="x" * 5_000, head="y" * 5_000))) < 200


def test_agent_changes__names_the_agent_where_there_are_several() -> None:
    changed = [change("model", base="a", head="b"), change("agent-added", agent="planner")]
    assert agent_changes(report(*changed)) == "model a to b, agent planner added"
    assert agent_changes(report(*changed, sub_agents=1)) == "home_automation: model a to b, agent planner added"
    assert agent_changes(report(*changed), most=1) == "model a to b and 1 more"
    assert agent_changes(report()) == ""


def test_agent_unchanged() -> None:
    source = change("tool-source", tool="tool_1")
    assert agent_unchanged(report(source), "main") == "Model, instruction and 4 other tools are as on main"
    model = change("model", base="a", head="b")
    assert agent_unchanged(report(model, source), "main") == "Instruction and 4 other tools are as on main"
    assert agent_unchanged(report(model, tools=0), "main") == "Instruction is as on main"
    assert agent_unchanged(report(model, change("instruction", added=1), tools=0), "main") == ""
    assert agent_unchanged(report(), "main") == ""


def test_put_into_words__changes_get_their_message() -> None:
    changed = report(change("model", base="a", head="b"))
    put_into_words(changed)
    assert [each.message for each in changed.agent_changes] == ["model a to b"]
