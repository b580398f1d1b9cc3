"""What a run notices about names that nothing has."""

from __future__ import annotations

from report_samples import report

from agent_eval.pipeline._draft import misspelt_tools
from agent_eval_agents.tape_rules import ToolRule
from agent_eval_results.data.coverage import CoverageReport


def test_misspelt_tools__a_rule_that_is_almost_a_tool_s_name() -> None:
    made = report("passed", [])
    made.coverage = [CoverageReport(agent="home", tools=["get_weather", "set_lamp"], called=["get_weather"])]
    names = ("get_wether", "set_*", "get_weather", "refund")

    [warning] = misspelt_tools(made, [ToolRule(name=name, line=line) for line, name in enumerate(names, start=3)])

    assert warning.startswith("agent-eval.toml:3: the `[[tool]]` `get_wether` holds for no tool")
    assert warning.endswith("Did you mean `get_weather`?")
