"""One part of a suite: its cases, its share of the budget, and whether it is complete."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_eval.pipeline._checkout import Checkout, forwarded
from agent_eval.pipeline.context import default_model
from agent_eval.pipeline.features import Run
from agent_eval.pipeline.shards.split import Weighed, hashes_of, partition, split_hash, units_of
from agent_eval_agents.sources import short_hash, uncommitted_files
from agent_eval_results import JUDGE_REPLIES, ShardReport
from agent_eval_scoring.core.text import carriable, plural
from agent_eval_scoring.evalset.models import LoadedFile
from agent_eval_scoring.models import Budget

if TYPE_CHECKING:
    from agent_eval.gate.verdict import Verdict
    from agent_eval.runner import Plan
    from agent_eval.settings.parsers import Shard
    from agent_eval_results import RunReport


class Part(Weighed):
    """Runs some of the cases. Nothing is compared and no policy is applied: the merge does both, for all cases."""

    judges = False
    shard: ShardReport

    def __init__(self, part: Shard) -> None:
        self._part = part

    @property
    def idle(self) -> bool:  # type: ignore[override]
        """There can be more parts than cases."""
        return not self.shard.cases

    def before(self, run: Run) -> None:
        """Leaves the part's cases and its share of the budget."""
        self.shard, part = plan_part(self._part, run.plan, by_durations=self.by_durations)
        # Parts know nothing of each other: only shares of the limit keep them together below it.
        run.bill.meter.budget = share_of_budget(run.bill.meter.budget, run, frozenset(self.shard.cases))
        run.plan = part
        run.context.log(f"agent-eval: {first_line(self.shard, run.bill.meter.budget)}")
        if run.choices.runs_here:  # Before `agent-setup` changes files.
            skip = run.settings.written_directories
            self.shard.files = uncommitted_files(run.settings.root, skip=skip) or None
        if run.models is not None and run.settings.judge_cache != "off":
            # The merge takes them over into its cache, so that no question is paid for twice.
            run.models.record(run.settings.output / JUDGE_REPLIES)
        run.facts["shard"] = self.shard
        run.settings = dataclasses.replace(run.settings, report="off")  # The merge writes one for all parts.

    def after(self, report: RunReport, checkout: Checkout) -> None:
        """Adds what the merge needs to know of this job."""
        variables = forwarded(checkout.isolation).items()
        self.shard.variables = {carriable(name): value and short_hash(value) for name, value in variables}
        if checkout.limiter.refusals:
            from agent_eval_results.report.phrases import say

            report.notices.append(say("part-throttled", count=self.shard.total * checkout.limiter.most))

    def outcome(self, report: RunReport, verdict: Verdict | None) -> Verdict | None:
        """A part has no verdict of its own."""
        return part_verdict(self.shard, report)

    def notices(self, run: Run, report: RunReport) -> Sequence[str]:
        """Leaves to the merge what it must say, too."""
        self.shard.notices = run.remarks
        return ()


def first_line(shard: ShardReport, budget: Budget) -> str:
    """What the job is about, and what its exit code says.

    Args:
        shard: The part.
        budget: Its share.
    """
    limits = [
        f"{limit:{form}} {name}"
        for limit, form, name in (
            (budget.max_calls, ",", "judge calls"),
            (budget.max_tokens, ",", "tokens"),
            (budget.max_cost, "g", "US dollars"),
        )
        if limit is not None
    ]
    share = f", with {', '.join(limits)} of the budget" if limits else ""
    return (
        f"part {shard.index} of {shard.total}: {len(shard.cases):,} of {plural(shard.suite_cases, 'case')}{share}. "
        "`agent-eval merge` decides on the verdict. Exit code 0: every run of the part was judged, "
        "whether it passed or not; 3: the part is incomplete, run this job again."
    )


def plan_part(part: Shard, plan: Plan, *, by_durations: bool) -> tuple[ShardReport, Plan]:
    """Splits a plan.

    Args:
        part: Which part.
        plan: The whole plan, with its final weights.
        by_durations: Whether the weights are recorded durations.

    Returns:
        The part, and the plan with its cases only.
    """
    assignment = partition(plan.weights, part.total)
    mine = frozenset(case_id for case_id, index in assignment.items() if index == part.index)
    shard = ShardReport(
        index=part.index,
        total=part.total,
        plan=split_hash(assignment, units_of(plan), total=part.total, num_runs=plan.num_runs),
        suite=hashes_of(plan),
        cases=[case.case_id for case in plan.cases if case.case_id in mine],
        suite_cases=len(plan.cases),
        weights_from="recorded" if by_durations else "turns",
    )
    return shard, plan.more(mine, plan.num_runs, first_run=plan.first_run)


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
    from agent_eval_scoring.criteria.cost_estimate import estimate

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


def share_of_budget(whole: Budget, run: Run, case_ids: Collection[str]) -> Budget:
    """The share of each limit that some cases have of a run's."""
    if whole == Budget():  # Nothing to divide, and counting takes time.
        return whole
    judged, paid = _shares(run.files, case_ids, run.settings.judge_model, run.settings.num_runs)
    cost = paid.of(None if whole.max_cost is None else int(whole.max_cost * 1e6))
    return Budget(
        max_calls=judged.of(whole.max_calls),
        max_tokens=judged.of(whole.max_tokens),
        max_cost=None if cost is None else cost / 1e6,
    )


def part_verdict(shard: ShardReport, report: RunReport) -> Verdict:
    """The verdict of a part: none of its own."""
    from agent_eval.gate.verdict import Verdict, unjudged_runs
    from agent_eval_results import Reason

    unjudged = unjudged_runs(report.cases)
    runs = sum(len(case.runs) for case in report.cases)
    without_tools = sum(
        run.errored and run.error is not None and run.error.owner == "gate"
        for case in report.cases
        for run in case.runs
    )
    reason = Reason.of(
        "part",
        part=shard.index,
        total=shard.total,
        runs=runs,
        count=unjudged,
        remedy="tools" if without_tools == unjudged else "again",
    )
    return Verdict(value="inconclusive", reasons=(reason,))
