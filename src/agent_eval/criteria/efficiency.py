"""The four informational metrics: what a run cost. They gate nothing; values and rounding as google-adk 2.13.0."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_eval.core.invocation import Invocation, InvocationEvents, tool_calls
from agent_eval.criteria._turns import running_mean
from agent_eval.criteria.base import Conversation, Result, Scored

Details = dict[str, float]
"""Named amounts; a name is absent when nothing reported its amount."""

_COUNTS = {
    "prompt_tokens": ("promptTokenCount", "prompt_token_count"),
    "tool_use_tokens": ("toolUsePromptTokenCount", "tool_use_prompt_token_count"),
    "cached_tokens": ("cachedContentTokenCount", "cached_content_token_count"),
    "candidates_tokens": ("candidatesTokenCount", "candidates_token_count"),
    "reasoning_tokens": ("thoughtsTokenCount", "thoughts_token_count"),
}
"""ADK's names for the amounts, and Gemini's for the counts that they sum up, in both spellings."""
_SUMS = {
    "input_tokens": ("prompt_tokens", "tool_use_tokens"),
    "output_tokens": ("candidates_tokens", "reasoning_tokens"),
}


def tool_call_count(invocation: Invocation) -> float:
    """How many tools the agent called in the turn."""
    return float(len(tool_calls(invocation.intermediate_data)))


def inference_call_count(invocation: Invocation) -> float | None:
    """How many model calls the turn took: events that carry usage or a model version. None without events.

    Calls inside an AgentTool leave no event and are not seen.
    """
    data = invocation.intermediate_data
    if not isinstance(data, InvocationEvents):
        return None
    return float(
        sum(1 for event in data.invocation_events if (event.usage_metadata, event.model_version) != (None, None))
    )


def token_usage(invocation: Invocation) -> Details:
    """The tokens of a turn by ADK's names, summed over its events; what no event reported is absent.

    `input_tokens` is prompt and tool use, `output_tokens` candidates and reasoning, `total_tokens` both; the
    provider's own total is not looked at. `cached_tokens` are part of `prompt_tokens`.
    """
    data = invocation.intermediate_data
    found: Details = {}
    for event in data.invocation_events if isinstance(data, InvocationEvents) else ():
        usage = event.usage_metadata or {}
        for name, keys in _COUNTS.items():
            count = _count(usage, keys)
            if count is not None:
                found[name] = found.get(name, 0) + count
    for name, parts in (*_SUMS.items(), ("total_tokens", tuple(_SUMS))):
        known = [found[part] for part in parts if part in found]
        if known:
            found[name] = sum(known)
    return found


def _count(usage: Mapping[str, Any], keys: tuple[str, str]) -> int | None:
    """A count from usage metadata, in either spelling; None for what is no whole number."""
    value = next((usage[key] for key in keys if key in usage), None)
    if isinstance(value, int):
        return int(value)
    return int(value) if isinstance(value, float) and value.is_integer() else None


def durations(invocation: Invocation) -> Details:
    """The wall seconds of a turn: total, and the share of model, tools and the rest as far as they were measured.

    The rest (`framework_seconds`) is rounded to milliseconds and never negative: tools may run in parallel.
    """
    if invocation.duration is None:
        return {}
    found = {"total_seconds": invocation.duration}
    if invocation.model_duration is not None:
        found["model_seconds"] = invocation.model_duration
    if invocation.tool_duration is not None:
        found["tool_seconds"] = invocation.tool_duration
    if len(found) == 3:
        rest = invocation.duration - found["model_seconds"] - found["tool_seconds"]
        found["framework_seconds"] = round(max(rest, 0.0), 3)
    return found


def _mean_of_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return running_mean(known) if known else None


@dataclass(frozen=True, kw_only=True)
class Count:
    """A number a turn; the case has the mean over the turns that have it."""

    name: str
    count: Callable[[Invocation], float | None]
    threshold: None = None

    async def score(self, conversation: Conversation) -> Result:
        """Counts. The score is None when no turn has a number."""
        scores = tuple(self.count(turn) for turn in conversation.actual)
        return Scored(score=_mean_of_known(scores), turn_scores=scores)


@dataclass(frozen=True, kw_only=True)
class TokenUsage:
    """The total tokens of a turn; the case has the mean over all turns, as does each amount in its details."""

    name: str = "token_usage_v1"
    threshold: None = None

    async def score(self, conversation: Conversation) -> Result:
        """Adds up. The score is None when no turn reported a count; a turn without counts adds nothing to a mean."""
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
    """The wall seconds of a turn; the case has the mean over the turns that have it, rounded to milliseconds."""

    name: str = "invocation_duration_v1"
    threshold: None = None

    async def score(self, conversation: Conversation) -> Result:
        """Averages. The score is None when no turn was timed."""
        turns = [durations(turn) for turn in conversation.actual]
        means = {}
        for name in ("total_seconds", "model_seconds", "tool_seconds", "framework_seconds"):
            known = [turn[name] for turn in turns if name in turn]
            if known:
                means[name] = round(running_mean(known), 3)
        return Scored(
            score=means.get("total_seconds"),
            turn_scores=tuple(turn.get("total_seconds") for turn in turns),
            details=dict(means),
        )
