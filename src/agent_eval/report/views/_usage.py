"""What judges and simulated users spent, in a report and in a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from agent_eval.core.text import plural
from agent_eval.models import UsageEntry
from agent_eval.results import CaseReport, CaseUsageReport, ModelUsageReport


def usage_report(entry: UsageEntry, saved_votes: int = 0) -> ModelUsageReport:
    """The sum of one model, as it is reported."""
    return ModelUsageReport(
        model=entry.model,
        versions=list(entry.versions),
        calls=entry.calls,
        cached_replies=entry.cached_replies,
        failures=entry.failures,
        saved_votes=saved_votes,
        input_tokens=entry.usage.input_tokens,
        output_tokens=entry.usage.output_tokens,
        cached_tokens=entry.usage.cached_tokens,
        thought_tokens=entry.usage.thought_tokens,
        cost=entry.cost,
    )


def case_usage_report(entry: UsageEntry) -> CaseUsageReport:
    """What one criterion spent on one case, as it is reported."""
    return CaseUsageReport(
        case_id=entry.case_id,
        purpose=entry.purpose,
        model=entry.model,
        calls=entry.calls,
        cached_replies=entry.cached_replies,
        input_tokens=entry.usage.input_tokens,
        output_tokens=entry.usage.output_tokens,
        cached_tokens=entry.usage.cached_tokens,
        thought_tokens=entry.usage.thought_tokens,
        cost=entry.cost,
    )


def saved_votes(cases: Iterable[CaseReport]) -> Counter[str]:
    """By model, the votes that were not asked for since those before them had decided."""
    saved_by_model: Counter[str] = Counter()
    for case in cases:
        for metric in case.metrics:
            for run in metric.runs:
                match run.details.get("judge"):
                    case {"model": str(model), "saved": int(saved)}:
                        saved_by_model[model] += saved
    return saved_by_model


def usage_line(usage: ModelUsageReport) -> str:
    """`gemini-2.5-flash: 120 calls, 41 further votes not needed, 34,000 tokens in, 2,100 out, $0.0155`."""
    parts = [plural(usage.calls, "call")]
    if usage.saved_votes:
        parts.append(f"{plural(usage.saved_votes, 'further vote')} not needed")
    if usage.cached_replies:
        parts.append(f"{plural(usage.cached_replies, 'reply', 'replies')} from the cache")
    if usage.input_tokens is not None:
        parts.append(
            f"{usage.input_tokens:,} tokens in, {(usage.output_tokens or 0) + (usage.thought_tokens or 0):,} out"
        )
    if usage.calls:
        parts.append("no price known" if usage.cost is None else f"${usage.cost:.4f}")
    return f"{usage.model}: {', '.join(parts)}"
