"""Agents behind A2A, created as the pipeline does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from fake_adk import agent_spec, context

from agent_eval.agents.a2a.agent import A2aAgent
from agent_eval.core.masking import Masker


def a2a_agent(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    secrets_withheld: bool = False,
    secrets: tuple[str, ...] = (),
    log: Callable[[str], None] = lambda _: None,
) -> A2aAgent:
    """An agent behind A2A, not started."""
    shared = context(Path("/nowhere"), headers=headers or {}, secrets_withheld=secrets_withheld)
    return A2aAgent(agent_spec(url, replace(shared, masker=Masker(secrets), log=log)))
