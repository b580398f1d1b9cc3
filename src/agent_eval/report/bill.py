"""What judges and simulated users spent, in a report and in a line."""

from __future__ import annotations

from agent_eval.core.text import plural
from agent_eval.models.usage import UsageEntry
from agent_eval.results.report import ModelUsageReport


def bill(entry: UsageEntry) -> ModelUsageReport:
    """The sum of one model, as it is reported."""
    return ModelUsageReport(
        model=entry.model,
        versions=list(entry.versions),
        calls=entry.calls,
        cached_replies=entry.cached_replies,
        failures=entry.failures,
        input_tokens=entry.usage.input_tokens,
        output_tokens=entry.usage.output_tokens,
        cached_tokens=entry.usage.cached_tokens,
        thought_tokens=entry.usage.thought_tokens,
        cost=entry.cost,
    )


def bill_line(one: ModelUsageReport) -> str:
    """`gemini-2.5-flash: 120 calls, 3 replies from the cache, 34,000 tokens in, 2,100 out, $0.0155`."""
    parts = [plural(one.calls, "call")]
    if one.cached_replies:
        parts.append(f"{plural(one.cached_replies, 'reply', 'replies')} from the cache")
    if one.input_tokens is not None:
        parts.append(f"{one.input_tokens:,} tokens in, {(one.output_tokens or 0) + (one.thought_tokens or 0):,} out")
    if one.calls:
        parts.append("no price known" if one.cost is None else f"${one.cost:.4f}")
    return f"{one.model}: {', '.join(parts)}"
