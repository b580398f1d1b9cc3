"""Selects the agent of each eval file: by a setting, or by a search of the repository."""

from agent_eval_agents.discovery.finder import WHAT_IS_AN_AGENT, AgentChoice, find_agents, is_agent
from agent_eval_agents.discovery.locate import (
    AgentChoices,
    agent_as_path,
    check_names,
    choose_agents,
    in_adk_order,
    render_choices,
)
