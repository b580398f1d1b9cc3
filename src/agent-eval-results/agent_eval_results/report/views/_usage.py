"""What agents, judges and simulated users spent, in a report and in a line."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator

from agent_eval_results import CaseReport, CaseUsageReport, ModelUsageReport, RunReport
from agent_eval_results.report.views.detail import one_line
from agent_eval_results.report.views.grouping import View
from agent_eval_results.report.views.numbers import cost_text, count_text, duration_text
from agent_eval_scoring.core.text import listed, plural
from agent_eval_scoring.models import UsageEntry
from agent_eval_scoring.simulation import PURPOSE


def usage_report(entry: UsageEntry, saved_votes: int = 0) -> ModelUsageReport:
    """The sum of one model, as it is reported."""
    return ModelUsageReport(
        model=entry.model,
        versions=list(entry.versions),
        calls=entry.calls,
        cached_replies=entry.cached_replies,
        failures=entry.failures,
        saved_votes=saved_votes,
        cost=entry.cost,
        **dataclasses.asdict(entry.usage),
    )


def case_usage_report(entry: UsageEntry) -> CaseUsageReport:
    """What one criterion spent on one case, as it is reported."""
    return CaseUsageReport(
        case_id=entry.case_id,
        purpose=entry.purpose,
        model=entry.model,
        calls=entry.calls,
        cached_replies=entry.cached_replies,
        cost=entry.cost,
        **dataclasses.asdict(entry.usage),
    )


def saved_votes(cases: Iterable[CaseReport]) -> Counter[str]:
    """By model, the votes that were not asked for since those before them had decided."""
    saved_by_model: Counter[str] = Counter()
    for case in cases:
        for metric in case.metrics:
            for run in metric.runs:
                if (judge := run.judge) is not None and judge.model is not None:
                    saved_by_model[judge.model] += judge.saved or 0
    return saved_by_model


_PARTS = {"agent": "agent", "agent-again": "runs again", "agent-base": "the base's runs", PURPOSE: "simulated users"}
"""What the purposes of usage are called. All others are criteria."""
_MOST_UNPRICED = 3


def bill(report: RunReport) -> str:
    """What a run cost in all, and its parts: `$0.42 (agent $0.31, judges $0.08, runs again $0.03)`; "" if nothing is
    known to have been spent.

    Models without a price are named, since the sum lacks them.
    """
    costs: dict[str, float] = {}
    unpriced: dict[str, None] = {}
    for usage in report.case_usage:
        if usage.cost is not None:
            name = _PARTS.get(usage.purpose, "judges")
            costs[name] = costs.get(name, 0.0) + usage.cost
        elif usage.calls:
            unpriced[one_line(usage.model) or "a model without a name"] = None
    named = [name for name in (*_PARTS.values(), "judges") if name in costs]
    parts = [f"{name} {cost_text(costs[name])}" for name in named] if len(named) > 1 else named
    without = [f"no price is known for {listed([*unpriced], _MOST_UNPRICED)}"] if unpriced else []
    if not costs:
        return "".join(without)
    return f"{cost_text(sum(costs.values()))} ({'; '.join([', '.join(parts), *without])})"


def usage_line(usage: ModelUsageReport) -> str:
    """`gemini-2.5-flash: 120 calls, 41 further votes not needed, 34,000 tokens in, 2,100 out, $0.0155`."""
    parts = [plural(usage.calls, "call")]
    if usage.saved_votes:
        parts.append(f"{plural(usage.saved_votes, 'further vote')} not needed")
    if usage.cached_replies:
        parts.append(f"{plural(usage.cached_replies, 'recorded reply', 'recorded replies')}")
    if usage.input_tokens is not None:
        parts.append(
            f"{usage.input_tokens:,} tokens in, {(usage.output_tokens or 0) + (usage.thought_tokens or 0):,} out"
        )
    if usage.calls:
        parts.append("no price known" if usage.cost is None else f"${usage.cost:.4f}")
    return f"{usage.model}: {', '.join(parts)}"


def spending(view: View) -> str:
    """Seconds, tokens and dollars in one line, beside those of the base branch; "" when nothing ran."""
    spent = ", ".join(_spending(view))
    return spent[:1].upper() + spent[1:]


def _spending(view: View) -> Iterator[str]:
    report, comparison, on_base = view.report, view.report.comparison, f"on {view.branch}"
    good = [run for case in report.cases for run in case.runs if run.error is None and not run.replayed]
    if not good:
        pass
    elif comparison is not None and comparison.duration.head is not None and comparison.duration.base is not None:
        here, there = duration_text(comparison.duration.head), duration_text(comparison.duration.base)
        yield f"{here} a run ({on_base} {there})"
    else:
        yield f"{duration_text(sum(run.duration for run in good) / len(good))} a run"
    if comparison is not None and comparison.tokens.head is not None and comparison.tokens.base is not None:
        here, there = count_text(round(comparison.tokens.head)), count_text(round(comparison.tokens.base))
        yield f"{here} tokens ({on_base} {there})"
    else:
        usages = [
            run.usage for run in good if run.usage.input_tokens is not None or run.usage.output_tokens is not None
        ]
        if usages:
            spent = sum((usage.input_tokens or 0) + (usage.output_tokens or 0) for usage in usages) / len(usages)
            yield f"{count_text(round(spent))} tokens"
    if cost := bill(report):
        old = comparison.cost.base if comparison is not None else None
        yield cost + ("" if old is None else f", {on_base} {cost_text(old)}")
