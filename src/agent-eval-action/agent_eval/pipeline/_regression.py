"""Compares with the base branch: its results, and the extra runs that separate a regression from noise.

Also what a report keeps of the base branch for readers, which does not affect the verdict.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from agent_eval.baseline import Baseline, FetchFailed, Found, GitError, describe, sentence, to_report
from agent_eval.baseline.lookup import BaselineRequest, Resolver, checked, resolve
from agent_eval.baseline.rerun import BaseWorktree, NotOnBase, RerunSource
from agent_eval.forge import DEFAULT_KEY
from agent_eval.pipeline._attempts import Earlier, find_earlier, runs_remembered
from agent_eval.pipeline._checkout import Checkout
from agent_eval.pipeline.ci_context import CIContext
from agent_eval_scoring.core.limiter import together

if TYPE_CHECKING:
    from pathlib import Path

    from agent_eval.baseline.archive import StoredRecordings
    from agent_eval.gate.evaluation import Compared
    from agent_eval.gate.regression import Comparable, Gathered
    from agent_eval.gate.stats import ConfirmOnBase
    from agent_eval.gate.verdict import Verdict
    from agent_eval.pipeline._base_checkout import BaseCheckout
    from agent_eval.runner import Plan
    from agent_eval_results import (
        BaselineReport,
        CaseDecisionReport,
        CaseReport,
        DecisionReport,
        FlakinessReport,
        HistoryReport,
        NoMoreRuns,
        RunReport,
        Runs,
    )
    from agent_eval_results.data.pairing import Pairing

_LOG = logging.getLogger(__name__)


async def find_base(
    baseline: str, root: Path, num_runs: int, ci: CIContext, base_checkout: BaseCheckout | None
) -> Baseline | None:
    """Looks for the base branch's results in the sources that the settings name.

    Args:
        baseline: The setting.
        root: The repository.
        num_runs: Runs of each case.
        ci: Names the commit to compare with; for a recording run, the commit whose history it continues.
        base_checkout: The base's agent; None where it must not run.

    Returns:
        None if there is no commit to compare with.
    """
    from agent_eval.settings import parse_order

    choices, request = parse_order(baseline), ci.baseline_request
    if request is None:
        choices = tuple(choice for choice in choices if choice.source == "file")
        if ci.activity.kind == "compare" or not choices:
            return None
        # A file of the working tree needs no commit.
        request = BaselineRequest(repository="", base_ref="", commit="", how="", is_pull_request=False)
    resolvers: list[Resolver] = []
    for choice in choices:
        if choice.source == "artifact":
            from agent_eval.baseline.artifact import ArtifactSource

            resolvers.append(ArtifactSource(forge=ci.forge, git=ci.git))
        elif choice.source == "file" and choice.path is not None:
            from agent_eval.baseline.file import FileSource

            resolvers.append(FileSource(path=choice.path, root=root, git=ci.git, remote=ci.remote))
        elif choice.source == "rerun" and base_checkout is not None:

            async def run(_: BaseWorktree, base_checkout: BaseCheckout = base_checkout) -> RunReport:
                return await base_checkout.report(num_runs)

            resolvers.append(RerunSource(git=ci.git, run=run, remote=ci.remote, checkout=base_checkout.worktree))
    return await resolve(resolvers, request)


def baseline_report(ci: CIContext, baseline: Baseline | None) -> BaselineReport | None:
    """Where the base's results come from, or why there are none; None where none are expected."""
    if baseline is not None and baseline.steps:
        return to_report(baseline, ci.baseline_request)
    return to_report(ci.no_baseline, None) if ci.no_baseline is not None else None


@dataclass(frozen=True, kw_only=True)
class Base:
    """The base's results, paired with the head's."""

    report: RunReport
    """Cases of agents that answered in none are `errored`."""
    recordings: StoredRecordings | None
    history: HistoryReport
    pairing: Pairing


def pair_with_base(report: RunReport, baseline: Baseline | None, keep: int, plan: Plan) -> Base | None:
    """Pairs the cases of a run with those of the base; None without a baseline.

    Args:
        report: The head's, with its cases.
        baseline: Result of `find_base`.
        keep: Maximum number of stored runs.
        plan: The head's.
    """
    from agent_eval.gate.history import extend
    from agent_eval_results.data.answers import without_silent
    from agent_eval_results.data.pairing import pair_up

    if not isinstance(baseline, Found):
        return None
    base = without_silent(baseline.report)
    plan.rename_contents([*base.cases, *(base.history.cases if base.history is not None else ())])
    history = base.history or extend(None, base, keep)
    pairing = pair_up(report.cases, base.cases, report.selection, base.selection, history.cases)
    return Base(report=base, recordings=baseline.recordings, history=history, pairing=pairing)


@dataclass(kw_only=True)
class Confirmation:
    """Runs suspected cases again, on both sides, until it is decided whether they got worse."""

    checkout: Checkout
    plan: Plan
    base_checkout: BaseCheckout | None
    """None: the base can't be run."""
    report: RunReport
    """With the screening runs."""
    history: HistoryReport
    comparable: Mapping[str, Comparable]
    earlier: Earlier = field(default_factory=Earlier)
    same_day: bool = False
    """Whether `history` was recorded beside the head's runs (`baseline: rerun`)."""
    no_more: NoMoreRuns = "limit"
    """Unless it is `limit`, nothing is run again."""
    is_recorded: bool = False
    """Whether answers are recorded or replayed: they don't vary, and nothing can be run again."""
    head: list[CaseReport] = field(default_factory=list)
    """The head's extra runs."""
    base: list[CaseReport] = field(default_factory=list)
    """The base's runs of today."""
    notices: list[str] = field(default_factory=list)
    _rounds: dict[tuple[str, int], int] = field(default_factory=dict)
    """When each extra run of the head was made, by case id and run number."""
    _spent: int = 0
    _stuck: bool = False

    async def decide(self) -> tuple[DecisionReport, Gathered]:
        """Makes the runs that the statistics ask for until they have an answer."""
        from agent_eval.gate.evaluation import outage
        from agent_eval.gate.regression import MoreEvidence, earlier_runs, gather, next_step
        from agent_eval.gate.stats import Budget, Rules
        from agent_eval_results import Runs
        from agent_eval_results.report.phrases import say

        # The whole base has just run: it always confirms.
        confirm_on_base = "always" if self.same_day else self.checkout.settings.confirm_on_base
        base_ids = {case_id: pair.history.case_id for case_id, pair in self.comparable.items()}
        # What can't run again can't be checked again, and a recorded answer is no second piece of evidence.
        known = self.earlier if self.no_more == "limit" else Earlier()
        policy, careful = self.checkout.settings.policy, known.missing is not None
        earlier = earlier_runs(known.attempts, self.report.cases, self.history, self.comparable, policy)
        earlier |= runs_remembered(known.remembered, (case.case_id for case in self.report.cases))
        more = MoreEvidence(before=known.before, earlier=earlier)
        if earlier:
            self.notices.append(say("attempts-counted", count=max(map(len, earlier.values()))))
        elif careful:
            code = "attempts-unknown" if known.unknown else "attempts-missing"
            self.notices.append(say(code, message=known.missing or ""))
        while True:
            gathered = gather(
                self.report.cases,
                self.history,
                self.comparable,
                policy,
                num_runs=self.report.num_runs,
                min_pass_rate=self.checkout.settings.min_pass_rate,
                same_day=self.same_day,
                rules=Rules(confirm_on_base=confirm_on_base, careful=careful),
                more=replace(more, head=self.head, rounds=self._rounds, base=self.base),
            )
            left = 0 if self._stuck else max(self._allowed(gathered, confirm_on_base) - self._spent, 0)
            away = outage([*self.head, *self.base]) if left == 0 else None
            no_more = "outage" if away else self._why_stuck() if self._stuck else self.no_more
            budget = Budget(extra_runs=left, can_run_base=self.base_checkout is not None, no_more=no_more)
            # Nothing runs again: a recorded answer would be the same, and thresholds decide without it.
            if self.no_more != "limit":
                gathered = replace(gathered, retrials=())
            step = next_step(gathered.evidence, gathered.rules, budget, gathered.retrials)
            _LOG.debug("%d of %d extra runs left: %s", left, left + self._spent, step)
            if isinstance(step, Runs):
                await self._make(step, base_ids)
                continue
            if away and step.is_inconclusive:
                self.notices.append(say("no-confirmation", because=away))
            return step, gathered

    def _why_stuck(self) -> NoMoreRuns:
        """The limit that ended the extra runs."""
        if time.monotonic() >= self.checkout.until:
            return "time"
        cases = [*self.head, *self.base]
        codes = {run.error.kind for case in cases for run in case.runs if run.error is not None}
        codes |= {metric.reason.code for case in cases for metric in case.metrics if metric.reason is not None}
        return "cost" if "budget" in codes else "limit"

    def _allowed(self, gathered: Gathered, confirm_on_base: ConfirmOnBase) -> int:
        from agent_eval.gate.stats import usual_extra_runs

        if self.no_more != "limit":
            return 0
        if self.checkout.settings.max_extra_runs is not None:
            return self.checkout.settings.max_extra_runs
        return usual_extra_runs(
            len(self.report.cases),
            self.report.num_runs,
            metrics=gathered.rules.blocking_metrics,
            confirm_on_base=confirm_on_base if self.base_checkout is not None else "never",
        )

    async def _make(self, step: Runs, base_ids: Mapping[str, str]) -> None:
        from agent_eval.gate.regression import apply_policy
        from agent_eval_results import merge
        from agent_eval_results.report.phrases import extra_runs

        self.checkout.context.log(f"agent-eval: {extra_runs(step)}")
        self._spent += sum(step.head.values()) + sum(step.base.values())
        before = _count_scored(self.head) + _count_scored(self.base)
        counts = {base_ids[case_id]: count for case_id, count in step.base.items()}
        head_ids = {base_id: case_id for case_id, base_id in base_ids.items()}
        made = await together(self._run_head(step.head), self._run_base(counts, head_ids))
        rate = self.checkout.settings.min_pass_rate
        # Whether a quarantined case is broken now, or only flaky, is for these runs to show.
        thresholds = replace(self.checkout.settings.policy, quarantine=())
        head, base = (apply_policy(cases, thresholds, min_pass_rate=rate) for cases in made)
        self.head = merge([*self.head, *head], min_pass_rate=rate)
        self.base = merge([*self.base, *base], min_pass_rate=rate)
        # All runs of one call share a moment, which alone may have made them fail (`Family.seen_twice`).
        latest = max(self._rounds.values(), default=0) + 1
        for case in self.head:
            for run in case.runs:
                self._rounds.setdefault((case.case_id, run.run), latest)
        over = self.checkout.context.stop.is_set() or time.monotonic() >= self.checkout.until
        # Without a new result the statistics would ask for the same runs forever.
        self._stuck = over or _count_scored(self.head) + _count_scored(self.base) == before

    async def run_again(self, case_ids: Sequence[str], count: int) -> frozenset[str]:
        """Runs cases again on both sides, whatever the decision is about, within `max-extra-runs`.

        Returns:
            Those with a new result of the head, and of the base if it can be run.
        """
        from agent_eval_results import Runs

        base_ids = {case_id: pair.history.case_id for case_id, pair in self.comparable.items()}
        # No part of the decision about scores, which has ended: its error rate counts only the runs it asked for.
        runs = dict.fromkeys(case_ids, count)
        step = Runs(head=runs, base=runs if self.base_checkout is not None else {}, why="facts")
        most = self.checkout.settings.max_extra_runs
        if self._stuck or (most is not None and self._spent + len(runs) * count * (1 + bool(step.base)) > most):
            return frozenset()
        before = [_scored_runs(side) for side in (self.head, self.base)]
        await self._make(step, base_ids)
        now = [_scored_runs(side) for side in (self.head, self.base)]
        names = [{case_id: case_id for case_id in case_ids}, base_ids]
        return frozenset(
            case_id
            for case_id in case_ids
            if all(
                now[side].get(names[side][case_id], 0) > before[side].get(names[side][case_id], 0)
                for side in range(1 + (self.base_checkout is not None))  # A remote agent has no base version to run.
            )
        )

    async def _run_head(self, counts: Mapping[str, int]) -> list[CaseReport]:
        first = self.report.num_runs
        plans = [
            self.plan.more(ids, count, first_run=first + done)
            for (done, count), ids in _groups(counts, self.head).items()
        ]
        return [case for cases in await together(*map(self.checkout.execute, plans)) for case in cases]

    async def _run_base(self, counts: Mapping[str, int], head_ids: Mapping[str, str]) -> list[CaseReport]:
        """Runs cases on the base branch; `counts` and the result use the base's case ids."""
        from agent_eval.pipeline._base_checkout import split_unstarted
        from agent_eval_results.report.phrases import say

        if not counts or self.base_checkout is None:
            return []
        base_checkout, refusals = self.base_checkout, dict[str, None]()
        # The base's agent answers the head's eval files, so that only the agent differs.
        names = {base_id: head_ids[base_id] for base_id in counts}
        back = {name: base_id for base_id, name in names.items()}

        async def run(ids: Collection[str], count: int, first_run: int) -> list[CaseReport]:
            try:
                return await base_checkout.execute(frozenset(map(names.__getitem__, ids)), count, first_run=first_run)
            except (GitError, NotOnBase, OSError) as error:  # Another group may have an agent that starts.
                refusals[sentence(error)] = None
                return []

        first = self.report.num_runs
        groups = _groups(counts, self.base)
        reports = await together(*(run(ids, count, first + done) for (done, count), ids in groups.items()))
        started, why = split_unstarted([case for cases in reports for case in cases])
        notices = [say("base-not-run", message=message) for message in {**refusals, **why}]
        if notices and not started:
            # Asked once: the stored runs then decide, as where the base can't run at all.
            self.base_checkout = None
        self.notices += [notice for notice in notices if notice not in self.notices]
        return [case.model_copy(update={"case_id": back[case.case_id]}) for case in started]


def _groups(counts: Mapping[str, int], cases: Sequence[CaseReport]) -> dict[tuple[int, int], list[str]]:
    """Groups cases by extra runs made and requested: one plan for each group."""
    # Runs are numbered on: a case that has had two more begins with another number than one that has had none.
    runs_made = {case.case_id: len(case.runs) for case in cases}
    groups: dict[tuple[int, int], list[str]] = {}
    for case_id, count in counts.items():
        groups.setdefault((runs_made.get(case_id, 0), count), []).append(case_id)
    return groups


def _scored_runs(cases: Sequence[CaseReport]) -> dict[str, int]:
    return {case.case_id: sum(run.is_judged for run in case.runs) for case in cases}


def _count_scored(cases: Sequence[CaseReport]) -> int:
    return sum(run.is_judged for case in cases for run in case.runs)


def decision_report(decision: DecisionReport, gathered: Gathered, history: HistoryReport) -> DecisionReport:
    """The decision as it is written to the report.

    Args:
        decision: The decision on all cases.
        gathered: Its evidence.
        history: The base branch's history. Flaky cases get their failure rate there and the commit it began at.
    """
    from agent_eval_results import PASS, CaseRunsReport

    changed = [case for case in decision.cases if case.is_notable]
    flaky = _flaky({case.case_id for case in changed if case.metric == PASS}, gathered, history)
    cases = [
        case.model_copy(update={"flakiness": flaky[case.case_id]})
        if case.metric == PASS and case.case_id in flaky
        else case
        for case in changed
    ]
    runs = []
    for case in gathered.evidence:
        series = case.metrics[PASS]
        head = (*series.head_screen, *series.head_confirm)
        base = (*series.base, *series.base_screen, *series.base_confirm)
        # A case that always passed on both sides is the usual one, and its numbers say nothing.
        if not all(head) or not all(base):
            runs.append(
                CaseRunsReport(
                    case_id=case.case_id,
                    head_passed=round(sum(head)),
                    head_runs=len(head),
                    base_passed=round(sum(base)),
                    base_runs=len(base),
                )
            )
    return decision.model_copy(update={"cases": cases, "runs": runs})


def _flaky(case_ids: Collection[str], gathered: Gathered, history: HistoryReport) -> dict[str, FlakinessReport]:
    """Failure rates of the cases that both passed and failed on the base branch."""
    from agent_eval_results import FlakinessReport
    from agent_eval_results.data.trend import flakiness

    reports = {}
    for case_id in case_ids:
        pair = gathered.comparable[case_id]
        rate = flakiness(history, pair.history, pair.rules)
        if rate.is_mixed:
            reports[case_id] = FlakinessReport(
                failures=rate.failures,
                runs=rate.runs,
                low=rate.low,
                high=rate.high,
                since=rate.since.commit if rate.since is not None else "",
            )
    return reports


Hold = Callable[[Confirmation, Base], "Awaitable[tuple[Verdict | None, list[CaseDecisionReport]]]"]
"""Of `_facts.hold_to_facts`."""


async def compare_with_base(
    report: RunReport,
    baseline: Baseline | None,
    base: Base | None,
    checkout: Checkout,
    plan: Plan,
    base_checkout: BaseCheckout | None,
    *,
    repeatable: bool,
    hold: Hold,
) -> Compared | None:
    """Compares with the base, and decides which differences are regressions.

    Args:
        report: The head's, with its cases. Receives baseline, comparison, decision and extra runs; a recording run
            receives its history.
        baseline: Result of `find_base`.
        base: Result of `pair_with_base`.
        checkout: The head's.
        plan: The head's.
        base_checkout: None where the base can't be run.
        repeatable: False for recorded answers.
        hold: Decides about the cases that may not answer otherwise, after the others.

    Returns:
        Input of the verdict; None without a usable baseline.
    """
    from agent_eval.gate.diff import compare
    from agent_eval.gate.evaluation import Compared
    from agent_eval.gate.history import excerpt, extend, within
    from agent_eval.gate.regression import comparable_cases, with_replayed
    from agent_eval_results.outcome import Lookups
    from agent_eval_results.report.phrases import say

    settings, ci = checkout.settings, checkout.context.ci
    # What is recorded on the base branch is measured, not compared: the next pull requests are held to it.
    if ci.activity.kind == "record":
        if isinstance(baseline, FetchFailed) and baseline.outage is not None:
            report.notices.append(say("history-unread", message=describe(baseline)))
        report.history = extend(base.history if base is not None else None, report, settings.history)
        _note_drift(report, report.history)
        return None
    if isinstance(baseline, Found) and base is not None:
        # Whether both can be compared is only known with the head's cases.
        baseline = checked(baseline, report, base.report, base.pairing)
    report.baseline = baseline_report(ci, baseline)
    if base is None or not isinstance(baseline, Found):
        return None
    report.comparison = compare(report, base.report, base.pairing, base.history)
    history = within(base.history, report.selection)
    _note_drift(report, history)
    is_recorded = not repeatable or settings.replay == "all"
    confirmation = Confirmation(
        checkout=checkout,
        plan=plan,
        base_checkout=base_checkout,
        report=report,
        history=history,
        comparable=comparable_cases(report.cases, history, base.pairing.stored),
        same_day=report.baseline is not None and report.baseline.source == "rerun",
        earlier=await asyncio.to_thread(
            find_earlier,
            ci,
            checkout.context.log,
            case_ids=[case.case_id for case in report.cases],
            key="" if settings.comment == "never" or settings.merges else settings.name or ci.event.key or DEFAULT_KEY,
            comment_author=settings.comment_author,
        ),
        is_recorded=is_recorded,
        no_more="thresholds" if settings.gate == "thresholds" else "recorded" if is_recorded else "limit",
    )
    decision, gathered = await confirmation.decide()
    decision = with_replayed(decision, report.cases, settings.policy)
    facts, by_facts = await hold(confirmation, base)
    decision = decision.model_copy(update={"cases": [*decision.cases, *by_facts]})
    report.decision = decision_report(decision, gathered, history)
    report.confirmations, report.base_runs = confirmation.head, confirmation.base
    report.base_history = excerpt(history, base.pairing.stored, with_scores=Lookups(report=report).notable)
    report.notices += confirmation.notices
    return Compared(
        decision=decision,
        gathered=gathered,
        base=history,
        pairing=base.pairing,
        confirmations=confirmation.head,
        base_runs=confirmation.base,
        same_day=confirmation.same_day,
        agents=report.agents_by_file,
        facts=facts,
    )


def _note_drift(report: RunReport, history: HistoryReport) -> None:
    """Says where the base branch got worse over its last runs. It never blocks: no pull request is the cause."""
    from agent_eval_results.data.trend import drift
    from agent_eval_results.report.phrases import drift_notices

    if report.selection is not None:
        history = history.model_copy(update={"trend": []})  # Its rows are about all cases.
    notices = drift_notices(drift(history), report.change)
    report.base_worse = bool(notices)
    report.notices += notices


def store_baseline_recordings(report: RunReport, base: Base | None, output: Path) -> None:
    """Writes the baseline's recordings of the notable cases, or notes in the report why there are none. Never raises.

    Args:
        report: The head's, after the comparison.
        base: The base's results.
        output: The output directory.
    """
    from agent_eval.baseline.archive import write_recordings
    from agent_eval_results import BASELINE_RECORDINGS
    from agent_eval_results.outcome import Lookups

    if report.baseline is None or report.comparison is None or base is None or base.recordings is None:
        return
    base_ids = {case_id: case.case_id for case_id, case in base.pairing.counterparts.items()}
    case_ids = {base_ids.get(case_id, case_id) for case_id in Lookups(report=report).notable}
    case_ids.update(case.case_id for case in report.comparison.cases if case.is_gone)
    path = output / BASELINE_RECORDINGS
    try:
        report.baseline.recordings_note = write_recordings(path, base.recordings, case_ids)
    except OSError as error:
        with contextlib.suppress(OSError):
            path.unlink()
        report.baseline.recordings_note = f"The baseline's recordings could not be written: {error.strerror or error}."
