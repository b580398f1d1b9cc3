"""Selects the agent of each eval file: by a setting, or by a search of the repository."""

from agent_eval.agents.discovery.finder import AgentChoice, is_agent
from agent_eval.agents.discovery.locate import AgentChoices, agent_as_path, choose_agents, render_choices

__all__ = ["AgentChoice", "AgentChoices", "agent_as_path", "choose_agents", "is_agent", "render_choices"]
