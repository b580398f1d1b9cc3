"""What a run may spend, and what it has spent.

Settings: `max-judge-calls`, `max-tokens`, `max-cost`, `[prices]`. Facts: `case_usage`, `model_usage`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from agent_eval.pipeline.features import Feature
from agent_eval.runner.bill import Bill
from agent_eval_scoring.models import Meter

if TYPE_CHECKING:
    from agent_eval.pipeline.features import Run
    from agent_eval_results import RunReport
    from agent_eval_scoring.criteria.cost_estimate import Range
    from agent_eval_scoring.models import ModelSettings
    from agent_eval_scoring.models.pool import ModelPool


def open_bill(settings: ModelSettings, models: ModelPool | None) -> Bill:
    """Counts the costs of agents, within the limits that judges and simulated users share."""
    return Bill(prices=settings.prices, meter=Meter(settings.budget) if models is None else models.meter)


class Budget(Feature):
    """Reports what agents, judges and simulated users used."""

    def notices(self, run: Run, report: RunReport) -> Iterable[str]:
        """Adds the usage to that of the parts of a merge, and says what was unusual about it."""
        from agent_eval_results import sum_case_usage, sum_model_usage
        from agent_eval_results.report.phrases import backend_notes, missing_verdict_notes, say, truncation_notes
        from agent_eval_results.report.views import (
            case_usage_report,
            close_vote_notes,
            saved_votes,
            usage_line,
            usage_report,
        )

        models, bill = run.models, run.bill
        entries = [*bill.ledger.entries(), *(models.ledger.entries() if models is not None else ())]
        report.case_usage = sum_case_usage([*report.case_usage, *map(case_usage_report, entries)])
        agents = (usage for usage in report.case_usage if usage.purpose.startswith("agent"))
        if bill.is_limited and (unpriced := {usage.model for usage in agents if usage.cost is None}):
            yield say("unpriced", models=sorted(unpriced))
        if models is None:
            return
        report.model_usage = sum_model_usage([*report.model_usage, *map(usage_report, models.ledger.by_model())])
        saved = saved_votes(report.every_case)
        for usage in report.model_usage:
            usage.saved_votes = saved[usage.model]
            yield usage_line(usage)
        for remark in (backend_notes, close_vote_notes, missing_verdict_notes, truncation_notes):
            yield from remark(report.cases)


def times(calls: Range) -> str:
    """For example `once`, `6 times`, `6 to 10 times`, `6 times or more`."""
    if calls.most is None:
        return f"{calls.least:,} times or more"
    if calls.least == calls.most:
        return "once" if calls.least == 1 else f"{calls.least:,} times"
    return f"{calls.least:,} to {calls.most:,} times"
