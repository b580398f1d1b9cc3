"""What a baseline lookup asks for, and its result: the base branch's results, or why there are none."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from agent_eval.baseline.recordings import StoredRecordings
    from agent_eval.results import BaselineReport, BaselineSource, BaselineStatus, Reason, RunReport

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """The origin of a baseline."""

    commit: str | None
    """The measured commit; None if a committed file doesn't name it."""
    distance: int | None = None
    """Commits from the request one back to `commit`, along first parents; None if unknown."""
    run_id: int | None = None
    run_url: str | None = None
    recorded_at: float | None = None
    """Unix time in seconds."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """A baseline was found."""

    report: RunReport
    provenance: Provenance
    message: str
    recordings: StoredRecordings | None = None
    """The conversations of `report`; None if this run makes them itself."""


@dataclass(frozen=True, kw_only=True)
class NoneYet:
    """No baseline has been recorded yet, which is no error."""

    message: str
    hint: str | None = None


@dataclass(frozen=True, kw_only=True)
class FetchFailed:
    """A baseline may exist, but it could not be fetched or is not trusted."""

    message: str
    hint: str | None = None
    by_name: bool = False
    """`base-ref` names something that can't be compared with; a retry doesn't help."""
    outage: Reason | None = None
    """What a service said that failed in the base branch's runs of today; None if that is not the reason."""


@dataclass(frozen=True, kw_only=True)
class Incompatible:
    """A baseline was found, but nothing in it is comparable."""

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
"""Order in which several reasons are reported: actionable ones first."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """The answer of one source."""

    source: BaselineSource
    baseline: Baseline


@dataclass(frozen=True, kw_only=True)
class BaselineOutcome:
    """The result of all sources."""

    baseline: Baseline
    """The baseline of the last step, or the most important reason why there is none."""
    steps: tuple[Step, ...]
    """The steps in order; sources after the first success are not tried."""

    @property
    def report(self) -> RunReport | None:
        """The base branch's results, if found."""
        return self.baseline.report if isinstance(self.baseline, Found) else None

    @property
    def outage(self) -> Reason | None:
        """Of `FetchFailed`."""
        return self.baseline.outage if isinstance(self.baseline, FetchFailed) else None


def outcome_of(steps: Sequence[Step]) -> BaselineOutcome:
    """Combines the steps of a lookup.

    Args:
        steps: The steps in order; empty if no baseline was requested.
    """
    if not steps:
        return BaselineOutcome(baseline=NoneYet(message="No baseline was requested (`baseline: none`)."), steps=())
    last = steps[-1].baseline
    if isinstance(last, Found):
        return BaselineOutcome(baseline=last, steps=tuple(steps))
    weightiest = min((step.baseline for step in steps), key=lambda missing: _WEIGHT.index(type(missing)))
    return BaselineOutcome(baseline=weightiest, steps=tuple(steps))


def to_report(outcome: BaselineOutcome, request: BaselineRequest | None) -> BaselineReport:
    """Converts the outcome for the report.

    Args:
        outcome: The outcome of the lookup.
        request: The request; None if it could not be determined.
    """
    from agent_eval.results import BaselineReport, BaselineStep

    baseline = outcome.baseline
    steps = [
        BaselineStep(source=step.source, status=STATUSES[type(step.baseline)], message=describe(step.baseline))
        for step in outcome.steps
    ]
    commit, branch = (None, "") if request is None else (request.commit, request.base_ref)
    if not isinstance(baseline, Found):
        return BaselineReport(
            status=STATUSES[type(baseline)],
            branch=branch,
            wanted_commit=commit,
            message=describe(baseline),
            steps=steps,
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


def describe(baseline: Baseline) -> str:
    """Returns the message followed by the hint."""
    if isinstance(baseline, Found) or baseline.hint is None:
        return baseline.message
    return f"{baseline.message} {baseline.hint}"


class Resolver(Protocol):
    """A source of baselines."""

    @property
    def source(self) -> BaselineSource:
        """The source's name."""
        ...

    async def find(self, request: BaselineRequest) -> Baseline:
        """Looks for the baseline. Returns failures instead of raising them."""
        ...


async def resolve(resolvers: Sequence[Resolver], request: BaselineRequest) -> BaselineOutcome:
    """Tries the sources in order until one returns a baseline."""
    steps: list[Step] = []
    for resolver in resolvers:
        answer = await resolver.find(request)
        steps.append(Step(source=resolver.source, baseline=answer))
        _LOG.debug("%s: %s", resolver.source, describe(answer))
        if isinstance(answer, Found):
            break
    return outcome_of(steps)


@dataclass(frozen=True, kw_only=True)
class BaselineRequest:
    """The baseline to look for."""

    repository: str
    """`owner/name`; "" outside GitHub."""
    base_ref: str
    """The base branch's name, e.g. `main`."""
    commit: str
    """The full sha to compare with; a source may return an earlier one along first parents, and reports it."""
    how: str
    """How that commit was determined, e.g. "the first parent of the tested merge commit"."""
    is_pull_request: bool
    """Whether the checkout is a pull request; a committed file is then read from the base branch."""
    tip: str = ""
    """The tip of the branch that `base-ref` names, or that name where the clone lacks it; "" without `base-ref`."""
    workflow: str = ""
    """Path of the workflow file, e.g. `.github/workflows/evals.yml`; only its runs are considered."""
    artifact: str = "agent-eval-results"
    own_run: int | None = None
    """Id of this run, which is never its own baseline."""
