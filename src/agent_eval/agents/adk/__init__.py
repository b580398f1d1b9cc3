"""The driver for ADK agents: starts a host process, sends it questions, turns its events into recordings."""

from agent_eval.agents.adk.managed import ManagedAdkAgent

__all__ = ["ManagedAdkAgent"]
