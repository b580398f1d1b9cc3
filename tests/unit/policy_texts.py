"""Policies that tests write as text."""

from agent_eval.gate.policy import Policy
from agent_eval.settings._policy_file import read_policy
from agent_eval_scoring.core.problem import Problem
from agent_eval_scoring.core.toml_lines import lines_of, read_toml


def policy_of(text: str) -> tuple[Policy, list[Problem]]:
    """The policy of a complete agent-eval.toml, and its problems."""
    return read_policy(read_toml(text), lines_of(text), "agent-eval.toml")


def valid_policy(text: str) -> Policy:
    policy, problems = policy_of(text)
    assert problems == []
    return policy


def entry(says: str, metric: str = "response_match_score") -> str:
    return f'[[policy]]\nmetric = "{metric}"\n{says}\n'


def quarantine(case: str, expires: str = "2027-01-31") -> str:
    return f'[[quarantine]]\ncase = "{case}"\nreason = "slow clock"\nowner = "@alice"\nexpires = {expires}\n'
