from __future__ import annotations

from enum import Enum
from typing import Any

from pydantic import BaseModel


class SingleTurnParams(Enum):
    INPUT = "input"
    ACTUAL_OUTPUT = "actual_output"


class ToolCall(BaseModel):
    name: str
    input_parameters: dict[str, Any] | None = None
    output: Any = None


class LLMTestCase(BaseModel):
    input: str
    actual_output: str | None = None
    expected_output: str | None = None
    context: list[str] | None = None
    retrieval_context: list[str] | None = None
    tools_called: list[ToolCall] | None = None
    expected_tools: list[ToolCall] | None = None
    completion_time: float | None = None


class Turn(BaseModel):
    role: str
    content: str
    tools_called: list[ToolCall] | None = None
    retrieval_context: list[str] | None = None


class ConversationalTestCase(BaseModel):
    turns: list[Turn]
    scenario: str | None = None
    chatbot_role: str | None = None
