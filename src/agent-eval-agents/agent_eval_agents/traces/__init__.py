"""Traces of OpenTelemetry, of any framework, as conversations."""

from __future__ import annotations

from agent_eval_agents.traces.place import Place, UnusableConversation

__all__ = ["Place", "UnusableConversation"]
