"""Conversations that something else has recorded (sessions and results of ADK, traces), as eval cases."""

from agent_eval.sources.cases import eval_cases
from agent_eval.sources.conversation import Conversation
from agent_eval.sources.reading import ALL, STATE_SCOPES, Request, Source, read_source, read_value

__all__ = ["ALL", "STATE_SCOPES", "Conversation", "Request", "Source", "eval_cases", "read_source", "read_value"]
