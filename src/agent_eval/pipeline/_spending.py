"""Budgets and usage of models, also of a part of a run and of merged parts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from agent_eval.pipeline.context import model_settings

if TYPE_CHECKING:
    from agent_eval.models.pool import ModelPool
    from agent_eval.pipeline._part import PartPlan
    from agent_eval.pipeline._parts import Parts
    from agent_eval.results import RunReport
    from agent_eval.settings import Settings


def limit_models(settings: Settings, models: ModelPool | None, part: PartPlan | None, parts: Parts | None) -> None:
    """Gives a part its share of the budget, and a merge what its parts left of it, together with their replies."""
    if models is None:
        return
    if part is not None:
        models.meter.limit(part.budget)
    if parts is not None:
        models.meter.limit(model_settings(settings).budget, parts.spent)
        if settings.judge_cache != "off":
            parts.copy_replies(settings.root / settings.judge_cache)


def spending(models: ModelPool | None, report: RunReport, parts: Parts | None) -> Iterable[str]:
    """Adds the usage of models to a report, including that of merged parts, and returns notices about it."""
    from agent_eval.report.phrases import backend_notes, missing_verdict_notes, truncation_notes
    from agent_eval.report.views import (
        case_usage_report,
        close_vote_notes,
        saved_votes,
        usage_line,
        usage_report,
    )
    from agent_eval.results import sum_case_usage, sum_model_usage

    if models is None:
        return []
    earlier = [result.report for result in parts.results] if parts is not None else []
    saved = saved_votes([*report.cases, *report.confirmations, *report.base_runs])
    report.model_usage = sum_model_usage(
        [
            *(usage for other in earlier for usage in other.model_usage),
            *map(usage_report, models.ledger.by_model()),
        ]
    )
    for usage in report.model_usage:
        usage.saved_votes = saved[usage.model]
    report.case_usage = sum_case_usage(
        [
            *(usage for other in earlier for usage in other.case_usage),
            *map(case_usage_report, models.ledger.entries()),
        ]
    )
    remarks = [backend_notes, close_vote_notes, missing_verdict_notes, truncation_notes]
    return [*map(usage_line, report.model_usage), *(line for remark in remarks for line in remark(report.cases))]
