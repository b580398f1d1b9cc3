"""Sorts the failed cases of a run that was compared with the base branch by why they failed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from agent_eval.gate.pairing import Pairing
from agent_eval.gate.regression import Gathered, Outcome
from agent_eval.results import (
    BROKE,
    CaseDecisionReport,
    CaseReport,
    DecisionReport,
    HistoryReport,
    MetricReport,
    Reason,
)

_OF_A_SERVICE = frozenset(
    f"judge-{what}" for what in ("unavailable", "deadline", "malformed", "invalid-request", "no-credentials")
)
"""Codes of metrics whose model failed."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """The comparison with the base branch after the decision."""

    decision: DecisionReport
    """On all cases, also those that are `unchanged`."""
    gathered: Gathered
    base: HistoryReport
    pairing: Pairing
    confirmations: Sequence[CaseReport] = ()
    """The head's extra runs."""
    base_runs: Sequence[CaseReport] = ()
    """The base branch's runs of today."""
    agents: Mapping[str, str] = field(default_factory=dict)
    """The head's agents by eval file."""


@dataclass(kw_only=True)
class FailedCases:
    """Failed cases by what they mean in a comparison."""

    not_evaluated: dict[str, list[CaseReport]] = field(default_factory=dict)
    """By the kind of error."""
    agent_errors: list[CaseReport] = field(default_factory=list)
    not_comparable: list[CaseReport] = field(default_factory=list)
    new_metrics: list[CaseReport] = field(default_factory=list)
    error_once: list[tuple[CaseReport, int]] = field(default_factory=list)
    """With the number of repeated runs that did not show it again."""
    as_before: list[tuple[CaseReport, CaseDecisionReport]] = field(default_factory=list)
    otherwise: list[CaseReport] = field(default_factory=list)
    """The agent answers here, and broke on the base branch."""
    broken_alike: list[CaseReport] = field(default_factory=list)
    """Their metrics break in the same way on both sides."""

    replayed: list[CaseReport] = field(default_factory=list)
    """Replayed from tapes of runs that passed."""
    as_recorded: list[CaseReport] = field(default_factory=list)
    """Replayed from tapes of runs that failed, too."""
    gone: list[CaseReport] = field(default_factory=list)
    """Can't be compared, and passed often enough when repeated."""
    open: list[CaseReport] = field(default_factory=list)
    """Can't be compared, and could not be repeated often enough."""

    def hold(self, case: CaseReport, against: list[CaseReport], outcome: Outcome | None) -> None:
        """Counts a failure against the pull request unless repeated runs passed or were too few."""
        {"gone": self.gone, "open": self.open}.get(outcome or "again", against).append(case)

    @property
    def blocking(self) -> list[CaseReport]:
        """The cases that count against the pull request."""
        lost = [case for cases in self.not_evaluated.values() for case in cases]
        return [*lost, *self.agent_errors, *self.not_comparable, *self.new_metrics, *self.replayed]


@dataclass(frozen=True, kw_only=True)
class BaseErrors:
    """The agent's errors on the base branch."""

    kinds: frozenset[str]
    """Those in the base's results and in its runs of today, in any case."""
    unknown: frozenset[str]
    """Cases, by the base's id, that broke in stored runs: the history doesn't keep the kind of an error."""

    @classmethod
    def of(cls, compared: Compared) -> BaseErrors:
        """Collects them."""
        there = compared.pairing.counterparts.values()
        kinds = [kind for case in (*there, *compared.base_runs) for kind in kinds_of(case)]
        known_errors = {case.case_id: len(kinds_of(case)) for case in there}
        unknown = (
            case.case_id
            for case in compared.base.cases
            if case.outcomes.count(BROKE) > known_errors.get(case.case_id, 0)
        )
        return cls(kinds=frozenset(kinds), unknown=frozenset(unknown))

    def explain(self, case: CaseReport, base_id: str, *, passed_there: bool) -> bool:
        """Whether the base branch has the errors of a case, too.

        If the case sometimes passes on the base branch, the statistics say whether it breaks more often, and an agent
        that sometimes breaks can break in any case. If it never passed there, they can't: it must break in the same
        way.
        """
        if self.kinds.issuperset(kinds_of(case)):
            return True
        return bool(self.unknown) if passed_there else base_id in self.unknown


def kinds_of(case: CaseReport) -> list[str]:
    """The kinds of the agent's errors, one for each run that ended with one."""
    return [run.error.kind for run in case.runs if run.error is not None and run.error.owner == "agent"]


def sort_failed_case(
    case: CaseReport,
    word: CaseDecisionReport | None,
    compared: Compared,
    again: Mapping[str, tuple[int, int]],
    base_errors: BaseErrors,
    into: FailedCases,
) -> None:
    """Adds a failed case to the group that it belongs to.

    Args:
        case: A case that may fail the gate.
        word: Its decision; None if its runs were not compared.
        compared: The comparison.
        again: From `errors_again`.
        base_errors: The agent's errors on the base branch.
        into: Where to add it. A case for which the decision has a reason of its own is added nowhere.
    """
    if case.replayed:
        # Nothing varies from run to run: what failed here and not when it was recorded is this pull request's.
        known = into.agent_errors if kinds_of(case) else into.as_recorded  # No run with an error is on a tape.
        if case.failed_when_recorded:
            known.append(case)
        else:
            into.hold(case, into.replayed, compared.gathered.reproduced.get(case.case_id))
        return
    comparable = compared.gathered.comparable.get(case.case_id)
    counterpart = compared.pairing.counterparts.get(case.case_id)
    broke, outcome = bool(kinds_of(case)), compared.gathered.reproduced.get(case.case_id)
    failing = _failing(case)
    alike = [metric for metric in failing if not broke and _breaks_alike(metric, counterpart)]
    if alike and len(alike) == len(failing):
        into.broken_alike.append(case)
    elif comparable is None or word is None:
        into.hold(case, into.not_comparable, outcome)
    elif any(metric.name in comparable.missing and metric not in alike for metric in failing):
        into.hold(case, into.new_metrics, outcome)
    elif word.blocking:
        return  # The decision has a reason of its own.
    elif broke and again.get(case.case_id, (0, 0))[1] and not again[case.case_id][0]:
        into.error_once.append((case, again[case.case_id][1]))
    elif broke and not base_errors.explain(case, comparable.history.case_id, passed_there=bool(word.base_mean)):
        into.hold(case, into.agent_errors, outcome)
    elif (
        not broke
        and counterpart is not None
        and counterpart.runs
        and len(kinds_of(counterpart)) == len(counterpart.runs)
    ):
        into.otherwise.append(case)
    else:
        # An agent that breaks now and then on the base branch too is noise like any other: the statistics decided.
        into.as_before.append((case, word))


def _failing(case: CaseReport) -> list[MetricReport]:
    return [metric for metric in case.metrics if metric.blocking and metric.status in {"failed", "not_evaluated"}]


def are_broken_alike(cases: Sequence[CaseReport], compared: Compared) -> bool:
    """Whether a case is comparable only by a metric that breaks on both sides."""
    return any(
        _breaks_alike(metric, there)
        for case in cases
        if case.status == "failed" and (there := compared.pairing.counterparts.get(case.case_id)) is not None
        for metric in _failing(case)
    )


def _breaks_alike(metric: MetricReport, there: CaseReport | None) -> bool:
    """Whether a metric has no score on either side, by the same mistake of the same code."""
    kinds = _metric_kinds(metric)
    return bool(kinds) and any(
        other.name == metric.name and other.fingerprint == metric.fingerprint and kinds <= _metric_kinds(other)
        for other in (there.metrics if there is not None else ())
    )


def _metric_kinds(metric: MetricReport) -> set[str]:
    return {run.error.kind for run in metric.runs if run.error is not None and run.error.owner == "agent"}


def errors_again(confirmations: Iterable[CaseReport]) -> dict[str, tuple[int, int]]:
    """By case, how many of its extra runs ended with an error of the agent, and how many were judged."""
    counts: dict[str, tuple[int, int]] = {}
    for case in confirmations:
        errors, runs = counts.get(case.case_id, (0, 0))
        for run in case.runs:
            errors += run.error is not None and run.error.owner == "agent"
            runs += run.status in {"passed", "failed"}
        counts[case.case_id] = errors, runs
    return counts


def outage(confirmations: Iterable[CaseReport]) -> Reason | None:
    """Why most extra runs have no result, if it is a service that failed; None if most were judged."""
    judged, lost = 0, list[Reason]()
    for case in confirmations:
        unscored = next((metric.reason for metric in case.metrics if metric.status == "not_evaluated"), None)
        for run in case.runs:
            judged += run.status in {"passed", "failed"}
            if run.error is not None and run.error.owner == "provider":
                lost.append(Reason(code=run.error.kind, message=run.error.message))
            elif run.error is None and run.status == "errored" and unscored and unscored.code in _OF_A_SERVICE:
                lost.append(unscored)
    return lost[0] if len(lost) > judged else None
