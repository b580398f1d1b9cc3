"""The base branch's part of the road: its results, the comparison, and the runs that tell change from noise."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent_eval.baseline import BaseCheckout, BaselineOutcome, Found, GitError, NotOnBase
from agent_eval.core.text import plural

if TYPE_CHECKING:
    from agent_eval.baseline import Resolver
    from agent_eval.gate.evaluation import Compared
    from agent_eval.gate.regression import Before, Gathered
    from agent_eval.gate.stats import ConfirmOnBase, Decision, Runs
    from agent_eval.pipeline._base_checkout import BaseSide
    from agent_eval.pipeline._checkout import Workbench
    from agent_eval.pipeline.ci_context import Situation
    from agent_eval.results import BaselineReport, CaseReport, DecisionReport, FlakinessReport, HistoryReport, RunReport
    from agent_eval.runner import Plan
    from agent_eval.settings import Settings


async def find_base(settings: Settings, situation: Situation, side: BaseSide | None) -> BaselineOutcome | None:
    """Asks the sources that the settings name.

    Args:
        settings: As they hold.
        situation: What to compare with; of a run that records, whose history to go on with.
        side: The base's agent; None where it isn't to be run.

    Returns:
        None if no comparison is wanted, or nobody knows with what.
    """
    from agent_eval.baseline import parse_order, resolve

    if situation.wanted is None:
        return None
    resolvers: list[Resolver] = []
    for choice in parse_order(settings.baseline):
        if choice.source == "artifact":
            from agent_eval.baseline import ArtifactSource

            resolvers.append(ArtifactSource(github=situation.github, git=situation.git))
        elif choice.source == "file" and choice.path is not None:
            from agent_eval.baseline import FileSource

            resolvers.append(
                FileSource(path=choice.path, root=settings.root, git=situation.git, remote=situation.remote)
            )
        elif choice.source == "rerun" and side is not None:
            from agent_eval.baseline import RerunSource

            async def run(_: BaseCheckout, side: BaseSide = side) -> RunReport:
                return await side.report(settings.num_runs)

            resolvers.append(
                RerunSource(
                    git=situation.git,
                    run=run,
                    remote=situation.remote,
                    checkout=side.checkout,
                    evals=settings.baseline_evals,
                )
            )
    return await resolve(resolvers, situation.wanted)


def told_baseline(situation: Situation, outcome: BaselineOutcome | None) -> BaselineReport | None:
    """Where the base's results come from, or why there are none; None when nobody would expect any."""
    from agent_eval.baseline import to_report
    from agent_eval.results import BaselineReport

    if outcome is not None and outcome.steps:
        return to_report(outcome, situation.wanted)
    return BaselineReport(status="fetch-failed", message=situation.unwanted) if situation.unwanted else None


def history_of(outcome: BaselineOutcome | None, keep: int) -> HistoryReport | None:
    """What the base is known to do; None without a baseline."""
    from agent_eval.gate.history import extend

    if outcome is None or not isinstance(outcome.baseline, Found):
        return None
    report = outcome.baseline.report
    return report.history or extend(None, report, keep)


@dataclass(kw_only=True)
class Confirmation:
    """Runs suspicious cases again, on both sides, until it is decided whether they got worse."""

    bench: Workbench
    plan: Plan
    side: BaseSide | None
    """None: the base can't be run."""
    report: RunReport
    """With the screening runs."""
    history: HistoryReport
    same_day: bool = False
    """Whether `history` was made beside the head's runs (`baseline: rerun`)."""
    before: Mapping[str, Before] = field(default_factory=dict)
    """By case id what the pull request's previous attempt held against a case."""
    repeatable: bool = True
    """False where answers were recorded: they can't be recorded again."""
    head: list[CaseReport] = field(default_factory=list)
    """The head's extra runs."""
    base: list[CaseReport] = field(default_factory=list)
    """The base's runs of today."""
    notices: list[str] = field(default_factory=list)
    _spent: int = 0
    _stuck: bool = False

    async def decide(self) -> tuple[Decision, Gathered]:
        """Asks for runs and makes them until the statistics have an answer."""
        from agent_eval.gate.regression import gather, next_step
        from agent_eval.gate.stats import Budget, Decision

        # On one day all of the base is run today.
        confirm_on_base = "always" if self.same_day else self.bench.settings.confirm_on_base
        while True:
            known = gather(
                self.report.cases,
                self.history,
                self.bench.settings.policy,
                num_runs=self.report.num_runs,
                min_pass_rate=self.bench.settings.min_pass_rate,
                confirm_on_base=confirm_on_base,
                confirmations=self.head,
                base_confirmations=self.base,
                same_day=self.same_day,
                before=self.before,
            )
            left = 0 if self._stuck else max(self._allowed(known, confirm_on_base) - self._spent, 0)
            budget = Budget(extra_runs=left, can_run_base=self.side is not None)
            # What was recorded fails as often as it is asked: it is held to its thresholds as it is.
            step = next_step(known.evidence, known.rules, budget, known.retrials if self.repeatable else ())
            if isinstance(step, Decision):
                return step, known
            await self._make(step, {case_id: one.base_id for case_id, one in known.comparable.items()})

    def _allowed(self, known: Gathered, confirm_on_base: ConfirmOnBase) -> int:
        from agent_eval.gate.stats import usual_extra_runs

        if not self.repeatable:
            return 0
        if self.bench.settings.max_extra_runs is not None:
            return self.bench.settings.max_extra_runs
        return usual_extra_runs(
            len(self.report.cases),
            self.report.num_runs,
            metrics=known.rules.blocking_metrics,
            confirm_on_base=confirm_on_base if self.side is not None else "never",
        )

    async def _make(self, step: Runs, base_ids: Mapping[str, str]) -> None:
        from agent_eval.results import merge

        self.bench.clients.log(f"agent-eval: {step.why}")
        self._spent += sum(step.head.values()) + sum(step.base.values())
        before = _judged(self.head) + _judged(self.base)
        wanted = {base_ids[case_id]: count for case_id, count in step.base.items()}
        head_ids = {base_id: case_id for case_id, base_id in base_ids.items()}
        head, base = await asyncio.gather(self._run_head(step.head), self._run_base(wanted, head_ids))
        rate = self.bench.settings.min_pass_rate
        self.head = merge([*self.head, *head], min_pass_rate=rate)
        self.base = merge([*self.base, *base], min_pass_rate=rate)
        over = self.bench.clients.stop.is_set() or time.monotonic() >= self.bench.until
        # Without anything new the same question would be asked for ever.
        self._stuck = over or _judged(self.head) + _judged(self.base) == before

    async def _run_head(self, wanted: Mapping[str, int]) -> list[CaseReport]:
        first = self.report.num_runs
        plans = [
            self.plan.more(ids, count, first_run=first + made)
            for (made, count), ids in _groups(wanted, self.head).items()
        ]
        return [case for cases in await asyncio.gather(*map(self.bench.execute, plans)) for case in cases]

    async def _run_base(self, wanted: Mapping[str, int], head_ids: Mapping[str, str]) -> list[CaseReport]:
        """Runs of the base, by the ids that cases have there."""
        if not wanted or self.side is None:
            return []
        side = self.side
        # The base's worktree is run with the head's eval files unless it was asked for its own.
        names = {base_id: base_id if side.own_plan is not None else head_ids[base_id] for base_id in wanted}
        back = {name: base_id for base_id, name in names.items()}
        try:
            done = await asyncio.gather(
                *(
                    side.execute(frozenset(names[one] for one in ids), count, first_run=self.report.num_runs + made)
                    for (made, count), ids in _groups(wanted, self.base).items()
                )
            )
        except (GitError, NotOnBase) as error:
            self.side = None
            self.notices.append(f"The base could not be run to confirm: {error}")
            return []
        return [case.model_copy(update={"case_id": back[case.case_id]}) for cases in done for case in cases]


def _groups(wanted: Mapping[str, int], there: Sequence[CaseReport]) -> dict[tuple[int, int], list[str]]:
    """Cases by how many extra runs they have and want: one plan each."""
    made = {case.case_id: len(case.runs) for case in there}
    groups: dict[tuple[int, int], list[str]] = {}
    for case_id, count in wanted.items():
        groups.setdefault((made.get(case_id, 0), count), []).append(case_id)
    return groups


def _judged(cases: Sequence[CaseReport]) -> int:
    return sum(run.status in {"passed", "failed"} for case in cases for run in case.runs)


def told_decision(
    decision: Decision, alpha: float, *, gathered: Gathered | None = None, history: HistoryReport | None = None
) -> DecisionReport:
    """The decision on the wire.

    Args:
        decision: What was decided.
        alpha: The error rate of everything together.
        gathered: What it was decided on.
        history: What is known of the base; with both of them flaky cases have their rate and since when.
    """
    from agent_eval.gate.stats import PASS
    from agent_eval.results import (
        CaseDecisionReport,
        CaseRunsReport,
        DecisionReasonReport,
        DecisionReport,
        SuiteTestReport,
    )

    told = [case for case in decision.cases if case.word != "unchanged"]
    flaky = _flaky({case.case_id for case in told}, gathered, history) if gathered and history else {}

    return DecisionReport(
        outcome=decision.outcome,
        reasons=[
            DecisionReasonReport(
                code=reason.code,
                message=reason.message,
                metric=reason.metric,
                case_ids=list(reason.case_ids),
                blocking=reason.blocking,
            )
            for reason in decision.reasons
        ],
        cases=[
            CaseDecisionReport(
                **{name: getattr(case, name) for name in CaseDecisionReport.model_fields if name != "flakiness"},
                flakiness=flaky.get(case.case_id) if case.metric == PASS else None,
            )
            for case in told
        ],
        runs=[
            CaseRunsReport(
                case_id=case_id,
                head_passed=round(sum(head)),
                head_runs=len(head),
                base_passed=round(sum(base)),
                base_runs=len(base),
            )
            for case_id, head, base in _sides(gathered)
            if not all(head) or not all(base)
        ],
        suites=[
            SuiteTestReport(**{name: getattr(suite, name) for name in SuiteTestReport.model_fields})
            for suite in decision.suites
        ],
        alpha=alpha,
        extra_runs=decision.extra_runs,
    )


def _sides(gathered: Gathered | None) -> Iterator[tuple[str, tuple[float, ...], tuple[float, ...]]]:
    """Each compared case's judged runs on head and base, 1.0 for a pass."""
    from agent_eval.gate.stats import PASS

    for case in gathered.evidence if gathered is not None else ():
        series = case.metrics[PASS]
        yield (
            case.case_id,
            (*series.head_screen, *series.head_confirm),
            (*series.base, *series.base_screen, *series.base_confirm),
        )


def _flaky(case_ids: Collection[str], gathered: Gathered, history: HistoryReport) -> dict[str, FlakinessReport]:
    """Of those cases that both passed and failed on the base, how often."""
    from agent_eval.gate.history import flakiness
    from agent_eval.results import FlakinessReport

    there = {case.case_id: case for case in history.cases}
    found = {}
    for case_id in case_ids:
        known = gathered.comparable[case_id]
        one = flakiness(history, there[known.base_id], known.rules)
        if one.is_mixed:
            found[case_id] = FlakinessReport(
                failures=one.failures,
                runs=one.runs,
                low=one.low,
                high=one.high,
                since=one.since.commit if one.since is not None else "",
            )
    return found


def _before(situation: Situation, log: Callable[[str], None]) -> dict[str, Before]:
    """What the pull request's previous attempt held against its cases. Without it this attempt stands alone."""
    from agent_eval.baseline import earlier_attempt
    from agent_eval.gate.regression import held_against
    from agent_eval.github import GitHubError

    pull_request, github = situation.activity.pull_request, situation.github
    if pull_request is None or github is None or not github.has_token or situation.wanted is None:
        return {}
    try:
        report = earlier_attempt(github, situation.origin, pull_request, situation.wanted.artifact)
    except GitHubError as error:
        log(f"agent-eval: The results of the previous attempt are unavailable: {error.message}")
        return {}
    found = held_against(report.decision.cases) if report is not None and report.decision is not None else {}
    if found and report is not None:
        where = report.origin.run_url if report.origin is not None else None
        log(f"agent-eval: {plural(len(found), 'case')} of the previous attempt ({where}) will be looked at again")
    return found


async def compare_with_base(
    report: RunReport,
    outcome: BaselineOutcome | None,
    bench: Workbench,
    plan: Plan,
    side: BaseSide | None,
    *,
    repeatable: bool,
) -> Compared | None:
    """Compares, and finds out what of the difference is more than noise.

    Args:
        report: The head's, with its cases. Gets what came of it: baseline, comparison, decision, extra runs; a run that
            records gets its history.
        outcome: What `find_base` gave.
        bench: The head's agents.
        plan: The head's.
        side: The base's agent; None where it can't be run.
        repeatable: False where answers were recorded.

    Returns:
        What the verdict needs; None without a usable baseline.
    """
    from agent_eval.baseline import with_head
    from agent_eval.gate.diff import compare
    from agent_eval.gate.evaluation import Compared
    from agent_eval.gate.history import agents_by_file, drift, drift_notices, extend, within
    from agent_eval.gate.pairing import pair_up

    settings, situation = bench.settings, bench.clients.situation
    if situation.activity.kind == "record":
        history = history_of(outcome, settings.history)
        report.history = extend(history, report, settings.history)
        report.notices += drift_notices(drift(report.history))
        return None
    if outcome is not None:
        outcome = with_head(outcome, report)
    history = history_of(outcome, settings.history)
    report.baseline = told_baseline(situation, outcome)
    base = outcome.report if outcome is not None else None
    if base is None or history is None:
        return None
    report.comparison = compare(report, base, history)
    history = within(history, report.selection)
    report.notices += drift_notices(drift(history))
    confirmation = Confirmation(
        bench=bench,
        plan=plan,
        side=side,
        report=report,
        history=history,
        same_day=report.baseline is not None and report.baseline.source == "rerun",
        before=await asyncio.to_thread(_before, situation, bench.clients.log),
        repeatable=repeatable and settings.gate != "thresholds",
    )
    decision, gathered = await confirmation.decide()
    report.decision = told_decision(decision, settings.policy.alpha, gathered=gathered, history=history)
    report.confirmations, report.base_runs = confirmation.head, confirmation.base
    report.notices += confirmation.notices
    pairs = pair_up(report.cases, base.cases, report.selection, base.selection).pairs
    return Compared(
        decision=decision,
        gathered=gathered,
        base=history,
        confirmations=confirmation.head,
        base_runs=confirmation.base,
        counterparts={pair.head.case_id: pair.base for pair in pairs},
        agents=agents_by_file(report),
    )
