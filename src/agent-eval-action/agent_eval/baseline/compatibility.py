"""Decides whether a baseline is comparable with the head at all. `gate.diff` compares case by case."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from agent_eval.baseline.lookup import Baseline, Found, Incompatible, step_of
from agent_eval_results import OTHER_SCORING, CaseReport, MetricReport, Reason, RunReport
from agent_eval_scoring.core.text import harmless, listed, plural

if TYPE_CHECKING:
    from agent_eval_results.data.pairing import Pairing


def checked(baseline: Found, head: RunReport, base: RunReport, pairing: Pairing) -> Baseline:
    """A found baseline as `Incompatible` if none of its cases can be compared with the head's; see `incomparable`."""
    reason = incomparable(head, base, pairing)
    if reason is None:
        return baseline
    *before, last = baseline.steps
    own = step_of(last.source, reason)
    said = next((step for step in before if step.status == "incompatible"), own)
    return Incompatible(message=said.message, why=said.reason, steps=(*before, own))


def incomparable(head: RunReport, base: RunReport, pairing: Pairing) -> Incompatible | None:
    """Returns why no case of the head can be compared with the base branch.

    Two cases are comparable if they have the same content (`gate.pairing` also matches renamed cases and moved files),
    and share a gating metric that is measured in the same way, or have no gating metric on either side. An empty
    fingerprint (of an older file) counts as equal.

    Returns:
        None if at least one case is comparable.
    """
    if head.scoring_version != base.scoring_version:
        return Incompatible(
            message=f"The base branch's scores are not comparable: scoring version {base.scoring_version}, "
            f"expected {head.scoring_version}.",
            why=Reason.of(OTHER_SCORING, wanted=head.tool_version, got=base.tool_version),
        )
    if any(_measured_alike(head, base) for head, base in pairing.pairs):
        return None
    if pairing.pairs:
        return Incompatible(message=_why_not_alike(pairing.pairs))
    if pairing.changed:
        return Incompatible(
            message="No case has the same content on both sides: messages or expectations differ "
            f"({plural(len(pairing.changed), 'case')})."
        )
    return Incompatible(
        message=f"This run ({plural(len(head.cases), 'case')}) and the base branch "
        f"({plural(len(base.cases), 'case')}) have no case in common."
    )


def _equal(left: str, right: str) -> bool:
    return left == right or not left or not right


def _measured_alike(head: CaseReport, base: CaseReport) -> bool:
    ours, theirs = _gating(head), _gating(base)
    if not ours:
        # A head without measurements, because every run had an error, does not make the baseline incompatible.
        return not theirs or any(run.error is not None for run in head.runs)
    return any(
        name in theirs and metric.judge == theirs[name].judge and _equal(metric.fingerprint, theirs[name].fingerprint)
        for name, metric in ours.items()
    )


def _gating(case: CaseReport) -> Mapping[str, MetricReport]:
    return {metric.name: metric for metric in case.metrics if metric.is_configured}


def _why_not_alike(pairs: Iterable[tuple[CaseReport, CaseReport]]) -> str:
    """Describes why metrics differ; a changed judge takes precedence and is named."""
    judges: dict[tuple[str, str], None] = {}
    names: dict[str, None] = {}
    for head, base in pairs:
        theirs = _gating(base)
        for name, metric in _gating(head).items():
            if name not in theirs:
                continue
            names[name] = None
            if metric.judge != (other := theirs[name].judge):
                judges[other or "no model", metric.judge or "no model"] = None
    if judges:
        changes = ", ".join(f"{_shown(old)} on the base branch, {_shown(new)} now" for old, new in list(judges)[:3])
        return f"The judge model has changed ({changes}), so no score can be compared."
    if names:
        return (
            f"The criteria have changed ({listed([_shown(name) for name in names], 5)}), so no score can be compared."
        )
    return "No criterion of this run was measured on the base branch."


def _shown(name: str) -> str:
    return harmless(name)[:80]
