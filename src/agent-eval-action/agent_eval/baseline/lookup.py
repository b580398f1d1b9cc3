"""What a baseline lookup asks for, and its result: the base branch's results, or why there are none."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from agent_eval.baseline.archive import StoredRecordings
    from agent_eval_results import BaselineReport, BaselineSource, BaselineStatus, BaselineStep, Reason, RunReport

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
class Baseline:
    """The base branch's results, or why there are none: the answer of a source, then that of the whole lookup."""

    message: str
    hint: str | None = None
    why: Reason | None = None
    """The code of the reason, with data, where it says more than the status."""
    steps: tuple[BaselineStep, ...] = ()
    """Of a lookup: the answers of its sources, in order. Sources after the first success are not tried."""
    status: ClassVar[BaselineStatus]


@dataclass(frozen=True, kw_only=True)
class Found(Baseline):
    """A baseline was found."""

    report: RunReport
    provenance: Provenance
    recordings: StoredRecordings | None = None
    """The conversations of `report`; None if this run makes them itself."""
    status: ClassVar[BaselineStatus] = "found"


@dataclass(frozen=True, kw_only=True)
class NoneYet(Baseline):
    """No baseline has been recorded yet, which is no error."""

    status: ClassVar[BaselineStatus] = "none-yet"


@dataclass(frozen=True, kw_only=True)
class FetchFailed(Baseline):
    """A baseline may exist, but it could not be fetched or is not trusted."""

    by_name: bool = False
    """`base-ref` names something that can't be compared with; a retry doesn't help."""
    outage: Reason | None = None
    """What a service said that failed in the base branch's runs of today; None if that is not the reason."""
    status: ClassVar[BaselineStatus] = "fetch-failed"


@dataclass(frozen=True, kw_only=True)
class Incompatible(Baseline):
    """A baseline was found, but nothing in it is comparable."""

    status: ClassVar[BaselineStatus] = "incompatible"


_WEIGHT: Sequence[BaselineStatus] = ("incompatible", "fetch-failed", "none-yet")
"""Order in which several reasons are reported: actionable ones first."""


def to_report(baseline: Baseline, request: BaselineRequest | None) -> BaselineReport:
    """Converts the answer of a lookup for the report.

    Args:
        baseline: The answer.
        request: The request; None if it could not be determined.
    """
    from agent_eval_results import BaselineReport

    commit, branch = (None, "") if request is None else (request.commit, request.base_ref)
    report = BaselineReport(
        status=baseline.status,
        branch=branch,
        wanted_commit=commit,
        message=describe(baseline),
        reason=baseline.why,
        steps=list(baseline.steps),
    )
    if isinstance(baseline, Found):
        report.source = baseline.steps[-1].source
        provenance = baseline.provenance
        report.commit, report.distance = provenance.commit, provenance.distance
        report.run_url, report.recorded_at = provenance.run_url, provenance.recorded_at
    return report


def describe(baseline: Baseline) -> str:
    """Returns the message followed by the hint."""
    return baseline.message if baseline.hint is None else f"{baseline.message} {baseline.hint}"


class Resolver(Protocol):
    """A source of baselines."""

    @property
    def source(self) -> BaselineSource:
        """The source's name."""
        ...

    async def find(self, request: BaselineRequest) -> Baseline:
        """Looks for the baseline. Returns failures instead of raising them."""
        ...


async def resolve(resolvers: Sequence[Resolver], request: BaselineRequest) -> Baseline:
    """Tries the sources in order until one returns a baseline. Without one, the most important reason is the answer."""
    answers: list[Baseline] = []
    steps: list[BaselineStep] = []
    for resolver in resolvers:
        answers.append(await resolver.find(request))
        steps.append(step_of(resolver.source, answers[-1]))
        _LOG.debug("%s: %s", resolver.source, describe(answers[-1]))
        if isinstance(answers[-1], Found):
            return replace(answers[-1], steps=tuple(steps))
    if not answers:
        return NoneYet(message="No baseline was requested (`baseline: none`).")
    return replace(min(answers, key=lambda missing: _WEIGHT.index(missing.status)), steps=tuple(steps))


def step_of(source: BaselineSource, answer: Baseline) -> BaselineStep:
    """The answer of one source as the report has it."""
    from agent_eval_results import BaselineStep

    return BaselineStep(source=source, status=answer.status, message=describe(answer), reason=answer.why)


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
