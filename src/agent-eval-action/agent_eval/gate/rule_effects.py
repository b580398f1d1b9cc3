"""What changed rules mean for a run: reasons to fail it, and the changes for the report. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agent_eval.gate.policy import AS_HERE, Policy, PolicyReader
from agent_eval.gate.rule_changes import Changed, RuleChanges
from agent_eval_results import (
    CASES_REMOVED,
    CASES_REPLACED,
    CaseReport,
    MetricReport,
    Reason,
    Removal,
    RuleChange,
    RuleChangesReport,
)
from agent_eval_scoring.evalset.models import INFORMATIONAL_METRICS, METRICS, LoadedFile


def not_scorable(
    changes: RuleChanges, policy: PolicyReader, cases: Iterable[CaseReport], base_name: str
) -> list[Reason]:
    """Reasons to fail until a maintainer accepts: the base branch's rule decides about a case and can't be applied."""
    policy_entries = {case.case_id: policy.of_case(case.file, case.eval_id) for case in cases}
    reasons = []
    for change in changes.changes:
        blocked = [
            case_id
            for case_id in change.case_ids
            if case_id in policy_entries
            and policy.blocks(policy_entries[case_id])
            and policy.metric(change.metric, policy_entries[case_id]).blocking
        ]
        if change.kind == "code" and blocked:
            reasons.append(Reason.of("rule-changed", metric=change.metric, count=len(blocked), base=base_name))
    return reasons


def loosened_by_renaming(policy: Policy, files: Iterable[LoadedFile]) -> dict[str, str]:
    """By the new id, the base branch's id of each renamed case whose policy would be looser by the new name alone.

    Args:
        policy: With its `renamed`.
        files: The head's.
    """
    reader = PolicyReader(policy)
    return {
        case_id: ":".join(policy.renamed[case_id])
        for file in files
        for case in file.cases
        if (case_id := f"{file.path}:{case.eval_id}") in policy.renamed
        and reader.loosened(
            file.path, case.eval_id, [*(rule.metric for rule in file.config.criteria), *INFORMATIONAL_METRICS]
        )
    }


def cases_removed(changes: RuleChanges, base_name: str) -> list[Reason]:
    """The reason for a run to fail that removes cases, where that blocks."""
    count = changes.removed_cases
    if not count:
        return []
    files = [removed.file for removed in changes.removed]
    return [Reason.of(CASES_REMOVED, count=count, base=base_name, files=files)]


def cases_replaced(changes: RuleChanges, base_name: str) -> list[Reason]:
    """The reason to fail a run in which most cases of the base branch have another content."""
    if not changes.replaced:
        return []
    count, files = sum(file.removed for file in changes.replaced), [file.file for file in changes.replaced]
    return [Reason.of(CASES_REPLACED, count=count, total=changes.base_cases, base=base_name, files=files)]


def rule_changes_report(
    rules: RuleChanges, cases: Iterable[CaseReport], *, base_ref: str, accepted: str, removal: Removal = "reported"
) -> RuleChangesReport:
    """The changes with what they mean for the cases of this run.

    Args:
        rules: The changed rules.
        cases: The head's, as they were judged.
        base_ref: The base branch's name.
        accepted: Who or what accepted it; "" if the stricter rules decided.
        removal: What becomes of removed cases.
    """
    metrics_by_case = {case.case_id: {metric.name: metric for metric in case.metrics} for case in cases}
    only_here: dict[str, None] = {}
    changes = []
    for change in rules.changes:
        words = [
            (case_id, _only_here(change, metrics_by_case[case_id], accepted=bool(accepted)))
            for case_id in change.case_ids
            if case_id in metrics_by_case
        ]
        measured = [word for _, word in words if word is not None]
        only_here |= dict.fromkeys(case_id for case_id, word in words if word)
        changes.append(
            RuleChange(
                kind=change.kind,
                metric=change.metric,
                config=change.config,
                cases=len(change.case_ids),
                base=change.base,
                head=change.head,
                fails=sum(measured) if measured else None,
            )
        )
    return RuleChangesReport(
        base_ref=base_ref,
        decides="head" if accepted else "base",
        accepted=accepted,
        changes=changes,
        only_here=list(only_here),
        removed=list(rules.removed),
        removal=removal,
        base_cases=rules.base_cases,
    )


def _only_here(change: Changed, metrics: Mapping[str, MetricReport], *, accepted: bool) -> bool | None:
    """Whether a case fails by the base branch's rule and not by the pull request's; None: unknown."""
    metric = metrics.get(change.metric)
    if change.kind == "code" or metric is None or metric.score is None:
        return None
    if change.kind == "threshold" and change.metric in METRICS:
        assert change.head_threshold is not None
        if metric.threshold not in {change.base_threshold, change.head_threshold}:
            return False  # The policy has a threshold of its own for it.
        return change.head_threshold <= metric.score < change.base_threshold
    if accepted:
        return None  # Only the pull request's definition was scored.
    if not metric.failed:
        return False
    here = metrics.get(change.metric + AS_HERE)
    return here is None or here.passed
