"""One part of a suite (`--shard I/N`): its cases, its share of the budget, and whether it is complete.

Also the budgets and the usage of models, of a whole run, of a part of it, and of merged parts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic_core import from_json

from agent_eval.pipeline._agents import agent_trees
from agent_eval.pipeline._checkout import Checkout, forwarded
from agent_eval.pipeline.context import RunContext, default_model, model_settings
from agent_eval.pipeline.output import Outcome, Recorded, write
from agent_eval_agents.sources import short_hash
from agent_eval_results import remove_logs
from agent_eval_scoring.core.files import MAX_RESULTS, read_regular
from agent_eval_scoring.core.problem import Problem
from agent_eval_scoring.core.text import carriable, plural
from agent_eval_scoring.evalset.models import LoadedFile

if TYPE_CHECKING:
    from agent_eval.gate.verdict import Verdict
    from agent_eval.pipeline._bill import Bill
    from agent_eval.pipeline._parts import Parts
    from agent_eval.runner import Plan, RecordedSeconds
    from agent_eval.settings import Settings
    from agent_eval_results import RunReport, RunResult, ShardReport
    from agent_eval_scoring.models import Budget
    from agent_eval_scoring.models.pool import ModelPool


@dataclass(frozen=True, kw_only=True)
class PartPlan:
    """What one part runs."""

    plan: Plan
    """With the part's cases only."""
    shard: ShardReport
    budget: Budget
    """Its share of the budget of the whole run."""

    @property
    def first_line(self) -> str:
        """What the job is about, and what its exit code says."""
        shard, budget = self.shard, self.budget
        limits = [
            f"{limit} {name}"
            for limit, name in (
                (None if budget.max_calls is None else f"{budget.max_calls:,}", "judge calls"),
                (None if budget.max_tokens is None else f"{budget.max_tokens:,}", "tokens"),
                (None if budget.max_cost is None else f"{budget.max_cost:g}", "US dollars"),
            )
            if limit is not None
        ]
        share = f", with {', '.join(limits)} of the budget" if limits else ""
        return (
            f"part {shard.index} of {shard.total}: {len(shard.cases):,} of {plural(shard.suite_cases, 'case')}{share}. "
            "`agent-eval merge` decides on the verdict. Exit code 0: every run of the part was judged, "
            "whether it passed or not; 3: the part is incomplete, run this job again."
        )


def read_shard_plan(path: Path | None, root: Path) -> tuple[RecordedSeconds | None, list[Problem]]:
    """Reads the durations that `--shard-plan` names.

    Args:
        path: The file, relative to the root; None for none.
        root: The repository.

    Returns:
        The durations, None without a usable file; and the problem of an unusable file.
    """
    if path is None:
        return None, []

    from agent_eval.runner import RecordedSeconds

    try:
        content = from_json(read_regular(root / path, MAX_RESULTS), allow_inf_nan=False)
        return RecordedSeconds.model_validate(content["split"]["recorded"]), []
    except OSError as error:
        why = error.strerror or str(error)
    except (ValueError, KeyError, TypeError):
        why = "It is not the output of `agent-eval validate --plan --durations ... --format json`"
    problem = Problem(
        code="shard-plan-invalid",
        message=f"shard-plan: {path} can't be used. {why}.",
        hint="Write it with `agent-eval validate --plan --durations RESULTS --format json > FILE`.",
    )
    return None, [problem]


def with_durations(plan: Plan, recorded: RecordedSeconds | None) -> Plan:
    """The plan with recorded durations as weights, if there are any."""
    from agent_eval.runner import weigh

    return plan if recorded is None else dataclasses.replace(plan, weights=weigh(plan.units(), recorded))


def plan_part(settings: Settings, files: Sequence[LoadedFile], plan: Plan, weights_from_file: bool) -> PartPlan | None:
    """Splits a plan.

    Args:
        settings: Its `shard` names the part.
        files: The eval files of the plan.
        plan: The whole plan, with its final weights.
        weights_from_file: Whether the weights are recorded durations.

    Returns:
        None without `shard`.
    """
    part = settings.shard
    if part is None:
        return None
    from agent_eval.runner import partition, split_hash
    from agent_eval_results import ShardReport

    assignment = partition(plan.weights, part.total)
    mine = frozenset(case_id for case_id, index in assignment.items() if index == part.index)
    shard = ShardReport(
        index=part.index,
        total=part.total,
        plan=split_hash(assignment, plan.units(), total=part.total, num_runs=plan.num_runs),
        suite=plan.hashes(),
        cases=[case.case_id for case in plan.cases if case.case_id in mine],
        suite_cases=len(plan.cases),
        weights_from="recorded" if weights_from_file else "turns",
    )
    limits = (settings.max_judge_calls, settings.max_tokens, settings.max_cost)
    shares = (
        (_Share(), _Share())
        if limits == (None, None, None)
        else _shares(files, mine, settings.judge_model, settings.num_runs)
    )
    return PartPlan(
        plan=plan.more(mine, plan.num_runs, first_run=plan.first_run),
        shard=shard,
        budget=_budget(settings.max_cost, settings.max_judge_calls, settings.max_tokens, *shares),
    )


@dataclass(kw_only=True)
class _Share:
    """Expected calls of some cases, and of all."""

    here: int = 0
    everywhere: int = 0

    def add(self, calls: int, *, is_here: bool) -> None:
        self.everywhere += calls
        self.here += calls if is_here else 0

    def of(self, limit: int | None) -> int | None:
        """The share of a limit, rounded down: the parts together never exceed the limit."""
        return limit if limit is None or not self.everywhere else limit * self.here // self.everywhere


def _shares(
    files: Sequence[LoadedFile], case_ids: Collection[str], judge_model: str | None, num_runs: int
) -> tuple[_Share, _Share]:
    """The share of some cases in the calls of judges and simulated users, and in these together with the turns that
    the agent answers.
    """
    from agent_eval.runner.cost_estimate import estimate

    model = default_model(judge_model)
    judged, paid = _Share(), _Share()
    for file in files:
        for case in file.cases:
            # Each case by itself: the shares must not depend on the other cases of a part, or their sum exceeds 1.
            alone = dataclasses.replace(file, cases=(case,))
            ranges = [
                criterion.calls for criterion in estimate([alone], num_runs=num_runs, default_model=model).with_model()
            ]
            calls = sum(max(each.least, 1) if each.most is None else each.most for each in ranges)
            turns = max(len(case.conversation or ()), 1) * num_runs
            is_here = f"{file.path}:{case.eval_id}" in case_ids
            judged.add(calls, is_here=is_here)
            paid.add(calls + turns, is_here=is_here)
    return judged, paid


def _budget(
    max_cost: float | None, max_judge_calls: int | None, max_tokens: int | None, judged: _Share, paid: _Share
) -> Budget:
    """The part's share of each limit."""
    from agent_eval_scoring.models import Budget

    cost = paid.of(None if max_cost is None else int(max_cost * 1e6))
    return Budget(
        max_calls=judged.of(max_judge_calls),
        max_tokens=judged.of(max_tokens),
        max_cost=None if cost is None else cost / 1e6,
    )


def part_verdict(shard: ShardReport, report: RunReport) -> Verdict:
    """The verdict of a part: none of its own."""
    from agent_eval.gate.verdict import Verdict, unjudged_runs
    from agent_eval_results import Reason

    unjudged = unjudged_runs(report.cases)
    runs = sum(len(case.runs) for case in report.cases)
    without_tools = sum(run.status == "errored" and _owner(run) == "gate" for case in report.cases for run in case.runs)
    reason = Reason.of(
        "part",
        part=shard.index,
        total=shard.total,
        runs=runs,
        count=unjudged,
        remedy="tools" if without_tools == unjudged else "again",
    )
    return Verdict(value="inconclusive", reasons=(reason,))


def _owner(run: RunResult) -> str | None:
    return run.error.owner if run.error is not None else None


async def run_part(part: PartPlan, drafted: Callable[[], RunReport], checkout: Checkout) -> Verdict:
    """Runs one part. Nothing is compared and no policy is applied: the merge does both, for all cases.

    Args:
        part: The part.
        drafted: Returns the report before anything has run, which gets the cases. Called when they have run.
        checkout: Runs the plan.
    """
    variables = forwarded(checkout.isolation).items()
    part.shard.variables = {carriable(name): value and short_hash(value) for name, value in variables}
    cases = await checkout.execute(part.plan)
    report = drafted()
    report.cases = cases
    report.agents = agent_trees(checkout)
    verdict = part_verdict(part.shard, report)
    report.verdict, report.reasons = verdict.value, list(verdict.reasons)
    if checkout.limiter.refusals:
        from agent_eval_results.report.phrases import say

        report.notices.append(say("part-throttled", count=part.shard.total * checkout.limiter.most))
    return verdict


def empty_part(settings: Settings, context: RunContext, part: PartPlan, report: RunReport) -> Outcome:
    """The outcome of a part without cases: there are more parts than cases."""
    verdict = part_verdict(part.shard, report)
    report.verdict, report.reasons = verdict.value, list(verdict.reasons)
    remove_logs(settings.output)
    return write(settings, context, report, Recorded(runs=(), cases=()))


def open_bill(settings: Settings, models: ModelPool | None, part: PartPlan | None, parts: Parts | None) -> Bill:
    """What counts the costs. A part has its share of the budget; a merge has what its parts left of it, together with
    the replies of their judges.
    """
    from agent_eval.pipeline._bill import Bill
    from agent_eval_scoring.models import Meter

    asked = model_settings(settings)
    meter = Meter(asked.budget) if models is None else models.meter
    if part is not None:
        meter.limit(part.budget)
    if parts is not None:
        meter.limit(asked.budget, parts.spent)
        if models is not None and settings.judge_cache != "off":
            parts.copy_replies(settings.root / settings.judge_cache)
    return Bill(prices=asked.prices, meter=meter)


def spending(models: ModelPool | None, bill: Bill, report: RunReport, parts: Parts | None) -> Iterable[str]:
    """Adds what agents, judges and simulated users used to a report, also in merged parts; returns notices about it."""
    from agent_eval_results import sum_case_usage, sum_model_usage
    from agent_eval_results.report.phrases import backend_notes, missing_verdict_notes, say, truncation_notes
    from agent_eval_results.report.views import (
        case_usage_report,
        close_vote_notes,
        saved_votes,
        usage_line,
        usage_report,
    )

    earlier = [result.report for result in parts.results] if parts is not None else []
    judged = [] if models is None else models.ledger.entries()
    report.case_usage = sum_case_usage(
        [
            *(usage for other in earlier for usage in other.case_usage),
            *map(case_usage_report, [*bill.ledger.entries(), *judged]),
        ]
    )
    unpriced = {usage.model for usage in report.case_usage if usage.purpose.startswith("agent") and usage.cost is None}
    notices = [say("unpriced", models=sorted(unpriced))] if unpriced and bill.is_limited else []
    if models is None:
        return notices
    saved = saved_votes([*report.cases, *report.confirmations, *report.base_runs])
    report.model_usage = sum_model_usage(
        [
            *(usage for other in earlier for usage in other.model_usage),
            *map(usage_report, models.ledger.by_model()),
        ]
    )
    for usage in report.model_usage:
        usage.saved_votes = saved[usage.model]
    remarks = [backend_notes, close_vote_notes, missing_verdict_notes, truncation_notes]
    return [
        *notices,
        *map(usage_line, report.model_usage),
        *(line for remark in remarks for line in remark(report.cases)),
    ]
