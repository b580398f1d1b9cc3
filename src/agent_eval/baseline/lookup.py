"""What came of looking for the base branch's results: found, or why not. Every text tells the four cases apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent_eval.baseline.request import BaselineRequest
from agent_eval.results import BaselineReport, BaselineSource, BaselineStatus, BaselineStep, RunReport


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """Where results come from."""

    commit: str | None
    """Of the state that they were measured on; None when a committed file doesn't tell."""
    distance: int | None = None
    """Commits from the request one back to `commit`, along first parents; None when nobody knows."""
    run_id: int | None = None
    run_url: str | None = None
    recorded_at: float | None = None
    """Unix time in seconds."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """There is a baseline."""

    report: RunReport
    provenance: Provenance
    message: str


@dataclass(frozen=True, kw_only=True)
class NoneYet:
    """Nobody has recorded one; that is no mistake."""

    message: str
    hint: str | None = None


@dataclass(frozen=True, kw_only=True)
class FetchFailed:
    """There may be one, but it could not be had, or it could not be trusted."""

    message: str
    hint: str | None = None
    by_name: bool = False
    """What `base-ref` names can't be compared with, and trying again would change nothing."""


@dataclass(frozen=True, kw_only=True)
class Incompatible:
    """There is one, and nothing of it can be compared."""

    message: str
    hint: str | None = None


Missing = NoneYet | FetchFailed | Incompatible
Baseline = Found | Missing

STATUSES: dict[type[Baseline], BaselineStatus] = {
    Found: "found",
    NoneYet: "none-yet",
    FetchFailed: "fetch-failed",
    Incompatible: "incompatible",
}
_WEIGHT = (Incompatible, FetchFailed, NoneYet)
"""Which of several reasons is told as the reason: one that somebody can do something about comes first."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One source that was asked, and its answer."""

    source: BaselineSource
    baseline: Baseline


@dataclass(frozen=True, kw_only=True)
class BaselineOutcome:
    """What came of all sources."""

    baseline: Baseline
    """What was found by the last step, or the weightiest reason why there is nothing."""
    steps: tuple[Step, ...]
    """In the order in which they were asked; those after the one that found it were not."""

    @property
    def report(self) -> RunReport | None:
        """The base's results, when they were found."""
        return self.baseline.report if isinstance(self.baseline, Found) else None


def outcome_of(steps: Sequence[Step]) -> BaselineOutcome:
    """The outcome of the steps that were taken.

    Args:
        steps: In order. None of them: no baseline was asked for.
    """
    if not steps:
        return BaselineOutcome(baseline=NoneYet(message="No baseline was asked for (`baseline: none`)."), steps=())
    last = steps[-1].baseline
    if isinstance(last, Found):
        return BaselineOutcome(baseline=last, steps=tuple(steps))
    weightiest = min((step.baseline for step in steps), key=lambda one: _WEIGHT.index(type(one)))
    return BaselineOutcome(baseline=weightiest, steps=tuple(steps))


def to_report(outcome: BaselineOutcome, request: BaselineRequest | None) -> BaselineReport:
    """The outcome on the wire.

    Args:
        outcome: What came of it.
        request: What was looked for; None when that could not be told.
    """
    baseline = outcome.baseline
    steps = [
        BaselineStep(source=step.source, status=STATUSES[type(step.baseline)], message=told(step.baseline))
        for step in outcome.steps
    ]
    commit, branch = (None, "") if request is None else (request.commit, request.base_ref)
    if not isinstance(baseline, Found):
        return BaselineReport(
            status=STATUSES[type(baseline)], branch=branch, wanted_commit=commit, message=told(baseline), steps=steps
        )
    provenance = baseline.provenance
    return BaselineReport(
        status="found",
        branch=branch,
        source=outcome.steps[-1].source,
        commit=provenance.commit,
        wanted_commit=commit,
        distance=provenance.distance,
        run_url=provenance.run_url,
        recorded_at=provenance.recorded_at,
        message=baseline.message,
        steps=steps,
    )


def told(baseline: Baseline) -> str:
    """What to tell people: what happened, then what to do about it."""
    if isinstance(baseline, Found) or baseline.hint is None:
        return baseline.message
    return f"{baseline.message} {baseline.hint}"
