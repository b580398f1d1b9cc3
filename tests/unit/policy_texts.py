"""Reads policies that tests write as text."""

from agent_eval.core.problem import Problem
from agent_eval.core.toml_lines import lines_of, read_toml
from agent_eval.gate.policy import Policy
from agent_eval.settings._policy_file import read_policy


def policy_of(text: str) -> tuple[Policy, list[Problem]]:
    """The policy of a complete agent-eval.toml, and its problems."""
    return read_policy(read_toml(text), lines_of(text), "agent-eval.toml")
