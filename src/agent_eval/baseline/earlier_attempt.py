"""Results of the previous run of the same pull request, from its artifact.

They can only make this run more careful (`gate.regression.held_against`). So a missing artifact is no error, and a
forged one can only harm its own pull request. Artifacts of forks are not read.
"""

from __future__ import annotations

from collections.abc import Iterator

from agent_eval.baseline.archive import ArchiveLimits, UnsafeArchive, read_results
from agent_eval.baseline.reader import read_report
from agent_eval.forge import Artifact, Forge, PullRequest, same_repository
from agent_eval.results import Origin, RunReport

_MAX_RUNS = 5
"""Maximum number of earlier runs of the branch to examine."""
_MAX_ARTIFACTS = 2
"""Maximum number of artifacts to open per run; each attempt may have uploaded one."""
_LIMITS = ArchiveLimits()


def earlier_attempt(forge: Forge, origin: Origin, pull_request: PullRequest, artifact: str) -> RunReport | None:
    """Returns the newest results of the same pull request.

    Args:
        forge: The repository.
        origin: The origin of this run.
        pull_request: The pull request; nothing is read for a fork.
        artifact: The name of the artifacts.

    Returns:
        None if there are no results with a comparison.

    Raises:
        ForgeError: A request failed.
    """
    if pull_request.is_fork or not origin.workflow or origin.run_id is None:
        return None
    for run_id in _runs(forge, origin, pull_request):
        for item in forge.list_artifacts(run_id, artifact)[:_MAX_ARTIFACTS]:
            report = None if item.expired else _report(forge, item)
            if report is not None and report.origin is not None and report.decision is not None:
                own = report.origin
                if own.pull_request == origin.pull_request and same_repository(own.repository, origin.repository):
                    return report
    return None


def _runs(forge: Forge, origin: Origin, pull_request: PullRequest) -> Iterator[int]:
    """Yields the ids of this run, if it was re-run, and of earlier runs of its branch; newest first."""
    assert origin.run_id is not None
    if (origin.run_attempt or 1) > 1:
        yield origin.run_id
    listed = forge.list_runs(
        workflow=origin.workflow, event=origin.event, branch=pull_request.head_ref, limit=4 * _MAX_RUNS
    )
    fit = [
        run.id
        for run in listed
        if run.id < origin.run_id
        and run.status == "completed"
        and run.workflow_path == origin.workflow
        and run.head_repository is not None
        and same_repository(run.head_repository.full_name, origin.repository)
    ]
    yield from sorted(fit, reverse=True)[:_MAX_RUNS]


def _report(forge: Forge, artifact: Artifact) -> RunReport | None:
    """Returns the results in an artifact; None if they are missing or unreadable."""
    if artifact.size_in_bytes > _LIMITS.archive_bytes:
        return None
    data = forge.download_artifact(artifact.id, max_bytes=_LIMITS.archive_bytes)
    try:
        report = read_report(read_results(data, _LIMITS), "The previous attempt's artifact")
    except UnsafeArchive:
        return None
    return report if isinstance(report, RunReport) else None
