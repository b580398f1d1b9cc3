"""Conversations that something else has recorded (sessions and results of ADK, traces), as eval cases."""

from agent_eval_workbench.sources.cases import DEFAULT_FORM, EXPECTATIONS, CaseForm, eval_cases, expected_turn
from agent_eval_workbench.sources.conversation import Conversation, Place
from agent_eval_workbench.sources.reading import (
    ALL,
    STATE_SCOPES,
    Request,
    Source,
    read_recordings,
    read_source,
    read_value,
)

__all__ = [
    "ALL",
    "DEFAULT_FORM",
    "EXPECTATIONS",
    "STATE_SCOPES",
    "CaseForm",
    "Conversation",
    "Place",
    "Request",
    "Source",
    "eval_cases",
    "expected_turn",
    "read_recordings",
    "read_source",
    "read_value",
]
