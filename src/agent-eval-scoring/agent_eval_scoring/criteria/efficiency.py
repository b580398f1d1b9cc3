"""The four informational metrics: calls, tokens and time. Values and rounding are those of google-adk 2.13.0."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agent_eval_scoring.core.invocation import Invocation, InvocationEvents, tool_calls
from agent_eval_scoring.core.means import mean_of_present, running_mean
from agent_eval_scoring.criteria.base import Conversation, Result, Scored

Details = dict[str, float]
"""Amounts by name; a name is absent if no event reported it."""

_COUNTS = {
    "prompt_tokens": ("promptTokenCount", "prompt_token_count"),
    "tool_use_tokens": ("toolUsePromptTokenCount", "tool_use_prompt_token_count"),
    "cached_tokens": ("cachedContentTokenCount", "cached_content_token_count"),
    "candidates_tokens": ("candidatesTokenCount", "candidates_token_count"),
    "reasoning_tokens": ("thoughtsTokenCount", "thoughts_token_count"),
}
"""ADK's names of the amounts, and Gemini's names of the counts, in both spellings."""
_SUMS = {
    "input_tokens": ("prompt_tokens", "tool_use_tokens"),
    "output_tokens": ("candidates_tokens", "reasoning_tokens"),
}


def tool_call_count(invocation: Invocation) -> float:
    """The number of tool calls in the turn."""
    return float(len(tool_calls(invocation.intermediate_data)))


def inference_call_count(invocation: Invocation) -> float | None:
    """The number of model calls in the turn: events with usage or a model version. None without events.

    Calls inside an AgentTool have no event and are not counted.
    """
    data = invocation.intermediate_data
    if not isinstance(data, InvocationEvents):
        return None
    return float(
        sum(1 for event in data.invocation_events if (event.usage_metadata, event.model_version) != (None, None))
    )


def token_usage(invocation: Invocation) -> Details:
    """The tokens of a turn by ADK's names, summed over its events. Unreported amounts are absent.

    `input_tokens` is prompt and tool use, `output_tokens` is candidates and reasoning, `total_tokens` is both; the
    provider's total is ignored. `cached_tokens` are part of `prompt_tokens`.
    """
    data = invocation.intermediate_data
    amounts: Details = {}
    for event in data.invocation_events if isinstance(data, InvocationEvents) else ():
        usage = event.usage_metadata or {}
        for name, keys in _COUNTS.items():
            count = _count(usage, keys)
            if count is not None:
                amounts[name] = amounts.get(name, 0) + count
    for name, parts in (*_SUMS.items(), ("total_tokens", tuple(_SUMS))):
        reported = [amounts[part] for part in parts if part in amounts]
        if reported:
            amounts[name] = sum(reported)
    return amounts


def _count(usage: Mapping[str, Any], keys: tuple[str, str]) -> int | None:
    """A count from usage metadata, in either spelling; None if it is not a whole number."""
    value = next((usage[key] for key in keys if key in usage), None)
    if isinstance(value, int):
        return int(value)
    return int(value) if isinstance(value, float) and value.is_integer() else None


def durations(invocation: Invocation) -> Details:
    """The wall-clock seconds of a turn: total, model, tools and the rest, as far as they were measured.

    The rest (`framework_seconds`) is rounded to milliseconds. It is at least 0, since tools may run in parallel.
    """
    if invocation.duration is None:
        return {}
    seconds = {"total_seconds": invocation.duration}
    if invocation.model_duration is not None:
        seconds["model_seconds"] = invocation.model_duration
    if invocation.tool_duration is not None:
        seconds["tool_seconds"] = invocation.tool_duration
    if len(seconds) == 3:
        rest = invocation.duration - seconds["model_seconds"] - seconds["tool_seconds"]
        seconds["framework_seconds"] = round(max(rest, 0.0), 3)
    return seconds


@dataclass(frozen=True, kw_only=True)
class Count:
    """A number per turn. The score of the case is the mean over the turns that have one."""

    name: str
    count: Callable[[Invocation], float | None]
    threshold: None = None

    async def score(self, conversation: Conversation) -> Result:
        """Counts. The score is None if no turn has a number."""
        scores = tuple(self.count(turn) for turn in conversation.actual)
        return Scored(score=mean_of_present(scores), turn_scores=scores)


@dataclass(frozen=True, kw_only=True)
class TokenUsage:
    """Total tokens per turn. The score of the case, and each amount in its details, is the mean over all turns."""

    name: str = "token_usage_v1"
    threshold: None = None

    async def score(self, conversation: Conversation) -> Result:
        """Counts. The score is None if no turn reported a count; a turn without counts adds 0 to the mean."""
        turns = [token_usage(turn) for turn in conversation.actual]
        names = ("total_tokens", *_SUMS, *_COUNTS)
        means = {
            name: sum(turn.get(name, 0) for turn in turns) / len(turns)
            for name in names
            if any(name in turn for turn in turns)
        }
        return Scored(
            score=means.get("total_tokens"),
            turn_scores=tuple(turn.get("total_tokens") for turn in turns),
            details=dict(means),
        )


@dataclass(frozen=True, kw_only=True)
class InvocationDuration:
    """Wall-clock seconds per turn. The score of the case is the mean over the measured turns."""

    name: str = "invocation_duration_v1"
    threshold: None = None

    async def score(self, conversation: Conversation) -> Result:
        """Averages. The score is None if no turn was measured."""
        turns = [durations(turn) for turn in conversation.actual]
        means = {}
        for name in ("total_seconds", "model_seconds", "tool_seconds", "framework_seconds"):
            seconds = [turn[name] for turn in turns if name in turn]
            if seconds:
                means[name] = round(running_mean(seconds), 3)
        return Scored(
            score=means.get("total_seconds"),
            turn_scores=tuple(turn.get("total_seconds") for turn in turns),
            details=dict(means),
        )
