"""What a baseline lookup asks for, and its result: the base branch's results, or why there are none or none that
can be compared with the head's. `gate.diff` compares case by case.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Protocol

from agent_eval_scoring.core.text import harmless, listed, plural

if TYPE_CHECKING:
    from agent_eval.baseline.archive import StoredRecordings
    from agent_eval.forge import ForgeError
    from agent_eval_results import (
        BaselineReport,
        BaselineSource,
        BaselineStatus,
        BaselineStep,
        CaseReport,
        MetricReport,
        Reason,
        RunReport,
    )
    from agent_eval_results.data.pairing import Pairing

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
    """What a service said that failed in the base branch's runs of today, or the forge when it was asked for the
    results; None if that is not the reason."""
    status: ClassVar[BaselineStatus] = "fetch-failed"


@dataclass(frozen=True, kw_only=True)
class Incompatible(Baseline):
    """A baseline was found, but nothing in it is comparable."""

    status: ClassVar[BaselineStatus] = "incompatible"


_WEIGHT: Sequence[BaselineStatus] = ("incompatible", "fetch-failed", "none-yet")
"""Order in which several reasons are reported: actionable ones first."""


def forge_outage(error: ForgeError) -> Reason | None:
    """What the forge said, if it could not answer; None if it answered."""
    from agent_eval_results import UNREACHABLE, Reason

    is_outage = error.kind in {"unavailable", "rate-limited"}
    return Reason(code=UNREACHABLE, message=error.message) if is_outage else None


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


def checked(baseline: Found, head: RunReport, base: RunReport, pairing: Pairing) -> Baseline:
    """A found baseline as `Incompatible` if none of its cases can be compared with the head's; see `incomparable`."""
    reason = incomparable(head, base, pairing)
    if reason is None:
        return baseline
    *before, last = baseline.steps
    if last.source == "file" and not pairing.pairs and not pairing.changed:
        todo = "Name results of these eval files as `baseline`; these may be of other files or of another repository."
        reason = replace(reason, message=f"{reason.message} {baseline.message}", hint=todo)
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
    from agent_eval_results import OTHER_SCORING, Reason

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
